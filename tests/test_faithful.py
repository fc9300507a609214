"""``bench faithful``: the masked memory against one rebuilt with entries dropped, and the figures by hand."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from fovea_core.bench import faithful as bench
from fovea_core.bench.drops import DRAWS, Drop, Word, measure_case, measure_drops, other_words, random_others, scoring_states
from fovea_core.bench.faithful import FAITHFUL_SEEDS, faithful, figures
from fovea_core.bench.report import print_faithful
from fovea_core.bench.score import place_facts
from fovea_core.bench.workloads import MAPS, TREES, Case
from fovea_core.cli import main
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import RunSettings
from fovea_core.targets.pieces import Tail
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.events import NodeDrafted, RoundVerified, Shape
from fovea_core.trace.fold import fold
from fovea_core.worksite.base import Answer, Picture, Thing
from tests.toys import toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

TREE = Shape(depth=3, width=12, nodes=120)
BUDGET, ASKED = 40, "red?"


@pytest.fixture(scope="module")
def target():
    return toy_target(3, cells=6)  # 36 entries, 24 of them valid for the pictures here


@pytest.fixture(scope="module")
def drafter(target):
    """Reads 2 to 5 of the picture's entries."""
    return toy_drafter(target, k_min=2, k_max=5)


def own_case(target, seed: int = 0) -> Case:
    """A picture whose reference is the toy's own answer; two of three tokens of plain ASCII are facts."""
    rgb = np.asarray(toy_picture(seed))
    picture = Picture("scene", seed, rgb, np.ones((2, *rgb.shape[:2]), np.uint8), (Thing("all", "tool", "hose"),), ())
    image, answer, tail, turn = Case(seed, picture, None, ()).image, Answer(), Tail(), 0
    for token in decode_plain(target, image, ASKED, RunSettings(max_new_tokens=BUDGET)).ids:
        piece = target.pieces.after(tail, token)
        tail, word = piece.tail, piece.text.strip()
        if word and word.isascii() and word.isprintable():
            turn += 1
            before, after = piece.text.split(word, 1)
            answer.say(before)
            answer = answer.say(word) if turn % 3 == 0 else answer.fact(word, ("digit", "tool")[turn % 2], "all")
            answer.say(after)
        else:
            answer.say(piece.text)
    return Case(seed, picture, answer.ask(ASKED), ())


def knowing(target, case: Case, **options) -> FoveaDrafter:
    """A drafter with random weights and a head for the answer's own tokens only: with 12 children it is right now and then."""
    drafter = toy_drafter(target, case.seed, **{"k_min": 2, "k_max": 5, **options}).drafter
    head = torch.zeros_like(drafter.head)
    said = decode_plain(target, case.image, ASKED, RunSettings(max_new_tokens=BUDGET)).ids
    head[said] = target.head[said]
    return FoveaDrafter(drafter.attach(target.embedding, head))


def restarted(drafter, whole, keep: torch.Tensor, settings: RunSettings):
    """A run whose memory is built anew with only the ``keep`` (N,) entries valid."""
    return drafter.start(SimpleNamespace(seen=whole.seen, valid=keep), settings)


def chain_of(drafter, whole, settings: RunSettings, said: list[int]):
    """A chain drafted behind the answer ``said``: its draft, and news in which prompt, answer and chain follow each other."""
    run, news = drafter.start(whole, settings), whole.text_prompt()
    run.extend(*news)
    draft = run.propose(Shape(depth=6, width=1, nodes=7))
    ahead = draft.tokens[1:]
    places = news[2][-1] + 1 + torch.arange(len(ahead))
    unseen = torch.full((len(ahead), news[1].shape[1]), torch.nan)  # a drafted token has no target state: none may be used
    longer = tuple(torch.cat(pair) for pair in zip(news, (ahead, unseen, places), strict=True))
    return draft, longer, len(news[0]) - len(said)


@pytest.mark.parametrize("policy", ["fovea", "topk-3"])
def test_every_state_of_a_chain_is_the_one_that_was_drafted(target, drafter, policy):
    """At each depth: the log-probability of the drafted token, and the number of entries its read chose."""
    settings = RunSettings(policy=policy)
    said = decode_plain(target, toy_picture(2), ASKED, RunSettings(max_new_tokens=9)).ids
    whole = target.prefill(toy_picture(2), ASKED, said)
    draft, news, first = chain_of(drafter, whole, settings, said)
    assert [read.depth for read in draft.reads] == list(range(6))
    run, depths = drafter.start(whole, settings), torch.arange(6)
    states = scoring_states(run, news, first, [(len(said) + depth, depth) for depth in range(6)])
    found = measure_drops(run, states, depths, draft.tokens[1:], 2, 0)
    assert [entries for entries, _ in found] == [len(read.entries) for read in draft.reads]
    assert torch.allclose(torch.tensor([drop.logp for _, drop in found]), draft.logp[1:], atol=1e-5)


