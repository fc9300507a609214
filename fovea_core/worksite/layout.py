"""The plain description of a scene: who and what is in it, in which colours, with which codes, and where.

All places are fractions of the picture's long side. ``random_spec`` draws one; whether everything named is visible is
checked by drawing (scene.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from fovea_core.worksite.scenery import SCENERIES
from fovea_core.worksite.words import CODE_CHARS, COLOURS, HEADWEAR, OBJECTS, TOOLS

NEAREST = 0.045  # smallest distance of two middle lines, so that left and right are never in doubt
SKINS = ((246, 208, 176), (236, 188, 148), (206, 152, 108), (160, 108, 74), (112, 74, 52))


def random_spec(rng: np.random.Generator, accept: Callable[[dict], bool]) -> dict:
    """A scene of one to three workers and two to five objects, at least 40 words and characters when described.

    Shape and numbers are drawn first and kept for a while, so that crowded pictures are not crowded out; everything else is
    drawn anew until ``accept`` says yes.
    """
    while True:
        shape = ("landscape", "square", "portrait")[int(rng.choice(3, p=(0.5, 0.2, 0.3)))]
        workers, objects = _counts(rng, shape)
        background = str(rng.choice(SCENERIES))
        long_px = int(rng.choice((896, 960, 1024, 1152)))
        for _ in range(40):
            width, height = _aspect(rng, shape)
            figures = [_badge(rng, workers) for _ in range(workers)]
            places = _places(rng, shape == "landscape", width, height, figures, objects)
            if places is None:
                continue
            spec = {
                "size": [round(width * long_px), round(height * long_px)],
                "background": background,
                "workers": [_worker(rng) | figure | place for figure, place in zip(figures, places[0])],
                "objects": _objects(rng, places[1], workers),
            }
            if tokens(spec) >= 40 and accept(spec):
                return spec


def tokens(spec: dict) -> int:
    """Answer tokens of a full description: one a word, a character and a ';'."""
    total = -1
    for worker in spec["workers"]:
        total += 6 + len(worker["headwear"].split()) + len(worker["badge"]) + bool(worker["letter"])
    return total + sum(3 + len(item["plate"]) for item in spec["objects"])


def example_spec() -> dict:
    """The paper's figure in our manner: an orange jumpsuit, a yellow hard hat and a blue hose among five objects."""
    worker = {
        "jumpsuit": "orange", "headwear": "hard hat", "headwear_colour": "yellow", "letter": "B", "tool": "hose",
        "tool_colour": "blue", "badge": "K7Q", "x": 0.475, "top": 0.04, "unit": 0.92, "feet": 0.92, "left_handed": False,
        "skin": 1,
    }  # fmt: skip
    objects = [
        ("tent", "purple", "6HD", 0.14, 0.5, 0.3, "back"),
        ("tree", "green", "Z1C", 0.86, 0.5, 0.31, "back"),
        ("barrel", "red", "4T9", 0.2, 0.93, 0.33, "front"),
        ("dog", "brown", "R58", 0.53, 0.965, 0.32, "front"),
        ("cone", "lime", "X2M", 0.81, 0.94, 0.34, "front"),
    ]
    keys = ("noun", "colour", "plate", "x", "base", "size", "row")
    items = [dict(zip(keys, values, strict=True)) for values in objects]
    return {"size": [1024, 1000], "background": "site", "workers": [worker], "objects": items}


def worker_spec(rng: np.random.Generator, accept: Callable[[dict], bool]) -> dict:
    """A variant of ``example_spec``: the same places, another worker, other objects, colours, codes and surroundings."""
    while True:
        spec = example_spec()
        place = {key: spec["workers"][0][key] for key in ("x", "top", "unit", "feet")}
        worker = _worker(rng) | _badge(rng, 1) | place
        stands = [{key: item[key] for key in ("x", "base", "size", "row")} for item in spec["objects"]]
        spec |= {"background": str(rng.choice(SCENERIES)), "workers": [worker], "objects": _objects(rng, stands, 1)}
        if accept(spec):
            return spec


def _aspect(rng: np.random.Generator, shape: str) -> tuple[float, float]:
    if shape == "landscape":
        return 1.0, float(rng.uniform(0.76, 0.84))
    if shape == "square":
        return 1.0, float(rng.uniform(0.97, 1.0))
    return float(rng.uniform(0.8, 0.9)), 1.0


def _counts(rng: np.random.Generator, shape: str) -> tuple[int, int]:
    choices = {
        "landscape": ((1, 5), (1, 5), (2, 3), (2, 4), (2, 4), (2, 4), (3, 3)),
        "square": ((1, 5), (2, 4), (2, 4), (2, 5), (3, 3), (3, 4)),
        "portrait": ((1, 5), (2, 3), (2, 4)),
    }[shape]
    return choices[int(rng.integers(len(choices)))]


