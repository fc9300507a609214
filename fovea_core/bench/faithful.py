"""``bench faithful``: whether a word needs the entries that the page shows as retrieved for it.

A word of the reference that the answer states is taken with the state that scored its first token, where that token was
drafted from a read (as pointing counts it). The state's memory then loses its chosen entries, or as many random others; the
policy selects anew among what is left, and the drafter's log-probability of the token drops by so many nats. A map whose
loss costs no more than any other loss is decoration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from fovea_core.bench.drops import DRAWS, Word, measure_case
from fovea_core.bench.machine import Sitting
from fovea_core.bench.timing import RESAMPLES, bootstrap_interval
from fovea_core.bench.workloads import MAPS, TREES, draw_case
from fovea_core.decode.fovea import FoveaDrafter, load_drafter
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target
from fovea_core.targets.registry import load_target
from fovea_core.trace.events import Shape
from fovea_core.worksite.words import KINDS

#: Default seeds of ``bench faithful``, the first half of those of ``bench builtin``.
FAITHFUL_SEEDS = range(9_500_000, 9_500_030)
#: Ratio of the two drops that fact words are to reach.
WANTED = 3.0


def figures(groups: Iterable[Sequence[Word]]) -> dict:
    """What some words come to; each figure is the mean over ``groups`` (kinds) of the mean over their words, as 'overall' is.

    stated, drafted: words the answers state, and those of them with a read; words: those that could be compared; entries:
    chosen ones a word; ratio: drop_chosen / drop_random, None where random entries cost nothing; ratio_least: drop_chosen /
    change_random, the cautious one, steady where random drops cancel out; difference_interval: 95 % of difference =
    drop_chosen - drop_random, pictures drawn again with replacement, both drops of a word together. None without a word.
    """
    groups = [list(group) for group in groups]
    stated = sum(map(len, groups))
    drafted = sum(word.entries > 0 for group in groups for word in group)
    groups = [kept for group in groups if (kept := [word for word in group if word.drop is not None])]
    out = {"stated": stated, "drafted": drafted, "words": sum(map(len, groups))}

    def mean(value: Callable[[Word], float]) -> float | None:
        return fmean(fmean(map(value, group)) for group in groups) if groups else None

    out["entries"] = mean(lambda word: word.entries)
    out["logp"] = mean(lambda word: word.drop.logp)
    chosen = out["drop_chosen"] = mean(lambda word: word.drop.chosen)
    random = out["drop_random"] = mean(lambda word: word.drop.random)
    change = out["change_random"] = mean(lambda word: word.drop.change)
    out["ratio"] = chosen / random if groups and random > 0 else None
    out["ratio_least"] = chosen / change if groups and change > 0 else None
    out["difference"] = chosen - random if groups else None
    out["difference_interval"] = bootstrap_interval([_by_picture(group) for group in groups])
    return out


def _by_picture(words: Sequence[Word]) -> list[tuple[float, float]]:
    """Per picture the sum of its words' differences and their number: a mean over words is the ratio of such sums."""
    sums: dict[int, list[float]] = {}
    for word in words:
        mine = sums.setdefault(word.seed, [0.0, 0.0])
        mine[0] += word.drop.chosen - word.drop.random
        mine[1] += 1
    return [(total, count) for total, count in sums.values()]


def bench_faithful(seeds: range = FAITHFUL_SEEDS, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """``faithful`` of the embedded model. Raises TargetError or DrafterError where the weights are missing."""
    target = load_target("builtin")
    return faithful(target, load_drafter("builtin", target), seeds, progress)


def faithful(
    target: Target,
    drafter: FoveaDrafter,
    seeds: range,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    budget: int = 256,
    scale: float | None = None,
    shape: Shape = TREES[MAPS],
) -> dict:
    """Both drops for fact words and for other words, as plain values for JSON. Untimed and deterministic.

    {overall, kinds: {scene, text, chart}: {fact, other: ``figures``}, classes: {class: figures of its facts}, workload, models,
    machine, versions}. ``progress`` takes (done, total, what); ``scale``: see draw_case.
    """
    sitting, words = Sitting(), []
    for done, seed in enumerate(seeds, start=1):
        words += measure_case(target, drafter, draw_case(seed, scale), budget, shape)
        if progress is not None:
            progress(done, len(seeds), f"{KINDS[seed % len(KINDS)]} {seed}")

    def both(kinds: Sequence[str]) -> dict:
        facts = [[word for word in words if word.kind == kind and word.cls is not None] for kind in kinds]
        others = [[word for word in words if word.kind == kind and word.cls is None] for kind in kinds]
        return {"fact": figures(facts), "other": figures(others)}

    classes = sorted({word.cls for word in words if word.cls is not None})
    policy, depth_limit = drafter.sight(RunSettings())
    return {
        "overall": both(KINDS),
        "kinds": {kind: both([kind]) for kind in KINDS},
        "classes": {cls: figures([[word for word in words if word.cls == cls]]) for cls in classes},
        "workload": {
            "name": "faithful",
            "seeds": f"{seeds.start}:{seeds.stop}",
            "max_new_tokens": budget,
            "tree": shape.model_dump(),
            "policy": policy,
            "depth_limit": depth_limit,
            "draws": DRAWS,
            "resamples": RESAMPLES,
            "wanted_ratio": WANTED,
        },
        "models": {name: {"id": m.id, "fingerprint": m.fingerprint} for name, m in (("target", target), ("drafter", drafter))},
        **sitting.told(),
    }
