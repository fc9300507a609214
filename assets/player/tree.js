/* The draft tree of one round: root at the left, one column per depth, the accepted path straight along the top row. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, s, label, describe, closeness, keyOf, chance } = FOVEA;
  const ROW = 32, NODE = 22, GAP = 26, PAD = 8, FONT = "13px ui-sans-serif, system-ui, sans-serif";
  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text) => ((pen.font = FONT), pen.measureText(text).width);

  /** Places of the round's nodes: [{item, x, y, width, text, from}] with item null for root and bonus. */
  function layout(run, round, secret) {
    const below = new Map([[0, []]]);
    for (const node of round.nodes.values()) {
      below.set(node.id, below.get(node.id) || []);
      below.get(node.parent).push(node);
    }
    const order = (a, b) => (secret ? 0 : (b.status === "accepted") - (a.status === "accepted")) || (b.logp ?? 0) - (a.logp ?? 0) || a.id - b.id;
    const verdict = secret ? null : round.verdict, tip = verdict ? verdict.accepted[verdict.accepted.length - 1] ?? 0 : null;
    const before = run.words[round.firstWord - 1];
    const spots = [{ id: 0, item: before, kind: "root", depth: 0, text: label(before.text, 14) || "∎" }];
    // Every column is a stack of its own: a node stands in the first free row of its depth, never above its parent. The
    // accepted path is walked first, so it keeps row 0.
    const free = [1];
    const walk = (id, from, depth) => {
      const children = below.get(id).sort(order);
      const mine = children.map((node) => ({ id: node.id, item: node, kind: secret ? "pending" : node.status, depth, text: label(node.text, 14) || node.bytes || "∎", p: node.logp, from }));
      if (id === tip && verdict.bonus != null) {
        const word = run.words[round.firstWord + round.wordCount - 1];
        mine.unshift({ id: -1, item: word, kind: "bonus", depth, text: label(word.text, 14) || word.bytes || "∎", from });
      }
      for (const spot of mine) {
        spot.row = Math.max(free[depth] || 0, from.row);
        free[depth] = spot.row + 1;
        spots.push(spot);
        if (spot.id > 0) walk(spot.id, spot, depth + 1);
      }
    };
    spots[0].row = 0;
    walk(0, spots[0], 1);
    const rows = Math.max(...spots.map((spot) => spot.row)) + 1;
    const columns = [];
    for (const spot of spots) {
      spot.note = spot.p === null || spot.p === undefined ? "" : chance(spot.p);
      spot.width = Math.max(26, wide(spot.text) + (spot.note ? wide(spot.note) * 0.84 + 9 : 0) + 2 * PAD);
      columns[spot.depth] = Math.max(columns[spot.depth] || 0, spot.width);
    }
    for (const spot of spots) {
      spot.x = 4 + columns.slice(0, spot.depth).reduce((a, b) => a + b + GAP, 0);
      spot.y = 4 + spot.row * ROW + ROW / 2;
    }
    return { spots, width: 8 + columns.reduce((a, b) => a + b, 0) + GAP * (columns.length - 1), height: 8 + rows * ROW };
  }

  function branch(spot) {
    const x1 = spot.from.x + spot.from.width, y1 = spot.from.y, x2 = spot.x, bend = x1 + (x2 - x1) * 0.5;
    return s("path", {
      class: `fv-branch fv-${spot.kind}`, "data-depth": spot.depth, d: `M${x1} ${y1}C${bend} ${y1} ${bend} ${spot.y} ${x2} ${spot.y}`,
      "stroke-width": spot.kind === "bonus" ? 1.5 : (1 + 3 * Math.exp(spot.p ?? -1.5)).toFixed(2),
    });
  }

  function nodeOf(spot, looked, secret) {
    const { item, kind, x, y, width } = spot;
    const what = kind === "root" ? "root: the last committed word" : secret ? "proposed" : describe(item);
    const key = keyOf(item);
    const group = s(
      "g", { class: `fv-node fv-${kind}${kind === "rejected" ? ` fv-${closeness(item.judged)}` : ""}`, "data-key": key, "data-depth": spot.depth, role: "button", tabindex: -1, "aria-label": `${spot.text}, ${what}, depth ${spot.depth}` },
      s("title", null, `${spot.text}: ${what}${spot.note ? `; drafted with p ${spot.note}` : ""}`),
      s("rect", { class: "fv-hit", x, y: y - ROW / 2, width, height: ROW }),
      s("rect", { class: "fv-box", x, y: y - NODE / 2, width, height: NODE, rx: 6 }),
      s("text", { x: x + PAD, y: y + 4.5 }, spot.text),
      kind === "rejected" ? s("line", { class: "fv-strike", x1: x + PAD - 2, x2: x + PAD + 2 + wide(spot.text), y1: y, y2: y }) : null,
      kind === "bonus" ? s("line", { class: "fv-double", x1: x + PAD, x2: x + PAD + wide(spot.text), y1: y + 8, y2: y + 8 }) : null,
      spot.note ? s("text", { class: "fv-p", x: x + width - PAD + 2, y: y + 4, "text-anchor": "end" }, spot.note) : null,
      looked ? s("circle", { class: "fv-looked", cx: x + width, cy: y, r: 3.5 }) : null,
    );
    group.style.setProperty("--i", spot.depth);
    return group;
  }

  class Tree {
    constructor(host, on) {
      this.host = host;
      this.drawn = "";
      this.scroll = h("div", { class: "fv-branches", role: "group", "aria-label": "Draft tree of this step" });
      this.foot = h("p", { class: "fv-foot" });
      host.append(this.scroll, this.foot);
      const keyAt = (event) => event.target.closest?.("[data-key]")?.dataset.key ?? null;
      this.scroll.addEventListener("pointerover", (event) => event.pointerType !== "touch" && on.peek(keyAt(event)));
      this.scroll.addEventListener("pointerleave", () => on.peek(null));
      this.scroll.addEventListener("click", (event) => keyAt(event) && on.pin(keyAt(event)));
      this.scroll.addEventListener("focusin", (event) => {
        const node = event.target.closest?.("[data-key]");
        if (!node) return;
        this._rove(node);
        if (node.matches(":focus-visible")) on.peek(node.dataset.key);
      });
      this.scroll.addEventListener("focusout", () => on.peek(null));
    }

    /** Draws ``round`` (null: nothing drafted yet); ``secret`` keeps its verdict back. Redraws only when its nodes or verdict
        changed. */
    show(run, round, secret = false) {
      const key = round ? `${run.serial}.${round.step}.${round.nodes.size}.${round.verdict ? 1 : 0}.${secret}` : run.prefill ? "first" : "none";
      if (key === this.drawn) return;
      this.drawn = key;
      this.scroll.replaceChildren();
      this.rover = null;
      if (!round || round.nodes.size === 0) {
        const v = round?.verdict, judged = v ? v.accepted.length + v.rejected.length + v.unverified.length : 0;
        this.foot.textContent = !run.prefill ? "Nothing is drafted yet." : !round ? "The target wrote its first word itself; drafting starts with step 1."
          : judged ? `${judged} drafted nodes; this trace recorded rounds only.` : "Nothing was drafted in this step.";
        return;
      }
      const { spots, width, height } = layout(run, round, secret);
      const svg = s("svg", { width: Math.ceil(width), height: Math.ceil(height), viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}` });
      for (const spot of spots) if (spot.from) svg.append(branch(spot));
      for (const spot of spots) svg.append(nodeOf(spot, round.reads.has(spot.id), secret));
      this.scroll.append(svg);
      this._rove(svg.querySelector("[data-key]"));
      const drafted = round.nodes.size, pruned = round.verdict ? round.verdict.pruned : 0;
      const looked = h("span", { class: "fv-dot" }, "here the drafter looked at the picture before it guessed on");
      const dots = spots.some((spot) => round.reads.has(spot.id));
      this.foot.replaceChildren(`${drafted} drafted node${drafted === 1 ? "" : "s"}${secret ? "" : " checked in one target forward"}` + (pruned ? `; ${pruned} less likely ones were dropped before` : "") + ". ", dots ? looked : "");
    }

    mark(pinned) {
      for (const node of this.scroll.querySelectorAll(".fv-pinned")) node.classList.remove("fv-pinned");
      if (pinned) for (const node of this.scroll.querySelectorAll(`[data-key="${CSS.escape(pinned)}"]`)) node.classList.add("fv-pinned");
    }

    _rove(node) {
      this.rover?.setAttribute("tabindex", -1);
      this.rover = node;
      node?.setAttribute("tabindex", 0);
    }

    move(delta) {
      const nodes = [...this.scroll.querySelectorAll("[data-key]")];
      nodes[Math.min(nodes.length - 1, Math.max(0, nodes.indexOf(this.rover) + delta))]?.focus();
    }
  }

  Object.assign(FOVEA, { Tree });
})();
