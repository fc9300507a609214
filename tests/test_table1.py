"""bench table1: figures by hand, readings that compare like with like, and the whole bench on toys."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from app.lab import drafters
from app.lab.drafters import drafter_figure, drafter_readings, drafter_table
from fovea_core.bench import table1 as bench
from fovea_core.bench.report_lab import print_table1
from fovea_core.bench.table1 import ENTRANTS, FULL, PLAIN, SEEDS, Timed, figures, table1
from fovea_core.bench.timing import REPEATS, interleaved_ms, interleaved_times
from fovea_core.worksite.words import KINDS
from tests.toys import toy_drafter, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")


def picture(plain: float, full: float, other: float, tokens: int = 30, rounds: int = 10) -> dict[str, Timed]:
    """A picture on which every repeat takes as long, but the third of ``other``, which is slow."""
    return {
        PLAIN: Timed([plain] * 3, tokens, tokens, 3),
        FULL: Timed([full] * 3, tokens, rounds, 3),
        "other": Timed([other, other, 2 * other], tokens, 2 * rounds, 2),
    }


def test_figures_by_hand():
    """Medians of repeats, ratios of sums inside a kind, means over kinds, changes paired with FOVEA's."""
    pictures = [[picture(100, 50, 80), picture(200, 100, 160)], [picture(100, 50, 100)] * 2, []]
    out = figures("other", pictures)
    assert out["speedup"] == pytest.approx((300 / 240 + 1) / 2) and out["speedup_change"] == pytest.approx(out["speedup"] - 2)
    assert out["speedup_interval"][1] < 0 and out["speedup_ends"][0] <= out["speedup"] <= out["speedup_ends"][1]
    assert out["speedup_spread"] == pytest.approx(((300 / 480 + 0.5) / 2, (300 / 240 + 1) / 2))
    assert out["tau"] == pytest.approx(1.5) and out["tau_change"] == pytest.approx(-1.5) and out["ms"] == pytest.approx(110)
    assert out["answers"] == 12 and out["same_ids_rate"] == pytest.approx(2 / 3)
    assert figures(PLAIN, pictures)["speedup"] == figures(PLAIN, pictures)["tau"] == 1
    assert figures(FULL, pictures)["speedup_interval"] == (0.0, 0.0)
    few = figures("other", [pictures[0], pictures[1][:1]])
    assert few["speedup"] == out["speedup"] and few["speedup_ends"] is few["speedup_interval"] is few["tau_interval"] is None
    assert figures("other", [[]])["speedup"] is None and figures("other", [[]])["speedup_spread"] is None


def test_all_repeats_are_handed_out():
    seen = []
    times = interleaved_times({name: lambda name=name: seen.append(name) for name in "abc"})
    assert "".join(seen) == "abcbcacab" and {len(ms) for ms in times.values()} == {REPEATS}
    assert set(interleaved_ms({"a": lambda: None})) == {"a"}


def load_toys():
    target = toy_target(3)
    return target, toy_drafter(target), toy_drafter(target, sighted=False)


def test_the_bench_on_toys():
    """Every way answers every picture, in every repeat, as plain decoding does; printed, read, tabled and drawn."""
    steps = []
    out = table1(load_toys, range(9_400_000, 9_400_003), lambda *step: steps.append(step), budget=10, scale=0.25)
    out = json.loads(json.dumps(out))
    assert list(out["rows"]) == [PLAIN, *ENTRANTS] and steps[-1][:2] == (3, 3)
    for row in out["rows"].values():
        overall = row["overall"]
        assert overall["same_ids_rate"] == 1 and overall["answers"] == 9 and overall["speedup"] > 0 and overall["tau"] >= 1
        assert all(row[kind]["answers"] == 3 for kind in KINDS)
    assert out["rows"][PLAIN]["overall"]["tau"] == 1 and set(out["cost"]) == {"builtin", "blind"}
    text = io.StringIO()
    print_table1(out, Console(file=text, width=220))
    columns, rows = drafter_table(out)
    assert all(name in text.getvalue() for name in out["rows"]) and all(len(row) == len(columns) for row in rows)
    lines, drawn = drafter_readings(out), drafter_figure(out).data  # one picture of each kind: no interval
    assert len(lines) == len(ENTRANTS) + 2 and drawn[0].error_x.array is None and drawn[0].name == "here, interval not known"
    assert not any(word in line for line in lines[2:] for word in ("Slower", "Faster", "sure", "NOT"))
    assert all("(interval not known)" in line for line in lines[2:]) and rows[1][1].endswith("(interval not known)")
    assert (drafters.PLAIN, drafters.FULL) == (PLAIN, FULL) and {drafters.SEEING, drafters.BLIND} <= set(ENTRANTS)
    assert SEEDS.start >= 9_000_000 and SEEDS.stop <= 10_000_000
    assert bench.drafters_of(None, None).keys() >= {one.drafter for one in ENTRANTS.values()}


def row(speedup, ends, moved=0.0, interval=(0.0, 0.0), tau=2.0, paper=None) -> dict:
    part = {"speedup": speedup, "speedup_ends": ends, "speedup_change": moved, "speedup_interval": interval, "tau": tau}
    part |= {"speedup_spread": ends, "ms": 9.0, "answers": 3, "same_ids_rate": 1.0}
    return {"overall": part, **dict.fromkeys(KINDS, part), "paper": paper}


def test_readings_compare_like_with_like():
    """The memory's gain as a ratio on the kinds that stand for the paper's benchmarks; a way's side of plain decoding; rankings
    only where the interval leaves out 0."""
    fovea, blind = ENTRANTS[FULL].paper, ENTRANTS[drafters.BLIND].paper
    rows = {
        PLAIN: row(1.0, (1.0, 1.0)),
        "PLD": row(1.1, (1.05, 1.2), -0.3, (-0.4, -0.2), paper={"overall": [[1.06, 1.22], None]}),
        "trie": row(1.3, (1.2, 1.4), -0.1, (-0.3, 0.1), paper={"overall": [[0.87, 1.11], None]}),
        drafters.BLIND: row(1.5, (1.4, 1.6), 0.1, (0.05, 0.2), tau=1.6, paper=blind),
        drafters.SEEING: row(1.2, (1.1, 1.3), -0.2, (-0.3, -0.1), tau=2.4, paper=fovea),
        FULL: row(1.4, (0.9, 1.5), paper=fovea),
    }
    longer, faster, pld, trie, twin, seeing, full = drafter_readings({"rows": rows})
    assert "1.50 on scene (1.45 on MMT in the paper), 1.50 on text (1.28 on OCRBench in the paper)" in longer
    assert faster.count("NOT what we see") == 2 and "0.80 on scene (1.40 on MMT in the paper: NOT" in faster
    assert "1.06 to 1.22 in the paper. Slower than FOVEA by 0.30 (-0.40 to -0.20), as in the paper." in pld
    assert "0.87 to 1.11 in the paper: NOT what we see. No sure difference to FOVEA" in trie and trie.endswith(
        "NOT what the paper has."
    )
    assert "Faster than FOVEA by 0.10" in twin and twin.endswith("NOT what the paper has.") and "as in" not in seeing
    assert "1.68 in the paper: NOT what we see." in full
