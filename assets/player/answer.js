/* The answer as chips: one per token, rejected ones beside the place where they were tried. Chips are made once. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, appendPiece, label, chance } = FOVEA;

  /** How close a rejected node was to the target's choice. */
  function closeness(judged) {
    const p = Math.exp(judged.logp);
    return p >= 0.1 || (judged.rank <= 1 && p >= 0.02) ? "near" : p < 0.001 ? "wild" : "plain";
  }

  const SAID = { first: "the target's first word", accepted: "accepted", bonus: "bonus: the target's own word" };

  /** What an item (word or node) is, in a few words for labels and captions. */
  function describe(item) {
    if (item.judged === undefined) return SAID[item.status];
    if (item.status === "rejected") {
      const { judged } = item;
      const miss = { near: "a near miss: ", wild: "a wild guess: ", plain: "" }[closeness(judged)];
      return `rejected, ${miss}target p ${chance(judged.logp)}, rank ${judged.rank + 1}; the target said ${label(judged.target_text) || "∎"} (p ${chance(judged.target_logp)})`;
    }
    if (item.status === "unverified") return "unverified: below a rejected node, or past the end of the answer";
    return item.status === "pending" ? "proposed" : "accepted";
  }

  const keyOf = (item) => (item.judged === undefined ? `w:${item.index}` : item.word !== null ? `w:${item.word}` : `n:${item.round.step}:${item.id}`);

  class Answer {
    /** ``host`` an empty element; ``on`` = {peek(key or null), pin(key)}. */
    constructor(host, on) {
      this.host = host;
      this.pending = h("span", { class: "fv-pending" });
      this.tail = h("span", { class: "fv-tail" });
      host.append(this.pending, this.tail);
      const keyAt = (event) => event.target.closest?.("[data-key]")?.dataset.key ?? null;
      host.addEventListener("pointerover", (event) => event.pointerType !== "touch" && on.peek(keyAt(event)));
      host.addEventListener("pointerleave", () => on.peek(null));
      host.addEventListener("click", (event) => keyAt(event) && on.pin(keyAt(event)));
      host.addEventListener("focusin", (event) => {
        const chip = event.target.closest?.("[data-key]");
        if (!chip) return;
        this._rove(chip);
        if (chip.matches(":focus-visible")) on.peek(chip.dataset.key);
      });
      host.addEventListener("focusout", () => on.peek(null));
      this.clear();
    }

    clear() {
      for (const chips of this.steps || []) for (const chip of chips) chip.remove();
      this.steps = [];
      this.words = [];
      this.made = 0;
      this.at = this.seen = this.followed = -1;
      this.rover = null;
      this.lit = [];
      this.pendingKey = "";
      this.pending.replaceChildren();
      this.tail.replaceChildren();
    }

    /** Makes the chips of words that are new in ``run``. */
    sync(run) {
      if (run.prefill && this.steps.length === 0) this._step([this._word(run.words[0])]);
      while (this.steps.length && this.steps.length <= run.steps) {
        const round = run.rounds[this.steps.length - 1];
        const beside = new Map();
        for (const node of round.nodes.values())
          if (node.status === "rejected") beside.set(node.depth, [...(beside.get(node.depth) || []), node]);
        const chips = [];
        for (let i = 0; i < round.wordCount; i += 1) {
          const word = run.words[round.firstWord + i];
          chips.push(...this._rejected(round, beside.get(i + 1) || [], word), this._word(word));
        }
        chips.forEach((chip, i) => chip.style.setProperty("--i", i));
        this._step(chips);
      }
      this._end(run);
    }

    _step(chips) {
      for (const chip of chips) {
        chip.classList.add("fv-off");
        this.pending.before(chip);
      }
      this.steps.push(chips);
    }

    _word(word) {
      const chip = h("span", { class: `fv-word fv-${word.status}`, role: "button", tabindex: -1, "data-key": keyOf(word), "data-word": word.index });
      if (word.text === "" && word.bytes) appendSign(chip, word.bytes.replace(/(..)(?=.)/g, "$1·"), "fv-joined");
      else if (word.text === "") appendSign(chip, word.status === "accepted" && !word.node ? "·" : "∎", ""); // ·: recorded without its text
      else appendPiece(chip, word.text);
      chip.setAttribute("aria-label", `${label(word.text) || "token " + word.token}, ${describe(word)}`);
      this.words[word.index] = chip;
      if (!this.rover) this._rove(chip);
      return chip;
    }

    /** Rejected nodes at one place, the drafter's favourite first; that one is shown where it kept the right word from winning. */
    _rejected(round, nodes, word) {
      nodes.sort((a, b) => (b.logp ?? -99) - (a.logp ?? -99));
      const chips = [];
      nodes.forEach((node, i) => {
        const first = i === 0 && (word.status === "bonus" || (node.logp ?? -99) > (word.node?.logp ?? 0));
        chips.push(this._alternative(node, first ? "fv-alt-first" : "fv-alt-more"));
        for (const below of round.nodes.values())
          if (below.status === "unverified" && ancestor(round, below, node.id)) chips.push(this._alternative(below, "fv-alt-more"));
      });
      return chips;
    }

    _alternative(node, rank) {
      const near = node.judged ? `fv-${closeness(node.judged)}` : "";
      const chip = h("span", { class: `fv-word fv-${node.status} ${rank} ${near}`, role: "button", tabindex: -1, "data-key": keyOf(node) });
      if (node.text) appendPiece(chip, node.text);
      else appendSign(chip, node.bytes || "∎", "");
      chip.setAttribute("aria-label", `${label(node.text) || "token " + node.token}, ${describe(node)}`);
      return chip;
    }

    /** What the finished text holds beyond the pieces (an unfinished character), and how the run ended. */
    _end(run) {
      if (!run.finished || this.tail.childNodes.length) return;
      const joined = run.joined, { text, reason } = run.finished;
      if (text.startsWith(joined) && text.length > joined.length)
        this.tail.append(h("span", { class: "fv-word fv-rest", title: "bytes that complete no character" }, text.slice(joined.length)));
      if (reason !== "eos")
        this.tail.append(h("span", { class: "fv-mark", "data-sign": reason === "stopped" ? "stopped" : "token limit reached", role: "note", "aria-label": reason }));
    }

    /** Shows the words up to step ``at``; those up to ``seen`` stay as ghosts. ``holding``: step ``at`` is still being judged. */
    show(at, seen, holding) {
      const upto = holding ? at - 1 : at, far = holding ? Math.min(seen, at - 1) : seen;
      const low = Math.min(this.at, upto, this.at < 0 ? 0 : this.seen, far), high = Math.max(this.at, upto, this.seen, far);
      for (let step = Math.max(0, low); step <= Math.min(high, this.steps.length - 1); step += 1)
        for (const chip of this.steps[step]) {
          chip.classList.toggle("fv-off", step > far);
          chip.classList.toggle("fv-ghost", step > upto && step <= far);
          chip.classList.toggle("fv-now", step === upto && !holding);
        }
      this.at = upto;
      this.seen = far;
      this.tail.classList.toggle("fv-off", upto < this.steps.length - 1 || holding);
    }

    /** Scrolls a long answer so that step ``at`` is in sight; only when the step changed. */
    follow(at) {
      if (at === this.followed) return;
      this.followed = at;
      const { host } = this, chips = this.steps[at];
      if (!chips || !chips.length || host.scrollHeight <= host.clientHeight) return;
      const line = chips[chips.length - 1].offsetTop;
      if (line < host.scrollTop || line > host.scrollTop + host.clientHeight - 60) host.scrollTop = Math.max(0, line - host.clientHeight / 2);
    }

    /** Shows the drafter's likeliest path of a round that is not judged yet; null takes it away. */
    propose(round) {
      const key = round ? `${round.step}.${round.nodes.size}` : "";
      if (key === this.pendingKey) return;
      this.pendingKey = key;
      this.pending.replaceChildren();
      if (!round) return;
      const best = new Map();
      for (const node of round.nodes.values()) {
        const rival = best.get(node.parent);
        if (!rival || (node.logp ?? -99) > (rival.logp ?? -99)) best.set(node.parent, node);
      }
      for (let node = best.get(0), i = 0; node; node = best.get(node.id), i += 1) {
        const chip = h("span", { class: "fv-word fv-proposed", "aria-hidden": "true" });
        appendPiece(chip, node.text || " ");
        chip.style.setProperty("--i", i);
        this.pending.append(chip);
      }
    }

    /** Marks the pinned item and tints words by the mass they have on a picked patch ({word, mass} list or null). */
    mark(pinned, used) {
      for (const chip of this.lit) {
        chip.classList.remove("fv-pinned", "fv-used");
        chip.removeAttribute("aria-pressed");
      }
      this.lit = [];
      if (pinned) {
        for (const chip of this.host.querySelectorAll(`[data-key="${CSS.escape(pinned)}"]`)) {
          chip.classList.add("fv-pinned");
          chip.setAttribute("aria-pressed", "true");
          this.lit.push(chip);
        }
      }
      const most = used && used.length ? used[0].mass : 1;
      for (const { word, mass } of used || []) {
        const chip = this.words[word.index];
        if (!chip) continue;
        chip.classList.add("fv-used");
        chip.style.setProperty("--mass", (0.12 + 0.5 * (mass / most)).toFixed(3));
        this.lit.push(chip);
      }
    }

    _rove(chip) {
      if (this.rover) this.rover.tabIndex = -1;
      this.rover = chip;
      chip.tabIndex = 0;
    }

    /** Moves the focus by ``delta`` visible chips. */
    move(delta) {
      const chips = [...this.host.querySelectorAll("[data-key]:not(.fv-off)")].filter((chip) => chip.offsetParent);
      const at = chips.indexOf(this.rover);
      chips[Math.min(chips.length - 1, Math.max(0, at + delta))]?.focus();
    }
  }

  function ancestor(round, node, id) {
    for (let at = node; at; at = round.nodes.get(at.parent)) if (at.parent === id) return true;
    return false;
  }

  function appendSign(chip, sign, extra) {
    chip.append(h("span", { class: "fv-ink" }, h("span", { class: `fv-sign ${extra}`, "data-sign": sign })));
  }

  Object.assign(FOVEA, { Answer, describe, closeness, keyOf });
})();
