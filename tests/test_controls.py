"""The control policies: which entries they keep, spelled out for one state at a time, and what all of them share."""

from __future__ import annotations

import math

import pytest
import torch

from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.memory.build import MemoryWeights, VisualMemory
from fovea_core.memory.controls import CONTROLS
from fovea_core.memory.correct import Correction, FoldedCorrection, FoldedMemory
from fovea_core.memory.select import Bounds, make_policy
from fovea_core.settings import SettingsError, make_settings
from fovea_core.trace import events as ev
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.events import Shape
from tests.toys import captured, toy_drafter, toy_picture, toy_target

BOUNDS = Bounds(2, 9, 0.6)
NAMES = [f"{rule}-4" for rule in CONTROLS]


@pytest.fixture
def room():
    """A memory of 30 entries, some of them padding, and five states: (memory, correction, states)."""
    torch.manual_seed(5)
    weights, correction = MemoryWeights(16, 4), Correction(16, 24)
    for parameter in [*weights.parameters(), *correction.parameters()]:
        torch.nn.init.normal_(parameter, std=0.4)
    valid = torch.rand(30) < 0.6
    return VisualMemory.build(torch.randn(30, 16), valid, weights), correction, torch.randn(5, 16)


def ranked(memory, query) -> list[int]:
    """Valid entries by falling product with ``query``."""
    products = {i: (query @ memory.keys[i]).item() for i in range(30) if memory.valid[i]}
    return sorted(products, key=products.get, reverse=True)


def slow_sets(name: str, memory, states, depths) -> list[set[int]]:
    """The chosen set of each state, the states one round's in order, the first one the root."""
    weights = memory.weights
    norm, row = weights.norm_h, weights.depth
    queries = {
        "static": lambda n: weights.query(norm(states[0]) + row[depths[0]]),
        "agnostic": lambda n: weights.query(row[0]),
        "state": lambda n: weights.query(norm(states[n])),
        "tiger": lambda n: weights.query(norm(states[0])),
    }
    return [set(ranked(memory, queries[name](n))[:4]) for n in range(len(states))]


@pytest.mark.parametrize("name", ["static", "agnostic", "state", "tiger"])
@pytest.mark.parametrize("fold", [False, True])
@torch.inference_mode()
def test_chosen_sets_equal_the_slow_twin(room, name, fold):
    """The root first, then the others level by level; the same from the memory folded for one picture."""
    memory, correction, states = room
    depths = [0, 1, 1, 2, 3]
    asked = FoldedMemory(memory, FoldedCorrection(correction)) if fold else memory
    policy = make_policy(f"{name}-4", BOUNDS)
    policy.start(asked)
    for n, expected in enumerate(slow_sets(name, memory, states, depths)):
        chosen = policy.select(states[n : n + 1], depths[n], asked)
        entries = asked.entries[chosen.order] if fold else chosen.order
        assert chosen.count.item() == 4 and set(entries[0, :4].tolist()) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sharpness", [1.0, 300.0])
def test_what_every_control_shares(room, name, sharpness):
    """Chosen entries are valid and come first, masses fall inside the set and are those of eq 5, weights are eq 7 inside it,
    also where a blind choice holds no measurable mass."""
    memory, _, states = room
    memory.weights.query.weight.data *= sharpness
    policy = make_policy(name, BOUNDS)
    policy.start(memory)
    for depth in (0, 2):
        chosen = policy.select(states, depth, memory)
        scores = memory.scores(states, depth)
        full = torch.softmax(scores, -1)
        assert torch.equal(chosen.order.sort(-1).values, torch.arange(30).expand(5, 30))
        assert chosen.count.tolist() == [4] * 5
        for n in range(5):
            kept = chosen.order[n, :4]
            assert memory.valid[kept].all()
            torch.testing.assert_close(chosen.masses[n], full[n, chosen.order[n]])
            assert (chosen.masses[n, :4].diff() <= 0).all()
            inside = torch.softmax(scores[n, kept], -1)
            torch.testing.assert_close(chosen.weights[n, kept], inside)
            assert chosen.weights[n].count_nonzero() <= 4 and math.isclose(chosen.weights[n].sum().item(), 1, rel_tol=1e-5)
        torch.testing.assert_close(captured(chosen), full.gather(-1, chosen.order[:, :4]).sum(-1))


def test_more_entries_asked_than_there_are(room):
    """A set larger than the picture is the whole picture without its padding."""
    memory, _, states = room
    valid = int(memory.valid.sum())
    for rule in CONTROLS:
        policy = make_policy(f"{rule}-999", BOUNDS)
        policy.start(memory)
        assert policy.select(states, 0, memory).count.tolist() == [valid] * 5


def test_random_draws_are_even_and_repeat(room):
    """The same seed, round and depth give the same entries, others give others; every valid entry is drawn about as often."""
    memory, _, states = room
    policy = make_policy("random-4", BOUNDS, seed=3)

    def sets(rounds: int):
        policy.start(memory)
        out = []
        for _ in range(rounds):
            policy.round(states[0])
            out.append(policy.select(states, 1, memory).order[:, :4])
        return torch.stack(out)

    first = sets(300)
    assert torch.equal(first, sets(300))
    counts = torch.bincount(first.flatten(), minlength=30)
    expected = first.numel() / int(memory.valid.sum())
    assert counts[~memory.valid].sum() == 0
    assert ((counts[memory.valid] - expected).abs() < 6 * expected**0.5).all()
    other = make_policy("random-4", BOUNDS, seed=4)
    other.start(memory)
    other.round(states[0])
    assert not torch.equal(other.select(states, 1, memory).order[:, :4], first[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [Shape(depth=4, width=1, nodes=5), Shape(depth=4, width=3, nodes=12)])
def test_plain_ids_under_every_control(name, shape):
    """Whatever is retrieved, the answer is plain decoding's; and a run repeats event for event."""
    target = toy_target()
    drafter, picture = toy_drafter(target), toy_picture(1)
    settings = make_settings(max_new_tokens=16, tree=shape, policy=name)
    runs = [list(decode(target, drafter, picture, "hat?", settings)) for _ in range(2)]
    assert runs[0][-1].ids == decode_plain(target, picture, "hat?", settings).ids
    reads = [[event.entries for event in run if isinstance(event, ev.MemoryRead)] for run in runs]
    assert reads[0] == reads[1] and all(len(unpack_entries(entries)) == 4 for entries in reads[0])
    chosen = {frozenset(unpack_entries(entries)) for entries in reads[0]}
    assert len(chosen) == 1 or name.partition("-")[0] not in ("static", "agnostic")
    if name.startswith("tiger"):
        sets = {}
        for event in runs[0]:
            if isinstance(event, ev.MemoryRead):
                sets.setdefault(event.round, set()).add(frozenset(unpack_entries(event.entries)))
        assert all(len(of_round) == 1 for of_round in sets.values())


def test_unknown_controls_are_refused():
    for name in ("random", "random-0", "tiger-x", "static-99999", "fovea-3", "Random-4"):
        with pytest.raises(SettingsError, match="policy"):
            make_settings(policy=name)
        with pytest.raises(ValueError, match="not known"):
            make_policy(name, BOUNDS)
