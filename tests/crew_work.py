"""What each process of tests/test_crew.py does: answers, training, and training across a checkpoint, all as one of a crew."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from fovea_core.train import artifacts as making
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import PictureRequest
from fovea_core.train.crew import ALONE, Crew, form_crew
from fovea_core.train.drafter import DrafterTrainer, train_drafter
from fovea_core.train.loss import LossWeights
from fovea_core.train.recipe import DrafterRecipe
from tests.families import tiny

#: Four samples a step, in two batches; the levels change on the way.
RECIPE = DrafterRecipe(
    steps=6, batch=2, accumulate=2, unroll=3, k_min=2, k_max=8, lr=3e-3, warmup=0.2, single_share=0.5, dense_share=0.2
)
RECIPES = {"muon": RECIPE, "adamw": replace(RECIPE, optimizer="adamw", loss=LossWeights(relative=False))}
HALF = 3


def target_for():
    target = tiny("qwen", 3)
    target.fingerprint = "qwen-3"
    return target


def asked(folder: Path) -> list[PictureRequest]:
    """The questions of a test's folder."""
    rows = json.loads((folder / "questions.json").read_text())
    return [PictureRequest(folder / row["image"], row["question"]) for row in rows]


def weights_of(trainer: DrafterTrainer) -> dict[str, torch.Tensor]:
    """Every number of every twin, copied."""
    return {f"{t.name}.{name}": part.clone() for t in trainer.twins for name, part in t.drafter.state_dict().items()}


def work(folder: Path, out: Path, crew: Crew = ALONE) -> dict:
    """Answer the questions of ``folder`` and train by each recipe, straight and across a checkpoint, below ``out``."""
    target, made, said = target_for(), [], []
    real = making.answer_shard
    making.answer_shard = lambda worker, wanted, batch, most, first: (
        made.append(first) or real(worker, wanted, batch, most, first)
    )
    how = {"shard": 3, "batch": 3, "max_new_tokens": 9, "crew": crew, "log": said.append}
    answers = make_artifacts(target, asked(folder), out / "answers", **how)
    make_artifacts(target, asked(folder), out / "answers", **how)  # nothing is left to do
    making.answer_shard = real
    found = {"made": made, "said": said}
    for name, recipe in RECIPES.items():

        def trainer(place: str, name=name, recipe=recipe) -> DrafterTrainer:
            return DrafterTrainer(target, answers, out / f"{name}-{place}", "both", recipe, held=(), crew=crew)

        straight = trainer("straight")
        curve = [straight.advance() for _ in range(recipe.steps)]
        half = trainer("half")
        for _ in range(HALF):
            half.advance()
        if crew.main:
            half.save()
        crew.wait()
        resumed = trainer("half")
        assert resumed.step == HALF
        for _ in range(HALF, recipe.steps):
            resumed.advance()
        found[name] = {"curve": curve, "weights": weights_of(straight), "resumed": weights_of(resumed)}
    # one sample in five for a crew: processes without a batch
    few = make_artifacts(target, asked(folder)[:1], out / "one", max_new_tokens=9, crew=crew, log=said.append)
    lonely = DrafterTrainer(target, few, out / "lonely", "drafter", RECIPE, held=(), crew=crew)
    for _ in range(2):
        lonely.advance()
    found["lonely"] = weights_of(lonely)
    lines: list[str] = []
    folders = train_drafter(
        target, answers, out / "whole", recipe=replace(RECIPE, steps=2), held={0}, log_every=1, crew=crew, log=lines.append
    )
    return found | {"lines": lines, "folders": [folder.name for folder in folders]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    crew = form_crew("cpu")
    torch.save(work(place, place / "crew", crew), place / f"process-{crew.number}.pt")
    crew.leave()
