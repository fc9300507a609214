"""Scenes: workers and objects on a building site, drawn from a seed or from a plain description."""

from __future__ import annotations

from itertools import combinations

import cv2
import numpy as np

from fovea_core.worksite import figures, objects
from fovea_core.worksite.asking import Item, items_of, questions_of
from fovea_core.worksite.base import Picture, Thing
from fovea_core.worksite.canvas import Canvas
from fovea_core.worksite.checking import check_scene
from fovea_core.worksite.layout import SKINS, example_spec, random_spec, worker_spec
from fovea_core.worksite.pen import Pen
from fovea_core.worksite.scenery import scenery
from fovea_core.worksite.words import COLOURS

__all__ = ["example_spec", "make_scene", "make_worker_scene"]
CHECK_SCALE = 0.5
TWO_CELLS = 2 / 14**2  # of the long side's square
#: What must be visible, in units of two cells; of an object or jumpsuit beside its plate.
LEAST = {"jumpsuit": 0.8, "object": 0.8, "headwear": 1.05, "tool": 1.1, "letter": 1.02, "digit": 1.02}
TINTS = {"evening": (1.03, 0.97, 0.94), "hall": (1.02, 1.0, 0.96), "meadow": (1.0, 1.01, 0.97)}
DEPTHS = ("back", "worker", "middle", "front")


def make_scene(seed: int, scale: float = 2.0, spec: dict | None = None) -> Picture:
    """The scene of ``seed``, or the scene ``spec`` describes (the seed then decides only details of the background).

    The layout does not depend on ``scale``: it is accepted on a small drawing, in which every thing that can be named covers
    two cells of the 14 x 14 grid and nothing hides a mark. A given spec is drawn as it is.

    Raises ValueError with one sentence where a given ``spec`` cannot be drawn (checking.check_scene).
    """
    if spec is None:
        rng = np.random.default_rng((0, seed))
        spec = random_spec(rng, _visible)
    else:
        check_scene(spec)
    things = _things(spec)
    canvas = _draw(spec, things, scale, np.random.default_rng((0, seed, 1)))
    rgb, layers = canvas.finish()
    rgb = _light(rgb, np.random.default_rng((0, seed, 3)), spec["background"])
    questions = questions_of(spec, np.random.default_rng((0, seed, 2)))
    return Picture("scene", seed, rgb, layers, tuple(things), questions, spec)


def make_worker_scene(seed: int, scale: float = 2.0) -> Picture:
    """Variant ``seed`` of the worker scene (layout.example_spec): one worker among five objects."""
    return make_scene(seed, scale, worker_spec(np.random.default_rng((3, seed)), _visible))


def _things(spec: dict) -> list[Thing]:
    """Everything that can be named, in drawing numbers from 1."""
    things = []

    def marks(item: Item, key: str, part: str) -> None:
        for i, character in enumerate(item.spec[key] or "", 1):
            things.append(Thing(item.thing(f"{part}_{i}"), "digit" if character.isdigit() else "letter", character, None, 1))

    for item in items_of(spec):
        s = item.spec
        if item.kind == "object":
            things.append(Thing(item.thing("body"), "object", s["noun"], s["colour"]))
            marks(item, "plate", "plate")
            continue
        things.append(Thing(item.thing("jumpsuit"), "jumpsuit", "jumpsuit", s["jumpsuit"]))
        things.append(Thing(item.thing("headwear"), "headwear", s["headwear"], s["headwear_colour"]))
        things.append(Thing(item.thing("tool"), "tool", s["tool"], s["tool_colour"]))
        marks(item, "badge", "badge")
        marks(item, "letter", "letter")
    return things


def _draw(spec: dict, things: list[Thing], scale: float, rng: np.random.Generator, ids_only: bool = False) -> Canvas:
    width, height = spec["size"]
    long_px = max(width, height)
    canvas = Canvas(width, height, scale, ids_only)
    number = {thing.name: i for i, thing in enumerate(things, 1)}
    if not ids_only:
        scenery(canvas, spec["background"], (0.37 if height < 0.9 * long_px else 0.41) * long_px, rng)
    items = items_of(spec)
    depth = {row: [i for i in items if i.spec.get("row", "worker") == row] for row in DEPTHS}
    for item in depth["back"]:
        _draw_object(canvas, item, number, long_px)
    _draw_workers(canvas, depth["worker"], number, long_px)
    for row in ("middle", "front"):
        for item in sorted(depth[row], key=lambda i: i.spec["base"]):
            _draw_object(canvas, item, number, long_px)
    return canvas


