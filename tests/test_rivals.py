"""The stand-ins for rivals' choices: each against its rule spelled out in loops, and exactness of runs under them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.redraft import redraft
from fovea_core.memory import rivals
from fovea_core.memory.build import MemoryWeights, VisualMemory
from fovea_core.memory.correct import Correction, FoldedCorrection, FoldedMemory
from fovea_core.memory.rivals import RIVALS, boxes, cell_numbers, mix, vote
from fovea_core.memory.select import Bounds, make_policy
from fovea_core.settings import make_settings
from fovea_core.targets.geometry import centres
from fovea_core.targets.looking import Looking, look_layers
from fovea_core.trace import events as ev
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.events import Shape, Tile
from fovea_core.trace.laws import checked
from tests.families import tiny
from tests.toys import toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")
BOUNDS = Bounds(2, 9, 0.6)
NAMES = ["unilaspec-8", "unilaspec-3", "hawk", "foveated"]
SIDE = 9
N = SIDE * SIDE


class Surroundings:
    """A memory.select.Around of random numbers."""

    def __init__(self) -> None:
        self.masses, self.states = torch.rand(4, N) ** 6, torch.randn(4, N, 16)
        self.masses /= self.masses.sum(-1, keepdim=True)
        self.looks = 0

    def places(self):
        grid = Tile(rows=SIDE, columns=SIDE, box=(-0.1, 0.0, 1.1, 1.0), view="tile", first=0, valid=[N])
        return torch.from_numpy(centres([grid], N))

    def looked(self):
        self.looks += 1
        return self.masses

    def visual_states(self):
        return self.states


@pytest.fixture(params=[False, True], ids=["memory", "folded"])
def room(request):
    """(memory as a policy sees it, the whole memory, surroundings, states)."""
    torch.manual_seed(7)
    weights, correction = MemoryWeights(16, 4), Correction(16, 24)
    for parameter in [*weights.parameters(), *correction.parameters()]:
        torch.nn.init.normal_(parameter, std=0.4)
    memory = VisualMemory.build(torch.randn(N, 16), torch.rand(N) < 0.8, weights)
    return (
        FoldedMemory(memory, FoldedCorrection(correction)) if request.param else memory,
        memory,
        Surroundings(),
        torch.randn(5, 16),
    )


def started(name, room):
    policy = make_policy(name, BOUNDS)
    policy.start(room[0], room[2])
    return policy


def chosen_sets(memory, selection) -> list[set[int]]:
    """Numbers in the picture of each state's chosen entries."""
    return [
        set(memory.entries[order[:count]].tolist())
        for order, count in zip(selection.order, selection.count.tolist(), strict=True)
    ]


def test_vote_by_hand():
    """Votes come first, the summed mass decides among equals."""
    masses = torch.zeros(2, 40)
    masses[0, :17] = torch.linspace(0.1, 0.05, 17)  # entry 16 gets no vote of this layer
    masses[1, 16:32] = torch.linspace(0.04, 0.02, 16)  # and one of the other: together it holds 0.09
    order = vote(masses).argsort(descending=True).tolist()
    assert order[:32] == [0, 1, 2, 3, 16, *range(4, 16), *range(17, 32)]
    masses[0, 16] = 9  # a vote more outweighs any mass
    masses[1, 20] = 0.9
    assert vote(masses).argmax() == 16
    masses[0, 16] = 0.05
    masses[1] = 0
    masses[1, [15, 3, *range(20, 34)]] = 0.01
    assert set(vote(masses).argsort(descending=True).tolist()[:2]) == {3, 15}  # two votes each


@torch.inference_mode()
def test_unilaspec_takes_the_first_of_the_vote(room):
    """The same entries for every state of a round, the target asked once a round."""
    seen, memory, around, states = room
    policy = started("unilaspec-8", room)
    votes = {i: 0 for i in range(N)}
    for row in around.masses:
        for i in sorted(range(N), key=lambda i: -row[i])[:16]:
            votes[i] += 1
    ranked = sorted((i for i in range(N) if memory.valid[i]), key=lambda i: (-votes[i], -float(around.masses[:, i].sum())))
    for depth in (0, 1):
        assert chosen_sets(seen, policy.select(states, depth, seen)) == [set(ranked[:8])] * 5
    assert around.looks == 1
    around.masses = around.masses.flip(-1)
    policy.round(states[0])
    assert chosen_sets(seen, policy.select(states, 0, seen)) != [set(ranked[:8])] * 5 and around.looks == 2


