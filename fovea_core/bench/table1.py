"""``bench table1``: the paper's main table in miniature, every drafter against plain decoding on pictures of three kinds.

Scenes stand for MMT-Bench, pictures of text for OCRBench, charts for ChartQA. All ways answer the same questions in turns, the
picture read anew each time; tau and the ids are those of the timed runs themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median

from fovea_core.bench.machine import BUSY_SHARE, LoadWatch, Sitting
from fovea_core.bench.models import Loader, load_builtin
from fovea_core.bench.scoring import run_once
from fovea_core.bench.timing import REPEATS, RESAMPLES, bootstrap_interval, change_interval, interleaved_times, ratio
from fovea_core.bench.workloads import TREES, Case, draw_case
from fovea_core.decode.cost import measure
from fovea_core.decode.draft import Drafter
from fovea_core.decode.lookup import COPIED, LookupDrafter
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.trie import MOST, NEXT, TrieDrafter
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target
from fovea_core.trace.events import CostTable, Shape
from fovea_core.worksite.words import KINDS

#: Default seeds: four pictures of each kind.
SEEDS = range(9_500_000, 9_500_012)
PLAIN, FULL = "plain", "FOVEA, the tree that pays here"


@dataclass(frozen=True)
class Entrant:
    """A way to draft: the name of a drafter (``drafters_of``), its tree (None: chosen each round by measured cost), and the
    paper's (speedup, tau) by kind of picture, or over its nine benchmarks as 'overall'; a range where it gives one."""

    drafter: str
    tree: Shape | None
    paper: dict[str, tuple] | None = None


_FOVEA = {"scene": (2.13, 4.52), "text": (1.68, 3.23), "overall": (1.68, 3.960)}
_BLIND = {"scene": (1.52, 3.12), "text": (1.12, 2.52)}
#: Rows of the table. The paper's figures are those of LLaVA-NeXT-7B; its 'without visual correction' stands beside the twin.
ENTRANTS = {
    "PLD": Entrant("lookup", Shape(depth=COPIED, width=1, nodes=COPIED + 1), {"overall": ((1.06, 1.22), None)}),
    "trie (Lookahead)": Entrant("trie", Shape(depth=NEXT, width=MOST, nodes=MOST + 1), {"overall": ((0.87, 1.11), None)}),
    "blind twin, the paper's tree": Entrant("blind", TREES["paper"], _BLIND),
    "blind twin, the tree that pays here": Entrant("blind", None, _BLIND),
    "FOVEA, the paper's tree": Entrant("builtin", TREES["paper"], _FOVEA),
    FULL: Entrant("builtin", None, _FOVEA),
}


def drafters_of(drafter: Drafter, blind: Drafter) -> dict[str, Drafter]:
    """The drafters that entrants name."""
    return {"builtin": drafter, "blind": blind, "lookup": LookupDrafter(), "trie": TrieDrafter()}


@dataclass
class Timed:
    """One way on one picture: ms of each repeat; tokens behind the first, rounds, and repeats whose ids are the plain ones."""

    ms: list[float]
    tokens: int = 0
    rounds: int = 0
    same: int = 0

    @property
    def typical_ms(self) -> float:
        """Median of the repeats."""
        return median(self.ms)


def time_picture(
    target: Target, drafters: dict[str, Drafter], costs: dict[str, CostTable], case: Case, budget: int
) -> dict[str, Timed]:
    """Plain decoding and every entrant on a case's long question, in turns; the ids of all runs are compared."""
    image, question = case.image, case.long.question
    asked = RunSettings(max_new_tokens=budget, detail="rounds")
    said: dict[str, list[tuple[list[int], int]]] = {name: [] for name in (PLAIN, *ENTRANTS)}

    def plain() -> None:
        said[PLAIN].append((decode_plain(target, image, question, asked).ids, 0))

    def draft(name: str, entrant: Entrant) -> None:
        settings = asked.model_copy(update={"tree": entrant.tree})
        summary = run_once(target, drafters[entrant.drafter], image, question, settings, costs.get(entrant.drafter)).summary
        said[name].append((summary.ids, summary.rounds))

    ways: dict[str, Callable[[], None]] = {PLAIN: plain}
    ways |= {name: partial(draft, name, entrant) for name, entrant in ENTRANTS.items()}
    times, wanted = interleaved_times(ways), said[PLAIN][0][0]
    return {
        name: Timed(
            ms,
            sum(len(ids) - 1 for ids, _ in said[name]),
            sum(rounds or len(ids) - 1 for ids, rounds in said[name]),
            sum(ids == wanted for ids, _ in said[name]),
        )
        for name, ms in times.items()
    }


