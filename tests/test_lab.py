"""The Lab's readings, tables and figures say what the measured files say."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from app.asking import DRAFTERS
from app.lab import STUDIES
from app.lab.policies import policy_readings, policy_table
from app.lab.study import csv_text, load_study, number, where
from app.pages.explain import policy_choices
from app.pages.lab import measured
from app.pair import WAYS
from fovea_core.bench.load_figures import overall
from fovea_core.examples import ASSETS
from fovea_core.memory.controls import CONTROLS
from fovea_core.memory.rivals import RIVALS
from fovea_core.memory.select import Bounds, make_policy
from fovea_core.settings import POLICY_KINDS, make_settings

MACHINE = {"processor": "a processor", "cores": 2}


def figures(tau=2.0, change=0.0, interval=(0.0, 0.0)) -> dict:
    parts = {"tau": tau, "pointing": 0.5, "speedup": 1.2, "entries": 16.0, "captured": 0.8}
    for name in ("tau", "pointing", "speedup"):
        parts |= {f"{name}_change": change, f"{name}_interval": interval}
    return parts


def policies(**rows) -> dict:
    """A result of bench/policies.py with ``rows``: name -> (change of tau, its interval, the paper's change)."""
    table = {"fovea": {"overall": figures(), "paper": None}}
    for name, (change, interval, paper) in rows.items():
        stood = None if paper is None else {"tau_change": paper, "speedup_change": paper}
        table[name] = {"overall": figures(2 + change, change, interval), "paper": stood}
    return {"rows": table, "workload": {"seeds": "1:2"}, "machine": MACHINE}


def test_readings_tell_sure_from_unsure_and_agreement_from_its_absence():
    result = policies(
        worse=(-0.5, (-0.6, -0.4), -0.2),
        unsure=(-0.1, (-0.3, 0.1), -0.2),
        better=(0.5, (0.4, 0.6), -0.2),
        alone=(-1.0, (-2, -0.5), None),
        nothing=(0.0, (-0.1, 0.1), 0.003),
    )
    worse, unsure, better, alone, nothing = policy_readings(result)
    assert worse == "worse: tau changes by -0.50 (-0.60 to -0.40) here, by -0.20 in the paper."
    assert (
        unsure.startswith("unsure: no sure difference to FOVEA here (-0.10 (-0.30 to +0.10))") and "NOT what we see" in unsure
    )
    assert better.startswith("better: tau changes by +0.50") and "NOT what we see" in better
    assert alone == "alone: costs 50 % of tau here." and "NOT" not in nothing
    columns, rows = policy_table(result)
    assert [len(row) for row in rows] == [len(columns)] * 6 and rows[0][2] == "-" and rows[1][2] == "-0.50 (-0.60 to -0.40)"
    assert list(csv.reader(io.StringIO(csv_text(columns, rows))))[1:] == [[str(cell) for cell in row] for row in rows]


def test_without_an_interval_nothing_is_claimed():
    """Too few pictures: the change is shown with what is not known of it, no row agrees or disagrees, no bar has no width."""
    result = policies(**{"random-16": (-0.5, None, -0.2), "none": (0.4, None, -0.2), "same": (0.0, None, -0.2)})
    for name in ("random-16", "none"):
        result["rows"][name] |= dict.fromkeys(("scene", "text", "chart"), figures(1.5, -0.5, None))
    random, none, same = policy_readings(result)
    assert random == (
        "random-16: whether it differs from FOVEA is not known here (-0.50 (interval not known)); "
        "in the paper it changes tau by -0.20."
    )
    assert "NOT" not in none + same and "sure" not in none + same
    rows = policy_table(result)[1]
    assert rows[0][2] == "-" and rows[1][2] == "-0.50 (interval not known)" and rows[2][5] == "+40 (interval not known)"
    drawn = next(study for study in STUDIES if study.name == "table7").draw(result).data[0]
    assert drawn.error_x.array is None and drawn.name == "here, interval not known"
    result["workload"]["name"] = "fig4"
    result["rows"]["topk-4"] = {"overall": figures(2.0, 0.0, None) | {"speedup": 1.4, "speedup_change": 0.2}, "paper": None}
    last = policy_readings(result)[-1]
    assert "0.857 times as fast" in last and "(interval not known)" in last and "NOT" not in last


def test_shares_stand_beside_shares():
    """Where the paper's own tau is known both are shares of it; weights untrained for an interface stand beside nothing."""
    rows = {"correction + rebuild": (-0.5, (-0.6, -0.4), -0.3644), "fixed prefix, untrained for it": (-1.0, (-2, -0.5), -0.193)}
    result = policies(**rows)
    result["workload"]["name"] = "table3"
    rebuilt, prefix = policy_readings(result)
    assert rebuilt == "correction + rebuild: costs 25 % of tau here, costs 10 % of it in the paper."
    assert "costs 50 % of tau here; these weights were never trained for it" in prefix and "NOT" not in prefix


def test_memory_stands_beside_the_papers():
    """Ours in MiB, theirs in GiB: what compares are the ratios. A result of before has no such column."""
    result = policies(**{"fixed prefix, untrained for it": (-1.0, (-2, -0.5), -0.193)})
    result["workload"]["name"] = "table3"
    assert len(policy_readings(result)) == 1 and len(policy_table(result)[0]) == 13
    for row, mib, gib in zip(result["rows"].values(), (3.0, 4.5), (0.378, 0.373)):
        row["overall"]["memory_mib"], row["paper_gib"] = mib, gib
    assert policy_readings(result)[-1] == (
        "Above plain decoding the correction holds 3.0 MiB here, weights not counted (the paper: 0.378 GiB); of that, with the "
        "paper's ratio in brackets, fixed prefix, untrained for it 1.50 times (0.99)."
    )
    columns, rows = policy_table(result)
    assert columns[-2:] == ["memory above plain, MiB", "paper, GiB"] and [row[-2:] for row in rows][1] == ["4.50", "0.373"]


def test_readings_say_what_was_expected_by_kind():
    """Controls below FOVEA on two of three kinds, a fifth of tau lost without a correction; by sure changes only."""
    result = policies(**{"random-16": (-0.5, (-0.6, -0.4), None), "none": (-1.0, (-2, -0.5), None)})
    sure, unsure = figures(1.5, -0.5, (-0.6, -0.4)), figures(1.9, -0.1, (-0.2, 0.1))
    for name, kinds in (("random-16", (sure, unsure, sure)), ("none", (unsure, sure, sure))):
        result["rows"][name] |= dict(zip(("scene", "text", "chart"), kinds))
    random, none = policy_readings(result)
    assert random.endswith("surely below FOVEA on 2 of 3 kinds, 2 were expected.")
    assert none.endswith("it costs 25 % on text and 25 % on charts, at least 20 % were expected.")
    result["rows"]["random-16"]["scene"] = result["rows"]["none"]["text"] = unsure
    random, none = policy_readings(result)
    assert random.endswith("on 1 of 3 kinds, 2 were expected: NOT what we see.") and none.endswith("NOT what we see.")


def test_fixed_numbers_and_depth_beside_the_papers():
    result = policies(**{"topk-8": (0.0, (-0.1, 0.1), None), "topk-16": (0.0, (-0.1, 0.1), None)})
    result["workload"]["name"] = "fig4"
    assert policy_readings(result)[-1].startswith(
        "The cumulative-mass rule decodes 1.000 times as fast as the best fixed number"
    )
    result["rows"]["topk-16"]["overall"]["speedup"] = 1.3
    assert "0.923 times as fast as the best fixed number, topk-16" in policy_readings(result)[-1]
    assert policy_readings(result)[-1].endswith("which is not sure); within 1 % was expected.")
    result["rows"]["topk-16"]["overall"] |= {"speedup_change": 0.1, "speedup_interval": (0.05, 0.15)}
    assert policy_readings(result)[-1].endswith("within 1 % was expected: NOT what we see.")
    depths = policies(**{"l <= 0": (-0.1, (-0.2, -0.05), None), "l <= 3": (0.0, (0.0, 0.0), None)})
    depths["workload"]["name"] = "fig6"
    depths["rows"]["l <= 3"]["overall"]["speedup"] = 1.14
    assert policy_readings(depths)[-1] == (
        "Reading down to l <= 3 instead of at the root alone: tau x 1.05 here and x 1.04 in the paper, speed x 0.95 and x 0.96."
    )


def test_the_twin_is_read_kind_by_kind():
    study = next(study for study in STUDIES if study.name == "builtin")
    parts = {"tau_paper": 4.0, "tau_paper_blind": 3.0, "tau_chain": 2.0, "tau_chain_blind": 1.0, "pointing": 0.5}
    kinds = {"scene": parts, "text": parts | {"tau_paper_blind": 4.4}, "chart": parts}
    first, second = study.read({"overall": parts, "kinds": kinds})
    assert "25 % on scene (31 % on MMT in the paper), -10 % on text (22 % on OCRBench in the paper: NOT what we see)" in first
    assert "25 % on chart; on chains by 50 %." in first and "50 % of the time" in second


def test_committed_results_are_all_shown():
    """Every result in assets/bench that a study knows can be read, tabled and drawn."""
    shown = {study.name: (study, result) for study, result in measured(ASSETS / "bench")}
    assert {"builtin", "faithful"} <= set(shown)
    for study, result in shown.values():
        columns, rows = study.table(result)
        assert rows and all(len(row) == len(columns) for row in rows)
        assert study.read(result) and study.draw(result).data
        assert where(result).startswith("Seeds ")


def test_rivals_stand_under_their_names_beside_the_fovea_trained_alike():
    rows = {"blind twin": (-0.5, (-0.6, -0.4), -1.0), "dream": (0.4, (0.2, 0.6), None), "eagle3": (-0.3, (-0.4, -0.2), None)}
    result = policies(**rows, hawk=(0.1, (-0.1, 0.3), None))
    result["rows"]["drafter without memory"] = result["rows"].pop("blind twin")
    named = {"dream": ("DREAM-style", ""), "eagle3": ("EAGLE-3-style", ""), "hawk": ("HAWK-style", "built from the abstract")}
    result["trained"] = {name: {"label": label, "known": known} for name, (label, known) in named.items()}
    result["trained"]["blind"] = {"trained_steps": 600, "held_chain": "1.5", "seconds": 120}
    study = next(study for study in STUDIES if study.name == "table2")
    readings = study.read(result)
    assert "EAGLE-3-style: costs 15 % of tau here." in readings and "DREAM-style: gains 20 % of tau here." in readings
    told = [line for line in readings if "NOT what the paper has" in line]
    assert told == [
        "DREAM-style surely drafts longer than the FOVEA trained alike (+0.40 (+0.20 to +0.60)): NOT what the paper has.",
        "DREAM-style surely is faster than the FOVEA trained alike (+0.40 (+0.20 to +0.60)): NOT what the paper has.",
    ]
    columns, cells = study.table(result)
    assert [row[0] for row in cells][1:] == [
        "DREAM-style",
        "EAGLE-3-style",
        "HAWK-style (built from the abstract)",
        "drafter without memory",
    ]
    assert cells[-1][-3:] == [600, "1.50", "2"] and all(len(row) == len(columns) for row in cells)
    assert set(study.draw(result).data[0].y) == {row[0] for row in cells[1:]} and cells[0][0] == "FOVEA as the paper has it"


def load_result(of_best=(1.0, 1.0), of_plain=(1.2, 1.0)) -> dict:
    """A result of bench/load.py with two settings, one request and eight, by their rates."""
    settings, loads = [], {}
    for load, best, plain in zip((1, 8), of_best, of_plain):
        against = {"of_best": best, "of_best_interval": (best - 0.1, best + 0.1)}
        against |= {"of_plain": plain, "of_plain_interval": (plain - 0.005, plain + 0.005)}
        shares = {"rounds": {"nothing": 0.5, "chain": 0.25, "tree": 0.25}, "nodes": 1.5}
        rates = {"plain": 100.0, "chain 2": 100 * plain / best, "adaptive": 100 * plain}
        settings.append({"kind": "text", "length": "long", "load": load, "tokens_per_s": rates, "best": "chain 2"})
        settings[-1] |= against | shares
        fixed = {"of_plain": plain / best, "of_plain_interval": (1, 2)}
        rows = {"plain": {"of_plain": 1.0, "of_plain_interval": (1, 1)}, "chain 2": fixed, "adaptive": against}
        loads[str(load)] = {"rows": rows, **against}
    served = {name: {"latency_ms": 1500.0, "longest_ms": 2000.0, "tokens_per_s": 90.0} for name in ("plain", "adaptive")}
    return {
        "settings": settings,
        "loads": loads,
        "overall": overall(settings),
        "bursts": {"rows": served, "best": "plain"},
        "workload": {"seeds": "1:2", "shapes": {"plain": None, "chain 2": {}}},
        "machine": MACHINE,
    }


def test_readings_of_load():
    """What was wanted, said where it came out and where it did not; every setting has a row, every way a line."""
    study = next(study for study in STUDIES if study.name == "load")
    good, bad = load_result(), load_result((0.9, 1.0), (1.1, 0.9))
    first, second, one, eight, bursts = study.read(good)
    assert "in 2 of 2 settings (100 %; Uni-LaSpec: 85 %)" in first and "NOT" not in first + second
    assert second == "It never falls below 0.98 of plain decoding, as wanted; its least rate is 1.00."
    assert one.startswith("1 at once: chain 2 is the best fixed shape, 1.20 x plain") and "nothing beats plain" in eight
    assert "1.5 s" in bursts
    first, second, *_ = study.read(bad)
    assert (
        "in 1 of 2 settings" in first
        and f"surely not in {bad['overall']['surely_below_best']};" in first
        and first.endswith("wanted: NOT what we see.")
    )
    assert "falls in 1 of 2 settings below 0.98 of plain decoding (surely in 1): NOT" in second
    few = load_result((0.9, 1.0), (1.1, 0.9))
    for one in (*few["settings"], few["loads"]["8"]["rows"]["adaptive"]):
        one |= {"of_best_interval": None, "of_plain_interval": None}
    few["overall"] = overall(few["settings"])
    _, second, _, eight, _ = study.read(few)
    assert "(surely in 0, not known of 2)" in second and "adaptive: 0.90 (interval not known) x plain" in eight
    assert study.table(few)[1][0][7].endswith("(interval not known)") and study.draw(few).data[-1].error_y.array is None
    assert study.draw(good).data[-1].error_y.array
    columns, rows = study.table(good)
    assert [len(row) for row in rows] == [len(columns)] * 2 and rows[0][:6] == ["text", "long", 1, "100", "120", "120"]
    assert [line.name for line in study.draw(good).data] == ["plain", "chain 2", "adaptive"]


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"rows": {}}', json.dumps(policies() | {"rows": {"x": 1}})])
def test_a_damaged_result_is_left_out(tmp_path, content):
    if content is not None:
        for study in STUDIES:
            (tmp_path / f"{study.name}.json").write_text(content)
    assert measured(tmp_path) == []
    assert load_study(STUDIES[0], tmp_path) is None


