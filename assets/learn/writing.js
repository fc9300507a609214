/* Steps 1 to 4 of the lesson: what a target costs, guess, check, keep. A step: {id, title, build(lesson) -> {text, figure, act,
   leave}}; figures come from the run, never from here. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, para, term, plural, facts, tokensOf, beforeWord, lessonButton, milliseconds, keyOf, label, describe, Answer } = FOVEA;
  const PACE_MS = 60;
  const ENDINGS = { one: "st", two: "nd", few: "rd", other: "th" }, PLACES = new Intl.PluralRules("en", { type: "ordinal" });
  const ordinal = (number) => `${number}${ENDINGS[PLACES.select(number)]}`;

  /** Measured milliseconds of one target forward over one token, or null. */
  function oneForward(run) {
    const cost = run.started.cost, at = cost ? cost.tokens.indexOf(1) : -1;
    return at < 0 ? null : (cost.verify_ms[at] ?? null);
  }

  const cost = {
    id: "cost", title: "What a target costs",
    build(lesson) {
      const { run } = lesson, all = run.words.length, one = oneForward(run);
      const figure = h("div", { class: "fl-stack" }, lesson.picture([], "plain"), h("p", { class: "fl-question", dir: "auto" }, label(run.started.question, 300)));
      const answer = h("div"), count = h("p", { class: "fl-count", role: "status" });
      figure.append(answer);
      let made = lesson.number("cost", 1, all, 1), clock = null;
      const draw = () => {
        answer.replaceChildren(tokensOf(run, made));
        say(count, `${plural(made, "token")} of ${all}: ${plural(made, "target forward")}.`);
        for (const each of [more, every]) lesson.disable(each, made >= all);
        lesson.keep("cost", made);
      };
      const add = (count) => {
        made = Math.min(all, made + count);
        if (made >= all) clearInterval(clock);
        draw();
      };
      const more = lessonButton("One more token", () => add(1), true);
      const every = lessonButton("All the rest", () => {
        clearInterval(clock);
        if (lesson.calm.matches) add(all);
        else clock = setInterval(() => add(Math.ceil(all / 120)), PACE_MS);
      });
      draw();
      const { compared } = run;
      return {
        text: [
          para("A vision-language model looks at a picture and answers a question about it. It writes one ", term("token"), " at a time: a word, or a piece of one. The model whose answer counts is called the ", term("target"), "."),
          para("Every token costs one whole pass through the big model, a ", term("forward"), ". Going on token by token like this is ", term("plain decoding"), ", and it is slow: no forward can begin before the last one has given its token."),
        ],
        figure,
        act: h("div", null, h("p", { class: "fl-todo" }, "Let the target write."), h("div", { class: "fv-actions" }, more, every), count,
          facts([
            ["one forward, one token", one === null ? null : milliseconds(one), "measured where this run was recorded"],
            ["this answer, plain decoding", compared ? milliseconds(compared.plain_median_ms) : null, compared ? `${plural(all, "token")}, reading the picture included; median of ${plural(compared.plain_ms.length, "measurement")}` : null],
          ])),
        leave: () => clearInterval(clock),
      };
    },
  };

  const guess = {
    id: "guess", title: "Guess",
    build(lesson) {
      const { run, round } = lesson;
      const text = [
        para("A second model, the ", term("drafter"), ", is much smaller: one more guess costs it a fraction of a target forward. It guesses several tokens ahead. Where it is not sure it may keep more than one guess, so that one of them is right more often; its guesses form a ", term("draft tree"), "."),
        para("The tree grows from the ", term("root"), ", the last word that is already certain. Each guess is a ", term("node"), "; the small number says how sure the drafter was, 1.0 being certain."),
      ];
      if (!round) return { text, ...lesson.noDrafts() };
      const depth = Math.max(...[...round.nodes.values()].map((node) => node.depth)), v = round.verdict;
      const tree = lesson.drawTree(round, true), count = h("p", { class: "fl-count", role: "status" });
      let level = lesson.number("guess", 0, depth, 0);
      const draw = () => {
        for (const part of tree.querySelectorAll("[data-depth]")) part.classList.toggle("fl-unborn", Number(part.dataset.depth) > level);
        const nodes = [...round.nodes.values()].filter((node) => node.depth <= level).length;
        say(count, level ? `${plural(level, "level")} of ${depth}: ${plural(nodes, "guess", "guesses")}.` : "Nothing is guessed yet.");
        lesson.disable(more, level >= depth);
        lesson.keep("guess", level);
      };
      const more = lessonButton("Guess one level", () => {
        level = Math.min(depth, level + 1);
        draw();
      }, true);
      draw();
      return {
        text, figure: h("div", { class: "fl-stack" }, lesson.picture([], "plain"), beforeWord(run, round.firstWord), tree),
        act: h("div", null, h("p", { class: "fl-todo" }, "Let the drafter guess, level by level."), h("div", { class: "fv-actions" }, more), count,
          facts([["drafting this tree", milliseconds(v.draft_ms + v.select_ms), `${plural(round.nodes.size, "guess", "guesses")}, the ${ordinal(round.step)} tree of this run`]])),
      };
    },
  };

  const check = {
    id: "check", title: "Check", asks: true,
    build(lesson) {
      const { run, round } = lesson;
      const text = [para("Now the target checks ", term("all guesses in one forward"), ": reading many tokens at once takes it only a little longer than reading one. A guess survives if it is exactly the target's own word at its place and every guess on its ", term("path"), " from the root survived too.")];
      if (!round) return { text, ...lesson.noDrafts() };
      const nodes = [...round.nodes.values()], byKey = new Map(nodes.map((node) => [keyOf(node), node]));
      const kept = lesson.answer("check") || {}, ticks = new Set([kept.ticks ?? []].flat().filter((id) => round.nodes.has(id)));
      let shown = kept.shown === true, drawn = null;
      const tree = h("div"), result = h("div", { role: "status" }), hint = h("p", { class: "fl-count" });
      const draw = () => {
        if (drawn !== shown) tree.replaceChildren(lesson.drawTree(round, !shown, shown ? null : toggle));
        drawn = shown;
        for (const group of tree.querySelectorAll("g[data-key]")) {
          const node = byKey.get(group.dataset.key), ticked = Boolean(node) && ticks.has(node.id);
          group.classList.toggle("fl-ticked", ticked);
          if (node && !shown) group.setAttribute("aria-pressed", String(ticked));
        }
        lesson.disable(look, shown);
        say(hint, shown ? "" : `${ticks.size} ticked.`);
        result.replaceChildren(...(shown ? verdict() : []));
        boxes.hidden = shown;
        for (const box of boxes.querySelectorAll("input")) box.checked = ticks.has(Number(box.value));
        lesson.keep("check", { ticks: [...ticks], shown });
      };
      const toggle = (key) => {
        const node = byKey.get(key);
        if (!node) return;
        if (!ticks.delete(node.id)) ticks.add(node.id);
        draw();
      };
      const look = lessonButton("Check", () => {
        shown = true;
        draw();
      }, true);
      const boxes = h("div", { class: "fl-boxes", role: "group", "aria-label": "Guesses" }, ...nodes.map((node) => h("label", { class: "fv-check" }, h("input", { type: "checkbox", value: node.id, onchange: () => toggle(keyOf(node)) }), h("span", { dir: "auto" }, label(node.text, 18) || "∎"))));
      const verdict = () => {
        const right = nodes.filter((node) => ticks.has(node.id) === (node.status === "accepted")).length, v = round.verdict, one = oneForward(run);
        return [
          para(`You judged ${right} of ${nodes.length} guesses as the target did. `, v.accepted.length ? `${plural(v.accepted.length, "guess", "guesses")} survived.` : "None survived here.", " The target can misread a picture, too: a guess survives by being the target's word, not by being true."),
          facts([
            ["one forward, one token", one === null ? null : milliseconds(one)],
            ["one forward, the whole tree", milliseconds(v.verify_ms), `the root and ${plural(nodes.length, "guess", "guesses")} at once`],
          ]),
        ];
      };
      draw();
      return {
        text, figure: h("div", { class: "fl-stack" }, lesson.picture([], "plain"), beforeWord(run, round.firstWord), tree),
        act: h("div", null, h("p", { class: "fl-todo" }, "Look at the picture and be the target: which of these drafted words survive? Tick them here or in the tree (with keys: ↑ ↓ and Enter), then check."), boxes, h("div", { class: "fv-actions" }, look), hint, result),
      };
    },
  };

  const keep = {
    id: "keep", title: "Keep",
    build(lesson) {
      const { run, round } = lesson;
      const text = [
        para("The guesses that survive are the ", term("accepted path"), ". A ", term("rejected"), " guess is struck out, and whatever hangs below it falls with it, right or not. Where the path ends, the check has already told the target's own next word: it comes for free, as the ", term("bonus token"), ". So even a round without one good guess moves on by one word."),
        para("One draft and one check make a ", term("round"), ". The mean number of tokens a round gives, bonus included, is called ", term("tau"), "."),
      ];
      if (!run.steps) return { text, ...lesson.noDrafts() };
      const host = h("div", { class: "fv-answer fl-answer", role: "group", "aria-label": "Answer, token by token", dir: "auto", "data-alternatives": "first" });
      const about = h("p", { class: "fl-about", role: "status" });
      const tell = (key) => {
        const item = run.itemOf(key);
        if (item) say(about, `${label(item.text) || "∎"}: ${describe(item)}.`);
      };
      const answer = new Answer(host, { peek: tell, pin: tell }), tree = h("div"), said = h("p", { class: "fl-count", role: "status" }), tau = h("div");
      answer.sync(run);
      let at = lesson.number("keep", 1, run.steps, round ? round.step : 1);
      const draw = () => {
        const now = run.rounds[at - 1], v = now.verdict, bonus = v.bonus == null ? 0 : 1, sums = run.totals(at);
        answer.show(at, at, false);
        tree.replaceChildren(lesson.drawTree(now, false, tell));
        say(about, "");
        slider.value = at;
        slider.style.setProperty("--part", `${(100 * (at - 1)) / Math.max(1, run.steps - 1)}%`);
        slider.setAttribute("aria-valuetext", `round ${at} of ${run.steps}`);
        say(said, `Round ${at} of ${run.steps}: ${v.accepted.length} accepted + ${bonus} bonus = ${plural(v.emitted.length, "token")} for one target forward.${bonus ? "" : " The answer ends here, so no bonus."}`);
        tau.replaceChildren(facts([
          ["tau so far", sums.tau.toFixed(2), "tokens a round, bonus included"],
          ["tokens after the first", String(sums.emitted), `from ${plural(at, "target forward")}; the first came from reading picture and question`],
        ]));
        lesson.disable(next, at >= run.steps);
        lesson.keep("keep", at);
      };
      const go = (step) => {
        at = Math.min(run.steps, Math.max(1, step));
        draw();
      };
      const slider = h("input", { type: "range", class: "fv-range fv-scrub", min: 1, max: run.steps, step: 1, "aria-label": "Round", oninput: () => go(Number(slider.value)) });
      const next = lessonButton("Next round", () => go(at + 1), true);
      draw();
      return {
        text, figure: h("div", { class: "fl-stack" }, host, tree, about),
        act: h("div", null, h("p", { class: "fl-todo" }, "Go through the rounds and watch the answer grow. Click a word, kept or struck out, to read what happened to it."), slider, h("div", { class: "fv-actions" }, lessonButton("First round", () => go(1)), next, lessonButton("Last round", () => go(run.steps))), said, tau),
      };
    },
  };

  FOVEA.lessonSteps = [cost, guess, check, keep];
})();
