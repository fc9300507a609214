"""The objective that teaches a read where the target looked: against its sum written out, and what of a row it changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fovea_core.train.looks import look_loss
from fovea_core.train.samples import collate, load_samples
from fovea_core.train.twin import Twin, truth_of
from fovea_core.train.variants import ROWS
from tests.rival_toys import tapped_target, viewed_artifacts
from tests.test_train_lab import RECIPE

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
        written.append(-float(torch.softmax(scores, -1)[batch.view.looked[b, said]].sum().log().detach()))
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
    with pytest.raises(ValueError, match="make them with views"):
        look_loss(memory, states, depth, replace(batch, view=None), truth.rows)


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
