"""A round that the host reads once: the same answers and events as one whose draft it reads first, by parts and as a whole."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from fovea_core.bench.tiny import tiny
from fovea_core.decode.choose import Chooser
from fovea_core.decode.cost import NODES
from fovea_core.decode.lookup import LookupDrafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.sampling import choose, choose_each, uniforms
from fovea_core.decode.tree import chain, transfer
from fovea_core.decode.verify import Reader, verify
from fovea_core.settings import Shape, make_settings
from fovea_core.targets import base
from fovea_core.trace.events import CostTable
from tests.toys import ending_with, toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
TREE, CHAIN = Shape(depth=4, width=3, nodes=12), Shape(depth=3, width=1, nodes=4)
WIDE = Shape(depth=2, width=2, nodes=30)  # more room than candidates
DRAWN = {"temperature": 0.9, "top_p": 0.8, "seed": 3}
TABLE = CostTable(tokens=[1, 8, 40], verify_ms=[4.0, 4.1, 4.4], level_ms=0.01, chain_level_ms=0.01)


@pytest.fixture(scope="module")
def toy():
    target = toy_target()
    return target, toy_drafter(target)


@pytest.fixture(scope="module")
def qwen():
    target = tiny("qwen")
    return target, toy_drafter(target)


def told(target, drafter, settings, early: bool) -> list[dict]:
    """The events of a run without their times."""
    cost = TABLE if settings.tree is None else None
    events = decode(target, drafter, toy_picture(), QUESTION, settings, cost=cost, early=early)
    return [{name: value for name, value in event.model_dump().items() if not name.endswith("ms")} for event in events]


@pytest.mark.parametrize(
    "wanted",
    [
        {"tree": TREE},
        {"tree": CHAIN},
        {"tree": WIDE, "depth_limit": 0},
        {"tree": TREE, "detail": "rounds"},
        {"tree": TREE, "policy": "dense"},
        {"tree": TREE, "policy": "topk-3"},
        {"tree": TREE, "policy": "random-3"},
        {"tree": TREE, "policy": "unilaspec-3"},
        {"tree": TREE, "policy": "foveated"},
        {"tree": TREE, "policy": "none"},
        {"tree": TREE, "looks": True},
        {"tree": None},
        {"tree": TREE} | DRAWN,
        {"tree": None} | DRAWN,
    ],
    ids=str,
)
@pytest.mark.parametrize("which", ["toy", "qwen"])
def test_one_read_tells_the_same(which, wanted, request, monkeypatch):
    """Event by event the same run, and plain decoding's ids; where cost chooses, as a host that sends whole drafts."""
    target, drafter = request.getfixturevalue(which)
    monkeypatch.setattr(Chooser, "whole", property(lambda chooser: True, lambda chooser, value: None))
    monkeypatch.setattr(Chooser, "trim", lambda chooser, draft, shape: (chooser.sent(draft, shape), draft)[1])
    settings = make_settings(max_new_tokens=20, **wanted)
    early, late = (told(target, drafter, settings, early) for early in (True, False))
    assert early == late
    assert late[-1]["ids"] == decode_plain(target, toy_picture(), QUESTION, settings).ids


@pytest.mark.parametrize("level_ms, branches", [(0.0, True), (3.0, False)], ids=["trees", "chains"])
def test_a_draft_that_cost_chose_is_sent_as_it_grew(toy, level_ms, branches):
    """Read once it may not be trimmed; what the chooser expects of a forward's rows is what is sent."""
    target, drafter = toy
    table = CostTable(tokens=[1, 8, 40], verify_ms=[4.0, 4.1, 4.2], level_ms=level_ms, chain_level_ms=0.02)
    settings = make_settings(max_new_tokens=40)
    events = list(decode(target, drafter, toy_picture(), QUESTION, settings, cost=table, early=False))
    assert events[-1].ids == decode_plain(target, toy_picture(), QUESTION, settings).ids
    sizes, widths = [], []
    for event in events:
        if event.kind == "node_drafted":
            if event.node == 1:
                sizes.append(Counter())
            sizes[-1][event.depth] += 1
    for levels in sizes:
        width, depth = levels[1], max(levels)
        widths.append(width)
        assert 1 + levels.total() == (depth + 1 if width == 1 else min(NODES, 1 + width + (depth - 1) * width**2))
    assert len(sizes) > 3 and (max(widths) > 1) == branches


