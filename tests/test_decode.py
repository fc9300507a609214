"""Decoding: for every drafter, tree, budget and end of text the tokens are those of plain decoding, and the trace is lawful."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from fovea_core.decode import plain as plain_module
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import DEFINITION, compare, decode_plain, plain_steps
from fovea_core.settings import PAPER_SHAPE, Shape, make_settings
from fovea_core.targets.base import TargetError
from fovea_core.trace import events as ev
from fovea_core.trace.codec import decode as from_line
from fovea_core.trace.codec import encode as to_line
from fovea_core.trace.fold import Fold, fold
from fovea_core.trace.laws import checked
from tests.toys import (
    IMAGE,
    ScriptDrafter,
    coin,
    dup,
    empty,
    ending_with,
    eos_at,
    oracle,
    reference,
    sibling,
    toy_drafter,
    toy_picture,
    toy_target,
    until,
    wrong,
)

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
LENGTH = 40
SCRIPTS = {
    "oracle": oracle,
    "wrong": wrong,
    "coin": coin(0.6),
    "until 2": until(2),
    "second child": sibling(1),
    "third child": sibling(2),
    "eos at 2": eos_at(2),
    "empty": empty,
    "dup": dup,
}
#: A machine on which checking eight tokens costs half as much again as one.
COST = ev.CostTable(tokens=[1, 8, 40], verify_ms=[2.0, 3.0, 6.0], level_ms=0.2)
TREES = {"1x1": (1, 1, 2), "4x1": (4, 1, 5), "1x4": (1, 4, 5), "3x3": (3, 3, 10), "ragged": (5, 3, 8)}


@pytest.fixture(scope="module")
def target():
    return toy_target()


@pytest.fixture(scope="module")
def picture():
    return toy_picture()


@pytest.fixture(scope="module")
def truth(target, picture):
    """Greedy ids and logits of the independent loop."""
    return reference(target, picture, QUESTION, LENGTH)


def shape(name_or_sizes) -> Shape:
    depth, width, nodes = TREES.get(name_or_sizes, name_or_sizes)
    return Shape(depth=depth, width=width, nodes=nodes)


def run(target, picture, script, truth, tree="3x3", name="script", **settings):
    """All events of a run, each law checked on the way."""
    drafter = ScriptDrafter(name, script, truth, target.vocab_size)
    wanted = {"max_new_tokens": LENGTH, "tree": shape(tree) if tree else None, **settings}
    return list(checked(decode(target, drafter, picture, QUESTION, make_settings(**wanted), cost=None if tree else COST)))


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


# Against independent references


def test_plain_equals_the_independent_loop(target, picture, truth):
    """Same ids as running the whole model anew for every token without a cache; logits to 1e-4 at every position."""
    ids, rows = truth
    steps = list(plain_steps(target, picture, QUESTION, make_settings(max_new_tokens=LENGTH)))
    assert [token for token, _ in steps] == ids and len(set(ids)) > 20
    torch.testing.assert_close(torch.stack([logits for _, logits in steps]), rows, atol=1e-4, rtol=0)


def test_plain_equals_generate(target, picture, truth):
    """Same ids as transformers' generate() from the same embedded prompt."""
    prompt = target.prompt(picture, QUESTION)
    embedded = target.model.get_input_embeddings()(torch.tensor([prompt.ids])).clone()
    first, last = prompt.spans[0]
    embedded[0, first:last] = prompt.features
    theirs = target.model.generate(
        inputs_embeds=embedded,
        attention_mask=torch.ones(embedded.shape[:2], dtype=torch.int64),
        max_new_tokens=LENGTH,
        do_sample=False,
        pad_token_id=0,
    )
    assert theirs[0].tolist() == truth[0] == decode_plain(target, picture, QUESTION, make_settings(max_new_tokens=LENGTH)).ids


