/* One run as the page knows it: takes event lines that schema.js finds lawful and folds them. No DOM in this file. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { LIMITS, VERSION, TraceError, HEADER, fieldsOf, broken } = FOVEA;

  /** Bytes of base64 text, or null where it is none. */
  function unpack(packedText) {
    let raw;
    try {
      raw = atob(packedText);
    } catch {
      return null;
    }
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) out[i] = raw.charCodeAt(i);
    return out;
  }

  /** The folded run: what was drafted, judged and said so far, step by step. ``add`` takes one line at a time. */
  class Run {
    constructor() {
      Object.assign(this, {
        lines: [], header: null, started: null, prefill: null, tiles: [], entryCount: 0, valid: new Uint8Array(0), validCount: 0,
        rounds: [], words: [], finished: null, compared: null, runRead: null, hasLooks: false, hasReads: false, events: 0,
      });
    }

    /** Takes one line; throws TraceError and leaves the run as it was when the line is not lawful here. */
    add(line) {
      const where = `Line ${this.lines.length + 1} of this trace`;
      const first = this.lines.length === 0;
      if (typeof line !== "string" || line.length > (first ? LIMITS.headerChars : LIMITS.lineChars))
        throw new TraceError(`${where} is too long to be an event.`);
      let value;
      try {
        value = JSON.parse(line);
      } catch {
        throw new TraceError(first ? "This file is not a trace: its first line is not JSON." : `${where} is damaged: it is not complete JSON.`);
      }
      if (first) {
        if (value?.format === "fovea-trace" && Number.isInteger(value.version) && value.version > VERSION)
          throw new TraceError(`This trace was written by a newer explorer (version ${value.version}, this one reads ${VERSION}).`);
        const bad = broken(HEADER, value);
        if (bad) throw new TraceError(`This file is not a trace this page can read: its header has no usable ${bad}.`);
        this.header = value;
      } else {
        const fields = fieldsOf(value);
        if (!fields) throw new TraceError(`${where} is damaged: it is no event that this page knows.`);
        const bad = broken(fields, value);
        if (bad) throw new TraceError(`${where} is damaged: its ${bad} is not possible.`);
        const wrong = value.n !== this.events || this.events >= LIMITS.events ? "running number" : this["_" + value.kind](value);
        if (wrong) throw new TraceError(`${where} is damaged: its ${wrong} does not fit what came before.`);
        this.events += 1;
      }
      this.lines.push(line);
    }

    _run_started(e) {
      if (this.started) return "place";
      this.started = e;
    }

    _prefill_done(e) {
      if (!this.started || this.prefill) return "place";
      const sizeOf = (t) => t.rows * t.columns;
      const total = Math.max(0, ...e.tiles.map((t) => t.first + sizeOf(t)));
      if (total > LIMITS.entries || e.tiles.some((t) => t.valid.reduce((a, b) => a + b, 0) !== sizeOf(t))) return "grid";
      const sorted = [...e.tiles].sort((a, b) => a.first - b.first);
      if (sorted.some((t, i) => i && t.first < sorted[i - 1].first + sizeOf(sorted[i - 1]))) return "grid";
      this.valid = new Uint8Array(total);
      for (const t of e.tiles) {
        let at = t.first;
        t.valid.forEach((length, i) => {
          this.valid.fill(i % 2 ? 0 : 1, at, at + length);
          at += length;
        });
      }
      this.tiles = e.tiles;
      this.entryCount = total;
      this.validCount = this.valid.reduce((a, b) => a + b, 0);
      this.prefill = e;
      this._say({ token: e.token, text: e.text, bytes: e.bytes, status: "first", step: 0, round: null, node: null });
    }

    /** The round that an event with number ``number`` belongs to, opened when it is the next one; null when out of order. */
    _round(number) {
      if (!this.prefill || this.finished) return null;
      const last = this.rounds[this.rounds.length - 1];
      if (last && !last.verdict) return last.number === number ? last : null;
      if (last ? number !== last.number + 1 : number > 1) return null;
      const round = {
        number, step: this.rounds.length + 1, nodes: new Map(), reads: new Map(), looks: new Map(), roundRead: null, verdict: null,
        firstWord: this.words.length, wordCount: 0,
      };
      this.rounds.push(round);
      return round;
    }

    _memory_read(e) {
      const entryBytes = unpack(e.entries), massBytes = unpack(e.masses);
      if (!entryBytes || !massBytes || entryBytes.length !== 2 * massBytes.length) return "packed entries";
      const read = { event: e, size: massBytes.length, entries: new Uint16Array(massBytes.length), masses: new Float32Array(massBytes.length) };
      const seen = new Set();
      for (let i = 0; i < read.size; i += 1) {
        const entry = entryBytes[2 * i] | (entryBytes[2 * i + 1] << 8);
        if (entry >= this.entryCount || !this.valid[entry] || seen.has(entry) || (i && massBytes[i] > massBytes[i - 1])) return "packed entries";
        seen.add(entry);
        read.entries[i] = entry;
        read.masses[i] = (massBytes[i] / 255) * e.top_mass;
      }
      const round = this._round(e.round), mine = e.source === "target" ? round?.looks : round?.reads;
      if (!round || mine.has(e.node)) return "place";
      if (e.source === "target") {
        this.hasLooks = true;
        round.looks.set(e.node, read);
        return;
      }
      this.hasReads = true;
      if (e.serves === "run") this.runRead = read;
      if (e.serves === "round") round.roundRead = read;
      if (this.runRead && !round.runRead) round.runRead = this.runRead;
      round.reads.set(e.node, read);
    }

    _node_drafted(e) {
      const round = this._round(e.round);
      if (!round || round.nodes.has(e.node)) return "place";
      const parent = e.parent === 0 ? { depth: 0 } : round.nodes.get(e.parent);
      if (!parent || parent.depth + 1 !== e.depth) return "parent";
      if (this.runRead && !round.runRead) round.runRead = this.runRead;
      round.nodes.set(e.node, { ...e, id: e.node, round, status: "pending", judged: null, word: null });
    }

    _round_verified(e) {
      const round = this._round(e.round);
      if (!round) return "place";
      const all = [...e.accepted, ...e.rejected.map((r) => r.node), ...e.unverified];
      const detailed = round.nodes.size > 0;
      if (detailed && (all.length !== round.nodes.size || new Set(all).size !== all.length)) return "verdict";
      if (detailed && !all.every((id) => round.nodes.has(id))) return "verdict";
      if (detailed && [...round.reads.keys(), ...round.looks.keys()].some((id) => id !== 0 && !round.nodes.has(id))) return "read";
      if (e.emitted.length === 0 || e.emitted.length !== e.accepted.length + (e.bonus == null ? 0 : 1)) return "emitted tokens";
      if (this.words.length + e.emitted.length > LIMITS.tokens) return "number of tokens";
      let tip = 0;
      for (const [i, id] of e.accepted.entries()) {
        const at = round.nodes.get(id);
        if (detailed && (at.parent !== tip || at.token !== e.emitted[i])) return "accepted path";
        tip = id;
      }
      if (e.bonus != null && e.bonus !== e.emitted[e.emitted.length - 1]) return "bonus token";
      round.firstWord = this.words.length;
      round.verdict = e;
      for (const [i, id] of e.accepted.entries()) {
        const at = round.nodes.get(id) || null;
        if (at) Object.assign(at, { status: "accepted", word: this.words.length });
        const said = at || { text: "", bytes: null };
        this._say({ token: e.emitted[i], text: said.text, bytes: said.bytes, status: "accepted", step: round.step, round, node: at });
      }
      for (const r of e.rejected) if (round.nodes.has(r.node)) Object.assign(round.nodes.get(r.node), { status: "rejected", judged: r });
      for (const id of e.unverified) if (round.nodes.has(id)) round.nodes.get(id).status = "unverified";
      if (e.bonus != null)
        this._say({ token: e.bonus, text: e.bonus_text ?? "", bytes: e.bonus_bytes, status: "bonus", step: round.step, round, node: null });
      round.wordCount = this.words.length - round.firstWord;
    }

    _finished(e) {
      const last = this.rounds[this.rounds.length - 1];
      if (!this.prefill || this.finished || (last && !last.verdict)) return "place";
      if (e.ids.length !== this.words.length || !e.ids.every((id, i) => id === this.words[i].token)) return "answer";
      this.finished = e;
    }

    _compared(e) {
      if (!this.finished || this.compared) return "place";
      this.compared = e;
    }

    _say(word) {
      this.words.push({ ...word, index: this.words.length });
    }

    /** Rounds with a verdict. */
    get steps() {
      const last = this.rounds[this.rounds.length - 1];
      return this.rounds.length - (last && !last.verdict ? 1 : 0);
    }

    /** All pieces joined. */
    get joined() {
      return this.words.map((word) => word.text).join("");
    }

    /** The read that scored the children of ``parent`` in ``round`` (its own, else the round's, else the run's), or null. */
    readAt(round, parent) {
      return round.reads.get(parent) || round.roundRead || round.runRead || null;
    }

    /** The read that scored a drafted node, or a word; null for the target's own words and words drafted without a look. */
    readOf(item) {
      const at = item.judged === undefined ? item.node : item;
      return at ? this.readAt(at.round, at.parent) : null;
    }

    /** Where the target looked as it said what stands at a word or node: its look at the parent, or null. */
    lookOf(item) {
      const at = item.judged === undefined ? item.node : item, path = item.round?.verdict?.accepted || [];
      if (at) return at.round.looks.get(at.parent) || null;
      return item.status === "bonus" ? item.round.looks.get(path[path.length - 1] ?? 0) || null : null;
    }

    /** The word or node that a key of a chip names, or null. */
    itemOf(key) {
      if (!key) return null;
      const [kind, a, b] = key.split(":");
      return kind === "w" ? this.words[Number(a)] || null : this.rounds[Number(a) - 1]?.nodes.get(Number(b)) || null;
    }

    /** Where an entry lies: its tile, row, column, and its box in fractions of the picture (not clipped). */
    place(entry) {
      const tile = this.tiles.find((t) => entry >= t.first && entry < t.first + t.rows * t.columns);
      const row = Math.floor((entry - tile.first) / tile.columns), column = (entry - tile.first) % tile.columns;
      const wide = (tile.box[2] - tile.box[0]) / tile.columns, tall = (tile.box[3] - tile.box[1]) / tile.rows;
      const left = tile.box[0] + column * wide, top = tile.box[1] + row * tall;
      return { tile, row, column, box: [left, top, left + wide, top + tall] };
    }

    /** Where an entry lies, in words; the view is named where there is more than one. */
    nameOf(entry) {
      const { tile, row, column } = this.place(entry);
      const view = this.tiles.length === 1 ? "" : tile.view === "global" ? "whole view, " : `tile ${this.tiles.indexOf(tile) + 1}, `;
      return `${view}row ${row + 1}, column ${column + 1}`;
    }

    /** Valid entries whose box holds the point (x, y), in fractions of the picture; one per view. */
    entriesAt(x, y) {
      const found = [];
      for (const t of this.tiles) {
        const column = Math.floor(((x - t.box[0]) / (t.box[2] - t.box[0])) * t.columns);
        const row = Math.floor(((y - t.box[1]) / (t.box[3] - t.box[1])) * t.rows);
        if (column < 0 || row < 0 || column >= t.columns || row >= t.rows) continue;
        const entry = t.first + row * t.columns + column;
        if (this.valid[entry]) found.push(entry);
      }
      return found;
    }

    /** The masses that one colour scale for the whole answer reaches, kept as ``largestMass``, of looks as ``largestLook``. */
    measure() {
      this.largestLook = 4 / Math.max(1, this.validCount);
      for (const round of this.hasLooks ? this.rounds : []) for (const { event } of round.looks.values()) this.largestLook = Math.max(this.largestLook, event.top_mass);
      this.largestMass = 4 / Math.max(1, this.validCount); // an answer of flat maps must not look like one of sharp maps
      for (const word of this.words) {
        const read = this.readOf(word);
        if (read) this.largestMass = Math.max(this.largestMass, read.event.top_mass);
      }
    }

    /** Words whose read used one of ``entries``: [{word, mass}], largest mass first. */
    wordsUsing(entries) {
      const wanted = new Set(entries), found = [];
      for (const word of this.words) {
        const read = this.readOf(word);
        if (!read) continue;
        let sum = 0;
        for (let i = 0; i < read.size; i += 1) if (wanted.has(read.entries[i])) sum += read.masses[i];
        if (sum > 0) found.push({ word, mass: sum });
      }
      return found.sort((a, b) => b.mass - a.mass || a.word.index - b.word.index);
    }

    /** Totals over the first ``steps`` rounds. */
    totals(steps) {
      const sum = { emitted: 0, drafted: 0, accepted: 0, draft_ms: 0, select_ms: 0, verify_ms: 0 };
      for (const round of this.rounds.slice(0, steps)) {
        const v = round.verdict;
        sum.emitted += v.emitted.length;
        sum.drafted += v.accepted.length + v.rejected.length + v.unverified.length;
        sum.accepted += v.accepted.length;
        for (const part of ["draft_ms", "select_ms", "verify_ms"]) sum[part] += v[part];
      }
      return { ...sum, steps, tau: steps ? sum.emitted / steps : null };
    }
  }

  /** Lines of a trace file's text. Throws TraceError for what cannot be a trace. */
  function splitFile(fileText) {
    if (fileText.length > LIMITS.fileBytes) throw new TraceError("This file is too large to be a trace.");
    const lines = fileText.split(/\r?\n/);
    while (lines.length && lines[lines.length - 1].trim() === "") lines.pop();
    if (lines.length < 2) throw new TraceError("This file is not a trace: it holds no events.");
    return lines;
  }

  Object.assign(FOVEA, { Run, splitFile });
})();
