/* What two runs of one request have in common and where they differ. No DOM in this file. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});

  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  const setOf = (read) => (read.set ??= new Set(read.entries));

  /** Shared and all entries of two reads, and their share. */
  function between(one, other) {
    let shared = 0;
    for (const entry of setOf(one)) if (setOf(other).has(entry)) shared += 1;
    const all = one.size + other.size - shared;
    return { shared, all, jaccard: all ? shared / all : 1 };
  }

  /** Figures of one run so far; null where there is nothing to take them from. Means run over the words drafted with a look.
      kept: how alike each read is to that of such a word before it; choosing: ms a round for the choice of entries and what it
      corrects. */
  function figuresOf(run) {
    const reads = run.words.map((word) => run.readOf(word)).filter(Boolean), sums = run.totals(run.steps);
    return {
      kept: mean(reads.slice(1).map((read, i) => between(reads[i], read).jaccard)), choosing: run.steps ? sums.select_ms / run.steps : null,
      tokens: run.words.length, rounds: run.steps, tau: sums.tau, looked: reads.length,
      entries: mean(reads.map((read) => read.size)), captured: mean(reads.map((read) => read.event.captured)),
      speedup: run.compared ? run.compared.speedup : null, ms: run.compared ? run.compared.speculative_ms : null,
    };
  }

  /** Whether entry numbers of both runs mean the same places: one picture, one grid. */
  function sameGrid(a, b) {
    if (!a.prefill || !b.prefill || a.started.picture_sha256 !== b.started.picture_sha256) return false;
    const grid = (run) => JSON.stringify([run.tiles.map((t) => [t.rows, t.columns, t.box, t.first]), run.validCount]);
    return grid(a) === grid(b);
  }

  /** First position at which the tokens differ, the shorter answer's end included; null where all are equal. */
  function firstDifference(a, b) {
    const most = Math.max(a.words.length, b.words.length);
    for (let i = 0; i < most; i += 1) if (a.words[i]?.token !== b.words[i]?.token) return i;
    return null;
  }

  /** Shared and all retrieved entries of word ``index`` in both runs; null unless both drafted that word with a look. */
  function overlapAt(a, b, index) {
    const [one, other] = [a, b].map((run) => (run.words[index] ? run.readOf(run.words[index]) : null));
    return one && other ? between(one, other) : null;
  }

  /**
   * All differences of two runs (FOVEA.Run). ``same``: {ids (null until both have ended), at (first difference)}.
   * ``overlap``: {possible, mean (of the Jaccard indices), words}: over the positions before the first difference where both
   * drafted with a look. ``request``: whether both asked the same question of the same picture.
   */
  function differences(a, b) {
    const at = firstDifference(a, b), ended = Boolean(a.finished && b.finished), possible = sameGrid(a, b);
    const common = at === null ? a.words.length : at, found = [];
    for (let i = 0; possible && i < common; i += 1) {
      const one = overlapAt(a, b, i);
      if (one) found.push(one.jaccard);
    }
    return {
      a: figuresOf(a), b: figuresOf(b), same: { ids: ended ? at === null : null, at },
      overlap: { possible, mean: mean(found), words: found.length },
      request: Boolean(a.started && b.started) && a.started.question === b.started.question && a.started.picture_sha256 === b.started.picture_sha256,
    };
  }

  Object.assign(FOVEA, { differences, overlapAt });
})();
