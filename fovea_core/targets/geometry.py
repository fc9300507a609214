"""From image tokens to boxes on the original picture, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from fovea_core.trace.events import Tile


@dataclass(frozen=True)
class Letterbox:
    """Where a picture of any aspect lies inside a square model input of ``size`` px: its offset and its scaled size in px."""

    size: int
    left: int
    top: int
    width: int
    height: int

    def tile(self, cells: int, first: int = 0) -> Tile:
        """The grid of ``cells`` x ``cells`` entries over the square as a trace Tile, its box in fractions of the picture.

        An entry is valid where its cell overlaps the picture at all, so at least one always is.
        """
        box = (
            -self.left / self.width,
            -self.top / self.height,
            (self.size - self.left) / self.width,
            (self.size - self.top) / self.height,
        )
        return Tile(
            rows=cells, columns=cells, box=box, view="tile", first=first, valid=run_lengths(self.valid(cells).reshape(-1))
        )

    def valid(self, cells: int) -> np.ndarray:
        """(cells, cells) bool: which cells overlap the picture."""
        edges = np.arange(cells + 1) * self.size / cells
        across = (edges[1:] > self.left) & (edges[:-1] < self.left + self.width)
        down = (edges[1:] > self.top) & (edges[:-1] < self.top + self.height)
        return down[:, None] & across[None, :]


def letterbox(rgb: np.ndarray, size: int, fill: int = 128) -> tuple[np.ndarray, Letterbox]:
    """Scale an (h, w, 3) uint8 picture into the centre of a (size, size, 3) uint8 square, aspect kept, padded with ``fill``."""
    height, width = rgb.shape[:2]
    scale = size / max(height, width)
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    place = Letterbox(size, (size - new_width) // 2, (size - new_height) // 2, new_width, new_height)
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    square = np.full((size, size, 3), fill, np.uint8)
    square[place.top : place.top + new_height, place.left : place.left + new_width] = cv2.resize(
        rgb, (new_width, new_height), interpolation=method
    )
    return square, place


def run_lengths(valid: np.ndarray) -> list[int]:
    """(n,) bool to alternating run lengths that start with a run of True (0 where the first value is False)."""
    runs, value = [0], True
    for item in valid.tolist():
        if item != value:
            runs.append(0)
            value = item
        runs[-1] += 1
    return runs


def from_run_lengths(runs: list[int]) -> np.ndarray:
    """Inverse of run_lengths: (sum of runs,) bool."""
    return np.repeat(np.arange(len(runs)) % 2 == 0, runs)


@dataclass(frozen=True)
class Layout:
    """Where a family puts the image tokens of one picture; known from the picture's size alone.

    text: what stands for the picture in the prompt; counts: image tokens of each placeholder in it; tiles: grids of entries on
    the original picture; valid (N,) bool: False for padding and for entries that are no part of the picture, such as newlines.
    What no valid entry covers was not seen by the model.
    """

    text: str
    counts: list[int]
    tiles: list[Tile]
    valid: np.ndarray

    @property
    def entries(self) -> int:
        """Rows of features that the tower and the packing rule give."""
        return len(self.valid)


def centres(tiles: Sequence[Tile], count: int) -> np.ndarray:
    """(count, 2) float32: centre of each entry, left to right and top to bottom, in fractions of the original picture; an entry
    that no tile holds (a newline) lies at -1, -1."""
    places = np.full((count, 2), -1, np.float32)
    for tile in tiles:
        left, top, right, bottom = tile.box
        across = left + (np.arange(tile.columns) + 0.5) / tile.columns * (right - left)
        down = top + (np.arange(tile.rows) + 0.5) / tile.rows * (bottom - top)
        last = tile.first + tile.rows * tile.columns
        places[tile.first : last] = np.stack([np.tile(across, tile.rows), np.repeat(down, tile.columns)], 1)
    return places


def whole(rows: int, columns: int, view: str, first: int = 0) -> Tile:
    """A grid over the whole picture, each entry on it."""
    return Tile(rows=rows, columns=columns, box=(0.0, 0.0, 1.0, 1.0), view=view, first=first, valid=[rows * columns])
