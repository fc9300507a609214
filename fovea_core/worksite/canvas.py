"""A supersampled drawing board that paints pixels and stamps who is visible where, in one go.

Geometry is in picture px, whatever the scale. ``thing`` of every drawing method: None leaves the id layers alone (a highlight,
the background), 0 makes the shape cover what lies below (a face, a hand), a number n > 0 says that the n-th thing of the
picture is what one sees there now. Bodies cover marks; marks lie on top of bodies (see base.py).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]  # left, top, right, bottom in picture px
SHIFT = 4  # fractional bits of OpenCV's coordinates
GLYPH_PX = 256  # cap height at which glyph masks are drawn once
CIRCLE = np.array([(math.cos(i * math.pi / 24), math.sin(i * math.pi / 24)) for i in range(48)])
CORNERS = np.array(
    [(math.cos((q * 7 + i) * math.pi / 14), math.sin((q * 7 + i) * math.pi / 14)) for q in range(4) for i in range(8)]
)
CORNER_SIGNS = np.repeat(np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]), 8, axis=0)
HARD_EDGE_SCALE = 1.5  # from here on supersampling alone smooths the edges


class Grad(NamedTuple):
    """A gradient over a shape's bounding box; direction 'down', 'right' or 'radial' (light spot at the upper left)."""

    first: Colour
    last: Colour
    direction: str = "down"


def tone(colour: Colour, amount: float) -> Colour:
    """Lighter for amount in (0, 1] (1 is white), darker for amount in [-1, 0) (-1 is black)."""
    goal = 255 if amount > 0 else 0
    return tuple(round(c + (goal - c) * abs(amount)) for c in colour)


def lit(colour: Colour, direction: str = "right", strength: float = 0.2) -> Grad:
    """The colour with a lighter and a darker side."""
    return Grad(tone(colour, strength), tone(colour, -strength), direction)


