"""The embedded target's training: packing, masks, labels, resume, export."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fovea_core.train import data, learner, packing, target
from fovea_core.train.labels import LABELS, MARKS, SIZES
from fovea_core.train.tokenizer import ANSWER, ASK, EOS, load_tokenizer, train_tokenizer

TINY = learner.TargetRecipe(
    width=64, layers=2, intermediate=64, tower_layers=1, tower_intermediate=64, batch=2, samples=12, tower_samples=4, warmup=2
)


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train_tokenizer(["What is left of the red cone?"], ["Some prose to fill the rest of the table."], 1500).save(str(path))
    return path


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Three random pictures in shard form (the drawn ones are tested in their own room)."""
    folder, rng = tmp_path_factory.mktemp("shards"), np.random.default_rng(0)
    np.save(folder / "0.pixels.npy", rng.integers(0, 255, (3, 224, 224, 3), dtype=np.uint8))
    np.save(folder / "0.valid.npy", np.ones((3, 14, 14), bool))
    np.save(folder / "0.labels.npy", rng.integers(0, 9, (3, len(SIZES), 14, 14), dtype=np.uint8))
    np.save(folder / "0.things.npy", rng.integers(0, 4, (3, 3, 14, 14), dtype=np.uint8))
    questions = [["Read everything.", "K7Q B2; 4TR", "long"], ["Which bar?", "red", "short"]]
    facts = {"Read everything.": [[0, 1, 1], [1, 2, 2]], "Which bar?": [[0, 3, 3]]}
    shard = {"kinds": ["scene", "text", "chart"], "questions": [questions] * 3, "facts": [facts] * 3}
    (folder / "0.json").write_text(json.dumps(shard))
    return folder


@pytest.mark.parametrize(
    "text", ["K7Q 4T; orange hard hat", "", " ", "é😀\n\tمرحبا  x", "<bos><image></s>[INST]", "\ufffd\x00"]
)
def test_any_text_round_trips_and_specials_stay_text(tokenizer_file, text):
    tokenizer = load_tokenizer(tokenizer_file)
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert not set(ids) & set(range(6))


def test_world_words_and_characters_are_single_tokens(tokenizer_file):
    tokenizer = load_tokenizer(tokenizer_file)
    assert [tokenizer.decode([i]) for i in tokenizer.encode("orange jumpsuit K7Q hard hat; red 478").ids] == [
        *("orange", " jumpsuit", " K", "7", "Q", " hard", " hat", ";", " red", " 4", "7", "8"),
    ]


def test_packed_questions_give_the_same_logits_as_each_alone(tokenizer_file, shards):
    """Segments of a packed row are blind to each other, and positions restart: packing changes nothing."""
    tokenizer = load_tokenizer(tokenizer_file)
    sample = next(iter(data.Shards(shards)))
    model = learner.Learner(learner.build_target(TINY, tokenizer.get_vocab_size())).eval()
    asked = [("Read everything.", "K7Q B2; 4TR"), ("Which bar?", "red")]
    together = packing.pack([sample], [asked], tokenizer)
    features = model.features(together.pixels)
    total, _ = model.answer_loss(model.read(features, together), together)
    alone = [packing.pack([sample], [[one]], tokenizer) for one in asked]
    counts = [int((b.targets >= 0).sum()) for b in alone]
    losses = [model.answer_loss(model.read(features, b), b)[0] for b in alone]
    assert counts == [len(tokenizer.encode(a).ids) + 1 for _, a in asked]
    expected = sum(n * loss for n, loss in zip(counts, losses)) / sum(counts)
    assert torch.allclose(total, expected, atol=1e-5)


def test_packed_targets_are_the_next_tokens(tokenizer_file, shards):
    tokenizer = load_tokenizer(tokenizer_file)
    batch = packing.pack([next(iter(data.Shards(shards)))], [[("Which bar?", "red")]], tokenizer)
    tokens, targets = batch.tokens[0].tolist(), batch.targets[0].tolist()
    assert tokens[0] == ASK and tokens[-1] == EOS
    for index, value in enumerate(targets):
        if value >= 0:
            assert value == tokens[index + 1] and index >= tokens.index(ANSWER)
    assert targets[-1] == -100


def test_pictures_with_sign_words_can_be_asked_for(shards, tmp_path):
    """They are a share of their own, and no further pictures."""
    for file in shards.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    labels = np.zeros((3, len(SIZES), 14, 14), np.uint8)
    labels[1, LABELS.index("mark"), 3, 4] = 1 + MARKS.index("exit")
    np.save(tmp_path / "0.labels.npy", labels)
    drawn, rng = data.Shards(tmp_path), np.random.default_rng(0)
    assert len(list(drawn)) == drawn.refresh() == 3
    assert {drawn.pick(rng, {data.SIGNED: 0.5}).kind for _ in range(8)} == {"text"}
    assert {drawn.pick(rng, {data.SIGNED: 0.5, "chart": 0.5}).kind for _ in range(30)} == {"text", "chart"}


