"""A pen bound to a canvas, a frame and a thing: figures are drawn in unit coordinates (0..1 across, 0..1 down)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from fovea_core.worksite.canvas import Box, Canvas, Colour, Grad, lit, tone

INK: Colour = (34, 36, 42)
STEEL: Colour = (168, 176, 186)
RUBBER = lit((52, 53, 58), "down", 0.2)
WOOD: Colour = (176, 124, 72)
SKIN: Colour = (236, 188, 148)
CREAM: Colour = (250, 247, 236)


def luminance(colour: Colour) -> float:
    """Perceived brightness, 0-255."""
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


class Pen:
    """Draws in the unit square of ``frame`` (left, top, right, bottom in px) as thing number ``thing``.

    ``main``, ``light``, ``dark`` are fills of the figure's own colour; x may be mirrored.
    """

    def __init__(self, canvas: Canvas, frame: Box, colour: Colour, thing: int, mirror: bool = False) -> None:
        self.canvas, self.thing, self.mirror = canvas, thing, mirror
        self.left, self.top, right, bottom = frame
        self.width, self.height = right - self.left, bottom - self.top
        self.colour = colour
        if luminance(colour) < 60:  # black is shaded by light only
            self.main, self.light, self.dark = lit(colour, "right", 0.14), tone(colour, 0.2), (14, 14, 18)
        else:
            self.main, self.light, self.dark = lit(colour, "right", 0.17), tone(colour, 0.3), tone(colour, -0.28)
        self.edge = tone(colour, -0.45) if luminance(colour) >= 60 else (90, 92, 100)

    def x(self, u: float) -> float:
        """Picture px of a unit abscissa."""
        return self.left + (1 - u if self.mirror else u) * self.width

    def y(self, v: float) -> float:
        """Picture px of a unit ordinate."""
        return self.top + v * self.height

    def radial(self, strength: float = 0.35) -> Grad:
        """The figure's colour as on a ball lit from the upper left."""
        dark = -0.1 if luminance(self.colour) < 60 else -0.25
        return Grad(tone(self.colour, strength), tone(self.colour, dark), "radial")

    def rect(self, x0: float, y0: float, x1: float, y1: float, fill, radius: float = 0.0) -> None:
        """Rectangle; radius in units of the frame's height."""
        left, right = sorted((self.x(x0), self.x(x1)))
        self.canvas.rounded(left, self.y(y0), right, self.y(y1), radius * self.height, fill, self.thing)

    def oval(self, cx: float, cy: float, rx: float, ry: float, fill, angle: float = 0.0) -> None:
        """Ellipse; rx in units of the width, ry of the height, angle in degrees."""
        angle = -angle if self.mirror else angle
        self.canvas.ellipse(self.x(cx), self.y(cy), rx * self.width, ry * self.height, fill, self.thing, angle)

    def poly(self, points, fill) -> None:
        """Polygon of (x, y) pairs."""
        self.canvas.polygon([(self.x(u), self.y(v)) for u, v in points], fill, self.thing)

    def line(self, points, width: float, fill, closed: bool = False) -> None:
        """Polyline; width in units of the frame's height."""
        path = [(self.x(u), self.y(v)) for u, v in points]
        self.canvas.line(path, width * self.height, fill, self.thing, closed)

    def curve(self, points, width: float, fill) -> None:
        """Smooth line through the points."""
        self.line(smooth(points), width, fill)

    def ring(self, cx: float, cy: float, radius: float, width: float, fill) -> None:
        """Circle line; radius and width in units of the frame's height."""
        t = np.linspace(0, 2 * np.pi, 40)[:-1]
        rx = radius * self.height / self.width
        self.line(np.stack([cx + rx * np.cos(t), cy + radius * np.sin(t)], 1).tolist(), width, fill, closed=True)


def smooth(points, steps: int = 8) -> np.ndarray:
    """Catmull-Rom curve (m, 2) through (n, 2) points, ``steps`` pieces between neighbours."""
    return _smooth(tuple((float(u), float(v)) for u, v in points), steps)


@lru_cache(maxsize=1024)
def _smooth(points: tuple[tuple[float, float], ...], steps: int) -> np.ndarray:
    p = np.asarray(points)
    p = np.concatenate([2 * p[:1] - p[1:2], p, 2 * p[-1:] - p[-2:-1]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    pieces = []
    for a, b, c, d in zip(p, p[1:], p[2:], p[3:]):
        pieces.append(0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3))
    return np.concatenate([*pieces, p[-2:-1]])


Figure = Callable[[Pen], tuple[float, float]]
