"""Pointing: entries, hits and mass ratio against loops over pixels; what is counted, and when a strip is right."""

from __future__ import annotations

import numpy as np
import pytest

from fovea_core.bench import score, scoring
from fovea_core.bench.pointing import EntryMap, Pointing, read_masses
from fovea_core.trace import events as ev
from fovea_core.trace.codec import pack_entries, pack_masses
from fovea_core.trace.fold import fold
from fovea_core.worksite.base import Answer, Picture, Thing
from tests.test_strip import spoken


def letterboxed(rows: int, columns: int, box, first: int = 0, valid: list[int] | None = None) -> ev.Tile:
    return ev.Tile(rows=rows, columns=columns, box=box, view="tile", first=first, valid=valid or [rows * columns])


TILES = [letterboxed(3, 3, (0.0, -0.25, 1.0, 1.25)), letterboxed(2, 2, (0.1, 0.1, 0.9, 0.93), first=9)]


def slow_boxes(tile: ev.Tile) -> list[tuple[float, float, float, float]]:
    left, top, right, bottom = tile.box
    across, down = (right - left) / tile.columns, (bottom - top) / tile.rows
    return [
        (left + c * across, top + r * down, left + (c + 1) * across, top + (r + 1) * down)
        for r in range(tile.rows)
        for c in range(tile.columns)
    ]


def slow_pixels(box, width: int, height: int) -> list[tuple[int, int]]:
    """Pixels whose centre is in the box, by looking at every one."""
    left, top, right, bottom = box
    return [
        (x, y)
        for y in range(height)
        for x in range(width)
        if left <= (x + 0.5) / width < right and top <= (y + 0.5) / height < bottom
    ]


@pytest.mark.parametrize("seed", range(4))
def test_entries_against_a_loop_over_pixels(seed):
    """Counts, hits and mass ratio of random masks and reads over two grids, one of which reaches into padding."""
    rng = np.random.default_rng(seed)
    width, height = 23, 17
    mask = np.zeros((height, width), bool)
    y, x = rng.integers(0, height - 3), rng.integers(0, width - 3)
    mask[y : y + rng.integers(2, 9), x : x + rng.integers(2, 9)] = True
    places = EntryMap(TILES, width, height)
    boxes = [box for tile in TILES for box in slow_boxes(tile)]
    inside = [slow_pixels(box, width, height) for box in boxes]
    counts = [sum(mask[y, x] for x, y in pixels) for pixels in inside]
    assert places.count(mask).tolist() == counts
    assert places.seen_px.tolist() == [len(pixels) for pixels in inside]
    for entry, box in enumerate(boxes):
        area = (box[2] - box[0]) * width * (box[3] - box[1]) * height
        assert np.isclose(places.box_px[entry], area)
        assert places.hit(entry, mask) == (counts[entry] >= 0.25 * area or counts[entry] >= 0.25 * mask.sum())
    entries = rng.permutation(13)[:6].tolist()
    read = make_read(entries, [0.3, 0.2, 0.1, 0.05, 0.02, 0.01])
    masses = read_masses(read)[1]
    chosen = sum(m * counts[e] / len(inside[e]) for e, m in zip(entries, masses))
    share = sum(counts) / sum(map(len, inside))
    assert np.isclose(places.mass_ratio(read, mask), chosen / share)


def make_read(entries: list[int], masses: list[float], **changes) -> ev.MemoryRead:
    values = {
        "n": 0,
        "round": 0,
        "node": 0,
        "depth": 0,
        "entries": pack_entries(entries),
        "masses": pack_masses(masses),
        "top_mass": masses[0],
        "captured": sum(masses),
        "k_raw": len(entries),
        "peak": 0.5,
        "ms": 0.0,
    }
    return ev.MemoryRead(**{**values, **changes})


def test_a_read_that_knows_nothing_has_mass_ratio_one():
    places = EntryMap([letterboxed(4, 4, (0, 0, 1, 1))], 40, 40)
    mask = np.zeros((40, 40), bool)
    mask[3:17, 8:29] = True
    assert np.isclose(places.mass_ratio(make_read(list(range(16)), [1 / 16] * 16), mask), 1.0)