@pytest.mark.parametrize("tree", [*TREES, None])
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_drafter_and_tree_gives_the_plain_ids(target, picture, truth, script, tree):
    """Ids, reason and counts do not depend on drafter or tree; without a fixed tree the cost table chooses."""
    events = run(target, picture, SCRIPTS[script], truth[0], tree)
    finished = events[-1]
    assert finished.ids == truth[0] and finished.reason == "length"
    assert finished.text == target.tokenizer.decode(truth[0], skip_special_tokens=False)
    assert sum(len(r.emitted) for r in of(events, ev.RoundVerified)) == LENGTH - 1
    if tree is not None and script in ("wrong", "empty"):
        assert finished.accepted == 0 and finished.rounds == LENGTH - 1 and finished.tau == 1.0
    if tree == "4x1" and script == "oracle":
        assert finished.rounds == 8 and finished.accepted == 31  # 7 rounds of 5, then 4 left: 3 levels and the bonus
    if tree == "3x3" and script == "third child":
        assert finished.rounds == 10


def test_second_question_and_seed(picture):
    """Another model, other pictures, the paper's tree: still the reference."""
    other = toy_target(1)
    for seed in (2, 3):
        ids, _ = reference(other, toy_picture(seed), QUESTION, 30)
        events = run(other, toy_picture(seed), coin(0.7), ids, (PAPER_SHAPE.depth, PAPER_SHAPE.width, 40), max_new_tokens=30)
        assert events[-1].ids == ids


@pytest.mark.parametrize(
    "options, changes",
    [
        ({}, {}),
        ({"policy": "topk-3"}, {}),
        ({"policy": "dense", "depth_limit": 1}, {}),
        ({"policy": "none"}, {}),
        ({}, {"sighted": False}),
        ({"tree": None}, {}),
        ({"temperature": 0.8, "top_p": 0.9, "seed": 3}, {}),
    ],
    ids=["fovea", "topk", "dense", "none", "blind", "chosen", "sampled"],
)
def test_the_trained_kind_of_drafter(target, picture, options, changes):
    """FOVEA's drafter with random weights: plain ids under every policy; reads where, and only where, states may look."""
    drafter = toy_drafter(target, **changes)
    wanted = make_settings(**({"max_new_tokens": 20, "tree": Shape(depth=4, width=3, nodes=12)} | options))
    events = list(checked(decode(target, drafter, picture, QUESTION, wanted, cost=COST)))
    assert events[-1].ids == decode_plain(target, picture, QUESTION, wanted).ids
    if wanted.tree is None:
        return  # what a random drafter proposes is seldom worth sending
    reads, limit = of(events, ev.MemoryRead), events[0].depth_limit
    looks = options.get("policy") != "none" and changes.get("sighted", True)
    assert bool(reads) == looks == (limit >= 0) and events[0].policy == (wanted.policy if looks else "none")
    nodes = of(events, ev.NodeDrafted)
    assert nodes and all(node.logp is not None for node in nodes)
    scored = {(node.round, node.parent) for node in nodes if node.depth - 1 <= limit}
    assert {(read.round, read.node) for read in reads} == scored and all(read.depth <= limit for read in reads)


def test_events_of_a_round_are_short():
    """Fourteen by fourteen entries: a round of the paper's tree takes at most 12 kB on the wire, one of eight nodes 4 kB."""
    target = toy_target(cells=14)
    drafter = toy_drafter(target, k_max=64, rho=0.8)
    for tree, limit in ((PAPER_SHAPE, 12_000), (Shape(depth=5, width=4, nodes=8), 4_000)):
        wanted, sizes, size = make_settings(max_new_tokens=12, tree=tree), [], 0
        for event in decode(target, drafter, toy_picture(), QUESTION, wanted):
            size += len(to_line(event)) + 1
            if isinstance(event, ev.RoundVerified):
                sizes.append(size)
            size *= not isinstance(event, ev.RoundVerified | ev.PrefillDone)
        assert 1_500 < max(sizes) <= limit


def test_no_drafter(target, picture, truth):
    """Without a drafter every round is one plain step."""
    events = list(checked(decode(target, None, picture, QUESTION, make_settings(max_new_tokens=12))))
    assert events[-1].ids == truth[0][:12] and events[-1].rounds == 11 and events[-1].drafted == 0
    assert events[0].drafter is None and events[0].policy == "none"


