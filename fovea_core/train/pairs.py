"""Pictures with questions of one's own, read from disk: which requests a drafter is trained on.

Three layouts: a folder with ``questions.jsonl`` beside its pictures, or such a file, one {"image", "question"} a line
(``rows``); or a LLaVA-style JSON, a list of {"image", "conversations": [{"from", "value"}]}, pictures below a folder of its
own. Of a conversation the first human turn is asked (later ones lean on the answers before them), or with ``every_turn`` each
human turn as a question of its own; answers in the file are not used: a drafter learns from the target's. The files may be a
stranger's: a picture outside its folder is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from fovea_core.request import checked_question
from fovea_core.rows import picture_of, read_rows
from fovea_core.settings import SettingsError
from fovea_core.train.asked import PictureRequest

#: The file of questions in a folder of pictures.
QUESTIONS_NAME = "questions.jsonl"
#: How a LLaVA-style conversation marks its picture, and who asks in it.
PLACEHOLDER, HUMAN = "<image>", "human"
MAX_FILE_BYTES = 8 * 2**30


@dataclass(frozen=True)
class Pairs:
    """Picture-question pairs, questions of a picture one after another. skipped: why entries are not among them, and how many;
    digest: of pictures' names and questions."""

    requests: list[PictureRequest]
    skipped: dict[str, int]
    digest: str

    def held(self, every: int) -> set[int]:
        """Numbers of the requests about every ``every``-th picture, kept from training; of few pictures more, so that there are
        four if possible, but never all."""
        numbers: dict[Path, int] = {}
        for request in self.requests:
            numbers.setdefault(request.image, len(numbers))
        every = min(every, max(2, len(numbers) // 4))
        return {i for i, request in enumerate(self.requests) if numbers[request.image] % every == every - 1}


@dataclass(frozen=True)
class _Wanted:
    """A pair as the file names it; ``where`` for a sentence: which line or entry."""

    where: str
    image: str
    question: str


def read_pairs(
    data: Path,
    images: Path | None = None,
    *,
    most: int | None = None,
    every_turn: bool = False,
    anywhere: bool = False,
    seed: int = 0,
) -> Pairs:
    """The pairs of a folder or file, at most ``most`` of them: then a random choice that ``seed`` decides.

    images: folder of the pictures, if it is not that of the file. A pair whose picture is not there is skipped and counted.
    Raises SettingsError that names file and line or entry where it is damaged or, but ``anywhere``, a picture lies outside.
    """
    file = data / QUESTIONS_NAME if data.is_dir() else data
    if not file.is_file():
        what = f"no {QUESTIONS_NAME}: write one {{image, question}} a line" if data.is_dir() else "there is no such file"
        raise SettingsError(f"{str(data)[:200]}: {what}.")
    folder = images or file.parent
    if not folder.is_dir():
        raise SettingsError(f"There is no folder of pictures {str(folder)[:200]}.")
    skipped: Counter[str] = Counter()
    wanted = list(_of_json(file, every_turn, skipped) if file.suffix.lower() == ".json" else _of_rows(file))
    for one in wanted:
        if not anywhere and ".." in PurePath(one.image).parts:
            raise SettingsError(f"{one.where}: this picture lies outside the folder of pictures; --anywhere allows that.")
    found: dict[int, PictureRequest] = {}
    for number in np.random.default_rng(seed).permutation(len(wanted)).tolist() if most is not None else range(len(wanted)):
        if len(found) == most:
            break
        try:
            path = picture_of(wanted[number].image, folder, anywhere)
        except SettingsError as error:
            raise SettingsError(f"{wanted[number].where}: {error}") from None
        if _is_file(path):
            found[number] = PictureRequest(path, wanted[number].question)
        else:
            skipped["whose picture is not there"] += 1
    if not found:
        raise SettingsError(f"{file.name} holds no pair of a picture and a question{_told(skipped)}.")
    first: dict[Path, int] = {}
    for number in sorted(found):
        first.setdefault(found[number].image, number)
    order = sorted(found, key=lambda number: (first[found[number].image], number))
    named = "\0".join(f"{wanted[number].image}\0{wanted[number].question}" for number in order)
    digest = hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()
    return Pairs([found[number] for number in order], dict(skipped), digest[:16])


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, a folder that may not be read
        return False


def _told(skipped: dict[str, int]) -> str:
    return f" (skipped: {', '.join(f'{count:,} {why}' for why, count in skipped.items())})" if skipped else ""


def _of_rows(file: Path) -> Iterator[_Wanted]:
    for row in read_rows(file):
        where = f"{file.name}, line {row.line}"
        if row.trouble:
            raise SettingsError(f"{where}: {row.trouble}")
        yield _Wanted(where, row.image, row.question)


def _of_json(file: Path, every_turn: bool, skipped: Counter[str]) -> Iterator[_Wanted]:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise SettingsError(f"{file.name} has more than {MAX_FILE_BYTES // 2**30} GiB.")
    try:
        entries = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file.name} is no JSON: {str(error)[:120] or 'it nests too deeply'}.") from None
    if not isinstance(entries, list):
        raise SettingsError(f"{file.name} is no list of entries with conversations.")
    for number, entry in enumerate(entries, start=1):
        where = f"{file.name}, entry {number}"
        turns = entry.get("conversations") if isinstance(entry, dict) else None
        if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
            raise SettingsError(f"{where}: it has no list of conversations, each with from and value.")
        image = entry.get("image")
        if isinstance(image, list) and len(image) == 1:
            image = image[0]
        if image is None or image == "" or image == []:
            skipped["without a picture"] += 1
        elif isinstance(image, list):
            skipped["with several pictures"] += 1
        elif not isinstance(image, str):
            raise SettingsError(f"{where}: its image is no text.")
        else:
            for question in _questions(turns, where, skipped)[: None if every_turn else 1]:
                yield _Wanted(where, image, question)


def _questions(turns: list[dict], where: str, skipped: Counter[str]) -> list[str]:
    """What the human turns ask, without the picture's mark."""
    asked = []
    for turn in turns:
        value = turn.get("value")
        if not isinstance(value, str):
            raise SettingsError(f"{where}: a turn has no value, or one that is no text.")
        if turn.get("from") != HUMAN:
            continue
        try:
            asked.append(checked_question(value.replace(PLACEHOLDER, "").strip()))
        except SettingsError:
            skipped["whose question is empty or too long"] += 1
    if not any(turn.get("from") == HUMAN for turn in turns):
        raise SettingsError(f"{where}: nobody asks in it; a turn from human is needed.")
    return asked
