"""Scenes: workers and objects on a building site, drawn from a seed or from a plain description."""

from __future__ import annotations

import cv2
import numpy as np

from fovea_core.worksite import figures, objects
from fovea_core.worksite.asking import Item, items_of, questions_of
from fovea_core.worksite.base import Picture, Thing
from fovea_core.worksite.canvas import Canvas
from fovea_core.worksite.layout import SKINS, example_spec, random_spec
from fovea_core.worksite.pen import Pen
from fovea_core.worksite.scenery import scenery
from fovea_core.worksite.words import COLOURS

__all__ = ["example_spec", "make_scene"]
CHECK_SCALE = 0.5
TWO_CELLS = 2 / 14**2  # of the long side's square
DEPTHS = ("back", "worker", "middle", "front")


def make_scene(seed: int, scale: float = 2.0, spec: dict | None = None) -> Picture:
    """The scene of ``seed``, or the scene ``spec`` describes (the seed then decides only details of the background).

    The layout does not depend on ``scale``: it is accepted on a small drawing, in which every thing that can be named covers
    two cells of the 14 x 14 grid and nothing hides a mark. A given spec is drawn as it is.
    """
    if spec is None:
        rng = np.random.default_rng((0, seed))
        spec = random_spec(rng, _visible)
    things = _things(spec)
    canvas = _draw(spec, things, scale, np.random.default_rng((0, seed, 1)))
    rgb, layers = canvas.finish()
    questions = questions_of(spec, np.random.default_rng((0, seed, 2)))
    return Picture("scene", seed, rgb, layers, tuple(things), questions, spec)


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
    figures.plate(canvas, (pen.x(at[0]), pen.y(at[1])), long_px, s["plate"], body, marks)


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
        figures.plate(canvas, (place.x, place.top + 0.335 * place.unit), long_px, s["badge"], suit, marks)
        letter = number.get(item.thing("letter_1"))
        hat = number[item.thing("headwear")]
        figures.headwear(canvas, place, s["headwear"], s["headwear_colour"], hat, s["letter"], letter, long_px)
    for item, place, half in places:
        s = item.spec
        suit, tool = number[item.thing("jumpsuit")], number[item.thing("tool")]
        figures.worker_tool(canvas, place, s["jumpsuit"], s["tool"], s["tool_colour"], suit, tool, half)


def _visible(spec: dict) -> bool:
    """Whether everything covers two cells (with a little to spare) and every mark is whole."""
    things = _things(spec)
    canvas = _draw(spec, things, CHECK_SCALE, np.random.default_rng(0), ids_only=True)
    area = [cv2.calcHist([layer], [0], None, [256], [0, 256]).ravel() for layer in canvas.layers]
    cells = TWO_CELLS * (max(spec["size"]) * CHECK_SCALE) ** 2
    for number, thing in enumerate(things, 1):
        needed = cells * (1.02 if thing.layer else 1.15)
        if area[thing.layer][number] < needed:
            return False
    return True
