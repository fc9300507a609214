"""What a target forward and a drafted level cost on this machine, measured once and kept."""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, count
from pathlib import Path

import torch
from PIL import Image

from fovea_core.decode.abreast import Drafts
from fovea_core.decode.draft import Drafter, watched
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import CostTable, Shape

#: Sizes of a target forward that are measured; between them cost is interpolated.
SIZES = (1, 2, 4, 8, 16, 24, 40, 64)
#: The most generous tree a cost-chosen round may grow; where the host reads it first, what is sent is cut from it.
WIDTH, NODES, DEPTH = 4, 40, 8
#: Levels over which a drafted level's price is measured.
MEASURED_LEVELS = 4
TIME_LIMIT_S = 1.4
#: A table measured under more load than this (runnable processes per processor, last minute) is used but not kept.
BUSY_LOAD = 0.75
#: What is timed, and what goes right before it, untimed.
Work = tuple[Callable[[], object], Callable[[], object] | None]


@torch.inference_mode()
def measure(target: Target, drafter: Drafter | None) -> CostTable:
    """Time target forwards over ``SIZES`` nodes, the drafter's reading of two committed tokens, and a drafted level, of a tree
    and of a chain, on a grey picture; about two seconds at most for a small model.

    A forward costs at most what a larger one was seen to cost. As in a real round, drafting is timed right behind a target
    forward and a forward over several tokens right behind drafting, when the processor's caches hold the other's weights.
    """
    run = grey_run(target, drafter)
    room = target.context - run.next_position
    sizes = [size for size in SIZES if size < room] or [1]
    forwards = [partial(_forward, run, size) for size in sizes]
    if drafter is None:
        alone = typical_ms([(forward, None) for forward in forwards], forwards[0])
        return CostTable(tokens=sizes, verify_ms=falling(alone), level_ms=0.0)
    depth, drafting = draft_works([run], drafter)
    works = [(forward, drafting[-1] if size > 1 else forwards[0]) for size, forward in zip(sizes, forwards)]
    works.extend((draft, forwards[-1]) for draft in drafting)
    *verify_ms, round_ms, tree_ms, chain_ms = typical_ms(works, forwards[0])
    return CostTable(
        tokens=sizes,
        verify_ms=falling(verify_ms),
        level_ms=tree_ms / depth,
        chain_level_ms=chain_ms / depth,
        round_ms=round_ms,
    )


def grey_run(target: Target, drafter: Drafter | None = None) -> TargetRun:
    """A run over a grey picture that watches what ``drafter`` asks for, as a real one does."""
    watch = watched(target, drafter, RunSettings(detail="rounds"))
    return target.prefill(Image.new("RGB", (96, 64), (128, 128, 128)), "?", watch=watch)


def draft_works(runs: Sequence[TargetRun], drafter: Drafter) -> tuple[int, list[Callable[[], object]]]:
    """A number of levels, and what drafting behind prefilled runs, all at once, is made of: each reads two committed tokens,
    and drafts a tree or a chain of so many levels."""
    room = min(run.target.context - run.next_position for run in runs)
    depth = max(1, min(MEASURED_LEVELS, max_depth(drafter), room - 2))
    drafts, mine = Drafts(), [drafter.start(run, RunSettings(detail="rounds")) for run in runs]
    drafts.extend(mine, [run.first_news(int(run.logits.argmax())) for run in runs])
    places, tokens = count(0, 2), torch.tensor([1, 2])
    news = [(run.next_position + 1 + torch.arange(2), run.hidden[-1:].expand(2, -1)) for run in runs]

    def read() -> None:
        further = next(places)
        drafts.extend(mine, [(tokens, states, positions + further) for positions, states in news])

    shapes = Shape(depth=depth, width=WIDTH, nodes=NODES), Shape(depth=depth, width=1, nodes=depth + 1)
    return depth, [read, *(partial(drafts.propose, mine, [shape] * len(mine)) for shape in shapes)]


def falling(costs: list[float]) -> list[float]:
    """Each cost, or the least of those behind it."""
    return list(accumulate(reversed(costs), min))[::-1]


