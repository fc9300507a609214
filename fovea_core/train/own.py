"""A drafter for a target of one's own, from pictures with questions: what ``train-drafter --data`` does.

Everything lives in a work folder and resumes: ``artifacts/`` (answers with the target's states), ``drafters/`` (checkpoint,
log, both twins with their cards), ``log.txt``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from fovea_core.decode.fovea import load_drafter
from fovea_core.drafter.checkpoint import read_config, write_config
from fovea_core.settings import PAPER_SHAPE, RunSettings
from fovea_core.train.acceptance import Acceptance, acceptance
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import PictureRequest
from fovea_core.train.card import write_card
from fovea_core.train.crew import ALONE, Crew
from fovea_core.train.drafter import copy_twins, train_drafter
from fovea_core.train.pairs import Pairs
from fovea_core.train.plan import make_plan
from fovea_core.train.presets import Preset
from fovea_core.train.recipe import tap_layers
from fovea_core.train.samples import HOLDOUT

#: Requests of a shard: what a killed run loses at most.
SHARD = 64
#: Requests kept from training that are answered with the finished drafters.
JUDGED = 32


def make_own_drafters(
    work: Path,
    target,
    pairs: Pairs,
    preset: Preset,
    *,
    which: str = "both",
    memory_of: Path | None = None,
    export: Path | None = None,
    rows: int | None = None,
    dry_run: bool = False,
    crew: Crew = ALONE,
    log: Callable[[str], None] = print,
) -> list[Path]:
    """Estimate, artifacts, training, evaluation, cards, export. Returns the twins' folders; none where ``dry_run`` stops behind
    the estimate.

    ``memory_of``: a drafter on whose frozen body the memory only is trained. ``rows``: answers at once (None = as memory
    allows). ``crew``: answers and steps are shared out among its processes; the main one measures, logs, judges and writes.
    Raises SettingsError where the disk has no room or a step cannot be shared out, ValueError where the work folder holds
    something else's.
    """
    work.mkdir(parents=True, exist_ok=True)
    note = _noted(work / "log.txt", log) if crew.main else _unheard
    requests, held = pairs.requests, pairs.held(HOLDOUT)
    recipe = preset.with_steps(len(requests) - len(held)).shared(crew.count)
    if memory_of is not None:
        of, which = read_config(memory_of), "drafter"
        layer = recipe.memory_layer or of.memory_layer
        recipe = replace(recipe, only="memory", unroll=of.depth_rows - 1, memory_layer=layer)
    target.tap(tap_layers(target, recipe.taps))
    target.keep(recipe.memory_layer)
    for why, count in pairs.skipped.items():
        note(f"entries skipped {why}: {count:,}")
    note(f"{len(requests):,} pairs, {len(held):,} of them kept from training")
    longest, ready = preset.max_new_tokens, SHARD * len(list((work / "artifacts").glob("part-*.safetensors")))
    if crew.main:
        plan = make_plan(
            target,
            requests,
            recipe,
            work,
            max_new_tokens=longest,
            left=max(0, len(requests) - ready),
            which=which,
            start=memory_of,
            rows=rows,
            processes=crew.count,
            log=note,
        )
    plan = crew.share(plan if crew.main else None)
    for line in plan.lines:
        note(line)
    if dry_run:
        return []
    plan.check(work)
    with _bar(len(requests), "answers", "request", crew) as bar:
        artifacts = make_artifacts(
            target,
            requests,
            work / "artifacts",
            shard=SHARD,
            batch=plan.rows,
            max_new_tokens=longest,
            about={"data": pairs.digest, "requests": len(requests)},
            crew=crew,
            log=note,
            done=_up(bar),
        )
    out = work / ("memory" if memory_of else "drafters" if which == "both" else f"drafters-{which}")
    with _bar(recipe.steps, "training", "step", crew) as bar:
        how = {"which": which, "recipe": recipe, "start": memory_of, "held": held, "crew": crew}
        folders = train_drafter(target, artifacts, out, **how, log=note, done=_up(bar))
    if crew.main:
        judge(target, folders, [requests[i] for i in sorted(held)][:JUDGED], pairs, longest, note)
        folders = folders if export is None else copy_twins(folders, export)
    return crew.share(folders)


def judge(
    target, folders: list[Path], requests: list[PictureRequest], pairs: Pairs, longest: int, note: Callable[[str], None]
) -> None:
    """Decode requests kept from training with the finished twins, and write what came out into their configs and cards."""
    depth = min(PAPER_SHAPE.depth, min(read_config(folder).depth_rows - 1 for folder in folders))
    shape = PAPER_SHAPE.model_copy(update={"depth": max(1, depth)})
    settings = RunSettings(max_new_tokens=longest, tree=shape, detail="rounds")
    with _bar(len(requests), "judging", "request") as bar:
        results = dict(zip(folders, acceptance(target, folders, requests, settings, _up(bar))))
    alone = None
    if requests and len(folders) == 1 and read_config(folders[0]).sighted:  # no twin beside it: then itself without its memory
        alone = acceptance(target, folders, requests, settings.model_copy(update={"policy": "none"}))[0]
        note(f"{folders[0].name} without its memory: tau {alone.tau:.3f}, {_same(alone)}")
    for folder, result in results.items():
        facts = {"tau_rounds": result.rounds, "tau_requests": result.requests}
        if result.rounds:
            note(f"{folder.name}: tau {result.tau:.3f} over {result.rounds} rounds, {_same(result)}")
            facts |= {"tau": round(result.tau, 4), "tau_tree": f"{shape.depth},{shape.width},{shape.nodes}"}
            facts["same_ids"] = f"{result.same} of {result.requests}"
        if alone is not None:
            facts["tau_without_memory"] = round(alone.tau, 4)
        facts |= {"data_digest": pairs.digest, "pairs": len(pairs.requests), "skipped": sum(pairs.skipped.values())}
        facts |= {"device": _device(target), "dtype": str(target.embedding.dtype).removeprefix("torch.")}
        config = read_config(folder)
        write_config(folder, config.model_copy(update={"provenance": {**config.provenance, **facts}}))
        load_drafter(folder, target)  # as a person will
    for folder in folders:
        write_card(folder, [other for other in folders if other is not folder])


def _same(result: Acceptance) -> str:
    return f"{result.same} of {result.requests} answers with the ids of plain decoding"


def _device(target) -> str:
    import torch

    return torch.cuda.get_device_name(target.device) if target.device.type == "cuda" else "cpu"


def _noted(path: Path, log: Callable[[str], None]) -> Callable[[str], None]:
    """``log``, and each line with its time into a file."""

    def note(text: str) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        log(text)

    return note


def _unheard(text: str) -> None:
    """For processes whose lines nobody reads."""


def _bar(total: int, what: str, unit: str, crew: Crew = ALONE) -> tqdm:
    return tqdm(total=total, desc=what, unit=unit, disable=None if crew.main else True)  # None: on a terminal only


def _up(bar: tqdm) -> Callable[[int], None]:
    """Hears how far it is in all."""
    return lambda number: bar.update(number - bar.n)
