"""How a chart looks: a board on a wall with grid lines, lit bars with soft shadows, numbers, labels and badges.

Places are in cells of the target's grid (the long side of a picture is 14 cells), so that everything named is seen to
cover at least two of them.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from fovea_core.worksite.base import Thing
from fovea_core.worksite.canvas import Canvas, Colour, Grad, tone
from fovea_core.worksite.lettering import write
from fovea_core.worksite.sheets import GROUNDS, ink_on, mix, screw
from fovea_core.worksite.signs import CELLS, MIN_CELLS
from fovea_core.worksite.surface import Shade, finish, light_of, random_light
from fovea_core.worksite.words import COLOURS

VALUE_HIGH = 1.32  # height of a printed value in cells
LABEL_GAP = 0.3  # between the labels of neighbouring bars
COLOUR_SEEN = 0.95  # bar left free below its badge
#: Board colour, ink and material.
FACES: tuple[tuple[Colour, Colour, str], ...] = (
    ((250, 249, 244), (40, 44, 52), "paper"),
    ((244, 238, 220), (58, 44, 34), "paper"),
    ((226, 234, 240), (28, 44, 70), "plain"),
    ((48, 62, 58), (238, 240, 232), "plaster"),
    ((40, 46, 60), (236, 238, 244), "plain"),
    ((232, 240, 228), (30, 58, 42), "paper"),
    ((214, 200, 178), (52, 40, 30), "concrete"),
)
WALLS = ("plaster", "brick", "concrete", "wood", "corrugated", "felt")
SHAPES = ("block", "round", "pillar")


def badge_box(bar_width: float, length: int) -> tuple[float, float, int]:
    """Width and height of a badge's glyph box and glyphs per line, in cells, for a bar of that width."""
    best = None
    for per_line in range(1, length + 1):
        wide = min(1.45, (bar_width - 0.16) / per_line)
        high = max(1.42, MIN_CELLS / wide)
        total = high * math.ceil(length / per_line)
        if high / wide <= 3.0 and (best is None or total < best[0]):
            best = (total, wide, high, per_line)
    return best[1:] if best else (bar_width - 0.16, MIN_CELLS / (bar_width - 0.16), 1)


def _label_wide(column: float, length: int) -> float:
    """Width of a label's glyph box in cells in a column of that width."""
    return min(1.45, (column - LABEL_GAP) / length)


def choose_chart_style(count: int, label: int, badge: int, title: bool, rng: np.random.Generator) -> dict:
    """A random look and the proportions (in cells) that give every label and badge its two cells."""
    face, ink, material = FACES[rng.integers(len(FACES))]
    wall = str(rng.choice(WALLS))
    margin = round(float(rng.uniform(0.3, 0.5)), 2)
    inner = CELLS - 2 * margin - 0.3
    column = inner / count
    label_high = max(1.4, MIN_CELLS / _label_wide(column, label))
    fixed = 2 * margin + 0.3 + (1.95 if title else 0.1) + VALUE_HIGH + 0.15 + label_high + 0.42
    plot = round(float(min(CELLS - fixed, rng.uniform(5.4, 7.4))), 2)
    return {
        "wall": wall,
        "wall_rgb": list(GROUNDS[wall][rng.integers(len(GROUNDS[wall]))]),
        "face_rgb": list(face),
        "ink_rgb": list(ink),
        "material": material,
        "shape": str(rng.choice(SHAPES)),
        "frame": bool(rng.random() < 0.6),
        "grid_lines": int(rng.integers(4, 8)),
        **random_light(rng),
        "margin": margin,
        "column": column,
        "bar_width": round(column * float(rng.uniform(0.76, 0.84)), 3),
        "plot": plot,
        "height": fixed + plot,
    }


def least_share(style: dict, badge: int) -> float:
    """Smallest share of the highest bar's height that still holds a badge of that length."""
    _, high, per_line = badge_box(style["bar_width"], badge)
    return min(0.9, (high * math.ceil(badge / per_line) + 0.14 + COLOUR_SEEN) / style["plot"])


def chart_size(style: dict, long_px: int) -> tuple[int, int]:
    """Width and height of the picture in px."""
    return long_px, round(long_px * style["height"] / CELLS)


