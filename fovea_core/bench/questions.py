"""``bench questions``: how much of a target's answers is right, short ones by what was asked. No drafter takes part."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from fovea_core.bench.machine import machine, versions
from fovea_core.bench.score import attribute_score, character_score, short_score, value_score
from fovea_core.bench.tables import put_table
from fovea_core.bench.workloads import draw_case
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target
from fovea_core.worksite.naming import looks_up, template
from fovea_core.worksite.words import KINDS

#: Default seeds, from the validation range.
SEEDS = range(9_600_000, 9_600_060)
SHORT = RunSettings(max_new_tokens=32)
LOOKUP, PLACE = "named by what is seen of it", "named by its place, or counted"


#: What of a long answer is right, as in ``bench builtin``.
LONG = {"attributes": attribute_score, "characters": character_score, "codes and numbers": value_score}


def bench_questions(
    seeds: range = SEEDS, progress: Callable[[int, int, str], None] | None = None, target: str = "builtin"
) -> dict:
    """All short questions of every seed's picture, and the long one of ``bench builtin``, put to a target of the drawn world:
    'builtin' or a folder. Raises TargetError where it is missing.

    {kinds: {kind: {question with its names replaced: [right, asked]}}, sorts: {kind: {LOOKUP, PLACE: [right, asked]}}, long:
    {kind: {of LONG: [right, asked]}}, ...}.
    """
    from fovea_core.targets.registry import load_target

    return ask_all(load_target(target), seeds, progress)


def ask_all(
    target: Target, seeds: range, progress: Callable[[int, int, str], None] | None = None, scale: float | None = None
) -> dict:
    """See ``bench_questions``; ``scale``: supersampling of the drawing, None for that of the demos."""
    kinds: dict[str, dict[str, list[int]]] = {kind: {} for kind in KINDS}
    sorts: dict[str, dict[str, list[int]]] = {kind: {LOOKUP: [0, 0], PLACE: [0, 0]} for kind in KINDS}
    longs: dict[str, dict[str, list[int]]] = {kind: {name: [0, 0] for name in LONG} for kind in KINDS}
    for done, seed in enumerate(seeds, start=1):
        case = draw_case(seed, scale)
        image, kind = case.image, case.kind
        for question in case.picture.questions:
            if question.type != "short":
                continue
            score = short_score(question, decode_plain(target, image, question.question, SHORT).text)
            sort = LOOKUP if looks_up(question.question) else PLACE
            _add(kinds[kind].setdefault(template(question.question), [0, 0]), score)
            _add(sorts[kind][sort], score)
        answer = decode_plain(target, image, case.long.question, RunSettings()).text
        for name, score in LONG.items():
            _add(longs[kind][name], score(case.long, answer))
        if progress is not None:
            progress(done, len(seeds), f"{kind} {seed}")
    return {
        "kinds": kinds,
        "sorts": sorts,
        "long": longs,
        "workload": {"name": "questions", "seeds": f"{seeds.start}:{seeds.stop}"},
        "models": {"target": {"id": target.id, "fingerprint": target.fingerprint}},
        "machine": machine(),
        "versions": versions(),
    }


def _add(tally: list[int], score: tuple[int, int]) -> None:
    tally[:] = [have + more for have, more in zip(tally, score, strict=True)]


def print_questions(result: dict, console: Console | None = None) -> None:
    """The result as a table, most asked first."""
    table = Table(title=f"answers, seeds {result['workload']['seeds']}", title_justify="left")
    for name, justify in (("kind", "left"), ("question", "left"), ("right", "right"), ("asked", "right"), ("share", "right")):
        table.add_column(name, justify=justify)
    for kind, asked in result["kinds"].items():
        long = {f"{name} of a long answer": scores for name, scores in result["long"][kind].items()}
        rows = [*sorted(asked.items(), key=lambda row: -row[1][1]), *result["sorts"][kind].items(), *long.items()]
        for text, (right, count) in rows:
            style = None if text in asked else "bold"
            table.add_row(kind, text, str(right), str(count), f"{100 * right / count:.0f} %" if count else "-", style=style)
    put_table(table, console)
