"""Answers to the workload on every tree, and what they are worth. Untimed and deterministic, but for the cost-chosen tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fovea_core.bench import score
from fovea_core.bench.models import Models
from fovea_core.bench.pointing import EntryMap
from fovea_core.bench.tally import Tally
from fovea_core.bench.workloads import MAPS, TREES, WORKER_CLASSES, Case
from fovea_core.decode.draft import Drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import CostTable, MemoryRead
from fovea_core.trace.fold import Fold, Summary
from fovea_core.trace.strip import trajectory_strip
from fovea_core.worksite.base import Picture, Question


class SharedPrefill:
    """A target that reads a request once and hands the same run out again for every tree, its cache back at the prompt.

    Only for runs that are not timed, one after the other: the tokens are those of separate runs, since a cache keeps the
    prompt's keys and values as they are whatever comes behind them.
    """

    def __init__(self, target: Target) -> None:
        self._target, self._request, self._run = target, None, None

    def __getattr__(self, name: str):
        return getattr(self._target, name)

    def prefill(self, image, question: str, watch: Sequence[int] = ()) -> TargetRun:
        """See Target.prefill."""
        if self._request is None or self._request[0] is not image or self._request[1:] != (question, watch):
            self._request, self._run = (image, question, watch), self._target.prefill(image, question, watch=watch)
        self._run.cache.rewind(len(self._run.prompt_ids))
        return self._run


@dataclass(frozen=True)
class Ran:
    """One untimed run: its folded events, and all its reads where they were recorded."""

    summary: Summary
    reads: tuple[MemoryRead, ...]


def run_once(target, drafter: Drafter, image, question: str, settings: RunSettings, cost: CostTable | None) -> Ran:
    """Decode to the end and fold."""
    fold, reads = Fold(), []
    for event in decode(target, drafter, image, question, settings, cost=cost):
        fold.add(event)
        if isinstance(event, MemoryRead) and event.source == "drafter":
            reads.append(event)
    return Ran(fold.summary(), tuple(reads))


def score_case(models: Models, case: Case, budget: int) -> Tally:
    """Answer all questions of a case with every tree, untimed; score the target's free greedy answers and the maps."""
    tally = Tally()
    shared, image = SharedPrefill(models.target), case.image
    text, runs = _answer(models, shared, image, case.long, tally, budget)
    tally.score("attribute_acc", score.attribute_score(case.long, text))
    tally.score("char_acc", score.character_score(case.long, text))
    tally.score("value_acc", score.value_score(case.long, text))
    tally.facts += len(case.long.facts)
    tally.reference_tokens += len(models.target.tokenizer.encode(case.long.answer, add_special_tokens=False).ids)
    for name, ran in runs.items():
        tally.length(name, len(ran.summary.ids) - 1, ran.summary.rounds)
    maps = runs[MAPS]
    tally.pointing.add(case.picture, maps.summary, score.place_facts(case.long, maps.summary.tokens), maps.reads)
    for short in case.shorts:
        text, _ = _answer(models, shared, image, short, tally, budget, blind=False)
        tally.score("short_acc", score.short_score(short, text))
    return tally


def score_strip(models: Models, case: Case, budget: int) -> Tally:
    """Describe the worker of a worker scene and score the automatic strip."""
    ran = run_once(models.target, models.drafter, case.image, case.long.question, _settings(MAPS, budget), models.cost)
    return Tally(scenes=1, strip=int(strip_hit(case.picture, case.long, ran.summary)))


def _settings(tree: str, budget: int, blind: bool = False) -> RunSettings:
    detail = "nodes" if tree == MAPS and not blind else "rounds"
    return RunSettings(max_new_tokens=budget, tree=TREES[tree], detail=detail)


def _answer(
    models: Models, target, image, question: Question, tally: Tally, budget: int, blind: bool = True
) -> tuple[str, dict[str, Ran]]:
    """The plain answer to one question, and its runs on every tree by the drafter and, as tree_blind, by its twin.

    Counts the answer as the same where all runs have the token ids of plain decoding.
    """
    plain = decode_plain(target, image, question.question, RunSettings(max_new_tokens=budget))
    runs = {}
    for tree in TREES:
        runs[tree] = run_once(target, models.drafter, image, question.question, _settings(tree, budget), models.cost)
        if blind:
            settings = _settings(tree, budget, blind=True)
            runs[f"{tree}_blind"] = run_once(target, models.blind, image, question.question, settings, models.cost_blind)
    tally.answers += 1
    tally.same += all(ran.summary.ids == plain.ids for ran in runs.values())
    return plain.text, runs


def strip_hit(picture: Picture, question: Question, summary: Summary) -> bool:
    """Whether the automatic strip of an answer shows jumpsuit, headwear and tool, the peak of each inside its mask.

    A word of the strip shows a class where it is a fact of that class which the answer states at its place. The strip is in
    answer order, so the words it shows stand in order of mention. The peak is the top entry, judged as a hit is.
    """
    height, width = picture.rgb.shape[:2]
    places = EntryMap(summary.prefill.tiles, width, height)
    facts = {t: f.fact for f in score.place_facts(question, summary.tokens) for t in range(f.first, f.last + 1)}
    shown = set()
    for word in trajectory_strip(summary):
        fact = facts.get(word.token.position)
        if fact is not None and places.hit(word.entries[0], picture.mask(fact.mask)):
            shown.add(fact.cls)
    return shown >= set(WORKER_CLASSES)
