"""bench table7, fig4 and fig6: paired changes against FOVEA, and the whole bench on a toy target with a tiny FOVEA drafter."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch
from rich.console import Console

from fovea_core.bench import policies
from fovea_core.bench.observe import Choices
from fovea_core.bench.policies import TABLES, Measured, Row, figures, read_table
from fovea_core.bench.report import print_policies
from fovea_core.bench.timing import change_interval
from fovea_core.memory.controls import Random
from fovea_core.memory.select import Bounds
from fovea_core.worksite.words import KINDS
from tests.toys import toy_drafter, toy_target


def test_change_interval_against_a_slow_twin():
    """Both sides of a difference are drawn from the same pictures; a constant difference has an interval of no width."""
    rng = np.random.default_rng(1)
    groups = [[tuple(rng.integers(1, 30, 4)) for _ in range(n)] for n in (5, 8)]
    got = change_interval(groups, resamples=3_000)
    slow = []
    for _ in range(3_000):
        total = 0.0
        for group in groups:
            drawn = [group[rng.integers(len(group))] for _ in group]
            a, b, c, d = (sum(row[i] for row in drawn) for i in range(4))
            total += a / b - c / d
        slow.append(total / 2)
    assert got == pytest.approx(np.quantile(slow, (0.025, 0.975)), abs=0.1)
    assert change_interval([[(6, 2, 4, 2), (9, 3, 6, 3)]]) == (1.0, 1.0)
    assert change_interval([[], [(1, 0, 1, 1)]]) is None
    assert change_interval([[(6, 2, 4, 2)]]) is None and change_interval([[(6, 2, 4, 2)] * 2, [(9, 3, 6, 3)]]) is None
    assert change_interval([[(6, 2, 4, 2), (0, 0, 4, 2)]]) is None and change_interval([[(6, 2, 4, 2)] * 2, []]) == (1.0, 1.0)


def row(tokens, rounds, hits=0, facts=0) -> Measured:
    return Measured(tokens, rounds, hits, facts, 16.0, 0.5, None, True)


def test_figures_by_hand():
    """Means of kinds, not of pictures; a kind without facts does not count for pointing; changes are against FOVEA."""
    measured = {
        "fovea": {"scene": [row(30, 10, 3, 4)], "text": [row(20, 10)], "chart": [row(10, 10), row(30, 10)]},
        "x": {"scene": [row(30, 15, 1, 4)], "text": [row(20, 20)], "chart": [row(20, 20), row(20, 20)]},
    }
    times = {kind: [{"plain": 10.0, "fovea": 5.0, "x": 8.0, "select x": 0.5}] for kind in KINDS}
    out = figures("x", measured, times, KINDS)
    assert out["tau"] == pytest.approx((2 + 1 + 1) / 3) and out["tau_change"] == pytest.approx(4 / 3 - 7 / 3)
    assert out["pointing"] == 0.25 and out["pointing_change"] == -0.5
    assert out["speedup"] == pytest.approx(1.25) and out["speedup_change"] == pytest.approx(-0.75)
    assert out["entries"] == 16 and out["movement"] is None and out["answers"] == 4 and out["same_ids_rate"] == 1
    assert out["select_ms"] == 0.5 and out["overlap"] is None
    assert out["tau_interval"] is out["pointing_interval"] is out["speedup_interval"] is None  # one picture of most kinds
    assert figures("fovea", measured, times, ["scene"])["tau_interval"] is None
    assert figures("fovea", measured, times, ["chart"])["tau_interval"] == (0.0, 0.0)


def test_choices_against_sets():
    """Overlap with the K best and similarity to the state before, by sets; across calls as within one."""
    torch.manual_seed(2)
    policy, choices, before, overlaps, similar = Random("random-4", Bounds(1, 9, 0.8), 4), Choices(), None, [], []
    for _ in range(3):
        scores = torch.randn(5, 20)
        kept = torch.zeros(5, 20, dtype=torch.bool).scatter(-1, torch.rand(5, 20).topk(4).indices, True)
        choices.add(policy.choose_within(scores, kept, torch.tensor(20)))
        for row, mask in zip(scores, kept):
            mine, best = set(mask.nonzero()[:, 0].tolist()), set(row.topk(4).indices.tolist())
            overlaps.append(len(mine & best) / 4)
            if before is not None:
                similar.append(len(mine & before) / len(mine | before))
            before = mine
    assert choices.overlap == pytest.approx(overlaps) and choices.jaccard == pytest.approx(similar)
    assert choices.means() == pytest.approx((np.mean(overlaps), np.mean(similar))) and Choices().means() == (None, None)


def load_toys():
    target = toy_target(3)
    return target, toy_drafter(target), toy_drafter(target, sighted=False)


def test_the_bench_on_toys():
    """Every row answers every picture as plain decoding does; policies keep their number of entries."""
    patch = pytest.MonkeyPatch()
    patch.setattr(policies, "TIMED_PICTURES", 1)
    steps = []
    seeds = range(9_400_000, 9_400_003)
    rows = {**TABLES["table7"], "topk-3": Row({"policy": "topk-3"}), "l <= 1": TABLES["fig6"]["l <= 1"]} | TABLES["table3"]
    patch.setitem(TABLES, "tried", rows)
    out = read_table("tried", load_toys, seeds, lambda *step: steps.append(step), budget=10, scale=0.25)
    patch.undo()
    assert list(out["rows"]) == list(rows) and steps[-1][0] == steps[-1][1] == 6
    for name, by_kind in out["rows"].items():
        overall = by_kind["overall"]
        assert overall["same_ids_rate"] == 1 and overall["answers"] == 3
        assert overall["tau"] >= 1 and overall["speedup"] > 0
        blind = name in ("none", "blind twin") or "untrained" in name
        assert (overall["entries"] is None) == blind
        for figure in ("overlap", "jaccard"):
            assert (overall[figure] is None) == blind
        assert overall["select_ms"] >= 0 and (overall["select_ms"] > 0) == (overall["entries"] is not None)
    for name in ("fovea", "topk-16", "dense"):
        assert out["rows"][name]["overall"]["overlap"] == 1
    assert out["rows"]["agnostic-16"]["overall"]["jaccard"] == out["rows"]["dense"]["overall"]["jaccard"] == 1
    assert out["rows"]["fovea"]["overall"]["tau_change"] == 0
    assert out["rows"]["topk-3"]["overall"]["entries"] == 3
    same = ("tau", "pointing", "entries", "captured", "jaccard")
    assert [out["rows"]["correction + rebuild"]["overall"][name] for name in same] == pytest.approx(
        [out["rows"]["fovea"]["overall"][name] for name in same], abs=1e-4
    )
    assert all(row["overall"]["draft_ms"] > row["overall"]["select_ms"] for row in out["rows"].values())
    assert out["rows"]["dense"]["paper"] == {"speedup_change": -0.157, "tau_change": -0.193}
    text = io.StringIO()
    print_policies(json.loads(json.dumps(out)), Console(file=text, width=200))
    assert all(name in text.getvalue() for name in rows)
    assert policies.SEEDS.start >= 9_000_000 and policies.SEEDS.stop <= 10_000_000
    assert all(next(iter(table)) == policies.FULL for table in TABLES.values())
