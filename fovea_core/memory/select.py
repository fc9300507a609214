"""Which entries a state retrieves: the policies over FOVEA eq 4-7.

One implementation serves training (batches, gradients) and decoding: the scores are sorted once, the cumulative mass is
summed in float64 (in float32, 500 equal masses need 401 entries instead of 400), and there is no loop over states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from fovea_core.settings import POLICIES, POLICY

#: A cumulative mass this close below rho counts as reached: softmax masses are float32.
MASS_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Bounds:
    """How many entries a read may keep (eq 6): at least k_min, at most k_max, enough for the share rho of the mass.

    Raises ValueError unless 1 <= k_min <= k_max and 0 < rho <= 1.
    """

    k_min: int
    k_max: int
    rho: float

    def __post_init__(self) -> None:
        if not (1 <= self.k_min <= self.k_max and 0 < self.rho <= 1):
            raise ValueError(f"bounds {self.k_min}..{self.k_max} at rho {self.rho} are not possible")


#: The paper's bounds, for 900 to 2,900 entries.
PAPER_BOUNDS = Bounds(32, 256, 0.8)


class Around(Protocol):
    """What a policy may ask of a run beside the memory. N: all entries of the picture, padding included."""

    def places(self) -> torch.Tensor:
        """(N, 2) float32: centre of each entry in fractions of the picture, -1 for an entry without a place."""

    def looked(self) -> torch.Tensor:
        """(layers, N) float32: on what the target looked when it predicted the root, each layer's masses over valid entries."""

    def visual_states(self) -> torch.Tensor:
        """(layers, N, d): the target's own states at the image tokens, as they enter the layers it is watched in."""


@dataclass(frozen=True)
class Selection:
    """What n states chose among N entries.

    weights: (..., n, N) eq 7, zero outside the chosen set; order: (..., n, N) int64, entries in falling order of mass;
    masses: (..., n, N) eq 5 in that order, over all valid entries, before any clipping; count: (..., n) int64, the chosen
    set is the first ``count`` of the order; k_raw: (..., n) int64, entries needed for rho before clipping (eq 6).
    """

    weights: torch.Tensor
    order: torch.Tensor
    masses: torch.Tensor
    count: torch.Tensor
    k_raw: torch.Tensor


def peak_of(masses: torch.Tensor, n_valid: torch.Tensor) -> torch.Tensor:
    """(..., n): 1 - entropy / log(valid entries) of (..., n, N) masses; 1 where a single entry is valid."""
    entropy = -torch.special.xlogy(masses, masses).sum(-1)
    return torch.where(n_valid > 1, 1 - entropy / n_valid.clamp_min(2).log(), 1.0)


class Policy:
    """What the memory does in a run. ``rule`` is 'mass', 'best' (``fixed`` entries), 'all' or 'none'.

    ``watches``: whether it asks what only a run with watched layers knows (targets.looking).
    """

    watches = False

    def __init__(self, name: str, rule: str, bounds: Bounds, fixed: int = 0) -> None:
        self.name, self.rule, self.bounds, self.fixed = name, rule, bounds, fixed

    @property
    def reads(self) -> bool:
        """False where states are scored without the memory."""
        return self.rule != "none"

    @property
    def most(self) -> int | None:
        """No state chooses more entries than this; None where it may choose all."""
        return (self.bounds.k_max if self.rule == "mass" else self.fixed) or None

    def start(self, memory, around: Around | None = None) -> None:
        """Called once a run; the policies here keep nothing between states. ``around``: what else may be asked."""

    def round(self, tip: torch.Tensor) -> None:
        """Called when tokens were committed, with the target's (d or more,) state that predicted the last of them."""

    def select(self, states: torch.Tensor, depth: int | torch.Tensor, memory) -> Selection:
        """Choose for (..., n, d) states at ``depth`` (one number or (n,)). ``memory`` has ``scores`` and ``n_valid``."""
        return self.choose(memory.scores(states, depth), memory.n_valid)

    def choose(self, scores: torch.Tensor, n_valid: torch.Tensor) -> Selection:
        """FOVEA eq 5-7 on (..., n, N) scores with -inf at padding; n_valid: () or (..., 1) int64, number of valid entries."""
        # The scores are sorted, not the masses: a mass may underflow to zero and would then tie with padding.
        ordered, order = scores.sort(-1, descending=True)
        masses = torch.softmax(ordered, -1)  # eq 5, (..., n, N)
        with torch.no_grad():
            count, k_raw = self._count(masses, n_valid)
            ranks = torch.arange(masses.shape[-1], device=masses.device)
            kept = ranks < count.unsqueeze(-1)  # (..., n, N)
        inside = masses * kept
        inside = inside / inside.sum(-1, keepdim=True)  # eq 7: the softmax renormalised inside the chosen set
        weights = torch.zeros_like(inside).scatter(-1, order, inside)
        return Selection(weights, order, masses, count, k_raw)

    def _count(self, masses: torch.Tensor, n_valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Eq 6 on falling masses (..., n, N): K = min(n_valid, K_max, max(K_min, K_raw)). Returns (K, K_raw), each (..., n)."""
        total = masses.cumsum(-1, dtype=torch.float64)
        short = (total < self.bounds.rho - MASS_TOLERANCE).sum(-1)
        k_raw = torch.minimum(short + 1, n_valid)
        if self.rule == "mass":
            count = k_raw.clamp(self.bounds.k_min, self.bounds.k_max)
        elif self.rule == "best":
            count = torch.full_like(k_raw, self.fixed)
        else:
            count = torch.full_like(k_raw, masses.shape[-1])
        return torch.minimum(count, n_valid), k_raw


def make_policy(name: str, bounds: Bounds, seed: int = 0) -> Policy:
    """The policy called ``name`` (settings.POLICIES); ``seed`` decides the draws of random-K. Raises ValueError for others."""
    from fovea_core.memory.controls import CONTROLS
    from fovea_core.memory.rivals import RIVALS

    if not POLICY.fullmatch(name):
        raise ValueError(f"policy {name[:40]!r} is not known: {POLICIES}")
    rule, _, fixed = name.partition("-")
    if kind := (CONTROLS | RIVALS).get(rule):
        return kind(name, bounds, int(fixed or 0), seed)
    return Policy(name, {"fovea": "mass", "dense": "all", "none": "none", "topk": "best"}[rule], bounds, int(fixed or 0))
