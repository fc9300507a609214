"""The bench: sums, times, intervals, and the whole workload on a toy target."""

from __future__ import annotations

import io
import math
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import torch
from rich.console import Console

from fovea_core.bench import run as bench_run
from fovea_core.bench import scoring, workloads
from fovea_core.bench.machine import LoadWatch, machine, versions
from fovea_core.bench.models import load_models
from fovea_core.bench.pointing import Pointing
from fovea_core.bench.report import print_report
from fovea_core.bench.rivals import Rival
from fovea_core.bench.tally import Tally, overall
from fovea_core.bench.timing import bootstrap_interval, interleaved_ms, ratio
from fovea_core.bench.workloads import BUILTIN_SEEDS, draw_case, draw_worker_case, parse_seeds
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.tree import Draft, Read, chain, root_only
from fovea_core.settings import RunSettings, SettingsError
from fovea_core.targets.base import Prompt, TargetRun
from fovea_core.targets.pieces import Tail
from fovea_core.trace import events as ev
from fovea_core.worksite.base import Answer, Question
from tests.test_pointing import two_bars
from tests.toys import toy_picture, toy_target

# --- sums, times, intervals ----------------------------------------------------------------------------------------


def test_tau_is_pooled_and_overall_is_the_mean_of_kinds():
    """tau = sum(tokens - 1) / sum(rounds): (13 - 1 + 5 - 1) / (3 + 4), not the mean of 4 and 1."""
    tally, other = Tally(), Tally()
    tally.length("chain", 12, 3)
    tally.length("chain", 4, 4)
    other.length("chain", 6, 2)
    tally.answers, other.answers = 2, 1
    tally.score("char_acc", (3, 4))
    tally.pointing.hits, other.pointing.hits = {"tool": [1, 2]}, {"tool": [1, 1], "bar": [0, 4]}
    kinds = {"scene": tally.figures(["chain"]), "text": other.figures(["chain"]), "chart": Tally().figures(["chain"])}
    assert kinds["scene"]["tau_chain"] == 16 / 7
    whole = overall(kinds, [tally, other, Tally()])
    assert whole["tau_chain"] == (16 / 7 + 3) / 2 and whole["answers"] == 3
    assert whole["char_acc"] == 3 / 4  # kinds without a value do not count
    assert whole["pointing_by_class"] == {"bar": 0.0, "tool": 0.75}
    assert kinds["chart"]["tau_chain"] is None and kinds["chart"]["speedup_plain"] is None


def test_speedups_and_overhead_from_times():
    tally = Tally()
    tally.times = [
        {"plain": 200.0, "speculative": 100.0, "nodes": 108.0, "generate": 220.0, "lookup": 300.0, "prefill": 20.0},
        {"plain": 300.0, "speculative": 100.0, "nodes": 108.0, "generate": 330.0, "lookup": 300.0, "prefill": 20.0},
    ]
    figures = tally.figures([])
    assert figures["speedup_plain"] == 2.5 and figures["speedup_generate"] == 2.75 and figures["speedup_lookup"] == 3.0
    assert figures["plain_vs_generate"] == 1.1
    assert figures["trace_overhead"] == 16 / 160
    low, high = figures["speedup_plain_interval"]
    assert 2.0 <= low < 2.5 < high <= 3.0


def test_bootstrap_against_a_loop():
    groups = [[(200.0, 100.0), (90.0, 100.0), (310.0, 150.0)], [], [(50.0, 20.0), (80.0, 45.0)]]
    assert bootstrap_interval(groups, 300, seed=4) == bootstrap_interval(groups, 300, seed=4)
    assert bootstrap_interval(groups, 300, seed=4) != bootstrap_interval(groups, 300, seed=5)
    rng, means = np.random.default_rng(4), [0.0] * 300
    for group in (groups[0], groups[2]):
        for draw, picked in enumerate(rng.integers(len(group), size=(300, len(group)))):
            chosen = [group[i] for i in picked]
            means[draw] += sum(a for a, _ in chosen) / sum(b for _, b in chosen) / 2
    means.sort()
    low, high = bootstrap_interval(groups, 300, seed=4)
    at = [0.025 * 299, 0.975 * 299]
    expected = [means[int(p)] + (p - int(p)) * (means[int(p) + 1] - means[int(p)]) for p in at]
    assert np.allclose([low, high], expected)
    assert bootstrap_interval([[(30.0, 20.0)] * 2]) == (1.5, 1.5)
    assert bootstrap_interval([[], []]) is None and ratio([]) is None


