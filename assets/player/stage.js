/* The picture with its map: view, palette, opacity, scale, outlines, patch picking. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, Heat, PALETTES, gradient, stopsOf, valuesOf, percent, kindOf, LIMITS } = FOVEA;
  const FLAT_PEAK = 0.05; // below this the mass is as good as spread evenly

  /** Whether a read has no preference worth a number. */
  const isFlat = (read) => read.event.peak < FLAT_PEAK;

  /** A row of buttons of which one is pressed. choices: [[value, text, title]]. */
  function segments(name, choices, value, onpick) {
    const buttons = choices.map(([id, text, title]) =>
      h("button", { type: "button", class: "fv-segment", "data-value": id, title, onclick: () => onpick(id) }, text));
    const box = h("div", { class: "fv-segments", role: "group", "aria-label": name }, ...buttons);
    let shown = null;
    const set = (now) => {
      if (now === shown) return;
      shown = now;
      buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === String(now))));
    };
    set(value);
    return { box, set };
  }

  class Stage {
    /** on = {change(), patch(entries)}; change is called after any setting that alters what maps look like. */
    constructor(on) {
      this.on = on;
      this.palette = "viridis";
      this.opacity = 0.8;
      this.exact = false;
      this.perStep = false;
      this.picture = h("img", { class: "fv-picture", alt: "The picture of this run", draggable: "false" });
      this.canvas = h("canvas", { class: "fv-heat", role: "img", "aria-label": "Map of retrieved entries" });
      this.flat = h("p", { class: "fv-flat", hidden: true });
      this.frame = h("div", { class: "fv-frame" }, this.picture, this.canvas, this.flat);
      this.low = h("span", null, "0 %");
      this.middle = h("span", { class: "fv-ramp-middle" }, "");
      this.high = h("span", null, "");
      this.ramp = h("span", { class: "fv-ramp" }, this.middle);
      this.unit = h("span", { class: "fv-hint" }, "of mass per entry");
      this.legend = h("div", { class: "fv-legend" }, this.low, this.ramp, this.high, this.unit);
      this.palettes = segments("Palette", PALETTES.map((name, i) => [name, name, `key ${i + 1}`]), this.palette, (name) => this.setPalette(name));
      this.scales = segments("Colour scale", [["answer", "scale: answer", "one scale for the whole answer"], ["step", "scale: each map", "every map uses its own largest mass"]], "answer", (id) => {
        this.perStep = id === "step";
        this.scales.set(id);
        on.change();
      });
      this.exactBox = h("input", { type: "checkbox", title: "key x", onchange: () => this.setExact(this.exactBox.checked) });
      this.slider = h("input", { type: "range", class: "fv-range", min: 0, max: 1, step: 0.05, value: this.opacity, "aria-label": "Opacity of the map", oninput: () => {
        this.opacity = Number(this.slider.value);
        on.change();
      } });
      this.controls = h("div", { class: "fv-controls" }, this.palettes.box, this.scales.box,
        h("label", { class: "fv-check" }, "opacity", this.slider), h("label", { class: "fv-check" }, this.exactBox, "exact cells"));
      this.canvas.addEventListener("click", (event) => this._pick(event));
      this.picture.addEventListener("load", () => this._loaded());
      this.picture.addEventListener("error", () => on.trouble("The picture in this trace is damaged."));
      this.resize = new ResizeObserver(() => this._fit());
      this.resize.observe(this.frame);
      this.clear();
    }

    clear() {
      this.run = null;
      this.heat = null;
      this.ready = false;
      this.picked = this.cursor = null;
      this.drawn = "";
      this.loaded = new Promise((done) => (this.whenLoaded = done));
    }

    /** Takes the run whose picture and grid are to be shown. */
    setRun(run) {
      this.run = run;
      this.picture.src = run.header.picture;
    }

    _loaded() {
      const { naturalWidth: width, naturalHeight: height } = this.picture;
      if (Math.max(width, height) > LIMITS.longSidePx) {
        this.picture.removeAttribute("src"); // before it is painted, which is what costs
        this.on.trouble(`The picture in this trace is larger than ${LIMITS.longSidePx.toLocaleString("en")} px.`);
        return;
      }
      this.aspect = width / height;
      this.frame.style.aspectRatio = `${width} / ${height}`;
      this.frame.style.setProperty("--aspect", this.aspect);
      this.ready = true;
      this._fit();
      this.whenLoaded();
    }

    _fit() {
      if (!this.ready) return;
      const dense = Math.min(2, window.devicePixelRatio || 1), box = this.frame.getBoundingClientRect();
      const width = Math.max(1, Math.round(box.width * dense)), height = Math.max(1, Math.round(box.height * dense));
      if (this.canvas.width === width && this.canvas.height === height && this.heat) return;
      this.canvas.width = width;
      this.canvas.height = height;
      this.drawn = "";
      this.on.change();
    }

    setPalette(name) {
      this.palette = name;
      this.palettes.set(name);
      this.on.change();
    }

    /** The heat drawer of the run, made when the grid is known. */
    _drawer() {
      if (!this.heat && this.ready && this.run && this.run.prefill) this.heat = new Heat(this.run, this.aspect);
      return this.heat;
    }

    /** Largest mass the colours reach: over the answer so far, or of this map alone. */
    scaleOf(reads) {
      if (this.perStep && reads.length === 1) return reads[0].event.top_mass || 1;
      if (this.perStep) return valuesOf(this.run, reads).reduce((a, b) => Math.max(a, b), 0) || 1;
      return reads[0]?.event.source === "target" ? this.run.largestLook : this.run.largestMass;
    }

    /** Draws the mean of ``reads`` (none: picture alone). ``key`` names what is drawn, so that nothing is drawn twice. */
    show(reads, key) {
      const full = [key, reads.length, this.palette, this.opacity, this.exact, this.perStep, reads.length ? this.scaleOf(reads) : 0, this.picked, this.cursor].join("|");
      if (full === this.drawn) return;
      const heat = this._drawer();
      if (!heat) return;
      this.drawn = full;
      const scale = reads.length ? this.scaleOf(reads) : 1;
      const { palette, opacity } = this, exact = this.exact || Boolean(this.picked); // a patch whose numbers are read off is a cell
      heat.draw(this.canvas, reads.length ? { values: valuesOf(this.run, reads), scale } : null, { palette, opacity, exact });
      const line = Math.max(1, this.canvas.width / 640);
      const even = reads.length === 1 && isFlat(reads[0]);
      if (reads.length === 1 && !even && reads[0].size < this.run.validCount) {
        heat.outline(this.canvas, reads[0].entries, "rgba(255,255,255,.6)", line);
        heat.outline(this.canvas, reads[0].entries.subarray(0, 1), "#fff", line * 2);
      }
      if (this.picked) heat.outline(this.canvas, this.picked, "#ff4d9d", line * 3);
      if (this.cursor !== null) heat.outline(this.canvas, [this.cursor], "#ff4d9d", line * 1.5);
      say(this.high, reads.length ? percent(scale) : "");
      say(this.middle, reads.length ? percent(scale / 4) : "");
      say(this.unit, this._unit(reads));
      this.ramp.style.background = gradient(this.palette);
      this.legend.classList.toggle("fv-idle", reads.length === 0);
      this.flat.hidden = !even;
      if (even) say(this.flat, "no preference: the mass lies almost evenly over all entries");
    }

    _unit(reads) {
      return `of ${kindOf(this.run.started) && reads[0]?.event.source !== "target" ? "reading" : "mass"} per entry`;
    }

    /** Writes the legend of maps of ``reads`` on a sheet, from ``x`` on, 22 px letters on the line ``base``; ``many``: a map each. */
    legendOn(pen, x, base, reads, many) {
      const own = many && this.perStep, scale = own ? 0 : this.scaleOf(many ? reads.slice(0, 1) : reads), wide = 150, font = (px) => `${px}px ui-sans-serif, system-ui, sans-serif`;
      pen.fillStyle = "#6b6862";
      pen.font = font(22);
      pen.fillText("0 %", x, base);
      const left = x + pen.measureText("0 %").width + 12, ramp = pen.createLinearGradient(left, 0, left + wide, 0);
      pen.fillText(own ? `the most of each map, ${this._unit(reads)}` : `${percent(scale)} ${this._unit(reads)}`, left + wide + 12, base);
      if (!own) {
        pen.font = font(15);
        pen.textAlign = "center";
        pen.fillText(percent(scale / 4), left + wide / 2, base + 16);
        pen.textAlign = "start";
      }
      stopsOf(this.palette).forEach((colour, i, all) => ramp.addColorStop(i / (all.length - 1), colour));
      pen.fillStyle = ramp;
      pen.fillRect(left, base - 15, wide, 13);
    }

    /** Paints picture and map of ``read`` (several: their mean; an empty list: none) into ``canvas``, ``width`` px wide. */
    paint(canvas, read, width) {
      const reads = [].concat(read);
      canvas.width = width;
      canvas.height = Math.max(1, Math.round(width / (this.aspect || 1)));
      const heat = this._drawer();
      if (!heat) return;
      const layer = document.createElement("canvas");
      layer.width = canvas.width;
      layer.height = canvas.height;
      heat.draw(layer, reads.length ? { values: valuesOf(this.run, reads), scale: this.scaleOf(reads) } : null, this);
      const pen = canvas.getContext("2d");
      pen.drawImage(this.picture, 0, 0, canvas.width, canvas.height);
      pen.drawImage(layer, 0, 0);
    }

    /** Whole cells as they were retrieved, instead of the smooth field through their middles. */
    setExact(exact) {
      this.exact = this.exactBox.checked = exact;
      this.on.change();
    }

    _pick(event) {
      if (!this.run || !this.run.prefill) return;
      const box = this.canvas.getBoundingClientRect();
      const entries = this.run.entriesAt((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
      this.on.patch(entries);
    }
  }

  Object.assign(FOVEA, { Stage, segments, isFlat });
})();
