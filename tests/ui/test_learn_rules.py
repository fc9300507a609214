"""What the Learn tab shows of a run, by rule, against rules tried one by one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from app.pages.learn import lesson_value
from fovea_core.examples import load_examples
from fovea_core.lesson import lesson_examples
from fovea_core.trace.codec import unpack_entries, unpack_masses
from fovea_core.trace.fold import fold
from tests.sample_traces import sample_lines
from tests.ui.lessons import Rounds, events_of, slow_round

pytestmark = pytest.mark.browser
VARIANTS = ("scene", "compared", "wide", "stopped", "hostile", "flat")
TRACES = sorted((Path(__file__).parents[2] / "assets" / "traces").glob("*.jsonl"))


def slow_pair(events, without):
    """(round number, [(token, with, without)]) where the memory raised the target's own word most, or None."""
    ids = [fold(run).ids for run in (events, without)]
    a, b, found = Rounds(events), Rounds(without), []
    for number, first in a.first.items():
        other = next((n for n, at in b.first.items() if at == first), None)
        if other is None or ids[0][:first] != ids[1][:first] or 0 not in a.reads[number]:
            continue
        guesses = [
            {
                node.token: math.exp(node.logp)
                for node in rounds.nodes[at].values()
                if node.parent == 0 and node.logp is not None
            }
            for rounds, at in ((a, number), (b, other))
        ]
        own = ids[0][first]
        text = next((node.text for node in a.nodes[number].values() if node.parent == 0 and node.token == own), "")
        if not all(guesses):
            continue
        gain = guesses[0][own] - guesses[1].get(own, 0) if own in guesses[0] and any(c.isalnum() for c in text) else -2
        rows = {token: (guesses[0].get(token), guesses[1].get(token)) for token in [*guesses[0], *guesses[1]]}
        found.append((gain, -number, rows))
    return None if not found else (-max(found, key=lambda row: row[:2])[1], max(found, key=lambda row: row[:2])[2])


def near(value):
    return pytest.approx(value, abs=1e-6)


def test_the_lesson_picks_by_rule(bare, new_page):
    """Round, word, reads, share and pair follow the events of every committed trace and of the samples."""
    page = new_page()
    page.goto(bare)
    page.evaluate(
        "() => { window.runOf = (all) => { const run = new FOVEA.Run(); all.forEach((line) => run.add(line)); return run } }"
    )
    cases = {path.name: path.read_text("utf-8").splitlines() for path in TRACES}
    cases |= {variant: sample_lines(variant) for variant in VARIANTS}
    for name, lines in cases.items():
        events = events_of(lines)
        found = page.evaluate(
            """(lines) => {
              const run = runOf(lines), word = FOVEA.lessonWord(run), reads = FOVEA.lessonReads(run);
              return { round: FOVEA.lessonRound(run)?.number ?? null,
                word: word && [word.text, word.token.index, word.read.event.peak],
                strip: FOVEA.chooseWords(run, run.steps).map((w) => run.readOf(w.token).event.peak),
                reads: reads.map(({ word, read }) => [word.index, read.size]), share: FOVEA.askedShare(run) };
            }""",
            lines,
        )
        assert found["round"] == slow_round(events), name
        every = [event for event in events if event.kind == "memory_read"]
        open_ended = [read.captured for read in every if read.k_raw == len(unpack_masses(read.masses))]
        assert found["share"] == (min(open_ended) if open_ended else None), name
        tokens = [
            token
            for token in fold(events).tokens
            if token.read and any(c.isalnum() for c in token.raw.decode("utf-8", "ignore"))
        ]
        sizes = sorted(len(unpack_masses(token.read.masses)) for token in tokens)
        assert [size for _, size in found["reads"]] == sorted(size for _, size in found["reads"])
        assert len(found["reads"]) == min(24, len(tokens)) and (not sizes or found["reads"][-1][1] == sizes[-1]), name
        sharp = [token.read.peak for token in tokens if token.read.peak >= 0.05]
        if found["word"] is None:
            assert not sharp, name
        else:
            assert found["word"][2] in [*found["strip"], *sharp] and found["word"][2] >= 0.05, name
            assert any(c.isalnum() for c in found["word"][0]), name


def test_the_pair_is_where_the_memory_helped_most(bare, new_page):
    """Both recordings of every lesson: the same root, probabilities as recorded; a run recorded alone has no pair."""
    page = new_page()
    page.goto(bare)
    examples = lesson_examples(load_examples())
    for index in range(len(examples)):
        value = lesson_value(examples, index)
        found = page.evaluate(
            """({ lines, without }) => {
              const runOf = (all) => { const run = new FOVEA.Run(); all.forEach((line) => run.add(line)); return run };
              const run = runOf(lines), other = runOf([lines[0], ...without]), pair = FOVEA.lessonPair(run, other);
              return { round: pair?.round.number, rows: pair?.rows.map((r) => [r.token, r.with, r.without]),
                none: FOVEA.lessonPair(run, null), same: FOVEA.compareAnswers(run, other) };
            }""",
            value,
        )
        number, rows = slow_pair(events_of(value["lines"]), events_of([None, *value["without"]]))
        assert found["round"] == number and found["none"] is None
        assert {token: (a, b) for token, a, b in found["rows"]} == {
            token: tuple(None if p is None else near(p) for p in pair) for token, pair in rows.items()
        }
        assert found["same"]["same"] and found["same"]["tokens"] == len(fold(events_of(value["lines"])).ids)


def test_masses_and_neighbours_of_a_patch(bare, new_page):
    """The share around a patch = the sum over its 3 x 3 valid cells, also at the edge of the grid."""
    lines = sample_lines("scene")
    page = new_page()
    page.goto(bare)
    read = next(event for event in events_of(lines) if event.kind == "memory_read")
    masses = dict(zip(unpack_entries(read.entries), unpack_masses(read.masses), strict=True))
    for entry in (0, 13, 44, 91, 100, 195, unpack_entries(read.entries)[0]):
        valid, shown, around = page.evaluate(
            """([lines, entry]) => {
              const run = new FOVEA.Run();
              lines.forEach((line) => run.add(line));
              const read = run.rounds[0].reads.get(0), near = FOVEA.around(run, entry);
              return [[...run.valid], FOVEA.massIn(read, near), near];
            }""",
            [lines, entry],
        )
        row, column = divmod(entry, 14)
        wanted = [
            r * 14 + c
            for r in range(max(0, row - 1), min(14, row + 2))
            for c in range(max(0, column - 1), min(14, column + 2))
            if valid[r * 14 + c]
        ]
        assert around == wanted
        assert shown == near(sum(masses.get(cell, 0) for cell in wanted) / 255 * read.top_mass)
