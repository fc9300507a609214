"""Where the target is taught to look: which cells a word names, both losses against loops, and that they teach."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fovea_core.train import learner, packing
from fovea_core.train.data import Sample, draw, kind_of
from fovea_core.train.grounding import name_table
from fovea_core.train.labels import COLOURS, MARKS, NOUNS
from fovea_core.train.tokenizer import load_tokenizer
from tests.test_train_target import TINY, tokenizer_file  # noqa: F401 (a fixture)

RECIPE = replace(TINY, width=192)


@pytest.fixture(scope="module")
def tokenizer(tokenizer_file):  # noqa: F811
    return load_tokenizer(tokenizer_file)


@pytest.fixture(scope="module")
def pictures():
    return [Sample(kind_of(seed), *draw(seed)) for seed in (9_300_000, 9_300_001, 9_300_002)]


def classes(tokenizer, text, table):
    """Per token of ``text`` the names of its labels, in the order noun, colour, mark."""
    groups = ((None, *names) for names in (NOUNS, COLOURS, MARKS))
    groups = list(groups)
    return [{groups[p][c] for p, c in table[:, i].nonzero().tolist()} for i in tokenizer.encode(text).ids]


def test_names(tokenizer):
    """Colours, nouns, marks, and parts of a name in two words; a word that names nothing has no label; 'other' is no name."""
    table = name_table(tokenizer)
    assert table.shape == (3, tokenizer.get_vocab_size(), max(map(len, (NOUNS, COLOURS, MARKS))) + 1)
    assert classes(tokenizer, "What is left of the teal dog?", table) == [set()] * 5 + [{"teal"}, {"dog"}, set()]
    assert classes(tokenizer, "dog K7", table)[1:] == [{"K"}, {"7"}]
    assert classes(tokenizer, "hard hat", table) == [{"hard hat"}, {"hard hat"}]
    assert not table[:, :, 0].any() and not table[0, :, len(NOUNS)].any() and not table[2, :, len(MARKS)].any()


def asked(pictures):
    rng = np.random.default_rng(0)
    return [packing.pick_questions(p, replace(RECIPE, lookup_share=1.0), rng)[:4] for p in pictures]


def test_only_words_of_questions_that_look_up_are_asking(tokenizer, pictures):
    questions = [[("What is the value of the teal bar?", "red 4"), ("What is on the worker on the left?", "teal dog")]]
    batch = packing.pack(pictures[:1], questions, tokenizer)
    asking = tokenizer.decode(batch.tokens[0][batch.asking[0]].tolist(), skip_special_tokens=True)
    assert asking == "What is the value of the teal bar?" and batch.asking.shape == batch.tokens.shape


def attentions(model, features, batch):
    """Attention of every layer, (B, heads, S, S) each, by transformers itself."""
    model.model.set_attn_implementation("eager")
    read = model.read(features, batch)
    inputs = {"inputs_embeds": read.entering[0], "position_ids": read.positions, "attention_mask": read.mask}
    return model.model.model.language_model(**inputs, output_attentions=True, use_cache=False).attentions


def test_loss_equals_a_loop_over_words(tokenizer, pictures):
    """Word by word, from the first layer's own attention of the whole model."""
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size())).eval()
    batch, table = packing.pack(pictures, asked(pictures), tokenizer), name_table(tokenizer)
    features = model.features(batch.pixels)
    loss, mass = model.ground_loss(model.read(features, batch), batch, table)
    attention, losses, masses = attentions(model, features, batch)[0], [], []
    image = 1 + features.shape[1]
    for row, column in batch.asking.nonzero().tolist():
        for part in range(3):
            labels = batch.labels[row, part].flatten().tolist()
            cells = [i for i, label in enumerate(labels) if table[part, batch.tokens[row, column], label]]
            if cells:
                masses.append(float(attention[row, part, image + column, [1 + i for i in cells]].detach().sum()))
                losses.append(-math.log(masses[-1]))
    assert len(losses) > 10
    assert float(loss.detach()) == pytest.approx(np.mean(losses), rel=1e-4) and float(mass) == pytest.approx(
        np.mean(masses), rel=1e-4
    )