def _forward(run: TargetRun, size: int) -> None:
    chain = torch.arange(size)
    run.forward_tree(chain % run.target.vocab_size, chain - 1, chain)[0].argmax(-1).tolist()
    run.commit([])


def typical_ms(works: list[Work], yardstick: Callable[[], object], limit_s: float | None = None) -> list[float]:
    """Usual time in ms of the first of each pair, right behind the second: three to twelve turns over all of them after a
    warm-up, until ``limit_s`` (default: TIME_LIMIT_S) is over.

    It is the ratios that decide, and they are to be those of a quiet machine on a busy one, too. So a ``yardstick`` is timed
    before and behind each work, and the ratio of work to yardstick is the smaller of two estimates that go wrong upwards at
    different times: the shortest time seen over that of the yardstick, which single lost moments leave alone as long as one
    turn is spared, and the median over the turns of time over its neighbouring yardstick (the quicker of both), which slow
    spells leave alone, since they last over all three (docs/LOG.md).
    """
    limit_s = TIME_LIMIT_S if limit_s is None else limit_s
    for work in (*(work for work, _ in works), yardstick):
        work()
    began, yards_ms = time.perf_counter(), [_timed_ms(yardstick)]
    shortest, ratios = [math.inf] * len(works), [[] for _ in works]
    for turn in range(12):
        if turn >= 3 and time.perf_counter() - began > limit_s:
            break
        for place, (work, before) in enumerate(works):
            if before is not None:
                before()
            work_ms = _timed_ms(work)
            yards_ms.append(_timed_ms(yardstick))
            shortest[place] = min(shortest[place], work_ms)
            ratios[place].append(work_ms / min(yards_ms[-2:]))
    yard_ms = sorted(yards_ms)[len(yards_ms) // 20]  # the shortest but for rare quick moments
    return [min(least, yard_ms * statistics.median(mine)) for least, mine in zip(shortest, ratios)]


def _timed_ms(work: Callable[[], object]) -> float:
    """How long ``work`` takes; never nothing, whatever the clock can tell."""
    started = time.perf_counter()
    work()
    return max(1e-6, (time.perf_counter() - started) * 1e3)


def cost_table(target: Target, drafter: Drafter | None) -> CostTable:
    """The table of this pair on this machine: measured once, then read from the user's cache folder.

    Kept by fingerprints, device, dtype, attention, threads and torch version; models without fingerprint are measured each
    time, and so is a pair whose file is damaged. What a busy machine measures is not kept.
    """
    marks = [target.fingerprint, drafter.fingerprint if drafter else "none"]
    if not all(marks):
        return measure(target, drafter)
    computes = [device_name(target.device), str(target.embedding.dtype), target.backbone.attention]
    key = json.dumps([7, *marks, *computes, torch.get_num_threads(), torch.__version__])
    path = cache_folder() / f"cost-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    disturbed = busy()  # before measuring, which is work as well
    table = measure(target, drafter)
    if disturbed:
        return table
    keep(path, table.model_dump_json())
    return table


def keep(path: Path, text: str) -> None:
    """Write a file of the cache folder in one move. One that cannot be written costs a measurement next time, nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
    except OSError:
        pass


def cache_folder() -> Path:
    """Where this user's measurements of this machine are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fovea-explorer"


def _read(path: Path) -> CostTable | None:
    """The table in a file; None where there is none or it is damaged."""
    try:
        table = CostTable.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return table if 0 < len(table.tokens) == len(table.verify_ms) else None


def busy() -> bool:
    """Whether others use this machine so much that times measured now are not its own."""
    try:
        return os.getloadavg()[0] >= BUSY_LOAD * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # no such figure on this system
        return False


def max_depth(drafter: Drafter) -> int:
    """How many levels a drafter may be asked for when cost decides."""
    return getattr(drafter, "max_depth", DEPTH)


def bears_out(drafter: Drafter) -> float | None:
    """How often a level of its drafts is accepted where the one above it is, as far as a drafter says so itself."""
    return getattr(drafter, "bears_out", None)


def device_name(device: torch.device) -> str:
    """``cpu`` with its thread count, or the accelerator's product name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'' if threads == 1 else 's'}"
