/* Two players on one scrubber. The position is a number of answer tokens: exact decoding gives the same text both ways, so
   each player stands at its own step that holds that token, and both show the map of that one word. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, wayOf, segments, kindOf, differences, overlapAt, percent, milliseconds } = FOVEA;

  const SIDES = ["A", "B"];
  const EMPTY = ["Choose two ways and press Compare, or open an example.", "The second run appears here."];

  /** The word whose read is the sharpest of all, where a comparison opens; the last one where none was drafted with a look. */
  function sharpest(runs) {
    let best = Math.max(...runs.map((run) => run.words.length)) - 1, peak = -1;
    for (const run of runs)
      for (const word of run.words) {
        const read = run.readOf(word);
        if (read && read.event.peak > peak) [best, peak] = [word.index, read.event.peak];
      }
    return best;
  }

  class Comparison {
    constructor(root, options) {
      this.options = options || {};
      this.root = root;
      this.at = 0;
      this.following = true;
      this.pace = "4";
      root.classList.add("fv", "fc");
      root.setAttribute("role", "region");
      root.setAttribute("aria-label", "Two runs side by side");
      this.sides = SIDES.map((name, i) => this._side(name, i));
      this._build();
      root.addEventListener("keydown", (event) => this._key(event), true);
      root.addEventListener("click", (event) => this._pinned(event.target));
      root.addEventListener("keyup", (event) => event.key === "Enter" && this._pinned(event.target));
      this._grown();
    }

    _side(name, i) {
      const title = h("span", { class: "fc-way" }), host = h("div", { class: "fc-player" });
      const box = h("section", { class: "fc-side", "aria-label": `Run ${name}` }, h("h3", { class: "fc-name" }, h("span", { class: "fc-badge" }, name), title), host);
      const player = FOVEA.createPlayer(host, {
        mode: "live", autoplay: false, compact: true, empty: EMPTY[i], name: `Player of run ${name}`,
        opened: () => {
          this.following = true;
          this._grown();
          this.options.opened?.();
        },
      });
      return { name, title, box, player };
    }

    _build() {
      const button = (text, name, act) => h("button", { type: "button", class: "fv-button fv-key", "aria-label": name, title: name, onclick: act }, text);
      this.question = h("h2", { class: "fv-question", dir: "auto" });
      this.scrub = h("input", { type: "range", class: "fv-range fv-scrub", min: 1, max: 1, step: 1, value: 1, "aria-label": "Token of the answer", oninput: () => this.goto(Number(this.scrub.value)) });
      this.playButton = button("▶", "Play", () => this.toggle());
      this.count = h("span", { class: "fv-count" });
      this.word = h("span", { class: "fc-word", dir: "auto" });
      this.paces = segments("Pace in tokens per second", [["2", "2/s", "2 tokens a second"], ["4", "4/s", "4 tokens a second"], ["12", "12/s", "12 tokens a second"]], this.pace, (id) => {
        this.pace = id;
        this.paces.set(id);
        if (this.clock) this._play();
      });
      this.transport = h("div", { class: "fc-transport", hidden: true }, this.scrub,
        h("div", { class: "fv-row" },
          h("div", { class: "fv-keys" }, button("«", "First token", () => this.goto(1)), button("‹", "One token back", () => this.goto(this.at - 1)), this.playButton,
            button("›", "One token on", () => this.goto(this.at + 1)), button("»", "Last token", () => this.goto(this.length))),
          this.count, this.word, this.paces.box));
      this.note = h("p", { class: "fv-note", role: "status", hidden: true });
      this.figures = FIGURES.map(([name, hint]) => {
        const a = h("dd", { class: "fc-a" }), b = h("dd", { class: "fc-b" }), more = h("dd", { class: "fv-hint" }, hint);
        return { box: h("div", { class: "fc-figure" }, h("dt", null, name), a, b, more), a, b, more, hint };
      });
      this.row = h("section", { class: "fc-row", "aria-label": "Differences", hidden: true }, h("dl", null, ...this.figures.map((figure) => figure.box)));
      this.root.replaceChildren(this.question, this.note, this.transport, this.row, h("div", { class: "fc-pair" }, ...this.sides.map((side) => side.box)));
    }

    /* ---- what the page around it calls ---- */

    /** Shows the lines of A and B, two lists that only grow; null keeps what a side shows. */
    set(a, b) {
      [a, b].forEach((lines, i) => {
        if (!lines) return;
        const { player } = this.sides[i], before = player.run;
        if (lines.length) player.set(lines);
        else if (player.run.header) player.clear();
        if (player.run !== before) this.following = true; // another run
      });
      this._grown();
    }

    /** Tokens of the longer answer. */
    get length() {
      return Math.max(...this.sides.map(({ player }) => player.run.words.length));
    }

    _grown() {
      const runs = this.sides.map(({ player }) => player.run), shown = runs.filter((run) => run.started);
      this.transport.hidden = this.row.hidden = this.length === 0;
      this.question.hidden = shown.length === 0;
      say(this.question, shown.length ? label(shown[0].started.question, 2000) : "");
      this.sides.forEach(({ title }, i) => say(title, runs[i].started ? wayOf(runs[i].started) : ""));
      this.found = differences(...runs);
      const other = shown.length === 2 && !this.found.request;
      this.note.hidden = !other;
      say(this.note, other ? "A and B answered different questions, or saw different pictures: their figures stand side by side, their words do not belong together." : "");
      if (this.found.overlap.possible && kindsOf(runs).size === 1) {
        const scale = Math.max(...runs.map((run) => run.largestMass)); // one scale, or colours would not compare
        for (const { player } of this.sides) player.shareScale(scale);
      }
      this.scrub.max = Math.max(1, this.length);
      if (shown.length && shown.every((run) => run.finished) && this.following) {
        this.following = false;
        this._show(this.length); // both have shown all: what lies behind the position stays in sight
        this._show(sharpest(runs) + 1);
      } else this._follow();
    }

    /* ---- position and time ---- */

    /** Both players go to token ``at`` of the answer, counted from 1, and stay there. */
    goto(at) {
      this._pause();
      this.following = false;
      this._show(at);
    }

    /** Brings both players along with a run under way, four times a second: each time costs two maps and two answers. */
    _follow() {
      if (this.soon) return;
      const now = () => this._show(this.following ? this.length : this.at);
      this.soon = setTimeout(() => {
        this.soon = null;
        now();
      }, 250);
      if (this.at === 0) now(); // the first word at once
    }

    _show(at) {
      this.at = Math.max(Math.min(1, this.length), Math.min(this.length, at));
      for (const { player } of this.sides) player.toWord(Math.min(this.at, player.run.words.length) - 1);
      this._draw();
    }

    toggle() {
      if (this.clock) this._pause();
      else {
        this.following = false;
        if (this.at >= this.length) this._show(1);
        this._play();
      }
      this._draw();
    }

    _play() {
      clearInterval(this.clock);
      this.clock = setInterval(() => {
        if (this.at >= this.length) this._pause();
        else this._show(this.at + 1);
        this._draw();
      }, 1000 / Number(this.pace));
    }

    _pause() {
      clearInterval(this.clock);
      this.clock = null;
    }

    /** Keys of the pair, wherever the focus is inside it; the players would step on their own. */
    _key(event) {
      const { target, key } = event;
      if (event.altKey || event.ctrlKey || event.metaKey || (target.matches("input, select, textarea") && target !== this.scrub)) return;
      const far = event.shiftKey ? 5 : 1;
      const acts = { ArrowLeft: () => this.goto(this.at - far), ArrowRight: () => this.goto(this.at + far), Home: () => this.goto(1), End: () => this.goto(this.length), "?": () => {} };
      if (!target.closest("button, summary, a")) acts[" "] = () => this.toggle();
      if (!Object.hasOwn(acts, key) || this.length === 0) return;
      event.preventDefault();
      event.stopPropagation();
      acts[key]();
    }

    /** A word that a reader pinned in one player is shown in both. */
    _pinned(target) {
      const side = this.sides.find(({ box }) => box.contains(target)), word = side && side.player.pinnedWord();
      if (word && word.index + 1 !== this.at) this.goto(word.index + 1);
    }

    /* ---- what is in view ---- */

    _draw() {
      if (this.scrub.value !== String(this.at)) this.scrub.value = this.at;
      this.scrub.style.setProperty("--part", this.length > 1 ? `${(100 * (this.at - 1)) / (this.length - 1)}%` : "100%");
      say(this.count, `token ${this.at} of ${this.length}`);
      const words = this.sides.map(({ player }) => player.run.words[this.at - 1]).filter(Boolean);
      const said = words.length ? label(words[0].text, 32) || "∎" : "";
      say(this.word, said);
      this.scrub.setAttribute("aria-valuetext", `token ${this.at} of ${this.length}: ${said}`);
      say(this.playButton, this.clock ? "❚❚" : "▶");
      this.playButton.setAttribute("aria-label", this.clock ? "Pause" : "Play");
      const runs = this.sides.map(({ player }) => player.run);
      FIGURES.forEach(([, hint, of], i) => {
        const figure = this.figures[i], [a, b, more] = of(this.found, runs, this.at - 1);
        say(figure.a, a);
        say(figure.b, b ?? "");
        figure.b.hidden = b === null;
        say(figure.more, more ?? hint);
      });
    }
  }

  const fixed = (value, digits) => (value === null ? "–" : value.toFixed(digits));
  const against = (a, b, text) => (a === null || b === null || b === 0 ? undefined : text(a / b));
  /** Of what the masses of the runs with maps are shares: of FOVEA's memory (""), or the names of readers of a drafter's own. */
  const kindsOf = (runs) => new Set(runs.filter((run) => run.hasReads).map((run) => kindOf(run.started)?.name ?? ""));
  function sharesOf(runs) {
    const kinds = kindsOf(runs);
    if (![...kinds].some(Boolean)) return undefined;
    return kinds.has("") ? "mean share of all mass; where a drafter has a reader of its own, of its reading: these do not compare" : "mean share of what a drafter's own reader read";
  }
  const none = (looked) => (looked ? undefined : "no word was drafted with a look");

  /** The row of differences: [name, hint, (found, runs, index) => [A, B or null for one value, hint of its own]]. */
  const FIGURES = [
    ["tau", "tokens a round, bonus included", ({ a, b }) => [fixed(a.tau, 2), fixed(b.tau, 2), against(a.tau, b.tau, (share) => `tokens a round; A has ${share.toFixed(2)} × as many as B`)]],
    ["rounds", "target forwards after the first token", ({ a, b }) => [String(a.rounds), String(b.rounds)]],
    ["speed", "not measured: Compare times both here", ({ a, b }) => [a.speedup === null ? "–" : `${fixed(a.speedup, 2)} ×`, b.speedup === null ? "–" : `${fixed(b.speedup, 2)} ×`,
      a.ms === null || b.ms === null ? undefined : `plain decoding, measured; ${milliseconds(a.ms)} and ${milliseconds(b.ms)}`]],
    ["retrieved entries", "mean over the words drafted with a look", ({ a, b }, runs) => [fixed(a.entries, 1), fixed(b.entries, 1),
      a.looked || b.looked ? `of ${Math.max(...runs.map((run) => run.validCount))}; mean over ${a.looked} and ${b.looked} words drafted with a look` : none(0)]],
    ["captured mass", "mean share of all mass", ({ a, b }, runs) => [a.captured === null ? "–" : percent(a.captured), b.captured === null ? "–" : percent(b.captured),
      sharesOf(runs)]],
    ["same as the word before", "mean share of entries that a look and the one before it both retrieved", ({ a, b }) => [a.kept === null ? "–" : percent(a.kept), b.kept === null ? "–" : percent(b.kept)]],
    ["choosing entries", "milliseconds a round in these recorded runs, correction included", ({ a, b }) => [fixed(a.choosing, 2), fixed(b.choosing, 2)]],
    ["overlap, this word", "", ({ overlap, same }, runs, index) => {
      const here = overlap.possible && (same.at === null || index < same.at) ? overlapAt(...runs, index) : null;
      return [here ? percent(here.jaccard) : "–", null, here ? `${here.shared} of ${here.all} entries retrieved by both` : "needs two looks at the same word"];
    }],
    ["overlap, mean", "", ({ overlap }) => [overlap.mean === null ? "–" : percent(overlap.mean), null,
      overlap.words ? `over the ${overlap.words} words both drafted with a look` : overlap.possible ? "no word was drafted with a look by both" : "needs two runs on one picture"]],
    ["same text", "", ({ same, a, b }) => [same.ids === null ? "–" : same.ids ? "yes" : "no", null,
      same.ids === null ? "once both have ended" : same.ids ? `all ${a.tokens} tokens are equal` : `first differs at token ${same.at + 1} of ${Math.max(a.tokens, b.tokens)}`]],
  ];

  /** Makes a comparison in ``root``. options: opened() (a trace of the reader's own was dropped on a side). */
  FOVEA.createComparison = (root, options) => new Comparison(root, options);
})();
