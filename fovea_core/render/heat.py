"""Masses over the picture, as the player draws them (assets/player/heat.js): palettes, the smooth field, outlines.

The field is a surface through the cell centres, cubic along each axis with slopes that never overshoot (Fritsch and
Carlson 1980, harmonic mean), so that its highest values are the cells' own. Views that overlap are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import cv2
import numpy as np

from fovea_core.trace.events import Tile

_STOPS = {
    "viridis": "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    "cividis": "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
    "magma": "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
}
PALETTES = (*_STOPS, "spotlight")
OPACITY = 0.8
#: A read below this peak is as good as spread evenly and gets no outlines.
FLAT_PEAK = 0.05


@lru_cache(maxsize=8)
def colours(palette: str) -> np.ndarray:
    """The 256 colours of a palette, (256, 3) uint8; spotlight, which only darkens, has black ones."""
    if palette == "spotlight":
        return np.zeros((256, 3), np.uint8)
    stops = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in _STOPS[palette].split()], float)
    at = np.linspace(0, len(stops) - 1, 256)
    table = np.stack([np.interp(at, np.arange(len(stops)), stops[:, channel]) for channel in range(3)], axis=1)
    return np.floor(table + 0.5).astype(np.uint8)


def tone(share: np.ndarray) -> np.ndarray:
    """Where along the palette (0..255) a share of the scale (0..1) stands: its root, so that a quarter of the largest mass has
    the middle colour. Straight, most of what was retrieved would be as dark as a shadow."""
    return np.floor(np.sqrt(share) * 255 + 0.5).astype(np.uint8)


def covered(share: np.ndarray, palette: str) -> np.ndarray:
    """How opaque a share of the scale (0..1) is drawn, before OPACITY: little mass hides little of the picture."""
    if palette == "spotlight":
        return 1 - np.minimum(1, 1.6 * np.sqrt(share))
    return 1 - (1 - share) ** 3


def spread(tiles: Sequence[Tile], valid: np.ndarray, values: np.ndarray, width: int, height: int) -> np.ndarray:
    """The smooth field of masses over a picture of ``width`` x ``height`` px, (height, width) float32.

    valid, values: (entries,), per entry of the memory. Pixels that no tile covers stay 0.
    """
    field = np.zeros((height, width), np.float32)
    for tile in tiles:
        left, top, right, bottom = tile.box
        x, y = _Axis(width, left, right, tile.columns), _Axis(height, top, bottom, tile.rows)
        if x.empty or y.empty:
            continue
        cells = _extended(tile, valid, values)  # (rows, columns)
        lines = x.through(cells.T)  # (columns in the picture, rows)
        field[y.pixels, x.pixels] += y.through(lines.T)
    return field


class _Axis:
    """Where the pixels of one axis fall on the cells of a tile; ``pixels`` are those inside it."""

    def __init__(self, size: int, low: float, high: float, cells: int) -> None:
        # A stranger's box may be as wide as floats go: what overflows lies outside.
        with np.errstate(all="ignore"):
            place = ((np.arange(size) + 0.5) / size - low) / (high - low) * cells
        inside = np.flatnonzero((place >= 0) & (place < cells))
        self.empty = not inside.size
        if self.empty:
            return
        self.pixels = slice(int(inside[0]), int(inside[-1]) + 1)
        place = place[inside] - 0.5
        lower = np.floor(place)
        t = place - lower
        self.first = np.clip(lower, 0, cells - 1).astype(int)
        self.second = np.clip(lower + 1, 0, cells - 1).astype(int)
        near, far = (1 - t) ** 2, t**2
        weights = (near * (1 + 2 * t), near * t, far * (3 - 2 * t), -far * (1 - t))
        self.weights = [weight.astype(np.float32)[:, None] for weight in weights]

    def through(self, samples: np.ndarray) -> np.ndarray:
        """The cubic through ``samples`` (cells, lines) at this axis' pixels: (pixels, lines)."""
        tangents = _slopes(samples)
        one, rise, other, fall = self.weights
        start = one * samples[self.first] + rise * tangents[self.first]
        return start + other * samples[self.second] + fall * tangents[self.second]


def _slopes(samples: np.ndarray) -> np.ndarray:
    """Slopes at the samples along axis 0: 0 at ends and peaks, else the harmonic mean of both sides."""
    slopes = np.zeros_like(samples)
    before, after = np.diff(samples[:-1], axis=0), np.diff(samples[1:], axis=0)
    same = before * after > 0
    slopes[1:-1][same] = 2 * before[same] * after[same] / (before[same] + after[same])
    return slopes


