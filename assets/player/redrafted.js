/* What came of a redraft: the step's tree before and after, words whose log-probability changed, and what stays as it is. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, chance, keyOf, Run, Tree } = FOVEA;
  const SIDES = ["old", "new"];

  /** The run up to step ``step``, and that step as ``lines`` have it: a run of its own, for the tree and the captions. */
  function fork(run, step, lines, serial) {
    const other = new Run(), { number } = run.rounds[step - 1];
    for (const line of run.lines) {
      if (JSON.parse(line).round === number) break;
      other.add(line);
    }
    for (const line of lines) other.add(JSON.stringify({ ...JSON.parse(line), n: other.events, round: number }));
    other.serial = serial;
    return other;
  }

  const last = (run) => run.rounds[run.rounds.length - 1];

  /** Words from the root to each node of a round, as one text a node: two trees are compared by these. */
  function paths(round) {
    const found = new Map([[0, ""]]);
    for (const node of round.nodes.values()) found.set(node.id, `${found.get(node.parent)} ${node.token}`);
    found.delete(0);
    return found;
  }

  /** One answer of the engine to a wish, made ready to show. run: the player's; found: {old, new: event lines, words}. */
  function makeTry(run, wish, found) {
    const sides = SIDES.map((side) => fork(run, wish.round + 1, found[side], `${run.serial} ${wish.asked} ${side}`));
    const rounds = sides.map(last), trees = rounds.map(paths);
    const [old, now] = rounds.map((round) => round.wordCount);
    const emitted = rounds.map((round) => round.verdict.emitted);
    const said = run.words.slice(rounds[0].firstWord).map((word) => word.token);
    const same = emitted.every((tokens) => tokens.every((token, i) => i >= said.length || token === said[i]));
    const recorded = run.rounds[wish.round], before = [...paths(recorded).values()].sort().join(), here = [...trees[0].values()].sort().join();
    return {
      step: wish.round + 1, count: wish.lost.length, name: wish.name, sides, rounds, old, now, same,
      changed: trees.map((tree, i) => {
        const other = new Set(trees[1 - i].values());
        return rounds[i].nodes.size ? [...rounds[i].nodes.values()].filter((node) => !other.has(tree.get(node.id))) : [];
      }),
      words: found.words.map(([token, a, b], i) => ({ token, old: a, now: b, word: run.words[recorded.firstWord + i] })),
      otherwise: recorded.nodes.size > 0 && before !== here,
    };
  }

  const entries = (count) => (count === 1 ? "1 entry" : `${count} entries`);
  const words = (count) => (count === 1 ? "1 word" : `${count} words`);

  /** Why the answer stays, in one sentence after another. */
  function verdict(tried) {
    if (!tried.same) return "This redraft disagrees with the answer, which must not happen: please report it with the saved trace.";
    const pace = tried.now < tried.old ? `Without these entries the step brings ${words(tried.now)} instead of ${tried.old}, so the answer only takes longer.`
      : tried.now > tried.old ? `Without these entries the step even brings ${words(tried.now)} instead of ${tried.old}.`
        : `The step brings ${words(tried.now)}, as before.`;
    return `The answer cannot change: the target checks every drafted word and keeps its own. ${pace}`;
  }

  /** "+0.31" or "−2.40"; nats. */
  const signed = (value) => (Math.abs(value) < 0.005 ? "0.00" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);

  class Redrafted {
    /** on = {change()}: called when another node is looked at. */
    constructor(on) {
      this.on = on;
      this.tries = [];
      this.shown = this.peeked = this.pinned = null;
      this.title = h("span");
      this.chips = h("div", { class: "fv-chips", role: "group", "aria-label": "Redrafts of this run" });
      this.verdict = h("p", { class: "fv-stays" });
      this.trees = SIDES.map((_, side) => new Tree(h("div", { class: "fv-tree" }), { peek: (key) => this._look(side, key, false), pin: (key) => this._look(side, key, true) }));
      this.names = SIDES.map(() => h("h4"));
      this.table = h("tbody");
      this.words = h("table", { class: "fv-changes" }, h("caption", null, "Words of this step, and how likely the drafter found each, following the answer"),
        h("thead", null, h("tr", null, ...["word", "p with all", "p without", "change of log-probability"].map((text) => h("th", { scope: "col" }, text)))), this.table);
      this.note = h("p", { class: "fv-hint" });
      this.box = h("section", { class: "fv-wide fv-redrafted", "aria-label": "Redraft", hidden: true },
        h("div", { class: "fv-name" }, h("h3", null, "Redraft"), this.title), this.verdict, this.chips,
        h("div", { class: "fv-pair" }, ...SIDES.map((side, i) => h("section", { "aria-label": `Tree ${side}` }, this.names[i], this.trees[i].host))),
        h("div", { class: "fv-scroll" }, this.words), this.note);
    }

    clear() {
      Object.assign(this, { tries: [], shown: null, peeked: null, pinned: null });
      this.box.hidden = true;
    }

    /** Keeps what came of a wish and shows it. Returns it. */
    add(run, wish, found) {
      const tried = makeTry(run, wish, found);
      this.tries = [...this.tries.filter((other) => other.step === tried.step).slice(-7), tried];
      this.show(tried);
      return tried;
    }

    /** Shows what was tried on step ``step``, if anything was. */
    at(step) {
      this.box.hidden = !this.shown || this.shown.step !== step;
      if (this.box.hidden) this.peeked = this.pinned = null;
    }

    show(tried) {
      Object.assign(this, { shown: tried, peeked: null, pinned: null });
      this.box.hidden = false;
      say(this.title, `step ${tried.step}, without ${entries(tried.count)}`);
      say(this.verdict, verdict(tried));
      this.verdict.classList.toggle("fv-bad", !tried.same);
      this.chips.hidden = this.tries.length < 2;
      this.chips.replaceChildren(...this.tries.map((other) => h("button", { type: "button", class: "fv-chip", "aria-pressed": String(other === tried), onclick: () => this.show(other) },
        `${other.name}, ${entries(other.count)} `, h("span", null, `${other.old} → ${other.now}`))));
      const kept = [tried.old, tried.now], gone = tried.changed.map((nodes) => nodes.length);
      this.names.forEach((name, i) => say(name, `${i ? "without them" : "with all entries"}: ${words(kept[i])}, ${gone[i] ? `${gone[i]} of ${tried.rounds[i].nodes.size} guesses ${i ? "new" : "gone without them"}` : "the same guesses"}`));
      this.trees.forEach((tree, i) => {
        tree.show(tried.sides[i], tried.rounds[i]);
        this._mark(i);
      });
      this._words(tried);
      say(this.note, tried.otherwise ? "The tree on the left was drafted anew on this machine; it differs a little from the recorded one, since machines round differently." : "");
      this.on.change();
    }

    /** Marks the nodes that only one of the trees has. */
    _mark(side) {
      const { shown } = this;
      for (const node of shown.changed[side]) {
        const group = this.trees[side].scroll.querySelector(`[data-key="${CSS.escape(keyOf(node))}"]`);
        group.classList.add("fv-changed");
        group.setAttribute("aria-label", `${group.getAttribute("aria-label")}, ${side ? "new: only without the entries" : "gone without the entries"}`);
      }
    }

    _words(tried) {
      this.words.hidden = tried.words.length === 0;
      const most = Math.max(1, ...tried.words.map((word) => Math.abs(word.now - word.old)));
      this.table.replaceChildren(...tried.words.map((word) => {
        const change = word.now - word.old, bar = h("i", { class: change < 0 ? "fv-less" : "fv-gain" });
        bar.style.width = `${(100 * Math.abs(change)) / most}%`;
        return h("tr", null, h("th", { scope: "row", dir: "auto" }, (word.word && label(word.word.text)) || `token ${word.token}`), h("td", null, chance(word.old)), h("td", null, chance(word.now)),
          h("td", null, h("span", { class: "fv-change" }, h("span", null, signed(change)), h("span", { class: "fv-extent", "aria-hidden": "true" }, bar))));
      }));
    }

    _look(side, key, pin) {
      const what = key && { side, key };
      if (pin) this.pinned = this.pinned && this.pinned.side === side && this.pinned.key === key ? null : what;
      else this.peeked = what;
      this.trees.forEach((tree, i) => tree.mark(this.pinned && this.pinned.side === i ? this.pinned.key : null));
      this.on.change();
    }

    release() {
      this.peeked = this.pinned = null;
      this.trees.forEach((tree) => tree.mark(null));
    }

    /** The node of a tree that is looked at: {run, item, reads, key}, as draw.js shows it; null where none is. */
    inView() {
      const at = this.box.hidden ? null : this.peeked || this.pinned;
      if (!at) return null;
      const run = this.shown.sides[at.side], [kind, a, b] = at.key.split(":");
      const item = kind === "w" ? run.words[Number(a)] : run.rounds[Number(a) - 1]?.nodes.get(Number(b));
      return item ? { run, item, reads: [run.readOf(item)].filter(Boolean), key: `redraft ${run.serial} ${at.key}` } : null;
    }
  }

  Object.assign(FOVEA, { Redrafted });
})();
