"""Strip, GIF, step and word map: what is drawn where, in which order and size; and the letters on them."""

from __future__ import annotations

import base64
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fovea_core.render import RenderError, gif, heat, letters, maps_of, step_picture, strip, word_map
from fovea_core.render.animation import LAST_MS, MOST_FRAMES, WORD_MS
from fovea_core.render.answer import Answer, pieces_of
from fovea_core.trace import events as ev
from fovea_core.trace.record import Trace, read
from fovea_core.trace.strip import trajectory_strip
from tests import grey_traces
from tests.grey_traces import LOOKS, grid, made, opened, picture
from tests.sample_traces import sample_lines
from tests.test_strip import spoken


@pytest.fixture
def corners() -> Trace:
    return grey_traces.corners()


@pytest.fixture
def sample() -> Trace:
    return read("\n".join(sample_lines("compared")).encode())


def panels_of(image: Image.Image) -> list[tuple[int, int, int, int]]:
    """(left, top, right, bottom) of the pictures in a strip of one row, found as wide columns that are not white."""
    ink = (np.asarray(image)[20:300] != 255).any(axis=(0, 2))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], ink.astype(int), [0]])))
    found = [(left, right) for left, right in zip(edges[::2], edges[1::2]) if right - left > 50]
    rows = (np.asarray(image)[:, sum(found[0]) // 2] != 255).any(axis=1)
    top = int(rows.argmax())
    return [(left, top, right, top + int(rows[top:].argmin())) for left, right in found]


def hottest(part: np.ndarray, rows: int = 4, columns: int = 5) -> int:
    """The cell of a grid whose middle differs most from the grey picture."""
    high, wide = part.shape[0] / rows, part.shape[1] / columns
    middles = [part[int((r + 0.5) * high), int((c + 0.5) * wide)] for r in range(rows) for c in range(columns)]
    return int(np.argmax([np.abs(middle.astype(int) - 120).sum() for middle in middles]))


def test_strip_shows_the_words_in_order_each_with_its_own_map(corners):
    image = strip(corners, [5, 2, 3, 4])  # asked for in any order
    found = panels_of(image)
    assert len(found) == 4 and image.mode == "RGB"
    pixels = np.asarray(image)
    assert [hottest(pixels[top:bottom, left:right]) for left, top, right, bottom in found] == [0, 4, 15, 19]
    shapes = {(right - left, bottom - top) for left, top, right, bottom in found}
    assert len(shapes) == 1 and math.isclose(*[a / b for a, b in [(400, 320), shapes.pop()]], rel_tol=0.02)


def test_strip_takes_the_pages_choice_and_wraps_into_rows_of_like_length(sample):
    trace, maps = sample, maps_of(sample)
    chosen = trajectory_strip(maps.summary)
    assert np.array_equal(np.asarray(strip(trace)), np.asarray(strip(trace, numbers_of(maps, chosen))))
    assert len(panels_of(strip(trace))) == len(chosen)
    many = made([("The", None)] + [(f" word{i}", ([i % 20], 0.9)) for i in range(7)])
    image = strip(many, range(2, 9))
    assert len(panels_of(image)) == 4 and image.width <= 2100 and image.height > 2 * panels_of(image)[0][3]


def numbers_of(maps, chosen) -> list[int]:
    words = maps.summary.words()
    return [1 + words.index(word.word) for word in chosen]


@pytest.mark.parametrize("size", [(1, 1), (3, 1000), (1000, 3), (1000, 60), (60, 1000), (1280, 853)])
@pytest.mark.parametrize("count", [1, 6])
def test_strips_of_odd_pictures_keep_their_bounds(size, count):
    trace = made([("The", None)] + [(f" Donaudampfschiff{i}" * 3, ([i], 0.9)) for i in range(count)], size)
    image = strip(trace, range(2, 2 + count))
    assert 560 <= image.width <= 2100 and image.height <= 3000
    assert (np.asarray(image)[:, :8] == 255).all() and (np.asarray(image)[:, -8:] == 255).all()  # nothing runs into the margin


def test_gif_has_a_frame_a_word_and_only_the_heat_moves(corners):
    movie = opened(gif(corners))
    frames = []
    for index in range(movie.n_frames):
        movie.seek(index)
        frames.append((movie.info["duration"], np.asarray(movie.convert("RGB"))))
    assert len(frames) == 6 and movie.info["loop"] == 0
    assert [time for time, _ in frames] == [WORD_MS] * 5 + [LAST_MS]
    pictures = [pixels[14 : 14 + 512, 14 : 14 + 640] for _, pixels in frames]
    assert [hottest(part) for part in pictures[1:5]] == [0, 4, 15, 19]
    assert np.ptp(pictures[0].reshape(-1, 3), axis=0).max() <= 8 and np.array_equal(pictures[0], pictures[5])  # no map
    assert (frames[0][1][0] == 255).all()
    assert opened(gif(corners, [3, 5])).n_frames == 2


def test_gif_of_a_long_answer_is_refused_until_words_are_chosen():
    trace = made([("The", None)] + [(f" w{i}", ([i % 20], 0.9)) for i in range(MOST_FRAMES)])
    with pytest.raises(RenderError, match="at most 200 words"):
        gif(trace)
    assert opened(gif(trace, [2, 201])).n_frames == 2


def test_word_map_is_the_picture_with_the_map_of_that_word(corners):
    for number, cell in zip(range(2, 6), LOOKS.values()):
        image = word_map(corners, number)
        assert image.size == (400, 320) and hottest(np.asarray(image)) == cell


def test_step_picture_shows_the_mean_over_the_accepted_path(sample):
    """Twin: the page's step view, each read once, masses averaged by hand."""
    trace, maps = sample, maps_of(sample)
    step = next(s for s in range(1, len(maps.verdicts) + 1) if len(maps.reads_of_step(s)) > 1)
    parents = set()
    nodes = {e.node: e for e in trace.events if isinstance(e, ev.NodeDrafted) and e.round == maps.verdicts[step - 1].round}
    for node in maps.verdicts[step - 1].accepted:
        parents.add(nodes[node].parent)
    reads = [e for e in trace.events if isinstance(e, ev.MemoryRead) and e.round == maps.verdicts[step - 1].round]
    wanted = [e for e in reads if e.node in parents]
    mean = np.zeros(len(maps.valid))
    for found in wanted:
        entries = np.frombuffer(base64.b64decode(found.entries), "<u2")
        mean[entries] += np.frombuffer(base64.b64decode(found.masses), np.uint8) / 255 * found.top_mass / len(wanted)
    assert np.allclose(maps.values(maps.reads_of_step(step)), mean, atol=1e-6)
    image = step_picture(trace, step)
    assert image.width == 1548 and image.info["dpi"] == (300, 300)
    assert not np.array_equal(np.asarray(image), np.asarray(step_picture(trace, step + 1)))
    with pytest.raises(RenderError, match=r"numbered 1 to \d+"):
        step_picture(trace, len(maps.verdicts) + 1)


def test_the_scale_is_the_largest_mass_of_the_answer_but_never_less_than_flat_maps_need(sample):
    maps = maps_of(sample)
    assert maps.scale == max(token.read.top_mass for token in maps.summary.tokens if token.read is not None)
    flat = made([("The", None), (" x", (list(range(20)), 0.0))])
    assert maps_of(flat).scale == 4 / 20


def test_a_flat_map_and_one_of_all_entries_get_no_outlines(corners):
    flat = made([("The", None), (" x", ([0, 1], 0.01)), (" y", (list(range(20)), 0.9))])
    for number in (2, 3):
        maps = maps_of(flat)
        bare = heat.paint(
            maps.rgb, heat.spread(maps.tiles, maps.valid, maps.values([read_of(maps, number)]), 400, 320), maps.scale
        )
        assert np.array_equal(np.asarray(word_map(flat, number)), bare)
    assert (np.asarray(word_map(corners, 2)) == 255).all(axis=2).any()


def read_of(maps, number: int) -> ev.MemoryRead:
    return maps.summary.tokens[maps.summary.words()[number - 1].first].read


def test_a_picture_outside_the_models_world_is_marked():
    looks = [("The", None), (" x", ([3], 0.9))]
    inside, outside = made(looks, outside=False), made(looks, outside=True)
    for draw in (strip, step_picture, lambda trace: opened(gif(trace)).convert("RGB")):
        plain, marked = np.asarray(draw(inside)), np.asarray(draw(outside))
        foot = marked[plain.shape[0] :].astype(int)
        assert foot.shape[0] > 10 and ((foot[..., 0] - foot[..., 2]) > 100).any()


STRANGE = ["", " ", "\x00\x1b[31m", "\ud800\udfff\ud83d", "😀👩‍👩‍👧", "हिन्दी", "עברית", "العربية", "a\u202eb\u200b", "x" * 5000]
STRANGE += ["<img src=x onerror=alert(1)>", "${1+1}", "e\u0301\u0301\u0301", "\U0010ffff", "\ufffe\uffff"]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.sampled_from(STRANGE), st.text(st.characters(), max_size=40)))
def test_any_text_is_drawn_and_measured(text):
    """Also halves of surrogate pairs, at which OpenCV's own function ends the process."""
    sheet = np.full((40, 200, 3), 255, np.uint8)
    letters.write(sheet, text, 5, 30, 20)
    letters.write(sheet, letters.label(text), 5, 30, 20, bold=True)
    short, size = letters.fitted(letters.label(text), 24, 90)
    assert len(letters.label(text)) <= 40 + 6 * 40 and size >= 19
    assert letters.width_px(short, size) <= 90 or len(short) <= 2


