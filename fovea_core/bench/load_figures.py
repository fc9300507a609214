"""What the timings of ``bench load`` come to: a setting, all settings of a load, all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean

from fovea_core.bench.timing import bootstrap_interval, ratio
from fovea_core.trace.events import Shape

PLAIN, ADAPTIVE = "plain", "adaptive"
#: What a fixed way drafts every round; None = nothing.
FIXED: dict[str, Shape | None] = {
    PLAIN: None,
    "chain 2": Shape(depth=2, width=1, nodes=3),
    "chain 4": Shape(depth=4, width=1, nodes=5),
    "chain 6": Shape(depth=6, width=1, nodes=7),
    "tree 12": Shape(depth=4, width=3, nodes=12),
}
#: What was wanted: so much of the best fixed shape's rate in so many settings, and never less than that of plain decoding.
NEAR, WANTED = 0.98, 0.85


@dataclass(frozen=True)
class Batch:
    """Requests decoded together in every way: tokens behind the first ones, median ms by way over the turns, what the chooser
    sent in the last turn."""

    tokens: int
    ms: dict[str, float]
    choices: Counter


def setting(kind: str, length: str, requests: int, batches: list[Batch], alone: bool = False) -> dict:
    """One setting: tokens a second by way, the best fixed one, the chooser's rate over it and over plain with 95 % intervals
    (batches drawn again; None where all are of one picture ``alone``), and shares of its rounds."""
    rates = {name: _rate(batches, name) for name in (*FIXED, ADAPTIVE)}
    best = max(FIXED, key=rates.__getitem__)
    choices = sum((batch.choices for batch in batches), Counter())
    rounds = sum(choices[name] for name in ("nothing", "chain", "tree"))
    return {
        "kind": kind,
        "length": length,
        "load": requests,
        "tokens": sum(batch.tokens for batch in batches),
        "tokens_per_s": rates,
        "best": best,
        **against("best", [_pairs(batches, best)], alone),
        **against("plain", [_pairs(batches, PLAIN)], alone),
        "rounds": {name: choices[name] / rounds if rounds else 0.0 for name in ("nothing", "chain", "tree")},
        "nodes": choices["nodes"] / rounds if rounds else 0.0,
    }


def _rate(batches: list[Batch], name: str) -> float | None:
    """Tokens a second."""
    return ratio([(1e3 * batch.tokens, batch.ms[name]) for batch in batches])


def _pairs(batches: list[Batch], other: str) -> list[tuple[float, float]]:
    """(ms of another way, ms of the chooser) of each batch: their ratio is that of the rates, tokens being the same."""
    return [(batch.ms[other], batch.ms[ADAPTIVE]) for batch in batches]


def against(name: str, groups: list[list[tuple[float, float]]], alone: bool = False) -> dict:
    """Mean ratio over groups, and its interval, as ``of_NAME``."""
    ends = None if alone else bootstrap_interval(groups)
    return {f"of_{name}": fmean(ratio(group) for group in groups), f"of_{name}_interval": ends}


def summed(measured: dict[tuple[str, str, int], list[Batch]], requests: int, alone: bool = False) -> dict:
    """All settings of one load: by way the mean over them of its rate over plain's, with its interval; the chooser's over the
    best fixed one's. ``alone``: a kind has one picture only."""
    groups = [batches for (_, _, load), batches in measured.items() if load == requests]
    rows = {}
    for name in (*FIXED, ADAPTIVE):
        pairs = [[(batch.ms[PLAIN], batch.ms[name]) for batch in batches] for batches in groups]
        rows[name] = against("plain", pairs, alone)
    best = [_pairs(batches, max(FIXED, key=lambda name, batches=batches: _rate(batches, name))) for batches in groups]
    return {"rows": rows, **against("best", best, alone)}


def overall(settings: list[dict]) -> dict:
    """Share of settings in which the chooser reaches NEAR of the best fixed rate, in how many it surely does not; its least
    rate over plain's, and in how many settings it is below NEAR of that, surely or not. Nothing is sure where the interval is
    not known (unknown_intervals settings)."""
    near = [one["of_best"] >= NEAR for one in settings]

    def surely_below(name: str) -> int:
        ends = [one[f"of_{name}_interval"] for one in settings]
        return sum(known is not None and known[1] < NEAR for known in ends)

    return {
        "settings": len(settings),
        "near_best": sum(near),
        "near_best_share": fmean(near),
        "surely_below_best": surely_below("best"),
        "least_of_plain": min(one["of_plain"] for one in settings),
        "below_plain": sum(one["of_plain"] < NEAR for one in settings),
        "surely_below_plain": surely_below("plain"),
        "unknown_intervals": sum(one["of_plain_interval"] is None for one in settings),
        "wanted": {"near": NEAR, "share": WANTED},
    }
