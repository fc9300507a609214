"""Sums over the answers of one kind of picture, and the figures they come to; 'overall' is the mean of the kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fovea_core.bench.pointing import Pointing
from fovea_core.bench.timing import bootstrap_interval, ratio

#: Pooled accuracies, in the order they are reported.
ACCURACIES = ("attribute_acc", "char_acc", "value_acc", "short_acc")
#: Figure -> the two ways of decoding whose total times it compares.
RATIOS = {
    "speedup_plain": ("plain", "speculative"),
    "speedup_generate": ("generate", "speculative"),
    "speedup_lookup": ("lookup", "speculative"),
    "plain_vs_generate": ("generate", "plain"),
}


def share(right: float, total: float) -> float | None:
    """right / total, None where there is nothing to divide by."""
    return right / total if total else None


@dataclass
class Tally:
    """What was counted for one kind.

    scores: accuracy -> [right, total]; lengths: tree (or tree_blind) -> [tokens behind the first, rounds];
    times: per timed picture, way of decoding -> median ms, ``prefill`` among them; same: answers that are plain decoding's
    in every run; strip, scenes: worker scenes whose strip hits, and all tried.
    """

    answers: int = 0
    same: int = 0
    scores: dict[str, list[int]] = field(default_factory=lambda: {name: [0, 0] for name in ACCURACIES})
    lengths: dict[str, list[int]] = field(default_factory=dict)
    facts: int = 0
    reference_tokens: int = 0
    pointing: Pointing = field(default_factory=Pointing)
    strip: int = 0
    scenes: int = 0
    times: list[dict[str, float]] = field(default_factory=list)
    rival_answers: int = 0
    rival_same: int = 0

    def score(self, name: str, counted: tuple[int, int]) -> None:
        """Add (right, total) to an accuracy."""
        self.scores[name][0] += counted[0]
        self.scores[name][1] += counted[1]

    def length(self, tree: str, tokens: int, rounds: int) -> None:
        """Add one run's length: ``tokens`` behind the first one in ``rounds`` rounds."""
        sums = self.lengths.setdefault(tree, [0, 0])
        sums[0] += tokens
        sums[1] += rounds

    def merge(self, other: Tally) -> None:
        """Add what another tally counted."""
        for name in ("answers", "same", "facts", "reference_tokens", "strip", "scenes", "rival_answers", "rival_same"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, counted in other.scores.items():
            self.score(name, counted)
        for tree, lengths in other.lengths.items():
            self.length(tree, *lengths)
        self.pointing.merge(other.pointing)
        self.times += other.times

    def pairs(self, first: str, second: str) -> list[tuple[float, float]]:
        """(ms, ms) of two ways of decoding, a timed picture a pair."""
        return [(times[first], times[second]) for times in self.times]

    def overhead(self) -> float | None:
        """Extra time that recording reads and nodes costs, as a share of the decode time (prefill not counted)."""
        extra = [(times["nodes"] - times["speculative"], times["speculative"] - times["prefill"]) for times in self.times]
        return ratio(extra)

    def figures(self, trees: Iterable[str]) -> dict:
        """Every key of the result for this kind; None where nothing was counted."""
        out: dict = {"answers": self.answers}
        out |= {name: share(*self.scores[name]) for name in ACCURACIES}
        for suffix in ("", "_blind"):
            out |= {f"tau_{tree}{suffix}": share(*self.lengths.get(tree + suffix, (0, 0))) for tree in trees}
        for name, ways in RATIOS.items():
            out[name] = ratio(self.pairs(*ways))
            out[f"{name}_interval"] = bootstrap_interval([self.pairs(*ways)])
        out["same_ids_rate"] = share(self.same, self.answers)
        out["generate_same_ids_rate"] = share(self.rival_same, self.rival_answers)
        out["facts_per_100"] = share(100 * self.facts, self.reference_tokens)
        out |= self.pointing.figures()
        out["strip_hits"] = share(self.strip, self.scenes)
        out["trace_overhead"] = self.overhead()
        return out


def overall(kinds: dict[str, dict], tallies: Sequence[Tally]) -> dict:
    """Mean of the kinds' figures (of those that have one), answers summed up, intervals drawn anew over all kinds."""
    out: dict = {}
    for key in next(iter(kinds.values())):
        values = [figures[key] for figures in kinds.values() if figures[key] is not None]
        if key == "answers":
            out[key] = sum(values)
        elif key == "pointing_by_class":
            classes = sorted({cls for value in values for cls in value})
            out[key] = {cls: _mean([value[cls] for value in values if cls in value]) for cls in classes}
        elif key.endswith("_interval"):
            ways = RATIOS[key.removesuffix("_interval")]
            out[key] = bootstrap_interval([tally.pairs(*ways) for tally in tallies])
        else:
            out[key] = _mean(values)
    return out


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
