"""Workers, their headwear, and the plates and badges that carry codes.

A worker is drawn in units of ``unit`` px (the picture's long side times the worker's size) around a middle line ``x``, with
the top of the headwear at ``top``. A mark's box covers more than two cells of the 14 x 14 grid (a cell is long side / 14).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fovea_core.worksite import tools
from fovea_core.worksite.canvas import Canvas, lit, tone
from fovea_core.worksite.pen import CREAM, INK, SKIN, STEEL, Pen, luminance, smooth
from fovea_core.worksite.words import COLOURS

#: Width and height of one character of a code, in long sides, by the length of the code: each a little above 2 / 14**2.
CHARACTER = {1: (0.096, 0.116), 2: (0.0815, 0.132), 3: (0.0695, 0.1545)}
STRIPE = lit((222, 226, 214), "down", 0.12)
BADGE_AT = 0.335  # ordinate of the badge in worker units
GAP, RIM = 0.008, 0.011


def plate_size(length: int) -> tuple[float, float]:
    """Width and height of a plate for a code of ``length`` characters, in long sides."""
    width, height = CHARACTER[length]
    return length * width + (length - 1) * GAP + 2 * RIM, height + 2 * RIM


def plate(canvas: Canvas, centre, long_px: float, code: str, body: int, marks: list[int], shade=INK) -> None:
    """A light plate with a code around ``centre``; it belongs to thing ``body``, its characters are things ``marks``.

    ``shade`` is the colour of its shadow on the body.
    """
    width, height = (v * long_px for v in plate_size(len(code)))
    x, y = centre[0] - width / 2, centre[1] - height / 2
    line, drop = 0.004 * long_px, 0.006 * long_px
    if canvas.ids_only:  # what counts is how much of the body shows beside its plate
        body = 0
    canvas.rounded(x + drop, y + drop, x + width + drop, y + height + drop, 0.018 * long_px, shade, body)
    canvas.rounded(x, y, x + width, y + height, 0.018 * long_px, INK, body)
    inner = lit(CREAM, "down", 0.05)
    canvas.rounded(x + line, y + line, x + width - line, y + height - line, 0.014 * long_px, inner, body)
    wide, tall = (v * long_px for v in CHARACTER[len(code)])
    for i, (character, mark) in enumerate(zip(code, marks, strict=True)):
        left = x + RIM * long_px + i * (wide + GAP * long_px)
        canvas.glyph(character, (left, y + RIM * long_px, left + wide, y + RIM * long_px + tall), (26, 28, 34), mark)


@dataclass(frozen=True)
class Place:
    """Where a worker stands: middle line and top in px, ``unit`` px a unit, feet's ordinate in px, and the tool's side."""

    x: float
    top: float
    unit: float
    feet: float
    left_handed: bool = False
    skin: tuple[int, int, int] = SKIN

    def frame(self, left: float, top: float, right: float, bottom: float):
        """A box in worker units (x from the middle line, positive towards the tool) as px."""
        side = -1 if self.left_handed else 1
        x0, x1 = sorted((self.x + side * left * self.unit, self.x + side * right * self.unit))
        return x0, self.top + top * self.unit, x1, self.top + bottom * self.unit

    def pen(self, canvas: Canvas, box, colour: str, thing: int) -> Pen:
        """A pen for a box in worker units; mirrored for a left-handed worker."""
        return Pen(canvas, self.frame(*box), COLOURS[colour], thing, self.left_handed)


def worker_body(canvas: Canvas, place: Place, colour: str, thing: int, half: float) -> None:
    """Face, legs, torso and the free arm. ``half`` is half the torso's width in units. The jumpsuit is ``thing``."""
    bottom = (place.feet - place.top) / place.unit
    p = place.pen(canvas, (-0.5, 0, 0.5, bottom), colour, thing)
    p.height = place.unit  # one unit is one unit in both directions
    p.width = place.unit
    hips = min(0.52, bottom - 0.1)
    for side in (-1, 1):
        inner, outer = 0.5 + side * 0.012, 0.5 + side * half * 0.92
        p.poly([(inner, hips - 0.06), (outer, hips - 0.06), (outer, bottom - 0.03), (inner, bottom - 0.03)], p.main)
        p.rect(0.5 + side * 0.012, bottom - 0.15, 0.5 + side * half * 0.92, bottom - 0.12, STRIPE)
        canvas.rounded(*_boot(place, side, half, bottom), 0.015 * place.unit, (58, 50, 46), 0)
    p.rect(0.47, 0.2, 0.53, 0.26, p.main)
    p.curve([(0.5 - half + 0.01, 0.26), (0.5 - half - 0.03, 0.36), (0.5 - half - 0.015, 0.47)], 0.062, p.dark)
    hand = place.frame(-half - 0.04, 0.465, -half + 0.01, 0.515)
    canvas.ellipse((hand[0] + hand[2]) / 2, (hand[1] + hand[3]) / 2, 0.028 * place.unit, 0.028 * place.unit, place.skin, 0)
    torso = [(0.5 - half + 0.03, 0.212), (0.5 + half - 0.03, 0.212), (0.5 + half, 0.24), (0.5 + half * 0.97, hips)]
    p.poly([*torso, (0.5 - half * 0.97, hips), (0.5 - half, 0.24)], p.main)
    p.rect(0.5 - half * 0.97, hips - 0.035, 0.5 + half * 0.97, hips - 0.01, p.edge)
    p.poly([(0.42, 0.205), (0.58, 0.205), (0.5, 0.265)], p.dark)
    p.line([(0.5, 0.26), (0.5, hips)], 0.006, p.edge)
    for side in (-1, 1):
        p.rect(0.5 + side * half * 0.3, hips - 0.075, 0.5 + side * half * 0.8, hips - 0.068, p.edge)
    _face(canvas, place)


