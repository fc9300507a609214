"""bench focus: what is read before a fact against runs of their own, and the figures by hand."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
import torch
from rich.console import Console

from app.lab.focus import focus_figure, focus_readings, focus_table
from fovea_core.bench import focus as bench
from fovea_core.bench.focus import FOCUS_SEEDS, POLICIES, TARGET, Seen, figures, focus, look_over
from fovea_core.bench.pointing import EntryMap
from fovea_core.bench.report import print_focus
from fovea_core.bench.score import place_facts
from fovea_core.bench.scoring import run_once
from fovea_core.memory.rivals import vote
from fovea_core.settings import RunSettings
from fovea_core.targets.looking import Looking, look_layers
from tests.test_faithful import ASKED, BUDGET, own_case
from tests.toys import toy_drafter, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target():
    return toy_target(3, cells=6)


@pytest.fixture(scope="module")
def drafter(target):
    return toy_drafter(target, k_min=2, k_max=5)


@pytest.fixture(scope="module")
def case(target):
    """Facts whose thing is the left third of the picture."""
    made = own_case(target)
    layers = np.zeros_like(made.picture.layers)
    layers[:, :, : layers.shape[2] // 3] = 1
    return dataclasses.replace(made, picture=dataclasses.replace(made.picture, layers=layers))


def slow_look(target, drafter, case, word: int, ids: list[int], name: str):
    """(entries, weights) read before the answer's token ``word``, each in a run of its own from the prompt on."""
    image, layers = case.image, look_layers(len(target.backbone.layers))
    if name == TARGET:
        masses = Looking(target.prefill(image, ASKED, ids[:word], watch=layers)).masses().mean(0)
        order = masses.argsort(descending=True)
        return order, masses[order]
    run = target.prefill(image, ASKED, ids[: word - 1], watch=layers)
    draft = drafter.start(run, RunSettings())
    draft.extend(*run.first_news(ids[word - 1]))
    memory = drafter.drafter.remember(run.features, run.valid)
    scores = memory.scores(draft.root, 0)[0]
    if name == "unilaspec-3":
        ranks = vote(Looking(run).masses()).masked_fill(~run.valid, -1)
        kept = ranks.topk(3).indices
    else:
        kept = scores.topk(int(name.partition("-")[2])).indices
    kept = kept[scores[kept].argsort(descending=True)]
    return kept, scores[kept].softmax(-1)


def test_every_fact_against_a_run_of_its_own(target, drafter, case):
    names = ("fovea", "topk-4", "unilaspec-3")
    found = look_over(target, drafter, case, names, BUDGET)
    said = run_once(target, None, case.image, ASKED, RunSettings(max_new_tokens=BUDGET), None).summary
    placed = [fact for fact in place_facts(case.long, said.tokens) if fact.first > 0]
    assert len(placed) > 5 and {len(seen) for seen in found.values()} == {len(placed)}
    tiles = target.prefill(case.image, ASKED).tiles
    height, width = case.picture.rgb.shape[:2]
    places, mask = EntryMap(tiles, width, height), case.picture.mask("all")
    for name in ("topk-4", "unilaspec-3", TARGET):
        for fact, seen in zip(placed, found[name], strict=True):
            with torch.inference_mode():
                entries, weights = slow_look(target, drafter, case, fact.first, said.ids, name)
            assert seen.cls == fact.fact.cls and seen.hit == places.hit(int(entries[0]), mask)
            assert seen.ratio == pytest.approx(places.ratio(entries.numpy(), weights.double().numpy(), mask), abs=2e-3)
    assert {seen.hit for seen in found["fovea"] + found[TARGET]} == {True, False}


def test_figures_by_hand():
    """Means of kinds, changes over the same pictures, an empty mask counts for hits only."""
    yes, no, odd = Seen("tool", True, 2.0), Seen("tool", False, 0.5), Seen("digit", True, None)
    groups = [
        [{"fovea": [yes, yes], "x": [yes, no]}, {"fovea": [odd], "x": [odd]}],
        [{"fovea": [no], "x": [no]}] * 2,
        [{"fovea": [], "x": []}],
    ]
    out = figures("x", groups)
    assert out["facts"] == 5 and out["pointing"] == pytest.approx((2 / 3 + 0) / 2)
    assert out["pointing_change"] == pytest.approx((2 / 3 + 0) / 2 - 1 / 2) and out["ratio"] == 0.5
    low, high = out["pointing_interval"]
    assert low <= out["pointing_change"] <= high
    assert figures("x", [groups[0], groups[1][:1]])["pointing_interval"] is None
    only = figures("x", [[picture for group in groups for picture in group]], "digit")
    assert only["facts"] == 1 and only["pointing"] == 1 and only["ratio"] is None and only["pointing_change"] == 0
    assert figures("x", groups, "hose")["pointing"] is None


def test_the_bench_on_toys(target, drafter, case):
    """One row a policy and one for the target, the same facts in each; printed, read, tabled and drawn."""
    patch, steps = pytest.MonkeyPatch(), []
    patch.setattr(bench, "draw_case", lambda seed, scale: case)
    out = focus(target, drafter, range(0, 2), lambda *step: steps.append(step), budget=BUDGET)
    patch.undo()
    out = json.loads(json.dumps(out))
    assert list(out["rows"]) == [*POLICIES, TARGET] and steps[-1] == (2, 2, "scene 1")
    assert len({row["overall"]["facts"] for row in out["rows"].values()}) == 1
    assert out["rows"]["fovea"]["overall"]["pointing_change"] == 0
    assert set(out["rows"]["dense"]["classes"]) == {"digit", "tool"}
    text = io.StringIO()
    print_focus(out, Console(file=text, width=250))
    columns, rows = focus_table(out)
    assert all(name in text.getvalue() for name in out["rows"]) and all(len(row) == len(columns) for row in rows)
    lines = focus_readings(out)
    assert len(lines) == len(out["rows"]) and "points" not in lines[0] and focus_figure(out).data
    assert FOCUS_SEEDS.start >= 9_000_000 and FOCUS_SEEDS.stop <= 10_000_000


def test_readings_say_what_was_expected_and_what_is_not_sure():
    def row(pointing, change, interval):
        part = {"facts": 9, "pointing": pointing, "pointing_change": change, "pointing_interval": interval, "ratio": 1.0}
        return {"overall": part, "scene": part, "text": part, "chart": part, "classes": {}}

    result = {
        "rows": {
            "fovea": row(0.7, 0.0, (0.0, 0.0)),
            "random-16": row(0.3, -0.4, (-0.5, -0.3)),
            "state-16": row(0.66, -0.04, (-0.1, 0.02)),
            "hawk": row(0.8, 0.1, (0.05, 0.2)),
            "static-16": row(0.3, -0.4, None),
        }
    }
    full, random, state, hawk, few = focus_readings(result)
    assert few.endswith("40 points less than FOVEA's; whether that is a difference is not known.")
    assert focus_table(result)[1][4][3] == "-40 (interval not known)"
    assert full.endswith("70 % of the time.") and random.endswith(
        "40 points less than FOVEA's; at least 15 less were expected."
    )
    assert (
        "no sure difference" in state and state.endswith("NOT what we see.") and hawk.endswith("10 points more than FOVEA's.")
    )
