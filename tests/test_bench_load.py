"""bench load: figures by hand, and the whole bench on a toy target with a tiny FOVEA drafter."""

from __future__ import annotations

import io
import json
from collections import Counter

import pytest
from rich.console import Console

from fovea_core.bench import load
from fovea_core.bench.load import measure_settings
from fovea_core.bench.load_figures import FIXED, Batch, overall, setting, summed
from fovea_core.bench.report_load import print_load, verdict
from fovea_core.worksite.words import KINDS
from tests.toys import toy_drafter, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")


def batch(tokens: int, adaptive: float, choices: dict | None = None, **ms: float) -> Batch:
    times = dict.fromkeys(FIXED, 100.0) | {name.replace("_", " "): value for name, value in ms.items()}
    return Batch(tokens, times | {"adaptive": adaptive}, Counter(choices or {}))


def test_a_setting_by_hand():
    """Rates are ratios of sums; the best fixed way is that with the highest; the chooser's rate over it is paired."""
    batches = [batch(10, 50, {"nothing": 3, "chain": 1, "nodes": 4}, chain_4=40), batch(30, 70, {"tree": 4}, chain_4=80)]
    out = setting("text", "long", 2, batches)
    assert out["tokens"] == 40 and out["tokens_per_s"]["plain"] == 200 and out["best"] == "chain 4"
    assert out["of_best"] == pytest.approx(120 / 120) and out["of_plain"] == pytest.approx(200 / 120)
    assert out["of_best_interval"] == pytest.approx((40 / 50, 80 / 70))
    assert out["rounds"] == {"nothing": 3 / 8, "chain": 1 / 8, "tree": 4 / 8} and out["nodes"] == 0.5


def test_sums_by_hand():
    """A load's figure is the mean over its settings; overall counts what falls short, and what surely does."""
    good, bad = [batch(10, 50)] * 3, [batch(10, 110)] * 3
    measured = {("text", "long", 1): good, ("scene", "long", 1): bad, ("text", "long", 4): good}
    out = summed(measured, 1)
    assert out["rows"]["adaptive"]["of_plain"] == pytest.approx((2 + 10 / 11) / 2)
    assert out["rows"]["plain"]["of_plain_interval"] == (1, 1) and out["of_best"] == pytest.approx((2 + 10 / 11) / 2)
    whole = overall([setting(*key, batches) for key, batches in measured.items()])
    assert (whole["settings"], whole["near_best"], whole["surely_below_best"]) == (3, 2, 1)
    assert whole["least_of_plain"] == pytest.approx(10 / 11) and whole["below_plain"] == whole["surely_below_plain"] == 1
    unsure = overall([setting("text", "long", 1, [batch(10, 104), batch(10, 80), batch(10, 125)])])
    assert "surely in 0 (none wanted)." in verdict({"overall": unsure, "same_ids_rate": 1.0, "answers": 3})[1]
    assert unsure["below_plain"] == 1 and unsure["surely_below_plain"] == 0 and unsure["unknown_intervals"] == 0


def test_batches_of_one_picture_have_no_interval():
    """However often it comes again; nothing is sure of such a setting, or of a load with one."""
    slow = setting("text", "long", 1, [batch(10, 110), batch(10, 120)], alone=True)
    assert slow["of_plain"] < 1 and slow["of_plain_interval"] is slow["of_best_interval"] is None
    whole = overall([slow])
    assert whole["below_plain"] == 1 and whole["surely_below_plain"] == whole["surely_below_best"] == 0
    measured = {("text", "long", 1): [batch(10, 110), batch(10, 120)]}
    said = verdict({"overall": whole, "same_ids_rate": 1.0, "answers": 2})
    assert "below 0.98 in 1 settings, surely in 0; not known of 1 whose interval is not (none wanted)." in said[1]
    rows = summed(measured, 1, alone=True)
    assert rows["of_best_interval"] is None and rows["rows"]["adaptive"]["of_plain_interval"] is None
    assert summed(measured, 1)["of_best_interval"] is not None


def load_toys():
    target = toy_target(3)
    return target, toy_drafter(target), toy_drafter(target, sighted=False)


def test_a_load_has_as_many_requests_as_it_says(monkeypatch):
    """With fewer pictures than requests the same are asked again, each in a run of its own."""
    monkeypatch.setattr(load, "BATCHES", 1)
    seen = []

    def counted(ways, chooser, runs, wanted, budget, number):
        seen.append((len(runs), len({id(run) for run in runs}), len(wanted)))
        return batch(4, 100)

    monkeypatch.setattr(load, "time_batch", counted)
    monkeypatch.setattr(load, "time_bursts", lambda ways, asked, budget, unit_ms: setattr(ways, "answers", 1) or {})
    measure_settings(load_toys, range(9_400_000, 9_400_001), loads=(1, 3), lengths={"short": 2}, scale=0.25)
    assert seen == [(1, 1, 1), (3, 3, 3)]


def test_the_bench_on_toys(monkeypatch):
    """Every way answers every request as its single plain run does, in lock-step and in bursts; the result can be printed."""
    monkeypatch.setattr(load, "BATCHES", 1)
    monkeypatch.setattr(load, "BURSTS", ((0, 1), (1, 3)))
    monkeypatch.setattr(load, "BURST_TURNS", 1)
    steps, lengths = [], {"short": 3, "long": 6}
    out = measure_settings(
        load_toys, range(9_400_000, 9_400_006), lambda *step: steps.append(step), loads=(1, 2), lengths=lengths, scale=0.25
    )
    out = json.loads(json.dumps(out))
    assert [(one["kind"], one["length"], one["load"]) for one in out["settings"]] == [
        (kind, length, requests) for kind in KINDS for length in lengths for requests in (1, 2)
    ]
    assert out["same_ids_rate"] == 1
    assert out["answers"] == 3 * 2 * (6 * load.TURNS + 1) * (1 + 2) + 6 * 4
    assert steps[-1][0] == steps[-1][1] == 3 * 5 + 2
    for one in out["settings"]:
        assert list(one["tokens_per_s"]) == [*FIXED, "adaptive"] and min(one["tokens_per_s"].values()) > 0
        assert one["best"] in FIXED and sum(one["rounds"].values()) == pytest.approx(1)
        assert one["of_best"] > 0 and one["of_best_interval"] is None  # of one batch
    assert out["overall"]["unknown_intervals"] == 12 and out["overall"]["surely_below_best"] == 0
    assert list(out["loads"]) == list(out["cost"]) == ["1", "2"] and out["begin"]["start_ms"] > 0
    assert out["overall"]["settings"] == 12 and set(out["bursts"]["rows"]) == {*FIXED, "adaptive"}
    assert all(row["longest_ms"] >= row["latency_ms"] > 0 for row in out["bursts"]["rows"].values())
    text = io.StringIO()
    print_load(out, Console(file=text, width=220))
    assert all(name in text.getvalue() for name in (*FIXED, "adaptive", "bursts", "100.0 % of", "(interval not known)"))
    assert "not known of 12 whose interval is not" in " ".join(text.getvalue().split())
    assert load.SEEDS.start >= 9_000_000 and load.SEEDS.stop <= 10_000_000
