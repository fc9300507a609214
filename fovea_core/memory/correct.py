"""Readout, gate and correction (FOVEA eq 7-9), and the same folded for one picture so that a draft step is cheap."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from fovea_core.memory.build import VisualMemory
from fovea_core.thin import Matrix

#: Where an untrained gate stands: sigmoid(-1) = 0.27 lets the last layer of f, which starts at zero, learn from the start.
GATE_BIAS = -1.0


class Correction(nn.Module):
    """f and g of eq 8: each Linear(2d, width) - SiLU - Linear(width, d or 1). An untrained correction is zero."""

    def __init__(self, hidden_size: int, width: int = 512) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2 * hidden_size, width), nn.SiLU(), nn.Linear(width, hidden_size))
        self.g = nn.Sequential(nn.Linear(2 * hidden_size, width), nn.SiLU(), nn.Linear(width, 1))
        nn.init.zeros_(self.f[2].weight)
        nn.init.zeros_(self.f[2].bias)
        nn.init.constant_(self.g[2].bias, GATE_BIAS)

    def forward(self, states: torch.Tensor, readout: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Eq 8: c_n = f([h_n; r_n]) (..., d) and g_n = sigmoid(g([h_n; r_n])) (..., 1) from (..., d) states and readouts."""
        both = torch.cat((states, readout), -1)
        return self.f(both), torch.sigmoid(self.g(both))


def read(states, depth, memory: VisualMemory, policy, correction: Correction):
    """Eq 4-9 for (..., n, d) states: returns (h + g c, Selection, gate (..., n, 1), correction (..., n, d))."""
    chosen = policy.select(states, depth, memory)
    readout = chosen.weights @ memory.values  # eq 7: (..., n, d)
    shift, gate = correction(states, readout)
    return states + gate * shift, chosen, gate, shift


class FoldedCorrection:
    """A correction's matrices as decoding multiplies by them; one for all pictures.

    The first layers of f and g stand side by side and are split: ``from_state`` and ``from_readout`` act on h and r of [h; r].
    """

    @torch.no_grad()
    def __init__(self, correction: Correction) -> None:
        f, g = correction.f, correction.g
        size, self.width = f[2].out_features, f[0].out_features
        first = torch.cat((f[0].weight, g[0].weight))  # (2 width, 2 d)
        self.from_state, self.from_readout = Matrix(first[:, :size].contiguous()), first[:, size:].t()
        self.first_bias = torch.cat((f[0].bias, g[0].bias))
        self.f_last, self.f_bias = Matrix(f[2].weight), f[2].bias
        self.g_last, self.g_bias = g[2].weight.t().contiguous(), g[2].bias


