"""``bench builtin``: every figure of the embedded model from its committed weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fovea_core.bench import score
from fovea_core.bench.machine import BUSY_SHARE, LoadWatch, machine, versions
from fovea_core.bench.pointing import EntryMap
from fovea_core.bench.rivals import Rival
from fovea_core.bench.tally import Tally, overall
from fovea_core.bench.timing import REPEATS, RESAMPLES, interleaved_ms
from fovea_core.bench.workloads import BUILTIN_SEEDS, WORKER_CLASSES, Case, draw_case, worker_question
from fovea_core.decode.cost import measure
from fovea_core.decode.draft import Drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import PAPER_SHAPE, RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import CostTable, MemoryRead, Shape
from fovea_core.trace.fold import Fold, Summary
from fovea_core.trace.strip import trajectory_strip
from fovea_core.worksite.base import Picture, Question
from fovea_core.worksite.words import KINDS

#: Trees of the workload; None is chosen each round from the measured cost.
TREES: dict[str, Shape | None] = {"chain": Shape(depth=6, width=1, nodes=7), "paper": PAPER_SHAPE, "fast": None}
#: Maps and pointing come from this tree.
MAPS = "paper"
TIMED_PICTURES = 6
STRIP_SCENES = 20

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Models:
    """What is measured: a target, its drafter, and the drafter's blind twin; cost tables as measured for this bench."""

    target: Target
    drafter: Drafter
    blind: Drafter
    cost: CostTable
    cost_blind: CostTable


class SharedPrefill:
    """A target that reads a request once and hands the same run out again for every tree, its cache back at the prompt.

    Only for runs that are not timed, one after the other: the tokens are those of separate runs, since a cache keeps the
    prompt's keys and values as they are whatever comes behind them.
    """

    def __init__(self, target: Target) -> None:
        self._target, self._request, self._run = target, None, None

    def __getattr__(self, name: str):
        return getattr(self._target, name)

    def prefill(self, image, question: str) -> TargetRun:
        """See Target.prefill."""
        if self._request is None or self._request[0] is not image or self._request[1] != question:
            self._request, self._run = (image, question), self._target.prefill(image, question)
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
        if isinstance(event, MemoryRead):
            reads.append(event)
    return Ran(fold.summary(), tuple(reads))


def bench_builtin(seeds: range = BUILTIN_SEEDS, progress: Progress | None = None) -> dict:
    """Measure the embedded model on the workload of ``seeds`` (half-open). ``progress`` takes (done, total, what).

    Returns plain values for JSON: {overall, kinds: {scene, text, chart}, machine, ...}. Raises TargetError or DrafterError
    where the weights are missing.
    """
    from fovea_core.decode.fovea import load_drafter
    from fovea_core.targets.registry import ASSETS, load_target

    target = load_target("builtin")
    folder = ASSETS / "builtin"
    return bench(target, load_drafter(folder / "drafter", target), load_drafter(folder / "blind", target), seeds, progress)


def bench(
    target: Target,
    drafter: Drafter,
    blind: Drafter,
    seeds: range,
    progress: Progress | None = None,
    *,
    budget: int = 256,
    scale: float | None = None,
) -> dict:
    """The workload of ``bench builtin`` on any LLaVA target, its drafter and its drafter's blind twin.

    ``budget``: new tokens an answer may have; ``scale``: supersampling of the pictures, None as the demos have it.
    """
    started = time.perf_counter()
    say = progress or (lambda done, total, what: None)
    timed = timed_seeds(seeds)
    steps, total = iter(range(1, 2 + len(timed) + len(seeds))), len(timed) + len(seeds) + 1
    tallies = {kind: Tally() for kind in KINDS}

    watch = LoadWatch()
    models = Models(target, drafter, blind, measure(target, drafter), measure(target, blind))
    say(next(steps), total, "cost of a forward")
    for case in _cases(timed, scale):
        time_case(models, case, tallies[case.kind], budget)
        say(next(steps), total, f"timing {case.kind} {case.seed}")
    others = watch.others()
    for case in _cases(seeds, scale):
        score_case(models, case, tallies[case.kind], budget)
        say(next(steps), total, f"scoring {case.kind} {case.seed}")

    kinds = {kind: tally.figures(TREES) for kind, tally in tallies.items()}
    return {
        "overall": overall(kinds, list(tallies.values())),
        "kinds": kinds,
        "workload": {
            "name": "builtin",
            "seeds": f"{seeds.start}:{seeds.stop}",
            "timed_pictures": len(timed),
            "repeats": REPEATS,
            "resamples": RESAMPLES,
            "max_new_tokens": budget,
            "trees": {name: shape.model_dump() if shape else "chosen by cost" for name, shape in TREES.items()},
        },
        "models": {name: {"id": m.id, "fingerprint": m.fingerprint} for name, m in _named(models)},
        "cost": models.cost.model_dump(),
        "cost_blind": models.cost_blind.model_dump(),
        "machine": machine(),
        "versions": versions(),
        "load_average": watch.load_average,
        "others_cpu_share": others,
        "machine_busy": others >= BUSY_SHARE,
        "seconds": time.perf_counter() - started,
    }


