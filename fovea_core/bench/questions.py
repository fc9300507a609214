"""``bench questions``: how many of a target's short answers are right, by what was asked. No drafter takes part."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image
from rich.console import Console
from rich.table import Table

from fovea_core.bench.machine import machine, versions
from fovea_core.bench.score import short_score
from fovea_core.bench.tables import put_table
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target
from fovea_core.worksite import make_picture
from fovea_core.worksite.naming import looks_up, template
from fovea_core.worksite.words import KINDS

#: Default seeds, from the validation range.
SEEDS = range(9_600_000, 9_600_060)
LOOKUP, PLACE = "named by what is seen of it", "named by its place, or counted"


def bench_questions(seeds: range = SEEDS, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """All short questions of every seed's picture, put to the embedded target. Raises TargetError where it is missing.

    {kinds: {kind: {question with its names replaced: [right, asked]}}, sorts: {kind: {LOOKUP, PLACE: [right, asked]}}, ...}.
    """
    from fovea_core.targets.registry import load_target

    return ask_all(load_target("builtin"), seeds, progress)


def ask_all(
    target: Target, seeds: range, progress: Callable[[int, int, str], None] | None = None, scale: float | None = None
) -> dict:
    """See ``bench_questions``; ``scale``: supersampling of the drawing, None for that of the demos."""
    kinds: dict[str, dict[str, list[int]]] = {kind: {} for kind in KINDS}
    sorts: dict[str, dict[str, list[int]]] = {kind: {LOOKUP: [0, 0], PLACE: [0, 0]} for kind in KINDS}
    settings = RunSettings(max_new_tokens=32)
    for done, seed in enumerate(seeds, start=1):
        kind = KINDS[seed % len(KINDS)]
        picture = make_picture(kind, seed) if scale is None else make_picture(kind, seed, scale=scale)
        image = Image.fromarray(picture.rgb)
        for question in picture.questions:
            if question.type != "short":
                continue
            score = short_score(question, decode_plain(target, image, question.question, settings).text)
            sort = LOOKUP if looks_up(question.question) else PLACE
            for tally in (kinds[kind].setdefault(template(question.question), [0, 0]), sorts[kind][sort]):
                tally[:] = [have + more for have, more in zip(tally, score)]
        if progress is not None:
            progress(done, len(seeds), f"{kind} {seed}")
    return {
        "kinds": kinds,
        "sorts": sorts,
        "workload": {"name": "questions", "seeds": f"{seeds.start}:{seeds.stop}"},
        "models": {"target": {"id": target.id, "fingerprint": target.fingerprint}},
        "machine": machine(),
        "versions": versions(),
    }


def print_questions(result: dict, console: Console | None = None) -> None:
    """The result as a table, most asked first."""
    table = Table(title=f"short answers, seeds {result['workload']['seeds']}", title_justify="left")
    for name, justify in (("kind", "left"), ("question", "left"), ("right", "right"), ("asked", "right"), ("share", "right")):
        table.add_column(name, justify=justify)
    for kind, asked in result["kinds"].items():
        rows = [*sorted(asked.items(), key=lambda row: -row[1][1]), *result["sorts"][kind].items()]
        for text, (right, count) in rows:
            style = "bold" if text in (LOOKUP, PLACE) else None
            table.add_row(kind, text, str(right), str(count), f"{100 * right / count:.0f} %" if count else "-", style=style)
    put_table(table, console)
