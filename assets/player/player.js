/* The player: one run, one position, one selection; everything on the page follows from these. Its elements are made in
   layout.js, its keys are in keys.js, what it shows in draw.js; names with _ are for these four files alone. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { say, keyOf, LIMITS, Run, TraceError, splitFile, drawPlayer, restrip, lookOf, buildPlayer, listenTo } = FOVEA;

  const SLOW_ROUND_MS = 300; // slower engines are shown in real time
  const PHASES = [["propose", 0.42], ["check", 0.26], ["verdict", 0.18], ["done", 0.14]]; // shares of a step's time
  let serial = 0;

  class Player {
    constructor(root, options) {
      this.root = root;
      root.player = this;
      this.options = { mode: "page", autoplay: true, ...options };
      this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
      this.pace = "2";
      this.paceChosen = false;
      this.view = "word";
      this.whose = "drafter";
      this.source = [];
      buildPlayer(this);
      listenTo(this);
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
      this.streamed = Boolean(this.run.prefill); // it came in pieces
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

    /** Shows nothing any more. */
    clear() {
      this.source = [];
      this.reset();
    }

    /** Lets the colours reach at least to ``mass``, so that two players side by side colour alike. */
    shareScale(mass) {
      if (mass === this.floor || mass <= this.run.largestMass) return;
      this.floor = this.run.largestMass = mass;
      this._restyle();
    }

    reset() {
      this._stopClock();
      this.run = new Run();
      this.run.serial = serial += 1;
      Object.assign(this, { floor: 0, at: -1, seen: -1, phase: "done", playing: this.options.autoplay, pinned: null, peeked: null, patch: null, missed: false, used: null, broken: false, streamed: false, dropped: false, paced: false, stripAt: -2, stripScale: 0, barsAt: null });
      this.stage.clear();
      this.answer.clear();
      this.tree.show(this.run, null);
      this.strip.clear();
      this.steps.clear();
      this.erase?.clear();
      this.note.hidden = true;
      this.said?.(""); // a file was made of the run before
      this.body.hidden = true;
      this.empty.hidden = false;
      this._draw();
    }

    /** Shows one sentence about something that went wrong. */
    trouble(sentence) {
      say(this.note, sentence);
      this.note.hidden = false;
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

    /* ---- position and time ---- */

    _grown() {
      const { run } = this;
      if (!run.header) return;
      if (this.stage.run !== run) this.stage.setRun(run);
      this.body.hidden = false;
      this.empty.hidden = true;
      run.measure();
      run.largestMass = Math.max(run.largestMass, this.floor);
      this.answer.sync(run);
      this.steps.sync(run);
      if (Number(this.scrub.max) !== run.steps) this.barsAt = null; // drawn with the next frame
      this.scrub.max = run.steps;
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

    /** Goes to the step of word ``index`` of the answer and shows that word's own map; a run without that word stays. */
    toWord(index) {
      const word = this.run.words[index];
      if (word && word.step <= this.run.steps) this._jump(word);
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
      return this.run.itemOf(key);
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
      this.erase?.release();
      this.help.hidden = true;
      this._draw();
    }

    /** Something that Esc would let go. */
    get selected() {
      return Boolean(this.pinned || this.patch || this.missed || !this.help.hidden);
    }

    /** The pinned word of the answer, or null. */
    pinnedWord() {
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

    _setWhose(id) {
      this.whose = id;
      this.whoses.set(id);
      this._draw();
    }

    _setRejects(id) {
      this.rejects.set(id);
      this.answer.host.dataset.alternatives = id;
    }

    _toggleHelp() {
      this.help.hidden = !this.help.hidden;
      if (this.help.hidden) this.root.focus({ preventScroll: true });
      else this.help.scrollIntoView({ block: "nearest" });
    }

    _restyle() {
      restrip(this, true);
      this._draw();
    }

    /** What the map in view shows: {reads, title}. */
    look() {
      return lookOf(this);
    }

    /** What had the focus may have been made anew; the keys go on working. */
    _keepFocus() {
      if (this.held && !this.held.isConnected && document.activeElement === document.body) this.root.focus({ preventScroll: true });
    }

    _draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        drawPlayer(this);
        this._keepFocus();
        this.links?.shown();
      });
    }
  }

  /** Makes a player in ``root``, which knows it as ``root.player``. options: mode 'live' or 'page', autoplay, compact (leave to
      the page what two players share), name, empty (sentence of the empty state), opened() (called when a trace file of the
      reader's own took the place of the run), redraft(wish) and cancelRedraft() (ask the page's engine; it answers with the
      event fv-redraft, see erase.js. Without them nothing can be erased), links (links.js; only one player of a page may
      have them), exporter (saving.js). */
  FOVEA.createPlayer = (root, options) => new Player(root, options || {});
})();
