"""``bench load``: does the draft chosen by measured cost hold its own against every fixed shape, whatever the load?

A setting is a kind of picture, an answer's length and a number of requests decoded in lock-step; beside these, a trace in which
requests arrive in bursts. Every way decodes the same batches in turns. Prefill is left out of the settings' times, since it is
the same for all ways and would bring them closer together; it is part of the bursts' latencies. What the chooser knows of the
drafter in a setting it has from that setting's own batches, one untimed before; in a pass of the bursts it begins with nothing.
"""

from __future__ import annotations

import copy
import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean, median

from fovea_core.bench.load_figures import ADAPTIVE, FIXED, PLAIN, Batch, against, overall, setting, summed
from fovea_core.bench.machine import BUSY_SHARE, LoadWatch, Sitting
from fovea_core.bench.models import Loader, load_builtin
from fovea_core.bench.timing import FEWEST, RESAMPLES
from fovea_core.bench.workloads import Case, draw_case
from fovea_core.decode.batch import Asked, Clock, Lockstep, serve
from fovea_core.decode.cost import bears_out, max_depth
from fovea_core.decode.draft import Drafter
from fovea_core.decode.load import LOADS, LoadChooser, LoadCost, measure_load
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.tree import Draft
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import Shape
from fovea_core.worksite.words import KINDS

#: Default seeds: eight pictures of each kind, as many as the largest load.
SEEDS = range(9_500_000, 9_500_024)
#: Most new tokens of an answer.
LENGTHS = {"short": 24, "long": 96}
#: Batches a setting; with fewer pictures than it takes they come again, and the interval then tells the timing's spread only.
BATCHES = 3
#: How often a batch is timed in every way; the median counts.
TURNS = 3
#: When requests arrive, in multiples of one plain request's time alone: (when, how many).
BURSTS = ((0, 1), (2, 6), (4, 2), (7, 3))
BURST_TURNS = 2


class Counting(LoadChooser):
    """A chooser that counts its rounds: by what was sent, and the nodes below the roots."""

    def __init__(self, cost: LoadCost, levels: int, guess: float | None = None) -> None:
        super().__init__(cost, levels, guess)
        self.counts: Counter = Counter()

    def shape(self, levels: int, load: int = 1, owed_ms: float = 0.0) -> Shape | None:
        """See Chooser.shape."""
        chosen = super().shape(levels, load, owed_ms)
        if chosen is None:
            self.counts["nothing"] += 1
        return chosen

    def trim_all(self, drafts: list[Draft], shapes: list[Shape | None]) -> list[Draft]:
        """See LoadChooser.trim_all."""
        sent = super().trim_all(drafts, shapes)
        width = max(shape.width for shape in shapes if shape is not None)
        self.counts["chain" if width == 1 else "tree"] += 1
        self.counts["nodes"] += sum(draft.size - 1 for draft in sent)
        return sent


class Ways:
    """The fixed shapes and the chooser, over one target and drafter."""

    def __init__(self, target: Target, drafter: Drafter, cost: LoadCost) -> None:
        self.target, self.drafter, self.cost = target, drafter, cost
        self.names = [*FIXED, ADAPTIVE]
        self.answers = self.same = 0

    def chooser(self) -> Counting:
        """A chooser that has seen nothing yet."""
        return Counting(self.cost, max_depth(self.drafter), bears_out(self.drafter))

    def lockstep(self, name: str, chooser: Counting) -> Lockstep:
        """A service of that way; ``chooser`` decides where it is the adaptive one."""
        if name == ADAPTIVE:
            return Lockstep(self.target, self.drafter, chooser=chooser)
        return Lockstep(self.target, self.drafter if FIXED[name] else None, FIXED[name])

    def compare(self, answers: list[list[int]], plain: list[list[int]]) -> None:
        """Count answers, and those whose ids are the plain ones."""
        self.answers += len(answers)
        self.same += sum(ids == wanted for ids, wanted in zip(answers, plain, strict=True))

    def turned(self, by: int) -> list[str]:
        """All ways, beginning with number ``by``."""
        by %= len(self.names)
        return self.names[by:] + self.names[:by]


