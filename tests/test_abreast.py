"""Drafts of several requests abreast are those that each would get alone."""

from __future__ import annotations

import pytest
import torch

from fovea_core.decode.abreast import Drafts
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.settings import RunSettings, Shape
from tests.test_drafter import SIZE, VOCAB, make_drafter, make_picture

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPES = (
    Shape(depth=4, width=1, nodes=5),
    Shape(depth=3, width=3, nodes=9),
    Shape(depth=4, width=2, nodes=40),
    Shape(depth=5, width=3, nodes=3),
)


def news_of(number: int, count: int, first: int):
    """``count`` tokens of a request, the target states that predicted them, and their places."""
    draw = torch.Generator().manual_seed(100 * number + first)
    return torch.randint(VOCAB, (count,), generator=draw), torch.randn(count, SIZE, generator=draw), torch.arange(count) + first


def same(one, other) -> None:
    assert torch.equal(one.tokens, other.tokens) and torch.equal(one.parents, other.parents)
    assert torch.equal(one.depths, other.depths) and one.pruned == other.pruned
    if other.logp is not None:
        torch.testing.assert_close(one.logp, other.logp, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("policy", ["fovea", "topk-3", "dense", "none"])
@pytest.mark.parametrize("changes", [{}, {"kv_heads": 4}, {"blocks": 1}, {"sighted": False}, {"depth_limit": 0}])
def test_drafts_abreast_equal_drafts_alone(monkeypatch, policy, changes):
    """Over rounds with news of different length, behind prompts of different length and pictures with a different number of
    entries, with a request that leaves and one that joins, for chains and trees."""
    loaded, drafts, settings = FoveaDrafter(make_drafter(1, **changes)), Drafts(), RunSettings(policy=policy, detail="rounds")
    alone, abreast = ([loaded.start(make_picture(i), settings) for i in range(4)] for _ in range(2))
    for runs in (alone, abreast):
        for i, run in enumerate(runs):
            run.extend(*news_of(i, 5 + i, 3))
    for turn, shape in enumerate(SHAPES):
        here = [0, 1, 2] if turn < 2 else [3, 0, 2]
        news = [news_of(i, 1 + (i + turn) % 3, 40 * (turn + 1) + i) for i in here]
        with monkeypatch.context() as patch:
            for name in ("propose", "extend"):
                patch.setattr(FoveaRun, name, lambda *_: pytest.fail("one after the other"))
            drafts.extend([abreast[i] for i in here], news)
            made = drafts.propose([abreast[i] for i in here], [shape] * 3)
        for i, mine, draft in zip(here, news, made):
            alone[i].extend(*mine)
            same(draft, alone[i].propose(shape))


def test_each_gets_its_own_shape_and_what_cannot_share_goes_alone():
    """Different shapes in one round; runs whose policy remembers, that record, or of another drafter are not mixed up."""
    loaded, other = FoveaDrafter(make_drafter(1)), FoveaDrafter(make_drafter(2))
    ways = [(loaded, {}), (loaded, {}), (loaded, {"policy": "static-3"}), (loaded, {"detail": "nodes"}), (other, {})]
    for mixed in ([0, 1], [0, 2], [0, 3], [4, 0], [2, 2], [1]):
        pairs = [(ways[k][0], make_picture(i), RunSettings(**{"detail": "rounds"} | ways[k][1])) for i, k in enumerate(mixed)]
        alone, together = ([drafter.start(picture, settings) for drafter, picture, settings in pairs] for _ in range(2))
        news, drafts = [news_of(i, 4 + i, 3) for i in range(len(mixed))], Drafts()
        drafts.extend(together, news)
        shapes = [SHAPES[i] for i in range(len(mixed))]
        for run, mine, shape, draft in zip(alone, news, shapes, drafts.propose(together, shapes)):
            run.extend(*mine)
            same(draft, run.propose(shape))
        for run, draft in zip(alone, drafts.propose(together, [SHAPES[2]] * len(mixed))):
            same(draft, run.propose(SHAPES[2]))
