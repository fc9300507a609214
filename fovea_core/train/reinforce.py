"""TIGER's second phase: a router that can read learns by the accepted prefix itself, in groups, held near where it began.

Built from the abstract ('a short group-based policy phase with the accepted prefix as reward and a KL anchor'); how many
groups, which advantage and how strong an anchor are ours.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fovea_core.drafter.rival import RivalDrafter, Router
from fovea_core.train.loss import Parts, Truth
from fovea_core.train.prefix import accepted
from fovea_core.train.recipe import DrafterRecipe
from fovea_core.train.samples import Batch
from fovea_core.train.twin import Twin
from fovea_core.train.unroll import unroll
from fovea_core.train.variants import Variant

#: Choices that are drawn and drafted for each round; strength of the anchor; learning rate.
GROUPS, ANCHOR, RATE = 4, 0.05, 5e-4


def chosen_logp(logp: Tensor, chosen: Tensor) -> Tensor:
    """(...) log-probability of drawing ``chosen`` (..., K) in this order without putting back (Plackett-Luce).

    logp (..., N) log-probabilities of one draw. Entries of probability zero among the chosen add nothing.
    """
    picked = logp.gather(-1, chosen)
    gone = torch.zeros_like(logp, dtype=torch.bool)
    total = torch.zeros_like(picked[..., 0])
    for place in range(chosen.shape[-1]):
        live = ~picked[..., place].isneginf()
        left = torch.logsumexp(logp.masked_fill(gone, -1e9), -1)
        total = total + torch.where(live, picked[..., place] - left, 0.0)
        gone = gone.scatter(-1, chosen[..., place : place + 1], True)
    return total


def divergence(logp: Tensor, anchor: Tensor) -> Tensor:
    """(...) KL(p || anchor) of (..., N) log-probabilities that are -inf at the same places."""
    live = ~logp.isneginf()
    logp, anchor = logp.masked_fill(~live, 0), anchor.masked_fill(~live, 0)
    return (logp.exp() * (logp - anchor) * live).sum(-1)


def policy_loss(
    drafter: RivalDrafter, anchor: Router, batch: Batch, truth: Truth, levels: int, draws: torch.Generator
) -> tuple[Tensor, float]:
    """The group-based objective of the router, and the mean accepted prefix of the drawn choices.

    For each base GROUPS choices are drawn from the router (Gumbel top-k); the advantage of one is its accepted prefix less the
    mean of its group, over the group's spread. Only the router gets a gradient.
    """
    roots: list[Tensor] = []
    given = drafter.given(batch.view)

    def note(states: Tensor, found):
        roots.append(states)
        return drafter.settle(states, found)

    with torch.no_grad():
        unroll(drafter, batch, 1, given, note)
        before = anchor(roots[0], anchor.key(anchor.norm_source(batch.features)), batch.valid)
    logp = drafter.router(roots[0], given.asked, batch.valid)  # (B, A, N)
    shape = (batch.base.shape[0], levels, batch.base.shape[1])
    rewards, chances = [], []
    for _ in range(GROUPS):
        noise = torch.rand(logp.shape, generator=draws).clamp_(1e-9, 1 - 1e-9).to(logp.device)
        drawn = (logp.detach() - (-noise.log()).log()).topk(min(drafter.config.entries, logp.shape[-1]), -1).indices
        with torch.no_grad():
            fixed = lambda states, found, drawn=drawn: drafter.settle(states, found, chosen=drawn)  # noqa: E731
            states, _ = unroll(drafter, batch, levels, given, fixed)
            said = drafter.logits(drafter.norm(states.flatten(0, 2)[truth.rows])).argmax(-1)
        rewards.append(accepted(said == truth.labels, truth, shape))
        chances.append(chosen_logp(logp, drawn))
    reward, real = torch.stack(rewards), batch.real  # (groups, B, A)
    advantage = (reward - reward.mean(0)) / (reward.std(0, unbiased=False) + 1e-4)
    gain = (advantage * torch.stack(chances)).mean(0)[real].mean()
    return ANCHOR * divergence(logp, before)[real].mean() - gain, float(reward[:, real].mean())


class RoutedTwin(Twin):
    """A Twin whose last steps are the policy phase; ``anchor``: its router as it was when that began; ``routing``: whether the
    step is one of that phase."""

    routing = False

    def __init__(
        self, name: str, target, recipe: DrafterRecipe, start: Path | None = None, variant: Variant | None = None
    ) -> None:
        super().__init__(name, target, recipe, start, variant)
        self.turn = round((1 - self.variant.reinforce) * recipe.steps)  # first step of the policy phase
        self.anchor = copy.deepcopy(self.drafter.router).requires_grad_(False)
        self.tuning = torch.optim.AdamW(self.drafter.router.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0)

    def begin(self, step: int) -> None:
        """See Twin.begin; the anchor is the router as the policy phase finds it."""
        super().begin(step)
        self.routing = step >= self.turn
        if step == self.turn:
            self.anchor.load_state_dict(self.drafter.router.state_dict())

    def learn(self, batch: Batch, truth: Truth, step: int, share: float = 1.0) -> Parts:
        """See Twin.learn; of the policy phase the total is its own objective, the parts are those of the first phase."""
        if not self.routing:
            return super().learn(batch, truth, step, share)
        began = time.perf_counter()
        levels = self.recipe.levels(step)
        with self.products(batch):
            loss, _ = policy_loss(self.drafter, self.anchor, batch, truth, levels, self.draws)
        (loss * share).backward()
        with torch.no_grad():
            parts = self.loss(batch, truth, self.policy(step), levels)
        self.seconds += time.perf_counter() - began
        return replace(parts, total=loss.detach())

    def finish(self) -> None:
        """See Twin.finish; in the policy phase the router alone moves."""
        if not self.routing:
            return super().finish()
        began = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(self.drafter.router.parameters(), self.recipe.clip)
        self.tuning.step()
        self.seconds += time.perf_counter() - began

    def state(self) -> dict:
        """See Twin.state."""
        return super().state() | {"anchor": self.anchor.state_dict(), "tuning": self.tuning.state_dict()}

    def restore(self, state: dict) -> None:
        """See Twin.restore."""
        super().restore(state)
        self.anchor.load_state_dict(state["anchor"])
        self.tuning.load_state_dict(state["tuning"])