def draw_chart(spec: dict, rng: np.random.Generator, scale: float):
    """Draw a chart spec: rgb, layers, things."""
    style, bars = spec["style"], spec["bars"]
    unit = spec["width_px"] / CELLS
    canvas = Canvas(spec["width_px"], spec["height_px"], scale)
    cv2.rectangle(canvas.rgb, (0, 0), canvas.rgb.shape[1::-1], style["wall_rgb"], -1)
    face, ink = tuple(style["face_rgb"]), tuple(style["ink_rgb"])
    things = [Thing("board", "object", "sign", None, 0)]
    margin = style["margin"] * unit
    board = (margin, margin, spec["width_px"] - margin, spec["height_px"] - margin)
    _board(canvas, board, face, ink, style, unit)
    shades = [Shade(0, (board[0], board[1] + unit * 0.15, board[2], board[3] + unit * 0.22), unit * 0.25, 0.55)]
    y = style["margin"] + 0.15
    if spec.get("title"):
        _title(canvas, spec["title"], y, ink, unit, things)
        y += 1.95
    else:
        y += 0.1
    column = (CELLS - 2 * style["margin"] - 0.3) / len(bars) * unit
    label_high = max(1.4, MIN_CELLS / _label_wide(column / unit, max(len(bar["label"]) for bar in bars))) * unit
    top = (y + VALUE_HIGH + 0.15) * unit
    base = spec["height_px"] - (style["margin"] + 0.45) * unit - label_high
    left, right = (style["margin"] + 0.1) * unit, spec["width_px"] - (style["margin"] + 0.1) * unit
    for k in range(1, style["grid_lines"] + 1):
        line = base - (base - top) * k / style["grid_lines"]
        canvas.line([(left, line), (right, line)], unit * 0.03, mix(face, ink, 0.22))
    highest = max(bar["value"] for bar in bars)
    start = (style["margin"] + 0.15) * unit
    wide = style["bar_width"] * unit * min(1.0, column / (style["column"] * unit))
    materials, numbers = {1: style["material"]}, {}
    for b, bar in enumerate(bars):
        middle = start + (b + 0.5) * column
        box = (middle - wide / 2, base - (base - top) * bar["value"] / highest, middle + wide / 2, base)
        things.append(Thing(f"bar{b + 1}", "bar", "bar", bar["colour"], 0))
        number = len(things)
        materials[number] = "plain"
        away = (0.5 - style["light"][0]) * unit * 0.5
        shades.append(Shade(1, (box[0] + away, box[1] + unit * 0.12, box[2] + away, base), unit * 0.18, 0.4))
        _bar(canvas, box, COLOURS[bar["colour"]], style["shape"], unit, number)
        numbers[number] = _value(canvas, str(bar["value"]), b, middle, box[1] - unit * 0.1, column, ink, unit, things)
        _badge(canvas, bar, b, box, style, unit, things)
        _label(canvas, bar, b, middle, base + unit * 0.17, column, label_high, ink, face, unit, things)
    canvas.line([(left, base), (right, base)], unit * 0.07, ink)
    rgb, layers = finish(canvas, style["wall"], materials, shades, light_of(style), rng)
    for number, box in numbers.items():  # bar and number say the value together
        x0, y0, x1, y1 = (max(0, round(v * rgb.shape[1] / spec["width_px"])) for v in box)
        layers[0, y0:y1, x0:x1] = number
    return rgb, layers, things


def _board(canvas: Canvas, box, face: Colour, ink: Colour, style: dict, unit: float) -> None:
    """A framed or screwed board."""
    left, top, right, bottom = box
    frame = mix(ink, (128, 100, 70), 0.5) if style["frame"] else tone(face, -0.2)
    canvas.rounded(*box, unit * 0.12, Grad(tone(frame, 0.25), tone(frame, -0.3)), 1)
    e = unit * (0.11 if style["frame"] else 0.04)
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.06, Grad(tone(face, -0.05), face), 1)
    if not style["frame"]:
        for k, x in enumerate((left, right)):
            for y in (top, bottom):
                inset = unit * 0.17
                screw(canvas, x + (inset if x == left else -inset), y + (inset if y == top else -inset), unit * 0.075, 0.4 + k)


def _title(canvas: Canvas, title: str, y: float, ink: Colour, unit: float, things: list) -> None:
    wide, high = 1.25, 1.7
    x = (CELLS - wide * len(title)) / 2
    for c, character in enumerate(title):
        things.append(_mark(f"title{c + 1}", character))
        box = ((x + c * wide) * unit, y * unit, (x + (c + 1) * wide) * unit, (y + high) * unit)
        write(canvas, character, box, ink, len(things))


def _mark(name: str, character: str) -> Thing:
    return Thing(name, "digit" if character.isdigit() else "letter", character, None, 1)