def _extended(tile: Tile, valid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The tile's masses; cells of padding beside valid ones take the mean of those, so that padding draws no edge."""
    part = slice(tile.first, tile.first + tile.rows * tile.columns)
    known = valid[part].reshape(tile.rows, tile.columns).astype(np.float32)
    cells = values[part].reshape(tile.rows, tile.columns).astype(np.float32) * known
    around = {"ddepth": -1, "ksize": (3, 3), "normalize": False, "borderType": cv2.BORDER_CONSTANT}
    total, count = cv2.boxFilter(cells, **around), cv2.boxFilter(known, **around)
    return np.where(known > 0, cells, total / np.maximum(count, 1)).astype(np.float32)


def paint(rgb: np.ndarray, field: np.ndarray, scale: float, palette: str = "viridis", opacity: float = OPACITY) -> np.ndarray:
    """The picture (h, w, 3) uint8 under its field (h, w); ``scale`` is the mass of the palette's last colour."""
    share = np.clip(field / scale, 0, 1)  # running sums over padding may end a hair below 0, which has no root
    alpha = (opacity * covered(share, palette))[..., None]
    heat = colours(palette)[tone(share)]
    return np.floor(rgb * (1 - alpha) + heat * alpha + 0.5).astype(np.uint8)


def outline(rgb: np.ndarray, tiles: Sequence[Tile], entries: Iterable[int], line: int, alpha: float) -> None:
    """Draw, in place, a white outline ``line`` px wide around the union of ``entries``, over a dark rim.

    It is thinner where cells are small, and left out where it would hide them.
    """
    chosen = np.fromiter(entries, int)
    ink, rim = np.zeros(rgb.shape[:2], np.uint8), np.zeros(rgb.shape[:2], np.uint8)
    for tile in tiles:
        size = tile.rows * tile.columns
        inside = chosen[(chosen >= tile.first) & (chosen < tile.first + size)] - tile.first
        if not inside.size:
            continue
        thin = min(line, _finest(tile, rgb.shape) // 4)
        if thin < 1:
            continue
        grid = np.zeros((tile.rows + 2, tile.columns + 2), bool)
        grid[1 + inside // tile.columns, 1 + inside % tile.columns] = True
        xs = _edges(tile.box[0], tile.box[2], tile.columns, rgb.shape[1], thin)
        ys = _edges(tile.box[1], tile.box[3], tile.rows, rgb.shape[0], thin)
        level = np.argwhere(grid[1:, 1:-1] != grid[:-1, 1:-1])  # an edge above row r, in column c
        upright = np.argwhere(grid[1:-1, 1:] != grid[1:-1, :-1])
        sides = [(xs[c], ys[r], xs[c + 1], ys[r]) for r, c in level] + [(xs[c], ys[r], xs[c], ys[r + 1]) for r, c in upright]
        for mask, thick in ((rim, 2 * thin), (ink, thin)):
            for left, top, right, bottom in sides:
                before, after = thick // 2, (thick + 1) // 2
                mask[max(0, top - before) : bottom + after, max(0, left - before) : right + after] = 1
    for mask, tone, share in ((rim & (1 - ink), 0, 0.3), (ink, 255, alpha)):
        where = mask > 0
        rgb[where] = np.floor(rgb[where] * (1 - share) + tone * share + 0.5).astype(np.uint8)


def _edges(low: float, high: float, cells: int, size: int, line: int) -> list[int]:
    """The cells + 1 grid lines of one axis in px, kept so far inside that a line on them is seen, with its rim."""
    with np.errstate(all="ignore"):
        places = (low + np.arange(cells + 1) / cells * (high - low)) * size
    return np.clip(np.nan_to_num(np.rint(places)), line, max(line, size - line)).astype(int).tolist()


def _finest(tile: Tile, shape: tuple[int, ...]) -> int:
    """The shorter side of a cell in whole px; cells larger than the picture count as the picture."""
    left, top, right, bottom = tile.box
    with np.errstate(all="ignore"):
        sides = np.array([(right - left) / tile.columns * shape[1], (bottom - top) / tile.rows * shape[0]])
    return int(np.minimum(sides, shape[1::-1]).min())
