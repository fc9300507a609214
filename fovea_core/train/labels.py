"""What the target's tower is taught of each cell: what it shows, and what that belongs to.

Nine labels, each 1 + the index of a class, 0 where there is none: noun, colour and mark of the thing that fills most of the
cell; noun and colour of what this thing is a part of (the worker, object or bar that a code, a number, a tool stands on); that
one's number from left to right (a row's from above) and among its like (a bar's by value, a word's in its row); a character's
place in its code; and the next largest mark, since three digits may stand on two cells. A look-up ('the value of the teal
bar') is then one step for the language model instead of two.
"""

from __future__ import annotations

import re

import numpy as np

from fovea_core.targets.geometry import Letterbox
from fovea_core.worksite import words
from fovea_core.worksite.base import Picture, Question, Thing

NOUNS = (*words.JUMPSUITS, *words.HEADWEAR, *words.TOOLS, *words.OBJECTS, "bar", "other")
COLOURS = tuple(words.COLOURS)
MARKS = (*words.CODE_CHARS, *words.SIGN_WORDS, "other")
#: Numbers in an order count up to this; what comes later shares it.
MOST = 9
#: The nine labels in their order.
LABELS = ("noun", "colour", "mark", "owner_noun", "owner_colour", "order", "rank", "place", "beside")
#: Their numbers of classes, the 'none' of each among them.
SIZES = (*(1 + len(names) for names in (NOUNS, COLOURS, MARKS, NOUNS, COLOURS)), 1 + MOST, 1 + MOST, 1 + MOST, 1 + len(MARKS))
#: A cell is labelled with the thing that fills most of it, if that is at least this share.
LABEL_SHARE = 0.25
#: The same for the next largest mark.
BESIDE_SHARE = 0.15
_SAMPLES = 8  # points a cell side at which the layers are read
_OWNER = re.compile(r"worker\d+|object\d+|bar\d+|row\d+-item\d+")


def main_things(picture: Picture, place: Letterbox, cells: int) -> np.ndarray:
    """(3, cells, cells) uint8: number of the thing that fills most of each cell, of the bodies, of the marks, and of the marks
    but that one; 0 for none."""
    height, width = picture.layers.shape[1:]
    points = (np.arange(cells * _SAMPLES) + 0.5) * place.size / (cells * _SAMPLES)
    column, row = (points - place.left) * width / place.width, (points - place.top) * height / place.height
    inside = ((row >= 0) & (row < height))[:, None] & ((column >= 0) & (column < width))[None, :]
    seen = picture.layers[:, row.clip(0, height - 1).astype(int)[:, None], column.clip(0, width - 1).astype(int)[None, :]]
    seen = np.where(inside, seen, 0).reshape(2, cells, _SAMPLES, cells, _SAMPLES).transpose(0, 1, 3, 2, 4)
    counts = np.zeros((2, cells, cells, len(picture.things) + 1), np.int32)
    for number in range(1, len(picture.things) + 1):
        counts[..., number] = (seen == number).sum((-1, -2))
    main = np.where(counts.max(-1) >= LABEL_SHARE * _SAMPLES**2, counts.argmax(-1), 0)
    np.put_along_axis(counts[1], main[1][..., None], 0, axis=-1)
    beside = np.where(counts[1].max(-1) >= BESIDE_SHARE * _SAMPLES**2, counts[1].argmax(-1), 0)
    return np.stack([*main, beside]).astype(np.uint8)


def cell_labels(picture: Picture, things: np.ndarray) -> np.ndarray:
    """(9, cells, cells) uint8, see the module docstring; ``things``: the picture's main_things. Where a mark lies on a body,
    both belong to the same one."""
    bodies, marks, beside = things
    table = np.zeros((8, len(picture.things) + 1), np.uint8)
    orders, owners = _orders(picture.kind, picture.spec), {}
    for thing in picture.things:
        if thing.layer == 0:
            owners.setdefault(_owner(thing), thing)
    for number, thing in enumerate(picture.things, start=1):
        owner = _owner(thing)
        table[:3, number] = _noun(thing), _colour(thing), 1 + MARKS.index(thing.noun if thing.noun in MARKS else "other")
        if owner in owners:
            table[3:5, number] = _noun(owners[owner]), _colour(owners[owner])
        table[5:7, number] = [min(n, MOST) for n in orders.get(owner, (0, 0))]
        last = re.search(r"\d+$", thing.name)
        table[7, number] = min(int(last[0]), MOST) if last and thing.layer else 0
    deepest = np.where(marks > 0, marks, bodies)
    return np.concatenate([table[:2, bodies], table[2:3, marks], table[3:7, deepest], table[7:, marks], table[2:3, beside]])


def shows_words(labels: np.ndarray) -> np.ndarray:
    """(n,) bool: whether a sign word fills a cell of each picture; ``labels`` (n, 9, cells, cells) as above."""
    mark = labels[:, LABELS.index("mark")]
    return np.isin(mark, [1 + MARKS.index(word) for word in words.SIGN_WORDS]).any((-1, -2))


def shown_facts(picture: Picture, question: Question) -> list[tuple[int, int, int]]:
    """(start, end, number of the thing that shows it) of each fact of the answer; of a bar's value digit by digit."""
    numbers = {thing.name: number for number, thing in enumerate(picture.things, start=1)}
    facts = []
    for fact in question.facts:
        digits = [f"{fact.mask}-value{i}" for i in range(1, len(fact.text) + 1)] if fact.text.isdigit() else []
        if fact.cls == "bar" and digits and digits[-1] in numbers:
            facts += [(fact.start + i, fact.start + i + 1, numbers[name]) for i, name in enumerate(digits)]
        else:
            facts.append((fact.start, fact.end, numbers[fact.mask]))
    return facts


def _noun(thing: Thing) -> int:
    return 1 + NOUNS.index(thing.noun if thing.noun in NOUNS else "other")


def _colour(thing: Thing) -> int:
    return 1 + COLOURS.index(thing.colour) if thing.colour else 0


def _owner(thing: Thing) -> str | None:
    """The worker, object, bar or piece of writing that a thing is or is a part of; None for a board or a title."""
    found = _OWNER.match(thing.name)
    return found[0] if found else None


def _orders(kind: str, spec: dict) -> dict[str, tuple[int, int]]:
    """The two numbers of every owner, both from 1."""
    if kind == "text":
        return {f"row{r}-item{i}": (r, i) for r, row in enumerate(spec.get("rows", ()), 1) for i in range(1, len(row) + 1)}
    if kind == "chart":
        ranks = _ranks({f"bar{b}": -bar["value"] for b, bar in enumerate(spec.get("bars", ()), 1)})
        return {name: (int(name[3:]), rank) for name, rank in ranks.items()}
    across = {what: {f"{what}{n}": s["x"] for n, s in enumerate(spec.get(f"{what}s", ()), 1)} for what in ("worker", "object")}
    everyone = _ranks(across["worker"] | across["object"])
    like = _ranks(across["worker"]) | _ranks(across["object"])
    return {name: (rank, like[name]) for name, rank in everyone.items()}


def _ranks(values: dict[str, float]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(sorted(values, key=values.get), 1)}