@torch.inference_mode()
def test_hawk_reads_means_of_cells(room):
    """The readout is a softmax over cells of (mean key, mean value) of their entries; cells are those most unlike the mean."""
    seen, memory, around, states = room
    policy = started("hawk", room)
    selection = policy.select(states, 1, seen)
    held = seen.entries.tolist()  # the folded memory leaves padding out
    side = max(1, round(len(held) ** 0.5 / 2))
    cells: dict[int, list[int]] = {}
    for i in held:
        row, column = (min(side - 1, max(0, math.trunc(float(value) * side))) for value in reversed(around.places()[i]))
        cells.setdefault(row * side + column, []).append(i)
    mixed, whole = torch.zeros(N, 16), mix(around.states[:, held])
    mixed[held] = whole
    unlike = {cell: (mixed[members].mean(0) - whole.mean(0)).norm().item() for cell, members in cells.items()}
    kept = sorted(cells, key=unlike.get, reverse=True)[: math.ceil(len(cells) / 2)]
    cells = {cell: [i for i in cells[cell] if memory.valid[i]] for cell in kept}
    kept = [cell for cell in kept if cells[cell]]
    queries = memory.weights.queries(states, 1)
    keys = torch.stack([memory.keys[cells[c]].mean(0) for c in kept])
    values = torch.stack([memory.values[cells[c]].mean(0) for c in kept])
    wanted = (queries @ keys.T / 4).softmax(-1) @ values
    got = selection.weights @ memory.values[seen.entries]
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
    assert chosen_sets(seen, selection) == [{i for c in kept for i in cells[c]}] * 5


def test_mix_takes_the_least_alike_pair():
    torch.manual_seed(1)
    base = torch.randn(30, 8)
    states = torch.stack([base, base + 0.1 * torch.randn(30, 8), -base + 0.1 * torch.randn(30, 8)])
    normed = states / states.square().mean(-1, keepdim=True).sqrt()
    got = mix(states)
    assert min((got - normed[pair].mean(0)).abs().max() for pair in ([0, 2], [1, 2])) < 1e-5


def slow_box(masses, cells, valid) -> set[int]:
    """The least number of cells that make a rectangle with 60 % of the mass; the first of equal size in order of rows."""
    found = []
    for top, left in itertools.product(range(8), range(8)):
        for bottom, right in itertools.product(range(top, 8), range(left, 8)):
            inside = [i for i, (row, column) in cells.items() if top <= row <= bottom and left <= column <= right and valid[i]]
            if sum(float(masses[i]) for i in inside) >= 0.6 - 1e-6:
                found.append(((bottom - top + 1) * (right - left + 1), top, bottom, left, right, set(inside)))
    return min(found, key=lambda item: item[:5])[-1]


@torch.inference_mode()
def test_foveated_box(room):
    """Every state's own box, then the one in force until a state has too little in it."""
    seen, memory, around, states = room
    policy = started("foveated", room)
    cells = {i: (min(7, max(0, int(y * 8))), min(7, max(0, int(x * 8)))) for i, (x, y) in enumerate(around.places().tolist())}
    full = memory.scores(states * 3, 0).softmax(-1)
    wanted = [slow_box(full[n], cells, memory.valid.tolist()) for n in range(5)]
    assert len({frozenset(box) for box in wanted}) > 1
    force = None
    for n in range(5):
        inside = 0 if force is None else sum(float(full[n, i]) for i in force)
        if inside < rivals.TRIGGER:
            force = set(sorted(wanted[n], key=lambda i: -full[n, i])[: rivals.MOST])
        # Depth 0 would begin the round again, so the later states are asked as row of the same depth in a tensor.
        selection = policy.select(states[n : n + 1] * 3, torch.zeros(1, dtype=torch.int64), seen)
        assert chosen_sets(seen, selection) == [force]


@torch.inference_mode()
def test_a_draft_made_twice_reads_the_same(room):
    """Without news in between the box in force is again the one the round began with."""
    seen, _, _, states = room
    policy = started("foveated", room)
    for _ in range(3):
        policy.round(states[0])
        twice = []
        for _ in range(2):
            twice.append([chosen_sets(seen, policy.select(states[d : d + 2] * 5, d, seen)) for d in (0, 1, 2)])
        assert twice[0] == twice[1]


def test_boxes_and_cells():
    made = boxes(8)
    assert made.shape == (36 * 36, 64) and (made.sum(-1).diff() >= 0).all() and made[-1].all()
    assert len({tuple(row) for row in made.tolist()}) == 36 * 36
    places = torch.tensor([[0.0, 0.0], [0.99, 0.0], [0.1, 0.99], [-0.5, 1.7], [1.0, 1.0]])
    assert cell_numbers(places, 4).tolist() == [0, 3, 12, 12, 15]