@pytest.mark.parametrize(("policy", "options"), [("fovea", {}), ("fovea", {"rho": 0.4, "k_max": 12}), ("topk-3", {})])
def test_masked_entries_against_a_memory_built_without_them(target, policy, options):
    """Every drop equals that of a run started on fewer valid entries, state by state and draw by draw."""
    drafter, settings, draws = toy_drafter(target, 5, **{"k_min": 2, "k_max": 5, **options}), RunSettings(policy=policy), 3
    said = decode_plain(target, toy_picture(1), ASKED, RunSettings(max_new_tokens=12)).ids
    whole = target.prefill(toy_picture(1), ASKED, said)
    assert int(whole.valid.sum()) == 24  # the rest is padding
    _, news, first = chain_of(drafter, whole, settings, said)
    wanted = [(3, 0), (5, 1), (6, 2), *((len(said) + depth, depth) for depth in range(6))]
    tokens, depths = torch.tensor([news[0][first + at] for at, _ in wanted]), torch.tensor([depth for _, depth in wanted])
    run = drafter.start(whole, settings)
    states = scoring_states(run, news, first, wanted)
    found = measure_drops(run, states, depths, tokens, draws, seed=4)

    def logp(row: int, keep: torch.Tensor):
        other = restarted(drafter, whole, keep, settings)
        scored = other.score(states[row : row + 1], wanted[row][1], torch.zeros(1, dtype=torch.int64))[0, tokens[row]]
        look = other.looks[0]
        return float(scored), other.memory.entries[look.order[0, : int(look.count[0])]]

    chosen = torch.zeros(len(wanted), int(whole.valid.sum()), dtype=torch.bool)
    reads = [logp(row, whole.valid) for row in range(len(wanted))]
    for row, (_, entries) in enumerate(reads):
        chosen[row] = torch.isin(run.memory.entries, entries)
    lost = random_others(chosen, draws, 4)  # (draws, m, n)
    for row, (entries, drop) in enumerate(found):
        as_is, taken = reads[row]
        assert entries == len(taken) and 2 * entries <= chosen.shape[1]
        gone = [taken, *(run.memory.entries[lost[draw, row]] for draw in range(draws))]
        without, *falls = (as_is - logp(row, whole.valid & ~torch.isin(torch.arange(36), some))[0] for some in gone)
        expected = as_is, without, np.mean(falls), np.mean(np.abs(falls))
        assert np.allclose([drop.logp, drop.chosen, drop.random, drop.change], expected, atol=2e-5)
    assert max(abs(drop.chosen) for _, drop in found) > 0.01  # the entries do matter to this drafter


def test_random_others():
    """As many as were chosen, never a chosen one, each other one about equally often, the same for the same seed."""
    chosen = torch.zeros(2, 12, dtype=torch.bool)
    chosen[0, [1, 4, 5]] = chosen[1, 7] = True
    lost = random_others(chosen, 900, 3)
    assert lost.shape == (900, 2, 12) and not (lost & chosen).any()
    assert (lost.sum(-1) == torch.tensor([3, 1])).all()
    often = lost.float().mean(0)
    assert torch.allclose(often[0][~chosen[0]], torch.tensor(3 / 9), atol=0.07)
    assert torch.allclose(often[1][~chosen[1]], torch.tensor(1 / 11), atol=0.04)
    assert torch.equal(lost, random_others(chosen, 900, 3)) and not torch.equal(lost, random_others(chosen, 900, 4))


