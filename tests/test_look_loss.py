"""The objective that teaches a read where the target looked: against its sum written out, and what of a row it changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fovea_core.drafter.rival import LOOKED
from fovea_core.train.looks import look_loss
from fovea_core.train.samples import collate, load_samples
from fovea_core.train.twin import Twin, truth_of
from fovea_core.train.variants import ROWS
from fovea_core.train.views import AIMED, most_of
from tests.rival_toys import given_answers, tapped_target, viewed_artifacts
from tests.test_looking import captured_attention
from tests.test_train_lab import RECIPE
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target():
    return tapped_target()


@pytest.fixture(scope="module")
def artifacts(target, tmp_path_factory):
    return viewed_artifacts(target, tmp_path_factory.mktemp("artifacts"))


def test_a_taught_read_learns_the_targets_look_entry_by_entry(target, artifacts):
    """look_loss against its sum written out; steps of it alone move the reads onto those entries; without looks it says so."""
    batch = collate(load_samples(artifacts)[0][:3])
    twin = Twin("look", target, RECIPE, variant=ROWS["look"])
    memory = twin.drafter.remember(batch.features, batch.valid)
    truth = truth_of(batch, target.head, RECIPE.unroll)
    shape = (batch.base.shape[0], RECIPE.unroll, batch.base.shape[1])
    states, depth = torch.randn(*shape, target.hidden_size), torch.arange(shape[1]).repeat_interleave(shape[2])
    got, written = look_loss(memory, states, depth, batch, truth.rows), []
    for row in truth.rows.tolist():
        b, s, a = row // (shape[1] * shape[2]), row // shape[2] % shape[1], row % shape[2]
        said = a + s + 1  # the answer token that this draft proposes
        if said >= int(batch.real[b].sum()):
            written.append(0.0)
            continue
        asked = memory.weights.query(memory.weights.norm_h(states[b, s, a]) + memory.weights.depth[s])
        scores = (memory.keys[b] @ asked / target.hidden_size**0.5).masked_fill(~batch.valid[b], -math.inf)
        written.append(-float(torch.softmax(scores, -1)[batch.view.aimed[b, said]].sum().log().detach()))
    torch.testing.assert_close(got, torch.tensor(written))
    assert 0 < sum(loss == 0 for loss in written) < len(written)

    taught = []
    for _ in range(60):
        loss = look_loss(twin.drafter.remember(batch.features, batch.valid), states, depth, batch, truth.rows).mean()
        twin.drafter.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in twin.optimizers:
            optimizer.step()
        taught.append(float(loss.detach()))
    assert taught[-1] < 0.8 * taught[0]
    assert torch.equal(batch.view.aimed, batch.view.looked)  # of a target without a taught head
    fewer = batch.view.aimed.clone()
    fewer[..., 1:] = -1  # the first one only
    memory = twin.drafter.remember(batch.features, batch.valid)
    one = look_loss(memory, states, depth, replace(batch, view=replace(batch.view, aimed=fewer)), truth.rows)
    same = look_loss(memory, states, depth, replace(batch, view=replace(batch.view, aimed=fewer[..., :1])), truth.rows)
    torch.testing.assert_close(one, same)
    with pytest.raises(ValueError, match="make them with views"):
        look_loss(memory, states, depth, replace(batch, view=None), truth.rows)


@torch.inference_mode()
def test_reads_are_aimed_where_a_taught_head_looks(tmp_path):
    """The entries with most of that head's attention until they hold AIMED of it; other views stay what they were."""
    layer, head = 2, 1
    taught = tapped_target()
    taught.image = taught.image.model_copy(update={"look_head": (layer, head)})
    batch = collate(load_samples(viewed_artifacts(taught, tmp_path))[0])
    counts = set()
    for row, (picture, question, answer) in enumerate(given_answers(taught)):
        valid = taught.prompt(toy_picture(picture), question).valid
        for base in range(len(answer) - 1):
            attention = captured_attention(taught, toy_picture(picture), answer[:base], question)[layer][head]
            masses = attention[batch.view.at[row]] * valid
            masses, mine = masses / masses.sum(), batch.view.aimed[row, base]
            mine = mine[mine >= 0]
            best = masses.sort(descending=True).values[: len(mine)]
            torch.testing.assert_close(masses[mine], best, atol=1e-4, rtol=1e-3)
            assert len(mine) == LOOKED or best.sum() >= AIMED - 1e-4
            assert best[:-1].sum() < AIMED + 1e-4
            counts.add(len(mine))
    assert counts and not torch.equal(batch.view.aimed, batch.view.looked)


def test_most_of_masses_ends_where_the_share_is_reached():
    masses = torch.tensor([[0.5, 0.1, 0.4, 0.0], [0.95, 0.05, 0.0, 0.0], [0.25, 0.26, 0.24, 0.25]])
    assert most_of(masses, 3, 0.9).tolist()[:2] == [[0, 2, -1], [0, -1, -1]]
    assert sorted(most_of(masses, 3, 0.9)[2].tolist()) != [-1] * 3 and most_of(masses, 3, 0.9)[2].min() >= 0
    assert most_of(masses, 9, 1.0).shape == (3, 4)


def test_a_weight_of_looks_is_all_that_the_taught_row_changes(target, artifacts):
    batch = collate(load_samples(artifacts)[0][:3])
    truth, losses = truth_of(batch, target.head, 1), {}
    for weight in (0.0, 0.3, 0.6):
        variant = replace(ROWS["look"], loss={"look": weight})
        twin = Twin("look", target, RECIPE, variant=variant)
        losses[weight] = float(twin.loss(batch, truth, twin.policy(0), 1).total.detach())
    plain = Twin("fovea", target, RECIPE, variant=ROWS["fovea"])
    assert losses[0.0] == float(plain.loss(batch, truth, plain.policy(0), 1).total.detach())
    assert losses[0.3] > losses[0.0]
    assert losses[0.6] - losses[0.0] == pytest.approx(2 * (losses[0.3] - losses[0.0]), rel=1e-4)