def test_hidden_generation_defaults_change_nothing(picture, truth):
    """A repetition penalty and do_sample in the checkpoint's generation config are not used; the trace says so."""
    penal = toy_target()
    penal.model.generation_config.repetition_penalty = 5.0
    penal.model.generation_config.do_sample = True
    events = run(penal, picture, coin(0.5), truth[0])
    assert events[-1].ids == truth[0] == decode_plain(penal, picture, QUESTION, make_settings(max_new_tokens=LENGTH)).ids
    assert DEFINITION in events[0].notes


# Where an answer ends


def first_seen(ids):
    """Positions whose token did not occur before: declared EOS, the answer ends exactly there."""
    return [i for i, token in enumerate(ids) if token not in ids[:i]]


@pytest.mark.parametrize("tree", ["4x1", "3x3"])
def test_eos_at_every_position(target, picture, truth, tree):
    """EOS as first token, inside an accepted draft, as its last node, as bonus: the run ends there with nothing after it."""
    ids = truth[0]
    places, bonus_null = first_seen(ids)[:14], set()
    assert places[0] == 0 and len(places) == 14
    for place in places:
        for script in (oracle, until(2), sibling(1)):
            ended = ending_with(target, ids[place])
            events = run(ended, picture, script, ids, tree)
            finished = events[-1]
            assert (finished.reason, finished.ids) == ("eos", ids[: place + 1])
            assert finished.ids == decode_plain(ended, picture, QUESTION, make_settings(max_new_tokens=LENGTH)).ids
            assert finished.text == target.tokenizer.decode(ids[:place], skip_special_tokens=False)
            rounds = of(events, ev.RoundVerified)
            assert len(rounds) == finished.rounds and (place > 0 or finished.tau is None)
            bonus_null |= {r.bonus is None for r in rounds}
    assert bonus_null == {True, False}  # both ways of ending were met


def test_rejected_eos_ends_nothing(target, picture, truth):
    """An EOS on a rejected branch is a rejected node and no more."""
    events = run(target, picture, eos_at(1), truth[0], "4x1")
    assert events[-1].reason == "length" and events[-1].ids == truth[0]
    drafted = {(n.round, n.node): n.token for n in of(events, ev.NodeDrafted)}
    wrong_eos = [r for v in of(events, ev.RoundVerified) for r in v.rejected if drafted[v.round, r.node] in target.eos_ids]
    assert len(wrong_eos) == events[-1].rounds - 1  # the last round has room for no draft


def test_several_eos_ids(target, picture, truth):
    """All EOS ids end a run."""
    ids = truth[0]
    two = ending_with(target, ids[9], ids[5])
    assert run(two, picture, oracle, ids)[-1].ids == ids[:6]


@pytest.mark.parametrize("budget", [1, 2, 4, 5, 6, 7, 10, 11])
def test_budgets_around_accepted_chunks(target, picture, truth, budget):
    """Budgets 1, 2, k-1, k, k+1 against chunks of k = 5: exactly the budget, 'eos' where it comes first."""
    ids = truth[0]
    for script in (oracle, sibling(1), wrong):
        events = run(target, picture, script, ids, "4x1" if script is not sibling else "3x3", max_new_tokens=budget)
        assert (events[-1].reason, events[-1].ids) == ("length", ids[:budget])
    for place in (budget - 2, budget - 1, budget):
        if place not in first_seen(ids):
            continue
        ended = ending_with(target, ids[place])
        finished = run(ended, picture, oracle, ids, "4x1", max_new_tokens=budget)[-1]
        expected = ("eos", ids[: place + 1]) if place < budget else ("length", ids[:budget])
        assert (finished.reason, finished.ids) == expected


def test_context_end(picture):
    """Near the end of the context: all that fits, no position past the last, same as plain; the last token is still its own."""
    length = len(toy_target().prompt(picture, QUESTION).ids)
    for room in (1, 2, 5, 9):
        small = toy_target(context=length + room)
        ids, _ = reference(small, picture, QUESTION, room)
        assert decode_plain(small, picture, QUESTION, make_settings(max_new_tokens=50)).ids == ids
        for script in (oracle, sibling(2), wrong):
            finished = run(small, picture, script, ids, "4x1", max_new_tokens=50)[-1]
            assert (finished.ids, finished.reason) == (ids, "length")
    with pytest.raises(TargetError, match="shorter question"):
        list(decode(toy_target(context=length), None, picture, QUESTION, make_settings()))


