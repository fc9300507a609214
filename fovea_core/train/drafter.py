"""train-drafter: the FOVEA drafter and its blind twin, side by side on the same batches, with the paper's objective."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from fovea_core.drafter.checkpoint import save_drafter
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.memory.select import Policy, make_policy
from fovea_core.train.loss import LossWeights, Parts, Truth, fovea_loss
from fovea_core.train.samples import Batch, Order, Sample, collate, load_samples
from fovea_core.train.unroll import supervised, unroll

#: Names of the twins, which are also the names of their folders.
TWINS = {"drafter": True, "blind": False}


@dataclass(frozen=True)
class DrafterRecipe:
    """Everything that decides a training run besides target and artifacts.

    steps: optimizer steps; unroll: drafted levels D (rows of E_dep: D + 1); lr after ``warmup`` (share of the steps), then
    'cosine' to a tenth or 'constant'; dense_share: share of the steps, from the first, whose reads keep all entries before eq 6
    chooses (an entry outside the chosen set gets no gradient, so a read is learnt faster this way); autocast: products in
    bfloat16, for machines that have them in hardware.
    """

    steps: int = 2000
    batch: int = 32
    lr: float = 1e-3
    warmup: float = 0.1
    schedule: str = "cosine"
    clip: float = 0.5
    unroll: int = 6
    seed: int = 0
    dense_share: float = 0.5
    autocast: bool = False
    blocks: int = 2
    k_min: int = 4
    k_max: int = 64
    rho: float = 0.8
    loss: LossWeights = field(default_factory=LossWeights)

    def rate(self, step: int) -> float:
        """Learning rate of ``step`` (from 0)."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return self.lr * (step + 1) / warm
        if self.schedule == "constant":
            return self.lr
        turn = (step - warm) / max(1, self.steps - warm)
        return self.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * turn)))


def config_for(target, recipe: DrafterRecipe, sighted: bool) -> DrafterConfig:
    """A drafter config whose blocks are of the kind of a LlavaTarget's language model."""
    text = target.model.config.text_config
    return DrafterConfig(
        hidden_size=text.hidden_size,
        vocab_size=target.vocab_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
        intermediate_size=text.intermediate_size,
        blocks=recipe.blocks,
        rms_eps=text.rms_norm_eps,
        rope_theta=text.rope_parameters["rope_theta"],
        sighted=sighted,
        k_min=recipe.k_min,
        k_max=recipe.k_max,
        rho=recipe.rho,
        depth_limit=recipe.unroll - 1,
        depth_rows=recipe.unroll + 1,
        target_id=target.id,
        target_fingerprint=target.fingerprint,
    )


@torch.no_grad()
def truth_of(batch: Batch, head: Tensor, steps: int) -> Truth:
    """Collect h^T, h~^T, labels and p^T = softmax(head h^T) for every supervised (sample, step, base)."""
    rows = supervised(batch, steps).flatten().nonzero()[:, 0]
    bases = batch.base.shape[1]
    a, s, b = rows % bases, rows // bases % steps, rows // (bases * steps)
    after = batch.base[b, a] + s + 1
    answers = batch.states[torch.arange(batch.base.shape[0])[:, None], batch.base + 1]  # (B, A, d): h^T of each answer item
    log_p = torch.log_softmax(answers.flatten(0, 1) @ head.t(), -1)  # (B A, V)
    p = log_p.exp()
    return Truth(
        rows=rows,
        step=s + 1,
        position=a + s + 1,
        states=batch.states[b, after],
        middle=batch.mid[b, a + s],
        labels=batch.tokens[b, after],
        item=b * bases + a + s,
        probabilities=p,
        negentropy=(p * log_p).sum(-1),
    )


def draft_loss(drafter: Drafter, batch: Batch, truth: Truth, policy: Policy, steps: int, weights: LossWeights) -> Parts:
    """The objective of one drafter on one batch."""
    states, middle = unroll(drafter, batch, steps)
    depth = torch.arange(steps, device=states.device).repeat_interleave(states.shape[2])  # (steps A,)
    memory = drafter.remember(batch.features, batch.valid)
    scoring = drafter.scoring_states(states.flatten(1, 2), depth, memory, policy).flatten(0, 1)[truth.rows]
    return fovea_loss(scoring, middle.flatten(0, 2)[truth.rows], drafter.head, truth, weights)


