/* What of a run the lesson shows, chosen by rule, so that any recording can be taught from. No DOM in this file. A run is a
   FOVEA.Run; "without" is the run of the same request with the visual memory switched off, or null. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const READABLE = 14; // drafted nodes that can be read at a glance
  const MOST_READS = 24;
  const FLAT_PEAK = 0.05; // as on the stage: below this the mass is as good as spread evenly

  /** A word without the punctuation around it. */
  const bare = (text) => text.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "") || text;
  const legible = (text) => /[\p{L}\p{N}]/u.test(text);

  /** First list that is larger at the first place where two lists of numbers differ. */
  function larger(a, b) {
    for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return a[i] > b[i];
    return false;
  }

  const best = (items, valueOf) => items.reduce((top, item) => {
    const value = valueOf(item);
    return !top || larger(value, top.value) ? { item, value } : top;
  }, null)?.item ?? null;

  /** A rejected node shares its parent with an accepted one. */
  function hasRejectedSibling(nodes) {
    const parents = new Set(nodes.filter((node) => node.status === "accepted").map((node) => node.parent));
    return nodes.some((node) => node.status === "rejected" && parents.has(node.parent));
  }

  /** The round to teach with: something accepted, beside a rejected sibling, or at least something rejected; few enough nodes to
      read, every one with a text, a bonus token to end it; then the most accepted, the fewest nodes, the earliest. Null where
      nothing was drafted. */
  function lessonRound(run) {
    const rounds = run.rounds.filter((round) => round.verdict && round.nodes.size > 0);
    return best(rounds, (round) => {
      const nodes = [...round.nodes.values()], v = round.verdict;
      return [
        v.accepted.length > 0, hasRejectedSibling(nodes), v.rejected.length > 0, nodes.length <= READABLE, nodes.every((node) => node.text.trim() !== ""),
        v.bonus != null && legible(v.bonus_text ?? ""), v.accepted.length, -nodes.length,
      ].map(Number);
    });
  }

  /** The word whose map to ask for: {text, token, read}, the sharpest of the words that the trajectory strip would take; else any
      legible word with a read. Null where no read was recorded or every map is flat. */
  function lessonWord(run) {
    const withRead = ({ text, token }) => ({ text: bare(text), token, read: run.readOf(token) });
    const sharp = (word) => word.read && legible(word.text) && word.read.event.peak >= FLAT_PEAK;
    const strip = FOVEA.chooseWords(run, run.steps).map(withRead).filter(sharp);
    const every = run.words.filter((token) => legible(token.text)).map((token) => withRead({ text: token.text.trim(), token })).filter(sharp);
    return best(strip.length ? strip : every, (word) => [FOVEA.isName(word.text) ? 1 : 0, word.read.event.peak]);
  }

  /** Reads to compare by how many entries they took: [{word, read}] of drafted words, fewest entries first, at most MOST_READS
      of them, evenly spread, both ends included. */
  function lessonReads(run) {
    const all = run.words.filter((word) => legible(word.text) && run.readOf(word)).map((word) => ({ word, read: run.readOf(word) }));
    all.sort((a, b) => a.read.size - b.read.size || a.word.index - b.word.index);
    if (all.length <= MOST_READS) return all;
    return Array.from({ length: MOST_READS }, (_, i) => all[Math.round((i * (all.length - 1)) / (MOST_READS - 1))]);
  }

  /** The share of the mass that the rule asks for, as the run shows it: the least that a read captured which no bound clipped.
      Null where every read was clipped. */
  function askedShare(run) {
    let least = null;
    for (const round of run.rounds)
      for (const read of round.reads.values())
        if (read.event.k_raw === read.size && (least === null || read.event.captured < least)) least = read.event.captured;
    return least;
  }

  const firstGuesses = (round) => [...round.nodes.values()].filter((node) => node.parent === 0);

  /** The same place of the answer drafted with and without the memory: {round, read, rows: [{token, text, with, without}]},
      probabilities or null where a draft did not have that word among its guesses; likeliest with the memory first. The place
      where the memory raised the target's own word most. Null where the two runs drafted nowhere from the same root, or where
      their answers part before. */
  function lessonPair(run, without) {
    if (!without) return null;
    const pairs = [];
    for (const round of run.rounds) {
      const read = round.reads.get(0), other = without.rounds.find((each) => each.verdict && each.firstWord === round.firstWord);
      if (!round.verdict || !read || !other || !firstGuesses(round).length || !firstGuesses(other).length) continue;
      if (!sameStart(run, without, round.firstWord)) continue;
      pairs.push({ round, read, rows: rowsOf(firstGuesses(round), firstGuesses(other)), target: run.words[round.firstWord].token });
    }
    return best(pairs, ({ rows, target, round }) => {
      const own = rows.find((row) => row.token === target);
      return [own && legible(own.text) && own.with !== null ? own.with - (own.without ?? 0) : -2, -round.step];
    });
  }

  function rowsOf(withNodes, withoutNodes) {
    const rows = new Map();
    const put = (nodes, name) => {
      for (const node of nodes) {
        if (node.logp === null || node.logp === undefined) continue;
        const row = rows.get(node.token) || { token: node.token, text: node.text, with: null, without: null };
        row[name] = Math.min(1, Math.exp(node.logp));
        rows.set(node.token, row);
      }
    };
    put(withNodes, "with");
    put(withoutNodes, "without");
    return [...rows.values()].sort((a, b) => (b.with ?? -1) - (a.with ?? -1) || (b.without ?? -1) - (a.without ?? -1));
  }

  function sameStart(a, b, count) {
    for (let i = 0; i < count; i += 1) if (!a.words[i] || !b.words[i] || a.words[i].token !== b.words[i].token) return false;
    return true;
  }

  /** Whether two runs gave the same tokens: {same, tokens, first} with first = index of the first difference or null. */
  function compareAnswers(a, b) {
    const tokens = Math.max(a.words.length, b.words.length);
    for (let i = 0; i < tokens; i += 1) if (a.words[i]?.token !== b.words[i]?.token) return { same: false, tokens, first: i };
    return { same: true, tokens, first: null };
  }

  /** Share of a read's mass inside ``entries``. */
  function massIn(read, entries) {
    const wanted = new Set(entries);
    let sum = 0;
    for (let i = 0; i < read.size; i += 1) if (wanted.has(read.entries[i])) sum += read.masses[i];
    return sum;
  }

  /** ``entry`` and the valid entries around it in its own grid. */
  function around(run, entry) {
    const { tile, row, column } = run.place(entry), found = [];
    for (let r = Math.max(0, row - 1); r <= Math.min(tile.rows - 1, row + 1); r += 1)
      for (let c = Math.max(0, column - 1); c <= Math.min(tile.columns - 1, column + 1); c += 1) {
        const at = tile.first + r * tile.columns + c;
        if (run.valid[at]) found.push(at);
      }
    return found;
  }

  Object.assign(FOVEA, { lessonRound, lessonWord, lessonReads, askedShare, lessonPair, compareAnswers, massIn, around, legible });
})();
