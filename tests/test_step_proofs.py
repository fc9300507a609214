"""What a GPU wants of a round, proven on a CPU: one read by the host, one graph, buffers that stay where they are.

Runs here go the way that a GPU's go (``early`` False): what is drafted stays in tensors until the round's end.
"""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from fovea_core.bench.tiny import tiny
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.verify import Reader
from fovea_core.drafter.step import FoldedDrafter
from fovea_core.settings import Shape, make_settings
from fovea_core.trace.events import CostTable
from tests.toys import toy_drafter, toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
TREES = {"tree": Shape(depth=4, width=3, nodes=12), "chain": Shape(depth=4, width=1, nodes=5)}


class HostReads(TorchFunctionMode):
    """Counts what would make the host wait for the device, were the model on one.

    On a CPU a copy to the host runs no operation that could be seen, so tensors are marked instead: those of the model, made
    with a device, moved to one, or computed from marked ones lie on the device; ``cpu`` brings one back. Reading a marked
    one, finding non-zero places or choosing by a mask counts. ``sent``: how many tensors went from the host to the device;
    a GPU's host waits for these too.
    """

    READS = ("cpu", "tolist", "item", "numpy", "__int__", "__float__", "__bool__", "__index__", "nonzero", "masked_select")

    def __init__(self, *holders) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.sent = 0
        seen: set[int] = set()
        for holder in holders:
            _mark_all(holder, seen)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        given = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
        here = any(_marked(value) for value in given)
        result = func(*args, **kwargs)
        if here and name in self.READS:
            self.reads[name] += 1
        elif here and name == "__getitem__" and any(_marked(value) and value.dtype == torch.bool for value in given[1:]):
            self.reads["mask"] += 1
        if name == "cpu":
            result = result.clone()  # on a CPU it is the very tensor, mark and all
        elif name == "to" and not here and any(isinstance(value, torch.device) for value in args):
            result, here, self.sent = result.clone(), True, self.sent + 1
        elif here or kwargs.get("device") is not None or (name == "to" and any(_marked(value) for value in given[1:])):
            here, self.sent = True, self.sent + (name in ("tensor", "as_tensor", "new_tensor"))
        for value in tree_flatten(result)[0] if here and name != "cpu" else ():
            if isinstance(value, Tensor):
                value.on_device = True
        return result


class Scalars(TorchDispatchMode):
    """Counts operators whose result the host has to know to go on, wherever their tensors lie and whoever calls them."""

    OPERATORS = ("_local_scalar_dense", "item", "nonzero", "masked_select", "is_nonzero", "equal", "unique_dim", "_unique2")

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in self.OPERATORS:
            self.count[name] += 1
        if name in ("index", "index_put_") and any(part is not None and part.dtype == torch.bool for part in args[1]):
            self.count["mask"] += 1
        return func(*args, **(kwargs or {}))


def _marked(value: Tensor) -> bool:
    return getattr(value, "on_device", False)