class Twin:
    """One drafter in training with its optimizer."""

    def __init__(self, name: str, target, recipe: DrafterRecipe) -> None:
        self.name, self.recipe = name, recipe
        torch.manual_seed(recipe.seed)  # both twins start from the same body
        drafter = Drafter(config_for(target, recipe, TWINS[name])).to(target.device)
        self.drafter = drafter.attach(target.embedding, target.head).balance()
        self.optimizer = torch.optim.AdamW(drafter.parameters(), lr=recipe.lr, betas=(0.9, 0.95), weight_decay=0, fused=True)
        self.seconds = 0.0

    def policy(self, step: int) -> Policy:
        """What a read keeps at ``step``."""
        early = step < self.recipe.dense_share * self.recipe.steps
        return make_policy("dense" if early else "fovea", self.drafter.config.bounds)

    def learn(self, batch: Batch, truth: Truth, step: int) -> Parts:
        """One optimizer step."""
        began = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(step)
        parts = self.loss(batch, truth, self.policy(step))
        self.optimizer.zero_grad(set_to_none=True)
        parts.total.backward()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.seconds += time.perf_counter() - began
        return parts

    def loss(self, batch: Batch, truth: Truth, policy: Policy) -> Parts:
        """The objective, products in bfloat16 where the recipe says so."""
        device = batch.tokens.device.type
        with torch.autocast(device, torch.bfloat16) if self.recipe.autocast else contextlib.nullcontext():
            return draft_loss(self.drafter, batch, truth, policy, self.recipe.unroll, self.recipe.loss)

    def state(self) -> dict:
        """What a checkpoint holds of this twin."""
        return {"model": self.drafter.state_dict(), "optimizer": self.optimizer.state_dict(), "seconds": self.seconds}

    def restore(self, state: dict) -> None:
        """Inverse of ``state``."""
        self.drafter.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.seconds = state["seconds"]


def accuracy_by_depth(hits: Tensor, step: Tensor, steps: int) -> list[float]:
    """Share of rows whose likeliest token is the target's, by unroll step; 0 where there is none."""
    count = torch.bincount(step - 1, minlength=steps).clamp_min(1)
    right = torch.bincount(step - 1, weights=hits.float(), minlength=steps)
    return [round(value, 4) for value in (right / count).tolist()]


def chain_length(hits: Tensor, truth: Truth, batch: Batch, steps: int) -> tuple[float, int]:
    """Sum over bases of the tokens one round of a chain draft would emit there, bonus included, and the number of bases."""
    table = torch.zeros(batch.base.shape[0] * steps * batch.base.shape[1], device=hits.device)
    table[truth.rows] = hits.float()
    runs = table.view(batch.base.shape[0], steps, -1).cumprod(1).sum(1) + 1  # (B, A)
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
        parts = twin.loss(batch, truth, make_policy("fovea", twin.drafter.config.bounds))
        rows.append((parts.hits, truth.step, float(parts.total) * truth.rows.numel()))
        more, count = chain_length(parts.hits, truth, batch, recipe.unroll)
        length, bases = length + more, bases + count
    if not rows:
        return {}
    hits, step = torch.cat([row[0] for row in rows]), torch.cat([row[1] for row in rows])
    loss = sum(row[2] for row in rows) / hits.numel()
    accuracy = accuracy_by_depth(hits, step, recipe.unroll)
    return {"held_loss": round(loss, 4), "held_accuracy": accuracy, "held_chain": round(length / bases, 4)}