def test_what_has_no_glyph_is_a_box_and_what_cannot_be_seen_a_sign():
    def ink(text: str) -> np.ndarray:
        sheet = np.zeros((40, 300, 3), np.uint8)
        letters.write(sheet, text, 5, 30, 20, (255, 255, 255))
        return sheet

    assert np.array_equal(ink("😀"), ink("□")) and not np.array_equal(ink("?"), ink("□"))
    assert letters.label(" a\u202eb\n") == "aU+202Eb" and letters.label("\u200b") == "U+200B"
    assert letters.label("abcdefgh", 5) == "abcd…" and letters.label("abcde", 5) == "abcde"
    assert letters._drawable("אב x") == "בא x"  # from right to left, in a face that writes from left to right
    for text in ("Жž", "語", "한", "ά"):
        assert not np.array_equal(ink(text), ink("□" * len(text)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab \nÄ語", max_size=12), max_size=12), st.integers(40, 200))
def test_running_text_keeps_its_order_and_its_width(texts, width):
    """Every visible character once, in order, within the lines; only a character wider than a line may stand out."""
    pieces = [("x", None), *((text, None) for text in texts)]
    trace = made([*pieces, (" y", ([1], 0.9))])
    laid = Answer(pieces_of(maps_of(trace)), width, 18)
    atoms = laid._atoms
    assert "".join(atom.text for atom in atoms) == "".join("".join(text for text, _ in pieces).split()) + "y"
    places = [(atom.line, atom.left) for atom in atoms]
    assert places == sorted(places) and all(0 <= atom.line < laid.lines for atom in atoms)
    assert all(atom.right <= width for atom in atoms)


def test_a_character_in_two_tokens_is_drawn_once(corners):
    halves = [("x", None), ("", None), ("", None), (" y", ([1], 0.9))]
    events = list(spoken(halves, tiles=[grid(4, 5)]))
    nodes = [i for i, event in enumerate(events) if isinstance(event, ev.NodeDrafted)]
    for place, part in zip(nodes, ("e4", "b8ad")):
        events[place] = events[place].model_copy(update={"bytes": part})
    assert [piece.text for piece in pieces_of(maps_of(Trace(picture(), tuple(events))))] == ["x", "中", " y"]
