"""``python -m app.lab``: docs/RESULTS.md from the measured files, between its marks; what stands outside them is kept.

With ``--measure`` every study is measured anew first, with the seeds of its committed result, one after the other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.lab import STUDIES
from app.lab.rerun import command
from app.lab.study import Study, load_study, where

ROOT = Path(__file__).resolve().parents[2]
RESULTS, MEASURED = ROOT / "docs" / "RESULTS.md", ROOT / "assets" / "bench"
START, END = "<!-- measured: python -m app.lab -->", "<!-- end of measured -->"


def results(folder: Path = MEASURED, studies: Sequence[Study] = STUDIES) -> str:
    """Every study that has a result in ``folder``, as markdown: question, where, readings, table, command."""
    parts = []
    for study in studies:
        result = load_study(study, folder)
        if result is None:
            continue
        columns, rows = study.table(result)
        lines = [f"## {study.title}", "", *_paragraph(study.question), "", where(result), ""]
        lines += [*(f"- {line}" for line in study.read(result)), ""]
        lines += [_row(columns), _row(["---", *["---:"] * (len(columns) - 1)]), *map(_row, rows)]
        parts.append("\n".join([*lines, "", f"`{study.command}`"]))
    return "\n\n".join(parts)


def _paragraph(text: str) -> list[str]:
    """A question; further lines of it, as the page has them, are points of a list."""
    first, *more = text.split("\n")
    return [first, *([""] if more else []), *(f"- {line}" for line in more if line)]


def _row(cells: Sequence) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def written(text: str, folder: Path = MEASURED) -> str:
    """``text`` with the part between the marks measured anew. Raises ValueError where it has no marks."""
    before, opened, rest = text.partition(START)
    _, closed, after = rest.partition(END)
    if not (opened and closed):
        raise ValueError("the place of what was measured is not marked")
    return f"{before}{START}\n\n{results(folder)}\n\n{END}{after}"


def measure(folder: Path, studies: Sequence[Study], run: Callable[[list[str]], object]) -> None:
    """Let ``run`` run every study's command, its result into ``folder``; the seeds are those of the result there, if any."""
    for study in studies:
        before = load_study(study, folder)
        seeds = ("--seeds", before["workload"]["seeds"]) if before else ()
        run(command(study, seeds, folder / f"{study.name}.json"))


def main(
    anew: Annotated[bool, typer.Option("--measure", help="Measure every study first: half an hour.")] = False,
) -> None:
    """Write docs/RESULTS.md from assets/bench."""
    if anew:
        measure(MEASURED, STUDIES, lambda words: subprocess.run(words, cwd=ROOT, check=True))
    RESULTS.write_text(written(RESULTS.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    typer.run(main)