def test_target_says_the_image_placeholder():
    """The target emits <image> itself: shown as a token, no crash, same as plain."""
    spoken, picture = toy_target(1), toy_picture(1)
    ids, _ = reference(spoken, picture, QUESTION, LENGTH)
    if IMAGE not in ids:
        picture = toy_picture(0)
        ids, _ = reference(spoken, picture, QUESTION, LENGTH)
    assert IMAGE in ids
    finished = run(spoken, picture, oracle, ids)[-1]
    assert finished.ids == ids and "<image>" in finished.text


# The trace


def test_numbers_of_until_2_of_4(target, picture, truth):
    """UNTIL-2 of 4: 2 accepted, 1 rejected, 1 never judged, 1 bonus, per round and in total."""
    events = run(target, picture, until(2), truth[0], "4x1")
    rounds = of(events, ev.RoundVerified)
    for verdict in rounds[:-1]:
        assert (len(verdict.accepted), len(verdict.rejected), len(verdict.unverified)) == (2, 1, 1)
        assert len(verdict.emitted) == 3 and verdict.bonus == verdict.emitted[-1] and verdict.pruned == 0
    finished, summary = events[-1], fold(events)
    assert finished.rounds == 13 and finished.tau == pytest.approx(39 / 13)
    assert summary.drafted == summary.accepted + summary.rejected + summary.unverified == finished.drafted
    assert finished.accepted == summary.accepted == 26 and summary.ids == finished.ids


@pytest.mark.parametrize("script", ["wrong", "third child", "dup"])
def test_rejected_carry_the_targets_own_word(target, picture, truth, script):
    """Log-probabilities of both and the rank are those of the reference logits at that position."""
    ids, rows = truth
    events = run(target, picture, SCRIPTS[script], ids, "3x3")
    nodes = {(n.round, n.node): n for n in of(events, ev.NodeDrafted)}
    said, seen = 1, 0
    for verdict in of(events, ev.RoundVerified):
        for item in verdict.rejected:
            node, seen = nodes[verdict.round, item.node], seen + 1
            at = said + node.depth - 1  # answer position that the node wanted
            logs = rows[at].log_softmax(-1)
            assert item.target_token == ids[at] != node.token
            assert item.target_logp == pytest.approx(float(logs[ids[at]]), abs=1e-4)
            assert item.logp == pytest.approx(float(logs[node.token]), abs=1e-4)
            assert item.rank == int((logs > logs[node.token]).sum()) >= 1
        said += len(verdict.emitted)
    assert seen >= 30 - 10 * (script == "dup")


def test_a_twin_of_an_accepted_node_is_not_wrong(target, picture, truth):
    """DUP: the second copy of the right token is unverified, never rejected."""
    events = run(target, picture, dup, truth[0], "3x3")
    nodes = {(n.round, n.node): n.token for n in of(events, ev.NodeDrafted)}
    for verdict in of(events, ev.RoundVerified):
        right = {nodes[verdict.round, node] for node in verdict.accepted}
        assert all(nodes[verdict.round, item.node] != item.target_token for item in verdict.rejected)
        assert len(verdict.unverified) >= len(right)


def test_detail_changes_no_token(target, picture, truth):
    """'rounds' yields no node and no read, and the same rounds."""
    full, rounds = (run(target, picture, sibling(2), truth[0], detail=detail) for detail in ("nodes", "rounds"))
    assert {e.kind for e in rounds} == {"run_started", "prefill_done", "round_verified", "finished"}
    picks = [[(v.accepted, [r.node for r in v.rejected], v.emitted) for v in of(e, ev.RoundVerified)] for e in (full, rounds)]
    assert picks[0] == picks[1] and full[-1].ids == rounds[-1].ids


def test_events_survive_their_lines(target, picture, truth):
    """decode(encode(e)) == e for every event, and the fold of the replay is the fold of the run."""
    events = run(target, picture, sibling(1), truth[0])
    again = [from_line(to_line(event)) for event in events]
    assert again == events and fold(again) == fold(events)


