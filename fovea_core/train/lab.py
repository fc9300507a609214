"""train-lab: every row of the Lab from one store of artifacts, one after the other, on the same samples for as many steps.

All rows have one body: a single block, as the rivals' own papers have, with a feed-forward of twice the hidden size, so that a
row is trained in minutes and all of them together stay small. FOVEA and its twin are rows like any other.

Everything lives in a work folder and resumes: ``lab-pictures/``, ``lab-artifacts/``, ``rows/NAME/`` (checkpoint, log),
``rivals/NAME/`` (finished drafters), ``results.jsonl`` (a line a finished row).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from fovea_core.train.allocator import keep_freed_memory
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.builtin import artifact_requests, draw_pictures
from fovea_core.train.data import Shards
from fovea_core.train.drafter import DrafterTrainer, follow
from fovea_core.train.loss import loss_for
from fovea_core.train.recipe import DrafterRecipe, inner_layer, tap_layers
from fovea_core.train.samples import load_samples
from fovea_core.train.variants import ROWS, TAPS, Variant

#: Optimizer steps of every row; pictures of each kind, four answers each; their first seed.
STEPS, PICTURES, LAB_SEEDS = 600, 700, 7_000_000
#: What the exported drafters may weigh together.
EXPORT_BYTES = 20 * 2**20


def lab_recipe(steps: int = STEPS, seed: int = 0, autocast: bool = False) -> DrafterRecipe:
    """The recipe of every row."""
    return DrafterRecipe(steps=steps, blocks=1, single_share=0.6, seed=seed, autocast=autocast, loss=loss_for(1))


def rows_for(target, only: Sequence[str] = ()) -> dict[str, Variant]:
    """The rows called ``only``, or all, with the body's sizes for this target. Raises ValueError for an unknown name."""
    for name in only:
        if name not in ROWS:
            raise ValueError(f"There is no row {name[:40]!r}: {', '.join(ROWS)} are possible.")
    sizes = {"intermediate_size": 2 * target.hidden_size}
    return {name: replace(variant, sizes=sizes) for name, variant in ROWS.items() if not only or name in only}


def train_lab(
    work: Path,
    target,
    *,
    only: Sequence[str] = (),
    recipe: DrafterRecipe | None = None,
    minutes: float | None = None,
    export: Path | None = None,
    pictures: int = PICTURES,
    first_seed: int = LAB_SEEDS,
    threads: int | None = None,
    workers: int = 1,
    log: Callable[[str], None] = print,
) -> Path:
    """Artifacts, then each row that is not finished yet; returns ``work/results.jsonl``.

    ``minutes``: a row that takes longer ends there, and its line says how many steps it had ('cut'). ``export``: copy the
    finished drafters there, ablations left out. Raises ValueError where the folder belongs to another target or recipe,
    or where what would be exported is too large.
    """
    rows = rows_for(target, only)
    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    shards = Shards(draw_pictures(work / "lab-pictures", first_seed, pictures, workers))
    target.tap(tap_layers(target, TAPS))
    target.keep(inner_layer(target))
    requests = artifact_requests(shards, target, long=4, given=True)
    artifacts = make_artifacts(target, requests, work / "lab-artifacts", views=True, log=log)
    train_rows(work, target, artifacts, rows, recipe or lab_recipe(), minutes, log, pictures)
    if export is not None:
        export_rows(work / "rivals", export, [name for name in ROWS if not ROWS[name].ablation])
    return work / "results.jsonl"


def train_rows(
    work: Path,
    target,
    artifacts: Path,
    rows: dict[str, Variant],
    recipe: DrafterRecipe,
    minutes: float | None = None,
    log: Callable[[str], None] = print,
    pictures: int = PICTURES,
) -> None:
    """Train each of ``rows`` that has no line in ``work/results.jsonl``, and add one; ``pictures``: of each kind, that the
    artifacts were made from. Raises ValueError as train_lab does."""
    results = work / "results.jsonl"
    done = {line["name"]: line for line in read_results(results)}
    for name in done.keys() & rows.keys():
        if done[name]["target"] != target.fingerprint or done[name]["steps_wanted"] != recipe.steps:
            raise ValueError(f"{work.name} holds a row {name} of another target or length: choose another folder.")
    left = [name for name in rows if name not in done]
    samples = load_samples(artifacts) if left else None
    for name in left:
        trainer = DrafterTrainer(
            target, artifacts, work / "rows" / name, name, recipe, variants={name: rows[name]}, samples=samples
        )
        twin, limit = trainer.twins[0], float("inf") if minutes is None else 60 * minutes
        began = time.perf_counter() - twin.seconds

        def over(twin=twin, began=began, limit=limit) -> bool:
            twin.seconds = time.perf_counter() - began  # with batches and evaluation, unlike the step's own count
            return twin.seconds >= limit

        follow(trainer, log=log, halt=over)
        folder = trainer.export()[0]
        shutil.copytree(folder, work / "rivals" / name, dirs_exist_ok=True)
        line = result_line(name, rows[name], trainer, pictures)
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        log(json.dumps(line))


def result_line(name: str, variant: Variant, trainer: DrafterTrainer, pictures: int) -> dict:
    """What a finished row says of itself; ``warm_chain``: the held-out chain length before a second phase, if it has one."""
    twin, recipe = trainer.twins[0], trainer.recipe
    facts = twin.drafter.config.provenance
    options = f"--only {name} --steps {recipe.steps} --pictures {pictures} --seed {recipe.seed}"
    options += " --autocast" if recipe.autocast else ""
    line = {
        "name": name,
        "label": variant.label,
        "known": variant.known,
        "target": trainer.about["target_fingerprint"],
        "steps": trainer.step,
        "steps_wanted": recipe.steps,
        "cut": trainer.step < recipe.steps,
        "samples": len(trainer.train),
        "seconds": round(twin.seconds, 1),
        "parameters": sum(p.numel() for p in twin.drafter.parameters()),
        "held_chain": float(facts["held_chain"]) if "held_chain" in facts else None,
        "held_accuracy": json.loads(facts.get("held_accuracy", "[]")),
        "loss": asdict(twin.weights),
        "command": f"python -m fovea_core train-lab --work FOLDER {options}",
    }
    return line | ({"warm_chain": twin.warm.get("held_chain")} if twin.turn is not None else {})


def read_results(path: Path) -> list[dict]:
    """The lines of a results file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def export_rows(source: Path, export: Path, names: Sequence[str]) -> list[Path]:
    """Copy the drafters called ``names``, as far as they are in ``source``, into the folder ``export``; others there stay.

    Raises ValueError, with nothing copied, where all of them together would weigh more than EXPORT_BYTES.
    """
    found = [source / name for name in names if (source / name).is_dir()]
    kept = [path for path in export.iterdir() if path.is_dir() and path.name not in names] if export.is_dir() else []
    weight = sum(file.stat().st_size for folder in (*found, *kept) for file in folder.rglob("*") if file.is_file())
    if weight > EXPORT_BYTES:
        raise ValueError(f"The rivals would weigh {weight / 2**20:.1f} MiB, {EXPORT_BYTES / 2**20:.0f} are allowed.")
    for folder in found:
        shutil.rmtree(export / folder.name, ignore_errors=True)
        shutil.copytree(folder, export / folder.name)
    return [export / folder.name for folder in found]
