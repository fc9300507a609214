"""A file of one's own pictures and questions, row by row.

A file is JSON lines of {image, question, group?}; other keys are left alone. ``image`` is a path beside the file: such a file
may be a stranger's, so a row leads out of the file's folder (by an absolute path, ``..`` or a link) only where the caller says
so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fovea_core.request import checked_question
from fovea_core.settings import SettingsError

MAX_ROWS = 1_000_000
MAX_LINE_CHARS = 100_000
MAX_GROUP_CHARS = 100


@dataclass(frozen=True)
class Row:
    """One line of the file. line: its number from 1; trouble: one sentence where it asks nothing that can be answered."""

    line: int
    image: str = ""
    question: str = ""
    group: str = ""
    trouble: str = ""


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; a line that is none becomes a row with its trouble. Raises OSError, and SettingsError for no rows."""
    rows = []
    with path.open(encoding="utf-8", errors="replace") as file:
        number = 0
        while line := file.readline(MAX_LINE_CHARS + 1):
            number += 1
            if number > MAX_ROWS:
                raise SettingsError(f"{path.name} has more than {MAX_ROWS:,} lines.")
            if len(line) > MAX_LINE_CHARS:
                while line and not line.endswith("\n"):
                    line = file.readline(MAX_LINE_CHARS)
                rows.append(Row(number, trouble=f"This line has more than {MAX_LINE_CHARS:,} characters."))
            elif line.strip():
                rows.append(_row(number, line))
    if not rows:
        raise SettingsError(f"{path.name} has no rows: write one {{image, question}} a line.")
    return rows


def _row(number: int, line: str) -> Row:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Row(number, trouble="This line is no JSON object.")
    if not isinstance(value, dict):
        return Row(number, trouble="This line is no JSON object.")
    image, question, group = value.get("image"), value.get("question"), value.get("group", "")
    if not isinstance(image, str) or not image or not isinstance(question, str):
        return Row(number, trouble="This row lacks image or question, both text.")
    if not isinstance(group, str | int) or len(str(group)) > MAX_GROUP_CHARS:
        return Row(number, image, question, trouble=f"The group must be text of at most {MAX_GROUP_CHARS} characters.")
    try:
        checked_question(question)
    except SettingsError as error:
        return Row(number, image, question[:MAX_GROUP_CHARS], str(group), str(error))
    return Row(number, image, question, str(group))


def picture_of(image: str, folder: Path, anywhere: bool) -> Path:
    """Where a row's picture lies; inside ``folder`` unless ``anywhere``. It may not be there. Raises SettingsError."""
    try:
        path = (folder / image).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL, a circle of links
        raise SettingsError("This path is no path.") from None
    if not anywhere and not path.is_relative_to(folder.resolve()):
        raise SettingsError("This picture lies outside the folder of the file; --anywhere allows that.")
    return path
