"""One drafter in training: its recipe, what the target said, the objective on a batch, one optimizer step."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from fovea_core.drafter.checkpoint import make_drafter, read_config, read_drafter
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.drafter.published import UNTRAINED
from fovea_core.drafter.rival import Given, RivalConfig, RivalDrafter
from fovea_core.memory.select import Policy, make_policy
from fovea_core.settings import SettingsError
from fovea_core.targets.looking import look_layers
from fovea_core.train.looks import look_loss
from fovea_core.train.loss import LossWeights, Parts, Truth, fovea_loss
from fovea_core.train.muon import make_muon
from fovea_core.train.prefix import prefix_weights
from fovea_core.train.samples import Batch
from fovea_core.train.unroll import Feed, Settle, supervised, unroll
from fovea_core.train.variants import TWINS, Variant

#: Bias of a gate that is left out: its sigmoid is 1 in float32.
OPEN = 30.0


@dataclass(frozen=True)
class DrafterRecipe:
    """Everything that decides a training run besides target and artifacts.

    steps: optimizer steps; batch: samples that pass at once; accumulate: such batches a step; unroll: drafted levels D (rows of
    E_dep: D + 1); lr after ``warmup`` (share of the steps), then 'cosine' to a tenth or 'constant'; dense_share: share of the
    steps, from the first, whose reads keep all entries before eq 6 chooses (an entry outside the chosen set gets no gradient,
    so a read is learnt faster this way); autocast: products in bfloat16, for machines that have them in hardware; single_share:
    share of the steps, from the first, that unroll one level only, several times cheaper, so that reading is learnt before
    drafting on one's own states (the other depth rows then start from row 0); taps: layers of the target fused beside its last
    state (EAGLE-3's way; 0 is FOVEA's own input); optimizer: 'muon' for the matrices at ``muon_lr`` and AdamW for the rest, or
    'adamw' for all (the paper's); only: 'all' is learnt, or 'memory': W_K, W_U, W_Q, their norms, E_dep, f and g on the frozen
    body of the drafter that is gone on from.
    """

    steps: int = 1800
    batch: int = 24
    accumulate: int = 1
    lr: float = 1.5e-3
    warmup: float = 0.1
    schedule: str = "cosine"
    clip: float = 0.5
    unroll: int = 6
    seed: int = 0
    dense_share: float = 0.6
    single_share: float = 0.75
    optimizer: str = "muon"
    only: str = "all"
    muon_lr: float = 4e-3
    autocast: bool = False
    blocks: int = 2
    taps: int = 0
    k_min: int = 4
    k_max: int = 80
    rho: float = 0.8
    loss: LossWeights = field(default_factory=LossWeights)

    def factor(self, step: int) -> float:
        """What the learning rates are multiplied with at ``step`` (from 0)."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return (step + 1) / warm
        if self.schedule == "constant":
            return 1.0
        turn = (step - warm) / max(1, self.steps - warm)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * turn))

    def onward(self) -> DrafterRecipe:
        """The recipe for drafters that can read already: lower rates, all levels from a third on, reads as eq 6 chooses them
        after a tenth."""
        return replace(self, lr=1e-3, muon_lr=2.5e-3, dense_share=0.1, single_share=0.35)

    def shared(self, processes: int) -> DrafterRecipe:
        """As many samples a step, in batches that each of ``processes`` has equally many of, none larger than now.

        Raises SettingsError where the samples of a step cannot be shared out.
        """
        samples = self.batch * self.accumulate
        for batches in range(processes, samples + 1, processes):
            if samples % batches == 0 and samples // batches <= self.batch:
                return replace(self, batch=samples // batches, accumulate=batches)
        raise SettingsError(
            f"A step of {samples} samples cannot be shared by {processes} processes: choose --batch and --accumulate so that "
            f"their product is a multiple of {processes}."
        )

    @property
    def switch(self) -> int:
        """First step that unrolls all levels."""
        return round(self.single_share * self.steps)

    def levels(self, step: int) -> int:
        """Levels that ``step`` unrolls."""
        return 1 if step < self.switch else self.unroll


def tap_layers(target, count: int) -> tuple[int, ...]:
    """``count`` decoder layers of a target, evenly spaced."""
    layers = len(target.backbone.layers)
    return tuple(round(layers * (i + 1) / (count + 1)) for i in range(count))


def config_for(target, recipe: DrafterRecipe, variant: Variant, kind: str) -> DrafterConfig:
    """A variant's config, its blocks of the kind of a target's language model; ``kind``: the variant's name."""
    text = target.model.config.text_config
    rival = {"kind": kind, **variant.rival}
    if variant.rival.get("source") == "cells":
        rival["layers"] = len(look_layers(text.num_hidden_layers))
    taps = recipe.taps if variant.taps is None else variant.taps
    return (RivalConfig if variant.rival else DrafterConfig)(
        hidden_size=text.hidden_size,
        vocab_size=target.vocab_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
        intermediate_size=text.intermediate_size,
        blocks=recipe.blocks,
        rms_eps=text.rms_norm_eps,
        rope_theta=text.rope_parameters["rope_theta"],
        sighted=variant.sighted,
        k_min=recipe.k_min,
        k_max=recipe.k_max,
        rho=recipe.rho,
        depth_limit=recipe.unroll - 1,
        depth_rows=recipe.unroll + 1,
        taps=tap_layers(target, taps),
        target_id=target.id,
        target_fingerprint=target.fingerprint,
        **(rival if variant.rival else {}),
    ).model_copy(update=variant.sizes)


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
    memory = drafter.remember(batch.features, batch.valid)
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
        config = read_config(start) if memory_only else config_for(target, recipe, self.variant, name)
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
