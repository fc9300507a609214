"""The embedded models from nothing: what ``train-target`` and ``train-drafter`` do when no other target is named.

Everything lives in a work folder outside the tree and resumes: ``tokenizer.json``, ``pictures/`` (one more for every other
scale of the drawing), ``target/`` (checkpoint, log), ``drafter-pictures/``, ``artifacts/``, ``drafters/`` (checkpoint, log,
both twins). Finished weights go to an export folder.
"""

from __future__ import annotations

import pydoc_data.topics
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from fovea_core.train.allocator import keep_freed_memory
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import ArtifactRequest
from fovea_core.train.data import SCALE, Shards, draw_shards
from fovea_core.train.drafter import DrafterRecipe, copy_twins, train_drafter
from fovea_core.train.learner import TargetRecipe
from fovea_core.train.recipe import tap_layers
from fovea_core.train.target import export_target, train_target
from fovea_core.train.tokenizer import train_tokenizer
from fovea_core.worksite import KINDS, make_picture

#: Seeds from here on show the drafter pictures that the target has not learnt from.
DRAFTER_SEEDS = 3_000_000
_SHARD = 300
_TOKENIZER_SEEDS = 160


def make_tokenizer(path: Path) -> Path:
    """Train the tokenizer on the questions of the drawn world; the prose of Python's own help topics fills the table."""
    if not path.exists():
        drawn = (make_picture(kind, seed, scale=0.25) for kind in KINDS for seed in range(_TOKENIZER_SEEDS))
        texts = {text for picture in drawn for q in picture.questions for text in (q.question, q.answer)}
        path.parent.mkdir(parents=True, exist_ok=True)
        train_tokenizer(sorted(texts), " ".join(pydoc_data.topics.topics.values()).splitlines()).save(str(path))
    return path


def draw_pictures(folder: Path, first: int, each: int, workers: int = 1, scale: float = SCALE) -> Path:
    """``each`` pictures of every kind with seeds from ``first`` on, the kinds taking turns so that training may begin early."""
    for start in range(0, each, _SHARD):
        for kind in KINDS:
            draw_shards(folder, kind, first + 3 * start, min(_SHARD, each - start), _SHARD, workers, scale)
    return folder


def make_target(
    work: Path,
    recipe: TargetRecipe,
    *,
    pictures: int = 5_500,
    first_seed: int = 0,
    start: Path | None = None,
    export: Path | None = None,
    workers: int = 1,
    scale: float = SCALE,
    **training,
) -> Path:
    """Tokenizer, pictures, training, export; every part that is already there is kept. ``training`` goes to train_target.

    With ``start``, the folder of a finished target, training goes on from its weights with its tokenizer. Returns the
    checkpoint, or the export folder where one is named.
    """
    tokenizer = work / "tokenizer.json"
    if start is not None and not tokenizer.exists():
        work.mkdir(parents=True, exist_ok=True)
        shutil.copy(start / "tokenizer.json", tokenizer)
    make_tokenizer(tokenizer)
    drawn = work / ("pictures" if scale == SCALE else f"pictures-x{scale:g}")
    shards = draw_pictures(drawn, first_seed, pictures, workers, scale)
    checkpoint = train_target(shards, work / "target", tokenizer, recipe, start=start, **training)
    return export_target(checkpoint, tokenizer, export) if export else checkpoint


def artifact_requests(shards: Shards, target, long: int = 2, given: bool = False, seed: int = 0) -> Iterator[ArtifactRequest]:
    """``long`` questions of every picture that are not short, kinds taking turns, as requests to a LlavaTarget; with ``given``
    the right answers are read, else the target answers itself."""
    rng = np.random.default_rng(seed)
    for group in zip(*(shards.samples[kind] for kind in KINDS)):
        for sample in group:
            asked = [(question, answer) for question, answer, kind in sample.questions if kind != "short"]
            pixels, valid = np.array(sample.pixels), np.array(sample.valid).reshape(-1)
            for index in rng.permutation(len(asked))[:long]:
                question, answer = asked[index]
                said = [*target.tokenizer.encode(answer).ids, min(target.eos_ids)] if given else None
                yield ArtifactRequest(pixels, valid, target.prompt_ids(question), said)


def make_drafters(
    work: Path,
    target,
    recipe: DrafterRecipe,
    *,
    pictures: int = 4_000,
    own_answers: bool = False,
    which: str = "both",
    start: Path | None = None,
    first_seed: int = DRAFTER_SEEDS,
    export: Path | None = None,
    threads: int | None = None,
    workers: int = 1,
    log: Callable[[str], None] = print,
) -> list[Path]:
    """Pictures, answers with the target's states, both twins, export. Returns the twins' folders.

    The target reads the right answers, or with ``own_answers`` says its own, several times slower. ``start``: a folder with
    both finished twins, which are trained on.
    """
    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    shards = Shards(draw_pictures(work / "drafter-pictures", first_seed, pictures, workers))
    target.tap(tap_layers(target, recipe.taps))
    target.keep(recipe.memory_layer)
    requests = artifact_requests(shards, target) if own_answers else artifact_requests(shards, target, long=4, given=True)
    artifacts = make_artifacts(target, requests, work / "artifacts", views=recipe.loss.look > 0, log=log)
    out = work / ("drafters" if which == "both" else f"drafters-{which}")  # twins may be trained side by side
    folders = train_drafter(target, artifacts, out, which=which, recipe=recipe, start=start, log=log)
    return folders if export is None else copy_twins(folders, export)
