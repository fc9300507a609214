/* The lesson: eight steps on one recorded run. This file is the frame (steps, dots, keys, state); what a step shows is in
   writing.js and looking.js, what it chooses from the run in pick.js. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, para, plural, lessonButton, lessonSteps: STEPS, Run, TraceError, Stage, Tree, projector } = FOVEA;
  const KEY = "fovea-learn";
  const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  let serial = 0;

  /** A whole run of ``lines``. Throws TraceError where they are not lawful. */
  function runOf(lines) {
    const run = new Run();
    for (const line of lines) run.add(line);
    if (!run.prefill || !run.words.length) throw new TraceError("This trace ends before its first word; there is nothing to learn from it.");
    run.serial = `lesson-${(serial += 1)}`;
    run.measure();
    return run;
  }

  class Learn {
    /** on = {pick(index)}: another recorded run is wanted; its lines come back through ``set``. */
    constructor(root, on) {
      Object.assign(this, { root, on, run: null, at: 0, answers: {}, name: null, leave: null, drawn: [[], "none"] });
      this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
      this.stage = new Stage({ change: () => this.redraw(), patch: (entries) => this.pickPatch?.(entries), trouble: (text) => this.trouble(text) });
      this.stage.perStep = true; // one map at a time is shown, so each may use all colours
      this._build();
      this._restoreKept();
      root.addEventListener("keydown", (event) => this._key(event));
      this._draw();
    }

    /* ---- what the page around it calls ---- */

    /** Value: {runs: [{title}], index, lines, without, trouble}; ``lines``: header and events of run ``index``, none where it is
        still wanted; ``without``: event lines of the same request without the memory, or none. */
    set(value) {
      this.runs = value.runs || [];
      this.chooser.replaceChildren(...this.runs.map((run, i) => h("option", { value: i }, run.title)));
      this.chooserBox.hidden = this.runs.length < 2;
      if (value.trouble) return this.trouble(value.trouble);
      if (value.lines && value.lines.length) return this._take(value);
      const known = this.runs.findIndex((run) => run.title === this.name);
      if (this.runs.length) this.on.pick(Math.max(0, known));
      else this.trouble("There is no recorded run to learn from: make traces records some.");
    }

    _take({ index, lines, without }) {
      try {
        const run = runOf(lines), other = without && without.length ? runOf([lines[0], ...without]) : null, name = this.runs[index].title;
        if (this.name !== name) this.answers = {};
        this.stage.clear();
        Object.assign(this, {
          name, run, without: other, round: FOVEA.lessonRound(run), word: FOVEA.lessonWord(run), reads: FOVEA.lessonReads(run),
          share: FOVEA.askedShare(run), pair: FOVEA.lessonPair(run, other),
        });
        this.stage.setRun(run);
        this.chooser.value = index;
        this.note.hidden = true;
        this._draw();
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        this.trouble(error.message);
      }
    }

    /** Where the reader is: {name, step, answers}; ``restore`` takes it back. */
    get state() {
      return { name: this.name, step: this.at, answers: this.answers };
    }

    restore({ name, step, answers }) {
      const index = (this.runs || []).findIndex((run) => run.title === name);
      Object.assign(this, { at: Math.min(STEPS.length - 1, Math.max(0, Number.isInteger(step) ? step : 0)), answers: answers && typeof answers === "object" ? answers : {} });
      if (index >= 0 && name !== this.name) {
        this.name = name;
        this.on.pick(index);
      } else this._draw();
    }

    /** Shows one sentence about something that went wrong. */
    trouble(sentence) {
      say(this.note, sentence);
      this.note.hidden = false;
    }

    /** Goes to step ``at``, counted from 0; the title takes the focus, so that it is read aloud and keys keep working. */
    go(at) {
      if (!this.run || at < 0 || at >= STEPS.length) return;
      this.at = at;
      this._draw();
      this.title.focus({ preventScroll: true });
      const top = this.root.getBoundingClientRect().top;
      if (top < 0) this.root.scrollIntoView({ block: "start" });
    }

    /* ---- what steps use ---- */

    /** What the reader did in a step, or undefined. */
    answer(id) {
      return this.answers[id];
    }

    /** The same as a whole number within bounds. */
    number(id, least, most, otherwise) {
      const value = this.answers[id];
      return Math.max(least, Math.min(most, Number.isInteger(value) ? value : otherwise));
    }

    keep(id, value) {
      this.answers[id] = value;
      try {
        sessionStorage.setItem(KEY, JSON.stringify(this.state));
      } catch {
        // not kept, then
      }
    }

    /** The frame with the picture, showing the mean of ``reads`` (none: the picture alone); ``key`` names what is shown. */
    picture(reads, key) {
      this.drawn = [reads, `${this.run.serial} ${key}`];
      this.stage.canvas.setAttribute("aria-label", reads.length ? `Map of retrieved entries, most mass in ${this.run.nameOf(reads[0].entries[0])}` : "The picture of this run");
      this.redraw();
      return this.stage.frame;
    }

    redraw() {
      if (this.run) this.stage.show(...this.drawn);
    }

    /** The draft tree of ``round``; ``secret`` keeps the verdict back; ``pin(key)`` is called for a node that is chosen. */
    drawTree(round, secret, pin = null) {
      const host = h("div", { class: "fv-tree" }), tree = new Tree(host, { peek() {}, pin: (key) => pin?.(key) });
      tree.show(this.run, round, secret);
      host.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], key = event.target.closest?.("[data-key]")?.dataset.key;
        if (step) tree.move(step);
        else if (key && (event.key === "Enter" || event.key === " ")) pin?.(key);
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
      return host;
    }

    /** Makes the picture ask for a patch: by pointer, or by arrows and Enter. */
    askPatch(onPick, onMiss) {
      const { canvas } = this.stage, { run } = this;
      let cursor = run.entriesAt(0.5, 0.5)[0] ?? run.valid.indexOf(1);
      this.pickPatch = (entries) => {
        if (!entries.length) return onMiss("This part of the picture was not seen by the model; try another.");
        cursor = entries[0];
        onPick(cursor);
      };
      const onKey = (event) => {
        const move = MOVES[event.key], chosen = event.key === "Enter" || event.key === " ";
        if (!move && !chosen) return;
        event.preventDefault();
        event.stopPropagation();
        if (chosen) return onPick(cursor);
        cursor = this._beside(cursor, ...move);
        this.stage.picked = [cursor];
        canvas.setAttribute("aria-label", `Patch in ${run.nameOf(cursor)}; Enter chooses it`);
        this.redraw();
      };
      canvas.addEventListener("keydown", onKey);
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "button");
      this.unask = () => {
        canvas.removeEventListener("keydown", onKey);
        canvas.removeAttribute("tabindex");
        canvas.setAttribute("role", "img");
        this.stage.picked = this.pickPatch = this.unask = null;
      };
      return this.stage.frame;
    }

    /** The nearest valid entry beside ``entry`` in a direction of its own grid; itself at the edge. */
    _beside(entry, down, right) {
      const { tile, row, column } = this.run.place(entry);
      for (let r = row + down, c = column + right; r >= 0 && c >= 0 && r < tile.rows && c < tile.columns; r += down, c += right) {
        const at = tile.first + r * tile.columns + c;
        if (this.run.valid[at]) return at;
      }
      return entry;
    }

    /** Switches a button off or on; the title takes the focus from one that goes off, so that keys keep working. */
    disable(button, off) {
      if (off && document.activeElement === button) this.title.focus({ preventScroll: true });
      button.disabled = off;
    }

    sorry(sentence) {
      return h("p", { class: "fl-sorry" }, sentence);
    }

    /** Figure and action of a step about drafts where the run has none. */
    noDrafts() {
      return { figure: this.picture([], "plain"), act: h("div", null, this.sorry("This run recorded no drafted words; choose another run above.")) };
    }

    /* ---- the frame ---- */

    _build() {
      const { root } = this;
      root.classList.add("fv", "fl");
      root.setAttribute("role", "region");
      root.setAttribute("aria-label", "Lesson in eight steps");
      root.tabIndex = -1;
      this.chooser = h("select", { class: "fl-select", onchange: () => this.on.pick(Number(this.chooser.value)) });
      this.chooserBox = h("label", { class: "fv-check" }, "recorded run", this.chooser);
      this.dots = STEPS.map((step, i) => h("button", { type: "button", class: "fl-dot", "aria-label": `Step ${i + 1}: ${step.title}`, title: step.title, onclick: () => this.go(i) }, h("span", null, String(i + 1))));
      this.note = h("p", { class: "fv-note", role: "alert", hidden: true });
      this.kicker = h("p", { class: "fl-kicker" });
      this.title = h("h2", { class: "fl-title", tabindex: -1 });
      this.text = h("div", { class: "fl-words" });
      this.figure = h("div", { class: "fl-figure" });
      this.act = h("div", { class: "fl-act" });
      this.body = h("article", { class: "fl-step" }, h("div", { class: "fl-text" }, this.kicker, this.title, this.text), this.figure, this.act);
      this.waiting = h("p", { class: "fv-empty" }, "Opening a recorded run …");
      this.back = lessonButton("‹ Back", () => this.go(this.at - 1));
      this.next = lessonButton("Next ›", () => this.go(this.at + 1), true);
      this.nav = h("nav", { class: "fl-nav", "aria-label": "Steps of the lesson" }, this.back, h("ol", { class: "fl-dots" }, ...this.dots.map((dot) => h("li", null, dot))), this.next);
      root.replaceChildren(h("header", { class: "fl-top" }, h("p", { class: "fv-hint" }, "Eight short steps on a recorded run; nothing is computed, every number was measured when it was recorded. Keys: ← →"), this.chooserBox, lessonButton("Start over", () => this._again()), projector.button()), this.note, this.waiting, this.body, this.nav);
      root.addEventListener("pointerdown", (event) => {
        if (!event.target.closest("button, input, select, label, [tabindex='0'], [data-key]")) root.focus({ preventScroll: true });
      });
    }

    /** From the first step, as if nothing had been answered. */
    _again() {
      this.answers = {};
      if (this.run) this.go(0);
    }

    _restoreKept() {
      try {
        const kept = JSON.parse(sessionStorage.getItem(KEY));
        if (kept && typeof kept.name === "string") {
          this.name = kept.name;
          this.restore(kept);
        }
      } catch {
        // nothing usable was kept: the lesson begins at its first step
      }
    }

    _draw() {
      this.body.hidden = this.nav.hidden = !this.run;
      this.waiting.hidden = Boolean(this.run) || !this.note.hidden;
      if (!this.run) return;
      this.leave?.();
      this.unask?.();
      const step = STEPS[this.at], { text, figure, act, leave } = step.build(this);
      this.leave = leave || null;
      say(this.kicker, `Step ${this.at + 1} of ${STEPS.length}${step.asks ? " · a question first" : ""}`);
      say(this.title, step.title);
      this.text.replaceChildren(...text);
      this.figure.replaceChildren(figure);
      this.act.replaceChildren(act);
      this.body.dataset.step = step.id;
      this.dots.forEach((dot, i) => {
        dot.classList.toggle("fl-done", i < this.at);
        if (i === this.at) dot.setAttribute("aria-current", "step");
        else dot.removeAttribute("aria-current");
      });
      this.back.disabled = this.at === 0;
      this.next.disabled = this.at === STEPS.length - 1;
      this.keep(step.id, this.answers[step.id]);
    }

    _key(event) {
      if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("select")) return;
      const onSlider = event.target.matches("input[type=range]");
      const acts = { Escape: () => projector.set(false), p: () => projector.set(!projector.on) };
      if (!onSlider) Object.assign(acts, { ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.go(this.at + 1), Home: () => this.go(0), End: () => this.go(STEPS.length - 1) });
      const act = Object.hasOwn(acts, event.key) ? acts[event.key] : null;
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    }
  }

  /** Makes the lesson in ``root``. on = {pick(index)}. */
  FOVEA.createLearn = (root, on) => new Learn(root, on);
})();