def _mark_all(thing, seen: set[int]) -> None:
    """Mark every tensor that an object of ours, a module or a container holds."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        thing.on_device = True
    elif isinstance(thing, nn.Module):
        for tensor in (*thing.parameters(), *thing.buffers()):
            tensor.on_device = True
    elif isinstance(thing, dict):
        for value in thing.values():
            _mark_all(value, seen)
    elif isinstance(thing, list | tuple):
        for value in thing:
            _mark_all(value, seen)
    elif type(thing).__module__.startswith("fovea_core"):
        _mark_all(getattr(thing, "__dict__", {}), seen)


@pytest.fixture(scope="module")
def pair():
    """A target and a drafter of several heads a group, paper-like bounds."""
    target = tiny("qwen")
    return target, toy_drafter(target)


def rounds_of(target, drafter, settings, **given):
    """(reads of the round, its event) of every round of a run as a GPU makes it."""
    reads = HostReads(target.backbone, target.embedding, target.head, target.norm, drafter)
    found = []
    with reads:
        for event in decode(target, drafter, toy_picture(), QUESTION, settings, early=False, **given):
            if event.kind == "round_verified":
                found.append((Counter(reads.reads), event))
            if event.kind in ("prefill_done", "round_verified"):
                reads.reads.clear()
    return found


@pytest.mark.parametrize("draw", [{}, {"temperature": 0.9, "top_p": 0.8, "seed": 3}], ids=["greedy", "drawn"])
@pytest.mark.parametrize("detail", ["rounds", "nodes"])
@pytest.mark.parametrize("tree", TREES)
def test_one_host_read_a_round(pair, tree, detail, draw):
    """Tree, memory reads, the target's tokens and the figures of the rejected nodes come in one transfer; nothing else is read,
    whether nodes are told or not, greedy or drawn."""
    target, drafter = pair
    settings = make_settings(max_new_tokens=24, tree=TREES[tree], detail=detail, **draw)
    found = rounds_of(target, drafter, settings)
    assert len(found) > 5 and any(event.rejected for _, event in found)
    assert all(reads == Counter({"cpu": 1}) for reads, _ in found), found


@pytest.mark.parametrize("detail", ["rounds", "nodes"])
def test_one_host_read_a_round_where_cost_chooses(pair, detail):
    """Chains and trees are sent whole: nobody has to look at one before the target does."""
    target, drafter = pair
    table = CostTable(tokens=[1, 8, 40], verify_ms=[4.0, 4.1, 4.2], level_ms=0.0, chain_level_ms=0.02)
    found = rounds_of(target, drafter, make_settings(max_new_tokens=24, detail=detail), cost=table)
    drafted = [reads for reads, event in found if event.accepted or event.rejected or event.unverified]
    assert len(drafted) > 3 and all(reads == Counter({"cpu": 1}) for reads in drafted), found


@pytest.mark.parametrize("policy", ["topk-4", "dense", "none", "tiger-4", "static-4", "agnostic-4", "state-4", "foveated"])
def test_one_host_read_a_round_with_every_way_to_choose(pair, policy):
    """A policy that asks nothing of the run beside the memory keeps the host out of the draft, too."""
    target, drafter = pair
    settings = make_settings(max_new_tokens=12, tree=TREES["tree"], policy=policy)
    assert all(reads == Counter({"cpu": 1}) for reads, _ in rounds_of(target, drafter, settings))


@pytest.mark.parametrize("tree", TREES)
def test_no_operator_of_a_round_asks_the_host(pair, tree):
    """The transfer apart, no operator under a dispatch mode wants a number of a tensor: a round has at most one read. Rounds
    told early show that the mode would see one."""
    target, drafter = pair
    settings = make_settings(max_new_tokens=24, tree=TREES[tree])
    asked = {False: [], True: []}
    for early, counts in asked.items():
        with Scalars() as scalars:
            for event in decode(target, drafter, toy_picture(), QUESTION, settings, early=early):
                if event.kind == "round_verified" and (event.accepted or event.rejected or event.unverified):
                    counts.append(scalars.count.total())
                if event.kind in ("prefill_done", "round_verified"):
                    scalars.count.clear()
    assert len(asked[False]) > 5 and not any(asked[False]) and all(asked[True]), asked


@pytest.mark.parametrize("tree", TREES)
def test_nothing_is_sent_to_the_device_inside_a_round(pair, tree, monkeypatch):
    """Between the begin of a draft and the round's read no tensor goes from the host to the device."""
    target, drafter = pair
    reads, sent, real = HostReads(target.backbone, target.embedding, target.head, target.norm, drafter), [], FoveaRun.sketch
    monkeypatch.setattr(FoveaRun, "sketch", lambda run, shape: (setattr(reads, "sent", 0), real(run, shape))[1])
    read = Reader.read
    monkeypatch.setattr(Reader, "read", lambda *given: (read(*given), sent.append(reads.sent))[0])
    settings = make_settings(max_new_tokens=24, tree=TREES[tree])
    with reads:
        for event in decode(target, drafter, toy_picture(), QUESTION, settings, early=False):
            if event.kind == "prefill_done":
                assert reads.sent > 0  # the count sees what the prefill sends
    assert len(sent) > 5 and not any(sent[:-1])  # a last round of one token comes from the host as a whole


def test_the_count_would_see_more(pair, monkeypatch):
    """A read of a single number inside the draft, however it is written, is counted; so is choosing by a mask."""
    target, drafter = pair
    settings, right = make_settings(max_new_tokens=6, tree=TREES["tree"], detail="rounds"), FoldedDrafter.logits
    for read, name in (
        (lambda x: x.max().item(), "item"),
        (lambda x: int(x.argmax()), "__int__"),
        (lambda x: bool((x > 0).any()), "__bool__"),
        (lambda x: x[x > 0], "mask"),
        (lambda x: (x > 0).nonzero(), "nonzero"),
        (lambda x: x[0, 0].tolist(), "tolist"),
    ):
        monkeypatch.setattr(FoldedDrafter, "logits", lambda self, x, read=read: (read(x), right(self, x))[1])
        reads = rounds_of(target, drafter, settings)[0][0]
        assert reads[name] >= TREES["tree"].depth, (name, reads)


