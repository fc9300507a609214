"""Muon for CPUs: against the update written out matrix by matrix in float64, and against torch's own."""

from __future__ import annotations

import pytest
import torch

from fovea_core.train.muon import BatchedMuon, make_muon, orthogonal

SHAPES = [(6, 4), (4, 6), (5, 5), (6, 4), (1, 7)]
SETTINGS = {"lr": 0.02, "weight_decay": 0.1}


def matrices(dtype=torch.float32) -> list[torch.nn.Parameter]:
    made = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=made).to(dtype)) for shape in SHAPES]


def gradients(step: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(10 + step)
    return [torch.randn(shape, generator=made) for shape in SHAPES]


def run(optimizer, weights, first: int, last: int) -> None:
    for step in range(first, last):
        for weight, grad in zip(weights, gradients(step)):
            weight.grad = grad.clone().to(weight.dtype)
        optimizer.step()


def by_hand(weight: torch.Tensor, grads: list[torch.Tensor]) -> torch.Tensor:
    """The update of the paper for one matrix, in float64."""
    weight, average = weight.double(), torch.zeros_like(weight, dtype=torch.float64)
    for grad in grads:
        average = 0.95 * average + 0.05 * grad.double()
        x = 0.05 * grad.double() + 0.95 * average
        x = x / x.norm()
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        weight = weight * (1 - 0.02 * 0.1) - 0.02 * 0.2 * max(weight.shape) ** 0.5 * x
    return weight


def test_every_matrix_moves_as_by_hand():
    weights = matrices()
    starts = [weight.detach().clone() for weight in weights]
    run(make_muon(weights, **SETTINGS), weights, 0, 4)
    for number, (weight, start) in enumerate(zip(weights, starts)):
        wanted = by_hand(start, [gradients(step)[number] for step in range(4)])
        assert torch.allclose(weight.double(), wanted, atol=2e-5), number


def test_it_is_torchs_own_but_for_rounding_and_goes_on_from_its_state():
    """torch's rounds the update to eight bits: an update differs from ours by a few hundredths of its own size at most."""
    ours, theirs, crossed = matrices(), matrices(), matrices()
    options = SETTINGS | {"momentum": 0.95, "adjust_lr_fn": "match_rms_adamw"}
    first, second = BatchedMuon(ours, **options), torch.optim.Muon(theirs, **options)
    run(first, ours, 0, 3)
    run(second, theirs, 0, 3)
    for a, b, start in zip(ours, theirs, matrices()):
        assert (a - b).norm() < 0.05 * (a - start).norm()
    third = BatchedMuon(crossed, **options)
    third.load_state_dict(second.state_dict())
    for a, b in zip(crossed, ours):
        a.data.copy_(b.data)
    run(third, crossed, 3, 5)
    run(first, ours, 3, 5)
    for a, b in zip(crossed, ours):
        assert torch.allclose(a, b, atol=1e-5)


def test_what_has_no_gradient_stays_and_the_format_is_kept():
    weights = matrices(torch.float64)
    optimizer = make_muon(weights, **SETTINGS)
    weights[0].grad = torch.randn(SHAPES[0], dtype=torch.float64)
    before = [weight.detach().clone() for weight in weights]
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(weights, before)] == [False, True, True, True, True]
    assert weights[0].dtype == torch.float64


def test_singular_values_come_near_one():
    values = torch.linalg.svdvals(orthogonal(torch.randn(3, 8, 20), (3.4445, -4.7750, 2.0315), 5, 1e-7))
    assert values.min() > 0.5 and values.max() < 1.5


def test_a_closure_is_refused():
    with pytest.raises(ValueError, match="no closure"):
        BatchedMuon(matrices(), lr=0.1).step(lambda: 0.0)
