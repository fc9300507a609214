/* Small pictures and pieces of text that the lesson is made of. Words of a run only ever go through textContent. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, s, label, percent, appendPiece } = FOVEA;

  const para = (...parts) => h("p", null, ...parts);
  const term = (text) => h("strong", null, text);
  /** A word of the run inside a sentence. */
  const quoted = (text) => h("q", { class: "fl-quoted", dir: "auto" }, label(text, 24) || "∎");
  const plural = (count, one, many = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

  function button(text, act, main = false) {
    return h("button", { type: "button", class: `fv-button${main ? " fl-main" : ""}`, onclick: act }, text);
  }

  /** A list of figures: [[name, value, note]]; those without a value are left out. */
  function facts(list) {
    const rows = list.filter((row) => row && row[1] !== null && row[1] !== undefined);
    return h("dl", { class: "fv-figures fl-facts" }, ...rows.map(([name, value, note]) =>
      h("div", null, h("dt", null, name), h("dd", { class: "fv-figure" }, value), note ? h("dd", { class: "fv-hint" }, note) : null)));
  }

  /** The first ``count`` words of the answer as chips, one a token; the last one is marked. */
  function tokens(run, count) {
    const box = h("div", { class: "fl-tokens", dir: "auto", role: "group", tabindex: 0, "aria-label": "Answer so far" });
    run.words.slice(0, count).forEach((word, i) => {
      const chip = h("span", { class: i === count - 1 ? "fl-token fl-newest" : "fl-token" });
      if (word.text) appendPiece(chip, word.text);
      else chip.append(h("span", { class: "fv-sign", "data-sign": word.bytes || "∎" }));
      box.append(chip);
    });
    return box;
  }

  /** The end of the answer before word ``index``, as one line of text, with a gap where that word will stand. */
  function before(run, index) {
    const text = run.words.slice(Math.max(0, index - 8), index).map((word) => word.text).join("");
    return h("p", { class: "fl-before", dir: "auto" }, `${index > 8 ? "… " : ""}${label(text, 80)} `, h("span", { class: "fl-gap", role: "img", "aria-label": "the next word" }));
  }

  /** How the mass adds up, entry by entry, on axes that stay the same for all reads: ``most`` entries wide, the whole mass high.
      ``share``: the dashed line, or null. */
  function massChart(most, share) {
    const columns = h("div", { class: "fl-columns" });
    const line = share === null ? null : h("div", { class: "fl-share" }, h("span", null, percent(share)));
    if (line) line.style.bottom = `${100 * share}%`;
    const box = h("div", { class: "fl-chart", role: "img" }, columns, line, h("span", { class: "fl-axis" }, `${most} entries`));
    function show(read) {
      let sum = 0;
      columns.replaceChildren(...[...read.masses].map((mass) => {
        sum += mass;
        const column = h("div", { class: "fl-column" }), added = h("div", { class: "fl-added" });
        column.style.height = `${Math.min(100, 100 * sum)}%`;
        column.style.width = `${100 / most}%`;
        added.style.height = `${sum ? (100 * mass) / sum : 0}%`;
        column.append(added);
        return column;
      }));
      box.setAttribute("aria-label", `The masses of ${read.size} entries added up, largest first: ${percent(read.event.captured)} together`);
    }
    return { box, show };
  }

  /** Guesses for one place as bars. rows: [{text, token, with, without}]; ``own``: the target's own token there. */
  function guessBars(rows, own) {
    const made = rows.map((row) => {
      const fill = h("div", { class: "fl-fill" }), value = h("span", { class: "fl-p" });
      const name = h("span", { class: "fl-guess" }, h("span", { dir: "auto" }, label(row.text, 18) || "∎"), row.token === own ? h("small", null, "the target's own word") : null);
      return { row, fill, value, box: h("li", { class: row.token === own ? "fl-own" : null }, name, h("div", { class: "fl-track" }, fill), value) };
    });
    const box = h("ul", { class: "fl-bars", "aria-label": "Guesses for the next word" }, ...made.map((bar) => bar.box));
    function show(name) {
      for (const { row, fill, value } of made) {
        const p = row[name];
        fill.style.width = `${100 * (p ?? 0)}%`;
        FOVEA.say(value, p === null ? "not guessed" : FOVEA.chance(Math.log(p)));
      }
    }
    return { box, show };
  }

  /** One line of target forwards, each as high as the tokens it gave: ``most`` forwards fill the width, ``high`` tokens the height. */
  function lane(name, counts, most, high, note) {
    const box = s("svg", { class: "fl-lane", viewBox: `0 0 ${most} ${high}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${note}` });
    counts.forEach(({ accepted, all }, i) => {
      if (accepted) box.append(s("rect", { class: "fl-kept", x: i + 0.1, width: 0.8, y: high - accepted, height: accepted }));
      if (all > accepted) box.append(s("rect", { class: "fl-bonus", x: i + 0.1, width: 0.8, y: high - all, height: all - accepted }));
    });
    return h("div", { class: "fl-lane-row" }, h("p", null, h("strong", null, name), " ", h("span", { class: "fv-hint" }, note)), box);
  }

  const laneMarks = () => h("p", { class: "fl-lane-marks" }, "Each block is one target forward, as high as the tokens it gave:", h("span", { class: "fl-kept-mark" }, "accepted"), h("span", null, "the target's own"));

  Object.assign(FOVEA, { laneMarks, para, term, quoted, plural, lessonButton: button, facts, tokensOf: tokens, beforeWord: before, massChart, guessBars, lane });
})();
