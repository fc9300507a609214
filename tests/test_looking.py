"""Where the target looks: equal to the attention of the whole model, nothing changed by watching, int8 close to float."""

from __future__ import annotations

import pytest
import torch

from fovea_core.decode.draft import watched
from fovea_core.decode.loop import decode
from fovea_core.decode.redraft import redraft
from fovea_core.memory.rivals import vote
from fovea_core.settings import make_settings
from fovea_core.targets.cache import SlotCache
from fovea_core.targets.geometry import centres
from fovea_core.targets.looking import Looking, look_layers, quantise
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.events import MemoryRead, Shape, Tile
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from tests.families import FAMILIES, tiny
from tests.toys import ScriptDrafter, coin, toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")
QUESTION = "what is in the picture?"


@pytest.fixture(scope="module", params=["toy", *FAMILIES])
def target(request):
    return toy_target() if request.param == "toy" else tiny(request.param)


def captured_attention(target, image, ids, question=QUESTION) -> dict[int, torch.Tensor]:
    """(heads, T) per watched layer: the softmax weights of the last token, from eager attention over prompt and ``ids``."""
    found, backbone = {}, target.backbone
    before = backbone.attention
    backbone.attention = "eager"
    hooks = [
        layer.self_attn.register_forward_hook(lambda module, args, out, n=n: found.update({n: out[1][0, :, -1].clone()}))
        for n, layer in enumerate(backbone.layers)
    ]
    try:
        target.prefill(image, question, ids)
    finally:
        backbone.attention = before
        for hook in hooks:
            hook.remove()
    return found


def slow_masses(target, image, ids) -> torch.Tensor:
    """(layers, N): the twin of Looking.masses, from the attention of the whole model."""
    run, rows = target.prefill(image, QUESTION), []
    image_tokens = [i for first, last in run.spans for i in range(first, last)]
    attention = captured_attention(target, image, ids)
    for layer in look_layers(len(target.backbone.layers)):
        heads = attention[layer][:, image_tokens] * run.valid  # the softmax over valid image tokens only
        rows.append((heads / heads.sum(-1, keepdim=True)).mean(0))
    return torch.stack(rows)


def watching(target, image, answer=()):
    return target.prefill(image, QUESTION, answer, watch=look_layers(len(target.backbone.layers)))


def test_layers():
    assert look_layers(10) == (2, 4, 6, 8) and look_layers(32) == (6, 13, 19, 26)
    assert look_layers(3) == (1, 2) and look_layers(1) == (0,)


def test_masses_are_the_attention_of_the_whole_model(target):
    """Behind the prompt, and behind a path accepted out of a tree, the query is the accepted tip's."""
    image = toy_picture(3, 60, 40)
    run = watching(target, image)
    exact, fast = Looking(run, exact=True), Looking(run)
    assert fast.keys.dtype == torch.int8 and exact.visual_states().shape == (len(exact.layers), *run.features.shape)
    for path in ([], [0, 2, 3]):
        if path:
            run.forward_tree(torch.tensor([21, 33, 40, 55, 60]), torch.tensor([-1, 0, 0, 2, 1]), torch.tensor([0, 1, 1, 2, 2]))
            run.commit(path)
        wanted = slow_masses(target, image, [21, 40, 55] if path else [])
        torch.testing.assert_close(exact.masses(), wanted, atol=2e-5, rtol=2e-3)
        assert (fast.masses() - wanted).abs().sum(-1).max() < 0.05  # share of the mass that int8 moves
        assert not exact.masses()[:, ~run.valid].any()


def test_watching_changes_nothing(target):
    """Logits and states of prefill and trees, and the cache, are bit for bit those of a run that does not watch."""
    image = toy_picture(1)
    runs = [target.prefill(image, QUESTION), watching(target, image)]
    looking = Looking(runs[1])
    for _ in range(3):
        looking.masses()
        outs = [
            run.forward_tree(torch.tensor([9, 8, 7, 6]), torch.tensor([-1, 0, 0, 2]), torch.tensor([0, 1, 1, 2]))
            for run in runs
        ]
        assert torch.equal(outs[0][0], outs[1][0]) and torch.equal(outs[0][1], outs[1][1])
        for run in runs:
            run.commit([0, 2, 3])
    assert torch.equal(runs[0].logits, runs[1].logits) and torch.equal(runs[0].hidden, runs[1].hidden)
    assert torch.equal(runs[0].cache.committed_values(), runs[1].cache.committed_values())


def test_taps_and_watched_layers_live_together():
    """A drafter's taps come appended as ever, watched layers do not; the same layer may be both."""
    plain, tapped = toy_target(), toy_target()
    tapped.tap((1,))
    image = toy_picture(1)
    run, other = watching(tapped, image), watching(plain, image)
    assert run.hidden.shape[1] == 2 * plain.hidden_size and other.hidden.shape[1] == plain.hidden_size
    assert torch.equal(Looking(run).masses(), Looking(other).masses())


def test_the_tip_follows_commits_and_forgets_with_a_rewind():
    target, image = toy_target(), toy_picture(2)
    run = watching(target, image)
    looking = Looking(run)
    before, length = looking.masses(), run.cache.committed
    run.forward_tree(torch.tensor([5, 6]), torch.tensor([-1, 0]), torch.tensor([0, 1]))
    assert torch.equal(looking.masses(), before)  # nothing is accepted yet
    run.commit([0])
    assert not torch.equal(looking.masses(), before)
    run.cache.rewind(length)
    assert torch.equal(looking.masses(), before)
    with pytest.raises(ValueError, match="watches no layers"):
        Looking(target.prefill(image, QUESTION))


