/* The player: one run, one position, one selection; everything on the page follows from these. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, Run, TraceError, splitFile, LIMITS, Stage, segments, Answer, Tree, Strip, Numbers, Steps } = FOVEA;
  const { label, percent, keyOf, captionOf, PALETTES, download, OUTSIDE } = FOVEA;

  const EMPTY = {
    live: "Bring a picture, ask about it, and watch each word being drafted, checked and kept.",
    page: "Drop a trace here and watch its answer being drafted, checked and kept.",
  };
  const SLOW_ROUND_MS = 300; // slower engines are shown in real time
  const PHASES = [["propose", 0.42], ["check", 0.26], ["verdict", 0.18], ["done", 0.14]]; // shares of a step's time
  const HELP = [
    ["← →", "one step back, on"], ["Shift ← →", "five steps"], ["Home End", "first step, skip to the end"], ["Space", "play or pause"],
    ["↑ ↓", "walk along the words or the tree, once one has the focus"], ["Enter", "pin the word in focus"], ["Esc", "unpin"],
    ["1 2 3 4", "viridis, cividis, magma, spotlight"], ["?", "this list"],
  ];
  let serial = 0;

  class Player {
    constructor(root, options) {
      this.root = root;
      this.options = { mode: "page", autoplay: true, ...options };
      this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
      this.pace = "2";
      this.paceChosen = false;
      this.view = "word";
      this.source = [];
      this._build();
      this._listen();
      this.reset();
    }

    /* ---- what the page around it calls ---- */

    /** Makes the player show ``lines``, a list that only grows: new lines are appended, another run starts afresh. */
    set(lines) {
      const known = this.source.length;
      const grown = lines.length >= known && (known === 0 || (lines[0] === this.source[0] && lines[known - 1] === this.source[known - 1] && (known < 2 || lines[1] === this.source[1])));
      if (grown && !this.dropped && lines.length === known && known > 0) return;
      if (!grown || this.dropped) {
        this.source = [];
        this.reset();
      }
      const fresh = lines.slice(this.source.length);
      this.source = this.source.concat(fresh);
      this.append(fresh);
    }

    /** Takes further lines of the run in view. */
    append(lines) {
      if (!lines.length || this.broken) return;
      try {
        for (const line of lines) this.run.add(line);
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        this.broken = true;
        this.trouble(error.message);
      }
      this._grown();
    }

    /** Shows a whole recorded run. Throws TraceError, and keeps what was shown, when it is not lawful. */
    load(lines, at) {
      const run = new Run();
      for (const line of lines) run.add(line);
      this.reset();
      this.append(lines);
      if (at === "end") this.goto(this.run.steps);
    }

    reset() {
      this._stopClock();
      this.run = new Run();
      this.run.serial = serial += 1;
      Object.assign(this, { at: -1, seen: -1, phase: "done", playing: this.options.autoplay, pinned: null, peeked: null, patch: null, missed: false, used: null, broken: false, dropped: false, paced: false, stripAt: -2, stripScale: 0 });
      this.stage.clear();
      this.answer.clear();
      this.tree.show(this.run, null);
      this.strip.clear();
      this.steps.clear();
      this.note.hidden = true;
      this.body.hidden = true;
      this.empty.hidden = false;
      this._draw();
    }

    /** Shows one sentence about something that went wrong. */
    trouble(sentence) {
      say(this.note, sentence);
      this.note.hidden = false;
    }

    /* ---- elements ---- */

    _build() {
      const { root } = this;
      root.classList.add("fv");
      if (this.options.mode === "page") root.classList.add("fv-auto");
      root.setAttribute("role", "region");
      root.setAttribute("aria-label", "Player of a run");
      root.tabIndex = -1;
      const on = { peek: (key) => this._peek(key), pin: (key) => this._pin(key) };
      this.stage = new Stage({ change: () => this._restyle(), patch: (entries) => this._patch(entries), trouble: (text) => this.trouble(text) });
      const words = h("div", { class: "fv-answer", role: "group", "aria-label": "Answer, token by token", dir: "auto" });
      this.answer = new Answer(words, on);
      this.natural = h("p", { class: "fv-natural", dir: "auto", hidden: true });
      const branches = h("div", { class: "fv-tree" });
      this.tree = new Tree(branches, on);
      this.treeName = h("span");
      const figures = h("div", { class: "fv-numbers" });
      this.numbers = new Numbers(figures);
      const cards = h("div", { class: "fv-strip" });
      this.strip = new Strip(cards, {
        jump: (word) => this._jump(word), pinned: () => this._pinnedWord(), refresh: () => this._restrip(true),
        draw: (canvas, word, width) => this.stage.paint(canvas, this.run.readOf(word), width),
      });
      this.steps = new Steps((step) => this.goto(step));
      this.views = segments("View of the map", [["word", "word", "the map of the word in view"], ["step", "step", "mean over the step's accepted path"], ["answer", "whole answer", "mean over all words shown"]], this.view, (id) => this._setView(id));
      this.rejects = segments("Rejected nodes in the answer", [["none", "none", "hide rejected nodes"], ["first", "first choice", "the drafter's favourite where it was wrong"], ["all", "all", "every rejected and unverified node"]], "first", (id) => this._setRejects(id));
      words.dataset.alternatives = "first";
      this.caption = h("div", { class: "fv-caption" });
      this.usedBy = h("div", { class: "fv-usedby", hidden: true });
      this.question = h("h2", { class: "fv-question", dir: "auto" });
      this.meta = h("p", { class: "fv-meta" });
      this.pill = h("span", { class: "fv-pill" });
      this.note = h("p", { class: "fv-note", role: "alert", hidden: true });
      this.outside = h("p", { class: "fv-outside", role: "status", hidden: true });
      this.file = h("input", { type: "file", accept: ".jsonl,.json", hidden: true, onchange: () => {
        const [file] = this.file.files;
        if (file) this.open(file);
      } });
      const open = h("button", { type: "button", class: "fv-button", onclick: () => this.file.click() }, "Open a trace");
      this.empty = h("div", { class: "fv-empty" }, h("p", null, this.options.empty || EMPTY[this.options.mode]), this.options.mode === "page" ? open : null);
      this.live = h("p", { class: "fv-unseen", role: "status", "aria-live": "polite" });
      this.help = h("div", { class: "fv-help", hidden: true }, h("dl", null, ...HELP.flatMap(([keys, text]) => [h("dt", null, keys), h("dd", null, text)])));
      const name = (text, ...more) => h("div", { class: "fv-name" }, h("h3", null, text), ...more);
      const mark = (kind, text) => h("li", null, h("span", { class: `fv-word fv-${kind}` }, h("span", { class: "fv-ink" }, text)));
      const legend = h("ul", { class: "fv-marks", "aria-label": "Marks" }, mark("accepted", "accepted"), mark("bonus", "bonus"), mark("rejected", "rejected"), mark("unverified", "unverified"));
      const save = h("button", { type: "button", class: "fv-button", onclick: () => this._save() }, "Save trace (JSON)");
      this.strip.actions.append(save);
      this.body = h("div", { class: "fv-body", hidden: true },
        h("section", { class: "fv-look", "aria-label": "Picture" }, this.stage.frame, h("div", { class: "fv-row" }, this.views.box, this.stage.legend), this.caption, this.usedBy,
          this._transport(), h("details", { class: "fv-more" }, h("summary", null, "Colours and scale"), this.stage.controls)),
        h("section", { class: "fv-side" },
          h("section", { class: "fv-panel", "aria-label": "Answer" }, name("Answer", legend), words, this.natural, h("div", { class: "fv-row fv-small" }, h("span", { class: "fv-hint" }, "rejected shown"), this.rejects.box)),
          h("section", { class: "fv-panel", "aria-label": "Draft tree" }, name("Tree", this.treeName), branches),
          h("section", { class: "fv-panel", "aria-label": "Numbers" }, name("Numbers"), figures)),
        h("section", { class: "fv-wide", "aria-label": "Trajectory" }, name("Trajectory", h("span", null, "words whose maps are sharp and far apart"), this.strip.actions), cards),
        this.steps.box);
      this.head = h("header", { class: "fv-head" }, h("div", null, this.question, this.meta), this.pill);
      root.replaceChildren(this.file, this.head, this.outside, this.note, this.empty, this.body, this.help, this.live);
    }

    _transport() {
      const button = (text, name, act) => h("button", { type: "button", class: "fv-button fv-key", "aria-label": name, title: name, onclick: act }, text);
      this.playButton = button("▶", "Play", () => this.toggle());
      this.count = h("span", { class: "fv-count" });
      this.skip = h("button", { type: "button", class: "fv-button", onclick: () => this.skipToEnd() }, "Skip to end");
      this.paces = segments("Pace in steps per second", [["step", "step", "by key only"], ["1", "1/s", "1 step a second"], ["2", "2/s", "2 steps a second"], ["4", "4/s", "4 steps a second"], ["real", "real time", "as fast as it was measured"]], this.pace, (id) => this._setPace(id, true));
      this.scrub = h("input", { type: "range", class: "fv-range fv-scrub", min: 0, max: 0, step: 1, value: 0, "aria-label": "Step", oninput: () => this.goto(Number(this.scrub.value)) });
      this.bars = h("canvas", { class: "fv-bars", "aria-hidden": "true" });
      new ResizeObserver(() => this._drawBars()).observe(this.bars);
      return h("div", { class: "fv-transport" },
        h("div", { class: "fv-scrubber" }, this.bars, this.scrub),
        h("div", { class: "fv-row" },
          h("div", { class: "fv-keys" }, button("«", "First step", () => this.goto(0)), button("‹", "Step back", () => this.goto(this.at - 1)), this.playButton,
            button("›", "Step on", () => this.goto(this.at + 1)), button("»", "Last step", () => this.skipToEnd())),
          this.count, this.skip),
        h("div", { class: "fv-row" }, this.paces.box, button("?", "Keys (?)", () => this._toggleHelp())));
    }

    _listen() {
      const { root } = this;
      root.addEventListener("keydown", (event) => this._key(event));
      root.addEventListener("pointerdown", (event) => {
        if (!event.target.closest("button, input, summary, [tabindex='0'], [data-key], a")) root.focus({ preventScroll: true });
      });
      const carries = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
      root.addEventListener("dragover", (event) => {
        if (!carries(event)) return;
        event.preventDefault();
        root.classList.add("fv-over");
      });
      root.addEventListener("dragleave", (event) => root.contains(event.relatedTarget) || root.classList.remove("fv-over"));
      root.addEventListener("drop", (event) => {
        if (!carries(event)) return;
        event.preventDefault();
        event.stopPropagation();
        root.classList.remove("fv-over");
        const [file] = event.dataTransfer.files;
        if (file) this.open(file);
      });
    }

    /** Opens a dropped file as a trace; one sentence when it is none. */
    async open(file) {
      try {
        if (file.size > LIMITS.fileBytes) throw new TraceError("This file is too large to be a trace.");
        this.load(splitFile(await file.text()));
        this.dropped = true;
        this.options.opened?.();
        this.root.focus({ preventScroll: true });
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        this.trouble(error.message);
      }
    }

    _key(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const { target, key } = event, onButton = target.closest("button, summary, a"), typing = target.matches("input:not(.fv-scrub), textarea, select");
      const walker = this.answer.host.contains(target) ? this.answer : this.tree.host.contains(target) ? this.tree : null;
      const acts = {
        ArrowLeft: () => this.goto(this.at - (event.shiftKey ? 5 : 1)), ArrowRight: () => this.goto(this.at + (event.shiftKey ? 5 : 1)),
        Home: () => this.goto(0), End: () => this.skipToEnd(), Escape: () => this._release(), "?": () => this._toggleHelp(),
      };
      if (!onButton) acts[" "] = () => this.toggle();
      if (walker) Object.assign(acts, { ArrowDown: () => walker.move(1), ArrowUp: () => walker.move(-1), Enter: () => target.dataset.key && this._pin(target.dataset.key) });
      PALETTES.forEach((name, i) => (acts[String(i + 1)] = () => this.stage.setPalette(name)));
      const act = Object.hasOwn(acts, key) ? acts[key] : null;
      if (!act || typing) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    }

    /* ---- position and time ---- */

    _grown() {
      const { run } = this;
      if (!run.header) return;
      if (this.stage.run !== run) this.stage.setRun(run);
      this.body.hidden = false;
      this.empty.hidden = true;
      run.largestMass = 4 / Math.max(1, run.validCount); // an answer of flat maps must not look like one of sharp maps
      for (const word of run.words) {
        const read = run.readOf(word);
        if (read) run.largestMass = Math.max(run.largestMass, read.event.top_mass);
      }
      this.answer.sync(run);
      this.steps.sync(run);
      this.scrub.max = run.steps;
      this._drawBars();
      if (this.at < 0 && run.prefill) this.at = this.seen = 0;
      if (!this.paceChosen && !this.paced && run.steps >= 1) {
        this.paced = true;
        const sums = run.totals(run.steps);
        this._setPace((sums.draft_ms + sums.select_ms + sums.verify_ms) / run.steps > SLOW_ROUND_MS ? "real" : "2", false);
      }
      if (this.playing) this._tick();
      this._draw();
    }

    /** Goes to step ``step`` and stays there. */
    goto(step) {
      this._stopClock();
      this.playing = false;
      this.at = Math.max(Math.min(0, this.run.steps), Math.min(this.run.steps, step));
      if (!this.run.prefill) this.at = -1;
      this.seen = Math.max(this.seen, this.at);
      this.phase = "done";
      this._draw();
    }

    /** Shows the newest step; a run that still grows is followed as it comes. */
    skipToEnd() {
      this.goto(this.run.steps);
      if (!this.run.finished) {
        this.playing = true;
        this.paced = true; // for this run only: it is no choice of a pace
        this._setPace("real", false);
      }
    }

    toggle() {
      if (this.playing) {
        this._stopClock();
        this.playing = false;
        this.phase = "done";
        this._draw();
        return;
      }
      if (this.pace === "step") return this.goto(this.at + 1);
      if (this.at >= this.run.steps && this.run.finished) this.at = 0;
      this.playing = true;
      this._tick();
      this._draw();
    }

    _setPace(id, chosen) {
      this.pace = id;
      this.paceChosen = this.paceChosen || chosen;
      this.paces.set(id);
      if (id === "step" && this.playing) this.toggle();
      else this._draw();
    }

    _stopClock() {
      clearTimeout(this.clock);
      this.clock = null;
    }

    /** Starts the next step when none is under way. */
    _tick() {
      if (this.clock || !this.playing || this.at < 0) return; // at < 0: prefill is not done
      if (this.at >= this.run.steps) {
        if (this.run.finished) this.playing = false;
        return;
      }
      this.at += 1;
      const v = this.run.rounds[this.at - 1].verdict;
      const span = this.pace === "real" ? Math.max(16, v.draft_ms + v.select_ms + v.verify_ms) : 1000 / Number(this.pace);
      const arriving = this.pace === "real" && !this.run.finished; // a run under way is shown as it comes
      const phases = arriving || this.calm.matches || span < 200 ? [["done", 1]] : PHASES;
      const run = (i) => {
        if (i === phases.length) {
          this.clock = null;
          this._tick();
          this._draw();
          return;
        }
        this.phase = phases[i][0];
        if (this.phase === "done") this.seen = Math.max(this.seen, this.at);
        this.clock = setTimeout(() => run(i + 1), arriving ? 0 : span * phases[i][1]);
        this._draw();
      };
      run(0);
    }

    /* ---- selection ---- */

    /** The word or node that a key of a chip names, or null. */
    item(key) {
      if (!key) return null;
      const [kind, a, b] = key.split(":");
      return kind === "w" ? this.run.words[Number(a)] || null : this.run.rounds[Number(a) - 1]?.nodes.get(Number(b)) || null;
    }

    _peek(key) {
      if (key === this.peeked) return;
      this.peeked = key;
      this._draw();
    }

    _pin(key) {
      this.pinned = this.pinned === key ? null : key;
      if (this.playing && this.pinned) this.toggle();
      const item = this.item(this.pinned);
      if (item) this.at = Math.min(this.run.steps, item.judged === undefined ? item.step : item.round.step);
      this.seen = Math.max(this.seen, this.at);
      this._draw();
    }

    _release() {
      Object.assign(this, { pinned: null, peeked: null, patch: null, missed: false, used: null });
      this.stage.picked = null;
      this.help.hidden = true;
      this._draw();
    }

    _pinnedWord() {
      const item = this.item(this.pinned);
      return item && item.judged === undefined ? item : null;
    }

    _jump(word) {
      this.goto(word.step);
      this.pinned = keyOf(word);
      this._draw();
    }

    _patch(entries) {
      this.missed = entries.length === 0;
      const same = this.patch && entries.join() === this.patch.join();
      this.patch = same || this.missed ? null : entries;
      this.stage.picked = this.patch;
      this.used = this.patch ? this.run.wordsUsing(this.patch) : null;
      this._draw();
    }

    _setView(id) {
      this.view = id;
      this.views.set(id);
      if (id !== "word") this.pinned = null;
      this._draw();
    }

    _setRejects(id) {
      this.rejects.set(id);
      this.answer.host.dataset.alternatives = id;
    }

    _toggleHelp() {
      this.help.hidden = !this.help.hidden;
      if (!this.help.hidden) this.help.scrollIntoView({ block: "nearest" });
    }

    _save() {
      download(new Blob([this.run.lines.join("\n") + "\n"], { type: "application/jsonl" }), "fovea-trace.jsonl");
    }

    /* ---- drawing: each part compares with what it shows, so this may be called often ---- */

    _restyle() {
      this._restrip(true);
      this._draw();
    }

    _draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        this._paint();
      });
    }

    _paint() {
      const { run } = this;
      this._drawHead();
      if (!run.header) return;
      const holding = this.phase === "propose" || this.phase === "check";
      const round = this.at > 0 ? run.rounds[this.at - 1] : null;
      const partial = !round || this.at < run.steps ? null : run.rounds[run.steps] || null; // drafted but not judged yet
      this.root.dataset.phase = this.phase;
      this.root.toggleAttribute("data-playing", this.playing); // steps are animated while they play, never while one scrubs
      this.answer.show(this.at, this.seen, holding);
      this.answer.propose(holding ? round : this.playing && this.at === run.steps ? partial : null);
      this.answer.mark(this.pinned, this.used);
      this.answer.follow(this.at);
      this.tree.show(run, round);
      this.tree.mark(this.pinned);
      say(this.treeName, round ? `step ${this.at}` : "");
      this._drawMap(round, holding);
      this._drawTransport();
      this._restrip(false);
      this._announce(round, holding);
    }

    _drawHead() {
      const { run } = this, { started, finished } = run;
      this.outside.hidden = !run.prefill?.outside;
      say(this.outside, this.outside.hidden ? "" : OUTSIDE.join(" ")); // a change of text is what a screen reader says
      this.head.hidden = !started;
      if (!started) return;
      say(this.question, label(started.question, LIMITS.lineChars));
      say(this.meta, `target ${started.target.id} · drafter ${started.drafter ? started.drafter.id : "none"} · policy ${started.policy} · ${started.device}`);
      // Lines do not tell a run under way from one that broke off; what the page around the player says does.
      const state = this.broken ? "damaged" : finished ? { eos: "finished", length: "token limit reached", stopped: "stopped" }[finished.reason] : this.options.mode === "live" && !this.dropped ? "unfinished" : "ended early";
      say(this.pill, state);
      this.pill.dataset.state = state;
      // Chips keep the order of generation; the text itself stands below where it reads differently, or where chips lack text.
      if (finished && this.ended !== run) {
        this.ended = run;
        this.natural.hidden = !/[\u0590-\u08ff\ufb1d-\ufefc]/.test(finished.text) && finished.text.startsWith(run.joined);
        say(this.natural, finished.text);
      } else if (!finished) this.natural.hidden = true;
    }

    /** Reads in view, what to call them, and the item they belong to. */
    _inView(round, holding) {
      const { run } = this, chosen = this.item(this.peeked) || this.item(this.pinned);
      if (chosen) return { item: chosen, reads: [run.readOf(chosen)].filter(Boolean), key: keyOf(chosen) };
      if (!run.prefill) return { reads: [], key: "before", text: "The target has not read the picture yet" };
      if (this.view === "answer") {
        const reads = run.words.filter((word) => word.step <= this.at).map((word) => run.readOf(word)).filter(Boolean);
        return { reads, key: `answer ${this.at}`, text: `Whole answer so far: mean over ${reads.length} word${reads.length === 1 ? "" : "s"} drafted with a look` };
      }
      if (!round) return { reads: [], key: "start", text: "The target read the picture and wrote its first word; nothing was drafted yet" };
      if (this.view === "step" || holding) {
        const path = holding ? [0] : [0, ...round.verdict.accepted.slice(0, -1)];
        const reads = path.map((id) => run.readAt(round, id)).filter(Boolean);
        return { reads, key: `step ${this.at} ${holding}`, text: holding ? `Step ${this.at}: what the root retrieved before drafting` : `Step ${this.at}: mean over the ${reads.length} state${reads.length === 1 ? "" : "s"} along the accepted path` };
      }
      const words = run.words.slice(round.firstWord, round.firstWord + round.wordCount);
      const peak = (word) => run.readOf(word)?.event.peak ?? -1; // the step's sharpest map stands for it
      const item = words.reduce((best, word) => (peak(word) > peak(best) ? word : best), words[words.length - 1]);
      return { item, reads: [run.readOf(item)].filter(Boolean), key: keyOf(item) };
    }

    _drawMap(round, holding) {
      const { run } = this, view = this._inView(round, holding);
      this.stage.show(view.reads, `${run.serial} ${view.key}`);
      this.numbers.show(run, Math.max(0, holding ? this.at - 1 : this.at), view.reads.length === 1 ? view.reads[0] : null);
      const key = `${view.key}|${this.patch}|${this.missed}|${this.at}|${holding}|${run.serial}`;
      if (key === this.captioned) return;
      this.captioned = key;
      this.caption.replaceChildren(...(view.item ? captionOf(run, view.item, view.reads[0], { item: (key) => this._pin(key), patch: (entries) => this._patch(entries) }) : [h("p", null, view.text + ".")]));
      this.stage.canvas.setAttribute("aria-label", `Map of retrieved entries. ${this.caption.textContent}`);
      this._drawUsed();
    }

    _drawUsed() {
      this.usedBy.hidden = !this.patch && !this.missed;
      if (this.missed) this.usedBy.replaceChildren(h("p", null, "This part of the picture was not seen by the model."));
      if (!this.patch) return;
      const place = this.patch.map((entry) => this.run.nameOf(entry)).join(" and ");
      const chips = this.used.slice(0, 24).map(({ word, mass }) => h("button", { type: "button", class: "fv-chip", onclick: () => this._jump(word) }, `${label(word.text, 24)} `, h("span", null, percent(mass))));
      const many = this.used.length === 1 ? "1 word" : `${this.used.length} words`;
      this.usedBy.replaceChildren(
        h("p", null, this.used.length ? `The patch in ${place} was used by ${many}, most mass first:` : `No word used the patch in ${place}.`),
        h("div", { class: "fv-chips" }, ...chips));
    }

    _drawTransport() {
      const { run } = this;
      if (this.scrub.value !== String(Math.max(0, this.at))) this.scrub.value = Math.max(0, this.at);
      this.scrub.style.setProperty("--part", run.steps ? `${(100 * Math.max(0, this.at)) / run.steps}%` : "0%");
      this.scrub.setAttribute("aria-valuetext", `step ${Math.max(0, this.at)} of ${run.steps}`);
      say(this.count, `step ${Math.max(0, this.at)} of ${run.steps}`);
      say(this.playButton, this.playing ? "❚❚" : "▶");
      this.playButton.setAttribute("aria-label", this.playing ? "Pause" : "Play");
      if (this.barsAt !== this.seen) this._drawBars();
      this.skip.disabled = this.at >= run.steps && Boolean(run.finished);
    }

    /** One bar a step above the scrubber: accepted tokens, then the bonus token. */
    _drawBars() {
      const { bars, run } = this, width = bars.clientWidth, height = bars.clientHeight;
      if (!width || !height) return;
      this.barsAt = this.seen;
      const dense = window.devicePixelRatio || 1, pen = bars.getContext("2d"), style = getComputedStyle(bars);
      bars.width = width * dense;
      bars.height = height * dense;
      pen.scale(dense, dense);
      const most = run.rounds.reduce((a, round) => Math.max(a, round.wordCount), 1), steps = Math.max(1, run.steps);
      const inset = 9, slot = (width - 2 * inset) / steps, bar = Math.max(1, Math.min(10, slot - 1.5)), unit = height / most;
      for (const round of run.rounds.slice(0, run.steps)) {
        pen.globalAlpha = round.step <= this.seen ? 1 : 0.3;
        const x = inset + round.step * slot - bar / 2, accepted = round.verdict.accepted.length, bonus = round.wordCount - accepted;
        pen.fillStyle = style.getPropertyValue("--fv-accepted");
        pen.fillRect(x, height - accepted * unit, bar, accepted * unit);
        pen.fillStyle = style.getPropertyValue("--fv-bonus");
        pen.fillRect(x, height - (accepted + bonus) * unit, bar, Math.max(0, bonus * unit - (accepted ? 1 : 0)));
      }
    }

    async _restrip(force) {
      const upto = Math.min(this.seen, this.run.steps), settled = !this.playing || this.run.finished === null;
      if (this.run.prefill && (force || ((upto !== this.stripAt || this.run.largestMass !== this.stripScale) && (settled || upto - this.stripAt >= 2)))) {
        const { run } = this;
        Object.assign(this, { stripAt: upto, stripScale: run.largestMass });
        await this.stage.loaded;
        if (run !== this.run) return;
        this.strip.show(run, upto);
        if (force) this.strip.repaint();
      } else this.strip.buttons();
    }

    _announce(round, holding) {
      if (!round || holding || this.announced === this.at) return;
      this.announced = this.at;
      const v = round.verdict;
      if (!this.playing || this.pace === "1") say(this.live, `Step ${this.at} of ${this.run.steps}: ${v.accepted.length} accepted, ${v.rejected.length} rejected${v.bonus == null ? "" : `, bonus ${label(v.bonus_text ?? "")}`}`);
    }
  }

  /** Makes a player in ``root``. options: mode 'live' or 'page', autoplay, empty (sentence of the empty state),
      opened() (called when a trace file of the reader's own took the place of the run). */
  FOVEA.createPlayer = (root, options) => new Player(root, options || {});
})();
