"""How long a prefix of a chain draft is accepted: counted, and what each position adds to it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fovea_core.train.loss import CHUNK, Truth


def accepted(hits: Tensor, truth: Truth, shape: tuple[int, int, int]) -> Tensor:
    """(B, A) float32: drafted tokens that a chain draft from each base would have accepted.

    hits (M,) bool: whether each supervised row's likeliest token is the target's; shape: (B, steps, A) of the rows' numbers.
    """
    table = torch.zeros(shape, device=hits.device)
    table.view(-1)[truth.rows] = hits.float()
    return table.cumprod(1).sum(1)


@torch.no_grad()
def prefix_weights(scoring: Tensor, head: Tensor, truth: Truth, shape: tuple[int, int, int], least: float = 0.02) -> Tensor:
    """(M,) what each supervised position adds to the expected length of its accepted prefix, at least ``least``.

    With a_s the probability of the target's token at position s of a draft, the prefix has the expected length
    sum_t a_1 ... a_t; the weight of s is its derivative by a_s. shape: (B, steps, A) of the rows' numbers.
    """
    table = torch.zeros(shape, device=scoring.device)
    for part in torch.arange(scoring.shape[0], device=scoring.device).split(CHUNK):
        logp = F.log_softmax((scoring[part] @ head.to(scoring.dtype).t()).float(), -1)
        table.view(-1)[truth.rows[part]] = logp.gather(-1, truth.labels[part, None])[:, 0].exp()
    before, behind = torch.ones_like(table), torch.ones_like(table)
    for step in range(1, shape[1]):
        before[:, step] = before[:, step - 1] * table[:, step - 1]
        behind[:, -1 - step] = 1 + table[:, -step] * behind[:, -step]
    return (before * behind).view(-1)[truth.rows].clamp_min(least)
