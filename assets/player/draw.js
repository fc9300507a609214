/* What a player shows of its run: head, map and caption, transport, strip, announcements. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { h, say, label, percent, keyOf, captionOf, makersOf, kindOf, massName, LIMITS, OUTSIDE } = FOVEA;
  const STRIP_MS = 500, MOST_USED = 24;

  /** Brings all that is in view up to date. Each part compares with what it shows, so this may be called often. */
  function drawPlayer(player) {
    const { run } = player;
    drawHead(player);
    if (!run.header) return;
    const holding = player.phase === "propose" || player.phase === "check";
    const round = player.at > 0 ? run.rounds[player.at - 1] : null;
    const partial = !round || player.at < run.steps ? null : run.rounds[run.steps] || null; // drafted but not judged yet
    player.root.dataset.phase = player.phase;
    player.root.toggleAttribute("data-playing", player.playing); // steps are animated while they play, never while one scrubs
    player.answer.show(player.at, player.seen, holding);
    player.answer.propose(holding ? round : player.playing && player.at === run.steps ? partial : null);
    player.answer.mark(player.pinned, player.used);
    player.views.set(player.pinned ? "word" : player.view); // a pinned word shows its own map in every view
    player.tree.show(run, round);
    player.tree.mark(player.pinned);
    say(player.treeName, round ? `step ${player.at}` : "");
    drawMap(player, round, holding);
    player.erase?.show();
    drawTransport(player);
    restrip(player, false);
    player.answer.follow(player.at); // last: it asks for the layout, which what is written after it would have made twice
    if (!player.options.compact) announce(player, round, holding);
  }

  function drawHead(player) {
    const { run } = player, { started, finished } = run;
    player.outside.hidden = !run.prefill?.outside;
    const note = FOVEA.mapNoteOf(run);
    player.mapNote.hidden = !note;
    say(player.mapNote, note);
    say(player.outside, player.outside.hidden ? "" : OUTSIDE.join(" ")); // a change of text is what a screen reader says
    player.head.hidden = !started;
    if (!started) return;
    say(player.question, label(started.question, LIMITS.lineChars));
    say(player.meta, makersOf(started));
    // Lines do not tell a run under way from one that broke off; what the page around the player says does.
    const state = player.broken ? "damaged" : finished ? { eos: "finished", length: "token limit reached", stopped: "stopped" }[finished.reason] : player.options.mode === "live" && !player.dropped ? "unfinished" : "ended early";
    say(player.pill, state);
    player.pill.dataset.state = state;
    // Chips keep the order of generation; the text itself stands below where it reads differently, or where chips lack text.
    if (finished && player.ended !== run) {
      player.ended = run;
      player.natural.hidden = !/[\u0590-\u08ff\ufb1d-\ufefc]/.test(finished.text) && finished.text.startsWith(run.joined);
      say(player.natural, finished.text);
    } else if (!finished) player.natural.hidden = true;
  }

  /** Reads in view, what to call them, and the item they belong to; the target's looks where those are wanted and were recorded. */
  function inView(player, round, holding) {
    const { run } = player, chosen = player.item(player.peeked) || player.item(player.pinned), looks = run.hasLooks && (player.whose === "target" || !run.hasReads);
    const mapOf = (item) => (looks ? run.lookOf(item) : run.readOf(item)), whose = looks ? "look " : "", said = looks ? "the target's looks for" : "mean over";
    if (chosen) return { item: chosen, reads: [mapOf(chosen)].filter(Boolean), key: whose + keyOf(chosen) };
    if (!run.prefill) return { reads: [], key: "before", text: "The target has not read the picture yet" };
    if (player.view === "answer") {
      const reads = run.words.filter((word) => word.step <= player.at).map(mapOf).filter(Boolean);
      return { reads, key: `${whose}answer ${player.at}`, text: `Whole answer so far: ${said} ${reads.length} word${reads.length === 1 ? "" : "s"}${looks ? ", their mean" : " drafted with a look"}` };
    }
    if (!round) return { reads: [], key: "start", text: "The target read the picture and wrote its first word; nothing was drafted yet" };
    if (looks && holding) return { reads: [], key: `look ${player.at} held`, text: `Step ${player.at}: the target has not looked yet` };
    if (looks && player.view === "step") {
      const reads = [...round.looks.values()];
      return { reads, key: `look step ${player.at}`, text: `Step ${player.at}: where the target looked, mean over its ${reads.length} word${reads.length === 1 ? "" : "s"}` };
    }
    if (player.view === "step" || holding) {
      const path = holding ? [0] : [0, ...round.verdict.accepted.slice(0, -1)];
      const reads = path.map((id) => run.readAt(round, id)).filter(Boolean);
      return { reads, key: `step ${player.at} ${holding}`, text: holding ? `Step ${player.at}: what the drafter retrieved before its first guess` : `Step ${player.at}: mean over the ${reads.length} look${reads.length === 1 ? "" : "s"} along the accepted path` };
    }
    const words = run.words.slice(round.firstWord, round.firstWord + round.wordCount);
    const peak = (word) => mapOf(word)?.event.peak ?? -1; // the step's sharpest map stands for it
    const item = words.reduce((best, word) => (peak(word) > peak(best) ? word : best), words[words.length - 1]);
    return { item, reads: [mapOf(item)].filter(Boolean), key: whose + keyOf(item) };
  }

  /** What the map in view shows, for a picture of it: {reads, title}. */
  function lookOf(player) {
    const { item, reads, text } = inView(player, player.at > 0 ? player.run.rounds[player.at - 1] : null, false);
    if (!item) return { reads, title: text };
    const looked = reads[0]?.event.source === "target";
    const figures = looked ? `where the target looked, ${reads[0].size} entries, ${percent(reads[0].event.captured)} of its look` : reads.length ? `K ${reads[0].size}, ${percent(reads[0].event.captured)} of ${massName(player.run)}` : "drafted without a look, or the target's own";
    return { reads, title: `${FOVEA.calledOf(player.run, item)}: ${figures}` };
  }

  function drawMap(player, round, holding) {
    const view = player.erase?.inView() || inView(player, round, holding), run = view.run || player.run;
    player.stage.show(view.reads, `${run.serial} ${view.key}`);
    player.numbers.show(player.run, Math.max(0, holding ? player.at - 1 : player.at), view.item ? run.readOf(view.item) : view.reads.length === 1 && view.reads[0].event.source !== "target" ? view.reads[0] : null);
    player.whoses.box.hidden = !player.run.hasLooks || !player.run.hasReads;
    const key = `${view.key}|${player.patch}|${player.missed}|${player.at}|${holding}|${run.serial}`;
    if (key === player.captioned) return;
    player.captioned = key;
    player.caption.replaceChildren(...(view.item ? captionOf(run, view.item, view.reads[0], { item: (key) => player._pin(key), patch: (entries) => player._patch(entries) }) : [h("p", null, view.text + ".")]));
    player.stage.canvas.setAttribute("aria-label", `${view.reads[0]?.event.source === "target" ? "Map of where the target looked" : kindOf(run.started) ? "Map of what the drafter read" : "Map of retrieved entries"}. ${player.caption.textContent}`);
    drawUsed(player);
  }

  function drawUsed(player) {
    player.usedBy.hidden = !player.patch && !player.missed;
    if (player.missed) player.usedBy.replaceChildren(h("p", null, "This part of the picture was not seen by the model."));
    if (!player.patch) return;
    const place = player.patch.map((entry) => player.run.nameOf(entry)).join(" and ");
    const chips = player.used.slice(0, MOST_USED).map(({ word, mass }) => h("button", { type: "button", class: "fv-chip", onclick: () => player._jump(word) }, `${FOVEA.calledOf(player.run, word)} `, h("span", null, percent(mass))));
    const many = player.used.length === 1 ? "1 word" : `${player.used.length} words`;
    player.usedBy.replaceChildren(
      h("p", null, player.used.length ? `The patch in ${place} was used by ${many}, most mass first:` : `No word used the patch in ${place}.`),
      h("div", { class: "fv-chips" }, ...chips), player.used.length > MOST_USED ? h("p", { class: "fv-hint" }, `and ${player.used.length - MOST_USED} more with less mass`) : "");
  }

  function drawTransport(player) {
    const { run } = player;
    if (player.scrub.value !== String(Math.max(0, player.at))) player.scrub.value = Math.max(0, player.at);
    player.scrub.style.setProperty("--part", run.steps ? `${(100 * Math.max(0, player.at)) / run.steps}%` : "0%");
    player.scrub.setAttribute("aria-valuetext", `step ${Math.max(0, player.at)} of ${run.steps}`);
    say(player.count, `step ${Math.max(0, player.at)} of ${run.steps}`);
    say(player.playButton, player.playing ? "❚❚" : "▶");
    player.playButton.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    if (player.barsAt !== player.seen) drawBars(player);
    player.skip.disabled = player.at >= run.steps && Boolean(run.finished);
  }

  /** Size and colours of the bars, read when the page is laid out: asked for while a run streams, each would lay it out anew. */
  function measureBars(player) {
    const { bars } = player, style = getComputedStyle(bars), [accepted, bonus] = ["accepted", "bonus"].map((name) => style.getPropertyValue(`--fv-${name}`));
    player.barsLook = { width: bars.clientWidth, height: bars.clientHeight, accepted, bonus };
    drawBars(player);
  }

  /** One bar a step above the scrubber: accepted tokens, then the bonus token. */
  function drawBars(player) {
    const { bars, run } = player, { width, height, accepted: kept, bonus: added } = player.barsLook || {};
    if (!width || !height) return;
    player.barsAt = player.seen;
    const dense = window.devicePixelRatio || 1, pen = bars.getContext("2d");
    bars.width = width * dense;
    bars.height = height * dense;
    pen.scale(dense, dense);
    const most = run.rounds.reduce((a, round) => Math.max(a, round.wordCount), 1), steps = Math.max(1, run.steps);
    const inset = 9, slot = (width - 2 * inset) / steps, bar = Math.max(1, Math.min(10, slot - 1.5)), unit = height / most;
    for (const round of run.rounds.slice(0, run.steps)) {
      pen.globalAlpha = round.step <= player.seen ? 1 : 0.3;
      const x = inset + round.step * slot - bar / 2, accepted = round.verdict.accepted.length, bonus = round.wordCount - accepted;
      pen.fillStyle = kept;
      pen.fillRect(x, height - accepted * unit, bar, accepted * unit);
      pen.fillStyle = added;
      pen.fillRect(x, height - (accepted + bonus) * unit, bar, Math.max(0, bonus * unit - (accepted ? 1 : 0)));
    }
  }

  /** Makes the trajectory strip anew where it has fallen behind; always where ``force``. While steps follow one another it is
      made every other one, of a run that streams every STRIP_MS, its last step included: the maps take longer to draw than a
      step of a fast engine. */
  async function restrip(player, force) {
    if (player.options.compact) return; // has none
    const { run, playing } = player, upto = Math.min(player.seen, run.steps), streams = playing && !run.finished;
    const rest = streams || player.streamed ? (player.strippedAt ?? -Infinity) + STRIP_MS - performance.now() : 0;
    const behind = run.prefill && (upto !== player.stripAt || run.largestMass !== player.stripScale);
    if (run.prefill && (force || (behind && rest <= 0 && (streams || !playing || upto - player.stripAt >= 2)))) {
      Object.assign(player, { stripAt: upto, stripScale: run.largestMass, strippedAt: performance.now() });
      await player.stage.loaded;
      if (run !== player.run) return;
      player.strip.show(run, upto);
      if (force) player.strip.repaint();
      return;
    }
    if (behind && rest > 0 && !player.stripClock) // a run may break off without a word: what it left is shown all the same
      player.stripClock = setTimeout(() => {
        player.stripClock = null;
        restrip(player, false);
      }, rest);
    player.strip.buttons();
  }

  function announce(player, round, holding) {
    if (!round || holding || player.announced === player.at) return;
    player.announced = player.at;
    const v = round.verdict;
    if (!player.playing || player.pace === "1") say(player.live, `Step ${player.at} of ${player.run.steps}: ${v.accepted.length} accepted, ${v.rejected.length} rejected${v.bonus == null ? "" : `, bonus ${label(v.bonus_text ?? "")}`}`);
  }

  Object.assign(FOVEA, { drawPlayer, measureBars, restrip, inView, lookOf });
})();