@pytest.mark.parametrize("draw", [{}, DRAWN], ids=["greedy", "drawn"])
def test_an_answer_that_ends_inside_a_tree(toy, draw):
    """EOS among the drafted tokens: no bonus, the nodes below it unverified, as ever."""
    target, drafter = toy
    settings = make_settings(max_new_tokens=30, tree=TREE, **draw)
    ids = decode_plain(target, toy_picture(), QUESTION, settings).ids
    ending = ending_with(target, ids[9])
    early, late = (told(ending, drafter, settings, early) for early in (True, False))
    assert early == late and late[-1]["reason"] == "eos" and late[-1]["ids"] == ids[: ids.index(ids[9]) + 1]


def test_drafts_that_come_from_the_host(toy):
    """A copying drafter, and none: the target's findings are still read once."""
    target, _ = toy
    for drafter in (LookupDrafter(), None):
        settings = make_settings(max_new_tokens=20, tree=CHAIN)
        assert told(target, drafter, settings, True) == told(target, drafter, settings, False)


def test_a_transfer_keeps_kinds_shapes_and_bits():
    """Numbers of all sizes, none at all, slices and single ones."""
    torch.manual_seed(0)
    tensors = [
        torch.tensor(3, dtype=torch.int8),
        torch.randn(3, 5, dtype=torch.float64).t(),
        torch.randn(7).to(torch.bfloat16)[1::2],
        torch.tensor([float("nan"), -0.0, float("-inf")]),
        torch.empty(0, 3),
        torch.arange(6, dtype=torch.int32).view(2, 3)[:, 1:],
        torch.tensor([2**62 + 1, -1]),
    ]
    for one, other in zip(tensors, transfer(tensors), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


def test_a_mask_made_without_reading_the_tree():
    """The same as the one made by walking over the parents, for trees of any form, also where they could be deeper."""
    rng = random.Random(4)
    for _ in range(40):
        count = rng.randint(2, 30)
        parents = torch.tensor([-1, *(rng.randrange(node) for node in range(1, count))])
        depths = [0]
        for parent in parents.tolist()[1:]:
            depths.append(depths[parent] + 1)
        for levels in (max(depths), max(depths) + 3):
            made = base.tree_mask(parents, 5, torch.bfloat16, levels)
            assert torch.equal(made, base.tree_mask(parents, 5, torch.bfloat16))
        assert not torch.equal(base.tree_mask(parents, 5, torch.bfloat16, max(depths) - 1), made)


def test_all_rows_are_drawn_as_each_alone():
    """Every row's token is the one that plain decoding draws at its position."""
    torch.manual_seed(1)
    logits, numbers = torch.randn(60, 200) * 4, uniforms(7, 80, torch.device("cpu"))
    positions = torch.arange(60) % 13 + 40
    for top_p in (1.0, 0.7, 0.05):
        settings = make_settings(temperature=1.3, top_p=top_p, seed=7)
        alone = [choose(row, settings, position) for row, position in zip(logits, positions.tolist())]
        assert choose_each(logits, settings, numbers[positions]).tolist() == alone


def test_figures_of_all_nodes_are_those_of_the_rejected_ones():
    """What a Reader brings of every node is what verification asks of the rejected ones, to the bit."""
    torch.manual_seed(2)
    draft, logits, settings = chain(5, [9, 3, 7]), torch.randn(4, 50), make_settings()
    same, found = Reader(settings, 9, logits.device).read(draft, logits, 0)
    asked, told_of = (verify(draft, logits, settings, 0, 9, frozenset(), each) for each in (None, found))
    assert same is draft and asked == told_of and asked.rejected