def test_no_number_is_below_nothing():
    assert number(-0.001) == "0.00" and number(None) == "-"


def test_every_kind_of_policy_can_be_asked_for():
    """What settings, page and Compare name is a policy; stand-ins say whose they are, and a number stands where one belongs."""
    choices = policy_choices()
    assert len(choices) == len(POLICY_KINDS)
    for label, written in choices:
        assert make_settings(policy=written).policy == written and label.startswith(f"{written} · ")
        assert not re.search(r"\bK\b", label)
    named = dict((written, label) for label, written in choices)
    for written, rival in (("tiger-8", "TIGER"), ("unilaspec-8", "Uni-LaSpec"), ("hawk", "HAWK"), ("foveated", "Foveated")):
        assert f"stand-in for {rival}" in named[written]
    for name in POLICY_KINDS:
        assert make_policy(name.replace("-K", "-4"), Bounds(1, 4, 0.8)).name == name.replace("-K", "-4")
    assert {kind.partition("-")[0] for kind in POLICY_KINDS} >= {*CONTROLS, *RIVALS}
    for _, drafter, policy in WAYS.values():
        assert make_settings(policy=policy) and drafter in DRAFTERS


def test_ways_to_choose_stand_a_line_each():
    """A reader who meets a name in Table 7's figure finds it at the beginning of a line above."""
    (asked,) = (study.question for study in STUDIES if study.name == "table7")
    named = [line.partition(":")[0] for line in asked.splitlines()[1:]]
    assert named == [name for name in POLICY_KINDS if name != "fovea"]
