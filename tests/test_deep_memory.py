"""A memory of what a layer of the target makes of the picture: kept at prefill, in the artifacts, learnt, decoded."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from fovea_core.decode.batch import Asked, Lockstep, serve
from fovea_core.decode.fovea import FoveaDrafter, load_drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.drafter.checkpoint import DrafterError, save_drafter
from fovea_core.pictures import open_picture
from fovea_core.settings import RunSettings
from fovea_core.targets.base import TargetError, TargetRun
from fovea_core.trace.events import Shape
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import PictureRequest
from fovea_core.train.drafter import DrafterTrainer
from fovea_core.train.recipe import DrafterRecipe
from fovea_core.train.samples import collate, load_samples
from fovea_core.train.twin import Twin, truth_of
from tests.families import FAMILIES, tiny
from tests.toys import toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "a red ball"
TREE = torch.tensor([7, 8, 9]), torch.tensor([-1, 0, 0]), torch.tensor([0, 1, 1])
RECIPE = DrafterRecipe(steps=4, batch=3, unroll=3, k_min=2, k_max=8, memory_layer=2)


def make(family: str):
    return toy_target(3) if family == "toy" else tiny(family, 3)


def normed(states: torch.Tensor) -> torch.Tensor:
    return states / (states.square().mean(-1, keepdim=True) + torch.finfo(states.dtype).eps).sqrt()


@pytest.mark.parametrize("family", ["toy", *FAMILIES])
def test_what_is_kept_enters_the_layer_at_the_picture_and_changes_no_number(family):
    plain, keeping, caught = make(family), make(family), []
    keeping.keep(2)
    keeping.keep(0)
    hook = lambda module, args, kwargs: caught.append(args[0][0].clone())  # noqa: E731
    keeping.backbone.layers[2].register_forward_pre_hook(hook, with_kwargs=True)
    picture = toy_picture(1, 90, 50)
    runs = [target.prefill(picture, QUESTION) for target in (plain, keeping)]
    slots = [slot for first, last in runs[1].spans for slot in range(first, last)]
    torch.testing.assert_close(runs[1].seen(2), normed(caught[0][slots]), atol=1e-5, rtol=1e-5)
    assert torch.equal(runs[1].seen(0), runs[0].features)
    assert torch.equal(runs[0].hidden, runs[1].hidden) and torch.equal(runs[0].logits, runs[1].logits)
    assert runs[1].entered is None and runs[1].cache.entered is None  # nobody watches: decoding keeps nothing
    for ours, theirs in zip(*(run.forward_tree(*TREE) for run in runs)):
        assert torch.equal(ours, theirs)


def test_a_layer_nobody_kept_is_told(tmp_path):
    target = toy_target(3)
    for layer in (-1, 3):
        with pytest.raises(TargetError, match=f"has no layer {layer}"):
            target.keep(layer)
    run, drafter = target.prefill(toy_picture(), QUESTION), toy_drafter(target, memory_layer=2)
    with pytest.raises(ValueError, match="kept nothing of layer 2"):
        drafter.start(run, RunSettings())
    config = drafter.config.model_copy(update={"memory_layer": 9})
    drafter.drafter.config = config
    with pytest.raises(DrafterError, match="does not fit: the target toy-3 has no layer 9"):
        load_drafter(save_drafter(tmp_path / "deep", drafter.drafter), target)
    drafter.drafter.config = config.model_copy(update={"memory_layer": 1})
    assert load_drafter(save_drafter(tmp_path / "near", drafter.drafter), target).config.memory_layer == 1
    assert target.prefill(toy_picture(), QUESTION).seen(1).shape == run.features.shape  # loading is telling


@pytest.mark.parametrize("family", ["toy", *FAMILIES])
def test_decoding_is_lossless_and_reads_that_layer(family, monkeypatch):
    """Alone and in lock-step; the memory is that of the layer's states, which the target alone could have told."""
    target, picture = make(family), toy_picture(2, 70, 50)
    target.keep(2)
    drafter, settings = toy_drafter(target, memory_layer=2), RunSettings(max_new_tokens=20, detail="rounds")
    plain = decode_plain(target, picture, QUESTION, settings).ids
    asked = []
    real = TargetRun.seen
    monkeypatch.setattr(TargetRun, "seen", lambda run, layer: (asked.append(layer), real(run, layer))[1])
    *_, finished = decode(target, drafter, picture, QUESTION, settings)
    assert finished.ids == plain and set(asked) == {2}
    run = target.prefill(picture, QUESTION)
    wanted = drafter.drafter.remember(run.seen(2), run.valid)
    got = drafter.start(run, settings).memory
    other = toy_drafter(target).start(run, settings).memory
    states = torch.randn(3, target.hidden_size)
    valid = wanted.valid
    torch.testing.assert_close(got.scores(states, 1), wanted.scores(states, 1)[:, valid], atol=1e-3, rtol=1e-3)
    assert not torch.allclose(got.scores(states, 1), other.scores(states, 1), atol=1e-2)
    if family == "toy":
        two = [Asked(toy_picture(number), QUESTION, settings) for number in (2, 3)]
        for told in serve(Lockstep(target, drafter, Shape(depth=3, width=2, nodes=8)), two):
            assert told.ids == decode_plain(target, two[told.number].image, QUESTION, settings).ids


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(4):
        toy_picture(number, 60 + 20 * (number % 2), 40).save(folder / f"{number}.png")
    return [PictureRequest(folder / f"{number}.png", text) for number in range(4) for text in (QUESTION, "hat? the box")]