def bench_load(seeds: range = SEEDS, progress: Callable[[int, int, str], None] | None = None, *, quick: bool = False) -> dict:
    """The embedded model under load; ``quick``: the least and the largest load and short answers only. Raises TargetError or
    DrafterError where the weights are missing."""
    few = {"loads": (LOADS[0], LOADS[-1]), "lengths": {"short": LENGTHS["short"]}} if quick else {}
    return measure_settings(load_builtin, seeds, progress, **few)


def measure_settings(
    load: Loader,
    seeds: range,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    loads: Sequence[int] = LOADS,
    lengths: dict[str, int] | None = None,
    scale: float | None = None,
) -> dict:
    """Every setting on the long questions of the seeds' pictures, then the bursts, as plain values for JSON.

    {settings: [see ``setting``], loads: {load: see ``summed``}, overall, bursts, answers, same_ids_rate, cost, ...}. A kind
    without a picture among the seeds has no settings.
    """
    lengths, sitting = LENGTHS if lengths is None else lengths, Sitting()
    target, drafter, _ = load()
    watch, steps = LoadWatch(), iter(range(1, 10_000))
    by_kind = {kind: [seed for seed in seeds if KINDS[seed % len(KINDS)] == kind] for kind in KINDS}
    by_kind = {kind: chosen for kind, chosen in by_kind.items() if chosen}
    total = len(by_kind) * (1 + len(loads) * len(lengths)) + 2

    def step(what: str) -> None:
        if progress is not None:
            progress(next(steps), total, what)

    cost = measure_load(target, drafter, tuple(loads))
    step("prices")
    ways, measured, asked, alone_ms = Ways(target, drafter, cost), {}, [], []
    for kind, chosen in by_kind.items():
        cases = [draw_case(seed, scale) for seed in chosen[: max(loads)]]
        wanted, spent = _plain(target, cases, max(lengths.values()))
        asked += [(case, ids) for case, ids in zip(cases, wanted)][: _share(len(by_kind))]
        alone_ms += spent
        # as many requests as the largest load has: with fewer pictures the same ones, each in a run of its own
        turns = [number % len(cases) for number in range(max(loads))]
        runs = [target.prefill(cases[turn].image, cases[turn].long.question) for turn in turns]
        wanted = [wanted[turn] for turn in turns]
        step(f"plain answers, {kind}")
        for name, budget in lengths.items():
            for requests in loads:
                chooser = ways.chooser()
                measured[kind, name, requests] = [
                    time_batch(ways, chooser, _turn(runs, number, requests), _turn(wanted, number, requests), budget, number)
                    for number in range(BATCHES)
                ]
                step(f"{kind}, {name}, {requests} at once")
    bursts = time_bursts(ways, asked, max(lengths.values()), median(alone_ms))
    step("bursts")
    others = watch.others()
    alone = {kind for kind, chosen in by_kind.items() if len(chosen) < FEWEST}
    settings = [setting(*key, batches, key[0] in alone) for key, batches in measured.items()]
    return {
        "settings": settings,
        "loads": {str(requests): summed(measured, requests, bool(alone)) for requests in loads},
        "overall": overall(settings),
        "bursts": bursts,
        "answers": ways.answers,
        "same_ids_rate": ways.same / ways.answers,
        "cost": {str(requests): table.model_dump() for requests, table in cost.tables.items()},
        "begin": {"start_ms": cost.start_ms, "read_ms": cost.read_ms},
        "workload": {
            "name": "load",
            "seeds": f"{seeds.start}:{seeds.stop}",
            "batches": BATCHES,
            "turns": TURNS,
            "resamples": RESAMPLES,
            "lengths": lengths,
            "shapes": {name: shape and shape.model_dump() for name, shape in FIXED.items()},
        },
        "models": {
            part: {"id": model.id, "fingerprint": model.fingerprint}
            for part, model in (("target", target), ("drafter", drafter))
        },
        **sitting.told(),
        "load_average": watch.load_average,
        "others_cpu_share": others,
        "machine_busy": others >= BUSY_SHARE,
    }


