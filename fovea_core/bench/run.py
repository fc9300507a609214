"""``bench builtin``: every figure of the embedded model from its committed weights."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from fovea_core.bench.machine import BUSY_SHARE, LoadWatch, Sitting, machine
from fovea_core.bench.models import Loader, Models, load_builtin, load_models
from fovea_core.bench.scoring import score_case, score_strip
from fovea_core.bench.tally import Tally, overall
from fovea_core.bench.timed import time_case
from fovea_core.bench.timing import REPEATS, RESAMPLES
from fovea_core.bench.workloads import BUILTIN_SEEDS, TREES, draw_case, draw_worker_case, strip_seeds, timed_seeds
from fovea_core.trace.events import CostTable
from fovea_core.worksite.words import KINDS

Progress = Callable[[int, int, str], None]


def bench_builtin(seeds: range = BUILTIN_SEEDS, progress: Progress | None = None) -> dict:
    """Measure the embedded model on the workload of ``seeds`` (half-open). ``progress`` takes (done, total, what).

    Returns plain values for JSON: {overall, kinds: {scene, text, chart}, machine, ...}. Raises TargetError or DrafterError
    where the weights are missing.
    """
    return bench(load_builtin, seeds, progress, processes=min(machine()["cores"], 2))


def bench(
    load: Loader,
    seeds: range,
    progress: Progress | None = None,
    *,
    budget: int = 256,
    scale: float | None = None,
    processes: int = 1,
) -> dict:
    """The workload of ``bench builtin`` on any LLaVA target, its drafter and its drafter's blind twin.

    ``budget``: new tokens an answer may have; ``scale``: supersampling of the pictures, None as the demos have it;
    ``processes``: how many answer the untimed questions, one thread each where there are several. Timings come first and
    have the machine to themselves.
    """
    sitting = Sitting()
    timed = timed_seeds(seeds)
    total, done = 1 + len(timed) + len(seeds), 0
    tallies = {kind: Tally() for kind in KINDS}

    def step(what: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total, what)

    watch = LoadWatch()
    models = load_models(load)
    step("cost of a forward")
    for seed in timed:
        case = draw_case(seed, scale)
        time_case(models, case, tallies[case.kind], budget)
        step(f"timing {case.kind} {seed}")
    others = watch.others()
    for seed, tally in _scored(models, load, seeds, budget, scale, processes):
        kind = KINDS[seed % len(KINDS)]
        tallies[kind].merge(tally)
        step(f"scoring {kind} {seed}")

    kinds = {kind: tally.figures(TREES) for kind, tally in tallies.items()}
    return {
        "overall": overall(kinds, list(tallies.values())),
        "kinds": kinds,
        "workload": _workload(seeds, len(timed), budget, processes),
        "models": {name: {"id": model.id, "fingerprint": model.fingerprint} for name, model in models.named().items()},
        "cost": models.cost.model_dump(),
        "cost_blind": models.cost_blind.model_dump(),
        **sitting.told(),
        "load_average": watch.load_average,
        "others_cpu_share": others,
        "machine_busy": others >= BUSY_SHARE,
    }


def _workload(seeds: range, timed: int, budget: int, processes: int) -> dict:
    return {
        "name": "builtin",
        "seeds": f"{seeds.start}:{seeds.stop}",
        "timed_pictures": timed,
        "repeats": REPEATS,
        "resamples": RESAMPLES,
        "max_new_tokens": budget,
        "scoring_processes": processes,
        "trees": {name: shape.model_dump() if shape else "chosen by cost" for name, shape in TREES.items()},
    }


def _scored(
    models: Models, load: Loader, seeds: range, budget: int, scale: float | None, processes: int
) -> Iterator[tuple[int, Tally]]:
    """(seed, its tally) in the order of the seeds, so that medians and sums do not depend on who was quicker."""
    strips = strip_seeds(seeds)
    if processes <= 1:
        for seed in seeds:
            yield seed, _score_seed(models, seed, budget, scale, seed in strips)
        return
    # A fresh interpreter each: a forked child of a process that has run parallel loops may hang in its first one.
    spawn = multiprocessing.get_context("spawn")
    start = (load, (models.cost, models.cost_blind))
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_start_worker, initargs=start) as pool:
        jobs = [pool.submit(_score_here, seed, budget, scale, seed in strips) for seed in seeds]
        try:
            for seed, job in zip(seeds, jobs, strict=True):
                yield seed, job.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_worker: Models | None = None  # in a scoring process: its own models


def _start_worker(load: Loader, costs: tuple[CostTable, CostTable]) -> None:
    global _worker
    torch.set_num_threads(1)
    _worker = load_models(load, costs)


def _score_here(seed: int, budget: int, scale: float | None, strip: bool) -> Tally:
    return _score_seed(_worker, seed, budget, scale, strip)


def _score_seed(models: Models, seed: int, budget: int, scale: float | None, strip: bool) -> Tally:
    tally = score_case(models, draw_case(seed, scale), budget)
    if strip:
        tally.merge(score_strip(models, draw_worker_case(seed, scale), budget))
    return tally
