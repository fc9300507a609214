"""The heat that Python draws: the field, its colours and outlines, against twins that go pixel by pixel."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fovea_core import page
from fovea_core.render import heat, word_map
from fovea_core.trace import events as ev
from tests.grey_traces import grid, made

PLAYER = Path(page.ASSETS)


def heat_of(tile: ev.Tile, valid, values, x: float, y: float) -> float:
    """One pixel of the field, from the words of the definition: cubic Hermite down the columns' cubics."""

    values = [float(value) for value in values]

    def value(row: int, column: int) -> float:
        if valid[tile.first + row * tile.columns + column]:
            return values[tile.first + row * tile.columns + column]
        near = [
            values[tile.first + r * tile.columns + c]
            for r in range(max(0, row - 1), min(tile.rows, row + 2))
            for c in range(max(0, column - 1), min(tile.columns, column + 2))
            if valid[tile.first + r * tile.columns + c]
        ]
        return sum(near) / len(near) if near else 0.0

    def slope(samples: list[float], i: int) -> float:
        if i in (0, len(samples) - 1):
            return 0.0
        a, b = samples[i] - samples[i - 1], samples[i + 1] - samples[i]
        return 0.0 if a * b <= 0 else 2 / (1 / a + 1 / b)

    def cubic(samples: list[float], at: float) -> float:
        low = math.floor(at - 0.5)
        t = at - 0.5 - low
        if low < 0 or low >= len(samples) - 1:
            return samples[0] if low < 0 else samples[-1]
        p, q, m, n = samples[low], samples[low + 1], slope(samples, low), slope(samples, low + 1)
        return p * (2 * t**3 - 3 * t**2 + 1) + m * (t**3 - 2 * t**2 + t) + q * (3 * t**2 - 2 * t**3) + n * (t**3 - t**2)

    left, top, right, bottom = tile.box
    column, row = (x - left) / (right - left) * tile.columns, (y - top) / (bottom - top) * tile.rows
    if not (0 <= column < tile.columns and 0 <= row < tile.rows):
        return 0.0
    return cubic([cubic([value(r, c) for c in range(tile.columns)], column) for r in range(tile.rows)], row)


@st.composite
def fields(draw):
    """(tiles, valid, values, width, height): one or two views, letterboxed or not, some cells padding."""
    tiles, first = [], 0
    for _ in range(draw(st.integers(1, 2))):
        rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        edge = st.floats(-0.4, 0.4)
        box = (draw(edge), draw(edge), 1 + draw(edge), 1 + draw(edge))
        tiles.append(grid(rows, columns, box=box, first=first))
        first += rows * columns
    valid = np.array(draw(st.lists(st.booleans(), min_size=first, max_size=first)))
    values = np.array(draw(st.lists(st.floats(0, 1), min_size=first, max_size=first)), np.float32) * valid
    return tiles, valid, values, draw(st.integers(1, 14)), draw(st.integers(1, 14))


@settings(max_examples=80, deadline=None)
@given(fields())
def test_heat_against_a_twin_that_goes_pixel_by_pixel(case):
    """The field equals the definition at every pixel centre; views add up; nothing exceeds what its cells hold."""
    tiles, valid, values, width, height = case
    field = heat.spread(tiles, valid, values, width, height)
    places = [[((x + 0.5) / width, (y + 0.5) / height) for x in range(width)] for y in range(height)]
    twin = [[sum(heat_of(tile, valid, values, *place) for tile in tiles) for place in row] for row in places]
    assert field.shape == (height, width) and np.allclose(field, twin, atol=2e-5)
    assert field.min() >= -1e-6
    assert field.max() <= sum(values[t.first : t.first + t.rows * t.columns].max() for t in tiles) + 1e-5


