"""Words that see what they name: which cells a word names, the loss against a loop, and that it teaches."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fovea_core.train import learner
from fovea_core.train.data import COLOURS, MARKS, NOUNS, Sample, draw, kind_of
from fovea_core.train.grounding import name_table
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
    return [learner.pick_questions(p, replace(RECIPE, lookup_share=1.0), rng)[:4] for p in pictures]


def test_only_words_of_questions_that_look_up_are_asking(tokenizer, pictures):
    questions = [[("What is the value of the teal bar?", "red 4"), ("What is on the worker on the left?", "teal dog")]]
    batch = learner.pack(pictures[:1], questions, tokenizer)
    asking = tokenizer.decode(batch.tokens[0][batch.asking[0]].tolist(), skip_special_tokens=True)
    assert asking == "What is the value of the teal bar?" and batch.asking.shape == batch.tokens.shape


def test_loss_equals_a_loop_over_words(tokenizer, pictures):
    """Word by word, from the first layer's own attention of the whole model."""
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size())).eval()
    model.model.set_attn_implementation("eager")
    batch, table = learner.pack(pictures, asked(pictures), tokenizer), name_table(tokenizer)
    features = model.features(batch.pixels)
    loss, mass = model.ground_loss(features, batch, table)
    inputs, positions, mask = model._inputs(features, batch)
    run = model.model.model.language_model(
        inputs_embeds=inputs, position_ids=positions, attention_mask=mask, output_attentions=True, use_cache=False
    )
    attention, losses, masses = run.attentions[0], [], []
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


def test_nothing_named_costs_nothing(tokenizer, pictures):
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size()))
    batch = learner.pack(pictures[:1], [[("How many workers are there?", "2")]], tokenizer)
    loss, mass = model.ground_loss(model.features(batch.pixels), batch, name_table(tokenizer))
    assert float(loss.detach()) == float(mass) == 0.0
    loss.backward()


def test_words_learn_where_to_look(tokenizer, pictures):
    model = learner.Learner(learner.build_target(RECIPE, tokenizer.get_vocab_size()))
    batch, table = learner.pack(pictures, asked(pictures), tokenizer), name_table(tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    seen = []
    for _ in range(12):
        loss, mass = model.ground_loss(model.features(batch.pixels), batch, table)
        seen.append(float(mass))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert seen[-1] > 3 * seen[0]