@pytest.mark.parametrize("family", ["toy", "qwen", "smolvlm"])
def test_artifacts_hold_what_single_runs_see(family, requests, tmp_path):
    target = make(family)
    for layer in (1, 2):
        target.keep(layer)
    folder = make_artifacts(target, requests, tmp_path, shard=5, batch=3, max_new_tokens=8, log=lambda line: None)
    for sample in (sample for part in load_samples(folder, held={2})[:2] for sample in part):
        request = requests[sample.number]
        run = target.prefill(open_picture(request.image).rgb, request.question)
        assert set(sample.seen) == {1, 2}
        for layer, states in sample.seen.items():
            torch.testing.assert_close(states.float(), run.seen(layer), atol=2e-2, rtol=2e-3)
    assert set(load_file(folder / "part-00000.safetensors")) >= {"seen-1", "seen-2"}


def test_it_is_learnt_from_that_layer_alone(requests, tmp_path):
    """A twin on layer 2 has the loss of one on the projector's output that is shown layer 2's states in its place."""
    target = toy_target(3)
    target.fingerprint = "toy"
    bare = make_artifacts(target, requests, tmp_path / "bare", max_new_tokens=8, log=lambda line: None)
    target.keep(2)
    folder = make_artifacts(target, requests, tmp_path / "kept", max_new_tokens=8, log=lambda line: None)
    batch = collate(load_samples(folder)[0][:3])
    truth, losses = truth_of(batch, target.head, 3), []
    for layer, seen in ((2, batch), (0, replace(batch, features=batch.kept[2])), (0, batch)):
        twin = Twin("drafter", target, replace(RECIPE, memory_layer=layer))
        assert twin.drafter.config.memory_layer == layer
        torch.nn.init.normal_(twin.drafter.correction.f[2].weight)
        losses.append(float(twin.loss(seen, truth, twin.policy(3), 3).total.detach()))
    assert losses[0] == losses[1] != losses[2]
    assert Twin("blind", target, RECIPE).drafter.config.memory_layer == 0
    with pytest.raises(ValueError, match="enter other layers than this recipe's memory"):
        DrafterTrainer(target, bare, tmp_path / "out", "both", RECIPE)
    trainer = DrafterTrainer(target, folder, tmp_path / "out", "both", RECIPE)
    trainer.advance()
    drafter = load_drafter(trainer.export()[0], target)
    assert isinstance(drafter, FoveaDrafter) and drafter.config.memory_layer == 2
    picture, settings = open_picture(requests[0].image).rgb, RunSettings(max_new_tokens=8)
    *_, finished = decode(target, drafter, picture, QUESTION, settings)
    assert finished.ids == decode_plain(target, picture, QUESTION, settings).ids