def test_one_picture_of_a_kind_has_no_interval():
    """Drawn again it is always itself, and would look sure; what has nothing below it is no picture, an empty kind no kind."""
    many, one = [(200.0, 100.0), (90.0, 100.0)], [(30.0, 20.0)]
    assert bootstrap_interval([one]) is None and bootstrap_interval([many, one]) is None
    assert bootstrap_interval([[*one, (0.0, 0.0)]]) is None
    assert bootstrap_interval([many, []]) == bootstrap_interval([many]) != (1.45, 1.45)
    tally = Tally()
    tally.times = [{"plain": 200.0, "speculative": 100.0, "nodes": 108.0, "generate": 220.0, "lookup": 300.0, "prefill": 20.0}]
    figures = tally.figures([])
    assert figures["speedup_plain"] == 2 and all(value is None for key, value in figures.items() if key.endswith("_interval"))


def test_ways_are_interleaved_and_the_median_is_taken():
    order, waits = [], iter([0.001, 0.001, 0.03, 0.001, 0.001, 0.001])

    def way(name):
        order.append(name)
        time.sleep(next(waits))

    times = interleaved_ms({"a": lambda: way("a"), "b": lambda: way("b")}, repeats=3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert times["b"] < 25  # one slow run out of three


def test_a_busy_neighbour_is_noticed():
    watch = LoadWatch()
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.6)
        assert 0.25 / psutil.cpu_count() < watch.others() <= 1
    finally:
        spinner.kill()
        spinner.wait()
    assert len(watch.load_average) == 3 and machine()["cores"] >= 1 and versions()["torch"] == torch.__version__


# --- workload ------------------------------------------------------------------------------------------------------


def test_seeds():
    assert BUILTIN_SEEDS == range(9_500_000, 9_500_060) == parse_seeds("9500000:9500060")
    for wrong in ("", "5", "7:7", "9:3", "a:b", "-1:4", "0:999999999"):
        with pytest.raises(SettingsError):
            parse_seeds(wrong)
    timed = workloads.timed_seeds(range(10, 40))
    assert workloads.strip_seeds(range(3, 70)) == set(range(3, 63, 3))
    assert len(timed) == 18 and sorted(timed)[:3] == [10, 11, 12] and len({seed % 3 for seed in timed[:6]}) == 1


def test_cases_are_fixed_by_their_seed():
    for seed, kind in ((9_400_002, "scene"), (9_400_000, "text"), (9_400_001, "chart")):
        case = draw_case(seed, scale=0.5)
        again = draw_case(seed, scale=0.5)
        assert case.kind == kind == ("scene", "text", "chart")[seed % 3]
        assert case.long == again.long and case.shorts == again.shorts and len(case.shorts) == 2
        assert case.long.type == "long" and {short.type for short in case.shorts} == {"short"}
        assert case.image.size == case.picture.rgb.shape[1::-1]


def test_worker_scenes_are_variants_of_one():
    """The places of the example, another worker; the question has the worker described, with a fact of every class."""
    cases = [draw_worker_case(seed, scale=0.25) for seed in (9_400_002, 9_400_005)]
    places = [[(item["x"], item["base"], item["size"]) for item in case.picture.spec["objects"]] for case in cases]
    assert places[0] == places[1] and cases[0].picture.spec["workers"] != cases[1].picture.spec["workers"]
    for case in cases:
        assert case.long.question == "Describe the worker."
        assert {fact.cls for fact in case.long.facts} >= set(workloads.WORKER_CLASSES)
        worker = case.picture.spec["workers"][0]
        assert case.long.answer.startswith(f"{worker['jumpsuit']} jumpsuit {worker['badge']}")


# --- on a toy target -----------------------------------------------------------------------------------------------


#: A made-up machine on which drafting always pays.
COST = ev.CostTable(tokens=[1, 8, 40], verify_ms=[5.0, 6.0, 9.0], level_ms=0.5)


class Knowing:
    """A drafter that decodes the answer plainly when it starts and drafts it; its root state always reads entry 5 first."""

    fingerprint, max_depth = "", 6

    def __init__(self, id: str, right: int) -> None:
        self.id, self.right = id, right

    def start(self, run, settings):
        alone = TargetRun(run.target, Prompt(run.prompt_ids, run.spans, run.features, run.tiles, run.valid))
        ids, logits = [], alone.logits
        for _ in range(settings.max_new_tokens):
            ids.append(int(logits.argmax()))
            logits = alone.forward_tree(torch.tensor(ids[-1:]), torch.tensor([-1]), torch.tensor([0]))[0][0]
            alone.commit([0])
        return _KnowingRun(self, ids, len(run.prompt_ids))


