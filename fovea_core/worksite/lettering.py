"""Characters and words of signs and charts: they fill their box, in several cuts of one face, flat or in relief."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from fovea_core.worksite.canvas import Box, Canvas, Colour, _text_mask, blend, tone

BRIDGED = frozenset("ABCDEGHOPQRSUZ02345689")  # characters that a stencil cuts through
#: Cuts of the face.
CUTS = ("bold", "slanted", "stencil", "worn", "dots")


def write(
    canvas: Canvas,
    text: str,
    box: Box,
    colour: Colour,
    thing: int | None = None,
    *,
    cut: str = "bold",
    pad: float = 0.08,
    relief: float = 0.0,
) -> None:
    """One character or word whose ink fills ``box`` less ``pad`` (a fraction of its height) all round.

    ``thing`` marks the whole box in the mark layer. ``relief`` is the width of a lit and a shaded edge in picture px:
    positive for stamped-out, negative for engraved letters.
    """
    left, top, right, bottom = box
    margin = pad * (bottom - top)
    height = (bottom - top) - 2 * margin
    ink = _text_mask(text).shape
    width = right - left - 2 * margin
    if len(text) == 1:
        width = min(width, height * ink[1] / ink[0] * (1.7 if ink[1] / ink[0] < 0.5 else 1.3))
    middle, up = (left + right) / 2, top + margin
    if relief:
        shift = abs(relief)
        for away, shade in ((-shift, 0.55), (shift, -0.55)):
            edge = tone(colour, shade if relief > 0 else -shade)
            _ink(canvas, text, (middle - width / 2 + away, up + away), (width, height), edge, cut)
    _ink(canvas, text, (middle - width / 2, up), (width, height), colour, cut)
    if thing is not None:
        rows, columns = canvas.layers.shape[1:]
        x0, x1 = (min(columns, max(0, round(v * canvas.scale))) for v in (left, right))
        y0, y1 = (min(rows, max(0, round(v * canvas.scale))) for v in (top, bottom))
        canvas.layers[1, y0:y1, x0:x1] = thing


def _ink(canvas: Canvas, text: str, corner, size, colour: Colour, cut: str) -> None:
    scale = canvas.scale
    columns, rows = (max(1, round(v * scale)) for v in size)
    x0, y0 = (round(v * scale) for v in corner)
    mask = _cut_mask(text, cut, rows, columns)
    high, wide = canvas.rgb.shape[:2]
    mask = mask[max(0, -y0) : max(0, high - y0), max(0, -x0) : max(0, wide - x0)]
    x0, y0 = max(0, x0), max(0, y0)
    roi = canvas.rgb[y0 : y0 + mask.shape[0], x0 : x0 + mask.shape[1]]
    if roi.size:
        paint = np.empty_like(roi)
        paint[:] = colour
        blend(roi, paint, mask)


@lru_cache(maxsize=4096)
def _cut_mask(text: str, cut: str, rows: int, columns: int) -> np.ndarray:
    """(rows, columns) uint8 alpha of the text in that cut."""
    return cv2.resize(_face(text, cut), (columns, rows), interpolation=cv2.INTER_AREA)


@lru_cache(maxsize=1024)
def _face(text: str, cut: str) -> np.ndarray:
    """(h, w) uint8 alpha at drawing size."""
    mask = _text_mask(text)
    rows, columns = mask.shape
    if cut == "slanted":
        lean = rows * 0.16
        matrix = np.float32([[1, -lean / rows, lean], [0, 1, 0]])
        return cv2.warpAffine(mask, matrix, (columns + round(lean), rows), flags=cv2.INTER_AREA)
    if cut == "stencil" and text in BRIDGED:
        mask = mask.copy()
        half = max(1, rows // 30)
        mask[:, columns // 2 - half : columns // 2 + half] = 0
        return mask
    if cut == "worn":
        noise = np.random.default_rng(sum(map(ord, text))).random((14, 14 * len(text))).astype(np.float32)
        noise = cv2.resize(noise, (columns, rows), interpolation=cv2.INTER_CUBIC)
        return (mask * np.clip(1.65 - noise, 0.45, 1)).astype(np.uint8)
    if cut == "dots":
        pitch = max(3, rows // 15)
        y, x = np.mgrid[0:rows, 0:columns]
        gap = (np.minimum(y % pitch, x % pitch) == 0) * 0.38
        return (mask * (1 - gap)).astype(np.uint8)
    return mask
