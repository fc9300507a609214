/* The elements of a player and how they lie. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, Stage, segments, Answer, Tree, Strip, Numbers, Steps, projector, buildSaves, Links, measureBars, restrip } = FOVEA;

  const EMPTY = {
    live: "Open a recorded run, or bring or draw a picture, ask and press Run: you see each word being drafted, checked and kept.",
    page: "Drop a trace here and watch its answer being drafted, checked and kept.",
  };
  const HELP = [
    ["← →", "one step back, on"], ["Shift ← →", "five steps"], ["Home End", "first step, skip to the end"], ["Space", "play or pause"],
    ["↑ ↓", "walk along the words or the tree, once one has the focus"], ["← ↑ → ↓", "move over the patches, once the picture has the focus; Enter: words that used one"], ["Enter", "pin the word in focus"], ["Esc", "unpin, leave the projector"],
    ["1 2 3 4", "viridis, cividis, magma, spotlight"], ["x", "exact cells instead of the smooth map"], ["p", "projector: large type"], ["e", "erase patches and redraft the step"], ["?", "this list"],
  ];

  /** Makes all elements of ``player`` and puts them into its root. */
  function buildPlayer(player) {
    const { root } = player;
    root.classList.add("fv");
    if (player.options.mode === "page") root.classList.add("fv-auto");
    root.setAttribute("role", "region");
    root.setAttribute("aria-label", player.options.name || "Player of a run");
    root.classList.toggle("fv-compact", Boolean(player.options.compact));
    root.tabIndex = -1;
    const on = { peek: (key) => player._peek(key), pin: (key) => player._pin(key) };
    player.stage = new Stage({ change: () => player._restyle(), patch: (entries) => player._patch(entries), trouble: (text) => player.trouble(text) });
    const words = h("div", { class: "fv-answer", role: "group", "aria-label": "Answer, token by token", dir: "auto" });
    player.answer = new Answer(words, on);
    player.natural = h("p", { class: "fv-natural", dir: "auto", hidden: true });
    const branches = h("div", { class: "fv-tree" });
    player.tree = new Tree(branches, on);
    player.treeName = h("span");
    const figures = h("div", { class: "fv-numbers" });
    player.numbers = new Numbers(figures);
    const cards = h("div", { class: "fv-strip" });
    player.strip = new Strip(cards, {
      jump: (word) => player._jump(word), pinned: () => player.pinnedWord(), refresh: () => restrip(player, true),
      draw: (canvas, word, width) => player.stage.paint(canvas, player.run.readOf(word), width), legend: (pen, x, base, reads) => player.stage.legendOn(pen, x, base, reads, true),
    });
    player.steps = new Steps((step) => player.goto(step));
    player.views = segments("View of the map", [["word", "word", "the map of the word in view"], ["step", "step", "mean over the step's accepted path"], ["answer", "whole answer", "mean over all words shown"]], player.view, (id) => player._setView(id));
    player.whoses = segments("Whose map", [["drafter", "retrieved", "the entries that the drafter retrieved"], ["target", "target looked", "where the target looked as it said the word"]], player.whose, (id) => player._setWhose(id));
    player.whoses.box.hidden = true;
    player.rejects = segments("Rejected nodes in the answer", [["none", "none", "hide rejected nodes"], ["first", "first choice", "the drafter's favourite where it was wrong"], ["all", "all", "every rejected and unverified node"]], "first", (id) => player._setRejects(id));
    words.dataset.alternatives = "first";
    player.erase = player.options.redraft ? new FOVEA.Erase(player) : null;
    player.caption = h("div", { class: "fv-caption" });
    player.mapNote = h("p", { class: "fv-hint fv-mapnote", role: "status", hidden: true });
    player.usedBy = h("div", { class: "fv-usedby", role: "status", hidden: true });
    player.question = h("h2", { class: "fv-question", dir: "auto" });
    player.meta = h("p", { class: "fv-meta" });
    player.pill = h("span", { class: "fv-pill" });
    player.note = h("p", { class: "fv-note", role: "alert", hidden: true });
    player.outside = h("p", { class: "fv-outside", role: "status", hidden: true });
    player.file = h("input", { type: "file", accept: ".jsonl,.json", hidden: true, onchange: () => {
      const [file] = player.file.files;
      player.file.value = "";  // so that the same file can be chosen again
      if (file) player.open(file);
    } });
    const open = h("button", { type: "button", class: "fv-button", onclick: () => player.file.click() }, "Open a trace");
    player.empty = h("div", { class: "fv-empty" }, h("p", null, player.options.empty || EMPTY[player.options.mode]), player.options.mode === "page" ? open : null);
    player.live = h("p", { class: "fv-unseen", role: "status", "aria-live": "polite" });
    const keys = HELP.filter(([key]) => key !== "e" || player.erase);
    const shut = h("button", { type: "button", class: "fv-button fv-key fv-close", "aria-label": "Close the list of keys", onclick: () => player._toggleHelp() }, "×");
    player.help = h("div", { class: "fv-help", hidden: true }, shut, h("dl", null, ...keys.flatMap(([key, text]) => [h("dt", null, key), h("dd", null, text)])));
    const name = (text, ...more) => h("div", { class: "fv-name" }, h("h3", null, text), ...more);
    const mark = (kind, text) => h("li", null, h("span", { class: `fv-word fv-${kind}` }, h("span", { class: "fv-ink" }, text)));
    const legend = h("ul", { class: "fv-marks", "aria-label": "Marks" }, mark("accepted", "accepted"), mark("bonus", "bonus"), mark("rejected", "rejected"), mark("unverified", "unverified"));
    player.links = player.options.links ? new Links(player, player.options.links) : null;
    player.saves = buildSaves(player);
    player.body = h("div", { class: "fv-body", hidden: true },
      h("div", { class: "fv-beside" }, h("section", { class: "fv-look", "aria-label": "Picture" }, player.stage.frame, player.caption, player.usedBy, h("div", { class: "fv-row" }, player.views.box, player.whoses.box, player.erase?.button, player.stage.legend), player.mapNote, player.erase?.panel,
        buildTransport(player), h("details", { class: "fv-more" }, h("summary", null, "Colours and scale"), player.stage.controls))),
      h("section", { class: "fv-side" },
        h("section", { class: "fv-panel fv-words", "aria-label": "Answer" }, name("Answer", legend), words, player.natural, h("div", { class: "fv-row fv-small" }, h("span", { class: "fv-hint" }, "rejected shown"), player.rejects.box)),
        h("section", { class: "fv-panel", "aria-label": "Draft tree" }, name("Tree", player.treeName), branches),
        h("section", { class: "fv-panel", "aria-label": "Numbers" }, name("Numbers"), figures)),
      player.erase?.redrafted.box,
      h("section", { class: "fv-wide", "aria-label": "Trajectory" }, name("Trajectory", h("span", null, "words whose maps are sharp and far apart"), player.strip.actions), cards, player.saves),
      player.steps.box);
    player.head = h("header", { class: "fv-head" }, h("div", null, player.question, player.meta), player.pill);
    root.replaceChildren(player.file, player.head, player.outside, player.note, player.empty, player.body, player.help, player.live);
  }

  /** Scrubber, buttons and pace. */
  function buildTransport(player) {
    const button = (text, name, act) => h("button", { type: "button", class: "fv-button fv-key", "aria-label": name, title: name, onclick: act }, text);
    player.playButton = button("▶", "Play", () => player.toggle());
    player.count = h("span", { class: "fv-count" });
    player.skip = h("button", { type: "button", class: "fv-button", onclick: () => player.skipToEnd() }, "Skip to end");
    player.paces = segments("Pace in steps per second", [["step", "step", "by key only"], ["1", "1/s", "1 step a second"], ["2", "2/s", "2 steps a second"], ["4", "4/s", "4 steps a second"], ["real", "real time", "as fast as it was measured"]], player.pace, (id) => player._setPace(id, true));
    player.scrub = h("input", { type: "range", class: "fv-range fv-scrub", min: 0, max: 0, step: 1, value: 0, "aria-label": "Step", oninput: () => player.goto(Number(player.scrub.value)) });
    player.bars = h("canvas", { class: "fv-bars", "aria-hidden": "true" });
    new ResizeObserver(() => measureBars(player)).observe(player.bars);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => measureBars(player));
    return h("div", { class: "fv-transport" },
      h("div", { class: "fv-scrubber", title: "Each bar: the tokens that a step brought, accepted ones (blue) and the bonus (green)" }, player.bars, player.scrub),
      h("div", { class: "fv-row" },
        h("div", { class: "fv-keys" }, button("«", "First step", () => player.goto(0)), button("‹", "Step back", () => player.goto(player.at - 1)), player.playButton,
          button("›", "Step on", () => player.goto(player.at + 1)), button("»", "Last step", () => player.skipToEnd())),
        player.count, player.skip),
      h("div", { class: "fv-row" }, player.paces.box, projector.button(), button("?", "Keys (?)", () => player._toggleHelp())));
  }

  Object.assign(FOVEA, { buildPlayer });
})();
