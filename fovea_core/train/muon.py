"""Muon for CPUs: torch's own, but for the number format of its products."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class BatchedMuon(getattr(torch.optim, "Muon", torch.optim.Optimizer)):
    """torch.optim.Muon with ``adjust_lr_fn='match_rms_adamw'`` whose Newton-Schulz products keep the weights' own format, all
    matrices of one shape in one product.

    torch's casts them to bfloat16, which a CPU without such units multiplies so slowly that a drafter's training step was
    hardly anything else (docs/LOG.md). State and settings are torch's own, so either goes on from the other's checkpoint.
    """

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """One step. Raises ValueError for a closure, which nothing here needs."""
        if closure is not None:
            raise ValueError("BatchedMuon takes no closure.")
        for group in self.param_groups:
            shapes: dict[tuple, list[int]] = defaultdict(list)
            weights, grads, averages = [], [], []
            self._init_group(group, weights, grads, averages)
            for number, weight in enumerate(weights):
                shapes[tuple(weight.shape)].append(number)
            for shape, numbers in shapes.items():
                rate = group["lr"] * 0.2 * math.sqrt(max(shape))
                torch._foreach_lerp_([averages[n] for n in numbers], [grads[n] for n in numbers], 1 - group["momentum"])
                ahead = torch.stack([grads[n].lerp(averages[n], group["momentum"]) for n in numbers])
                turned = orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"]).unbind()
                kept = [weights[n] for n in numbers]
                torch._foreach_mul_(kept, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(kept, turned, alpha=-rate)


def orthogonal(matrices: Tensor, coefficients: Sequence[float], steps: int, eps: float) -> Tensor:
    """Matrices (n, rows, columns) with singular values near 1 and the same singular vectors: X <- a X + (b G + c G G) X with
    G = X X^T, ``steps`` times from X of norm 1 (Jordan et al., 'Muon', 2024)."""
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.flatten(1).norm(dim=1).clamp_min(eps)[:, None, None]
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def check_muon() -> None:
    """Raise ValueError where torch has no Muon."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError("training needs torch 2.9 or newer.")


def make_muon(matrices: list[nn.Parameter], lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Muon with AdamW's step size for ``matrices``: torch's own on a GPU, BatchedMuon on a CPU. Raises as check_muon does."""
    check_muon()
    kind = BatchedMuon if all(p.device.type == "cpu" for p in matrices) else torch.optim.Muon
    return kind(matrices, lr=lr, momentum=0.95, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