def _places(rng, wide, width, height, workers, objects):
    """Places for the workers and the objects in up to three depths, or None if this try fails.

    Figures of one depth stand side by side without hiding each other's marks; no two middle lines are too near.
    """
    columns = 3 if width > 0.93 else 2
    back = max(0, columns - len(workers)) if len(workers) == 1 else int(rng.integers(0, max(0, columns - len(workers)) + 1))
    front = min(objects - back, columns)
    middle = objects - front - back
    if front < 1 or middle > (0 if wide else columns):
        return None
    units = [float(rng.uniform(0.86, 0.91)) for _ in workers]
    order = rng.permutation([0] * back + list(range(1, len(workers) + 1))).tolist()
    standing = _pack(rng, [_reach(workers[i - 1], units[i - 1]) if i else (0.135, 0.135) for i in order], width)
    rows = [_pack(rng, [(0.135, 0.135)] * count, width) for count in (middle, front)]
    if standing is None or None in rows:
        return None
    middles = sorted(standing + rows[0] + rows[1])
    if min(b - a for a, b in pairwise(middles)) < NEAREST:
        return None
    seats, others = [None] * len(workers), []
    for i, x in zip(order, standing):
        if i:
            top, feet = float(rng.uniform(0.034, 0.042)), height - float(rng.uniform(0.06, 0.1))
            seats[i - 1] = {"x": x, "top": top, "unit": units[i - 1], "feet": feet}
        else:
            others.append(_stand(rng, x, height - (0.335 if wide else 0.56), 0.285, "back"))
    others += [_stand(rng, x, height - 0.33, 0.27, "middle") for x in rows[0]]
    return seats, others + [_stand(rng, x, height - 0.02, 0.305, "front") for x in rows[1]]


def _reach(worker: dict, unit: float) -> tuple[float, float]:
    """How far a worker needs room to the left and right of the middle line: badge on one side, badge and tool on the other."""
    half = 0.1 if len(worker["badge"]) == 2 else 0.125
    free, tool = half + 0.002, half + 0.13 * unit
    return (tool, free) if worker["left_handed"] else (free, tool)


def _pack(rng: np.random.Generator, reaches: list[tuple[float, float]], width: float) -> list[float] | None:
    """Middle lines of figures side by side, the spare room shared out at random; None where there is not enough."""
    spare = width - sum(a + b for a, b in reaches)
    if spare < 0:
        return None
    gaps = spare * rng.dirichlet([1.5] * (len(reaches) + 1))
    middles, x = [], 0.0
    for (left, right), gap in zip(reaches, gaps):
        x += gap + left
        middles.append(float(x))
        x += right
    return middles


def _stand(rng: np.random.Generator, x: float, base: float, size: float, row: str) -> dict:
    return {"x": x, "base": base + float(rng.uniform(-0.006, 0.006)), "size": size, "row": row}


def _code(rng: np.random.Generator, length: int) -> str:
    return "".join(CODE_CHARS[i] for i in rng.integers(len(CODE_CHARS), size=length))


def _badge(rng: np.random.Generator, workers: int) -> dict:
    """What decides how much room a worker needs."""
    length = 3 if workers == 1 or (workers == 2 and rng.random() < 0.5) else 2
    return {"badge": _code(rng, length), "left_handed": bool(rng.random() < 0.5)}


def _worker(rng: np.random.Generator) -> dict:
    colours = list(COLOURS)
    suit, tool_colour, hat_colour = (colours[i] for i in rng.permutation(len(colours))[:3])
    kind = ("hard hat", *HEADWEAR)[rng.integers(1 + len(HEADWEAR))]
    return {
        "jumpsuit": suit,
        "headwear": kind,
        "headwear_colour": hat_colour,
        "letter": _code(rng, 1) if kind in ("hard hat", "helmet") and rng.random() < 0.95 else None,
        "tool": TOOLS[rng.integers(len(TOOLS))],
        "tool_colour": tool_colour,
        "skin": int(rng.integers(len(SKINS))),
    }


def _objects(rng: np.random.Generator, places: list[dict], workers: int) -> list[dict]:
    nouns = [OBJECTS[i] for i in rng.permutation(len(OBJECTS))[: len(places)]]
    if len(nouns) > 2 and rng.random() < 0.15:
        nouns[0] = nouns[1]
    items, colours = [], list(COLOURS)
    for noun, place in zip(nouns, places, strict=True):
        length = 3 if workers == 1 else 2 + (rng.random() < 0.85)
        items.append({"noun": noun, "colour": colours[rng.integers(len(colours))], "plate": _code(rng, length), **place})
    return items