def _share(kinds: int) -> int:
    """How many pictures of each kind the bursts take."""
    return -(-sum(size for _, size in BURSTS) // kinds)


def _turn(rows: list, number: int, count: int) -> list:
    """Batch ``number`` of ``count`` rows, counted round."""
    return [rows[(number * count + i) % len(rows)] for i in range(count)]


def _plain(target: Target, cases: list[Case], budget: int) -> tuple[list[list[int]], list[float]]:
    """Ids and ms of every case's plain answer alone."""
    results = [decode_plain(target, case.image, case.long.question, _settings(budget)) for case in cases]
    return [result.ids for result in results], [result.ms for result in results]


def _settings(budget: int) -> RunSettings:
    return RunSettings(max_new_tokens=budget, detail="rounds")


def time_batch(
    ways: Ways, chooser: Counting, runs: list[TargetRun], wanted: list[list[int]], budget: int, number: int
) -> Batch:
    """Decode prefilled ``runs`` together, TURNS times a way, beginning with another way each time; ``wanted``: their plain ids.

    ``chooser`` goes on from batch to batch, as a service's does; the first batch is decoded once untimed before. Each turn of a
    batch begins with what was known before it, so that all of them decode alike.
    """

    def go(name: str, chooser: Counting) -> float:
        lockstep = ways.lockstep(name, chooser)
        lanes = [lockstep.join(run, _settings(budget)) for run in runs]
        began = time.perf_counter()
        while lockstep.lanes:
            lockstep.round()
        spent = (time.perf_counter() - began) * 1e3
        ways.compare([lane.ids for lane in lanes], [ids[:budget] for ids in wanted])
        return spent

    if number == 0:
        go(ADAPTIVE, chooser)
    gc.collect()
    chooser.counts.clear()
    ms: dict[str, list[float]] = {name: [] for name in ways.names}
    known = [copy.deepcopy(chooser) for _ in range(TURNS - 1)] + [chooser]
    for turn, knows in enumerate(known):
        for name in ways.turned(number + turn * len(ways.names) // TURNS):
            ms[name].append(go(name, knows))
    tokens = sum(min(len(ids), budget) - 1 for ids in wanted)
    return Batch(tokens, {name: median(spent) for name, spent in ms.items()}, chooser.counts.copy())


def time_bursts(ways: Ways, asked: list[tuple[Case, list[int]]], budget: int, unit_ms: float) -> dict:
    """Serve the requests of BURSTS, prefill included, in every way: mean and longest time from arrival to the whole answer,
    tokens a second; the chooser's mean latency over the best fixed one's, paired by request. ``asked``: cases with their plain
    ids, taken in turns by kind."""
    moments = [when * unit_ms for when, size in BURSTS for _ in range(size)]
    order = [asked[i % len(asked)] for i in _mixed(len(asked), len(moments))]
    requests = [Asked(case.image, case.long.question, _settings(budget), at) for (case, _), at in zip(order, moments)]
    latencies: dict[str, list[float]] = {name: [] for name in ways.names}
    ends: dict[str, list[float]] = {name: [] for name in ways.names}
    tokens = sum(len(ids) for _, ids in order)
    for turn in range(BURST_TURNS):
        for name in ways.turned(turn * len(ways.names) // BURST_TURNS):
            clock = Clock()
            answers = sorted(serve(ways.lockstep(name, ways.chooser()), requests, clock), key=lambda answer: answer.number)
            ways.compare([answer.ids for answer in answers], [ids for _, ids in order])
            latencies[name] += [answer.ended_ms - at for answer, at in zip(answers, moments)]
            ends[name].append(max(answer.ended_ms for answer in answers))
    best = min(FIXED, key=lambda name: fmean(latencies[name]))
    rows = {
        name: {
            "latency_ms": fmean(spent),
            "longest_ms": max(spent),
            "tokens_per_s": 1e3 * tokens * BURST_TURNS / sum(ends[name]),
        }
        for name, spent in latencies.items()
    }
    return {
        "bursts": [list(burst) for burst in BURSTS],
        "unit_ms": unit_ms,
        "rows": rows,
        "best": best,
        **against("best", [list(zip(latencies[best], latencies[ADAPTIVE]))]),
        **against("plain", [list(zip(latencies[PLAIN], latencies[ADAPTIVE]))]),
    }


def _mixed(have: int, count: int) -> list[int]:
    """``count`` numbers below ``have``, neighbours a third apart: kinds take turns in a list that is sorted by kind."""
    third = max(1, have // len(KINDS))
    return [(i * third + i // len(KINDS)) % have for i in range(count)]