class FoldedMemory:
    """A picture's memory with every product that does not depend on the state multiplied out once per picture.

    Scores: (LN(h) + E) W_Q^T K^T / sqrt(d) = norm(h) A + a_l, so W_Q and the keys become one matrix A (d, n) and one row
    a_l per depth. Correction: the first layers of f and g act on [h; r] with r = alpha U, so their right halves and the
    values become one matrix P (n, 2 width). Padding is left out: only the n valid entries are held, ``entries`` (n,)
    gives their numbers in the picture. Same numbers as ``read`` up to rounding; tests compare them.
    """

    def __init__(self, memory: VisualMemory, correction: FoldedCorrection) -> None:
        weights, self.entries, self.correction = memory.weights, memory.valid.nonzero()[:, 0], correction
        keys, values = memory.keys[self.entries], memory.values[self.entries]
        size = keys.shape[-1]
        asked = weights.query.weight.t() @ keys.t() / math.sqrt(size)  # (d, n)
        self.ask = (weights.norm_h.weight[:, None] * asked).contiguous()
        self.depth_rows = weights.depth @ asked  # (depth rows, n)
        self.bias_row = weights.norm_h.bias @ asked  # (n,)
        self.rows = self.depth_rows + self.bias_row
        self.size, self.eps, self.n_valid = size, weights.norm_h.eps, memory.valid.sum()
        # P: (n, 2 width); the weights of a read sum to 1, so that each row may carry the bias
        self.from_entry = torch.addmm(correction.first_bias, values, correction.from_readout)

    def without(self, lost: torch.Tensor) -> FoldedMemory:
        """The same memory with the entries numbered ``lost`` (k,) int64 invalid too. They keep their places, so that a policy
        may go on with what it chose before, but every score of theirs is -inf.

        Raises ValueError where no entry would be left.
        """
        gone = torch.isin(self.entries, lost.to(self.entries.device))
        if bool(gone.all()):
            raise ValueError("a memory without a valid entry cannot be read")
        left = copy.copy(self)
        left.n_valid = (~gone).sum()
        for name in ("rows", "depth_rows", "bias_row"):  # each score is a finite product added to one of these
            setattr(left, name, getattr(self, name).masked_fill(gone, -math.inf))
        return left

    def scores(self, states: torch.Tensor, depth: int | torch.Tensor) -> torch.Tensor:
        """Eq 4 for (m, d) states of one depth, or of (m,) depths: (m, n)."""
        return torch.addmm(self.rows[depth], F.layer_norm(states, (self.size,), eps=self.eps), self.ask)

    def partial_scores(self, states: torch.Tensor | None, depth: int | None) -> torch.Tensor:
        """Eq 4 with a part of the query left out: the state (None) or the depth row (None). (m or 1, n)."""
        row = torch.zeros_like(self.bias_row) if depth is None else self.depth_rows[depth]
        if states is None:
            return row[None]
        return torch.addmm(row + self.bias_row, F.layer_norm(states, (self.size,), eps=self.eps), self.ask)

    def correct(self, states: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Eq 7-9: (m, d) states and (m, n) weights to (h + g c, gate (m, 1), correction (m, d))."""
        own, width = self.correction, self.correction.width
        hidden = F.silu(torch.addmm(own.from_state(states), weights, self.from_entry))  # (m, 2 width)
        shift = own.f_last(hidden[:, :width]) + own.f_bias
        gate = torch.sigmoid(torch.addmm(own.g_bias, hidden[:, width:], own.g_last))
        return torch.addcmul(states, gate, shift), gate, shift


class StackedMemory:
    """The folded memories of L pictures side by side, for states of each: as long as the longest, padding scores -inf.

    ``n_valid`` (L, 1).
    """

    def __init__(self, memories: Sequence[FoldedMemory]) -> None:
        first, most = memories[0], max(memory.entries.shape[0] for memory in memories)
        missing = [most - memory.entries.shape[0] for memory in memories]
        self.correction, self.size, self.eps = first.correction, first.size, first.eps
        self.ask = torch.stack([F.pad(memory.ask, (0, gap)) for memory, gap in zip(memories, missing)])
        self.rows = torch.stack([F.pad(memory.rows, (0, gap), value=-math.inf) for memory, gap in zip(memories, missing)])
        self.from_entry = torch.stack([F.pad(memory.from_entry, (0, 0, 0, gap)) for memory, gap in zip(memories, missing)])
        self.n_valid = torch.stack([memory.n_valid for memory in memories])[:, None]

    def scores(self, states: torch.Tensor, depth: int) -> torch.Tensor:
        """Eq 4 for (L, m, d) states of one depth: (L, m, n)."""
        normed = F.layer_norm(states, (self.size,), eps=self.eps)
        return torch.baddbmm(self.rows[:, depth, None], normed, self.ask)

    def correct(self, states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Eq 7-9: (L, m, d) states and (L, m, n) weights to h + g c."""
        own, width = self.correction, self.correction.width
        from_state = own.from_state(states.flatten(0, 1)).unflatten(0, states.shape[:2])
        hidden = F.silu(torch.baddbmm(from_state, weights, self.from_entry)).flatten(0, 1)  # (L m, 2 width)
        gate = torch.sigmoid(torch.addmm(own.g_bias, hidden[:, width:], own.g_last))
        shift = own.f_last(hidden[:, :width]) + own.f_bias
        return torch.addcmul(states, gate.unflatten(0, states.shape[:2]), shift.unflatten(0, states.shape[:2]))
