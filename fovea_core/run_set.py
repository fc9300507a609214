"""A file of one's own pictures and questions (``rows``), answered row by row into a table.

What is done is in the table at once, an interrupted run goes on where it was, and a row that cannot be answered has its reason
there.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TextIO

from fovea_core.pictures import open_picture
from fovea_core.request import Request
from fovea_core.rows import Row, picture_of
from fovea_core.settings import RunSettings, SettingsError
from fovea_core.shortage import spared
from fovea_core.trace.differences import mean_entries
from fovea_core.trace.events import Finished
from fovea_core.trace.fold import fold

if TYPE_CHECKING:
    from fovea_core.engine import Engine

#: What stands for all groups in the last line of a table.
ALL = "all rows"
#: First characters with which a spreadsheet would take a text for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass
class Result:
    """One line of the table. Texts are those of the row; target, drafter, policy, tree: what answered it.

    tau: bonus tokens counted; speedup: against plain decoding; entries: mean number behind a token that was drafted with a look
    (K); same_ids: as plain decoding, yes or no; trouble: why the rest is empty.
    """

    row: str
    group: str
    image: str
    question: str
    target: str
    drafter: str
    policy: str
    tree: str
    tokens: int | str = ""
    rounds: int | str = ""
    tau: float | str = ""
    speedup: float | str = ""
    entries: float | str = ""
    same_ids: str = ""
    speculative_ms: float | str = ""
    plain_ms: float | str = ""
    finish: str = ""
    trouble: str = ""


COLUMNS = [field.name for field in fields(Result)]
#: What of a result names its row and who answered it.
NAMED = COLUMNS[: COLUMNS.index("tokens")]


def run_set(
    engine: Engine,
    rows: Sequence[Row],
    folder: Path,
    drafter: str,
    settings: RunSettings,
    anywhere: bool = False,
    repeats: int = 1,
    done: Iterable[Result] = (),
) -> Iterator[Result]:
    """Answer every row but those that ``done`` has without trouble; yields its result, the one that was done or a fresh one.

    repeats: how often each row is timed with the drafter and plainly.
    """
    kept = {_name(result): result for result in done if not result.trouble}
    for row in rows:
        blank = _blank(row, engine, drafter, settings)
        known = kept.get(_name(blank))
        if known is not None:
            yield known
            continue
        try:
            if row.trouble:
                raise SettingsError(row.trouble)
            path = picture_of(row.image, folder, anywhere)
            if not path.is_file():
                raise SettingsError("There is no such picture.")
            picture = open_picture(path).rgb
            request = Request(picture, row.question, settings, drafter)
            yield spared(lambda: _answered(engine, request, blank, repeats))  # noqa: B023 (called here)
        except Exception as error:
            blank.trouble = " ".join(str(error).split())[:300] or type(error).__name__
            yield blank


def _name(result: Result) -> tuple[str, ...]:
    return tuple(cell(getattr(result, name)) for name in NAMED)


def _blank(row: Row, engine: Engine, drafter: str, settings: RunSettings) -> Result:
    shape = settings.tree
    tree = f"{shape.depth},{shape.width},{shape.nodes}" if shape else "auto"
    return Result(str(row.line), row.group, row.image, row.question, engine.target.id, drafter, settings.policy, tree)


def _answered(engine: Engine, request: Request, result: Result, repeats: int) -> Result:
    events = list(engine.run(request))
    summary, finished = fold(events), next(event for event in events if isinstance(event, Finished))
    compared = engine.compare(request, finished, repeats=repeats)
    result.tokens, result.rounds, result.finish = len(summary.tokens), summary.rounds, summary.reason
    result.tau = "" if summary.tau is None else round(summary.tau, 4)
    entries = mean_entries(summary)
    result.entries = "" if entries is None else round(entries, 2)
    result.speedup, result.same_ids = round(compared.speedup, 4), "yes" if compared.same_ids else "no"
    result.speculative_ms, result.plain_ms = round(compared.speculative_ms, 2), round(compared.plain_median_ms, 2)
    return result


def grouped(results: Sequence[Result]) -> list[Result]:
    """A line a group, in the order they came, and one for all rows: tau over all their rounds, speedup over all their time, the
    mean of entries, 'n of m' the same ids, and how many rows are without an answer."""
    groups = list(dict.fromkeys(result.group for result in results))
    wanted = [(group, [result for result in results if result.group == group]) for group in groups if len(groups) > 1]
    return [_summed(name, some) for name, some in [*wanted, (ALL, list(results))] if some]


def _summed(group: str, results: list[Result]) -> Result:
    first, good = results[0], [result for result in results if not result.trouble]
    total = Result("group", group, "", "", first.target, first.drafter, first.policy, first.tree)
    failed = len(results) - len(good)
    total.trouble = f"{failed} of {len(results)} rows without an answer" if failed else ""
    if not good:
        return total
    tokens, rounds, spent, plain = (
        sum(float(getattr(result, name)) for result in good) for name in ("tokens", "rounds", "speculative_ms", "plain_ms")
    )
    total.tokens, total.rounds = int(tokens), int(rounds)
    total.speculative_ms, total.plain_ms = round(spent, 2), round(plain, 2)
    total.tau = round((tokens - len(good)) / rounds, 4) if rounds else ""
    total.speedup = round(plain / spent, 4) if spent else ""
    entries = [float(result.entries) for result in good if result.entries != ""]
    total.entries = round(fmean(entries), 2) if entries else ""
    total.same_ids = f"{sum(result.same_ids == 'yes' for result in good)} of {len(good)}"
    return total


def cell(value: object) -> str:
    """A value as a table has it; a text that a spreadsheet would run as a formula gets an apostrophe before it."""
    text = str(value).replace("\0", "")
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


def as_line(result: Result | None = None) -> str:
    """One line of the table as CSV; None is the head of it."""
    text = io.StringIO()
    csv.writer(text).writerow(COLUMNS if result is None else [cell(value) for value in asdict(result).values()])
    return text.getvalue()


def read_table(path: Path) -> list[Result]:
    """The rows of a table that an earlier run wrote, its groups and a line cut off left out. Raises SettingsError for any other
    file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            head = next(lines, None)
            if head is not None and head != COLUMNS:
                raise SettingsError(f"{path.name} is there and is no table of run-set: choose another file.")
            return [Result(*line) for line in lines if len(line) == len(COLUMNS) and line[0].isdigit() and _whole(line)]
    except (UnicodeDecodeError, csv.Error):
        raise SettingsError(f"{path.name} is there and is no table of run-set: choose another file.") from None
    except FileNotFoundError:
        return []


