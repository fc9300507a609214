"""Products of a few rows with a large matrix on a CPU, by reading the matrix in half precision and computing in float32.

Decoding multiplies one to forty rows with every matrix of a model, so its time is that of reading matrices and, from two rows
on, of repacking them for each product. A matrix whose values are half-precision numbers, as those of a checkpoint stored
so are, loses nothing by being packed once as such: FBGEMM's kernel widens its values to float32 and multiplies and adds there.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Most rows for which the packed product is the faster one; more go to the plain float32 product (docs/LOG.md).
MOST_ROWS = 128
#: Largest matrix (elements) of which a copy is kept for the plain product.
COPY_LIMIT = 32_000_000


def pack(matrix: Tensor):
    """The packed (out, in) float32 ``matrix``; None without such a kernel here, or where a value is no half-precision one."""
    plain = matrix.device.type == "cpu" and matrix.dtype == torch.float32
    if not plain or torch.backends.quantized.engine not in ("x86", "fbgemm"):
        return None
    if not bool((matrix.isfinite() & (matrix.half().float() == matrix)).all()):
        return None
    try:
        return torch.ops.quantized.linear_prepack_fp16(matrix.detach().contiguous(), None)
    except (AttributeError, RuntimeError):  # left out of this build of torch, or not for this processor
        return None


class Matrix:
    """``matrix(x)``: (m, in) rows times the (out, in) ``weight``, (m, out), plus ``bias`` (out,) if there is one; packed where
    that is faster."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.packed, self.transposed, self.bias = pack(weight), weight.t(), bias
        if self.packed is None and weight.numel() <= COPY_LIMIT:
            self.transposed = self.transposed.contiguous()  # as the plain product reads it

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is not None and x.shape[0] <= MOST_ROWS:
            y = torch.ops.quantized.linear_dynamic_fp16(x, self.packed)
        else:
            y = x @ self.transposed
        return y if self.bias is None else y + self.bias


class ThinLinear(nn.Linear):
    """A bias-free nn.Linear over the same weight that multiplies few rows by its packed copy."""

    def __init__(self, linear: nn.Linear, packed) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.weight, self.bias = *linear.weight.shape[::-1], linear.weight, None
        self.packed = packed

    def forward(self, x: Tensor) -> Tensor:
        if x.numel() <= MOST_ROWS * self.in_features:
            return torch.ops.quantized.linear_dynamic_fp16(x, self.packed)
        return F.linear(x, self.weight)


def thin(model: nn.Module) -> int:
    """Give the bias-free linear layers of a frozen ``model`` a packed copy, where that changes no weight. Returns how many."""
    found = [(name, child) for name, child in model.named_modules() if type(child) is nn.Linear and child.bias is None]
    packed = [(name, child, copy) for name, child in found if (copy := pack(child.weight)) is not None]
    for name, child, copy in packed:
        model.set_submodule(name, ThinLinear(child, copy))
    return len(packed)