def test_link_loss_equals_a_loop_over_answers(tokenizer, pictures):
    """Whoever says a token of an answer should heed the names in its own question, and no other's."""
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size())).eval()
    batch, table = packing.pack(pictures, asked(pictures), tokenizer), name_table(tokenizer)
    features = model.features(batch.pixels)
    loss, mass = model.link_loss(model.read(features, batch), batch, table)
    attention, masses, image = attentions(model, features, batch)[model.link_layer], [], 1 + features.shape[1]
    for row, column in (batch.targets >= 0).nonzero().tolist():
        names = [
            image + i
            for i, token in enumerate(batch.tokens[row].tolist())
            if batch.segment[row, i] == batch.segment[row, column] and batch.asking[row, i] and table[:, token].any()
        ]
        masses.append(float(attention[row, 0, image + column, names].detach().sum()))
    assert len(masses) > 10
    assert float(mass) == pytest.approx(np.mean(masses), rel=1e-4)
    assert float(loss.detach()) == pytest.approx(-np.mean(np.log(masses)), rel=1e-4)


def test_look_loss_equals_a_loop_over_facts(tokenizer, pictures):
    """Token by token: whoever says a character of a fact next should look at the cells of the thing that shows it."""
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size())).eval()
    questions = [[(q, a) for q, a, t in p.questions if t == kind][:3] for p, kind in zip(pictures, ("long", "short", "long"))]
    batch = packing.pack(pictures, questions, tokenizer)
    features = model.features(batch.pixels)
    loss, mass = model.look_loss(model.read(features, batch), batch)
    attention, masses, image = attentions(model, features, batch)[model.look_layer], [], 1 + features.shape[1]
    for row, (picture, asked_of) in enumerate(zip(pictures, questions)):
        for number, (question, answer) in enumerate(asked_of, start=1):
            own = [i for i, n in enumerate(batch.segment[row].tolist()) if n == number and batch.targets[row, i] >= 0]
            for column, (start, end) in zip(own, tokenizer.encode(answer).offsets):  # own has the end's token, too
                for first, last, thing in picture.facts[question]:
                    cells = [1 + i for i in range(196) if thing in picture.things.reshape(3, -1)[:, i]]
                    if start < last and end > first and cells:
                        masses.append(float(attention[row, 0, image + column, cells].detach().sum()))
    assert len(masses) > 100
    assert float(mass) == pytest.approx(np.mean(masses), rel=1e-4)
    assert float(loss.detach()) == pytest.approx(-np.mean(np.log(masses)), rel=1e-4)


def test_nothing_named_costs_nothing(tokenizer, pictures):
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size()))
    batch = packing.pack(pictures[:1], [[("How many workers are there?", "2")]], tokenizer)
    read = model.read(model.features(batch.pixels), batch)
    loss, mass = model.ground_loss(read, batch, name_table(tokenizer))
    assert float(loss.detach()) == float(mass) == 0.0
    assert float(model.look_loss(read, packing.pack(pictures[:1], [[("Why?", "2")]], tokenizer))[0].detach()) == 0.0
    loss.backward()


@pytest.mark.parametrize("what", ["name", "link", "fact"])
def test_words_learn_where_to_look(tokenizer, pictures, what):
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size()))
    batch, table = packing.pack(pictures, asked(pictures), tokenizer), name_table(tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    seen = []
    for _ in range(12):
        read = model.read(model.features(batch.pixels), batch)
        losses = {"name": (model.ground_loss, table), "link": (model.link_loss, table), "fact": (model.look_loss,)}
        loss, mass = losses[what][0](read, batch, *losses[what][1:])
        seen.append(float(mass))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert seen[-1] > (2 if what == "link" else 3) * seen[0]
