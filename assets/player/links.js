/* Links to a view of a run: #run=NAME&step=N&node=K, or &word=W for a word of the answer; &view=step or answer. The address
   follows what is shown without adding to the browser's history. A link is a stranger's: what it names is checked. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, keyOf } = FOVEA;
  const SETTLED_MS = 400; // browsers refuse an address that changes with every frame
  const PARTS = { run: /^[\w-]{1,80}$/, step: /^\d{1,6}$/, node: /^\d{1,4}$/, word: /^\d{1,5}$/, view: /^(word|step|answer)$/ };
  const MISFIT = "This link does not fit the run that is shown, so it was not followed.";

  /** The place that a fragment names: {run, step, node, word, view}, each a string or undefined, bad where one of them cannot
      be; null for a fragment that is none of ours. */
  function readPlace(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, "")), place = { bad: false };
    let ours = false;
    for (const [name, lawful] of Object.entries(PARTS)) {
      const value = given.get(name);
      if (value === null) continue;
      ours = true;
      if (lawful.test(value)) place[name] = value;
      else place.bad = true;
    }
    return ours ? place : null;
  }

  /** The fragment of what ``player`` shows, without its #; "" before it shows a step. */
  function writePlace(player) {
    if (player.at < 0) return "";
    const item = player.item(player.pinned), parts = player.name ? [["run", player.name]] : [], node = item && item.judged !== undefined;
    parts.push(["step", node ? item.round.step : player.at]); // a node's number counts within its own step
    if (node) parts.push(["node", item.id]);
    else if (item) parts.push(["word", item.index]);
    if (player.view !== "word") parts.push(["view", player.view]);
    return parts.map((part) => part.join("=")).join("&");
  }

  /** Shows ``place`` in the run that is shown; false, and nothing moves, where that run has no such place. */
  function gotoPlace(player, place) {
    const { run } = player;
    if (place.bad) return false;
    if (!place.step && !place.word && !place.node && !place.view) return true; // only the run: it plays from its start
    const number = (text) => (text === undefined ? null : Number(text));
    const word = number(place.word), node = number(place.node), said = word === null ? null : run.words[word];
    const step = number(place.step) ?? (said ? said.step : player.at);
    if (step > run.steps || (word !== null && !said)) return false;
    const drafted = node === null || node === 0 ? null : run.rounds[step - 1]?.nodes.get(node);
    if (node && !drafted) return false;
    player.goto(step);
    player._setView(place.view || "word");
    const item = drafted || said;
    if (item) player.pinned = keyOf(item);
    player._draw();
    return true;
  }

  class Links {
    /** on = {open(name): shows another run, if this page has it, and then calls arrived; absent where there is only one}. */
    constructor(player, on) {
      this.player = player;
      this.on = on;
      this.known = location.hash; // what was last read or written; where the address differs, its event is still on its way
      this.waiting = readPlace(location.hash);
      if (on.open && !this.waiting?.run) this.waiting = null;
      this.clock = null;
      this.button = h("button", { type: "button", class: "fv-button", onclick: () => this.copy() }, "Copy link");
      window.addEventListener("hashchange", () => this.follow());
      if (this.waiting && on.open) setTimeout(() => this.waiting && on.open(this.waiting.run)); // when the page around it stands
    }

    /** The address was changed by hand, by a link, or by going back. */
    follow() {
      this.known = location.hash;
      const place = readPlace(location.hash);
      if (!place || location.hash.slice(1) === writePlace(this.player) || (this.on.open && !place.run)) return;
      this.waiting = place;
      if (this.on.open && place.run && place.run !== this.player.name) this.on.open(place.run);
      else this.arrived(this.player.name);
    }

    /** A run is shown; ``name``: what links call it, null where it has no name. Goes where the waiting link points. */
    arrived(name) {
      const place = this.waiting;
      this.player.name = name;
      this.waiting = null;
      const { note } = this.player, wanted = place && (!this.on.open || place.run === name);
      if (wanted && note.textContent === MISFIT) note.hidden = true;
      if (wanted && !gotoPlace(this.player, place)) this.player.trouble(MISFIT);
      this.shown();
    }

    /** The run that a link asked for is not here. */
    missing() {
      this.waiting = null;
      this.shown();
    }

    /** Whether a link can bring back what is shown. */
    get possible() {
      return this.player.at >= 0 && !this.player.dropped && (!this.on.open || Boolean(this.player.name));
    }

    /** Something else is shown: the address follows once it has come to rest. */
    shown() {
      const can = this.possible;
      this.button.disabled = !can;
      this.button.title = can ? "the address of this view" : "only recorded examples have an address; save the page or the trace instead";
      if (this.clock || this.waiting) return;
      this.clock = setTimeout(() => {
        this.clock = null;
        if (this.player.playing || this.waiting || location.hash !== this.known) return;
        const now = this.possible ? writePlace(this.player) : "";
        if (now !== location.hash.slice(1) && (now || readPlace(location.hash))) this._replace(now);
      }, SETTLED_MS);
    }

    _replace(fragment) {
      try {
        history.replaceState(history.state, "", fragment ? `#${fragment}` : location.pathname + location.search);
        this.known = location.hash;
      } catch {
        // a page that has no address of its own stays where it is
      }
    }

    /** Puts the link on the clipboard; where that is closed, into the address. */
    async copy() {
      const fragment = writePlace(this.player);
      this._replace(fragment);
      const link = location.href.split("#")[0] + `#${fragment}`;
      let copied = true;
      try {
        await navigator.clipboard.writeText(link);
      } catch {
        copied = copyByHand(link);
      }
      this.player.said(copied ? "The link is copied." : "The clipboard is closed to this page; the link stands in the address bar.");
    }
  }

  /** The old way, which also works where a page is not served over a safe connection. */
  function copyByHand(text) {
    const field = h("textarea", { readonly: true, "aria-hidden": "true" });
    field.className = "fv-unseen";
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  Object.assign(FOVEA, { Links, readPlace, writePlace });
})();
