/* The trajectory strip: a few words, each with its own map, in answer order. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, label, percent, valuesOf, download } = FOVEA;
  const MOST = 5, LEAST = 0.25;

  function jaccard(a, b) {
    let shared = 0;
    for (const entry of a) if (b.has(entry)) shared += 1;
    const all = a.size + b.size - shared;
    return all ? 1 - shared / all : 0;
  }

  /** Words for the strip: the highest peak, then the largest peak x smallest Jaccard distance to those taken, until five are
      taken or the value falls below 0.25; in answer order. Jaccard distance is between sets of chosen entries. */
  function chooseWords(run, upto) {
    const left = [];
    for (const word of run.words) {
      const read = word.step <= upto ? run.readOf(word) : null;
      if (read && read.size) left.push({ word, peak: read.event.peak, set: (read.set ??= new Set(read.entries)), far: 1 });
    }
    const taken = [];
    while (taken.length < MOST && left.length) {
      let best = 0;
      for (let i = 1; i < left.length; i += 1) if (left[i].peak * left[i].far > left[best].peak * left[best].far) best = i;
      const [pick] = left.splice(best, 1);
      if (pick.peak * pick.far < LEAST) break;
      taken.push(pick);
      for (const other of left) other.far = Math.min(other.far, jaccard(other.set, pick.set));
    }
    return taken.map((pick) => pick.word).sort((a, b) => a.index - b.index);
  }

  const figures = (run, word) => {
    const read = run.readOf(word);
    return { step: `step ${word.step}`, k: `K ${read.size}`, mass: `${percent(read.event.captured)} of mass` };
  };

  class Strip {
    /** on = {jump(word), pinned() -> word or null, draw(canvas, map), map(word)}; draw paints picture and heat. */
    constructor(host, on) {
      this.on = on;
      this.host = host;
      this.edited = false;
      this.cards = h("ol", { class: "fv-cards" });
      this.none = h("p", { class: "fv-foot" }, "No word so far has a map with a clear peak.");
      this.add = h("button", { type: "button", class: "fv-button", onclick: () => this._add() }, "Add pinned word");
      this.auto = h("button", { type: "button", class: "fv-button", onclick: () => this._auto() }, "Choose again");
      this.png = h("button", { type: "button", class: "fv-button", onclick: () => this.save() }, "Save strip (PNG)");
      host.append(this.cards, this.none);
      this.actions = h("div", { class: "fv-actions" }, this.add, this.auto, this.png);
      this.words = [];
    }

    clear() {
      this.edited = false;
      this.words = [];
      this.run = null;
      this._draw();
    }

    /** Chooses the words up to step ``upto`` unless the reader has edited the strip. */
    show(run, upto) {
      const words = this.edited ? this.words : chooseWords(run, upto);
      const same = this.run === run && words.length === this.words.length && words.every((word, i) => word === this.words[i]);
      this.run = run;
      this.words = words;
      if (!same) this._draw();
      this.buttons();
    }

    buttons() {
      const word = this.on.pinned();
      this.add.disabled = !word || !this.run || !this.run.readOf(word) || this.words.includes(word) || this.words.length >= 8;
      this.auto.disabled = !this.edited;
      this.png.disabled = this.words.length === 0;
    }

    _add() {
      this.edited = true;
      this.words = [...this.words, this.on.pinned()].sort((a, b) => a.index - b.index);
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
        const canvas = h("canvas", { class: "fv-thumb", role: "img", "aria-label": `Picture with the map of ${label(word.text)}` });
        this.on.draw(canvas, word, 320);
        const f = figures(this.run, word);
        this.cards.append(
          h("li", null,
            h("button", { type: "button", class: "fv-card", onclick: () => this.on.jump(word) }, canvas,
              h("span", { class: "fv-card-word" }, label(word.text, 24)),
              h("span", { class: "fv-card-figures" }, `${f.step} · ${f.k} · ${f.mass}`)),
            h("button", { type: "button", class: "fv-drop", "aria-label": `Take ${label(word.text)} out of the strip`, title: "Take out", onclick: () => {
              this.edited = true;
              this.words = this.words.filter((other) => other !== word);
              this._draw();
            } }, "×")),
        );
      }
      this.buttons();
    }

    /** The strip as a PNG picture of its own. */
    async save() {
      const wide = 480, gap = 36, edge = 32, first = document.createElement("canvas");
      this.on.draw(first, this.words[0], wide);
      const tall = first.height, sheet = document.createElement("canvas");
      sheet.width = edge * 2 + this.words.length * wide + (this.words.length - 1) * gap;
      sheet.height = edge * 2 + tall + 96;
      const pen = sheet.getContext("2d");
      pen.fillStyle = "#ffffff";
      pen.fillRect(0, 0, sheet.width, sheet.height);
      this.words.forEach((word, i) => {
        const x = edge + i * (wide + gap), thumb = document.createElement("canvas");
        this.on.draw(thumb, word, wide);
        pen.drawImage(thumb, x, edge);
        pen.fillStyle = "#1c1b19";
        pen.font = "600 30px ui-sans-serif, system-ui, sans-serif";
        pen.fillText(label(word.text, 24), x, edge + tall + 46, wide);
        pen.fillStyle = "#6b6862";
        pen.font = "22px ui-sans-serif, system-ui, sans-serif";
        const f = figures(this.run, word);
        pen.fillText(`${f.step} · ${f.k} · ${f.mass}`, x, edge + tall + 82, wide);
        if (i) pen.fillText("→", x - gap / 2 - 11, edge + tall / 2 + 8);
      });
      const blob = await new Promise((done) => sheet.toBlob(done, "image/png"));
      download(blob, "fovea-strip.png");
    }
  }

  Object.assign(FOVEA, { Strip, chooseWords });
})();
