"""Controls: policies that choose entries by something less than the state's own query, to see what the query is worth.

random, static, query-agnostic and state-only are the FOVEA paper's controls (its Table 7). ``tiger-K`` is an inference-time
stand-in for TIGER (arXiv 2607.11131), known here from its abstract: one choice a round. All keep the same memory, readout and
correction: inside the chosen set the weights are eq 7 on the state's true scores.
"""

from __future__ import annotations

import math

import torch

from fovea_core.memory.select import Bounds, Policy, Selection


class Control(Policy):
    """A policy that keeps ``fixed`` entries which ``_wanted`` ranks first."""

    def __init__(self, name: str, bounds: Bounds, fixed: int, seed: int = 0) -> None:
        super().__init__(name, "best", bounds, fixed)
        self.seed = seed

    def select(self, states: torch.Tensor, depth: int | torch.Tensor, memory) -> Selection:
        """See Policy.select."""
        scores = memory.scores(states, depth)  # (..., n, N), -inf at padding
        wanted = self._wanted(states, depth, memory, scores).expand_as(scores)
        wanted = wanted.masked_fill(scores.isneginf(), -math.inf)
        best = wanted.topk(min(self.fixed, scores.shape[-1]), -1)
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best.indices, ~best.values.isneginf())
        return self.choose_within(scores, kept, memory.n_valid)

    def choose_within(self, scores: torch.Tensor, kept: torch.Tensor, n_valid: torch.Tensor) -> Selection:
        """Eq 5 and 7 for (..., n, N) scores and a chosen set ``kept`` (..., n, N) bool, which comes first in the order."""
        ordered, ranked = scores.sort(-1, descending=True)
        masses = torch.softmax(ordered, -1)
        _, k_raw = self._count(masses, n_valid)
        first = kept.gather(-1, ranked).to(torch.int8).sort(dim=-1, descending=True, stable=True).indices
        # The softmax is taken inside the set: entries chosen blindly may hold a mass that underflows to zero.
        weights = torch.softmax(scores.masked_fill(~kept, -math.inf), -1)
        return Selection(weights, ranked.gather(-1, first), masses.gather(-1, first), kept.sum(-1), k_raw)

    def _wanted(self, states: torch.Tensor, depth: int | torch.Tensor, memory, scores: torch.Tensor) -> torch.Tensor:
        """(..., n or 1, N): what the entries are ranked by."""
        raise NotImplementedError


class Random(Control):
    """K entries drawn evenly for every state; the draws depend on seed, round and depth only."""

    rounds = 0

    def start(self, memory, around=None) -> None:
        """A run begins."""
        self.rounds = 0

    def round(self, tip: torch.Tensor) -> None:
        """A round begins."""
        self.rounds += 1

    def _wanted(self, states, depth, memory, scores):
        number = int(depth) if not isinstance(depth, torch.Tensor) else int(depth.max())
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.rounds) * 101 + number)
        return torch.rand(scores.shape, generator=generator).to(scores.device)


class Static(Control):
    """The K best of the first root that is scored, for the whole answer."""

    first: torch.Tensor | None = None

    def start(self, memory, around=None) -> None:
        """A run begins."""
        self.first = None

    def _wanted(self, states, depth, memory, scores):
        if self.first is None:
            self.first = scores[..., :1, :]
        return self.first


class Agnostic(Control):
    """The K best for the depth row alone: no state is asked, so a picture's choice is the same for every word."""

    def _wanted(self, states, depth, memory, scores):
        return memory.partial_scores(None, 0)


class StateOnly(Control):
    """The K best for the state without its depth row."""

    def _wanted(self, states, depth, memory, scores):
        return memory.partial_scores(states, None)


class Tiger(Control):
    """Chosen once a round from the root's state without a depth row, for every state of the draft."""

    root: torch.Tensor | None = None

    def start(self, memory, around=None) -> None:
        """A run begins."""
        self.root = None

    def _wanted(self, states, depth, memory, scores):
        if self.root is None or (not isinstance(depth, torch.Tensor) and depth == 0):
            self.root = memory.partial_scores(states[..., :1, :], None)
        return self.root


CONTROLS: dict[str, type[Control]] = {
    "random": Random,
    "static": Static,
    "agnostic": Agnostic,
    "state": StateOnly,
    "tiger": Tiger,
}
