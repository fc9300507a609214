"""What a policy may ask of a target's run beside the memory (memory.select.Around)."""

from __future__ import annotations

import torch

from fovea_core.targets.base import TargetRun
from fovea_core.targets.geometry import centres
from fovea_core.targets.looking import Looking


class RunAround:
    """``run`` as policies may see it; ``watches``: whether they will ask where it looks (the run then has to watch)."""

    def __init__(self, run: TargetRun, watches: bool) -> None:
        self.run, self.looking = run, Looking(run) if watches else None

    def places(self) -> torch.Tensor:
        """See Around."""
        return torch.from_numpy(centres(self.run.tiles, len(self.run.valid)))

    def looked(self) -> torch.Tensor:
        """See Around."""
        return self.looking.masses()

    def visual_states(self) -> torch.Tensor:
        """See Around."""
        return self.looking.visual_states()
