"""``bench table7``, ``table3``, ``fig4``, ``fig6``: the same drafter reading in other ways, with the change against FOVEA: the
paper's Table 7 (controls), Table 3 (interfaces), figures 4 (how many entries) and 6 (how deep) in miniature.

Each row answers the same questions on the same tree; a row's tau, pointing and captured mass come from one untimed run a
picture, its speedup from runs that take turns with plain decoding and with all other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import fmean, median

from fovea_core.bench.machine import BUSY_SHARE, LoadWatch, Sitting
from fovea_core.bench.memory import peak_bytes
from fovea_core.bench.models import Loader, load_builtin
from fovea_core.bench.observe import Choices, Observed
from fovea_core.bench.pointing import Pointing
from fovea_core.bench.score import place_facts
from fovea_core.bench.scoring import Ran, SharedPrefill, run_once
from fovea_core.bench.timing import REPEATS, RESAMPLES, change_interval, interleaved_ms, ratio
from fovea_core.bench.workloads import MAPS, TREES, Case, draw_case, timed_seeds
from fovea_core.decode.draft import Drafter
from fovea_core.decode.interfaces import Interface
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import RunSettings
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.reads import own_reader
from fovea_core.trace.strip import jaccard_distance
from fovea_core.worksite.words import KINDS

#: Default seeds, four pictures of each kind, and how many of these are timed: all tables together are to take half an hour.
SEEDS, TIMED_PICTURES = range(9_500_000, 9_500_012), 2
FULL = "fovea"
#: Name of the tree on which rows are timed: a chain, on which drafting is cheapest here.
TIMED = "chain"


@dataclass(frozen=True)
class Row:
    """One way to read: ``settings`` beside the workload's; ``interface``: one of decode.interfaces, None = the correction;
    ``model``: a drafter of its own among the models, 'none' = no drafter; ``paper``: its (speedup, tau) change against full
    FOVEA there; ``paper_gib``: its memory above plain decoding there."""

    settings: dict = field(default_factory=dict)
    blind: bool = False
    interface: str | None = None
    model: str | None = None
    paper: tuple[float, float] | None = None
    paper_gib: float | None = None


#: Rows of Table 7; the paper's changes stand there, with 16 entries where a control has a number.
CONTROLS = {
    FULL: Row(),
    "topk-16": Row({"policy": "topk-16"}),
    "dense": Row({"policy": "dense"}, paper=(-0.157, -0.193)),
    "random-16": Row({"policy": "random-16"}, paper=(-0.176, -0.206)),
    "static-16": Row({"policy": "static-16"}, paper=(-0.187, -0.225)),
    "agnostic-16": Row({"policy": "agnostic-16"}, paper=(-0.247, -0.213)),
    "state-16": Row({"policy": "state-16"}, paper=(-0.197, -0.204)),
    "tiger-8": Row({"policy": "tiger-8"}),
    "unilaspec-8": Row({"policy": "unilaspec-8"}),
    "hawk": Row({"policy": "hawk"}),
    "foveated": Row({"policy": "foveated"}),
    "none": Row({"policy": "none"}),
    "blind twin": Row(blind=True),
}

#: Rows of every table by its name.
TABLES = {
    "table7": CONTROLS,
    "table3": {
        FULL: Row(paper_gib=0.378),
        "correction + rebuild": Row(interface="rebuild", paper=(-0.091, 0.003), paper_gib=0.377),
        "fixed prefix, untrained for it": Row(interface="prefix", paper=(-0.174, -0.193), paper_gib=0.373),
        "dynamic insertion, untrained for it": Row(interface="insertion", paper=(-0.323, 0.075), paper_gib=0.361),
        "none": Row({"policy": "none"}),
    },
    "table2": {FULL: Row(), "plain": Row(model="none"), "drafter without memory": Row(blind=True, paper=(-0.585, -1.055))},
    "fig4": {FULL: Row(), **{name: Row({"policy": name}) for name in ("none", *(f"topk-{2**i}" for i in range(8)), "dense")}},
    "fig6": {
        FULL: Row(),
        **{f"l <= {depth}": Row({"depth_limit": depth}) for depth in range(5)},
        "none": Row({"policy": "none"}),
    },
}


#: Tables whose rows' memory is measured, over the first tokens of an answer: what is held does not grow much after them.
HELD, HELD_TOKENS = ("table3",), 32


@dataclass
class Measured:
    """What one row did on one picture: tokens behind the first and rounds; hits of facts and facts with a read; mean entries
    and captured mass of all reads (no mass where a drafter has a reader of its own); mean Jaccard distance between the reads of
    neighbouring words; overlap and jaccard as in observe.Choices (None without reads); memory_mib: see ``held``."""

    tokens: int
    rounds: int
    hits: int
    facts: int
    entries: float | None
    captured: float | None
    movement: float | None
    same: bool
    overlap: float | None = None
    jaccard: float | None = None
    memory_mib: float | None = None


def measure(case: Case, ran: Ran, plain_ids: list[int], choices: Choices | None = None) -> Measured:
    """One run's figures; ``choices``: what its policy chose, where that was observed."""
    overlap, jaccard = choices.means() if choices else (None, None)
    pointing = Pointing()
    pointing.add(case.picture, ran.summary, place_facts(case.long, ran.summary.tokens), ran.reads)
    own = own_reader(ran.summary.started.policy)  # its masses are no shares of all
    shown = [token.read for token in ran.summary.tokens if token.read is not None]
    sets = [set(unpack_entries(read.entries)) for read in shown]
    moved = [jaccard_distance(one, other) for one, other in pairwise(sets)]
    hits, facts = (sum(pair[i] for pair in pointing.hits.values()) for i in (0, 1))
    return Measured(
        tokens=len(ran.summary.ids) - 1,
        rounds=ran.summary.rounds,
        hits=hits,
        facts=facts,
        entries=fmean(len(unpack_entries(read.entries)) for read in ran.reads) if ran.reads else None,
        captured=fmean(read.captured for read in ran.reads) if ran.reads and not own else None,
        movement=fmean(moved) if moved else None,
        same=ran.summary.ids == plain_ids,
        overlap=overlap,
        jaccard=jaccard,
    )


