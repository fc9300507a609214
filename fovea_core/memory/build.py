"""The visual memory: keys, values and validity of a picture's image tokens, built once per picture.

Sizes follow the FOVEA paper (arXiv 2608.22883): key width = value width = hidden size d, a single head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn


class MemoryWeights(nn.Module):
    """Everything learned about storing and asking: W_K, W_U, W_Q, their layer norms and the depth rows E_dep."""

    def __init__(self, hidden_size: int, depth_rows: int) -> None:
        super().__init__()
        self.norm_v = nn.LayerNorm(hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.value = nn.Linear(hidden_size, hidden_size, bias=False)
        self.norm_h = nn.LayerNorm(hidden_size)
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.depth = nn.Parameter(torch.randn(depth_rows, hidden_size) * 0.02)  # E_dep: (depth rows, d)

    def queries(self, states: torch.Tensor, depth: int | torch.Tensor) -> torch.Tensor:
        """FOVEA eq 4, first half: q_n = W_Q (LN(h_n) + E_dep[l_n]).

        states: (..., n, d) outputs of the last drafter block, before the final norm; depth: one number for all of them or
        (n,) int64. Returns (..., n, d).
        """
        return self.query(self.norm_h(states) + self.depth[depth])


@dataclass(frozen=True)
class VisualMemory:
    """Keys and values of N entries. keys, values: (..., N, d); valid: (..., N) bool, False where an entry is padding."""

    keys: torch.Tensor
    values: torch.Tensor
    valid: torch.Tensor
    weights: MemoryWeights

    @staticmethod
    def build(features: torch.Tensor, valid: torch.Tensor, weights: MemoryWeights) -> VisualMemory:
        """FOVEA eq 2-3: k_i = W_K LN(v_i), u_i = W_U LN(v_i).

        features: (..., N, d) image tokens after the target's projector; valid: (..., N) bool.
        Raises ValueError where the shapes disagree or a picture has no valid entry (its softmax would be empty).
        """
        if features.shape[:-1] != valid.shape:
            raise ValueError(f"features {tuple(features.shape)} and validity {tuple(valid.shape)} disagree")
        if not bool(valid.any(-1).all()):
            raise ValueError("a picture has no valid entry")
        normed = weights.norm_v(features)
        return VisualMemory(weights.key(normed), weights.value(normed), valid, weights)

    def partial_scores(self, states: torch.Tensor | None, depth: int | None) -> torch.Tensor:
        """Eq 4 with a part of the query left out: the state (None) or the depth row (None). (..., n or 1, N)."""
        weights = self.weights
        asked = self.keys.new_zeros(1, self.keys.shape[-1]) if states is None else weights.norm_h(states)
        asked = asked if depth is None else asked + weights.depth[depth]
        scores = weights.query(asked) @ self.keys.transpose(-1, -2) / math.sqrt(self.keys.shape[-1])
        return scores.masked_fill(~self.valid.unsqueeze(-2), -math.inf)

    @property
    def entries(self) -> torch.Tensor:
        """(N,) int64: number in the picture of each entry held."""
        return torch.arange(self.keys.shape[-2], device=self.keys.device)

    @property
    def n_valid(self) -> torch.Tensor:
        """(..., 1) int64: number of valid entries."""
        return self.valid.sum(-1, keepdim=True)

    def scores(self, states: torch.Tensor, depth: int | torch.Tensor) -> torch.Tensor:
        """FOVEA eq 4: s = q k / sqrt(d) for (..., n, d) states, -inf at padding. Returns (..., n, N)."""
        queries = self.weights.queries(states, depth)
        scores = queries @ self.keys.transpose(-1, -2) / math.sqrt(self.keys.shape[-1])  # (..., n, N)
        return scores.masked_fill(~self.valid.unsqueeze(-2), -math.inf)