def _whole(line: list[str]) -> bool:
    values = dict(zip(COLUMNS, line))
    try:
        _ = [float(values[name]) for name in ("tokens", "rounds", "speculative_ms", "plain_ms")]
    except ValueError:
        return False  # of no use: the row is answered again
    return values["same_ids"] in ("yes", "no")


def to_stream(results: Iterable[Result], stream: TextIO) -> Iterator[Result]:
    """Pass results on, each written as it comes, their groups behind them."""
    stream.write(as_line())
    kept = []
    for result in results:
        stream.write(as_line(result))
        stream.flush()
        kept.append(result)
        yield result
    stream.writelines(as_line(total) for total in grouped(kept))


def to_file(results: Iterable[Result], out: Path, done: Sequence[Result]) -> Iterator[Result]:
    """The same into a file, in which ``done`` stays whatever happens: fresh rows go behind it one by one, and the whole table,
    in the order of its rows, takes the file's place at the end."""
    _put(out, done)
    known, kept = {id(result) for result in done}, []
    for result in results:
        if id(result) not in known:
            with out.open("a", encoding="utf-8", newline="") as file:
                file.write(as_line(result))
        kept.append(result)
        yield result
    _put(out, [*kept, *grouped(kept)])


def _put(out: Path, results: Iterable[Result]) -> None:
    fresh = out.with_name(f"{out.name}.{os.getpid()}")
    fresh.write_text(as_line() + "".join(map(as_line, results)), "utf-8", newline="")
    fresh.replace(out)