def figures(name: str, pictures: Sequence[Sequence[dict[str, Timed]]]) -> dict:
    """What a way comes to over groups (kinds) of pictures; each figure is the mean of the groups' figures.

    answers, same_ids_rate; ms: median request; tau and speedup over plain with 95 % intervals (tau_ends, speedup_ends),
    pictures drawn again with replacement; speedup_spread: lowest and highest of the repeats' speedups; speedup_change,
    tau_change against FULL with their paired intervals (speedup_interval, tau_interval).
    """
    groups = [group for group in pictures if group]
    mine = [[picture[name] for picture in group] for group in groups]
    every = [one for group in mine for one in group]
    out: dict = {
        "answers": sum(len(one.ms) for one in every),
        "same_ids_rate": sum(one.same for one in every) / max(1, sum(len(one.ms) for one in every)),
        "ms": fmean(median(one.typical_ms for one in group) for group in mine) if mine else None,
    }
    parts = {
        "tau": lambda picture, way: (picture[way].tokens, picture[way].rounds),
        "speedup": lambda picture, way: (picture[PLAIN].typical_ms, picture[way].typical_ms),
    }
    for figure, part in parts.items():
        pairs = [[part(picture, name) for picture in group] for group in groups]
        both = [[(*part(picture, name), *part(picture, FULL)) for picture in group] for group in groups]
        out[figure], out[f"{figure}_ends"] = _mean(map(ratio, pairs)), bootstrap_interval(pairs)
        reference = _mean(ratio([row[2:] for row in group]) for group in both)
        known = out[figure] is not None and reference is not None
        out[f"{figure}_change"] = out[figure] - reference if known else None
        out[f"{figure}_interval"] = change_interval(both)
    repeats = range(min((len(one.ms) for one in every), default=0))
    by_repeat = [
        _mean(ratio([(picture[PLAIN].ms[turn], picture[name].ms[turn]) for picture in group]) for group in groups)
        for turn in repeats
    ]
    out["speedup_spread"] = (min(by_repeat), max(by_repeat)) if by_repeat else None
    return out


def _mean(values) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def bench_table1(seeds: range = SEEDS, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """``table1`` of the embedded model. Raises TargetError or DrafterError where the weights are missing."""
    return table1(load_builtin, seeds, progress)


def table1(
    load: Loader,
    seeds: range,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    budget: int = 256,
    scale: float | None = None,
) -> dict:
    """Every entrant on the long question of every seed's picture, as plain values for JSON.

    {rows: {name: {overall, scene, text, chart: see ``figures``, paper}}, workload, models, machine, ...}.
    """
    sitting = Sitting()
    target, drafter, blind = load()
    drafters = drafters_of(drafter, blind)
    costs = {one.drafter: measure(target, drafters[one.drafter]) for one in ENTRANTS.values() if one.tree is None}
    watch = LoadWatch()
    found: dict[str, list[dict[str, Timed]]] = {kind: [] for kind in KINDS}
    for done, seed in enumerate(seeds, start=1):
        case = draw_case(seed, scale)
        found[case.kind].append(time_picture(target, drafters, costs, case, budget))
        if progress is not None:
            progress(done, len(seeds), f"timing {case.kind} {seed}")
    others = watch.others()
    rows = {
        name: {
            "overall": figures(name, list(found.values())),
            **{kind: figures(name, [found[kind]]) for kind in KINDS},
            "paper": ENTRANTS[name].paper if name in ENTRANTS else None,
        }
        for name in (PLAIN, *ENTRANTS)
    }
    return {
        "rows": rows,
        "workload": {
            "name": "table1",
            "seeds": f"{seeds.start}:{seeds.stop}",
            "repeats": REPEATS,
            "resamples": RESAMPLES,
            "max_new_tokens": budget,
            "trees": {name: one.tree.model_dump() if one.tree else "chosen by cost" for name, one in ENTRANTS.items()},
        },
        "models": {
            part: {"id": model.id, "fingerprint": model.fingerprint}
            for part, model in (("target", target), ("drafter", drafter), ("blind", blind))
        },
        "cost": {name: table.model_dump() for name, table in costs.items()},
        **sitting.told(),
        "load_average": watch.load_average,
        "others_cpu_share": others,
        "machine_busy": others >= BUSY_SHARE,
    }