@pytest.mark.parametrize("name", NAMES)
@torch.inference_mode()
def test_what_they_share_with_every_policy(room, name):
    """Chosen entries are valid and come first with falling masses of eq 5; weights sum to 1 and are 0 elsewhere; a policy that
    was not told what lies around says so."""
    seen, memory, _, states = room
    selection = started(name, room).select(states, 0, seen)
    full = memory.scores(states, 0).softmax(-1)[:, seen.entries]
    assert torch.equal(selection.order.sort(-1).values, torch.arange(len(seen.entries)).expand(5, -1))
    torch.testing.assert_close(selection.masses, full.gather(-1, selection.order), atol=1e-5, rtol=1e-4)
    for n, count in enumerate(selection.count.tolist()):
        order = selection.order[n]
        assert memory.valid[seen.entries[order[:count]]].all() and not selection.weights[n, order[count:]].any()
        assert (selection.masses[n, :count].diff() <= 1e-7).all()
        assert math.isclose(selection.weights[n].sum().item(), 1, rel_tol=1e-5)
    with pytest.raises(ValueError, match="around the memory"):
        make_policy(name, BOUNDS).start(seen)


@pytest.mark.parametrize("name", NAMES)
@torch.inference_mode()
def test_erased_entries_are_never_read(room, name):
    """Also where nothing of the choice is left."""
    seen, _, _, states = room
    if not isinstance(seen, FoldedMemory):
        pytest.skip("only the folded memory loses entries")
    policy = started(name, room)
    before = set.union(*chosen_sets(seen, policy.select(states, 0, seen)))
    left = seen.without(torch.tensor(sorted(before)))
    selection = policy.select(states, 1, left)
    assert selection.weights.isfinite().all() and not before & set.union(*chosen_sets(left, selection))


@pytest.mark.parametrize("family", ["toy", "qwen", "smolvlm"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [Shape(depth=4, width=1, nodes=5), Shape(depth=4, width=3, nodes=12)])
def test_plain_ids_under_every_rival(family, name, shape):
    """Whatever is retrieved, the answer is plain decoding's; a run is lawful and repeats."""
    if family == "toy":
        target = toy_target()
        drafter = toy_drafter(target)
    else:
        target = tiny(family)
        drafter = _drafter_of(target)
    settings = make_settings(max_new_tokens=14, tree=shape, policy=name)
    picture = toy_picture(1, 90, 60)
    runs = [list(checked(decode(target, drafter, picture, "hat?", settings))) for _ in range(2)]
    assert runs[0][-1].ids == decode_plain(target, picture, "hat?", settings).ids
    reads = [[event.entries for event in run if isinstance(event, ev.MemoryRead)] for run in runs]
    assert reads[0] and reads[0] == reads[1]
    if name.startswith("unilaspec"):
        of_round = {}
        for event in runs[0]:
            if isinstance(event, ev.MemoryRead):
                of_round.setdefault(event.round, set()).add(frozenset(unpack_entries(event.entries)))
        assert all(len(sets) == 1 for sets in of_round.values()) and len(set.union(*of_round.values())) > 1
        run = target.prefill(picture, "hat?", watch=look_layers(len(target.backbone.layers)))
        ranks = vote(Looking(run).masses()).masked_fill(~run.valid, -1)
        assert of_round[0] == {frozenset(ranks.topk(int(name[-1])).indices.tolist())}


def _drafter_of(target):
    class Plain:
        """What toy_drafter asks of a LLaVA."""

    wrapped = Plain()
    wrapped.model = Plain()
    wrapped.model.config = Plain()
    wrapped.model.config.text_config = target.model.config.text_config
    wrapped.__dict__.update({n: getattr(target, n) for n in ("hidden_size", "vocab_size", "backbone", "embedding", "head")})
    return toy_drafter(wrapped)


def test_a_round_is_redrafted_under_a_rival():
    """The repeated run is the recorded one under every rival, and some entries fewer are read."""
    target = toy_target()
    drafter, picture = toy_drafter(target), toy_picture(1)
    for name in ("unilaspec-4", "hawk", "foveated"):
        settings = make_settings(max_new_tokens=12, tree=Shape(depth=3, width=2, nodes=7), policy=name)
        events = list(decode(target, drafter, picture, "hat?", settings))
        first = next(event for event in events if isinstance(event, ev.MemoryRead) and event.round == 1)
        lost = unpack_entries(first.entries)[:2]
        again = redraft(target, drafter, picture, events, 1, lost)
        reads = [event for event in again.new if isinstance(event, ev.MemoryRead)]
        assert reads and not any(set(lost) & set(unpack_entries(read.entries)) for read in reads)


def test_names():
    assert set(RIVALS) == {"unilaspec", "hawk", "foveated"}
    for name in ("unilaspec", "hawk-8", "foveated-3", "unilaspec-0"):
        with pytest.raises(ValueError, match="not known"):
            make_policy(name, BOUNDS)
