"""What a training will take on this machine, measured on a little of it before anything long begins."""

from __future__ import annotations

import math
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from fovea_core.settings import SettingsError
from fovea_core.targets.shelf import free_bytes, gigabytes
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import AnyRequest, read_requests
from fovea_core.train.drafter import DrafterTrainer
from fovea_core.train.recipe import DrafterRecipe

#: Requests that are answered, and optimizer steps that are made, to measure.
REQUESTS, STEPS = 20, 20
#: Most answers at once, and the share of the free memory that their keys and values may take.
MOST_ROWS, SHARE = 96, 0.3
#: Copies of a drafter's weights in a checkpoint: themselves and what the optimizer keeps.
COPIES = 3


@dataclass(frozen=True)
class Plan:
    """An estimate. requests: still to be answered; rows: answers at once; answers_s, training_s: seconds; disk, memory: bytes,
    the latter the most that the measurement itself took on the device, models included; processes: that share the work."""

    requests: int
    rows: int
    answers_s: float
    steps: int
    training_s: float
    disk: int
    memory: int
    device: str
    processes: int = 1

    @property
    def lines(self) -> list[str]:
        """For a person."""
        return [
            f"Measured on {REQUESTS} requests and {STEPS} steps, about:",
            f"  answers   {_span(self.answers_s)} for {self.requests:,} requests, {self.rows} at once",
            f"  training  {_span(self.training_s)} for {self.steps:,} steps",
            f"  disk      {gigabytes(self.disk)} in the work folder",
            f"  memory    {gigabytes(self.memory)} of {self.device} at its peak so far",
            *([f"Shared by {self.processes} processes, what they exchange not counted."] if self.processes > 1 else []),
        ]

    def check(self, work: Path) -> None:
        """Raise SettingsError where the disk has no room."""
        free = shutil.disk_usage(work).free
        if self.disk > free:
            raise SettingsError(
                f"The work folder needs {gigabytes(self.disk)}, its disk has {gigabytes(free)} left: choose another --work, "
                "fewer --pairs or a shorter --max-new-tokens."
            )


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{max(1, round(seconds / 60))} min"


def make_plan(
    target,
    requests: Sequence[AnyRequest],
    recipe: DrafterRecipe,
    work: Path,
    *,
    max_new_tokens: int,
    left: int | None = None,
    which: str = "both",
    start: Path | None = None,
    rows: int | None = None,
    processes: int = 1,
    log: Callable[[str], None] = print,
) -> Plan:
    """Answer REQUESTS of the requests, evenly spread, and make STEPS optimizer steps on them; leaves nothing in ``work``.

    left: requests that are not answered yet (None = all). start: as for train_drafter. rows: answers at once; None = as many as
    the memory allows. processes: that share the work; this one alone measures. Raises ValueError where none of them can be
    asked.
    """
    few = [requests[i] for i in sorted({round(i * (len(requests) - 1) / (REQUESTS - 1)) for i in range(REQUESTS)})]
    rows = rows or rows_at_once(target, few, max_new_tokens)
    with tempfile.TemporaryDirectory(dir=work) as place:
        artifacts = Path(place) / "answers"
        began = time.perf_counter()
        make_artifacts(target, few, artifacts, batch=rows, shard=REQUESTS, max_new_tokens=max_new_tokens, log=lambda line: None)
        each_s = (time.perf_counter() - began) / len(few)
        stored = sum(path.stat().st_size for path in artifacts.glob("part-*")) / len(few)
        try:
            trainer = DrafterTrainer(
                target, artifacts, Path(place) / "run", which, replace(recipe, accumulate=1), start, held=()
            )
        except ValueError:
            for trouble in read_requests(target, few, max_new_tokens)[1]:
                log(trouble)
            raise
        training_s = math.ceil(recipe.accumulate / processes) * _steps_s(trainer)
        weights = sum(parameter.numel() for twin in trainer.twins for parameter in twin.drafter.parameters())
    left = len(requests) if left is None else left
    disk = round(left * stored) + weights * (4 * COPIES + 2)
    return Plan(left, rows, left * each_s / processes, recipe.steps, training_s, disk, *_peak(target.device), processes)


def rows_at_once(target, few: Sequence[AnyRequest], max_new_tokens: int) -> int:
    """As many answers as keys and values of prompts like these leave room for."""
    asked, _ = read_requests(target, few, max_new_tokens)
    longest = max((len(one.prompt.ids) for one in asked), default=1) + max_new_tokens
    backbone = target.backbone
    slot = 2 * len(backbone.layers) * backbone.kv_heads * backbone.head_size * target.embedding.element_size()
    return max(1, min(MOST_ROWS, int(SHARE * free_bytes(str(target.device))) // (slot * longest)))


def _steps_s(trainer: DrafterTrainer) -> float:
    """Seconds of all steps, from the median of some that unroll one level and of some that unroll all."""
    recipe, total = trainer.recipe, 0.0
    phases = [(0, recipe.switch), (recipe.switch, recipe.steps)]
    phases = [(first, last) for first, last in phases if last > first]
    for first, last in phases:
        trainer.step, times = max(first, last - STEPS // len(phases)), []
        for _ in range(STEPS // len(phases)):
            trainer.step = min(trainer.step, last - 1)
            began = time.perf_counter()
            trainer.advance()
            if trainer.device.type == "cuda":
                torch.cuda.synchronize(trainer.device)
            times.append(time.perf_counter() - began)
        total += (last - first) * median(times)
    return total


def _peak(device: torch.device) -> tuple[int, str]:
    """Most bytes taken until now, and of what."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), "the GPU's memory"
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "this machine's memory"
