"""Wall times of the ways to decode one request, interleaved so that a slow minute of the machine hits all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

REPEATS = 3
RESAMPLES = 4_000
#: Pictures that a group needs for an interval: one picture drawn again is always itself, and would look sure.
FEWEST = 2


def interleaved_times(ways: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Ms of each way in ``repeats`` rounds in which every way runs once, the order turned by one each round."""
    names, times = list(ways), {name: [] for name in ways}
    gc.collect()
    for turn in range(repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            ways[name]()
            times[name].append((time.perf_counter() - started) * 1e3)
    return times


def interleaved_ms(ways: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Median ms of each way, see ``interleaved_times``."""
    return {name: median(values) for name, values in interleaved_times(ways, repeats).items()}


def ratio(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Sum of the first over the sum of the second of each pair; None without a pair or over nothing."""
    below = sum(second for _, second in pairs)
    return sum(first for first, _ in pairs) / below if below > 0 else None


def bootstrap_interval(
    groups: Sequence[Sequence[tuple[float, float]]], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float] | None:
    """95 % percentile interval of the mean over groups of ``ratio``, pictures drawn again with replacement inside each group.

    groups: per kind its (plain ms, speculative ms) pairs, a picture a pair; one without a pair is left out. None, which is 'not
    known', where no group has a pair or one has fewer than FEWEST with something below.
    """
    groups = [group for group in groups if group]
    if not groups or any(sum(second > 0 for _, second in group) < FEWEST for group in groups):
        return None
    rng = np.random.default_rng(seed)
    total = np.zeros(resamples)
    for group in groups:
        pairs = np.array(group, float)  # (pictures, 2)
        drawn = pairs[rng.integers(len(pairs), size=(resamples, len(pairs)))].sum(1)  # (resamples, 2)
        total += drawn[:, 0] / drawn[:, 1]
    low, high = np.quantile(total / len(groups), (0.025, 0.975))
    return float(low), float(high)


def change_interval(
    groups: Sequence[Sequence[tuple[float, float, float, float]]], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float] | None:
    """95 % percentile interval of the mean over groups of a/b - c/d, pictures (a, b, c, d) drawn again with replacement inside
    each group, so that both sides of a difference always see the same pictures.

    A group in which a or c has nothing below it is left out; None, which is 'not known', where none is left or one has fewer
    than FEWEST pictures with something below a, or below c.
    """
    groups = [
        rows for group in groups if (rows := np.array(group, float)).size and rows[:, 1].sum() > 0 and rows[:, 3].sum() > 0
    ]
    if not groups or any((rows[:, (1, 3)] > 0).sum(0).min() < FEWEST for rows in groups):
        return None
    rng = np.random.default_rng(seed)
    total = np.zeros(resamples)
    for rows in groups:
        drawn = rows[rng.integers(len(rows), size=(resamples, len(rows)))].sum(1)  # (resamples, 4)
        with np.errstate(invalid="ignore", divide="ignore"):
            total += drawn[:, 0] / drawn[:, 1] - drawn[:, 2] / drawn[:, 3]
    low, high = np.nanquantile(total / len(groups), (0.025, 0.975))
    return float(low), float(high)
