"""The colour scale with its numbers: 0 to the largest mass an entry had in this answer."""

from __future__ import annotations

import numpy as np

from fovea_core.render import heat
from fovea_core.render.letters import SOFT, WARNING, width_px, wrapped, write
from fovea_core.render.maps import Maps, percent
from fovea_core.trace.events import OUTSIDE
from fovea_core.trace.reads import own_reader


def legend(maps: Maps, palette: str, size: int) -> np.ndarray:
    """The legend of a run's maps on white with letters ``size`` px high, (h, w, 3) uint8; ``maps.scale`` is the mass of the
    last colour, a quarter of it that of the middle one (heat.tone)."""
    scale, read = maps.scale, "reading" if own_reader(maps.summary.started.policy) else "mass"
    gap, space, small = round(size * 0.5), round(size * 0.3), round(size * 0.62)
    ramp = ramp_of(palette, round(size * 6), round(size * 0.45))
    least, middle, most, unit = "0 %", percent(scale / 4), percent(scale), f"of {read} per entry"
    after_least = width_px(least, size) + gap
    after_ramp = after_least + ramp.shape[1] + gap
    after_most = after_ramp + width_px(most, size) + space
    strip = np.full((round(size * 1.4), after_most + width_px(unit, size), 3), 255, np.uint8)
    base, top = round(size * 1.02), round(size * 0.2)
    for text, left in ((least, 0), (most, after_ramp), (unit, after_most)):
        write(strip, text, left, base, size, SOFT)
    write(strip, middle, after_least + (ramp.shape[1] - width_px(middle, small)) // 2, round(size * 1.22), small, SOFT)
    strip[top : top + ramp.shape[0], after_least : after_least + ramp.shape[1]] = ramp
    return strip


def ramp_of(palette: str, width: int, height: int) -> np.ndarray:
    """The palette from left to right, (height, width, 3) uint8; spotlight as it lies on white."""
    share = np.linspace(0, 1, width, dtype=np.float32)
    line = heat.colours(palette)[np.floor(share * 255 + 0.5).astype(np.uint8)]
    if palette == "spotlight":
        line = np.repeat((255 * (1 - heat.OPACITY * heat.covered(share, palette)))[:, None], 3, axis=1).astype(np.uint8)
    return np.repeat(line[None], height, axis=0)


def put(sheet: np.ndarray, drawing: np.ndarray, left: int, top: int) -> None:
    """Lay a drawing on the sheet in place, its upper left at (left, top) px; what lies outside is cut off."""
    room = sheet[max(0, top) : top + drawing.shape[0], max(0, left) : left + drawing.shape[1]]
    room[:] = drawing[max(0, -top) :, max(0, -left) :][: room.shape[0], : room.shape[1]]


def with_caveat(sheet: np.ndarray, maps: Maps, size: int, edge: int) -> np.ndarray:
    """The sheet, with a warning below where the picture lies outside what the target knows."""
    if not maps.summary.outside:
        return sheet
    lines = wrapped(OUTSIDE, size, sheet.shape[1] - 2 * edge)
    pitch = round(size * 1.4)
    foot = np.full((len(lines) * pitch + edge, sheet.shape[1], 3), 255, np.uint8)
    for place, line in enumerate(lines):
        write(foot, line, edge, place * pitch + size, size, WARNING, bold=True)
    return np.concatenate([sheet, foot])
