/* Small helpers for elements. Text from a trace only ever goes through textContent or an attribute, never through markup. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  }
  /** An HTML element with attributes (functions named on… listen) and children (strings become text). */
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  /** The same for SVG. */
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  /** Sets text only where it changed. */
  function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  const LINE = /[\n\r]/;
  // Controls, zero-width and direction marks, the replacement character's neighbours: invisible, so they are shown as a sign.
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/;

  function signOf(character) {
    if (character === " ") return "␣";
    if (character === "\t") return "⇥";
    if (LINE.test(character)) return "⏎";
    if (character === "\u00a0") return "⍽";
    return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  }

  /** Appends ``text`` with signs for what cannot be seen. The text content stays exactly ``text``; signs come from CSS.
      One leading space before a visible character stays a plain space, set before the inked part. */
  function appendPiece(node, text) {
    let rest = text;
    if (/^ [^\s]/u.test(text)) {
      node.append(" ");
      rest = text.slice(1);
    }
    const ink = h("span", { class: "fv-ink" });
    let plain = "";
    const flush = () => {
      if (plain) ink.append(plain);
      plain = "";
    };
    const characters = [...rest];
    characters.forEach((character, i) => {
      const edge = i === 0 || i === characters.length - 1 || characters[i + 1] === " " || characters[i - 1] === " ";
      if ((character === " " && edge) || character === "\u00a0" || HIDDEN.test(character)) {
        flush();
        ink.append(h("span", { class: "fv-sign", "data-sign": signOf(character) }, character));
      } else plain += character;
    });
    flush();
    node.append(ink);
    return ink;
  }

  /** A piece in one line for captions and labels: trimmed, signs instead of what cannot be seen. */
  function label(text, most = 40) {
    const trimmed = text.trim() === "" ? text : text.trim();
    const signs = [...trimmed].map((c) => (HIDDEN.test(c) || c === "\u00a0" || trimmed.trim() === "" ? signOf(c) : c));
    return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : signs.join("");
  }

  /** Words of a number: percentages and probabilities without false precision. */
  const percent = (share) => (share >= 0.0995 || share === 0 ? `${Math.round(share * 100)} %` : `${(share * 100).toFixed(share < 0.00995 ? 2 : 1)} %`);
  const chance = (logp) => {
    const p = Math.min(1, Math.exp(logp));
    if (p >= 0.995) return "1.0";
    return p >= 0.005 ? p.toFixed(2).slice(1) : p >= 0.0005 ? p.toFixed(3).slice(1) : "< .001";
  };
  const milliseconds = (ms) => (ms >= 10000 ? `${(ms / 1000).toFixed(1)} s` : ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`);

  /** Offers ``blob`` as a file. */
  function download(blob, name) {
    const link = h("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  /** Scrolls until ``element`` begins in the upper half of the window, if it does not already. */
  function intoView(element) {
    const { top } = element.getBoundingClientRect();
    if (top >= 0 && top < window.innerHeight / 2) return;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    element.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  Object.assign(FOVEA, { intoView, h, s, say, appendPiece, label, percent, chance, milliseconds, download });
})();