class Canvas:
    """A picture of ``width_px`` x ``height_px`` drawn at ``scale`` times the size.

    ``scale`` above 1 supersamples: finish() returns the picture size. Below 1 the picture is drawn and returned small.
    ``ids_only`` stamps the id layers and leaves the pixels white: a quick look at what would be visible.
    """

    def __init__(self, width_px: int, height_px: int, scale: float = 2.0, ids_only: bool = False) -> None:
        self.width_px, self.height_px, self.scale = width_px, height_px, scale
        rows, columns = max(1, round(height_px * scale)), max(1, round(width_px * scale))
        self.ids_only = ids_only
        self.rgb = np.full((rows, columns, 3), 255, np.uint8)
        self.layers = np.zeros((2, rows, columns), np.uint8)

    def polygon(self, points, fill, thing: int | None = None) -> None:
        """Fill a polygon of (n, 2) points."""
        points = np.asarray(points, np.float64)
        self._paint(
            points.min(0), points.max(0), fill, thing, lambda mask, at, value, kind: _fill(mask, at(points), value, kind)
        )

    def ellipse(self, cx: float, cy: float, rx: float, ry: float, fill, thing: int | None = None, angle: float = 0) -> None:
        """Fill an ellipse turned by ``angle`` degrees."""
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        self.polygon(CIRCLE @ ((rx * cos, rx * sin), (-ry * sin, ry * cos)) + (cx, cy), fill, thing)

    def rounded(self, left, top, right, bottom, radius, fill, thing: int | None = None) -> None:
        """Fill a rectangle with round corners of ``radius`` px (0 for sharp ones)."""
        radius = min(radius, (right - left) / 2, (bottom - top) / 2)
        if radius <= 0:
            corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
            return self.polygon(corners, fill, thing)
        middle, reach = ((left + right) / 2, (top + bottom) / 2), ((right - left) / 2 - radius, (bottom - top) / 2 - radius)
        return self.polygon(CORNERS * radius + CORNER_SIGNS * reach + middle, fill, thing)

    def line(self, points, width: float, fill, thing: int | None = None, closed: bool = False) -> None:
        """A polyline of ``width`` px with round joins and caps."""
        points = np.asarray(points, np.float64)
        thickness = max(1, round(width * self.scale))

        def draw(mask, at, value, kind):
            pts = np.round(at(points) * (1 << SHIFT)).astype(np.int32)
            cv2.polylines(mask, [pts], closed, value, thickness, kind, SHIFT)

        self._paint(points.min(0) - width / 2, points.max(0) + width / 2, fill, thing, draw)

    def shadow(self, cx: float, cy: float, rx: float, ry: float, strength: float = 0.35) -> None:
        """A soft dark ellipse (on the ground), strongest in the middle."""
        roi, _, (rows, columns) = self._roi((cx - rx, cy - ry), (cx + rx, cy + ry))
        if not roi.size or self.ids_only:
            return
        fade = (1 - _small_shadow() * strength)[..., None]
        full = cv2.resize(fade, (columns, rows), interpolation=cv2.INTER_LINEAR)
        full = full[self._crop]
        np.copyto(roi, cv2.multiply(roi, np.repeat(full[..., None], 3, 2), dtype=cv2.CV_8U))

    def glyph(self, character: str, box: Box, colour: Colour, thing: int | None = None) -> None:
        """One bold character in ``box``; 0 is slashed, I has serifs. The mark layer gets the whole box."""
        self._text(character, box, colour, thing, (0.3, 1.45))

    def word(self, text: str, box: Box, colour: Colour, thing: int | None = None) -> None:
        """A bold word or short line of text, as large as ``box`` allows. The mark layer gets the box around its letters."""
        self._text(text, box, colour, thing, (0.75, 1.15))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """rgb (h, w, 3) uint8 and layers (2, h, w) uint8, at picture size or, with scale < 1, as drawn."""
        if self.scale <= 1:
            return self.rgb, self.layers
        size = (self.width_px, self.height_px)
        rgb = cv2.resize(self.rgb, size, interpolation=cv2.INTER_AREA)
        return rgb, np.stack([cv2.resize(layer, size, interpolation=cv2.INTER_NEAREST) for layer in self.layers])

    def _roi(self, low, high):
        """View of the pixels between two corners (picture px), its origin and its uncropped size in drawn px."""
        x0, y0 = math.floor(low[0] * self.scale) - 1, math.floor(low[1] * self.scale) - 1
        x1, y1 = math.ceil(high[0] * self.scale) + 2, math.ceil(high[1] * self.scale) + 2
        rows, columns = self.rgb.shape[:2]
        cx0, cy0, cx1, cy1 = max(0, x0), max(0, y0), max(0, min(columns, x1)), max(0, min(rows, y1))
        self._crop = (slice(cy0 - y0, cy1 - y0), slice(cx0 - x0, cx1 - x0))
        self._window = (slice(cy0, cy1), slice(cx0, cx1))
        return self.rgb[self._window], (x0, y0), (y1 - y0, x1 - x0)

    def _paint(self, low, high, fill, thing, draw) -> None:
        if self.ids_only:
            if thing is not None:
                draw(self.layers[0], lambda points: points * self.scale - 0.5, thing, cv2.LINE_8)
                draw(self.layers[1], lambda points: points * self.scale - 0.5, 0, cv2.LINE_8)
            return
        roi, origin, (rows, columns) = self._roi(low, high)
        if not roi.size:
            return
        mask = np.zeros((rows, columns), np.uint8)
        draw(mask, lambda points: points * self.scale - 0.5 - np.asarray(origin), 255, cv2.LINE_AA)
        mask = mask[self._crop]
        if isinstance(fill, Grad):
            paint = cv2.resize(_small_gradient(fill), (columns, rows), interpolation=cv2.INTER_LINEAR)[self._crop]
        else:
            paint = np.empty_like(roi)
            paint[:] = fill
        self._blend(roi, paint, mask)
        if thing is not None:
            self._stamp(thing, mask > 127)

    def _blend(self, roi, paint, mask) -> None:
        if self.scale >= HARD_EDGE_SCALE:
            cv2.copyTo(paint, cv2.threshold(mask, 127, 255, cv2.THRESH_BINARY)[1], roi)
        else:
            blend(roi, paint, mask)

    def _stamp(self, thing: int, where: np.ndarray) -> None:
        bodies, marks = self.layers[0][self._window], self.layers[1][self._window]
        np.copyto(bodies, thing, where=where)
        np.copyto(marks, 0, where=where)

    def _text(self, text, box, colour, thing, stretch) -> None:
        left, top, right, bottom = box
        height, width = (bottom - top) * self.scale, (right - left) * self.scale
        ink = _text_mask(text).shape
        tall = min(height, width * ink[0] / ink[1] / stretch[0])  # never squeezed below stretch[0]
        wide = min(width, tall * ink[1] / ink[0] * stretch[1])
        rows, columns = max(1, round(tall)), max(1, round(wide))
        y0 = round((top + bottom) / 2 * self.scale - rows / 2)
        x0 = round((left + right) / 2 * self.scale - columns / 2)
        whole = self.rgb.shape[:2]
        cut = (slice(max(0, -y0), min(rows, whole[0] - y0)), slice(max(0, -x0), min(columns, whole[1] - x0)))
        roi = self.rgb[max(0, y0) : max(0, y0 + rows), max(0, x0) : max(0, x0 + columns)]
        if roi.size and not self.ids_only:
            alpha = _sized_mask(text, rows, columns)[cut].astype(np.uint16)[..., None]
            roi[:] = (roi * (255 - alpha) + np.array(colour, np.uint16) * alpha + 127) // 255
        if thing is not None:
            if len(text) > 1:  # a word: the box around its letters
                left, right = x0 / self.scale, (x0 + columns) / self.scale
                top, bottom = y0 / self.scale, (y0 + rows) / self.scale
            edges = [max(0, round(v * self.scale)) for v in (top, bottom, left, right)]
            self.layers[1, edges[0] : edges[1], edges[2] : edges[3]] = thing