@pytest.mark.parametrize("size", [8, 64])
def test_int8_keys(size):
    """A row's error is at most half a step of its own scale; a row of zeros stays one."""
    torch.manual_seed(0)
    keys = torch.randn(3, 2, 40, size) * torch.logspace(-3, 3, 40)[:, None]
    keys[0, 0, 7] = 0
    small, scale = quantise(keys)
    assert small.dtype == torch.int8 and scale.shape == (3, 2, 40, 1)
    assert ((small * scale - keys).abs() <= scale / 2 * 1.001).all() and not small[0, 0, 7].any()


def test_watching_a_whole_answer():
    """A drafter that asks where the target looks gets the same ids, and one look a round without a forward more."""

    class Watching(ScriptDrafter):
        def watches(self, settings):
            return True

        def start(self, run, settings):
            self.looking = Looking(run)
            return super().start(run, settings)

    target, image = toy_target(), toy_picture(5)
    settings = make_settings(max_new_tokens=24, tree=Shape(depth=4, width=1, nodes=5))
    forwards = []
    expect = SlotCache.expect
    ids = []
    for kind in (ScriptDrafter, Watching):
        with pytest.MonkeyPatch.context() as patch:
            forwards.append(0)

            def counting(cache, count):
                forwards[-1] += 1
                return expect(cache, count)

            patch.setattr(SlotCache, "expect", counting)
            drafter = kind("script", coin(0.6), [7] * 30, target.vocab_size)
            ids.append([*decode(target, drafter, image, QUESTION, settings)][-1].ids)
    assert ids[0] == ids[1] and forwards[0] == forwards[1]


def test_centres_of_entries():
    """In fractions of the picture, tile by tile; an entry outside all tiles has no place."""
    tiles = [
        Tile(rows=1, columns=2, box=(0, 0, 1, 1), view="global", first=1, valid=[2]),
        Tile(rows=2, columns=1, box=(0.5, -0.5, 1, 1.5), view="tile", first=4, valid=[2]),
    ]
    found = centres(tiles, 7).round(4).tolist()
    assert found == [[-1, -1], [0.25, 0.5], [0.75, 0.5], [-1, -1], [0.75, 0], [0.75, 1], [-1, -1]]


SHAPE = Shape(depth=4, width=2, nodes=9)


@pytest.mark.parametrize("policy", ["fovea", "unilaspec-4"])
def test_looks_are_recorded_beside_a_run(target, policy):
    """The run with looks is the run without them, event for event, and lawful; each token behind the first has the look of the
    whole model's attention as it said it, its eight entries by vote."""
    drafter = toy_drafter(target) if target.id.startswith("toy") else ScriptDrafter("s", coin(0.5), [3] * 30, target.vocab_size)
    image, settings = toy_picture(1, 90, 60), make_settings(max_new_tokens=12, tree=SHAPE, policy=policy)
    plain, seen = (
        list(checked(decode(target, drafter, image, QUESTION, settings.model_copy(update={"looks": looks}))))
        for looks in (False, True)
    )
    told = [event for event in seen if isinstance(event, MemoryRead) and event.source == "target"]
    ours = [event for event in seen if event not in told]
    assert [bare(event) for event in plain[1:]] == [bare(event) for event in ours[1:]] and plain[-1].ids == seen[-1].ids
    assert not any(isinstance(event, MemoryRead) and event.source == "target" for event in plain)
    tokens = fold(seen).tokens
    assert len(told) == len(tokens) - 1 and tokens[0].look is None and all(token.look is not None for token in tokens[1:])
    assert [bare(token.read) for token in tokens] == [bare(token.read) for token in fold(plain).tokens]
    valid = target.prefill(image, QUESTION).valid
    for at in (1, len(tokens) - 1):
        masses = slow_masses(target, image, [token.token for token in tokens[:at]])
        look, mean = tokens[at].look, masses.mean(0)
        entries = unpack_entries(look.entries)
        assert len(entries) == min(8, int(valid.sum())) and look.captured == pytest.approx(float(mean[entries].sum()), abs=0.02)
        assert look.top_mass == pytest.approx(float(mean[entries].max()), abs=0.02) and look.gate is None
        ranks = vote(masses).masked_fill(~valid, -1)
        assert float(ranks[entries].min()) > float(ranks.topk(len(entries)).values[-1]) - 0.1
    again = redraft(target, drafter, image, seen, 1, []) if target.id.startswith("toy") and policy == "fovea" else None
    if again is not None:
        assert all(event.source == "drafter" for event in again.new if isinstance(event, MemoryRead))


def bare(event):
    """An event without what the clock and the running number say."""
    if event is None:
        return None
    return {name: value for name, value in event.model_dump().items() if name != "n" and not name.endswith("ms")}


def test_rounds_only_record_no_looks():
    """``looks`` goes with nodes: a timed run watches nothing."""
    target = toy_target()
    settings = make_settings(max_new_tokens=8, tree=SHAPE, looks=True, detail="rounds")
    assert watched(target, None, settings) == () != watched(target, None, settings.model_copy(update={"detail": "nodes"}))
    events = list(decode(target, None, toy_picture(), QUESTION, settings))
    assert not any(isinstance(event, MemoryRead) for event in events)