@pytest.mark.parametrize("policy", ["fovea", "topk-4", "dense", "none"])
@pytest.mark.parametrize("tree", TREES)
def test_the_draft_step_is_one_graph(pair, tree, policy):
    """torch.compile takes all levels of a draft as one graph, reads of the memory included; the draft is the same."""
    target, drafter = pair
    run = target.prefill(toy_picture(), QUESTION)
    drafting = drafter.start(run, make_settings(policy=policy, detail="rounds"))
    drafting.extend(*run.first_news(9))
    shape = TREES[tree]
    plain = drafting.propose(shape)
    grow = "_chain" if shape.width == 1 else "_grow"
    torch._dynamo.reset()
    compiled = torch.compile(getattr(drafting, grow), fullgraph=True, backend="eager")
    setattr(drafting, grow, compiled)
    again = drafting.propose(shape)
    assert torch.equal(again.tokens, plain.tokens) and torch.equal(again.parents, plain.parents)
    torch.testing.assert_close(again.logp, plain.logp, atol=1e-6, rtol=0)
    torch._dynamo.reset()


@pytest.mark.parametrize("early", [True, False])
def test_buffers_stay_where_they_are_over_fifty_rounds(pair, early):
    """Addresses of the drafter's caches, of its table of positions and memory and of the target's cache: the same after every
    round from the first one on."""
    target, drafter = pair
    drafter.folded.turns = torch.empty(0)
    started, places = [], []
    real = drafter.start

    class Watched:
        id, fingerprint, sight = drafter.id, drafter.fingerprint, staticmethod(drafter.sight)

        def start(self, run, settings):
            started.append((real(run, settings), run))
            return started[0][0]

    def note():
        drafting, run = started[0]
        memory = [value for value in vars(drafting.memory).values() if isinstance(value, Tensor)]
        kept = [*drafting.body.caches, drafting.folded.turns, *memory, run.cache.store]
        places.append([tensor.data_ptr() for tensor in kept])

    settings = make_settings(max_new_tokens=120, tree=TREES["tree"], detail="rounds")
    for event in decode(target, Watched(), toy_picture(), QUESTION, settings, early=early):
        if event.kind == "round_verified":
            note()
    assert len(places) >= 50 and all(place == places[0] for place in places)


def test_a_run_longer_than_its_first_room(pair):
    """The caches have room for the whole answer from the start; a wider tree than foreseen makes them grow, and is right."""
    target, drafter = pair
    settings = make_settings(max_new_tokens=40, tree=Shape(depth=8, width=12, nodes=60), detail="rounds")
    *_, finished = decode(target, drafter, toy_picture(), QUESTION, settings)
    assert finished.ids == decode_plain(target, toy_picture(), QUESTION, settings).ids


@pytest.mark.parametrize("tree", TREES)
def test_a_drafter_in_bfloat16(pair, tree):
    """The folded step runs in half precision, grows whole trees and reads the memory; the answer stays the target's own, and
    log-probabilities lie near those of float32."""
    target, drafter = pair
    half = FoveaDrafter(copy.deepcopy(drafter.drafter).to(torch.bfloat16).attach(target.embedding, target.head))
    settings = make_settings(max_new_tokens=24, tree=TREES[tree])
    events = list(decode(target, half, toy_picture(), QUESTION, settings))
    assert events[-1].ids == decode_plain(target, toy_picture(), QUESTION, settings).ids
    reads = [event for event in events if event.kind == "memory_read"]
    assert reads and all(read.k_raw >= 1 for read in reads)
    drafts = []
    for each in (drafter, half):
        run = target.prefill(toy_picture(), QUESTION)
        drafting = each.start(run, settings)
        drafting.extend(*run.first_news(9))
        states = drafting.root
        drafts.append(drafting.score(states, 0, torch.zeros(1, dtype=torch.int64)))
    assert drafts[1].dtype == torch.float32 and half.folded.table.dtype == torch.bfloat16
    assert (drafts[0] - drafts[1]).abs().mean() < 0.1