class _KnowingRun:
    def __init__(self, drafter: Knowing, truth: list[int], prompt: int) -> None:
        self.drafter, self.truth, self.prompt, self.said = drafter, truth, prompt, []

    def extend(self, tokens, states, positions) -> None:
        self.said += [t for t, p in zip(tokens.tolist(), positions.tolist()) if p >= self.prompt]

    def propose(self, shape) -> Draft:
        ahead = self.truth[len(self.said) :][: min(shape.depth, shape.nodes - 1)]
        drafted = [t if i < self.drafter.right else (t + 1) % 320 for i, t in enumerate(ahead)]
        if not drafted:
            return root_only(self.said[-1])
        draft = chain(self.said[-1], drafted)
        read = Read(0, 0, torch.tensor([5, 6]), torch.tensor([0.6, 0.3]), 0.9, 2, 0.7)
        return Draft(draft.tokens, draft.parents, draft.depths, reads=(read,))


@pytest.fixture(scope="module")
def target(one_thread):
    return toy_target(3)


def test_shared_prefill_gives_the_tokens_of_separate_runs(target):
    """Also after a longer answer to the same request, and after another request in between."""
    shared, picture = scoring.SharedPrefill(target), toy_picture(2)
    plan = [("what is in the picture?", 30), ("what is in the picture?", 9), ("a hat?", 12), ("what is in the picture?", 30)]
    for question, budget in plan:
        run_settings = RunSettings(max_new_tokens=budget)
        alone = decode_plain(target, picture, question, run_settings)
        assert decode_plain(shared, picture, question, run_settings).ids == alone.ids


@pytest.mark.parametrize("lookup", [False, True])
def test_transformers_own_decoding_gives_the_plain_tokens(target, lookup):
    for seed in range(2):
        picture, question = toy_picture(seed, 50 + 30 * seed, 64), "what is in the picture?"
        plain = decode_plain(target, picture, question, RunSettings(max_new_tokens=24))
        prompt_ids = target.prefill(picture, question).prompt_ids
        assert Rival(target, 24, lookup).decode(picture, prompt_ids) == plain.ids


@pytest.fixture(scope="module")
def result(target):
    """The whole workload on three small pictures: a drafter that is always right, a twin that is right at depth 1 only."""
    patch = pytest.MonkeyPatch()
    patch.setattr(workloads, "TIMED_PICTURES", 1)
    steps = []
    seeds = range(9_400_000, 9_400_003)
    out = bench_run.bench(load_toys, seeds, lambda *step: steps.append(step), budget=16, scale=0.25)
    patch.undo()
    return out, steps


def test_a_case_is_scored_on_the_words_that_were_looked_up(target):
    """The reference is the toy's own answer, each token of plain ASCII a fact shown on the left. The drafter reads at the root
    only, and says 7 tokens a round: tokens 1, 8, 15 and 22 have a read, whose top entry 5 of 16 lies on the left."""
    picture, asked = two_bars(), "red?"
    image = workloads.Case(0, picture, None, ()).image
    answer, tail, facts = Answer(), Tail(), []
    for position, token in enumerate(decode_plain(target, image, asked, RunSettings(max_new_tokens=24)).ids):
        piece = target.pieces.after(tail, token)
        tail, word = piece.tail, piece.text.strip()
        if word and word.isascii() and word.isprintable():
            answer.say(piece.text[: piece.text.index(word)]).fact(word, "bar", "left")
            answer.say(piece.text[piece.text.index(word) + len(word) :])
            facts.append(position)
        else:
            answer.say(piece.text)
    case = workloads.Case(
        0, picture, answer.ask(asked), (Question(asked, answer.text, "short"), Question("?", "nothing", "short"))
    )
    tally = scoring.score_case(load_models(load_toys, (COST, COST)), case, 24)
    looked_up = sum(position in (1, 8, 15, 22) for position in facts)
    assert looked_up == 3 and tally.pointing.stated == len(facts) == tally.facts
    assert tally.pointing.hits == {"bar": [looked_up, looked_up]} and tally.pointing.reads == 4
    assert tally.scores["short_acc"] == [1, 2] and tally.scenes == 0
    assert tally.answers == tally.same == 3
    assert tally.lengths["paper"] == [23, 4] and tally.lengths["chain_blind"] == [23, 12]


def load_toys():
    """A toy target, a drafter that is always right, and a twin that is right at depth 1 only."""
    return toy_target(3), Knowing("knows", 6), Knowing("blind", 1)