def bench_policies(name: str, seeds: range = SEEDS, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """Table ``name`` of the embedded model. Raises TargetError or DrafterError where the weights are missing."""
    return read_table(name, load_builtin, seeds, progress)


def read_table(
    name: str,
    load: Loader,
    seeds: range,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    budget: int = 256,
    scale: float | None = None,
    more: dict[str, tuple[Drafter, tuple[float, float] | None]] | None = None,
) -> dict:
    """Every row of the table ``name`` on the long question of every seed's picture, as plain values for JSON. ``more``: further
    rows, each a drafter of its own with the paper's change.

    {rows: {name: {overall, scene, text, chart, paper, paper_gib}}, workload, models, machine, ...}; figures as in ``figures``.
    """
    rows, sitting = TABLES[name], Sitting()
    models = dict(zip(("target", "drafter", "blind"), load(), strict=True))
    timed, done = timed_seeds(seeds, TIMED_PICTURES), 0
    for label, (drafter, paper) in (more or {}).items():
        rows, models = rows | {label: Row(model=label, paper=paper)}, models | {label: drafter}

    def step(what: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(timed) + len(seeds), what)

    watch = LoadWatch()
    times: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for seed in timed:
        case = draw_case(seed, scale)
        times[case.kind].append(time_rows(models, case, rows, budget))
        step(f"timing {case.kind} {seed}")
    others = watch.others()
    measured: dict[str, dict[str, list[Measured]]] = {label: {kind: [] for kind in KINDS} for label in rows}
    shared, weighed = SharedPrefill(models["target"]), set()
    for seed in seeds:
        case = draw_case(seed, scale)
        memory: dict[str, float] = {}
        if name in HELD and case.kind not in weighed:  # it is nearly the same for every picture, and slow to count
            weighed.add(case.kind)
            memory = held(models, case, rows)
        plain_ids = decode_plain(shared, case.image, case.long.question, _plain(budget)).ids
        for label, row in rows.items():
            drafter = _drafter(models, row)
            observed = drafter and Observed(drafter)
            ran = _run(shared, observed, case, row, MAPS, budget)
            found = measure(case, ran, plain_ids, observed and observed.choices)
            measured[label][case.kind].append(replace(found, memory_mib=memory.get(label)))
        step(f"reading {case.kind} {seed}")
    over = {"overall": KINDS, **{kind: [kind] for kind in KINDS}}
    table = {label: {key: figures(label, measured, times, kinds) for key, kinds in over.items()} for label in rows}
    for label, row in rows.items():
        table[label]["paper"] = row.paper and {"speedup_change": row.paper[0], "tau_change": row.paper[1]}
        table[label]["paper_gib"] = row.paper_gib
    return {
        "rows": table,
        "workload": {
            "name": name,
            "seeds": f"{seeds.start}:{seeds.stop}",
            "timed_pictures": len(timed),
            "repeats": REPEATS,
            "resamples": RESAMPLES,
            "max_new_tokens": budget,
            "tree": TREES[MAPS].model_dump(),
            "timed_tree": TREES[TIMED].model_dump(),
        },
        "models": {part: {"id": model.id, "fingerprint": model.fingerprint} for part, model in models.items()},
        **sitting.told(),
        "load_average": watch.load_average,
        "others_cpu_share": others,
        "machine_busy": others >= BUSY_SHARE,
    }


def time_rows(models: dict, case: Case, rows: dict[str, Row], budget: int) -> dict[str, float]:
    """Median ms of whole requests, prefill included: plain decoding and every row on the timed tree, in turns; and, as
    'draft NAME' and 'select NAME', a row's median ms a round for drafting as a whole, and for selection, readout and correction
    in it."""
    spent: dict[str, list[float]] = {f"{part} {name}": [] for name in rows for part in ("draft", "select")}

    def draft(name: str, row: Row) -> None:
        summary = _run(models["target"], _drafter(models, row), case, row, TIMED, budget).summary
        spent[f"draft {name}"].append((summary.draft_ms + summary.select_ms) / max(1, summary.rounds))
        spent[f"select {name}"].append(summary.select_ms / max(1, summary.rounds))

    ways: dict[str, Callable] = {
        "plain": lambda: decode_plain(models["target"], case.image, case.long.question, _plain(budget))
    }
    for name, row in rows.items():
        ways[name] = partial(draft, name, row)
    return interleaved_ms(ways) | {key: median(values) for key, values in spent.items()}


def held(models: dict, case: Case, rows: dict[str, Row]) -> dict[str, float]:
    """MiB of tensors that every row holds at most while it decodes, above what plain decoding of the case holds (bench.memory):
    caches, memory, and what a round needs; weights do not count."""

    def most(drafter: Drafter | None, settings: dict) -> int:
        asked = RunSettings(**({"max_new_tokens": HELD_TOKENS, "tree": TREES[MAPS], "detail": "rounds"} | settings))
        return peak_bytes(lambda: decode(models["target"], drafter, case.image, case.long.question, asked))

    plain = most(None, {})
    return {label: (most(_drafter(models, row), row.settings) - plain) / 2**20 for label, row in rows.items()}


def _drafter(models: dict, row: Row) -> Drafter | None:
    if row.model is not None:
        return models.get(row.model)
    drafter = models["blind" if row.blind else "drafter"]
    return Interface(drafter, row.interface) if row.interface else drafter


def _run(target, drafter: Drafter | None, case: Case, row: Row, tree: str, budget: int) -> Ran:
    detail = "nodes" if tree == MAPS else "rounds"
    settings = RunSettings(**({"max_new_tokens": budget, "tree": TREES[tree], "detail": detail} | row.settings))
    return run_once(target, drafter, case.image, case.long.question, settings, None)


def _plain(budget: int) -> RunSettings:
    return RunSettings(max_new_tokens=budget, detail="rounds")


def figures(name: str, measured: dict, times: dict, kinds: Sequence[str]) -> dict:
    """What a row comes to over ``kinds``, each figure the mean of the kinds' figures.

    tau and pointing with their change against FOVEA and its paired 95 % interval (pictures drawn again with replacement inside
    each kind); speedup over plain decoding, prefill included, on the timed chain, and its change; entries, captured, movement,
    overlap and jaccard: means over pictures; memory_mib (see held): over those weighed; draft_ms and select_ms (see time_rows):
    over the timed ones. None where nothing was counted.
    """
    mine, full = ([measured[row][kind] for kind in kinds] for row in (name, FULL))
    lengths = [[(m.tokens, m.rounds, f.tokens, f.rounds) for m, f in zip(a, b)] for a, b in zip(mine, full)]
    points = [[(m.hits, m.facts, f.hits, f.facts) for m, f in zip(a, b)] for a, b in zip(mine, full)]
    spent = [[(t["plain"], t[name], t["plain"], t[FULL]) for t in times[kind]] for kind in kinds]
    out: dict = {"answers": sum(map(len, mine)), "same_ids_rate": _mean([m.same for group in mine for m in group])}
    for figure, groups in (("tau", lengths), ("pointing", points), ("speedup", spent)):
        own = _mean([ratio([row[:2] for row in group]) for group in groups])
        reference = _mean([ratio([row[2:] for row in group]) for group in groups])
        out[figure] = own
        out[f"{figure}_change"] = None if own is None or reference is None else own - reference
        out[f"{figure}_interval"] = change_interval(groups)
    for figure in ("entries", "captured", "movement", "overlap", "jaccard", "memory_mib"):
        out[figure] = _mean([getattr(m, figure) for group in mine for m in group])
    for part in ("draft", "select"):
        out[f"{part}_ms"] = _mean([t.get(f"{part} {name}") for kind in kinds for t in times[kind]])
    return out


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