def test_words_of_a_run_are_those_of_its_trace(target):
    """Which facts are measured, their entries and log-probabilities are what the recorded run shows, below the root too."""
    depths = []
    for seed in range(4):
        case = own_case(target, seed)
        drafter = knowing(target, case)
        events = list(decode(target, drafter, case.image, ASKED, RunSettings(max_new_tokens=BUDGET, tree=TREE)))
        tokens, logps, drafted = fold(events).tokens, {}, {}
        for event in events:
            if isinstance(event, NodeDrafted):
                drafted[event.node] = event.logp
            elif isinstance(event, RoundVerified):
                logps |= {(event.round, node): drafted[node] for node in event.accepted}
                drafted = {}
        words = measure_case(target, drafter, case, BUDGET, TREE, draws=2)
        facts, shown = [word for word in words if word.cls is not None], place_facts(case.long, tokens)
        assert [word.cls for word in facts] == [placed.fact.cls for placed in shown] and len(facts) == len(case.long.facts)
        assert {(word.seed, word.kind) for word in words} == {(seed, "scene")}
        for word, placed in zip(facts, shown, strict=True):
            token = tokens[placed.first]
            if token.read is None:
                assert word.entries == 0 and word.drop is None
                continue
            assert word.entries == len(unpack_entries(token.read.entries))
            assert np.isclose(word.drop.logp, logps[token.round, token.node], atol=1e-5)
            depths.append(token.read.depth)
    assert len(depths) >= 10 and set(depths) >= {0, 1}


@pytest.mark.parametrize(("options", "entries"), [({"k_min": 13, "k_max": 36}, (13, 24)), ({"sighted": False}, (0, 0))])
def test_a_wide_read_and_a_blind_drafter_are_not_compared(target, options, entries):
    """Thirteen of 24 valid entries leave eleven others; a drafter without a memory has no read at all."""
    case = own_case(target)
    words = measure_case(target, knowing(target, case, **options), case, BUDGET, TREE)
    counts = figures([words])
    assert all(word.drop is None and (word.entries == 0 or entries[0] <= word.entries <= entries[1]) for word in words)
    assert (counts["drafted"] > 0) == (entries[0] > 0) and counts["words"] == 0 and counts["stated"] == len(words) > 15
    assert all(value is None for name, value in counts.items() if name not in ("stated", "drafted", "words"))


def test_a_drafter_that_makes_nothing_of_what_it_reads_loses_nothing(target):
    """An untrained correction is zero: both drops are 0, and there is no ratio."""
    drafter = knowing(target, own_case(target)).drafter
    with torch.no_grad():
        drafter.correction.f[2].weight.zero_()
        drafter.correction.f[2].bias.zero_()
    found = figures([measure_case(target, FoveaDrafter(drafter), own_case(target), BUDGET, TREE)])
    assert found["words"] > 3 and found["drop_chosen"] == found["drop_random"] == found["change_random"] == 0
    assert found["ratio"] is None and found["ratio_least"] is None
    assert found["difference"] == 0 and found["difference_interval"] is None  # of one picture


def test_other_words():
    """What stands between the facts, cut at white space; a mark that touches a fact is a word of its own."""
    question = Answer().fact("K", "letter", "a").fact("7", "digit", "b").say("; the ").fact("hard hat", "headwear", "c")
    question = question.say(", left\nof ").fact("red", "bar", "d").ask("?")
    others = other_words(question)
    assert [fact.text for fact in others.facts] == [";", "the", ",", "left", "of"]
    assert all(question.answer[fact.start : fact.end] == fact.text for fact in others.facts)
    assert others.answer == question.answer and other_words(Answer().fact("a", "bar", "d").ask("?")).facts == ()


def word(seed: int, chosen: float, random: float, change: float = 0.5, entries: int = 4, kind: str = "text") -> Word:
    return Word(seed, kind, "digit", entries, Drop(-1.0, chosen, random, change))


def test_figures_by_hand():
    """Means over words inside a kind, then over kinds; what was not compared counts as stated only."""
    text = [word(1, 3.0, 0.5), word(1, 2.0, 0.3), word(2, 1.0, 0.1, entries=10), Word(2, "text", "digit", 90, None)]
    chart = [word(3, 4.0, 0.9, change=1.0), Word(3, "chart", "bar", 0, None), word(4, 4.0, 0.9, change=1.0)]
    found = figures([text, chart, []])
    assert (found["stated"], found["drafted"], found["words"]) == (7, 6, 5)
    assert found["entries"] == (6 + 4) / 2 and found["logp"] == -1.0
    assert np.isclose(found["drop_chosen"], 3.0) and np.isclose(found["drop_random"], 0.6)
    assert np.isclose(found["ratio"], 5.0) and np.isclose(found["ratio_least"], 3.0 / 0.75)
    assert np.isclose(found["difference"], 2.4)
    low, high = found["difference_interval"]
    # Both charts come to 3.1. Text is drawn from pictures of (2.5 + 1.7) / 2 and 0.9.
    assert np.allclose([low, high], [(0.9 + 3.1) / 2, (2.1 + 3.1) / 2])
    assert figures([text, chart[:1]])["difference"] == found["difference"]
    assert figures([text, chart[:1]])["difference_interval"] is None
    assert figures([[word(1, 1.0, -0.2)]])["ratio"] is None