def test_resume_equals_a_straight_run(tokenizer_file, shards, tmp_path):
    straight = target.Trainer(shards, tmp_path / "a", tokenizer_file, TINY)
    for _ in range(4):
        straight.step()
    first = target.Trainer(shards, tmp_path / "b", tokenizer_file, TINY)
    for _ in range(3):
        first.step()
    first.save()
    second = target.Trainer(shards, tmp_path / "b", tokenizer_file, TINY)
    second.step()
    for (name, a), (_, b) in zip(straight.learner.named_parameters(), second.learner.named_parameters()):
        assert torch.equal(a, b), name


def test_a_resumed_recipe_may_change_but_not_in_shape(tokenizer_file, shards, tmp_path):
    """More samples and another rate go on; another width or depth is refused by name; a field of old recipes is dropped."""
    trainer = target.Trainer(shards, tmp_path, tokenizer_file, TINY)
    trainer.step()
    trainer.save()
    longer = target.Trainer(shards, tmp_path, tokenizer_file, replace(TINY, samples=99, lr=1e-4))
    assert longer.progress.seen == trainer.progress.seen > 0
    with pytest.raises(ValueError, match="layers, tower_intermediate differ"):
        target.Trainer(shards, tmp_path, tokenizer_file, replace(TINY, layers=3, tower_intermediate=128))
    saved = torch.load(trainer.checkpoint, weights_only=True)
    saved["recipe"]["gone_since"] = 1
    torch.save(saved, trainer.checkpoint)
    assert target.recipe_of(saved) == TINY
    assert (target.export_target(trainer.checkpoint, tokenizer_file, tmp_path / "out") / "config.json").is_file()


def test_without_muon_training_says_what_it_needs(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match=r"torch 2\.9"):
        target.make_optimizers(None, TINY)


def test_train_log_and_export(tokenizer_file, shards, tmp_path):
    checkpoint = target.train_target(shards, tmp_path / "run", tokenizer_file, TINY)
    out = target.export_target(checkpoint, tokenizer_file, tmp_path / "out")
    assert json.loads((out / "training.json").read_text())["pictures_seen"] == TINY.samples
    assert all(p.stat().st_size < 10 * 2**20 for p in out.iterdir())
    assert {p.name for p in out.glob("*.json")} >= {"config.json", "tokenizer.json", "fovea_target.json"}


def test_schedule_warms_up_and_decays():
    recipe = learner.TargetRecipe(samples=1000, warmup=100, decay_share=0.2)
    assert target.schedule(0, recipe) < 0.05 and target.schedule(500, recipe) == 1.0
    assert target.schedule(900, recipe) == pytest.approx(0.5) and target.schedule(1000, recipe) == 0.01


def test_a_training_goes_on_from_finished_weights(tokenizer_file, shards, tmp_path):
    """The language model and tower are the finished ones, the dense head is zero, the record keeps both sittings; another
    tokenizer or shape is refused by name."""
    checkpoint = target.train_target(shards, tmp_path / "one", tokenizer_file, TINY)
    out = target.export_target(checkpoint, tokenizer_file, tmp_path / "t")
    begun = target.Trainer(shards, tmp_path / "two", tokenizer_file, TINY.onward(), start=out)
    kept = torch.load(checkpoint, weights_only=True)["learner"]
    for name, weight in begun.learner.named_parameters():
        expected = torch.zeros_like(weight) if name.startswith("dense.") else kept[name].half().float()
        assert torch.equal(weight, expected), name
    begun.step()
    begun.save()
    again = target.export_target(begun.checkpoint, tokenizer_file, tmp_path / "u")
    told = [json.loads((folder / "fovea_target.json").read_text()).get("look_head") for folder in (out, again)]
    assert told == [None, [begun.learner.look_layer, 0]]  # taught since it goes on
    record = json.loads((again / "training.json").read_text())
    assert record["pictures_seen"] == TINY.batch and record["before"] == json.loads((out / "training.json").read_text())
    with pytest.raises(ValueError, match="layers differ"):
        target.Trainer(shards, tmp_path / "three", tokenizer_file, replace(TINY, layers=3), start=out)
    (out / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="another tokenizer"):
        target.Trainer(shards, tmp_path / "four", tokenizer_file, TINY, start=out)


def test_short_answers_count_more(tokenizer_file, shards):
    """The loss with a weight is the weighted mean of the losses of each question alone."""
    tokenizer = load_tokenizer(tokenizer_file)
    sample = next(iter(data.Shards(shards)))
    model = learner.Learner(learner.build_target(TINY, tokenizer.get_vocab_size())).eval()
    asked = [("Read everything.", "K7Q B2; 4TR 9PL X2M"), ("Which bar?", "red")]
    batches = [packing.pack([sample], [part], tokenizer, short_weight=3.0) for part in (asked, asked[:1], asked[1:])]
    features = model.features(batches[0].pixels)
    both, long, short = (model.answer_loss(model.read(features, batch), batch)[0] for batch in batches)
    counts = [int((batch.targets >= 0).sum()) for batch in batches[1:]]
    assert counts[1] <= packing.SHORT < counts[0]
    expected = (counts[0] * long + 3 * counts[1] * short) / (counts[0] + 3 * counts[1])
    assert torch.allclose(both, expected, atol=1e-5)
