"""One drafter in training: what the target said, the objective on a batch, one optimizer step."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from fovea_core.drafter.checkpoint import make_drafter, read_config, read_drafter
from fovea_core.drafter.model import Drafter
from fovea_core.drafter.published import UNTRAINED
from fovea_core.drafter.rival import Given, RivalDrafter
from fovea_core.memory.select import Policy, make_policy
from fovea_core.train.looks import look_loss
from fovea_core.train.loss import LossWeights, Parts, Truth, fovea_loss
from fovea_core.train.muon import make_muon
from fovea_core.train.prefix import prefix_weights
from fovea_core.train.recipe import DrafterRecipe, config_for
from fovea_core.train.samples import Batch
from fovea_core.train.unroll import Feed, Settle, supervised, unroll
from fovea_core.train.variants import TWINS, Variant

#: Bias of a gate that is left out: its sigmoid is 1 in float32.
OPEN = 30.0


@torch.no_grad()
def truth_of(batch: Batch, head: Tensor, steps: int) -> Truth:
    """Collect h^T, h~^T, labels and p^T = softmax(head h^T) for every supervised (sample, step, base)."""
    rows = supervised(batch, steps).flatten().nonzero()[:, 0]
    bases, size = batch.base.shape[1], head.shape[1]
    a, s, b = rows % bases, rows // bases % steps, rows // (bases * steps)
    after = batch.base[b, a] + s + 1
    last = batch.states[..., :size]
    answers = last[torch.arange(batch.base.shape[0])[:, None], batch.base + 1]  # (B, A, d): h^T of each answer item
    log_p = torch.log_softmax(answers.flatten(0, 1) @ head.t(), -1)  # (B A, V)
    p = log_p.exp()
    return Truth(
        rows=rows,
        step=s + 1,
        position=a + s + 1,
        states=last[b, after],
        middle=batch.mid[b, a + s],
        labels=p.argmax(-1)[b * bases + a + s],
        item=b * bases + a + s,
        probabilities=p,
        negentropy=(p * log_p).sum(-1),
    )


def draft_loss(
    drafter: Drafter, batch: Batch, truth: Truth, policy: Policy, steps: int, weights: LossWeights, how: Unrolled | None = None
) -> Parts:
    """The objective of one drafter on one batch."""
    if how is None:
        how = Unrolled(drafter.given(batch.view)) if isinstance(drafter, RivalDrafter) else Unrolled()
    states, middle = unroll(drafter, batch, steps, how.given, how.settle, how.feed)
    depth = torch.arange(steps, device=states.device).repeat_interleave(states.shape[2])  # (steps A,)
    memory = drafter.remember(batch.seen(drafter.config.memory_layer), batch.valid)
    scoring = drafter.scoring_states(states.flatten(1, 2), depth, memory, policy).flatten(0, 1)[truth.rows]
    shape = (states.shape[0], steps, states.shape[2])
    w = prefix_weights(scoring, drafter.head, truth, shape) if how.by_prefix else None
    looks = None if memory is None or not weights.look else look_loss(memory, states, depth, batch, truth.rows)
    return fovea_loss(scoring, middle.flatten(0, 2)[truth.rows], drafter.head, truth, weights, w, looks)


@dataclass(frozen=True)
class Unrolled:
    """How a variant is unrolled on a batch: see unroll; by_prefix: see Variant."""

    given: Given | None = None
    settle: Settle | None = None
    feed: Feed | None = None
    by_prefix: bool = False


class Twin:
    """One drafter in training with its optimizers; it begins with the weights of the drafter folder ``start``, or from nothing.

    variant: what it is, by default the twin of that ``name``; turn: first step of a second phase, where there is one, and warm:
    how it stood then (drafter.evaluate).

    Raises DrafterError where the folder cannot be read, ValueError where its weights have other shapes than the recipe's.
    """

    turn: int | None = None

    def __init__(
        self, name: str, target, recipe: DrafterRecipe, start: Path | None = None, variant: Variant | None = None
    ) -> None:
        self.warm: dict = {}
        self.name, self.recipe, self.variant = name, recipe, variant or TWINS[name]
        self.weights = replace(recipe.loss, **self.variant.loss)
        torch.manual_seed(recipe.seed)  # all start from the same body
        memory_only = recipe.only == "memory"
        if memory_only and (start is None or not self.variant.sighted):
            raise ValueError("to train the memory only, name a drafter with --start, and no blind twin.")
        if memory_only:
            config = read_config(start).model_copy(update={"memory_layer": recipe.memory_layer})
        else:
            config = config_for(target, recipe, self.variant, name)
        if memory_only and (config.target_fingerprint != target.fingerprint or config.taps or not config.sighted):
            raise ValueError(f"The drafter in {start.name} has no memory, or belongs to another target ({config.target_id}).")
        drafter = make_drafter(config).to(target.device)
        self.drafter = drafter.attach(target.embedding, target.head)
        if not memory_only:
            drafter.balance()
        self.before = None if start is None else self._begin(start)
        for part, parameter in drafter.named_parameters():
            parameter.requires_grad_(not memory_only or part.startswith(("memory.", "correction.")))
        leave_out(drafter, self.variant)
        self.optimizers = make_optimizers(drafter, recipe)
        self.draws = torch.Generator()
        self.seconds = 0.0

    def _begin(self, start: Path) -> dict:
        """Take over the weights of a finished drafter; returns how those were trained."""
        trained = read_drafter(start, self.drafter.head.device)
        shapes = [{name: tuple(part.shape) for name, part in d.state_dict().items()} for d in (trained, self.drafter)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"The drafter in {start.name} has other shapes than this recipe and target ask for.")
        self.drafter.load_state_dict(trained.state_dict())
        return trained.config.provenance

    def policy(self, step: int) -> Policy:
        """What a read keeps at ``step``."""
        early = step < self.recipe.dense_share * self.recipe.steps
        return make_policy("dense" if early else "fovea", self.drafter.config.bounds)

    def begin(self, step: int) -> None:
        """Before the batches of a step: its rates, no gradients; what is drawn in it depends on seed and step only."""
        self.draws.manual_seed(self.recipe.seed * 1_000_003 + step)
        recipe, memory = self.recipe, self.drafter.memory
        fresh = self.before is None or self.before.get("memory") == UNTRAINED
        if step == recipe.switch and step > 0 and memory is not None and fresh:
            with torch.no_grad():
                memory.depth[1:] = memory.depth[0]
        for optimizer, rate in zip(self.optimizers, (recipe.lr, recipe.muon_lr)):
            optimizer.param_groups[0]["lr"] = rate * recipe.factor(step)
            optimizer.zero_grad(set_to_none=True)

    def learn(self, batch: Batch, truth: Truth, step: int, share: float = 1.0) -> Parts:
        """Add the gradient of a batch, weighed ``share``, on as many levels as ``truth`` holds."""
        began = time.perf_counter()
        parts = self.loss(batch, truth, self.policy(step), self.recipe.levels(step), self.draws)
        (parts.total * share).backward()
        self.seconds += time.perf_counter() - began
        return replace(parts, total=parts.total.detach())

    def finish(self) -> None:
        """Behind the batches of a step: one step of the optimizers."""
        began = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), self.recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        self.seconds += time.perf_counter() - began

    def loss(self, batch: Batch, truth: Truth, policy: Policy, levels: int, draws: torch.Generator | None = None) -> Parts:
        """The objective, products in bfloat16 where the recipe says so; without ``draws`` as at inference."""
        with self.products(batch):
            how = self.how(batch, policy, draws)
            return draft_loss(self.drafter, batch, truth, policy, levels, self.weights, how)

    def products(self, batch: Batch):
        """A context in which products are as the recipe says."""
        return torch.autocast(batch.tokens.device.type, torch.bfloat16) if self.recipe.autocast else contextlib.nullcontext()

    def how(self, batch: Batch, policy: Policy, draws: torch.Generator | None) -> Unrolled:
        """How the variant is unrolled: in training with ``draws``, else as at inference."""
        drafter, variant = self.drafter, self.variant
        if not isinstance(drafter, RivalDrafter):
            return Unrolled()
        if draws is None:
            return Unrolled(drafter.given(batch.view), by_prefix=variant.by_prefix)
        rows, share = batch.tokens.shape[0], None
        if variant.kept is not None:
            least, most = variant.kept
            share = (least + (most - least) * torch.rand(rows, generator=draws)).to(batch.tokens.device)
        given = drafter.given(batch.view, share, draws)
        settle = partial(drafter.settle, every=policy.rule == "all")
        feed = None
        if variant.own:
            own = (torch.rand(rows, batch.base.shape[1], generator=draws) < variant.own).to(batch.tokens.device)
            feed = partial(self.feed, own)
        return Unrolled(given, settle, feed, variant.by_prefix)

    @torch.no_grad()
    def feed(self, own: Tensor, tokens: Tensor, states: Tensor) -> Tensor:
        """The drafter's likeliest tokens where ``own`` (B, A) says so, the target's ``tokens`` elsewhere."""
        return torch.where(own, self.drafter.logits(self.drafter.norm(states)).argmax(-1), tokens)

    def state(self) -> dict:
        """What a checkpoint holds of this twin."""
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        return {"model": self.drafter.state_dict(), "optimizers": optimizers, "seconds": self.seconds, "warm": self.warm}

    def restore(self, state: dict) -> None:
        """Inverse of ``state``."""
        self.drafter.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.seconds, self.warm = state["seconds"], state.get("warm", {})


def leave_out(drafter: Drafter, variant: Variant) -> None:
    """Take from a FOVEA drafter what an ablation does without: E_dep stays zero, or the gate stays 1."""
    if drafter.memory is not None and not variant.depth_row:
        nn.init.zeros_(drafter.memory.depth.requires_grad_(False))
    if drafter.correction is not None and not variant.gate:
        drafter.correction.g.requires_grad_(False)
        nn.init.zeros_(drafter.correction.g[2].weight)
        nn.init.constant_(drafter.correction.g[2].bias, OPEN)


def make_optimizers(drafter: Drafter, recipe: DrafterRecipe) -> list[torch.optim.Optimizer]:
    """AdamW (0.9, 0.95) without weight decay, for everything or beside Muon for everything but the matrices.

    Raises ValueError where the recipe asks for Muon and torch has none.
    """
    named = [(name, parameter) for name, parameter in drafter.named_parameters() if parameter.requires_grad]
    vectors = ("depth", "blank", "asked")  # rows that are no matrix's
    matrices = [p for name, p in named if p.ndim == 2 and min(p.shape) > 1 and name.rpartition(".")[2] not in vectors]
    apart = matrices if recipe.optimizer == "muon" else []
    rest = [p for _, p in named if all(p is not other for other in apart)]
    optimizers = [torch.optim.AdamW(rest, lr=recipe.lr, betas=(0.9, 0.95), weight_decay=0, fused=True)]
    if apart:
        optimizers.append(make_muon(apart, recipe.muon_lr, 0))
    return optimizers