def test_interval_is_paired():
    """Words that differ wildly in both drops, but not in their difference, leave no doubt about the difference."""
    words = [word(seed, 10.0 * seed + 1, 10.0 * seed) for seed in range(1, 9)]
    assert np.allclose(figures([words])["difference_interval"], (1, 1))


@pytest.fixture(scope="module")
def result(target, drafter):
    steps, seeds = [], range(9_400_000, 9_400_003)
    options = {"budget": 12, "scale": 0.25, "shape": TREE}
    out = faithful(target, drafter, seeds, lambda *step: steps.append(step), **options)
    assert [(done, total) for done, total, _ in steps] == [(1, 3), (2, 3), (3, 3)] and steps[0][2] == "text 9400000"
    return out, faithful(target, drafter, seeds, **options)


def test_result(result):
    """Plain values, the same twice; of what a toy says hardly anything is right."""
    out, again = ({key: part for key, part in one.items() if key not in ("date", "seconds")} for one in result)
    assert json.loads(json.dumps(out, allow_nan=False)) == json.loads(json.dumps(again))
    assert list(out["kinds"]) == ["scene", "text", "chart"] and {"machine", "versions", "models"} <= set(out)
    assert out["workload"]["seeds"] == "9400000:9400003" and out["workload"]["draws"] == DRAWS
    assert out["overall"]["fact"]["stated"] < 3 and out["kinds"]["scene"]["fact"]["ratio"] is None
    assert range(9_500_000, 9_500_030) == FAITHFUL_SEEDS


def test_parts_of_a_result(target, monkeypatch):
    """Facts apart from other words, by kind and by class, over cases whose reference is what the toy says."""
    monkeypatch.setattr(bench, "draw_case", lambda seed, scale: own_case(target, seed))
    drafter = knowing(target, own_case(target))
    out = faithful(target, drafter, range(2), budget=BUDGET, shape=TREE)
    assert out["overall"]["fact"]["words"] > 5 and out["overall"]["other"]["words"] > 0
    words = [word for seed in range(2) for word in measure_case(target, drafter, own_case(target, seed), BUDGET, TREE)]
    facts = [word for word in words if word.cls is not None]
    assert out["kinds"]["scene"] == {"fact": figures([facts]), "other": figures([[w for w in words if w.cls is None]])}
    assert out["overall"] == out["kinds"]["scene"] and out["kinds"]["text"]["fact"]["words"] == 0
    assert list(out["classes"]) == ["digit", "tool"]
    assert out["classes"]["digit"] == figures([[word for word in facts if word.cls == "digit"]])
    text = io.StringIO()
    print_faithful(out, Console(file=text, width=160))
    shown = text.getvalue()
    assert f"{out['overall']['fact']['drop_chosen']:.2f}" in shown and f"{out['classes']['tool']['logp']:.2f}" in shown
    assert all(label in shown for label in ("fact words: scene", "facts: digit", "other words: overall", "95 % interval"))


def test_command(target, monkeypatch, tmp_path, capsys):
    """Writes the result of the seeds asked for; wrong seeds are one sentence before any model is loaded."""
    case = own_case(target)
    monkeypatch.setattr(bench, "draw_case", lambda seed, scale: own_case(target, seed))
    monkeypatch.setattr(bench, "load_target", lambda name: target)
    monkeypatch.setattr(bench, "load_drafter", lambda name, target: knowing(target, case))
    assert main(["bench", "faithful", "--seeds", "0:1", "--json", str(tmp_path / "f.json")]) == 0
    written = json.loads((tmp_path / "f.json").read_text())
    assert written["workload"]["seeds"] == "0:1" and written["workload"]["tree"] == TREES[MAPS].model_dump()
    assert written["overall"]["fact"]["stated"] > 0 and "bench faithful, seeds 0:1" in capsys.readouterr().err
    assert main(["bench", "faithful", "--seeds", "9:3"]) == 2 and "seeds '9:3'" in capsys.readouterr().err
