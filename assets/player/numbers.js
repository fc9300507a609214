/* The numbers of the run and of the step in view, and the table of steps. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, percent, milliseconds, label, idsOf, kindOf } = FOVEA;
  const SHORT = 16; // tokens: below, a speedup says more of the prefill than of the drafts
  const PARTS = ["prefill", "draft", "select", "verify"]; // prefill counts the making of the visual memory too

  const CAPTURED = "what the retrieved entries hold of the 100 % shared out over all entries";
  const GATE = "how much of what was fetched is let into the guess: 0 nothing, 1 all";

  /** How many entries the share of the mass asked for, where a bound on K said otherwise (eq 6). */
  function clipped({ size, event }) {
    return event.k_raw > size ? `; the most it may take, ${event.k_raw} were wanted` : event.k_raw < size ? `; the least it may take, ${event.k_raw} would do` : "";
  }

  class Numbers {
    constructor(host) {
      const figure = (name, hint) => {
        const value = h("dd", { class: "fv-figure" }), note = h("dd", { class: "fv-hint" }, hint);
        return { box: h("div", null, h("dt", null, name), value, note), value, note };
      };
      this.tau = figure("tau", "tokens a round after the first token: accepted + bonus");
      this.speed = figure("speedup", "");
      this.same = figure("same text", "");
      this.entries = figure("entries", "");
      this.captured = figure("captured mass", CAPTURED);
      this.gate = figure("gate", GATE);
      this.bars = [this._bar("This step"), this._bar("Whole run")];
      this.ids = h("p", { class: "fv-foot fv-ids" });
      host.append(
        h("dl", { class: "fv-figures" }, ...[this.tau, this.speed, this.same, this.entries, this.captured, this.gate].map((f) => f.box)),
        h("div", { class: "fv-times" }, ...this.bars.map((bar) => bar.row),
          h("p", { class: "fv-foot fv-parts" }, ...PARTS.map((name) => h("span", { class: `fv-part-${name}` }, name)))),
        this.ids,
      );
    }

    _bar(name) {
      const parts = PARTS.map((part) => h("span", { class: `fv-part fv-part-${part}` }));
      const total = h("span", { class: "fv-total" });
      const track = h("span", { class: "fv-track", role: "img" }, ...parts);
      return { row: h("div", { class: "fv-bar" }, h("span", { class: "fv-bar-name" }, name), track, total), parts, total, track };
    }

    _times(bar, values) {
      const sum = values.reduce((a, b) => a + b, 0);
      bar.parts.forEach((part, i) => {
        part.style.flexGrow = sum ? values[i] / sum : 0;
        part.title = `${PARTS[i]} ${milliseconds(values[i])}`;
      });
      bar.track.setAttribute("aria-label", PARTS.map((part, i) => `${part} ${milliseconds(values[i])}`).join(", "));
      say(bar.total, sum ? milliseconds(sum) : "–");
    }

    /** Shows the run up to step ``at`` and the figures of ``read`` (null: none in view). */
    show(run, at, read) {
      const kind = kindOf(run.started), sums = run.totals(at), prefill = run.prefill ? run.prefill.prefill_ms + run.prefill.remember_ms : 0;
      say(this.ids, run.started ? idsOf(run.started) : "");
      say(this.tau.value, sums.tau === null ? "–" : sums.tau.toFixed(2));
      const compared = run.compared;
      say(this.speed.value, compared ? `${compared.speedup.toFixed(2)}×` : "–");
      say(this.speed.note, compared
        ? `${compared.speedup < 1 ? "slower than plain decoding here" : "against plain decoding"}, measured: plain ${milliseconds(compared.plain_median_ms)} (median of ${compared.plain_ms.length}), drafted ${milliseconds(compared.speculative_ms)}${run.words.length < SHORT ? ", most of it for reading picture and question" : ""}; this run with its recording ${milliseconds(run.finished.total_ms)}`
        : run.finished ? "not compared with plain decoding" : "told after the run");
      say(this.same.value, compared ? (compared.same_ids ? "yes" : "no") : "–");
      this.same.box.classList.toggle("fv-bad", Boolean(compared) && !compared.same_ids);
      say(this.same.note, !compared ? (run.finished ? "not compared with plain decoding" : "told after the run") : compared.same_ids ? "every token equals plain decoding"
        : compared.first_difference == null ? "differs from plain decoding"
        : `first differs at token ${compared.first_difference + 1}` + (compared.gap == null ? "" : `, where two choices are ${compared.gap.toPrecision(2)} apart`));
      say(this.entries.value, read ? `${read.size} of ${run.validCount}` : "–");
      say(this.entries.note, read ? (kind ? kind.entries(read) : `retrieved, of all that the picture has${clipped(read)}`) : "no single word's map is in view");
      say(this.captured.value, read ? percent(read.event.captured) : "–");
      say(this.captured.note, kind ? kind.captured : CAPTURED);
      say(this.gate.note, kind && read && read.event.gate == null ? "its reader has none: all that was read goes into the guess" : GATE);
      say(this.gate.value, read && read.event.gate != null ? read.event.gate.toFixed(2) : "–");
      const round = at > 0 ? run.rounds[at - 1].verdict : null;
      this._times(this.bars[0], round ? [0, round.draft_ms, round.select_ms, round.verify_ms] : [prefill, 0, 0, 0]);
      this._times(this.bars[1], [prefill, sums.draft_ms, sums.select_ms, sums.verify_ms]);
    }
  }

  /** A plain table of all steps, made when it is opened and extended while it stays open. */
  class Steps {
    constructor(onjump) {
      const head = ["step", "accepted", "rejected", "unverified", "bonus", "K", "captured", "ms"];
      this.body = h("tbody");
      this.box = h("details", { class: "fv-steps", ontoggle: () => this.sync(this.run) }, h("summary", null, "Table of steps"),
        h("div", { class: "fv-scroll" }, h("table", null, h("thead", null, h("tr", null, ...head.map((name) => h("th", { scope: "col" }, name)))), this.body)));
      this.onjump = onjump;
    }

    clear() {
      this.run = null;
      this.body.replaceChildren();
    }

    sync(run) {
      this.run = run;
      if (!run || !this.box.open) return;
      for (let i = this.body.childElementCount; i < run.steps; i += 1) {
        const round = run.rounds[i], v = round.verdict, read = run.readAt(round, 0);
        const words = run.words.slice(round.firstWord, round.firstWord + v.accepted.length).map((word) => word.text || (word.bytes ? "" : "∎")).join("");
        const rejected = [...round.nodes.values()].filter((node) => node.status === "rejected").map((node) => label(node.text) || "∎").join(", ");
        const cell = (text) => h("td", null, text);
        this.body.append(h("tr", null,
          h("th", { scope: "row" }, h("button", { type: "button", class: "fv-link", onclick: () => this.onjump(round.step) }, String(round.step))),
          cell(label(words, 60) || "–"), cell(rejected || "–"), cell(String(v.unverified.length)), cell(v.bonus == null ? "–" : label(v.bonus_text ?? "") || "∎"),
          cell(read ? String(read.size) : "–"), cell(read ? percent(read.event.captured) : "–"), cell((v.draft_ms + v.select_ms + v.verify_ms).toFixed(1))));
      }
    }
  }

  Object.assign(FOVEA, { Numbers, Steps });
})();