def test_heat_is_the_cells_own_mass_at_its_centre_and_nothing_beside_the_grid():
    values = np.zeros(20, np.float32)
    values[7] = 0.5  # row 1, column 2 of 4 x 5
    field = heat.spread([grid(4, 5)], np.ones(20, bool), values, 45, 36)  # cells of 9 x 9 px
    assert field[13, 22] == pytest.approx(0.5) == field.max() and field[:4].max() == 0 and field[:, :13].max() == 0
    half = heat.spread([grid(4, 5, box=(0, 0, 0.5, 1))], np.ones(20, bool), np.ones(20, np.float32), 40, 20)
    assert (half[:, :20] == 1).all() and (half[:, 20:] == 0).all()


@pytest.mark.parametrize("box", [(-1e308, -1e308, 1e308, 1e308), (0, 0, 5e-324, 5e-324), (3, 3, 4, 4), (-1e300, 0, 1e-300, 1)])
def test_boxes_of_a_stranger_draw_without_a_warning(box):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = made([("The", None), (" x", ([3, 7], 0.9))], tiles=[grid(4, 5, box=box)])
        assert word_map(trace, 2).size == (400, 320)


def test_palettes_are_the_players():
    """The stops in heat.js, and the colours between two of them."""
    found = dict(re.findall(r'(\w+): "((?:[0-9a-f]{6} ?){10})"', (PLAYER / "heat.js").read_text()))
    assert found == heat._STOPS and len(found) == 3
    assert heat.colours("viridis")[0].tolist() == [0x44, 0x01, 0x54]
    assert heat.colours("magma")[255].tolist() == [0xFC, 0xFD, 0xBF]
    # 14 / 255 x 9 = 0.494 of the way from 440154 to 482878
    assert heat.colours("viridis")[14].tolist() == [round(a + 0.494 * (b - a)) for a, b in ((68, 72), (1, 40), (84, 120))]


def test_paint_mixes_by_how_much_a_share_covers():
    """rgb (1 - a) + colour of the share's root a with a = opacity (1 - (1 - share)^3); nothing where there is no mass."""
    rgb = np.full((1, 3, 3), 100, np.uint8)
    drawn = heat.paint(rgb, np.array([[0, 0.1, 0.9]], np.float32), 0.2)
    alpha = 0.8 * (1 - 0.5**3)
    expected = [math.floor(100 * (1 - alpha) + c * alpha + 0.5) for c in heat.colours("viridis")[180].tolist()]
    assert drawn[0, 0].tolist() == [100] * 3 and drawn[0, 1].tolist() == expected
    assert drawn[0, 2].tolist() == [math.floor(20 + c * 0.8 + 0.5) for c in (0xFD, 0xE7, 0x25)]
    dark = heat.paint(rgb, np.array([[0, 0, 0.2]], np.float32), 0.2, "spotlight")
    assert dark[0, 0].tolist() == [20] * 3 and dark[0, 2].tolist() == [100] * 3


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 19), min_size=1, max_size=12))
def test_outline_against_a_twin(chosen):
    """Inked are the pixels within half a line of an edge between a chosen cell and one that is not chosen."""
    drawn = np.zeros((80, 100, 3), np.uint8)
    heat.outline(drawn, [grid(4, 5)], chosen, 2, 1.0)
    whole = np.zeros((82, 102), bool)  # one px of outside all round
    for entry in chosen:
        row, column = divmod(entry, 5)
        whole[1 + row * 20 : 21 + row * 20, 1 + column * 20 : 21 + column * 20] = True
    changes = np.zeros((80, 100), bool)
    for y in range(80):
        for x in range(100):
            near = whole[y : y + 3, x : x + 3]
            inner = 2 <= y < 78 and 2 <= x < 98  # at the rim the line moves inside
            changes[y, x] = inner and (near != whole[y + 1, x + 1]).any()
    ink = (drawn == 255).all(axis=2)
    corner = 1  # the line's end reaches half a line beyond its edge
    assert (ink[4:-4, 4:-4] >= changes[4:-4, 4:-4]).all()
    reach = np.zeros_like(changes)
    for dy in range(-corner, corner + 1):
        for dx in range(-corner, corner + 1):
            reach |= np.roll(np.roll(changes, dy, 0), dx, 1)
    assert (ink[4:-4, 4:-4] <= reach[4:-4, 4:-4]).all()
