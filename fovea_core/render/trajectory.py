"""The trajectory strip as a figure for a paper: a few words, each with its own map, in answer order, 300 dpi."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from PIL import Image

from fovea_core.render.legend import legend, put, with_caveat
from fovea_core.render.letters import INK, SOFT, fitted, label, width_px, write
from fovea_core.render.maps import DPI, Maps, RenderError, choose, is_flat, maps_of, percent, to_image
from fovea_core.trace.reads import mass_name
from fovea_core.trace.record import Trace
from fovea_core.trace.strip import StripWord

MOST_PANELS = 40
#: The text width of a two-column paper; five panels side by side.
SHEET_PX = round(7.0 * DPI)
_COLUMNS = 5
_EDGE, _GAP, _LINES = 16, 56, 104  # px: around the sheet, between panels, of the words under a panel
_PANEL_PX = 520  # widest panel, so that two words do not make two posters
_TALLEST_PX = 960
_LEGEND_ROOM_PX = 560
#: What the percentages of a strip are shares of.
SHARES = {"mass": "the mass they hold", "its reading": "of what the drafter read"}
_WORD_PX, _FIGURES_PX, _LEGEND_PX = 40, 29, 27  # 9.5, 7 and 6.5 points


def strip(trace: Trace, words: Sequence[int] | None = None, palette: str = "viridis") -> Image.Image:
    """The figure as an RGB picture of at most 7 in width. ``words``: numbers from 1; None takes the page's own choice.

    Raises RenderError: no word was drafted with a look, a word without a map, more than MOST_PANELS words.
    """
    maps = maps_of(trace)
    chosen = choose(maps, words)
    if len(chosen) > MOST_PANELS:
        raise RenderError(f"A strip shows at most {MOST_PANELS} words, not {len(chosen)}.")
    columns, rows = _grid(len(chosen), maps.aspect)
    room = (SHEET_PX - 2 * _EDGE - (columns - 1) * _GAP) // columns
    size = maps.shape_within(min(room, _PANEL_PX if maps.aspect < 3 else room), _TALLEST_PX)
    cell = max(size[0], min(room, 300))  # captions need room where the picture is narrow
    pitch = size[1] + _LINES + _EDGE
    wide = 2 * _EDGE + max(_LEGEND_ROOM_PX, columns * (cell + _GAP) - _GAP)
    sheet = np.full((_EDGE + rows * pitch + 44, wide, 3), 255, np.uint8)
    for place, word in enumerate(chosen):
        left, top = _EDGE + place % columns * (cell + _GAP), _EDGE + place // columns * pitch
        _panel(sheet, maps, word, (left, top), size, cell, palette)
        if place % columns:
            _arrow(sheet, left - (cell + _GAP - size[0]) // 2, top + size[1] // 2)
    scale = legend(maps, palette, _LEGEND_PX)
    top = _EDGE + rows * pitch
    put(sheet, scale, _EDGE, top)
    note = f"K: retrieved entries of {int(maps.valid.sum())}; %: {SHARES[mass_name(maps.summary.started.policy)]}"
    left = wide - _EDGE - width_px(note, _LEGEND_PX)
    if left > _EDGE + scale.shape[1] + _GAP:
        write(sheet, note, left, top + _LEGEND_PX * 1.02, _LEGEND_PX, SOFT)
    return to_image(with_caveat(sheet, maps, _LEGEND_PX, _EDGE))


def _grid(panels: int, aspect: float) -> tuple[int, int]:
    """(columns, rows): at most five in a row, fewer of very wide pictures, which would be slivers; rows of like length."""
    most = _COLUMNS + 1 if aspect < 0.4 else max(1, min(_COLUMNS, int(_COLUMNS * 2.2 / aspect)))
    rows = ceil(panels / most)
    return ceil(panels / rows), rows


def _panel(
    sheet: np.ndarray, maps: Maps, word: StripWord, corner: tuple[int, int], size: tuple[int, int], cell: int, palette: str
) -> None:
    (left, top), read = corner, word.token.read
    put(sheet, maps.draw([read], size, palette, line=2), left, top)
    base = top + size[1] + 46
    text, text_px = fitted(label(word.word.text.rstrip(",;:.") or word.word.text), _WORD_PX, cell, bold=True)
    write(sheet, text, left, base, text_px, INK, bold=True)
    mass = "no preference" if is_flat(read) else percent(read.captured)
    figures = f"step {maps.step(word.round)} · K {len(word.entries)} · {mass}"
    figures, figures_px = fitted(figures, _FIGURES_PX, cell)
    write(sheet, figures, left, base + 42, figures_px, SOFT)


def _arrow(sheet: np.ndarray, middle: int, height: int) -> None:
    """A small arrow to the right, its middle at (middle, height) px."""
    tone, half = np.array(SOFT, np.uint8), 12
    sheet[height - 1 : height + 2, middle - half : middle + half] = tone
    for step in range(9):
        column = middle + half - step
        for row in (height - step, height + step):
            sheet[row - 1 : row + 2, column - 1 : column + 1] = tone