def _draw_object(canvas: Canvas, item: Item, number: dict[str, int], long_px: int) -> None:
    s, body = item.spec, number[item.thing("body")]
    x, base, size = s["x"] * long_px, s["base"] * long_px, s["size"] * long_px
    canvas.shadow(x + 0.04 * size, base - 0.01 * size, 0.66 * size, 0.13 * size, 0.5)
    pen = Pen(canvas, (x - size / 2, base - size, x + size / 2, base), COLOURS[s["colour"]], body)
    at = objects.FIGURES[s["noun"]](pen)
    marks = [number[item.thing(f"plate_{i}")] for i in range(1, len(s["plate"]) + 1)]
    figures.plate(canvas, (pen.x(at[0]), pen.y(at[1])), long_px, s["plate"], body, marks, pen.edge)


def _draw_workers(canvas: Canvas, workers: list[Item], number: dict[str, int], long_px: int) -> None:
    """All bodies first, then all tools, so that no neighbour's sleeve hides a tool."""
    places = []
    for item in workers:
        s = item.spec
        place = figures.Place(
            s["x"] * long_px, s["top"] * long_px, s["unit"] * long_px, s["feet"] * long_px, s["left_handed"], SKINS[s["skin"]]
        )
        half = figures.plate_size(len(s["badge"]))[0] / 2 / s["unit"] + 0.032
        places.append((item, place, half))
        suit = number[item.thing("jumpsuit")]
        canvas.shadow(place.x, place.feet - 0.005 * long_px, 1.8 * half * place.unit, 0.05 * place.unit, 0.5)
        figures.worker_body(canvas, place, s["jumpsuit"], suit, half)
        marks = [number[item.thing(f"badge_{i}")] for i in range(1, len(s["badge"]) + 1)]
        figures.plate(canvas, (place.x, place.top + figures.BADGE_AT * place.unit), long_px, s["badge"], suit, marks)
        letter = number.get(item.thing("letter_1"))
        hat = number[item.thing("headwear")]
        figures.headwear(canvas, place, s["headwear"], s["headwear_colour"], hat, s["letter"], letter, long_px)
    for item, place, half in places:
        s = item.spec
        suit, tool = number[item.thing("jumpsuit")], number[item.thing("tool")]
        figures.worker_tool(canvas, place, s["jumpsuit"], s["tool"], s["tool_colour"], suit, tool, half)


def _light(rgb: np.ndarray, rng: np.random.Generator, background: str) -> np.ndarray:
    """A lamp or the sun somewhere above, a little darker away from it, warm in the evening."""
    x, y = rng.uniform(0.1, 0.9), rng.uniform(-0.1, 0.3)
    v, u = np.mgrid[0:1:24j, 0:1:24j]
    gain = 1.05 - 0.12 * np.clip(np.hypot(u - x, v - y), 0, 1.3) ** 1.5
    tint = np.array(TINTS.get(background, (1.0, 1.0, 1.0))) * rng.uniform(0.985, 1.015, 3)
    small = (gain[..., None] * tint).astype(np.float32)
    large = cv2.resize(small, rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    return cv2.multiply(rgb, large, dtype=cv2.CV_8U)


def _visible(spec: dict) -> bool:
    """Whether everything covers two cells (with a little to spare; bodies beside their plate) and every mark is whole."""
    if _plates_meet(spec):  # the cheap reason for most refusals
        return False
    things = _things(spec)
    canvas = _draw(spec, things, CHECK_SCALE, np.random.default_rng(0), ids_only=True)
    area = [cv2.calcHist([layer], [0], None, [256], [0, 256]).ravel() for layer in canvas.layers]
    cells = TWO_CELLS * (max(spec["size"]) * CHECK_SCALE) ** 2
    return all(area[t.layer][n] >= cells * LEAST[t.cls] for n, t in enumerate(things, 1))


def _plates_meet(spec: dict) -> bool:
    """Whether two plates or badges overlap by more than their rims."""
    boxes = []
    for item in items_of(spec):
        s = item.spec
        if item.kind == "worker":
            width, height = figures.plate_size(len(s["badge"]))
            x, y = s["x"], s["top"] + figures.BADGE_AT * s["unit"]
        else:
            width, height = figures.plate_size(len(s["plate"]))
            u, v = objects.PLATE_AT[s["noun"]]
            x, y = s["x"] + (u - 0.5) * s["size"], s["base"] - (1 - v) * s["size"]
        boxes.append((x, y, width / 2 - figures.RIM, height / 2 - figures.RIM))
    return any(abs(a[0] - b[0]) < a[2] + b[2] and abs(a[1] - b[1]) < a[3] + b[3] for a, b in combinations(boxes, 2))