def test_a_hit_needs_a_quarter_of_the_box_or_of_the_mask():
    places = EntryMap([letterboxed(2, 2, (0, 0, 1, 1))], 40, 40)  # boxes of 20 x 20 px
    mask = np.zeros((40, 40), bool)
    mask[20:, :] = True
    mask[10:15, :20] = True  # 100 px of entry 0 = a quarter of its box, an eighth of the mask
    assert places.hit(0, mask)
    mask[10, 0] = False
    assert not places.hit(0, mask)
    small = np.zeros((40, 40), bool)
    small[0, :4] = True  # 4 px, all in entry 0
    assert places.hit(0, small) and not places.hit(3, small)
    assert not places.hit(0, np.zeros((40, 40), bool))


def two_bars() -> Picture:
    """40 x 30 px: thing 'left' fills the left half, thing 'right' the right half."""
    layers = np.zeros((2, 30, 40), np.uint8)
    layers[0, :, :20], layers[0, :, 20:] = 1, 2
    things = (Thing("left", "bar", "bar", "red"), Thing("right", "tool", "hose", "blue"))
    return Picture("chart", 3, np.zeros((30, 40, 3), np.uint8), layers, things, ())


def test_pointing_counts_only_facts_with_a_read():
    """Four stated facts: a hit, a miss, one drafted without a look, and one of two tokens whose first token decides."""
    facts = Answer().fact("red", "bar", "left").say(" ").fact("blue", "tool", "right").say(" ")
    question = facts.fact("teal", "tool", "left").say(" bar ").fact("478", "bar", "right").ask("?")
    pieces = [
        ("", None),
        ("red", ([4, 5], 0.5)),  # entry 4 of the 4 x 4 grid: left half, hit
        (" blue", ([8], 0.5)),  # left half: miss
        (" teal", None),
        (" bar", ([0, 1, 2], 0.5)),
        (" 4", ([7], 0.5)),  # right half: hit
        ("7", ([0], 0.5)),
        ("8", ([0], 0.5)),
    ]
    events = spoken(pieces)
    summary, reads = fold(events), [event for event in events if isinstance(event, ev.MemoryRead)]
    reads[0] = reads[0].model_copy(update={"k_raw": 9})  # needed 9 entries, kept 2: at the upper bound
    counted = Pointing()
    counted.add(two_bars(), summary, score.place_facts(question, summary.tokens), reads)
    figures = counted.figures()
    assert counted.hits == {"bar": [2, 2], "tool": [0, 1]}
    assert figures["pointing"] == 2 / 3 and figures["pointing_coverage"] == 3 / 4
    assert figures["pointing_by_class"] == {"bar": 1.0, "tool": 0.0}
    # 12 of the 16 entries are valid; tokens inside a fact belong to neither group.
    assert figures["k_p50_fact"] == 1 / 12 and figures["k_p50_other"] == 3 / 12
    assert figures["clip_rate"] == 1 / 6
    # Half of the area is the thing: everything chosen inside gives mass / 0.5, here 0.8 / 0.5 and 0 and 0.8 / 0.5.
    assert np.isclose(figures["mass_ratio"], 1.6)
    assert Pointing().figures()["pointing"] is None


def test_strip_hit_needs_three_classes_inside_their_masks():
    answer = Answer().fact("red", "jumpsuit", "left").say(" ").fact("cap", "headwear", "right").say(" ")
    question = answer.fact("hose", "tool", "right").ask("?")
    looks = {"red": ([4], 0.9), " cap": ([7], 0.8), " hose": ([6, 3], 0.7)}

    def hit(**changed) -> bool:
        shown = {text: changed.get(text.strip(), look) for text, look in looks.items()}
        return scoring.strip_hit(two_bars(), question, fold(spoken([("", None), *shown.items()])))

    assert hit()
    assert not hit(hose=([4], 0.7))  # peak on the other thing (and an entry already shown)
    assert not hit(cap=([7], 0.1))  # too flat for the strip
    assert not hit(cap=None)