def test_another_process_counts_the_same(target):
    """A scoring process loads its own models and gets the cost tables, so its counts are those of this process."""
    models, seeds = load_models(load_toys, (COST, COST)), range(9_400_002, 9_400_003)
    here, there = (list(bench_run._scored(models, load_toys, seeds, 12, 0.25, n)) for n in (1, 2))
    assert here == there and here[0][1].answers == 3 and here[0][1].scenes == 1


def test_tallies_add_up():
    """Every field of the sum is the sum of the fields, for lists in order."""
    parts = []
    for k in (1, 2):
        tally = Tally(answers=k, same=k, facts=3 * k, reference_tokens=9, strip=1, scenes=k, rival_answers=1, rival_same=k)
        tally.score("char_acc", (k, 4))
        tally.length("fast", 5 * k, k)
        tally.times.append({"plain": float(k)})
        tally.pointing = Pointing({"tool": [k, 2]}, k, [0.5 * k], [0.1], [0.2 * k], k, 7)
        parts.append(tally)
    whole = Tally()
    for part in parts:
        whole.merge(part)
    counts = Tally(answers=3, same=3, facts=9, reference_tokens=18, strip=2, scenes=3, rival_answers=2, rival_same=3)
    counts.score("char_acc", (3, 8))
    counts.length("fast", 15, 3)
    counts.times = [{"plain": 1.0}, {"plain": 2.0}]
    counts.pointing = Pointing({"tool": [3, 4]}, 3, [0.5, 1.0], [0.1, 0.1], [0.2, 0.4], 3, 14)
    assert whole == counts and parts[0].pointing.hits == {"tool": [1, 2]}


KEYS = [
    "answers",
    "attribute_acc",
    "char_acc",
    "value_acc",
    "short_acc",
    "tau_chain",
    "tau_paper",
    "tau_fast",
    "tau_chain_blind",
    "tau_paper_blind",
    "tau_fast_blind",
    "speedup_plain",
    "speedup_generate",
    "speedup_lookup",
    "plain_vs_generate",
    "same_ids_rate",
    "facts_per_100",
    "pointing",
    "pointing_coverage",
    "pointing_by_class",
    "mass_ratio",
    "k_p50_fact",
    "k_p50_other",
    "clip_rate",
    "strip_hits",
    "trace_overhead",
]


def test_bench_has_every_key(result):
    out, steps = result
    assert list(out["kinds"]) == ["scene", "text", "chart"]
    for figures in (out["overall"], *out["kinds"].values()):
        assert set(KEYS) <= set(figures)
    assert {"machine", "versions", "load_average", "machine_busy", "workload", "cost", "models"} <= set(out)
    assert [done for done, _, _ in steps] == list(range(1, 8)) and steps[-1][1] == 7


def test_bench_figures_on_the_toy(result, target):
    """Behind the first token a drafter that is right says 7 tokens a round, one that is right at depth 1 only says 2."""
    out, _ = result
    whole, taus, blind_taus = out["overall"], [], []
    for seed in range(9_400_000, 9_400_003):
        case = draw_case(seed, scale=0.25)
        said = len(decode_plain(target, case.image, case.long.question, RunSettings(max_new_tokens=16)).ids) - 1
        taus.append(said / math.ceil(said / 7))
        blind_taus.append(said / math.ceil(said / 2))
    assert whole["answers"] == 9 and whole["same_ids_rate"] == 1.0 and whole["generate_same_ids_rate"] == 1.0
    assert math.isclose(whole["tau_chain"], sum(taus) / 3) and whole["tau_paper"] == whole["tau_chain"]
    assert math.isclose(whole["tau_chain_blind"], sum(blind_taus) / 3)
    assert 1 <= whole["tau_fast"] <= 7 and whole["clip_rate"] == 0.0
    assert whole["speedup_plain"] > 0 and whole["speedup_plain_interval"] is None  # one picture of each kind is timed
    assert whole["k_p50_other"] > 0 and whole["pointing"] is None  # the toy states no fact
    assert out["kinds"]["scene"]["strip_hits"] == 0.0 and out["kinds"]["text"]["strip_hits"] is None
    assert whole["facts_per_100"] > 0 and out["cost"]["tokens"][0] == 1


def test_report_prints_every_figure(result):
    out, _ = result
    text = io.StringIO()
    print_report({**out, "machine_busy": True}, Console(file=text, width=120))
    shown = text.getvalue()
    assert all(key in shown for key in KEYS if key != "pointing_by_class")
    assert "machine busy" in shown and "95 % interval" in shown and f"{out['overall']['tau_chain']:.2f}" in shown
