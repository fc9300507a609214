"""The paper's interfaces around one drafter: a rebuilt cache drafts the same, image tokens enter as the whole model would have
them, and whatever is drafted the ids are plain decoding's."""

from __future__ import annotations

import pytest
import torch

from fovea_core.decode.draft import sight
from fovea_core.decode.interfaces import INSERTED, KINDS, Interface
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import make_settings
from fovea_core.trace import events as ev
from fovea_core.trace.events import Shape
from fovea_core.trace.laws import checked
from tests.families import tiny
from tests.test_rivals import _drafter_of
from tests.toys import toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")
TREE = Shape(depth=4, width=3, nodes=12)


@pytest.fixture(scope="module")
def target():
    return toy_target(1, cells=6)


@pytest.fixture(scope="module")
def drafter(target):
    return toy_drafter(target)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [Shape(depth=4, width=1, nodes=5), TREE])
def test_plain_ids(target, drafter, kind, shape):
    settings = make_settings(max_new_tokens=16, tree=shape)
    events = list(checked(decode(target, Interface(drafter, kind), toy_picture(2), "hat?", settings)))
    assert events[-1].ids == decode_plain(target, toy_picture(2), "hat?", settings).ids
    reads = any(isinstance(event, ev.MemoryRead) for event in events)
    assert reads == (kind == "rebuild") == (sight(Interface(drafter, kind), settings)[0] == "fovea")


def test_families_too():
    """Three-axis positions, text in front of the picture, entries without a place."""
    for family in ("qwen", "smolvlm"):
        target = tiny(family)
        drafter, settings = _drafter_of(target), make_settings(max_new_tokens=10, tree=TREE)
        for kind in KINDS:
            events = list(decode(target, Interface(drafter, kind), toy_picture(2), "hat?", settings))
            assert events[-1].ids == decode_plain(target, toy_picture(2), "hat?", settings).ids


def test_a_rebuilt_cache_drafts_the_same(target, drafter):
    settings = make_settings(max_new_tokens=20, tree=TREE)
    runs = [list(decode(target, d, toy_picture(2), "hat?", settings)) for d in (drafter, Interface(drafter, "rebuild"))]
    drafted = [[(e.round, e.node, e.token) for e in run if isinstance(e, ev.NodeDrafted)] for run in runs]
    assert drafted[0] == drafted[1] and len(drafted[0]) > 30


@torch.inference_mode()
def slow_root(drafter, run, news, entries):
    """The root's state by the unfolded drafter: text and image items in the order of their positions, read causally."""
    model = drafter.drafter
    tokens, states, positions = news
    slots = torch.tensor([i for span in run.spans for i in range(*span)])[entries]
    size = model.config.hidden_size
    text = model.fuse(tokens, states)
    seen = model.fc(torch.cat([run.features[entries], run.hidden[slots - 1][:, :size]], -1))
    x, places = torch.cat([seen, text]), torch.cat([run.positions[slots], positions])
    order = places.argsort(stable=True)
    x, rope = x[order], model.rope(places[order])
    count = len(order)
    causal = torch.full((count, count), -torch.inf).triu_(1)
    for block in model.blocks:
        q, k, v = block.project(x, rope)
        group = q.shape[1] // k.shape[1]
        k, v = (part.repeat_interleave(group, 1) for part in (k, v))
        weights = (torch.einsum("qhd,khd->hqk", q, k) * block.head_dim**-0.5 + causal).softmax(-1)
        x = block.finish(x, torch.einsum("hqk,khd->qhd", weights, v))
    return x[-1]


@pytest.mark.parametrize("kind", ["prefix", "insertion"])
@torch.inference_mode()
def test_roots_against_the_unfolded_drafter(target, drafter, kind):
    """After the prompt and after two more rounds: all valid image tokens, or the best of the root before."""
    run = target.prefill(toy_picture(2, 90, 50), "a hat?")
    said = decode_plain(target, toy_picture(2, 90, 50), "a hat?", make_settings(max_new_tokens=8)).ids
    whole = target.prefill(toy_picture(2, 90, 50), "a hat?", said)
    news = whole.text_prompt()
    made, first = Interface(drafter, kind).start(run, make_settings()), len(news[0]) - len(said) + 1
    memory = drafter.drafter.remember(run.features, run.valid)
    valid, before, begin = run.valid.nonzero()[:, 0], None, 0
    for end in (first, first + 2, first + 5):
        made.extend(*(part[begin:end] for part in news))
        entries = valid
        if kind == "insertion":
            asked = slow_root(drafter, run, [part[:end] for part in news], valid[:0] if before is None else before)
            entries = before = memory.scores(asked[None], 0)[0].topk(min(INSERTED, len(valid))).indices
        wanted = slow_root(drafter, run, [part[:end] for part in news], entries)
        torch.testing.assert_close(made.root[0], wanted, atol=2e-4, rtol=2e-3)
        begin = end


def test_other_names_are_refused(drafter):
    with pytest.raises(ValueError, match="one of rebuild"):
        Interface(drafter, "magic")