def _boot(place: Place, side: int, half: float, bottom: float):
    x0, x1 = sorted((side * 0.008, side * (half + 0.012)))
    return place.frame(x0, bottom - 0.045, x1, bottom)


def _face(canvas: Canvas, place: Place) -> None:
    u, y = place.unit, place.top
    canvas.ellipse(place.x, y + 0.152 * u, 0.069 * u, 0.072 * u, lit(place.skin, "radial", 0.15), 0)
    for side in (-1, 1):
        canvas.ellipse(place.x + side * 0.068 * u, y + 0.16 * u, 0.014 * u, 0.02 * u, tone(place.skin, -0.1), 0)
        canvas.ellipse(place.x + side * 0.026 * u, y + 0.163 * u, 0.0085 * u, 0.011 * u, INK)
        canvas.ellipse(place.x + side * 0.044 * u, y + 0.186 * u, 0.012 * u, 0.008 * u, (232, 140, 120))
    smile = smooth([(place.x + a * u, y + b * u) for a, b in ((-0.024, 0.188), (0.0, 0.2), (0.024, 0.188))])
    canvas.line(smile, 0.006 * u, (140, 70, 60))


def worker_tool(canvas: Canvas, place: Place, suit: str, tool: str, colour: str, body: int, thing: int, half: float) -> None:
    """The tool and the arm that holds it; the sleeve is the jumpsuit ``body``, the tool ``thing``."""
    bottom = (place.feet - place.top) / place.unit
    box = tool_box(tool, half, bottom)
    grip = tools.GRIP[tool]
    hand = box[0] + grip[0] * (box[2] - box[0]), box[1] + grip[1] * (box[3] - box[1])
    p = place.pen(canvas, (-0.5, 0, 0.5, 1), suit, body)
    elbow = (0.5 + half + 0.022, min(0.42, max(hand[1] + 0.06, 0.34)))
    p.curve([(0.5 + half + 0.002, 0.262), elbow, (0.5 + hand[0], hand[1] + 0.004)], 0.062, p.main)
    tools.TOOLS[tool](place.pen(canvas, box, colour, thing))
    x, y = place.frame(hand[0], hand[1], hand[0], hand[1])[:2]
    canvas.ellipse(x, y, 0.03 * place.unit, 0.026 * place.unit, lit(place.skin, "radial", 0.15), 0)