@pytest.mark.parametrize("script", ["coin", "second child", "dup", "wrong"])
def test_shown_pieces_join_to_the_decoding(target, picture, truth, script):
    """After every event the bytes shown so far decode to the decoding of all ids so far; rejected leave no trace."""
    ids, running, broken = truth[0], Fold(), 0
    for event in run(target, picture, SCRIPTS[script], ids):
        running.add(event)
        if isinstance(event, ev.PrefillDone | ev.RoundVerified):
            summary = running.summary()
            assert summary.text == target.tokenizer.decode(summary.ids, skip_special_tokens=False)
            assert summary.ids == ids[: len(summary.ids)]
            broken += summary.text.endswith("\ufffd")
    assert broken > 0  # the toy's answers do stop inside characters


def test_what_the_drafter_is_told(target, picture, truth):
    """extend brings every committed token once, at its position, with the state that predicted it."""
    ids = truth[0]
    drafter = ScriptDrafter("spy", sibling(2), ids, target.vocab_size)
    runs, start = [], drafter.start
    drafter.start = lambda *a: runs.append(start(*a)) or runs[-1]
    list(decode(target, drafter, picture, QUESTION, make_settings(max_new_tokens=20, tree=shape("3x3"))))
    tokens, states, positions = (torch.cat(parts) for parts in zip(*runs[0].calls))
    told = target.prefill(picture, QUESTION, ids[: tokens.shape[0]])
    text = told.prompt_ids[17:]
    assert tokens.tolist() == text[: len(tokens)] and positions.tolist() == list(range(17, 17 + len(tokens)))
    torch.testing.assert_close(states, told.hidden[positions - 1], atol=1e-4, rtol=0)


def test_run_started_says_what_a_rerun_needs(target, picture, truth):
    """With the cost table of RunStarted given, a rerun has the same rounds; the chosen tree has a table and a largest shape."""
    drafter = ScriptDrafter("coin", coin(0.6), truth[0], target.vocab_size)
    settings = make_settings(max_new_tokens=LENGTH)
    events = list(decode(target, drafter, picture, QUESTION, settings))  # measures
    started = events[0]
    assert started.shape is None and started.max_shape is not None and started.cost is not None
    assert (started.picture_width_px, started.picture_height_px) == picture.size and len(started.picture_sha256) == 64
    again = list(decode(target, drafter, picture, QUESTION, settings, cost=started.cost))
    assert [v.accepted for v in of(again, ev.RoundVerified)] == [v.accepted for v in of(events, ev.RoundVerified)]
    fixed = run(target, picture, oracle, truth[0], "4x1")[0]
    assert fixed.shape == shape("4x1") and fixed.cost is None and fixed.settings["tree"] == "4,1,5"


@pytest.mark.parametrize(
    "tokens, parents, depths",
    [
        ([1, 2], [-1, 0], [0, 1]),
        ([0, 2, 3], [-1, 0, 1], [0, 1, 2]),
        ([0, 320], [-1, 0], [0, 1]),
        ([0] + [2] * 9, [-1] + [0] * 9, [0] + [1] * 9),
    ],
    ids=["wrong root", "too deep", "no such token", "too many"],
)
def test_a_drafter_that_breaks_its_contract(target, picture, truth, tokens, parents, depths):
    """Stopped before the target sees it."""
    from fovea_core.decode.tree import Draft

    def script(running, wanted):
        own = [running.answer[-1] if t == 0 else t for t in tokens]
        own[0] = own[0] if tokens[0] == 0 else (running.answer[-1] + 1) % 320
        return Draft(torch.tensor(own), torch.tensor(parents), torch.tensor(depths))

    with pytest.raises(ValueError, match="broke its contract"):
        run(target, picture, script, truth[0], (1, 4, 5))


# Stopping


