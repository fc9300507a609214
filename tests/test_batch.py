"""Requests answered in lock-step: every answer has the ids of its single run, whoever goes on beside it."""

from __future__ import annotations

import pytest
import torch

from fovea_core.decode.batch import Asked, Lockstep, serve
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import Shape, make_settings
from fovea_core.targets.base import TargetError
from fovea_core.targets.together import Together
from fovea_core.trace import events as ev
from tests.families import FAMILIES, tiny
from tests.toys import (
    ScriptDrafter,
    coin,
    dup,
    empty,
    ending_with,
    eos_at,
    oracle,
    sibling,
    toy_drafter,
    toy_picture,
    toy_target,
    wrong,
)

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTIONS = ("what is in the picture?", "a", "what is left of the green box? a red ball, a blue cone", "the worker wears what?")


def trees(count: int, vocab: int, most: int = 6):
    """Random trees of different size, one a run; the first has one node only."""
    made = []
    for i in range(count):
        size = 1 + (i * 5) % most
        parents = torch.tensor([-1, *(int(torch.randint(node, (1,))) for node in range(1, size))])
        depths = torch.zeros(size, dtype=torch.int64)
        for node in range(1, size):
            depths[node] = depths[parents[node]] + 1
        made.append((torch.randint(vocab, (size,)), parents, depths))
    return made


def path(parents) -> list[int]:
    """Some path from the root: to the last node."""
    node, nodes = parents.shape[0] - 1, []
    while node >= 0:
        nodes.append(node)
        node = int(parents[node])
    return nodes[::-1]


