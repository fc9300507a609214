"""Questions to suggest about a drawn picture: those that fit it, and those about a changed thing first."""

from __future__ import annotations

import re

from fovea_core.worksite import asking, chart, text
from fovea_core.worksite.base import Question
from fovea_core.worksite.editing import find
from fovea_core.worksite.parts import Property, parts_of

#: How many questions are suggested, and how many of them are long where nothing was changed.
MOST, LONG = 6, 4


def questions_of(kind: str, spec: dict) -> tuple[list[Question], list[Question]]:
    """Every long and every short question that the picture of ``spec`` answers."""
    return {"scene": asking, "text": text, "chart": chart}[kind].every_question(spec)


def stated_at(question: Question, found: Property) -> int | None:
    """Where the answer states the property (character of its first fact about it), None where it does not."""
    for fact in question.facts:
        if fact.mask == found.mark and fact.text == found.said:
            return fact.start
        if found.said is None and found.mark and fact.mask.startswith(found.mark):
            return fact.start
    return None


def suggestions(kind: str, spec: dict, changed: tuple[str, str] | None = None, asked: str = "", most: int = MOST) -> list[str]:
    """Up to ``most`` questions. ``changed`` (part, property): short questions whose answer states it come first, then long
    ones that state it earliest, then those that name it. ``asked``, where it fits this picture, is always among them.
    """
    long, short = questions_of(kind, spec)
    first: list[Question] = []
    if changed:
        _, found = find(kind, spec, *changed)
        stating = [[q for q in group if stated_at(q, found) is not None] for group in (short, long)]
        stating[1].sort(key=lambda q: stated_at(q, found))
        naming = [q for q in short if found.value and _names(q.question, found.value)]
        first = [*stating[0][: most // 2], *stating[1][: most // 2], *naming[:1]]
    short = sorted(short, key=lambda q: not q.facts)  # counts last: nothing in the picture shows them
    rest = [*long, *short] if first else [*long[:LONG], *short, *long[LONG:]]
    texts = list(dict.fromkeys(question.question for question in [*first, *rest]))
    if asked in texts[most:]:
        texts.insert(most - 1, asked)
    return list(dict.fromkeys(texts))[:most]


def carried(kind: str, asked: str, before: dict, after: dict) -> str:
    """The question to ask about ``after`` where ``asked`` stood at ``before``: the same one, if a person wrote it or it still
    fits; else the same with the new value in the old one's place; else the first that is suggested.
    """
    olds, news = ({q.question for group in questions_of(kind, spec) for q in group} for spec in (before, after))
    if asked in news or asked not in olds:
        return asked
    old, new = ({(part.key, p.key): p.value for part in parts_of(kind, s) for p in part.properties} for s in (before, after))
    for place, value in old.items():
        if value and new.get(place) not in (None, "", value):
            other = re.sub(rf"\b{re.escape(value)}\b", lambda match, place=place: new[place], asked)
            if other in news:
                return other
    return suggestions(kind, after)[0]


def _names(question: str, value: str) -> bool:
    return re.search(rf"\b{re.escape(value)}\b", question) is not None
