"""bench fig2: every state against a run of its own with a real verification, and the figures by hand."""

from __future__ import annotations

import io
import json

import pytest
import torch
from rich.console import Console

from app.lab.budgets import budget_figure, budget_readings, budget_table
from fovea_core.bench import budgets as bench
from fovea_core.bench.budgets import FOCUS, RATIOS, SEEDS, State, budgets, figures, states_of
from fovea_core.bench.report_lab import print_budgets
from fovea_core.bench.workloads import MAPS, TREES
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.verify import verify
from fovea_core.memory.correct import FoldedMemory
from fovea_core.settings import RunSettings
from fovea_core.targets.looking import Looking
from tests.test_faithful import ASKED, knowing, own_case
from tests.toys import toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTH = 16


@pytest.fixture(scope="module")
def target():
    return toy_target(3, cells=6)


@pytest.fixture(scope="module")
def case(target):
    return own_case(target)


@pytest.fixture(scope="module")
def drafter(target, case):
    """Right now and then."""
    return knowing(target, case)


@torch.inference_mode()
def slow_state(target, drafter, case, ids: list[int], at: int, ratio: float | None) -> tuple[int, set[int]]:
    """Accepted nodes below the answer's token ``at`` under a ratio (None: FOVEA's own policy), by a run of its own whose memory
    is built from the kept entries alone, and a forward of the target; and the entries that the root scores highest."""
    run = target.prefill(case.image, ASKED, ids[:at], watch=(len(target.backbone.layers) - 1,))
    looking, root = Looking(run, exact=True), len(run.prompt_ids)
    mass = sum(looking.masses(query)[-1] for query in range(run.spans[-1][1], root))
    places = run.valid.nonzero()[:, 0]
    count = len(places) if ratio is None else int(ratio * len(places))
    kept = torch.zeros_like(run.valid)
    kept[places[mass[places].argsort(descending=True)][:count]] = True
    policy = "none" if count == 0 else "fovea" if ratio is None else "dense"
    draft_run = drafter.start(run, RunSettings(policy=policy, detail="rounds"))
    draft_run.extend(*run.first_news(ids[at]))
    if count:
        draft_run.memory = FoldedMemory(drafter.drafter.remember(run.features, kept), drafter.correction)
    draft = draft_run.propose(TREES[MAPS])
    logits, _ = run.forward_tree(draft.tokens, draft.parents, draft.depths)
    limit = len(ids) - at - 1
    verdict = verify(draft, logits, RunSettings(max_new_tokens=LENGTH), at + 1, limit, target.eos_ids)
    scores = drafter.drafter.remember(run.features, run.valid).scores(draft_run.root, 0)[0]
    return len(verdict.accepted), set(scores.topk(min(FOCUS, len(places))).indices.tolist())


def test_every_state_against_a_run_of_its_own(target, drafter, case):
    ids = decode_plain(target, case.image, ASKED, RunSettings(max_new_tokens=LENGTH)).ids
    states = states_of(target, drafter, case, LENGTH)
    at, before = 0, None
    for number, state in enumerate(states):
        lengths = [slow_state(target, drafter, case, ids, at, ratio)[0] for ratio in RATIOS]
        assert state.accepted == tuple(lengths) and state.place == pytest.approx(number / max(1, len(states) - 1))
        own, focus = slow_state(target, drafter, case, ids, at, None)
        if before is not None:
            assert state.moved == pytest.approx(1 - len(focus & before) / len(focus | before))
        at, before = at + own + 1, focus
    assert at >= len(ids) - 1 and states[0].moved is None
    assert any(max(state.accepted) > 0 for state in states)


def state(*accepted, place=0.0, moved=None) -> State:
    return State(place, accepted, moved)


def test_budget_and_supply():
    """The smallest ratio with the longest path; a quarter against three quarters."""
    assert state(0, 2, 3, 3, 1).budget == 0.5 and state(1, 1, 1, 1, 1).budget == 0.0 and state(0, 0, 0, 0, 1).budget == 1.0
    assert [state(0, a, 9, b, 0).supply for a, b in ((1, 2), (2, 1), (2, 2))] == ["under", "over", "matched"]


def test_figures_by_hand():
    """Shares of all states of a kind, then the mean of the kinds; a picture without states counts for nothing."""
    one, two = state(0, 1, 1, 1, 1, moved=0.5), state(0, 0, 0, 1, 1, place=0.7, moved=1.0)
    out = figures([[[one, one, two], [one, one, two], []], [[two], [two]]])
    assert out["states"] == 8 and out["budgets"] == pytest.approx({"0": 0, "0.25": 1 / 3, "0.5": 0, "0.75": 2 / 3, "1": 0})
    assert out["supply"] == pytest.approx({"under": 2 / 3, "over": 0, "matched": 1 / 3})
    assert out["lead"]["first"] == "0.75" and out["lead"]["second"] == "0.25" and out["lead"]["by"] == pytest.approx(1 / 3)
    assert out["more_under"] == pytest.approx(2 / 3) and out["more_under_interval"][0] <= 2 / 3
    assert out["accepted"]["0.25"] == pytest.approx(1 / 3) and out["movement"] == pytest.approx((2 / 3 + 1) / 2)
    few = figures([[[one, one, two], []], [[two], [two]]])
    assert few["lead"]["by"] == out["lead"]["by"] and few["lead"]["interval"] is few["more_under_interval"] is None
    assert few["movement_interval"] is None and set(few["budgets_interval"].values()) == {None}
    parts = bench.parts([[[one, one, two]]])
    assert parts["early"]["states"] == 2 and parts["late"]["states"] == 1 and parts["late"]["budgets"]["0.75"] == 1
    empty = figures([[[]]])
    assert empty["states"] == 0 and empty["budgets"]["0"] is None and empty["movement"] is None


