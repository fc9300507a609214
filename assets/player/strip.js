/* The trajectory strip: a few words, each with its own map, in answer order. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, percent, download, OUTSIDE } = FOVEA;
  const MOST = 5, LEAST = 0.25, MOST_BY_HAND = 8, SPACE = " \t\n\r\v\f";
  const NONE = "No word so far was drafted with a look at the picture. A dot in the tree marks where the drafter looked: click its node.";
  const NEVER = "A strip shows what a drafter retrieved for its words, and the drafter of this run reads no visual memory.";

  /** The answer cut at white space, as the engine cuts it: [{text, tokens}], tokens in order; pieces of white space only
      and those without text, such as EOS, belong to no word. Bytes stand as one character each, so white space is ASCII's. */
  function spans(run) {
    const raw = (token) => (token.bytes != null ? token.bytes.replace(/../g, (hex) => String.fromCharCode(parseInt(hex, 16))) : token.text);
    const all = [];
    let open = [];
    const close = () => {
      const text = open.map((token) => token.text).join("").trim();
      if (text) all.push({ text, tokens: open });
      open = [];
    };
    for (const token of run.words) {
      const own = raw(token), before = open.length ? raw(open[open.length - 1]) : "";
      if (SPACE.includes(own[0] || "x") || SPACE.includes(before[before.length - 1] || "x")) close();
      if ([...own].some((sign) => !SPACE.includes(sign))) open.push(token);
    }
    close();
    return all;
  }

  /** At least three letters, no digit, not all capitals. */
  function isName(text) {
    return (text.match(/\p{L}/gu) || []).length >= 3 && text !== text.toUpperCase() && !/\p{Nd}/u.test(text);
  }

  function jaccard(a, b) {
    let shared = 0;
    for (const entry of a) if (b.has(entry)) shared += 1;
    const all = a.size + b.size - shared;
    return all ? 1 - shared / all : 0;
  }

  /** Words for the strip: the highest peak, then the largest peak x smallest Jaccard distance to those taken, until five are
      taken or the value falls below 0.25; names before codes and numbers; in answer order. A word stands with its token of
      highest peak; the distance is between sets of chosen entries (fovea_core/trace/strip.py is the same rule). */
  function chooseWords(run, upto) {
    const names = [], others = [];
    for (const span of spans(run)) {
      const best = sharpest(run, span, upto);
      if (best) (isName(span.text) ? names : others).push({ ...best, far: 1 });
    }
    const taken = [];
    for (const left of [names, others]) {
      while (taken.length < MOST && left.length) {
        let best = 0;
        for (let i = 1; i < left.length; i += 1) if (left[i].peak * left[i].far > left[best].peak * left[best].far) best = i;
        const [pick] = left.splice(best, 1);
        if (taken.length && pick.peak * pick.far < LEAST) break;
        taken.push(pick);
        for (const other of [...names, ...others]) other.far = Math.min(other.far, jaccard(setOf(other.read), setOf(pick.read)));
      }
    }
    return taken.sort((a, b) => a.token.index - b.token.index);
  }

  /** The word that ``token`` belongs to, as spans gives it; undefined where it belongs to none. */
  const spanOf = (run, token) => token && spans(run).find((span) => span.tokens.includes(token));

  /** A span with its token of highest peak up to step ``upto``: {text, tokens, token, read, peak}, or null without any read. */
  function sharpest(run, span, upto = Infinity) {
    let best = null;
    for (const token of span ? span.tokens : []) {
      const read = token.step <= upto ? run.readOf(token) : null;
      if (read && (!best || read.event.peak > best.peak)) best = { ...span, token, read, peak: read.event.peak };
    }
    return best;
  }

  /** A word of the strip as it is shown: without the punctuation it ends with (fovea_core/render/trajectory.py does the same). */
  const nameOf = (word) => label(word.text.replace(/[,;:.]+$/, "") || word.text, 24);

  const setOf = (read) => (read.set ??= new Set(read.entries));

  const figures = (run, token) => {
    const read = run.readOf(token);
    return `step ${token.step} · K ${read.size} · ${FOVEA.isFlat(read) ? "no preference" : `${percent(read.event.captured)} of ${FOVEA.massName(run)}`}`;
  };

  class Strip {
    /** on = {jump(token), pinned() -> token or null, draw(canvas, token, width), legend(pen, x, base, reads), refresh()}; draw
        paints picture and map. */
    constructor(host, on) {
      this.on = on;
      this.host = host;
      this.edited = false;
      this.cards = h("ol", { class: "fv-cards" });
      this.none = h("p", { class: "fv-foot" }, NONE);
      this.add = h("button", { type: "button", class: "fv-button", onclick: () => this._add() }, "Add pinned word");
      this.auto = h("button", { type: "button", class: "fv-button", onclick: () => this._auto() }, "Choose again");
      this.png = h("button", { type: "button", class: "fv-button" }, "Save strip (PNG)"); // saving.js says what it does
      host.append(this.cards, this.none);
      this.actions = h("div", { class: "fv-actions" }, this.add, this.auto);
      this.words = [];
    }

    clear() {
      this.edited = false;
      this.words = [];
      this.run = null;
      this.drawn = "";
      this._draw();
    }

    /** Chooses the words up to step ``upto`` unless the reader has edited the strip. */
    show(run, upto) {
      const words = this.edited ? this.words : chooseWords(run, upto), now = words.map((word) => `${word.token.index} ${word.text}`).join("|") + ` ${run.largestMass}`;
      const same = this.run === run && now === this.drawn;
      this.run = run;
      this.words = words;
      this.drawn = now;
      say(this.none, FOVEA.maplessOf(run) ? NEVER : NONE);
      if (!same) this._draw();
      this.buttons();
    }

    buttons() {
      const why = this._whyNot(this.on.pinned());
      this.add.disabled = why !== "";
      this.add.title = why || "Put the pinned word into the strip";
      this.auto.disabled = !this.edited;
      this.png.disabled = this.words.length === 0;
    }

    /** Why the strip does not take this token's word, for a reader who wonders; "" where it does. */
    _whyNot(token) {
      if (!token || !this.run) return "Click a word of the answer first: that pins it";
      if (this.words.some((word) => word.tokens.includes(token))) return "The pinned word stands in the strip";
      if (this.words.length >= MOST_BY_HAND) return `A strip has at most ${MOST_BY_HAND} words: take one out first (×)`;
      return sharpest(this.run, spanOf(this.run, token)) ? "" : "The pinned word was not drafted with a look, so it has no map";
    }

    _add() {
      this.choose(this.run, [...this.words.map((word) => word.token.index), this.on.pinned().index]);
    }

    /** Shows the words that the tokens at these positions belong to; what has no map is left out. */
    choose(run, positions) {
      const words = positions.map((at) => spanOf(run, run.words[at])).filter(Boolean).map((span) => sharpest(run, span)).filter(Boolean);
      this.run = run;
      this.edited = true;
      this.words = words.filter((word, i) => words.findIndex((other) => other.token === word.token) === i).sort((a, b) => a.token.index - b.token.index);
      this._draw();
    }

    _auto() {
      this.edited = false;
      this.on.refresh();
    }

    /** Paints all cards anew (also after a change of palette or scale). */
    repaint() {
      if (this.words.length) this._draw();
    }

    _draw() {
      this.cards.replaceChildren();
      this.none.hidden = this.words.length > 0;
      for (const word of this.words) {
        const { token } = word, name = nameOf(word), canvas = h("canvas", { class: "fv-thumb", role: "img", "aria-label": `Picture with the map of ${name}` });
        this.on.draw(canvas, token, 320);
        const drop = () => {
          const at = this.words.indexOf(word);
          this.edited = true;
          this.words = this.words.filter((other) => other !== word);
          this._draw();
          const drops = this.cards.querySelectorAll(".fv-drop");
          (drops[Math.min(at, drops.length - 1)] || this.auto).focus({ preventScroll: true });
        };
        this.cards.append(h("li", null,
          h("button", { type: "button", class: "fv-card", onclick: () => this.on.jump(token) }, canvas,
            h("span", { class: "fv-card-word" }, name), h("span", { class: "fv-card-figures" }, figures(this.run, token))),
          h("button", { type: "button", class: "fv-drop", "aria-label": `Take ${name} out of the strip`, title: "Take out", onclick: drop }, "×")));
      }
      this.buttons();
    }

    /** The strip as a PNG picture of its own. */
    async save() {
      const wide = 480, gap = 36, edge = 32, first = document.createElement("canvas");
      this.on.draw(first, this.words[0].token, wide);
      const tall = first.height, sheet = document.createElement("canvas");
      sheet.width = edge * 2 + this.words.length * wide + (this.words.length - 1) * gap;
      const notice = this.run.prefill?.outside ? OUTSIDE : [];
      sheet.height = edge * 2 + tall + 148 + 30 * notice.length;
      const pen = sheet.getContext("2d");
      pen.fillStyle = "#ffffff";
      pen.fillRect(0, 0, sheet.width, sheet.height);
      this.words.forEach((word, i) => {
        const x = edge + i * (wide + gap), thumb = document.createElement("canvas");
        this.on.draw(thumb, word.token, wide);
        pen.drawImage(thumb, x, edge);
        pen.fillStyle = "#1c1b19";
        pen.font = "600 30px ui-sans-serif, system-ui, sans-serif";
        pen.fillText(nameOf(word), x, edge + tall + 46, wide);
        pen.fillStyle = "#6b6862";
        pen.font = "22px ui-sans-serif, system-ui, sans-serif";
        pen.fillText(figures(this.run, word.token), x, edge + tall + 82, wide);
        if (i) pen.fillText("→", x - gap / 2 - 11, edge + tall / 2 + 8);
      });
      this.on.legend(pen, edge, edge + tall + 134, this.words.map((word) => this.run.readOf(word.token)));
      pen.font = "22px ui-sans-serif, system-ui, sans-serif";
      pen.fillStyle = "#a33f00";
      notice.forEach((line, i) => pen.fillText(line, edge, edge + tall + 184 + 30 * i, sheet.width - 2 * edge));
      const blob = await new Promise((done) => sheet.toBlob(done, "image/png"));
      download(blob, "fovea-strip.png");
    }
  }

  Object.assign(FOVEA, { Strip, chooseWords, isName });
})();
