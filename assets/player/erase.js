/* Erase and redraft: patches taken from the drafter, and the step in view drafted again without them by the page's engine.
   Only a player with options.redraft has it; a page without an engine has none. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, percent, middleOf, patchBeside, Redrafted } = FOVEA;

  /** Numbers in 0..1 that follow from ``seed`` alone (mulberry32). */
  function dice(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** ``count`` of ``from``, or all of them where there are fewer, drawn by ``seed``. */
  function draw(from, count, seed) {
    const pool = [...from], next = dice(seed);
    for (let i = 0; i < Math.min(count, pool.length); i += 1) {
      const at = i + Math.floor(next() * (pool.length - i));
      [pool[i], pool[at]] = [pool[at], pool[i]];
    }
    return pool.slice(0, count);
  }

  class Erase {
    constructor(player) {
      this.player = player;
      this.on = false;
      this.asked = 0;
      this.wish = null;
      const act = (text, title, run) => h("button", { type: "button", class: "fv-button", title, onclick: run }, text);
      this.button = h("button", { type: "button", class: "fv-button fv-toggle", "aria-pressed": "false", title: "Take patches from the drafter and draft this step again (key e)", onclick: () => this.toggle() }, "Erase");
      this.word = act("", "erase the entries of the map in view", () => this._take(this._inView().reads, this._nameOfView()));
      this.step = act("all this step fetched", "erase every entry that a state of this step retrieved", () => this._take(this._stepReads(), "all fetched"));
      this.others = act("as many others", "erase as many valid entries at random instead", () => this._others());
      this.none = act("clear", "erase nothing", () => this._set([], "nothing"));
      this.go = h("button", { type: "button", class: "fv-button fv-go", onclick: () => (this.wish ? this._cancel() : this._ask()) });
      this.count = h("span", { class: "fv-hint fv-erased" });
      this.status = h("p", { class: "fv-hint fv-said-of", role: "status" });
      this.panel = h("section", { class: "fv-erase", "aria-label": "Erase and redraft", hidden: true },
        h("p", { class: "fv-hint" }, "Click or brush patches to take them from the drafter, or erase:"),
        h("div", { class: "fv-chips" }, this.word, this.step, this.others, this.none), h("div", { class: "fv-row" }, this.go, this.count), this.status);
      this.canvas = h("canvas", { class: "fv-brush", tabindex: 0, role: "application", "aria-label": "Patches of the picture: arrow keys move, Space erases or restores one", hidden: true });
      this.canvas.addEventListener("pointerdown", (event) => this._down(event));
      this.canvas.addEventListener("pointermove", (event) => this._move(event));
      for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => this._up());
      this.canvas.addEventListener("keydown", (event) => this._key(event));
      for (const name of ["focus", "blur"]) this.canvas.addEventListener(name, () => this._draw());
      player.stage.frame.append(this.canvas);
      player.root.addEventListener("fv-redraft", (event) => this._answered(event.detail));
      this.redrafted = new Redrafted({ change: () => player._draw() });
      this.clear();
    }

    /** Another run: nothing is erased, nothing is awaited, and a click on the picture asks for words again. */
    clear() {
      if (this.wish) this._cancel();
      if (this.on) this.toggle();
      Object.assign(this, { lost: new Set(), given: null, name: "nothing", draws: 0, wish: null, stroke: null, cursor: null, drawn: "" });
      say(this.status, "");
      this.redrafted.clear();
    }

    toggle() {
      this.on = !this.on;
      this.button.setAttribute("aria-pressed", String(this.on));
      this.panel.hidden = this.canvas.hidden = !this.on;
      this.player._draw();
    }

    /* ---- what is erased ---- */

    _set(entries, name) {
      Object.assign(this, { lost: new Set(entries), name });
      if (!name.startsWith("others")) this.given = new Set(entries);
      if (!this.wish) say(this.status, "");
      this.player._draw();
    }

    _take(reads, name) {
      this._set(reads.flatMap((read) => [...read.entries]), name);
    }

    /** As many entries as were erased on purpose, or as the step fetched, at random from all the others. */
    _others() {
      const given = this.given?.size ? this.given : new Set(this._stepReads().flatMap((read) => [...read.entries]));
      const left = [...this._validEntries()].filter((entry) => !given.has(entry));
      this.given = given;
      this.draws += 1;
      this._set(draw(left, given.size, this.draws), `others, draw ${this.draws}`);
      if (left.length < given.size) say(this.status, `Only ${left.length} others are left; all of them are erased.`);
    }

    *_validEntries() {
      const { valid, entryCount } = this.player.run;
      for (let entry = 0; entry < entryCount; entry += 1) if (valid[entry]) yield entry;
    }

    _inView() {
      const { player } = this;
      return FOVEA.inView(player, this._round(), false);
    }

    _nameOfView() {
      const { item, reads } = this._inView();
      if (item && reads[0]?.event.source === "target") return `where the target looked for “${label(item.text, 16) || "∎"}”`;
      return item ? `what “${label(item.text, 16) || "∎"}” fetched` : "what this map shows";
    }

    _round() {
      const { run, at } = this.player;
      return at > 0 ? run.rounds[at - 1] : null;
    }

    _stepReads() {
      const round = this._round();
      return round ? [...round.reads.values()] : [];
    }

    /* ---- brush and keys ---- */

    _at(event) {
      const box = this.canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    }

    _down(event) {
      if (event.button !== 0 || !this.player.run.prefill) return;
      this.canvas.setPointerCapture(event.pointerId);
      const point = this._at(event), entries = this.player.run.entriesAt(...point);
      this.stroke = { erases: entries.some((entry) => !this.lost.has(entry)), point };
      this._brush([entries]);
    }

    _move(event) {
      if (!this.stroke) return;
      const [x0, y0] = this.stroke.point, [x1, y1] = this._at(event), steps = Math.ceil(Math.hypot(x1 - x0, y1 - y0) * 128) || 1;
      this.stroke.point = [x1, y1];
      this._brush(Array.from({ length: steps }, (_, i) => this.player.run.entriesAt(x0 + ((x1 - x0) * (i + 1)) / steps, y0 + ((y1 - y0) * (i + 1)) / steps)));
    }

    _up() {
      this.stroke = null;
    }

    _brush(touched) {
      const lost = new Set(this.lost);
      for (const entry of touched.flat()) if (this.stroke.erases) lost.add(entry); else lost.delete(entry);
      this._set(lost, lost.size ? "brushed" : "nothing");
    }

    _key(event) {
      const { run } = this.player, acts = event.key === " " || event.key === "Enter";
      if (event.altKey || event.ctrlKey || event.metaKey || !run.prefill) return;
      const there = acts ? this.cursor ?? middleOf(run) : patchBeside(run, this.cursor, event.key);
      if (there === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.cursor = there;
      if (acts) {
        this.stroke = { erases: !this.lost.has(this.cursor) };
        this._brush([[this.cursor]]);
        this._up();
      }
      say(this.player.live, `${run.nameOf(this.cursor)}: ${this.lost.has(this.cursor) ? "erased" : "there"}`);
      this._draw();
    }

    /* ---- asking the engine ---- */

    /** Why this step cannot be drafted again, in one sentence; "" where it can. */
    _obstacle() {
      const { run } = this.player, round = this._round();
      if (!run.started || !run.prefill) return "There is no run to redraft yet.";
      if (!run.started.drafter || run.started.policy === "none") return "The drafter of this run looks at no entries, so there is nothing to erase.";
      if (FOVEA.kindOf(run.started)) return "The drafter of this run has no visual memory; what its own reader reads cannot be erased here.";
      if (!round) return "The target wrote the first word itself; go to step 1 or later to redraft it.";
      if (!round.verdict) return "This step is still being checked.";
      const { accepted, rejected, unverified, pruned } = round.verdict;
      if (accepted.length + rejected.length + unverified.length + pruned === 0) return "Nothing was drafted in this step; take another one.";
      return this.lost.size ? "" : "Nothing is erased yet.";
    }

    _ask() {
      const { run, at, options } = this.player;
      if (this._obstacle()) return;
      const events = [run.started, run.prefill, ...run.rounds.slice(0, at).map((round) => round.verdict)];
      this.asked += 1;
      this.wish = { asked: this.asked, round: at - 1, lost: [...this.lost].sort((a, b) => a - b), name: this.name };
      say(this.status, "Asking the model …");
      options.redraft({ asked: this.wish.asked, round: this.wish.round, lost: this.wish.lost, lines: events.map((event) => JSON.stringify(event)) });
      this.player._draw();
    }

    /** The person does not wait for it any more; what the engine still says about it is left out. */
    _cancel() {
      this.wish = null;
      this.player.options.cancelRedraft();
      say(this.status, "The redraft was cancelled; the run is as it was.");
      this.player._draw();
    }

    /** What the engine says about a wish: {asked, phase, text, found}; answers to older wishes are left out. */
    _answered({ asked, phase, text, found }) {
      if (!this.wish || asked !== this.wish.asked) return;
      say(this.status, text);
      if (!["done", "stopped", "trouble"].includes(phase)) return;
      const { wish } = this;
      this.wish = null;
      if (phase === "done") {
        const tried = this.redrafted.add(this.player.run, wish, found);
        say(this.status, `Step ${tried.step} redrafted without ${tried.count} of ${this.player.run.validCount} entries: words it brings ${tried.old} → ${tried.now}${tried.same ? ", the answer stays the same." : "."}`);
        if (this.player.at === tried.step) this.redrafted.box.scrollIntoView({ block: "nearest", behavior: this.player.calm.matches ? "auto" : "smooth" });
      }
      this.player._draw();
    }

    release() {
      this.redrafted.release();
    }

    /** Both trees of a redraft, for whoever walks along trees by key. */
    get trees() {
      return this.redrafted.trees;
    }

    /** The node of a redraft's tree that is looked at, or null. */
    inView() {
      return this.redrafted.inView();
    }

    /* ---- what is shown ---- */

    show() {
      const { run, at } = this.player, obstacle = this._obstacle();
      this.redrafted.at(at);
      if (!this.on) return;
      say(this.word, this._nameOfView());
      this.word.disabled = this._inView().reads.length === 0;
      this.step.disabled = this._stepReads().length === 0;
      this.others.disabled = !this.lost.size && !this.given?.size && this.step.disabled;
      this.none.disabled = this.lost.size === 0;
      say(this.go, this.wish ? "Cancel" : at > 0 ? `Redraft step ${at}` : "Redraft");
      this.go.disabled = !this.wish && obstacle !== "";
      say(this.count, obstacle || `${this.lost.size} of ${run.validCount} entries erased (${percent(this.lost.size / run.validCount)})`);
      this._draw();
    }

    /** Hatches the erased patches; their rim stands out on any picture and map. */
    _draw() {
      const { run, stage } = this.player, { canvas } = this, { width, height } = stage.canvas;
      const focused = document.activeElement === canvas;
      const key = [run.serial, width, height, focused && this.cursor, ...this.lost].join();
      if (!this.on || key === this.drawn) return;
      this.drawn = key;
      Object.assign(canvas, { width, height });
      const heat = stage.heat, pen = canvas.getContext("2d"), line = Math.max(1, width / 640);
      if (!heat || !run.prefill) return;
      pen.save();
      pen.beginPath();
      for (const entry of this.lost) {
        const { box } = run.place(entry), x = Math.round(box[0] * width), y = Math.round(box[1] * height);
        pen.rect(x, y, Math.round(box[2] * width) - x, Math.round(box[3] * height) - y);
      }
      pen.clip();
      pen.fillStyle = "rgba(20, 20, 24, .72)";
      pen.fillRect(0, 0, width, height);
      pen.beginPath();
      for (let x = -height; x < width; x += 7 * line) {
        pen.moveTo(x, height);
        pen.lineTo(x + height, 0);
      }
      pen.lineWidth = 1.5 * line;
      pen.strokeStyle = "rgba(255, 255, 255, .55)";
      pen.stroke();
      pen.restore();
      if (this.lost.size) heat.outline(canvas, [...this.lost], "rgba(255,255,255,.85)", line);
      if (focused && this.cursor !== null) heat.outline(canvas, [this.cursor], "#ff4d9d", line * 3);
    }
  }

  Object.assign(FOVEA, { Erase });
})();
