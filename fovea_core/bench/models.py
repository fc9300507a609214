"""What a bench measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fovea_core.decode.cost import measure
from fovea_core.decode.draft import Drafter
from fovea_core.decode.fovea import load_drafter
from fovea_core.targets.base import Target
from fovea_core.targets.registry import load_target
from fovea_core.trace.events import CostTable


@dataclass(frozen=True)
class Models:
    """A target, its drafter, the drafter's blind twin, and what a forward costs with each, measured for this bench."""

    target: Target
    drafter: Drafter
    blind: Drafter
    cost: CostTable
    cost_blind: CostTable

    def named(self) -> dict[str, Target | Drafter]:
        """The three models by their part."""
        return {"target": self.target, "drafter": self.drafter, "blind": self.blind}


#: Makes target, drafter and blind twin; a function of a module, so that another process can call it too.
Loader = Callable[[], tuple[Target, Drafter, Drafter]]


def load_builtin() -> tuple[Target, Drafter, Drafter]:
    """The embedded models. Raises TargetError or DrafterError where their files are missing or wrong."""
    target = load_target("builtin")
    return target, load_drafter("builtin", target), load_drafter("blind", target)


def load_models(load: Loader, costs: tuple[CostTable, CostTable] | None = None) -> Models:
    """Load, and measure the cost tables unless they are given."""
    target, drafter, blind = load()
    costs = costs or (measure(target, drafter), measure(target, blind))
    return Models(target, drafter, blind, *costs)