def blend(roi: np.ndarray, paint: np.ndarray, mask: np.ndarray) -> None:
    """Lay ``paint`` (h, w, 3) over ``roi`` in place with alpha ``mask`` (h, w) uint8; only the edges are mixed."""
    if mask.size < 20_000:  # small shapes: mixing every pixel costs less than finding the edge
        alpha = cv2.merge((mask, mask, mask))
        below = cv2.multiply(roi, cv2.bitwise_not(alpha), scale=1 / 255)
        roi[:] = cv2.add(below, cv2.multiply(paint, alpha, scale=1 / 255))
        return
    cv2.copyTo(paint, cv2.threshold(mask, 254, 255, cv2.THRESH_BINARY)[1], roi)
    edge = np.nonzero((mask > 0) & (mask < 255))
    alpha = mask[edge].astype(np.uint16)[:, None]
    roi[edge] = (roi[edge] * (255 - alpha) + paint[edge] * alpha + 127) // 255


def _fill(mask: np.ndarray, points: np.ndarray, value: int, kind: int) -> None:
    cv2.fillPoly(mask, [np.round(points * (1 << SHIFT)).astype(np.int32)], value, kind, SHIFT)


@lru_cache(maxsize=512)
def _small_gradient(fill: Grad) -> np.ndarray:
    """(32, 32, 3) uint8, resized to a shape's box."""
    y, x = np.mgrid[0:32, 0:32] / 31
    if fill.direction == "radial":
        t = np.clip(np.hypot(x - 0.33, y - 0.3) / 0.85, 0, 1)
    else:
        t = {"down": y, "right": x}[fill.direction]
    first, last = np.array(fill.first, float), np.array(fill.last, float)
    return np.round(first + (last - first) * t[..., None]).astype(np.uint8)


@lru_cache(maxsize=1)
def _small_shadow() -> np.ndarray:
    """(48, 48) float32 in [0, 1]: 1 in the middle, 0 at the rim."""
    y, x = np.mgrid[-1:1:48j, -1:1:48j]
    t = np.clip(1 - np.hypot(x, y), 0, 1)
    return (t * t * (3 - 2 * t)).astype(np.float32)


@lru_cache(maxsize=4096)
def _text_mask(text: str) -> np.ndarray:
    """(h, w) uint8 alpha of the text, cropped to its ink (a single character) or to cap height (words)."""
    font = ImageFont.load_default(GLYPH_PX)
    stroke = GLYPH_PX // 26
    size = (GLYPH_PX * (len(text) + 2), GLYPH_PX * 2)
    image = Image.new("L", size, 0)
    draw = ImageDraw.Draw(image)
    draw.text((GLYPH_PX // 2, GLYPH_PX // 3), text, 255, font, stroke_width=stroke)
    left, top, right, bottom = image.getbbox() or (0, 0, 1, 1)
    heavy = GLYPH_PX // 7
    if text == "0":  # a slash, or it reads as O
        draw.line((left + heavy * 1.4, bottom - heavy * 1.3, right - heavy * 1.4, top + heavy * 1.3), 255, heavy * 2 // 3)
    if text in ("I", "1"):  # serifs: I both, 1 a foot (its flag is the font's)
        middle = (left + right) // 2 if text == "I" else right - heavy // 2
        reach = GLYPH_PX * 3 // 11
        draw.rectangle((middle - reach, bottom - heavy, middle + reach, bottom), 255)
        if text == "I":
            draw.rectangle((middle - reach, top, middle + reach, top + heavy), 255)
    return np.asarray(image.crop(image.getbbox() or (0, 0, 1, 1)))


@lru_cache(maxsize=2048)
def _sized_mask(text: str, rows: int, columns: int) -> np.ndarray:
    return cv2.resize(_text_mask(text), (columns, rows), interpolation=cv2.INTER_AREA)