@pytest.mark.parametrize("after", [0, 1, 5])
def test_stop_ends_within_one_round(target, picture, truth, after):
    """Asked to stop after some rounds: the partial answer is kept, marked 'stopped', and is the beginning of the answer."""
    asked = []
    drafter = ScriptDrafter("oracle", oracle, truth[0], target.vocab_size)
    settings = make_settings(max_new_tokens=LENGTH, tree=shape("3x3"))
    stream = decode(target, drafter, picture, QUESTION, settings, stop=lambda: len(asked) > after or asked.append(1))
    events = list(checked(stream))
    assert events[-1].reason == "stopped" and events[-1].rounds <= after + 1
    assert events[-1].ids == truth[0][: len(events[-1].ids)]


def test_closing_frees_the_cache_and_the_next_run_works(target, picture, truth):
    """A reader that leaves at any event: the cache is freed, and a new run gives the whole answer."""
    prefill, caches = target.prefill, []

    def watched(*args, **more):
        made = prefill(*args, **more)
        caches.append(weakref.ref(made))
        return made

    drafter = ScriptDrafter("oracle", oracle, truth[0], target.vocab_size)
    target.prefill = watched
    for leave in (0, 1, 2, 9):
        stream = decode(target, drafter, picture, QUESTION, make_settings(tree=shape("3x3")))
        for _ in range(leave + 1):
            next(stream)
        stream.close()
        gc.collect()
        assert not any(cache() for cache in caches)
    del target.prefill
    assert len(caches) == 3  # none was needed before the first event
    assert run(target, picture, oracle, truth[0])[-1].ids == truth[0]


def test_readers_time_is_not_the_engines(target, picture, truth):
    """total_ms leaves out what happens between two events."""
    import time

    stream = decode(target, None, picture, QUESTION, make_settings(max_new_tokens=6))
    last = None
    for event in stream:
        last = event
        time.sleep(0.05)
    assert last.total_ms < 8 * 50 * 0.75 and last.total_ms >= last.prefill_ms + last.verify_ms


# Comparing


def test_compare_measures_plain_decoding(target, picture, truth):
    """n repeats after a warm-up, their median, same ids; a stopped run is compared over what it has."""
    settings = make_settings(max_new_tokens=LENGTH, tree=shape("3x3"))
    events = run(target, picture, oracle, truth[0])
    compared = compare(target, picture, QUESTION, settings, events[-1], len(events), repeats=3)
    assert len(compared.plain_ms) == 3 and sorted(compared.plain_ms)[1] == compared.plain_median_ms
    assert compared.same_ids and compared.first_difference is None
    assert compared.speedup == pytest.approx(compared.plain_median_ms / events[-1].total_ms)
    assert list(checked([*events, compared]))
    stopped = events[-1].model_copy(update={"reason": "stopped", "ids": truth[0][:7]})
    assert compare(target, picture, QUESTION, settings, stopped, 9, repeats=1).same_ids
    assert compare(target, picture, QUESTION, settings, events[-1], 9, stop=lambda: True) is None


def test_compare_finds_the_first_difference(target, picture, truth):
    """Another token at position 5: named, with the gap of the raw logits there; a shorter answer differs at its end."""
    ids, rows = truth
    settings = make_settings(max_new_tokens=LENGTH)
    finished = run(target, picture, oracle, ids)[-1]
    changed = finished.model_copy(update={"ids": [*ids[:5], 11, *ids[6:]]})
    compared = compare(target, picture, QUESTION, settings, changed, 9, repeats=1)
    assert not compared.same_ids and compared.first_difference == 5
    assert compared.gap == pytest.approx(float(rows[5][ids[5]] - rows[5][11]), abs=1e-4)
    shorter = finished.model_copy(update={"ids": ids[:-1]})
    compared = compare(target, picture, QUESTION, settings, shorter, 9, repeats=1)
    assert (compared.same_ids, compared.first_difference, compared.gap) == (False, LENGTH - 1, None)


def test_plain_stops_when_asked(target, picture, truth):
    """stop is asked after every token; the partial result is marked."""
    left = iter([False, False, True])
    result = decode_plain(target, picture, QUESTION, make_settings(max_new_tokens=LENGTH), lambda: next(left))
    assert (result.ids, result.reason) == (truth[0][:3], "stopped") and 0 < result.prefill_ms <= result.ms
    assert plain_module.first_difference([1, 2], [1, 2]) is None and plain_module.first_difference([1], [1, 2]) == 1
