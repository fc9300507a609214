"""What a trained rival's reader read, as looks for the trace: its weights, the mean over heads, on entries of the picture.

Made only where nodes are recorded. Nothing here is used by the draft itself, and nothing is read by the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fovea_core.decode.sketch import Look
from fovea_core.memory.select import MASS_TOLERANCE
from fovea_core.trace.reads import MOST_SHOWN, SHOWN


@dataclass(frozen=True)
class Taken:
    """What n states read: weights (n, L) that sum to 1 over the L things that may be read; gates (n, 1), None where the reader
    has none; ms: what it took for each state. ``entries`` (L,): which entries of the picture these are, None for cells."""

    weights: Tensor
    gates: Tensor | None
    ms: float
    entries: Tensor | None = None

    def row(self, number: int, count: int) -> Taken:
        """What state ``number`` read, for ``count`` nodes that it stands for."""
        weights, gates = (
            None if part is None else part[number : number + 1].expand(count, -1) for part in (self.weights, self.gates)
        )
        return Taken(weights, gates, self.ms / count, self.entries)


def look_at_entries(taken: Taken, n_valid: int, depth: int, nodes: Tensor) -> Look:
    """A look of states at a few chosen entries: all of them, whatever their weight; the (n,) ``nodes`` are the states'."""
    masses, order = taken.weights.sort(dim=-1, descending=True, stable=True)
    count = torch.full_like(masses[:, 0], masses.shape[-1])
    peak = _peak(-torch.special.xlogy(masses, masses).sum(-1), n_valid)
    return Look(depth, nodes, taken.entries[order], masses, _stats(count, count, peak, taken.gates), taken.ms)


class Cells:
    """The entries of a picture in the cells that were pooled over them: numbers (N,) int64 of cells as
    decode.rival.cell_numbers gives them, valid (N,) bool."""

    def __init__(self, numbers: Tensor, valid: Tensor) -> None:
        cells = int(numbers.max()) + 1
        self.n_valid = int(valid.sum())
        self.home = torch.where(valid, numbers, -1) % (cells + 1)  # the last one is that of entries in no cell
        self.sizes = torch.bincount(self.home, minlength=cells + 1)[:cells]

    def look(self, taken: Taken, depth: int, nodes: Tensor) -> Look:
        """A look of states at all cells. An entry's mass is its cell's weight over the cell's valid entries.

        Told are the entries of whole cells, those with most mass an entry first, until they hold SHOWN of the weight, but not
        more than MOST_SHOWN entries: the count is that of the entries told, k_raw that without the limit. The peak is that of
        all entries.
        """
        each = taken.weights / self.sizes.clamp_min(1)  # (n, C)
        ordered, cells = each.sort(dim=-1, descending=True, stable=True)
        sizes = self.sizes[cells]
        ends, held = sizes.cumsum(-1), (ordered * sizes).cumsum(-1, dtype=torch.float64)
        wanted = (held < SHOWN - MASS_TOLERANCE).sum(-1, keepdim=True).clamp_max(each.shape[-1] - 1)  # index of the last cell
        fitting = (ends <= MOST_SHOWN).sum(-1, keepdim=True) - 1
        k_raw, count = (ends.gather(-1, last.clamp_min(0))[:, 0] for last in (wanted, torch.minimum(wanted, fitting)))
        rank = torch.full((len(each), each.shape[-1] + 1), each.shape[-1], device=each.device)
        rank.scatter_(-1, cells, torch.arange(each.shape[-1], device=each.device).expand_as(cells))
        order = rank[:, self.home].sort(dim=-1, stable=True).indices[:, :MOST_SHOWN]  # entries, cell by cell
        masses = torch.cat((each, each.new_zeros(len(each), 1)), -1).gather(-1, self.home[order])
        peak = _peak(-torch.special.xlogy(taken.weights, each).sum(-1), self.n_valid)
        return Look(depth, nodes, order, masses, _stats(count, k_raw, peak, taken.gates), taken.ms)


def _peak(entropy: Tensor, n_valid: int) -> Tensor:
    """See decode.tree.Read."""
    return 1 - entropy / math.log(n_valid) if n_valid > 1 else torch.ones_like(entropy)


def _stats(count: Tensor, k_raw: Tensor, peak: Tensor, gates: Tensor | None) -> Tensor:
    columns = [count, k_raw, peak] if gates is None else [count, k_raw, peak, gates[:, 0]]
    return torch.stack([column.to(torch.float32) for column in columns], 1)
