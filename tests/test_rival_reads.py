"""What trained rivals read, as the trace tells it: their reader's own weights, on the entries of the picture."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from fovea_core.bench.exact import Told
from fovea_core.bench.observe import Observed
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.rival import RivalRun, TrainedRival
from fovea_core.decode.rival_reads import Cells, Taken, look_at_entries
from fovea_core.memory.rivals import vote
from fovea_core.settings import RunSettings, Shape
from fovea_core.targets.geometry import from_run_lengths
from fovea_core.targets.looking import Looking, look_layers
from fovea_core.trace.codec import unpack_entries, unpack_masses
from fovea_core.trace.events import MemoryRead, RunStarted
from fovea_core.trace.laws import checked
from fovea_core.trace.reads import MOST_SHOWN, SHOWN, mass_name, own_reader
from fovea_core.train.variants import RIVALS
from tests.rival_toys import tapped_target
from tests.test_trained_rivals import loaded, loose
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")
SEEING = {"hawk": "cells", "tiger": "routed-8", "unilaspec": "watched-8"}
TREES = (Shape(depth=4, width=3, nodes=14), Shape(depth=4, width=1, nodes=5), Shape(depth=1, width=2, nodes=3))
QUESTION = "a hat?"


@pytest.fixture(scope="module")
def target():
    return tapped_target()


def by_hand(reader, state, vectors, bias) -> list[float]:
    """Reader.forward's weights on each of (L, width) ``vectors`` for one (d,) state: per head a softmax, then their mean."""
    asked = reader.query(reader.norm(state)).tolist()
    keys = reader.kv(reader.norm_source(vectors)).tolist()  # keys of all heads, then values
    total, size = [0.0] * len(keys), reader.head_dim
    for head in range(reader.heads):
        span = slice(head * size, (head + 1) * size)
        scores = [sum(a * b for a, b in zip(asked[span], key[span])) / math.sqrt(size) for key in keys]
        powers = [math.exp(score + more) for score, more in zip(scores, bias)]
        total = [sum_ + power / sum(powers) / reader.heads for sum_, power in zip(total, powers)]
    return total