@pytest.mark.parametrize("family", ["toy", "toy, shared heads", *FAMILIES])
def test_rows_equal_single_runs(family):
    """Logits, states and committed keys of trees of different size behind prompts of different length, over several rounds,
    with a run that leaves and one that joins between them, are those of each run's own forwards."""
    torch.manual_seed(3)
    target = tiny(family) if family in FAMILIES else toy_target(1, kv_heads=1 if "shared" in family else 2)
    requests = [(toy_picture(i, 40 + 9 * i, 60), QUESTIONS[i % 4]) for i in range(5)]
    alone = [target.prefill(*request) for request in requests]
    together, shared = Together(target), [target.prefill(*request) for request in requests]
    for run in shared[:4]:
        together.join(run)
    twin = dict(zip(map(id, shared), alone))
    for turn in range(4):
        if turn == 2:
            gone = together.leave(1)
            assert gone is shared[1] and gone.cache.committed == len(gone.prompt_ids)
            together.join(shared[4])
            assert [shared.index(run) for run in together.runs] == [0, 3, 2, 4]
        drawn = trees(len(together.runs), target.vocab_size, 1 if turn == 1 else 6)
        logits, hidden = together.forward_trees(drawn)
        sizes = [tree[0].shape[0] for tree in drawn]
        for run, tree, rows, states in zip(together.runs, drawn, logits.split(sizes), hidden.split(sizes)):
            other = twin[id(run)]
            wanted = other.forward_tree(*tree)
            torch.testing.assert_close(rows, wanted[0], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(states, wanted[1], atol=1e-4, rtol=1e-4)
            for one in (run, other):
                one.commit(path(tree[1]))
            torch.testing.assert_close(run.cache.committed_values(), other.cache.committed_values(), atol=1e-4, rtol=1e-4)
    assert target.backbone.attention == "sdpa"


def test_watched_layers_of_each_row():
    """Runs that watch layers keep the states that enter them, each its own; runs that watch others may not join."""
    torch.manual_seed(4)
    target = toy_target(1)
    requests = [(toy_picture(i), QUESTIONS[i]) for i in range(3)]
    alone, shared = ([target.prefill(*request, watch=(0, 2)) for request in requests] for _ in range(2))
    together = Together(target)
    for run in shared:
        together.join(run)
    drawn = trees(3, target.vocab_size)
    together.forward_trees(drawn)
    for run, other, tree in zip(shared, alone, drawn):
        other.forward_tree(*tree)
        for one in (run, other):
            one.commit(path(tree[1]))
        torch.testing.assert_close(run.cache.entered, other.cache.entered, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(run.cache.tip, other.cache.tip, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="watch the same layers"):
        together.join(target.prefill(*requests[0]))


def test_what_cannot_go_together():
    """Another attention, and a node past the context, are errors in one sentence; the attention is as before afterwards."""
    with pytest.raises(TargetError, match="its attention is not sdpa"):
        Together(toy_target(0, attention="eager"))
    target = toy_target(0, context=40)
    together, run = Together(target), target.prefill(toy_picture(0), "a")
    together.join(run)
    chain = torch.arange(40 - run.next_position + 1)
    with pytest.raises(ValueError, match="past the context of 40"):
        together.forward_trees([(chain, chain - 1, chain)])
    assert target.backbone.attention == "sdpa"


# Lock-step

LENGTH = 24
#: Requests of a test: pictures, questions and budgets of different size; 8 lanes that end at different times.
REQUESTS = [(toy_picture(i, 40 + 9 * i, 60), QUESTIONS[i % 4], 5 + (i * 7) % LENGTH) for i in range(8)]
SCRIPTS = {
    "oracle": (oracle, (4, 1, 5)),
    "wrong": (wrong, (4, 1, 5)),
    "coin": (coin(0.6), (5, 1, 6)),
    "second child": (sibling(1), (3, 3, 10)),
    "dup": (dup, (3, 3, 10)),
    "eos at 2": (eos_at(2), (4, 1, 5)),
    "empty": (empty, (4, 1, 5)),
}


@pytest.fixture(scope="module")
def target():
    return toy_target(0)


@pytest.fixture(scope="module")
def truths(target):
    """The plain ids of every request's single run."""
    return [decode_plain(target, *asked[:2], make_settings(max_new_tokens=asked[2])).ids for asked in REQUESTS]


class Scripts:
    """A ScriptDrafter a request, told apart by what the run was asked: each knows its own right answer."""

    id, fingerprint = "scripts", ""

    def __init__(self, script, requests, truths, vocab_size: int) -> None:
        self.of = {
            id(r[0]): ScriptDrafter("script", script, ids, vocab_size, n) for n, (r, ids) in enumerate(zip(requests, truths))
        }
        self.runs = []

    def start(self, run, settings):
        self.runs.append(self.of[id(run.asked[0])].start(run, settings))
        return self.runs[-1]


def answers(lockstep: Lockstep, requests, **settings) -> list[list[int]]:
    """Ids of each request; all join at once."""
    lanes = []
    for image, question, limit in requests:
        lanes.append(lockstep.join(lockstep.target.prefill(image, question), make_settings(max_new_tokens=limit, **settings)))
    while lockstep.lanes:
        lockstep.round()
    return [lane.ids for lane in lanes]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_plain_rows_equal_single_runs(target, truths, count):
    """Plain decoding of b requests at once: each answer is its single run's, whenever the others end."""
    assert answers(Lockstep(target), REQUESTS[:count]) == truths[:count]


@pytest.mark.parametrize("script", SCRIPTS)
def test_drafted_rows_equal_single_runs(target, truths, script):
    """Fixed shapes under scripted drafters, eight requests: the ids of single plain runs, in the rounds of single runs."""
    made, sizes = SCRIPTS[script]
    shape = Shape(depth=sizes[0], width=sizes[1], nodes=sizes[2])
    lockstep = Lockstep(target, Scripts(made, REQUESTS, truths, target.vocab_size), shape)
    lanes = [lockstep.join(target.prefill(*asked[:2]), make_settings(max_new_tokens=asked[2])) for asked in REQUESTS]
    while lockstep.lanes:
        lockstep.round()
    assert [lane.ids for lane in lanes] == truths
    for number, (lane, asked) in enumerate(zip(lanes, REQUESTS)):
        alone = ScriptDrafter("script", made, truths[number], target.vocab_size, number)
        settings = make_settings(max_new_tokens=asked[2], tree=shape)
        rounds = [e for e in decode(target, alone, *asked[:2], settings) if isinstance(e, ev.RoundVerified)]
        assert lane.rounds == len(rounds)


def test_the_drafter_hears_all_of_it(target, truths):
    """What a drafter is told over the rounds of a lane, late start included, is what the single run tells it."""
    scripts = Scripts(coin(0.5), REQUESTS, truths, target.vocab_size)
    lockstep = Lockstep(target, scripts)
    asked, shape = REQUESTS[3], Shape(depth=3, width=1, nodes=4)
    lane = lockstep.join(target.prefill(*asked[:2]), make_settings(max_new_tokens=asked[2]))
    lockstep.join(target.prefill(*REQUESTS[4][:2]), make_settings(max_new_tokens=asked[2]))
    for _ in range(3):
        lockstep.round()
    lockstep.shape = shape
    while lane in lockstep.lanes:
        lockstep.round()
    heard = [torch.cat(part) for part in zip(*scripts.runs[0].calls)]
    alone = ScriptDrafter("script", empty, truths[3], target.vocab_size)
    started = []
    alone.start, start = lambda *a: started.append(start(*a)) or started[-1], alone.start
    list(decode(target, alone, *asked[:2], make_settings(max_new_tokens=asked[2], tree=shape)))
    single = [torch.cat(part) for part in zip(*started[0].calls)]
    count = len(heard[0])
    assert count > len(target.prefill(*asked[:2]).text_prompt()[0]) + 4
    assert torch.equal(heard[0], single[0][:count]) and torch.equal(heard[2], single[2][:count])
    torch.testing.assert_close(heard[1], single[1][:count], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_trained_drafter(target, temperature):
    """FOVEA's drafter, tree and chain, greedy and sampled: plain ids; ends by EOS as well as by length."""
    ending = ending_with(
        target, *(ids[3] for ids in [decode_plain(target, *REQUESTS[5][:2], make_settings(max_new_tokens=9)).ids])
    )
    settings = {"temperature": temperature, "seed": 3}
    wanted = [decode_plain(ending, *asked[:2], make_settings(max_new_tokens=asked[2], **settings)).ids for asked in REQUESTS]
    for sizes in ((3, 1, 4), (3, 3, 10)):
        shape = Shape(depth=sizes[0], width=sizes[1], nodes=sizes[2])
        assert answers(Lockstep(ending, toy_drafter(ending), shape), REQUESTS, **settings) == wanted
    if temperature == 0:
        assert len(wanted[5]) == 4 < REQUESTS[5][2]


# Arrivals


class Ticks:
    """A clock that goes on by one ms each time it is read."""

    def __init__(self) -> None:
        self.now, self.waited = 0.0, 0

    def ms(self) -> float:
        self.now += 1
        return self.now

    def wait(self, until_ms: float) -> None:
        self.waited += until_ms > self.now
        self.now = max(self.now, until_ms)


@pytest.mark.parametrize("shape", [None, Shape(depth=4, width=1, nodes=5)])
def test_arrivals_in_between(target, truths, shape):
    """Requests that arrive in bursts, some while others are at work, some behind a pause: plain ids, at most so many at once,
    nobody is answered before it came, first come first served."""
    arrivals = [0, 0, 3, 5, 5, 5, 5000, 5001]
    requests = [
        Asked(image, question, make_settings(max_new_tokens=limit), float(at))
        for (image, question, limit), at in zip(REQUESTS, arrivals)
    ]
    lockstep, clock, most = Lockstep(target, Scripts(coin(0.7), REQUESTS, truths, target.vocab_size), shape), Ticks(), 0
    ended, round_ = {}, lockstep.round

    def counted():
        nonlocal most
        most = max(most, len(lockstep.lanes))
        return round_()

    lockstep.round = counted
    for answer in serve(lockstep, requests, clock, most=3):
        ended[answer.number] = answer
    assert [ended[number].ids for number in range(8)] == truths
    assert most == 3 and clock.waited == 1
    assert all(ended[number].ended_ms > at for number, at in enumerate(arrivals))
    assert max(ended[number].ended_ms for number in range(6)) < 5000 < ended[6].ended_ms
    assert {ended[number].reason for number in range(8)} == {"length"}


def test_a_request_of_one_token(target, truths):
    """A request whose first token is its last never takes a seat; no request at all is no answer."""
    one = [Asked(*REQUESTS[0][:2], make_settings(max_new_tokens=1))]
    assert [answer.ids for answer in serve(Lockstep(target), one)] == [truths[0][:1]]
    assert list(serve(Lockstep(target), [])) == []
