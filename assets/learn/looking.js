/* Steps 5 to 8 of the lesson: look, choose how many, correct, why the answer cannot change. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, percent, para, term, quoted, plural, facts, beforeWord, lessonButton, massChart, guessBars, lane, laneMarks, massIn, around } = FOVEA;
  const GOOD = 3; // so many times the mass of an even spread counts as a good eye

  const look = {
    id: "look", title: "Look", asks: true,
    build(lesson) {
      const { run, word } = lesson;
      const text = [
        para("How can the small drafter know what is in the picture? It asks the ", term("visual memory"), ", made once from what the target saw: one ", term("entry"), " for each patch of the picture. Before each guess the drafter hands every entry a share of 100 %, its ", term("mass"), ", and fetches those with the most: the ", term("retrieved entries"), "."),
      ];
      if (!word) return { text: [...text, lesson.sorry("This run recorded no reads of the memory, or only flat ones; choose another run above.")], figure: lesson.picture([], "plain"), act: h("div") };
      const { read, token } = word, piece = token.text.trim();
      const result = h("div", { role: "status" });
      let guess = lesson.answer("look") ?? null;
      if (!Number.isInteger(guess) || !run.valid[guess]) guess = null;
      const draw = () => {
        lesson.stage.picked = guess === null ? null : [guess];
        lesson.picture(guess === null ? [] : [read], `look ${guess}`);
        result.replaceChildren(...(guess === null ? [] : answerTo(run, read, guess)));
        lesson.keep("look", guess);
      };
      const frame = lesson.askPatch((entry) => {
        guess = entry;
        draw();
      }, (sentence) => result.replaceChildren(para(sentence)));
      draw();
      const asked = piece === word.text || !piece ? [quoted(word.text)] : [quoted(piece), " in ", quoted(word.text)];
      return {
        text,
        figure: h("div", { class: "fl-stack" }, frame, lesson.stage.legend, beforeWord(run, token.index)),
        act: h("div", null, h("p", { class: "fl-todo" }, "The next word will be ", ...asked, ". Which patch will it fetch for this word? Click on the picture (with keys: into the picture by Tab, arrows, Enter)."), result),
      };
    },
  };

  function answerTo(run, read, guess) {
    const near = around(run, guess), share = massIn(read, near), even = near.length / run.validCount;
    const said = share >= GOOD * even ? "Good eye. " : "It looked elsewhere. ";
    return [
      para(said, `Your patch (${run.nameOf(guess)}) holds ${percent(massIn(read, [guess]))} of the mass, with the patches around it ${percent(share)}; spread evenly these would hold ${percent(even)}. The most, ${percent(read.masses[0])}, lies in ${run.nameOf(read.entries[0])}.`),
      para("The bright patches are what the drafter fetched before it guessed. They do not explain the target's answer. Click again to try other patches."),
    ];
  }

  const many = {
    id: "many", title: "Choose how many",
    build(lesson) {
      const { run, reads, share } = lesson;
      const text = [
        para("How many entries should it take? Not always the same number. It takes the largest masses first and stops when together they hold ", share === null ? "a set share" : `about ${percent(share)}`, " of the mass: the ", term("captured mass"), "."),
        para("A drafter that knows where to look puts nearly all mass on a few entries, so ", term("K"), ", their number, is small. One with no preference spreads its mass, and K grows. A smallest and a largest K keep it within bounds."),
      ];
      if (!reads.length) return { text: [...text, lesson.sorry("This run recorded no reads of the memory; choose another run above.")], figure: lesson.picture([], "plain"), act: h("div") };
      const most = reads[reads.length - 1].read.size, chart = massChart(most, share), said = h("p", { class: "fl-count", role: "status" }), figures = h("div");
      let at = lesson.number("many", 0, reads.length - 1, 0);
      const frame = lesson.picture([], "plain"), place = h("div");
      const draw = () => {
        const { word, read } = reads[at], { k_raw: raw } = read.event;
        lesson.picture([read], `many ${at}`);
        chart.show(read);
        slider.value = at;
        slider.style.setProperty("--part", `${(100 * at) / Math.max(1, reads.length - 1)}%`);
        slider.setAttribute("aria-valuetext", `${label(word.text, 24)}: ${read.size} entries`);
        said.replaceChildren("Before guessing ", quoted(word.text), `: ${plural(read.size, "entry", "entries")}`, raw > read.size ? `, the most it may take (${raw} would be needed)` : raw < read.size ? `, the least it may take (${raw} would do)` : "", ".");
        place.replaceChildren(beforeWord(run, word.index));
        figures.replaceChildren(facts([["K", `${read.size} of ${run.validCount}`, "retrieved entries of all that the picture has"], ["captured mass", percent(read.event.captured), "of all mass"]]));
        lesson.keep("many", at);
      };
      const slider = h("input", { type: "range", class: "fv-range fv-scrub", min: 0, max: reads.length - 1, step: 1, "aria-label": "Words, from fewest to most entries", oninput: () => {
        at = Number(slider.value);
        draw();
      } });
      draw();
      return {
        text, figure: h("div", { class: "fl-pair" }, h("div", { class: "fl-stack" }, frame, lesson.stage.legend, place), chart.box),
        act: h("div", null, h("p", { class: "fl-todo" }, "Move the slider from the word with the fewest entries to the one with the most. Each column adds one entry; at the dashed line it is enough, unless the largest K comes first."), slider, said, figures),
      };
    },
  };

  const correct = {
    id: "correct", title: "Correct",
    build(lesson) {
      const { run, pair } = lesson;
      const text = [
        para("What does it do with the entries? It blends them into one, each by its mass: the ", term("readout"), ". From the readout and its own ", term("state"), ", the numbers that sum up the text so far, it computes a ", term("correction"), ", which makes some next words likelier and others less likely; the ", term("gate"), ", a number from 0 to 1, says how much of it is let in."),
        para("Only this one guess changes. What the drafter keeps of the text for later guesses, its ", term("cache"), ", stays as it was, and the target never sees any of this."),
      ];
      if (!pair) return { text, figure: lesson.picture(lesson.word ? [lesson.word.read] : [], "correct"), act: h("div", null, lesson.sorry("Of this run there is no second recording without the memory to compare with; choose another run above."), gateOf(lesson.word?.read)) };
      const bars = guessBars(pair.rows, pair.target), said = h("p", { class: "fl-count", role: "status" }), figures = h("div");
      let on = lesson.answer("correct") === true;
      const frame = lesson.picture([], "plain");
      const draw = () => {
        lesson.picture(on ? [pair.read] : [], `correct ${on}`);
        bars.show(on ? "with" : "without");
        say(flip, on ? "Take the correction out" : "Let the correction in");
        flip.setAttribute("aria-pressed", String(on));
        say(said, on ? "Guesses with the correction." : "Guesses of the same drafter at the same place, without the correction.");
        figures.replaceChildren(...(on ? [gateOf(pair.read)] : []));
        lesson.keep("correct", on);
      };
      const flip = lessonButton("", () => {
        on = !on;
        draw();
      }, true);
      draw();
      return {
        text, figure: h("div", { class: "fl-pair" }, h("div", { class: "fl-stack" }, frame, beforeWord(run, pair.round.firstWord)), bars.box),
        act: h("div", null, h("p", { class: "fl-todo" }, "Switch the correction on and off and watch the scores."), h("div", { class: "fv-actions" }, flip), said, figures),
      };
    },
  };

  function gateOf(read) {
    if (!read) return h("div");
    const { gate } = read.event;
    return facts([["gate", gate === null || gate === undefined ? null : gate.toFixed(2), "0 lets nothing in, 1 the whole correction"], ["K", String(read.size), "retrieved entries blended"]]);
  }

  const same = {
    id: "same", title: "Does the answer change?", asks: true,
    build(lesson) {
      const { run, without } = lesson, result = h("div", { role: "status" }), lanes = h("div", { class: "fl-lanes" });
      let said = ["yes", "no"].includes(lesson.answer("same")) ? lesson.answer("same") : null;
      const choose = (value) => {
        said = value;
        lesson.keep("same", said);
        draw();
      };
      const buttons = ["yes", "no"].map((value) => lessonButton(value === "yes" ? "Yes, it changes" : "No, it stays", () => choose(value), true));
      const draw = () => {
        buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(said === ["yes", "no"][i])));
        result.replaceChildren(...(said ? shown(run, without, said) : []));
        lanes.replaceChildren(...(said ? lanesOf(run, without) : [lane("with the memory", forwards(run), Math.max(1, run.words.length - 1), tallest(run), note(run.steps, "round")), h("p", { class: "fl-unknown", role: "img", "aria-label": "without the memory: not shown yet" }, "?")]));
      };
      draw();
      return {
        text: [para("So the drafter looks, fetches and corrects. Now suppose we take the visual memory away, and the drafter has to guess blindly. The target, the picture and the question stay the same.")],
        figure: h("div", { class: "fl-stack" }, h("div", { class: "fl-whole", dir: "auto", role: "group", tabindex: 0, "aria-label": "The answer" }, h("p", null, label(run.joined, 2000))), lanes),
        act: h("div", null, h("p", { class: "fl-todo" }, "Does the answer change when the memory is taken away?"), h("div", { class: "fv-actions" }, ...buttons), result),
      };
    },
  };

  const forwards = (run) => run.rounds.filter((round) => round.verdict).map(({ verdict: v }) => ({ accepted: v.accepted.length, all: v.emitted.length }));

  const note = (count, what) => `${plural(count, what)} after the first token`;
  /** Most tokens that one forward of any of these runs gave. */
  const tallest = (...runs) => Math.max(1, ...runs.filter(Boolean).flatMap((run) => forwards(run).map(({ all }) => all)));

  function lanesOf(run, without) {
    const plain = run.words.length - 1, most = Math.max(1, plain, run.steps, without ? without.steps : 0), high = tallest(run, without);
    return [
      lane("with the memory", forwards(run), most, high, note(run.steps, "round")),
      without ? lane("without the memory", forwards(without), most, high, note(without.steps, "round")) : null,
      lane("plain decoding", Array.from({ length: plain }, () => ({ accepted: 0, all: 1 })), most, high, note(plain, "forward")),
      laneMarks(),
    ].filter(Boolean);
  }

  /** What the recordings say about the answer without the memory. */
  function shown(run, without, said) {
    const found = without ? FOVEA.compareAnswers(run, without) : null, plain = run.compared;
    const known = found ? found.same : plain ? plain.same_ids : null;
    if (known === null) return [para("This run was recorded alone, so there is nothing to compare it with; choose another run above. The rule holds all the same: the target alone decides.")];
    if (!known) return [para(`In this recording the answers differ from token ${(found ? found.first : (plain.first_difference ?? 0)) + 1} on. With exact arithmetic they cannot: two scores of the target lay so close that rounding decided between them.`)];
    const right = said === "no" ? "Right. " : "It does not. ";
    const recorded = found
      ? `The same request was recorded once more with the memory switched off: all ${plural(found.tokens, "token")} are the same, one by one. ${without.steps > run.steps ? "It only took longer" : "Only the rounds differ"}: ${plural(without.steps, "round")} instead of ${run.steps}.`
      : `Plain decoding, with no drafter and no memory at all, was run on the same request: all ${plural(run.words.length, "token")} are the same.`;
    return [
      para(right, recorded),
      para("The reason: every word that is kept is one the ", term("target"), " itself would have written. Drafter and memory only propose. Good proposals save forwards; bad ones cost time, never a word. This is called ", term("lossless"), "."),
      facts([
        ["speedup, measured", plain ? `${plain.speedup.toFixed(2)}×` : null, plain ? (plain.speedup < 1 ? "slower than plain decoding here: drafting costs time too" : "with the memory, against plain decoding; less than the forwards saved, since drafting and reading the picture cost time too") : null],
        ["same text as plain decoding", plain ? (plain.same_ids ? "yes" : "no") : null, "compared token by token"],
      ]),
      para("That was the whole idea. Under ", term("Explain"), " you can watch it live on any drawn picture."),
    ];
  }

  FOVEA.lessonSteps.push(look, many, correct, same);
})();