def _named(models: Models) -> Iterator[tuple[str, Target | Drafter]]:
    return iter((("target", models.target), ("drafter", models.drafter), ("blind", models.blind)))


def _cases(seeds, scale: float | None) -> Iterator[Case]:
    return (draw_case(seed, scale) for seed in seeds)


def timed_seeds(seeds: range) -> list[int]:
    """The first TIMED_PICTURES seeds of each kind."""
    return [seed for kind in range(len(KINDS)) for seed in [s for s in seeds if s % len(KINDS) == kind][:TIMED_PICTURES]]


def time_case(models: Models, case: Case, tally: Tally, budget: int) -> None:
    """Time the long question of a case, whole requests with their prefill: plain, speculative on the cost-chosen tree,
    the same with reads and nodes recorded, transformers' generate, and its prompt lookup.
    """
    target, image, question = models.target, case.image, case.long.question
    settings = {detail: RunSettings(max_new_tokens=budget, detail=detail) for detail in ("rounds", "nodes")}
    prompt_ids = target.prefill(image, question).prompt_ids
    rivals = {"generate": Rival(target, budget), "lookup": Rival(target, budget, lookup=True)}
    ids: dict[str, list[int]] = {}
    prefill_ms: list[float] = []

    def plain() -> None:
        ids["plain"] = decode_plain(target, image, question, settings["rounds"]).ids

    def speculative(detail: str) -> None:
        for event in decode(target, models.drafter, image, question, settings[detail], cost=models.cost):
            if event.kind == "finished":
                ids[detail] = event.ids
                prefill_ms.append(event.prefill_ms)

    def rival(name: str) -> None:
        ids[name] = rivals[name].decode(image, prompt_ids)

    ways = {
        "plain": plain,
        "speculative": lambda: speculative("rounds"),
        "nodes": lambda: speculative("nodes"),
        "generate": lambda: rival("generate"),
        "lookup": lambda: rival("lookup"),
    }
    if not tally.times:
        for way in ways.values():  # the first request of a kind pays for warm caches
            way()
    tally.times.append(interleaved_ms(ways) | {"prefill": sorted(prefill_ms)[len(prefill_ms) // 2]})
    tally.rival_answers += 1
    tally.rival_same += ids["generate"] == ids["plain"] == ids["lookup"]


def score_case(models: Models, case: Case, tally: Tally, budget: int) -> None:
    """Answer all questions of a case with every tree, untimed; score the target's free greedy answers and the maps."""
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
    asked = worker_question(case)
    if asked is not None and tally.scenes < STRIP_SCENES:
        if asked != case.long:
            maps = run_once(shared, models.drafter, image, asked.question, _settings(MAPS, budget), models.cost)
        tally.scenes += 1
        tally.strip += strip_hit(case.picture, asked, maps.summary)
    for short in case.shorts:
        text, _ = _answer(models, shared, image, short, tally, budget, blind=False)
        tally.score("short_acc", score.short_score(short, text))


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
