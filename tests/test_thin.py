"""Packed products against plain ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fovea_core.thin import MOST_ROWS, Matrix, ThinLinear, pack, thin


def halves(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """A random float32 matrix of half-precision values."""
    return (torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 0.1).half().float()


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 7, 40, MOST_ROWS, MOST_ROWS + 1, 230])
def test_a_product_is_that_of_float64(rows):
    weight, x = halves(70, 96), torch.randn(rows, 96, generator=torch.Generator().manual_seed(1))
    got, exact = Matrix(weight)(x), x.double() @ weight.double().t()
    assert got.dtype == torch.float32
    assert torch.allclose(got.double(), exact, rtol=0, atol=5e-6)


def test_a_slice_of_a_wider_tensor_is_read_right():
    weight, wide = halves(12, 32), torch.randn(5, 80, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(Matrix(weight)(wide[:, 16:48]), wide[:, 16:48] @ weight.t(), atol=1e-5)


@pytest.mark.parametrize("value", [1 / 3, 1e-9, 7e4, float("nan"), float("inf")])
def test_a_value_that_half_precision_would_change_is_never_packed(value):
    weight = halves(8, 8)
    weight[3, 3] = value
    assert pack(weight) is None
    x = torch.ones(2, 8)
    assert torch.allclose(Matrix(weight)(x), x @ weight.t(), equal_nan=True)


def test_only_bias_free_layers_of_a_frozen_model_change_and_by_no_more_than_rounding():
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(16, 24, bias=False), nn.SiLU(), nn.Sequential(nn.Linear(24, 8, bias=False), nn.Linear(8, 4))
    )
    model.requires_grad_(False).half().float()
    x = torch.randn(1, 7, 16)
    before, names = model(x), list(model.state_dict())
    changed = thin(model)
    assert changed in (0, 2)  # 0 where this processor has no such kernel
    assert sum(isinstance(part, ThinLinear) for part in model.modules()) == changed
    assert list(model.state_dict()) == names
    assert torch.allclose(model(x), before, atol=1e-5)
    assert model(x.expand(MOST_ROWS, -1, -1)).shape == (MOST_ROWS, 7, 4)


def test_this_processor_is_no_silent_fallback():
    """Where torch says it has the kernel, half-precision values are packed."""
    if torch.backends.quantized.engine in ("x86", "fbgemm"):
        assert pack(halves(4, 4)) is not None
