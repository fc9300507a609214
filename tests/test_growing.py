"""A target grows: the same function before it learns, and only the new layers do."""

import json
from dataclasses import replace

import pytest
import torch

from fovea_core.cli import main
from fovea_core.train import learner, target
from fovea_core.train.growing import grow, grown_layers
from tests.test_train_target import TINY, shards, tokenizer_file  # noqa: F401 (fixtures)

WIDE = replace(TINY, width=192)


def test_new_layers_are_spread_and_the_first_is_one():
    assert grown_layers(10, 16) == [0, 3, 5, 8, 11, 13]
    for before in range(1, 12):
        for after in range(before + 1, 2 * before + 1):
            new = grown_layers(before, after)
            assert new[0] == 0 and len(set(new)) == after - before and max(new) < after
            old = [number - sum(n < number for n in new) for number in new]  # the old layer each stands before
            assert max(b - a for a, b in zip(old, [*old[1:], before])) <= -(-before // (after - before))
    for after in (3, 2, 7):
        with pytest.raises(ValueError, match="can grow to 4 to 6 layers"):
            grown_layers(3, after)


def test_the_command_asks_for_what_it_grows(capsys, tmp_path):
    """Without a finished target, or to a size that is none, one sentence; the recipe names both sizes."""
    assert main(["train-target", "--work", str(tmp_path), "--grow", "16"]) == 2
    assert main(["train-target", "--work", str(tmp_path), "--grow", "9", "--start", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "--grow needs --start" in said and "can grow to 11 to 20 layers, not to 9" in said and not list(tmp_path.iterdir())
    recipe = learner.growing(learner.TargetRecipe(samples=99), 16)
    assert (recipe.layers, recipe.grown_from, recipe.samples, recipe.tower_samples) == (16, 10, 99, 0)


@pytest.mark.parametrize("layers", [3, 4])
def test_grown_is_the_same_function(layers):
    model = learner.build_target(TINY, 50)
    grown = learner.build_target(replace(TINY, layers=layers, seed=1), 50)
    grow(model, grown)
    pixels, inputs = torch.randn(1, 3, 224, 224), torch.randn(2, 9, 64)
    for part in (
        lambda m: m.model.multi_modal_projector(m.model.vision_tower(pixel_values=pixels).last_hidden_state),
        lambda m: m.lm_head(m.model.language_model(inputs_embeds=inputs, use_cache=False).last_hidden_state),
    ):
        assert torch.equal(part(model), part(grown))


def test_only_new_layers_learn(tokenizer_file, shards, tmp_path):  # noqa: F811
    """A grown training moves its new layers and nothing else, with the words' loss and without the dense one; it resumes."""
    out = target.export_target(
        target.train_target(shards, tmp_path / "one", tokenizer_file, WIDE), tokenizer_file, tmp_path / "t"
    )
    recipe = replace(WIDE, layers=3, grown_from=2, dense_weight=0.0, ground_weight=0.5, tower_samples=0, lookup_share=1.0)
    trainer = target.Trainer(shards, tmp_path / "two", tokenizer_file, recipe, start=out)
    before = {name: weight.clone() for name, weight in trainer.learner.state_dict().items()}
    for _ in range(2):
        trainer.step()
    trainer.save()
    moved = {name for name, weight in trainer.learner.state_dict().items() if not torch.equal(weight, before[name])}
    assert moved and all("language_model.layers.0." in name for name in moved)
    again = target.Trainer(shards, tmp_path / "two", tokenizer_file, recipe)
    assert all(torch.equal(a, b) for a, b in zip(again.learner.state_dict().values(), trainer.learner.state_dict().values()))
    record = json.loads((target.export_target(again.checkpoint, tokenizer_file, tmp_path / "u") / "training.json").read_text())
    assert record["recipe"]["layers"] == 3 and record["before"]["recipe"]["layers"] == 2
    with pytest.raises(ValueError, match="layers differ"):
        target.Trainer(shards, tmp_path / "three", tokenizer_file, replace(recipe, grown_from=0), start=out)
