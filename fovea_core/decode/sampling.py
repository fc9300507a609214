"""The target's own choice of a token: one rule for plain decoding, verification and the bonus token.

The random number of an answer position depends on seed and position only, so speculative and plain sampling with one seed
give the same tokens for every drafter and tree.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fovea_core.settings import RunSettings


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides answer token ``position`` (0 = first) under ``seed``; counter-based (Philox)."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=[position, 0, 0, 0])).random())


def uniforms(seed: int, count: int, device: torch.device) -> Tensor:
    """``uniform`` of the answer positions 0 .. ``count`` - 1: (count,) float64."""
    return torch.tensor([uniform(seed, position) for position in range(count)], dtype=torch.float64, device=device)


def warped(logits: Tensor, temperature: float, top_p: float) -> Tensor:
    """(..., V) raw logits to (..., V) float64 probabilities: temperature, then the smallest set of best tokens that hold top_p.

    The best token always stays. ``temperature`` > 0. Tokens of one probability leave in order of falling id.
    """
    exact = logits.double()
    probabilities = torch.softmax((exact - exact.amax(-1, keepdim=True)) / temperature, -1)
    if top_p < 1:
        ordered, index = probabilities.sort(descending=True, stable=True)
        keep = ordered.cumsum(-1) - ordered < top_p
        kept = torch.where(keep, ordered, 0)
        probabilities = torch.zeros_like(probabilities).scatter_(-1, index, kept / kept.sum(-1, keepdim=True))
    return probabilities


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Inverse of the cumulative distribution of (..., V) float64 ``probabilities`` at (..., m) float64 ``numbers`` in [0, 1):
    (..., m)."""
    steps = probabilities.cumsum(-1)
    total = steps[..., -1:].contiguous()
    found = torch.searchsorted(steps, total * numbers, right=True)
    found = found.minimum(torch.searchsorted(steps, total))  # where rounding puts a number on the total itself: the last token
    return found.clamp_max(steps.shape[-1] - 1)  # probabilities that are no numbers (an overflow) still give a token


def choose(logits: Tensor, settings: RunSettings, position: int) -> int:
    """The target's token at answer ``position`` from (V,) raw logits: argmax, or a draw where temperature > 0."""
    if settings.temperature == 0:
        return int(logits.argmax())
    number = torch.tensor([uniform(settings.seed, position)], dtype=torch.float64, device=logits.device)
    return int(draw(warped(logits, settings.temperature, settings.top_p), number))


def choose_each(logits: Tensor, settings: RunSettings, numbers: Tensor) -> Tensor:
    """``choose`` for (n, V) raw logits without a read by the host: (n,) tokens; temperature > 0. numbers: (n,) float64, the
    ``uniform`` number of each row's answer position."""
    return draw(warped(logits, settings.temperature, settings.top_p), numbers[:, None])[:, 0]