def test_the_bench_on_toys(target, drafter, case, monkeypatch):
    """The result is data, printed, read, tabled and drawn; shares of the states add up to 1."""
    steps = []
    monkeypatch.setattr(bench, "draw_case", lambda seed, scale: case)
    out = budgets(target, drafter, range(2), lambda *step: steps.append(step), budget=12)
    out = json.loads(json.dumps(out))
    assert steps[-1] == (2, 2, f"{case.kind} 1") and out["overall"]["states"] == out["kinds"][case.kind]["states"] > 0
    for shares in (out["overall"]["budgets"], out["overall"]["supply"]):
        assert sum(shares.values()) == pytest.approx(1)
    text = io.StringIO()
    print_budgets(out, Console(file=text, width=250))
    columns, rows = budget_table(out)
    assert "overall" in text.getvalue() and all(len(row) == len(columns) for row in rows) and rows[-1][0] == "the paper"
    assert budget_figure(out).data
    assert SEEDS.start >= 9_000_000 and SEEDS.stop <= 10_000_000


def result(shares: dict, supply: dict, lead=(0.1, 0.4), more=(0.1, 0.3)) -> dict:
    part = {"states": 10, "budgets": shares, "supply": supply, "accepted": dict.fromkeys(shares, 1.0), "movement": 0.5}
    part |= {f"{name}_interval": dict.fromkeys(part[name], (0.1, 0.9)) for name in ("budgets", "supply")}
    part["movement_interval"] = (0.4, 0.6)
    first, second = sorted(shares, key=shares.get, reverse=True)[:2]
    part["lead"] = {"first": first, "second": second, "by": 0.3, "interval": lead}
    part["more_under_interval"] = more
    whole = part | {"early": part, "late": part}
    return {"overall": whole, "kinds": dict.fromkeys(("scene", "text", "chart"), whole), "workload": {"focus": 16}}


def test_readings_mark_what_disagrees():
    like = result({"0": 0.1, "0.25": 0.6, "1": 0.3}, {"under": 0.3, "over": 0.1, "matched": 0.6})
    most, supply, early, moved, note = budget_readings(like)
    assert "25 % of the entries: 60 % (10 % to 90 %)" in most and "NOT" not in most + supply
    assert supply.endswith("More under- than over-supplied states, as in the paper.")
    assert "in early rounds" in early and "0.50 (0.40 to 0.60;" in moved and "trained with all of them" in note
    other = result({"0": 0.6, "0.25": 0.1, "1": 0.3}, {"under": 0.1, "over": 0.3, "matched": 0.6}, more=(-0.3, 0.1))
    most, supply, *_ = budget_readings(other)
    assert "0 % of the entries: 60 %" in most and most.endswith("NOT what we see.")
    assert supply.endswith("No sure surplus of under-supplied states: NOT what the paper has.")
    unsure = result({"0": 0.3, "0.25": 0.4, "1": 0.3}, {"under": 0.3, "over": 0.1, "matched": 0.6}, lead=(-0.1, 0.3))
    most = budget_readings(unsure)[0]
    assert most.startswith("No share of the entries surely serves most states best; 25 %") and most.endswith("NOT what we see.")


def test_too_few_pictures_claim_nothing():
    """Without an interval neither agreement nor its absence is said, and the figure has no bars."""
    few = result({"0": 0.6, "0.25": 0.1, "1": 0.3}, {"under": 0.1, "over": 0.3, "matched": 0.6}, lead=None, more=None)
    for name in ("budgets", "supply"):
        few["overall"][f"{name}_interval"] = dict.fromkeys(few["overall"][name])
    few["overall"]["movement_interval"] = None
    most, supply, _, moved, _ = budget_readings(few)
    assert most.startswith(
        "Which share of the entries serves most states best is not known; 0 % is preferred by 60 % (interval"
    )
    assert supply.endswith("Whether more are under- than over-supplied is not known.") and "NOT" not in most + supply
    assert "0.50 (interval not known;" in moved
    drawn = budget_figure(few).data[0]
    assert drawn.error_y.array is None and drawn.name == "here, interval not known"
    assert budget_figure(result({"0": 1.0, "0.25": 0.0}, {"under": 0.0, "over": 0.0, "matched": 1.0})).data[0].error_y.array
