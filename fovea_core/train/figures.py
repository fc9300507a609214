"""The figures of a drafter's training: loss, accuracy by level, length of a chain, of a batch or of the samples held out."""

from __future__ import annotations

import torch
from torch import Tensor

from fovea_core.memory.select import make_policy
from fovea_core.train.crew import ALONE, Crew
from fovea_core.train.loss import Parts, Truth
from fovea_core.train.prefix import accepted
from fovea_core.train.samples import Batch, Sample, collate
from fovea_core.train.twin import Twin, truth_of


def accuracy_by_depth(hits: Tensor, step: Tensor, steps: int) -> list[float]:
    """Share of rows whose likeliest token is the target's, by unroll step; 0 where there is none."""
    count = torch.bincount(step - 1, minlength=steps).clamp_min(1)
    right = torch.bincount(step - 1, weights=hits.float(), minlength=steps)
    return [round(value, 4) for value in (right / count).tolist()]


def chain_length(hits: Tensor, truth: Truth, batch: Batch, steps: int) -> tuple[float, int]:
    """Sum over bases of the tokens one round of a chain draft would emit there, bonus included, and the number of bases."""
    runs = accepted(hits, truth, (batch.base.shape[0], steps, batch.base.shape[1])) + 1  # (B, A)
    return float(runs[batch.real].sum()), int(batch.real.sum())


@torch.no_grad()
def evaluate(twin: Twin, held: list[Sample]) -> dict:
    """Loss, accuracy by depth and mean chain length over the bases of the samples held out."""
    recipe, rows = twin.recipe, []
    length, bases = 0.0, 0
    for first in range(0, len(held), recipe.batch):
        batch = collate(held[first : first + recipe.batch], twin.drafter.head.device)
        truth = truth_of(batch, twin.drafter.head, recipe.unroll)
        if truth.rows.numel() == 0:
            continue
        parts = twin.loss(batch, truth, make_policy("fovea", twin.drafter.config.bounds), recipe.unroll)
        rows.append((parts.hits, truth.step, float(parts.total) * truth.rows.numel()))
        more, count = chain_length(parts.hits, truth, batch, recipe.unroll)
        length, bases = length + more, bases + count
    if not rows:
        return {}
    hits, step = torch.cat([row[0] for row in rows]), torch.cat([row[1] for row in rows])
    loss = sum(row[2] for row in rows) / hits.numel()
    accuracy = accuracy_by_depth(hits, step, recipe.unroll)
    return {"held_loss": round(loss, 4), "held_accuracy": accuracy, "held_chain": round(length / bases, 4)}


class Tally:
    """What a step of one twin amounts to, as sums over its batches, which may be of several processes.

    sums (7 + 2 levels,) float64: the loss and its PARTS, batches, chain length, bases; then by level right rows, and rows.
    """

    PARTS = ("total", "hidden", "kl", "token")

    def __init__(self, levels: int) -> None:
        self.levels, self.sums = levels, torch.zeros(7 + 2 * levels, dtype=torch.float64)

    def add(self, parts: Parts, truth: Truth, batch: Batch) -> None:
        """Count a batch."""
        length, bases = chain_length(parts.hits, truth, batch, self.levels)
        values = [getattr(parts, name).item() for name in self.PARTS]
        right = torch.bincount(truth.step - 1, weights=parts.hits.double(), minlength=self.levels).tolist()
        rows = torch.bincount(truth.step - 1, minlength=self.levels).tolist()
        self.sums += torch.tensor([*values, 1, length, bases, *right, *rows], dtype=torch.float64)

    def line(self, crew: Crew = ALONE) -> dict:
        """The means of loss and its parts, accuracy by depth, mean chain length: over all batches of the crew."""
        sums = crew.sum(self.sums)
        batches, length, bases = sums[4:7].tolist()
        right, rows = sums[7:].chunk(2)
        return {
            **dict(zip(self.PARTS, (sums[:4] / batches).tolist())),
            "accuracy": (right / rows.clamp_min(1)).tolist(),
            "chain": length / bases,
        }
