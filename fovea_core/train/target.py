"""``train-target``: the embedded target, a small LLaVA trained on the drawn world.

The tower learns first from a dense loss (what each cell shows and what that belongs to, from the masks we own:
train/labels.py); then the whole model learns answers, several questions of a picture packed behind one copy of its image
tokens, the dense loss kept on. Weights that go on (``TargetRecipe.onward``) are also taught where to look (train/grounding.py).
One command, resumable, the same on CPU and CUDA. The masks teach the target only, never the drafter.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration

from fovea_core.train.allocator import keep_freed_memory
from fovea_core.train.data import Shards
from fovea_core.train.grounding import name_table
from fovea_core.train.labels import LABELS
from fovea_core.train.learner import PREPROCESSING, Learner, TargetRecipe, build_target
from fovea_core.train.muon import check_muon, make_muon
from fovea_core.train.packing import pack, pick_questions
from fovea_core.train.tokenizer import load_tokenizer

#: Recipe fields that fix the shapes of the weights: a training cannot go on under others.
SHAPES = ("width", "layers", "intermediate", "tower_layers", "tower_intermediate")


def make_optimizers(learner: Learner, recipe: TargetRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside blocks (it needs far fewer steps here, docs/LOG.md), AdamW for everything else.

    Raises ValueError where torch has no Muon.
    """
    check_muon()
    inside = lambda name: ".layers." in name  # noqa: E731
    named = [(n, p) for n, p in learner.named_parameters() if p.requires_grad]
    matrices = [p for n, p in named if inside(n) and p.ndim == 2]
    others = [p for n, p in named if not (inside(n) and p.ndim == 2)]
    return [
        make_muon(matrices, recipe.muon_lr, 0.01),
        torch.optim.AdamW(others, lr=recipe.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def schedule(seen: int, recipe: TargetRecipe) -> float:
    """Learning-rate factor after ``seen`` samples: linear warm-up, constant, linear to a hundredth over ``decay_share``."""
    left = (recipe.samples - seen) / (recipe.decay_share * recipe.samples)
    return max(0.01, min(1.0, (seen + 1) / recipe.warmup, left))


@dataclass
class Progress:
    """What a checkpoint keeps besides weights: samples seen, seconds spent, the record of the target it started from."""

    seen: int = 0
    seconds: float = 0.0
    before: dict | None = None


class Trainer:
    """One target training that can stop and go on; ``step`` is a pure function of recipe, pictures and progress.

    Without a checkpoint in ``out`` it begins with the weights of ``start``, a finished target's folder, or from nothing.
    Between sittings every field of the recipe may change but those in ``SHAPES``; then ValueError names the ones that differ.
    """

    def __init__(
        self,
        shards: Path,
        out: Path,
        tokenizer_file: Path,
        recipe: TargetRecipe,
        device: str = "cpu",
        compiled: bool = False,
        start: Path | None = None,
    ) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.recipe, self.checkpoint, self.device = recipe, out / "checkpoint.pt", torch.device(device)
        self.tokenizer, self.tokenizer_text = load_tokenizer(tokenizer_file), tokenizer_file.read_text()
        self.data, self.names = Shards(shards), name_table(self.tokenizer).to(self.device)
        model = build_target(recipe, self.tokenizer.get_vocab_size())
        model.set_attn_implementation("eager")  # its backward is faster than SDPA's on CPU with a mask (docs/LOG.md)
        self.learner = Learner(model).to(self.device)
        if compiled:
            model.model.language_model.compile(dynamic=False)
            model.model.vision_tower.compile(dynamic=False)
        self.optimizers = make_optimizers(self.learner, recipe)
        self.rates = [group["lr"] for o in self.optimizers for group in o.param_groups]
        self.progress = Progress()
        if self.checkpoint.exists():
            self._load()
        elif start is not None:
            self._start(start)

    def _check_shapes(self, before: TargetRecipe, where: Path) -> None:
        differing = [name for name in SHAPES if getattr(before, name) != getattr(self.recipe, name)]
        if differing:
            raise ValueError(f"{where} was trained with another recipe: {', '.join(differing)} differ.")

    def _start(self, folder: Path) -> None:
        """Weights of a finished target; its dense head was dropped and begins at zero, where it pulls at nothing."""
        record = json.loads((folder / "training.json").read_text())
        self._check_shapes(recipe_of(record), folder)
        if (folder / "tokenizer.json").read_text() != self.tokenizer_text:
            raise ValueError(f"{folder} has another tokenizer.")
        trained = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.learner.model.load_state_dict(trained.state_dict())
        with torch.no_grad():
            self.learner.dense.weight.zero_()
            self.learner.dense.bias.zero_()
        self.progress.before = record

    def _load(self) -> None:
        saved = torch.load(self.checkpoint, weights_only=True, map_location=self.device)
        self._check_shapes(recipe_of(saved), self.checkpoint)
        self.learner.load_state_dict(saved["learner"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.progress = Progress(**saved["progress"])

    def save(self) -> None:
        """Write the checkpoint in one move, so that a stop in the middle leaves the old one."""
        state = {
            "learner": self.learner.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "progress": asdict(self.progress),
            "recipe": asdict(self.recipe),
        }
        torch.save(state, self.checkpoint.with_suffix(".tmp"))
        os.replace(self.checkpoint.with_suffix(".tmp"), self.checkpoint)

    def step(self) -> dict[str, Tensor]:
        """Learn from one batch; returns its losses and accuracies as tensors."""
        recipe, seen = self.recipe, self.progress.seen
        rng = np.random.default_rng((recipe.seed, seen))
        samples = [self.data.pick(rng, recipe.shares) for _ in range(recipe.batch)]
        questions = [pick_questions(s, recipe, rng) for s in samples]
        batch = pack(samples, questions, self.tokenizer, recipe.text_tokens, recipe.short_weight).to(self.device)
        for optimizer, rate in zip(self.optimizers, self.rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * schedule(seen, recipe)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            features = self.learner.features(batch.pixels)
            loss, right = self.learner.dense_loss(features, batch)
            figures = {"dense": loss, **dict(zip(LABELS, right))}
            if seen >= recipe.tower_samples:
                read = self.learner.read(features, batch)
                answer, answered = self.learner.answer_loss(read, batch)
                loss = answer + recipe.dense_weight * loss
                figures["answer"] = answer
                if recipe.ground_weight:
                    ground, figures["grounded"] = self.learner.ground_loss(read, batch, self.names)
                    link, figures["linked"] = self.learner.link_loss(read, batch, self.names)
                    loss = loss + recipe.ground_weight * (ground + link)
                if recipe.look_weight:
                    look, figures["looked"] = self.learner.look_loss(read, batch)
                    loss = loss + recipe.look_weight * look
                for kind in {s.kind for s in samples}:
                    figures[f"right_{kind}"] = answered[[s.kind == kind for s in samples]].mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.learner.parameters(), recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.progress.seen += recipe.batch
        return {name: value.detach() for name, value in figures.items()}


def train_target(
    shards: Path,
    out: Path,
    tokenizer_file: Path,
    recipe: TargetRecipe,
    minutes: float | None = None,
    checkpoint_minutes: float = 4.0,
    threads: int | None = None,
    device: str = "cpu",
    compiled: bool = False,
    start: Path | None = None,
) -> Path:
    """Train until ``recipe.samples`` pictures are seen, or ``minutes`` of this sitting are over; returns the checkpoint.

    shards: folder of train/data.py, which may still grow; out: folder for checkpoint and log.jsonl (outside the tree). Resumes
    from ``out`` where it holds a checkpoint, else begins with the weights of ``start``. ``compiled`` runs both halves through
    torch.compile (a C++ compiler is needed; a minute to start, then about a quarter faster on CPU).
    """
    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    trainer = Trainer(shards, out, tokenizer_file, recipe, device, compiled, start)
    before, began = trainer.progress.seconds, time.monotonic()
    last_save, averages = began, {}
    with (out / "log.jsonl").open("a") as log:
        while trainer.progress.seen < recipe.samples and (minutes is None or time.monotonic() - began < 60 * minutes):
            for name, value in trainer.step().items():
                averages.setdefault(name, []).append(value)
            trainer.progress.seconds = before + time.monotonic() - began
            if (trainer.progress.seen // recipe.batch) % 50:
                continue
            row = {
                "seen": trainer.progress.seen,
                "seconds": round(trainer.progress.seconds),
                "pictures": trainer.data.refresh(),
            }
            row |= {name: round(float(torch.stack(values).nanmean()), 4) for name, values in averages.items()}
            averages = {}
            print(json.dumps(row), file=log, flush=True)
            if time.monotonic() - last_save > 60 * checkpoint_minutes:
                trainer.save()
                last_save = time.monotonic()
    trainer.save()
    return trainer.checkpoint


def recipe_of(saved: dict) -> TargetRecipe:
    """The recipe of a loaded checkpoint or training record; fields that recipes no longer have are left out."""
    known = {field.name for field in fields(TargetRecipe)}
    return TargetRecipe(**{name: value for name, value in saved["recipe"].items() if name in known})


def export_target(checkpoint: Path, tokenizer_file: Path, out: Path) -> Path:
    """Write the trained target as assets/builtin/target: fp16 shards below 10 MiB, tokenizer.json, fovea_target.json."""
    saved = torch.load(checkpoint, weights_only=True, map_location="cpu")
    learner = Learner(build_target(recipe_of(saved), load_tokenizer(tokenizer_file).get_vocab_size()))
    learner.load_state_dict(saved["learner"])
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("model*.safetensors*"):
        old.unlink()
    learner.model.half().save_pretrained(out, max_shard_size="9MB")
    shutil.copy(tokenizer_file, out / "tokenizer.json")
    progress = Progress(**saved["progress"])
    taught = {"look_head": [learner.look_layer, 0]} if saved["recipe"]["look_weight"] else {}
    (out / "fovea_target.json").write_text(json.dumps(PREPROCESSING | taught, indent=1) + "\n")
    record = {"recipe": saved["recipe"], "pictures_seen": progress.seen, "seconds": round(progress.seconds)}
    if progress.before is not None:
        record["before"] = progress.before
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return out
