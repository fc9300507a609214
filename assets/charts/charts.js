/* Charts of the run that a player shows, drawn by plotly once the run has ended and somebody looks. A click on a bar or point
   moves the player; a table of the words is the same for keys and screen readers. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h } = FOVEA;
  const TALL_PX = 250;
  let fetched = null;

  /** Plotly, fetched once from this server unless another part of the page has brought it. */
  function plotly(address) {
    if (!fetched && window.Plotly) fetched = Promise.resolve(window.Plotly);
    fetched ??= new Promise((done, failed) => {
      const script = h("script", { src: address, onload: () => done(window.Plotly), onerror: () => {
        fetched = null;
        script.remove();
        failed(new Error("plotly"));
      } });
      document.head.append(script);
    });
    return fetched;
  }

  class Charts {
    constructor(root, player, address) {
      Object.assign(this, { root, player, address, figures: null, plots: [], drawn: false });
      root.classList.add("fv", "fg");
      this.grid = h("div", { class: "fg-grid" });
      this.note = h("p", { class: "fv-note", role: "alert", hidden: true }, "The charts could not be drawn: the script that draws them did not arrive.");
      this.rows = h("tbody");
      const head = ["word", "text", "K", "captured mass", "gate"].map((name) => h("th", { scope: "col" }, name));
      this.table = h("details", { class: "fv-steps", ontoggle: () => this._rows() }, h("summary", null, "Table of words"),
        h("div", { class: "fv-scroll" }, h("table", null, h("thead", null, h("tr", null, ...head)), this.rows)));
      this.box = h("details", { class: "fg-box", ontoggle: () => this._look() }, h("summary", null, "Charts of this run"), this.note, this.grid, this.table);
      root.replaceChildren(this.box);
      root.hidden = true;
      new ResizeObserver(() => this._fit()).observe(this.grid);
      new MutationObserver(() => this._look(true)).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    }

    /** Takes the figures of app/charts.py; null: no run that has ended is in view. */
    show(figures) {
      if (figures === this.figures) return;
      this.figures = figures;
      this.drawn = false;
      this.root.hidden = !figures;
      for (const { plot } of this.plots) this.Plotly.purge(plot);
      this.plots = [];
      this.grid.replaceChildren();
      this.rows.replaceChildren();
      this.table.hidden = !this._of("entries");
      if (figures) this._look();
    }

    _of(name) {
      return (this.figures || []).find((figure) => figure.name === name) || null;
    }

    /** Draws what is not drawn yet, where somebody looks; ``again``: in new colours. */
    async _look(again) {
      if (!this.box.open || !this.figures || (this.drawn && !again)) return;
      this.drawn = true;
      const { figures } = this;
      let Plotly;
      try {
        Plotly = this.Plotly = await plotly(this.address);
        this.note.hidden = true;
      } catch {
        this.drawn = false;
        this.note.hidden = false;
        return;
      }
      if (figures !== this.figures) return; // another run came meanwhile
      if (!this.plots.length) this.plots = figures.map((figure) => this._panel(figure));
      for (const { plot, figure } of this.plots) {
        const { data, layout } = this._dressed(figure);
        await Plotly.react(plot, data, layout, { displayModeBar: false, responsive: false });
        if (plot.listening) continue;
        plot.listening = true;
        plot.on("plotly_click", ({ points }) => this._goto(figure, points[0].x));
      }
      this._rows();
    }

    _panel(figure) {
      const plot = h("div", { class: "fg-plot", role: "img", "aria-label": `${figure.title}. ${figure.text}` });
      this.grid.append(h("section", { class: "fg-panel", "aria-label": figure.title }, h("h3", null, figure.title), plot, h("p", { class: "fv-hint" }, figure.text)));
      return { plot, figure };
    }

    /** The figure in the page's colours of now. */
    _dressed({ data, layout }) {
      const style = getComputedStyle(this.root), ink = (name) => style.getPropertyValue(`--fv-${name}`).trim(), font = { family: style.fontFamily, size: 12 };
      const axis = (given, more) => ({ ...given, ...more, title: { ...given.title, font }, color: ink("soft"), gridcolor: ink("line"), zerolinecolor: ink("line"), fixedrange: true, automargin: true });
      const coloured = (trace) => {
        const [name, opaque] = trace.meta.split(" "), color = ink(name) + (opaque ? Math.round(255 * opaque).toString(16) : ""), marker = { ...trace.marker, color };
        if (trace.type === "bar") return { ...trace, marker: { ...marker, line: { width: 0 }, pattern: { ...marker.pattern, fillmode: "overlay", fgcolor: ink("paper"), size: 6, solidity: 0.25 } } };
        return { ...trace, marker, line: { ...trace.line, color }, connectgaps: false };
      };
      return {
        data: data.map(coloured),
        layout: {
          ...layout, height: TALL_PX, autosize: true, dragmode: false, hovermode: "closest", bargap: 0.25, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
          margin: { l: 44, r: 8, t: 8, b: 36 }, font: { ...font, color: ink("ink") },
          hoverlabel: { bgcolor: ink("paper"), bordercolor: ink("line"), font: { ...font, color: ink("ink") } },
          legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal", font: { color: ink("soft") } },
          xaxis: axis(layout.xaxis, { showgrid: false }), yaxis: axis(layout.yaxis),
        },
      };
    }

    _fit() {
      const width = this.grid.clientWidth;
      if (!width || width === this.wide) return;
      this.wide = width;
      for (const { plot } of this.plots) if (plot.data) this.Plotly.Plots.resize(plot);
    }

    _goto({ by }, at) {
      if (by === "step") this.player.goto(at);
      else this.player.toWord(at - 1);
      this.player.stage.frame.scrollIntoView({ block: "nearest" });
    }

    /** The words' numbers as a table, made when it is opened. */
    _rows() {
      const entries = this._of("entries"), shares = this._of("shares");
      if (!this.table.open || !entries || this.rows.childElementCount) return;
      const plain = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"); // escaped for plotly
      const cell = (value, digits) => h("td", null, value === null || value === undefined ? "–" : value.toFixed(digits));
      const [k] = entries.data, [captured, gate] = shares.data;
      k.x.forEach((word, i) => {
        this.rows.append(h("tr", null,
          h("th", { scope: "row" }, h("button", { type: "button", class: "fv-link", onclick: () => this._goto(entries, word) }, String(word))),
          h("td", null, plain(k.hovertext[i])), cell(k.y[i], 0), cell(captured.y[i], 2), cell(gate ? gate.y[i] : null, 2)));
      });
    }
  }

  FOVEA.plotly = plotly;
  /** Makes the charts of ``player`` in ``root``; ``address``: where plotly's script lies. */
  FOVEA.createCharts = (root, player, address) => new Charts(root, player, address);
})();