def _arch(left: float, top: float, right: float, bottom: float, radius: float) -> np.ndarray:
    """(n, 2) outline of a column with round upper corners."""
    turn = np.linspace(0, math.pi / 2, 8)
    west = np.stack([left + radius - radius * np.cos(turn), top + radius - radius * np.sin(turn)], 1)
    east = np.stack([right - radius + radius * np.sin(turn), top + radius - radius * np.cos(turn)], 1)
    return np.concatenate([west, east, [(right, bottom), (left, bottom)]])


def _bar(canvas: Canvas, box, colour: Colour, shape: str, unit: float, number: int) -> None:
    """A lit bar with a thin dark rim: a block, one with a round top, or a pillar."""
    left, top, right, bottom = box
    radius = {"block": 0.05, "round": 0.3, "pillar": 0.12}[shape] * unit
    rim = unit * 0.035
    canvas.polygon(_arch(*box, radius), tone(colour, -0.45), number)
    left, top, right, radius = left + rim, top + rim, right - rim, max(rim, radius - rim)
    if shape == "pillar":
        ridge = left + (right - left) * 0.3
        light, dark = tone(colour, 0.26), tone(colour, -0.3)
        canvas.polygon(_arch(left, top, right, bottom, radius), Grad(light, dark, "right"), number)
        canvas.polygon(
            [(left, top + radius), (ridge, top), (ridge, bottom), (left, bottom)], Grad(tone(colour, -0.2), light, "right")
        )
    else:
        canvas.polygon(_arch(left, top, right, bottom, radius), Grad(tone(colour, 0.16), tone(colour, -0.2)), number)
        canvas.rounded(left + rim, top + radius, left + rim * 3.2, bottom - rim, rim, tone(colour, 0.3))


def _value(
    canvas: Canvas, value: str, b: int, middle: float, foot: float, column: float, ink: Colour, unit: float, things: list
):
    """The printed number above a bar; returns its box in picture px."""
    wide = min(0.86 * unit, (column - 0.24 * unit) / len(value))
    x, top = middle - wide * len(value) / 2, foot - VALUE_HIGH * unit
    for d, digit in enumerate(value):
        things.append(_mark(f"bar{b + 1}-value{d + 1}", digit))
        write(canvas, digit, (x + d * wide, top, x + (d + 1) * wide, foot), ink, len(things), pad=0.05)
    return x, top, x + len(value) * wide, foot


def _badge(canvas: Canvas, bar: dict, b: int, box, style: dict, unit: float, things: list) -> None:
    """A light chip near the top of the bar with the badge's characters."""
    badge = bar["badge"]
    if not badge:
        return
    wide, high, per_line = badge_box((box[2] - box[0]) / unit, len(badge))
    lines = math.ceil(len(badge) / per_line)
    high *= min(1.0, max(0.2, (box[3] - box[1]) / unit - 0.2) / (lines * high))  # an edited bar may be too short
    middle, top = (box[0] + box[2]) / 2, box[1] + unit * 0.14
    chip = (middle - per_line * wide * unit / 2, top, middle + per_line * wide * unit / 2, top + lines * high * unit)
    paper = (250, 250, 246) if bar["colour"] != "white" else (58, 62, 70)
    canvas.rounded(
        chip[0], chip[1] + unit * 0.04, chip[2], chip[3] + unit * 0.05, unit * 0.16, tone(COLOURS[bar["colour"]], -0.5)
    )
    canvas.rounded(*chip, unit * 0.16, Grad(paper, tone(paper, -0.08)))
    for c, character in enumerate(badge):
        line, place = divmod(c, per_line)
        in_line = min(per_line, len(badge) - line * per_line)
        x = middle + (place - in_line / 2) * wide * unit
        y = top + line * high * unit
        things.append(_mark(f"bar{b + 1}-badge{c + 1}", character))
        write(canvas, character, (x, y, x + wide * unit, y + high * unit), ink_on(paper), len(things))


def _label(canvas, bar: dict, b: int, middle, top, column, high, ink: Colour, face: Colour, unit: float, things: list) -> None:
    """The bar's label code on a tag below the axis."""
    label = bar["label"]
    wide = _label_wide(column / unit, len(label)) * unit
    half = len(label) * wide / 2 + unit * 0.06
    canvas.rounded(middle - half, top, middle + half, top + high, unit * 0.12, mix(face, ink, 0.13))
    for c, character in enumerate(label):
        x = middle + (c - len(label) / 2) * wide
        things.append(_mark(f"bar{b + 1}-label{c + 1}", character))
        write(canvas, character, (x, top, x + wide, top + high), ink, len(things), pad=0.06)
