"""How right an answer is, and where in it the facts of its reference stand.

All scores are pairs (right, total) that are summed over answers before they are divided, so that a long answer weighs more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fovea_core.trace.fold import Token
from fovea_core.worksite.base import Fact, Question


def is_value(fact: Fact) -> bool:
    """Whether a fact is (a character of) a code or a number; all other facts are attribute words: colours, names, signs."""
    return fact.cls in ("letter", "digit") or any(character.isdigit() for character in fact.text)


def distance_table(reference: Sequence, answer: Sequence) -> np.ndarray:
    """(len(reference) + 1, len(answer) + 1) int32: edit distances of all prefixes, each edit (insert, delete, replace) 1."""
    codes: dict = {}
    first = np.array([codes.setdefault(item, len(codes)) for item in reference], np.int32)
    second = np.array([codes.setdefault(item, len(codes)) for item in answer], np.int32)
    table = np.zeros((len(first) + 1, len(second) + 1), np.int32)
    across = np.arange(len(second) + 1, dtype=np.int32)
    table[0] = across
    for i, item in enumerate(first, start=1):
        row = np.minimum(table[i - 1] + 1, i + across)
        row[1:] = np.minimum(row[1:], table[i - 1, :-1] + (second != item))
        # An insertion costs 1 a place: the best of all earlier places plus the way from there.
        table[i] = np.minimum.accumulate(row - across) + across
    return table


def edit_distance(reference: Sequence, answer: Sequence) -> int:
    """Least number of insertions, deletions and replacements that turn one into the other."""
    return int(distance_table(reference, answer)[-1, -1])


def align(reference: Sequence, answer: Sequence) -> list[int]:
    """For each item of ``reference`` the index of the equal item it stands at in ``answer``, -1 where it has none.

    One alignment of least edit distance, the one that leaves the end of the answer to its insertions last.
    """
    table = distance_table(reference, answer)
    places, i, j = [-1] * len(reference), len(reference), len(answer)
    while i and j:
        same = reference[i - 1] == answer[j - 1]
        if table[i, j] == table[i - 1, j - 1] + (not same):
            i, j = i - 1, j - 1
            if same:
                places[i] = j
        elif table[i, j] == table[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return places


@dataclass(frozen=True)
class PlacedFact:
    """A fact that the target's answer states at its place: ``first`` to ``last`` are the answer's tokens that say it."""

    fact: Fact
    first: int
    last: int


def place_facts(question: Question, tokens: Sequence[Token]) -> list[PlacedFact]:
    """The facts of the reference that the answer ``tokens`` state at their place, in answer order.

    Reference and answer are aligned byte by byte with the least edit distance. A fact counts only if all its bytes stand
    next to each other at equal bytes of the answer, begin where a token begins (its leading space apart) and end where a
    token ends; so a wrong colour, a shifted code or 'red' inside 'bored' counts as not said.
    """
    reference = question.answer.encode()
    answer = b"".join(token.raw for token in tokens)
    places = align(reference, answer)
    begins, ends, at = {}, {}, 0
    for token in tokens:
        blank = len(token.raw) - len(token.raw.lstrip())
        if token.raw.strip():
            begins[at + blank] = token.position
            ends[at + len(token.raw.rstrip())] = token.position
        at += len(token.raw)
    placed = []
    for fact in question.facts:
        start, size = len(question.answer[: fact.start].encode()), len(fact.text.encode())
        there = places[start : start + size]
        if there and _together(there) and there[0] in begins and there[-1] + 1 in ends:
            placed.append(PlacedFact(fact, begins[there[0]], ends[there[-1] + 1]))
    return placed


def _together(places: list[int]) -> bool:
    return places[0] >= 0 and all(place == places[0] + i for i, place in enumerate(places))


def common_subsequence(reference: Sequence, answer: Sequence) -> int:
    """Length of the longest common subsequence: how many items are found in order."""
    lengths = [0] * (len(answer) + 1)
    for item in reference:
        before = 0
        for j, other in enumerate(answer, start=1):
            before, lengths[j] = lengths[j], before + 1 if item == other else max(lengths[j], lengths[j - 1])
    return lengths[-1]


def attribute_score(question: Question, answer: str) -> tuple[int, int]:
    """Words of the reference's facts (colours, names, sign words) found in order among the words of the answer."""
    wanted = [w for f in question.facts if not is_value(f) for w in re.findall(r"[^\W_]+", f.text)]
    return common_subsequence(wanted, re.findall(r"[^\W_]+", answer)), len(wanted)


def character_score(question: Question, answer: str) -> tuple[int, int]:
    """Characters of the reference less the edit distance of the answer, not below 0."""
    length = len(question.answer)
    return max(0, length - edit_distance(question.answer, answer)), length


def values_of(question: Question) -> list[tuple[int, int]]:
    """(start, end) offsets of the codes and numbers in the reference: runs of value facts that touch each other."""
    runs: list[tuple[int, int]] = []
    for fact in sorted(filter(is_value, question.facts), key=lambda f: f.start):
        if runs and runs[-1][1] == fact.start:
            runs[-1] = (runs[-1][0], fact.end)
        else:
            runs.append((fact.start, fact.end))
    return runs


def value_score(question: Question, answer: str) -> tuple[int, int]:
    """Codes and numbers of the reference that stand whole, exact and at their place in the answer."""
    places = align(question.answer, answer)
    right, runs = 0, values_of(question)
    for start, end in runs:
        there = places[start:end]
        if _together(there):
            around = answer[max(0, there[0] - 1) : there[0]] + answer[there[-1] + 1 : there[-1] + 2]
            right += not any(character.isalnum() for character in around)
    return right, len(runs)


def short_score(question: Question, answer: str) -> tuple[int, int]:
    """1 of 1 where a short answer is exactly the reference, surrounding space apart."""
    return int(answer.strip() == question.answer.strip()), 1
