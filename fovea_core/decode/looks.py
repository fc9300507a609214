"""Where the target looked as it said each word of a round: reads for the trace, made only where they are asked for."""

from __future__ import annotations

import math

import torch

from fovea_core.decode.tree import Read
from fovea_core.decode.verify import Verdict
from fovea_core.memory.rivals import vote
from fovea_core.settings import RunSettings
from fovea_core.targets.base import TargetRun
from fovea_core.targets.looking import Looking

#: Entries of a look that are told, chosen as Uni-LaSpec chooses its own.
TOLD = 8


def wanted(settings: RunSettings) -> bool:
    """Whether a run with these settings records where its target looked."""
    return settings.looks and settings.detail == "nodes"


class Looks:
    """The looks of one run, of none where ``settings`` do not want them."""

    def __init__(self, run: TargetRun, settings: RunSettings) -> None:
        self.looking = Looking(run) if wanted(settings) else None

    @torch.inference_mode()
    def of(self, verdict: Verdict) -> list[Read]:
        """One read a token that the round just committed emitted, at the node that predicted it. ``masses`` are means over
        layers and heads; ``captured`` is what the told entries hold, ``k_raw`` how many would hold 80 %."""
        if self.looking is None:
            return []
        masses, valid = self.looking.along(verdict.path)[: len(verdict.emitted)], self.looking.valid
        return [_read(node, depth, look, valid) for depth, (node, look) in enumerate(zip(verdict.path, masses))]


def _read(node: int, depth: int, masses: torch.Tensor, valid: torch.Tensor) -> Read:
    """masses: (layers, N) of one node."""
    count, mean = int(valid.sum()), masses.mean(0)
    told = vote(masses).masked_fill(~valid, -1).topk(min(TOLD, count)).indices
    told = told[mean[told].argsort(descending=True)]
    entropy = float(-torch.special.xlogy(mean, mean).sum())
    falling = mean.double().sort(descending=True).values.cumsum(0)
    return Read(
        node=node,
        depth=depth,
        entries=told.cpu(),
        masses=mean[told].cpu(),
        captured=min(1.0, float(mean[told].sum())),
        k_raw=min(count, int((falling < 0.8 - 1e-6).sum()) + 1),
        peak=min(1.0, max(0.0, 1 - entropy / math.log(count))) if count > 1 else 1.0,
        source="target",
    )