def tool_box(tool: str, half: float, bottom: float):
    """The tool's place in worker units: beside the head for short tools, down to the ground for tall ones."""
    x = half + 0.02
    if tool in ("bucket", "lamp"):
        return x - 0.05, 0.25, x + 0.085, 0.43
    if tool == "hose":
        return x - 0.06, 0.12, x + 0.105, min(0.6, bottom)
    if tool in tools.TALL:
        return x - 0.055, 0.015, x + 0.08, min(0.66, bottom)
    return x - 0.055, 0.04, x + 0.085, 0.335


def headwear(
    canvas: Canvas, place: Place, kind: str, colour: str, thing: int, letter: str | None, mark: int | None, long_px
) -> None:
    """One of the four kinds; a hard hat may carry one character, which is thing ``mark``."""
    p = place.pen(canvas, (-0.11, -0.03, 0.11, 0.19), colour, thing)
    {"hard hat": _hard_hat, "cap": _cap, "beanie": _beanie, "helmet": _helmet}[kind](p)
    if kind == "helmet" and not letter:
        for x0 in (0.3, 0.62):
            p.rect(x0, 0.08, x0 + 0.08, 0.52, p.light, 0.03)
    if letter:
        wide, tall = (v * long_px for v in CHARACTER[1])
        x, y = place.x, place.top + (0.114 if kind == "hard hat" else 0.104) * place.unit - 0.5 * CHARACTER[1][1] * long_px
        box = (x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2)
        canvas.glyph(letter, box, INK if luminance(COLOURS[colour]) > 125 else CREAM, mark)


def _dome(p: Pen, left: float, right: float, top: float, base: float, fill) -> None:
    """The upper half of an ellipse."""
    t = np.linspace(np.pi, 2 * np.pi, 25)
    mid, half = (left + right) / 2, (right - left) / 2
    p.poly([(mid + half * float(np.cos(a)), base + (base - top) * float(np.sin(a))) for a in t], fill)


def _hard_hat(p: Pen) -> None:
    _dome(p, 0.05, 0.95, 0.0, 0.64, p.radial(0.45))
    p.rect(0.42, -0.035, 0.58, 0.12, p.light, 0.05)
    p.rect(-0.02, 0.6, 1.02, 0.7, p.main, 0.05)
    p.rect(0.0, 0.66, 1.0, 0.7, p.edge, 0.03)


def _cap(p: Pen) -> None:
    _dome(p, 0.16, 0.84, 0.12, 0.66, p.radial(0.3))
    p.line([(0.5, 0.13), (0.5, 0.6)], 0.015, p.edge)
    p.poly([(0.2, 0.58), (0.82, 0.58), (1.18, 0.68), (1.16, 0.76), (0.2, 0.7)], p.main)
    p.line([(0.24, 0.69), (1.12, 0.745)], 0.025, p.edge)
    p.oval(0.5, 0.13, 0.05, 0.035, p.dark)


def _beanie(p: Pen) -> None:
    p.oval(0.5, 0.07, 0.13, 0.12, p.light)
    _dome(p, 0.14, 0.86, 0.08, 0.68, p.main)
    for u in (0.3, 0.43, 0.57, 0.7):
        p.curve([(0.5 + (u - 0.5) * 0.4, 0.16), (u, 0.36), (u + (u - 0.5) * 0.1, 0.52)], 0.018, p.dark)
    p.rect(0.11, 0.5, 0.89, 0.72, p.dark, 0.06)
    for i in range(7):
        p.rect(0.16 + i * 0.102, 0.52, 0.2 + i * 0.102, 0.7, p.light, 0.02)


def _helmet(p: Pen) -> None:
    _dome(p, 0.1, 0.9, -0.02, 0.6, p.radial(0.35))
    for x0, x1 in ((0.1, 0.24), (0.76, 0.9)):
        p.rect(x0, 0.55, x1, 1.02, p.main, 0.06)
    p.rect(0.16, 0.98, 0.84, 1.07, p.dark, 0.05)
    p.rect(0.1, 0.52, 0.9, 0.62, p.edge, 0.03)
    p.rect(0.2, 0.6, 0.8, 0.7, lit(STEEL, "right", 0.3), 0.03)