class DrafterTrainer:
    """Both twins (or one), the data, and where they stand; ``out`` holds checkpoint, log and finished drafters."""

    def __init__(self, target, artifacts: str | Path, out: str | Path, which: str, recipe: DrafterRecipe) -> None:
        names = {"both": list(TWINS), **{name: [name] for name in TWINS}}
        if which not in names:
            raise ValueError(f"which is {which!r}: {', '.join(names)} are possible.")
        self.train, self.held, about = load_samples(artifacts)
        if about["target_fingerprint"] != target.fingerprint:
            raise ValueError(f"{Path(artifacts).name} holds answers of another target ({about['target_id']}).")
        self.out, self.recipe, self.device = Path(out), recipe, target.device
        self.out.mkdir(parents=True, exist_ok=True)
        self.twins = [Twin(name, target, recipe) for name in names[which]]
        self.order = Order([s.tokens.shape[0] for s in self.train], recipe.batch, recipe.seed)
        self.step = 0
        self.about = {"which": which, "target_fingerprint": target.fingerprint, "samples": len(self.train), **asdict(recipe)}
        if self.checkpoint.exists():
            self._restore()

    @property
    def checkpoint(self) -> Path:
        """Model, optimizer and step of every twin."""
        return self.out / "last.pt"

    def _restore(self) -> None:
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        if state["about"] != self.about:
            changed = [key for key, value in self.about.items() if state["about"].get(key) != value]
            raise ValueError(f"{self.out.name} holds a training run with other {', '.join(changed)}: choose another folder.")
        self.step = state["step"]
        for twin in self.twins:
            twin.restore(state[twin.name])

    def save(self) -> None:
        """Write the checkpoint; an interrupted write leaves the old one."""
        unfinished = self.checkpoint.with_suffix(".tmp")
        state = {twin.name: twin.state() for twin in self.twins}
        torch.save({"about": self.about, "step": self.step, **state}, unfinished)
        os.replace(unfinished, self.checkpoint)

    def advance(self) -> dict[str, dict]:
        """One step of every twin on the same batch. Returns what to log, by twin."""
        batch = collate([self.train[i] for i in self.order.batch(self.step)], self.device)
        truth = truth_of(batch, self.twins[0].drafter.head, self.recipe.unroll)
        lines = {}
        for twin in self.twins:
            parts = twin.learn(batch, truth, self.step)
            length, bases = chain_length(parts.hits, truth, batch, self.recipe.unroll)
            lines[twin.name] = {
                **{name: round(getattr(parts, name).item(), 4) for name in ("total", "hidden", "kl", "token")},
                "accuracy": accuracy_by_depth(parts.hits, truth.step, self.recipe.unroll),
                "chain": round(length / bases, 4),
            }
        self.step += 1
        return lines

    def export(self) -> list[Path]:
        """Write every twin as a drafter folder with its provenance."""
        folders = []
        for twin in self.twins:
            facts = {key: value for key, value in self.about.items() if key not in ("loss", "which", "target_fingerprint")}
            facts |= {f"loss_{key}": value for key, value in asdict(self.recipe.loss).items()}
            facts |= {"trained_steps": self.step, "seconds": round(twin.seconds, 1), "held_samples": len(self.held)}
            facts |= {key: str(value) for key, value in evaluate(twin, self.held).items()}
            twin.drafter.config = twin.drafter.config.model_copy(update={"provenance": facts})
            folders.append(save_drafter(self.out / twin.name, twin.drafter))
        return folders


def train_drafter(
    target,
    artifacts: str | Path,
    out: str | Path,
    *,
    which: str = "both",
    recipe: DrafterRecipe | None = None,
    log_every: int = 25,
    eval_every: int = 250,
    checkpoint_s: float = 180.0,
    log: Callable[[str], None] = print,
) -> list[Path]:
    """Train the drafter and its blind twin on the artifacts of a loaded target; resumes from ``out`` where it holds a run.

    Writes ``out/log.jsonl`` (one object a line), ``out/last.pt`` and at the end the folders ``out/drafter`` and ``out/blind``,
    which it returns. Raises ValueError where artifacts or checkpoint belong to another target or recipe.
    """
    trainer = DrafterTrainer(target, artifacts, out, which, recipe or DrafterRecipe())
    saved = began = time.monotonic()
    first = trainer.step
    with (trainer.out / "log.jsonl").open("a") as file:

        def note(line: dict) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()
            log(json.dumps(line))

        while trainer.step < trainer.recipe.steps:
            lines = trainer.advance()
            step = trainer.step
            if step % log_every == 0 or step == trainer.recipe.steps:
                speed = (time.monotonic() - began) / (step - first)
                for name, line in lines.items():
                    note({"step": step, "twin": name, "seconds_a_step": round(speed, 3), **line})
            if step % eval_every == 0:
                for twin in trainer.twins:
                    note({"step": step, "twin": twin.name, **evaluate(twin, trainer.held)})
            if time.monotonic() - saved > checkpoint_s:
                trainer.save()
                saved = time.monotonic()
    trainer.save()
    return trainer.export()