class Readings:
    """A rival's run, what each call of its reader was given, and the same from the training module over the whole picture."""

    def __init__(self, name: str, target, number: int, detail: str = "nodes") -> None:
        self.name, self.drafter = name, loose(name, target).drafter
        watch = look_layers(len(target.backbone.layers))
        self.run = target.prefill(toy_picture(number, 90, 50), QUESTION, watch=watch)
        self.made = TrainedRival(self.drafter, name).start(self.run, RunSettings(detail=detail))
        self.read, self.made._read = [], self._spy(self.made._read)
        self.made.extend(*self.run.first_news(int(self.run.logits.argmax())))
        self.root = self.read[0][0]  # before it has read

    def _spy(self, read):
        def spy(states):
            self.read.append(states)
            return read(states)

        return spy

    def places(self):
        """What may be read, as vectors and what is added to their scores: entries of the picture, or cells."""
        given, view = self.drafter.given(self.made.view), self.made.view
        if self.name == "hawk":
            mixed = sum(share * torch.nn.functional.rms_norm(layer, layer.shape[-1:]) for share, layer in self._layers(view))
            return mixed, [0.0 if there else -math.inf for there in view.present[0].tolist()]
        if self.name == "tiger":
            return view.features[0], self.drafter.settle(self.root[None, None], given).bias[0, 0].tolist()
        ranks = vote(Looking(self.run).masses()).masked_fill(~self.run.valid, -math.inf)
        best = set(ranks.topk(8).indices.tolist())
        return view.features[0], [0.0 if entry in best else -math.inf for entry in range(len(ranks))]

    def _layers(self, view):
        return zip(self.drafter.mix.softmax(-1).tolist(), view.cells[0])

    def masses(self, state) -> dict[int, float]:
        """Mass of every entry that a state read, by hand."""
        vectors, bias = self.places()
        weights = by_hand(self.drafter.reader, state, vectors, bias)
        if self.name != "hawk":
            return {entry: weight for entry, weight in enumerate(weights) if bias[entry] > -math.inf}
        (tile,) = self.run.tiles
        valid, wide = from_run_lengths(tile.valid).tolist(), (tile.columns + 1) // 2
        homes = [i // tile.columns // 2 * wide + i % tile.columns // 2 if ok else None for i, ok in enumerate(valid)]
        return {entry: weights[home] / homes.count(home) for entry, home in enumerate(homes) if home is not None}

    def state(self, path: list[int]) -> torch.Tensor:
        """(d,) the state of a node, before it reads, drafted alone behind its ancestors: ``path`` their tokens and its own."""
        if not path:
            return self.root
        if self.name == "unilaspec":  # all places of a draft in one pass
            return self.read[1][len(path) - 1]
        made, state = self.made, self.made.root
        given = self.drafter.settle(self.root[None, None], self.drafter.given(made.view))
        made.body.drop_speculative()
        made.body.reserve(len(path))
        for depth, token in enumerate(path, 1):
            item = made.folded.fuse_own(torch.tensor([token]), made.folded.normed(state))
            alone = made.body.forward(item, made.folded.turns[made.position + depth : made.position + depth + 1], None)
            state = made.drafter.look(alone[None], given)[0]
        return alone[0]


@pytest.mark.parametrize("name", list(SEEING))
@pytest.mark.parametrize("tree", TREES, ids=str)
@torch.inference_mode()
def test_reads_are_the_readers_own_weights(target, name, tree):
    """Every state that has children in the tree, each at its node: entries in falling order with the weights that the training
    module gives them, their number, sum, gate and peak."""
    one = Readings(name, target, 2)
    draft = one.made.propose(tree)
    parents, tokens = draft.parents.tolist(), draft.tokens.tolist()
    assert [read.node for read in draft.reads] == sorted(set(parents[1:]))
    valid = set(one.run.valid.nonzero()[:, 0].tolist())
    for read in draft.reads:
        path, node = [], read.node
        while node:
            path, node = [tokens[node], *path], parents[node]
        state = one.state(path)
        wanted, entries, masses = one.masses(state), read.entries.tolist(), read.masses.tolist()
        assert read.depth == len(path) and len(entries) == len(set(entries)) == len(masses) and valid.issuperset(entries)
        assert masses == sorted(masses, reverse=True) and sum(masses) <= 1 + 1e-5
        assert masses == pytest.approx([wanted[entry] for entry in entries], abs=2e-5)
        assert min(masses) >= max([0.0, *(mass for entry, mass in wanted.items() if entry not in entries)]) - 2e-5
        assert read.captured == pytest.approx(sum(masses), abs=1e-5) and read.k_raw == len(entries)
        entropy = -sum(mass * math.log(mass) for mass in wanted.values() if mass > 0)
        assert read.peak == pytest.approx(1 - entropy / math.log(len(valid)), abs=1e-4)
        assert sum(wanted.values()) == pytest.approx(1, abs=1e-5) and read.correction_norm is None and read.ms >= 0
        if name == "hawk":
            assert read.captured >= SHOWN - 1e-5
        else:
            assert len(entries) == min(8, len(valid)) and read.captured == pytest.approx(1, abs=1e-5)
        gate = one.drafter.reader.gate
        assert (
            read.gate is None
            if gate is None
            else read.gate == pytest.approx(float(torch.sigmoid(gate(one.drafter.reader.norm(state)))), abs=1e-5)
        )
    again = one.made.propose(tree)
    assert all(torch.equal(a.masses, b.masses) for a, b in zip(draft.reads, again.reads, strict=True))


@pytest.mark.parametrize("name", list(RIVALS))
def test_recording_changes_nothing(target, name):
    """Lawful traces with the same ids as without a recording, read by the host early or late; a rival that reads nothing of the
    picture has no reads and says so."""
    rival = loaded(loose(name, target).drafter)
    for number, tree in enumerate(TREES[:2]):
        settings = {"max_new_tokens": 10, "tree": tree, "temperature": 0.8 * number, "seed": number}
        image = toy_picture(number + 3, 90, 50)
        plain = decode_plain(target, image, QUESTION, RunSettings(**settings)).ids
        for detail, early in (("nodes", True), ("nodes", False), ("rounds", True)):
            drafter = rival if not early else Told(rival, plain, number, share=0.8)
            events = list(
                checked(decode(target, drafter, image, QUESTION, RunSettings(**settings, detail=detail), early=early))
            )
            reads = [event for event in events if isinstance(event, MemoryRead)]
            started = next(event for event in events if isinstance(event, RunStarted))
            assert events[-1].ids == plain and started.policy == SEEING.get(name, "none")
            assert (started.depth_limit >= 0) == (name in SEEING) and bool(reads) == (name in SEEING and detail == "nodes")
            for read in reads:
                masses = [read.top_mass * byte / 255 for byte in unpack_masses(read.masses)]
                assert sum(masses) <= 1.02 and len(masses) == len(unpack_entries(read.entries)) and read.captured <= 1
        late, soon = (
            [
                {key: value for key, value in event.model_dump().items() if not key.endswith("ms")}
                for event in decode(target, rival, image, QUESTION, RunSettings(**settings), early=early)
            ]
            for early in (False, True)
        )
        assert late == soon


@pytest.mark.parametrize("name", list(SEEING))
def test_nothing_is_kept_where_nothing_is_recorded(target, name):
    """A timed run makes no looks, no means over heads and no table of cells."""
    made = Readings(name, target, 1, detail="rounds").made
    made.propose(TREES[0])
    assert isinstance(made, RivalRun) and made.looks == [] and made.first is made.last is made.cells is None


def test_cells_against_a_slow_twin():
    """Padding, entries in no cell, weights that are nearly all on one cell or even: whole cells in falling order of mass an
    entry, as few as hold SHOWN, never more entries than MOST_SHOWN."""
    torch.manual_seed(3)
    for trial in range(60):
        cells, n = int(torch.randint(1, 60, ())), int(torch.randint(1, 300, ()))
        numbers = torch.randint(-1, cells, (n,))
        numbers = torch.tensor([c if numbers[:i].tolist().count(c) < 4 else -1 for i, c in enumerate(numbers.tolist())])
        numbers[0] = cells - 1
        valid = torch.rand(n) < 0.8
        valid[0] = True
        members = {c: [i for i in range(n) if valid[i] and numbers[i] == c] for c in range(cells)}
        sharp = 4.0 if trial % 2 else 0.1
        scores = torch.randn(3, cells) * sharp
        scores[:, [c for c in range(cells) if not members[c]]] = -torch.inf
        weights = scores.softmax(-1)
        look = Cells(numbers, valid).look(Taken(weights, None, 0.5), 2, torch.arange(3))
        for row in range(3):
            each = {c: float(weights[row, c]) / len(inside) for c, inside in members.items() if inside}
            best, total, wanted, fitting = sorted(each, key=lambda c: -each[c]), 0.0, [], []
            for c in best:
                if total < SHOWN - 1e-6:
                    wanted.append(c)
                    total += float(weights[row, c])
            for c in wanted:
                if sum(len(members[f]) for f in [*fitting, c]) <= MOST_SHOWN:
                    fitting.append(c)
                else:
                    break
            count, k_raw, peak = look.stats[row].tolist()
            told = look.order[row, : int(count)].tolist()
            assert sorted(told) == sorted(entry for c in fitting for entry in members[c]), trial
            assert k_raw == sum(len(members[c]) for c in wanted) and 1 <= count <= MOST_SHOWN
            masses = look.masses[row, : int(count)].tolist()
            assert masses == pytest.approx([each[int(numbers[entry])] for entry in told], abs=1e-6)
            assert masses == sorted(masses, reverse=True)
            entropy = -sum(len(members[c]) * mass * math.log(mass) for c, mass in each.items() if mass > 0)
            live = sum(len(inside) for inside in members.values())
            total_valid = int(valid.sum())
            assert peak == pytest.approx(1 - entropy / math.log(total_valid) if total_valid > 1 else 1, abs=1e-4) and live


def test_one_place_serves_all_nodes_of_its_depth():
    """A row stands for several nodes; its time is shared out among them."""
    taken = Taken(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([[0.1], [0.9]]), 3.0, torch.tensor([7, 4]))
    look = look_at_entries(taken.row(0, 3), 16, 1, torch.tensor([1, 2, 3]))
    assert look.order.tolist() == [[4, 7]] * 3 and look.masses.tolist() == [[0.75, 0.25]] * 3 and look.ms == 1.0
    assert look.stats[:, [0, 1, 3]].tolist() == [[2, 2, pytest.approx(0.1)]] * 3


def test_policies_that_name_a_reader():
    """As a stranger may write them, too."""
    assert [own_reader(policy) for policy in SEEING.values()] == ["cells", "routed", "watched"]
    assert {own_reader(policy) for policy in ("", "fovea", "hawk", "routed", "routed-0", "cells-8", "watched-8 ", "none")} == {
        None
    }
    assert (mass_name("routed-8"), mass_name("dense")) == ("its reading", "mass")


def test_no_rival_that_reads_is_left_out():
    """Every kind whose reader reads the picture has a policy of its own."""
    seeing = {name for name, row in RIVALS.items() if row.rival.get("source") in ("cells", "routed", "watched")}
    assert seeing == set(SEEING)


def test_sets_of_rivals_are_followed_state_by_state(target):
    """What the Lab counts: each state's set against that of the state before, in the order of reading; a place of a parallel
    draft once, although it serves several nodes."""
    for name in SEEING:
        one = Readings(name, target, 4)
        observed = Observed(one)
        one.start = lambda run, settings, made=one.made: made
        made = observed.start(None, RunSettings())
        draft = made.propose(TREES[0])
        sets = [
            set(order[: int(count)]) for look in one.made.looks for order, (count, *_) in zip(look.order.tolist(), look.stats)
        ]
        if name == "unilaspec":
            sets = [sets[0], *sets[1 :: TREES[0].width]]
        shares = [len(a & b) / len(a | b) for a, b in pairwise(sets)]
        assert observed.choices.jaccard == pytest.approx(shares) and observed.choices.overlap == [] and draft.size > 4
        assert len(shares) == (3 if name == "unilaspec" else 9)
