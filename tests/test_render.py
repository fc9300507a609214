"""Pictures and pages from a trace: what is drawn where, against brute-force twins, and what is refused."""

from __future__ import annotations

import base64
import html
import io
import math
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fovea_core import cli, page
from fovea_core.render import RenderError, exported, gif, heat, letters, maps_of, step_picture, strip, word_map
from fovea_core.render.animation import LAST_MS, MOST_FRAMES, WORD_MS
from fovea_core.render.answer import Answer, pieces_of
from fovea_core.render.export import parse_words
from fovea_core.render.maps import MOST_TILES
from fovea_core.trace import events as ev
from fovea_core.trace.codec import Header, encode_header
from fovea_core.trace.record import Trace, read, write
from fovea_core.trace.strip import trajectory_strip
from tests.sample_traces import sample_lines
from tests.test_strip import spoken

PLAYER = Path(page.ASSETS)
GREY = (120, 120, 120)


def picture(size: tuple[int, int] = (400, 320), colour: tuple[int, int, int] = GREY) -> Header:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return Header("data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode())


def grid(rows: int, columns: int, **changes) -> ev.Tile:
    values = {"rows": rows, "columns": columns, "box": (0, 0, 1, 1), "view": "tile", "first": 0, "valid": [rows * columns]}
    return ev.Tile(**{**values, **changes})


def made(pieces, size=(400, 320), tiles=None, **prefilled) -> Trace:
    """A trace over a grey picture; pieces as of ``spoken``."""
    return Trace(picture(size), tuple(spoken(pieces, tiles=tiles or [grid(4, 5)], **prefilled)))


#: Each word looks at one cell of the 4 x 5 grid.
LOOKS = {"alpha": 0, "beta": 4, "gamma": 15, "delta": 19}


@pytest.fixture
def corners() -> Trace:
    return made([("The", None)] + [(f" {word}", ([cell], 0.9)) for word, cell in LOOKS.items()] + [(" end", None)])


@pytest.fixture
def sample(tmp_path) -> str:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(sample_lines("compared")) + "\n")
    return str(path)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


# ---- the heat ----


def heat_of(tile: ev.Tile, valid, values, x: float, y: float) -> float:
    """One pixel of the field, from the words of the definition: cubic Hermite down the columns' cubics."""

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
    """rgb (1 - a) + colour a with a = opacity (1 - (1 - share)^3); nothing where there is no mass."""
    rgb = np.full((1, 3, 3), 100, np.uint8)
    drawn = heat.paint(rgb, np.array([[0, 0.1, 0.9]], np.float32), 0.2)
    alpha = 0.8 * (1 - 0.5**3)
    expected = [math.floor(100 * (1 - alpha) + c * alpha + 0.5) for c in heat.colours("viridis")[128].tolist()]
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


# ---- strip, GIF, step, word ----


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
    trace = read(sample)
    maps = maps_of(trace)
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
    trace = read(sample)
    maps = maps_of(trace)
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
    maps = maps_of(read(sample))
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


# ---- letters ----

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


# ---- files, notebook, command line ----


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["export", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_export_writes_what_was_asked_for(sample, tmp_path, capsys):
    places = {
        kind: tmp_path / f"{kind}.{'png' if kind in ('strip', 'png') else kind}" for kind in ("strip", "gif", "html", "png")
    }
    code, out, err = call(capsys, sample, *(part for kind, path in places.items() for part in (f"--{kind}", path)))
    assert code == 0 and out == "" and len(err.splitlines()) == 4
    for kind in ("strip", "png"):
        with Image.open(places[kind]) as image:
            assert image.format == "PNG" and [round(value) for value in image.info["dpi"]] == [300, 300] and image.width <= 2100
    with Image.open(places["gif"]) as movie:
        assert movie.format == "GIF" and movie.n_frames == len(maps_of(read(sample)).summary.words())


def test_html_is_what_the_page_exports(tmp_path, capsys):
    """The page hands its lines to page.standalone_html; a recorded file's own lines give the same bytes."""
    recorded = tmp_path / "recorded.jsonl"
    write(recorded, read("\n".join(sample_lines("scene")).encode()))
    out = tmp_path / "run.html"
    assert call(capsys, recorded, "--html", out)[0] == 0
    assert out.read_text() == page.standalone_html(recorded.read_text().splitlines())


def test_html_needs_no_map(tmp_path, capsys):
    path, out = tmp_path / "plain.jsonl", tmp_path / "run.html"
    write(path, made([("The", None), (" end", None)]))
    assert call(capsys, path, "--html", out)[0] == 0 and out.stat().st_size > 10_000


def test_without_an_option_the_words_with_a_map_are_listed(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    write(path, made([("The", None), (" red\x1b", ([3, 4], 0.9)), (" end", None)]))
    assert call(capsys, path)[:2] == (0, "   2  redU+001B  K 2, 80 % of mass\n")


REFUSED = {
    "no folder": (["--strip", "D/none/x.png"], "No such file or directory"),
    "another ending": (["--strip", "D/x.jpg"], "ends in .png"),
    "no name": (["--gif", "D"], "ends in .gif"),
    "a folder": (["--gif", "D/folder.gif"], "no plain file"),
    "too long": (["--html", "D/" + "x" * 300 + ".html"], "name too long"),
    "twice the same": (["--strip", "D/x.png", "--png", "D/../D2/x.png"], "two options"),
    "the trace itself": (["--html", "D/link.html"], "over the trace"),
    "no such word": (["--strip", "D/x.png", "--words", "99"], "numbered 1 to 6"),
    "word 0": (["--strip", "D/x.png", "--words", "0"], "numbered 1 to 6"),
    "no map": (["--strip", "D/x.png", "--words", "1"], "was not drafted with a look"),
    "no number": (["--strip", "D/x.png", "--words", "red"], "no numbers of words"),
    "backwards": (["--gif", "D/x.gif", "--words", "5-2"], "backwards"),
    "words of nothing": (["--words", "2"], "--strip or --gif"),
    "step of nothing": (["--step", "2", "--strip", "D/x.png"], "--png"),
    "no such step": (["--png", "D/x.png", "--step", "99"], "numbered 1 to"),
    "step 0": (["--png", "D/x.png", "--step", "0"], "numbered 1 to"),
    "palette": (["--png", "D/x.png", "--palette", "jet"], "viridis, cividis, magma, spotlight"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_sentence_and_nothing_is_lost(case, corners, tmp_path, capsys):
    """Exit code 2, one line, and what lies at the place stays as it is."""
    folder = tmp_path / "D"
    (folder / "folder.gif").mkdir(parents=True)
    (tmp_path / "D2").symlink_to(folder)
    source = tmp_path / "run.jsonl"
    write(source, corners)
    (folder / "link.html").hardlink_to(source)
    (folder / "x.png").write_bytes(b"mine")
    before = source.read_bytes()
    options, said = REFUSED[case]
    code, out, err = call(capsys, source, *(re.sub("^D(?=/|$)", str(folder), option) for option in options))
    assert code == 2 and out == "" and len(err.strip().splitlines()) == 1 and said in err, err
    assert source.read_bytes() == before and (folder / "x.png").read_bytes() == b"mine"
    assert sorted(path.name for path in folder.iterdir()) == ["folder.gif", "link.html", "x.png"]


@pytest.mark.parametrize("kind", ["strip", "gif", "png"])
def test_no_read_at_all_is_one_sentence(kind, tmp_path, capsys):
    path, out = tmp_path / "plain.jsonl", tmp_path / f"x.{'gif' if kind == 'gif' else 'png'}"
    for trace in (made([("The", None), (" end", None)]), Trace(picture(), made([("The", None)]).events[:1])):
        write(path, trace)
        code, _, err = call(capsys, path, f"--{kind}", out)
        assert code == 2 and "no map to draw" in err and len(err.strip().splitlines()) == 1 and not out.exists()


def test_an_existing_file_is_replaced_when_named(corners, tmp_path, capsys):
    source, out = tmp_path / "run.jsonl", tmp_path / "x.png"
    write(source, corners)
    out.write_bytes(b"old" * 1_000_000)
    assert call(capsys, source, "--png", out)[0] == 0
    assert out.read_bytes() == exported(corners, "png")


def test_damaged_and_hostile_traces(tmp_path, capsys):
    path, out = tmp_path / "run.jsonl", tmp_path / "x.png"
    path.write_text("\n".join(sample_lines("hostile")[:-1]) + '\n{"kind": "memory_read"}\n')
    code, _, err = call(capsys, path, "--strip", out)
    assert code == 2 and "damaged" in err and not out.exists()
    path.write_text("\n".join(sample_lines("hostile")) + "\n")
    assert call(capsys, path, "--png", out, "--html", tmp_path / "x.html")[0] == 0
    tiles = [grid(1, 1, first=i) for i in range(MOST_TILES + 1)]
    with pytest.raises(RenderError, match="views of its picture"):
        strip(made([("The", None), (" x", ([3], 0.9))], tiles=tiles))
    endless = made([("The", None)] + [("y" * 2_000, ([3], 0.9))] * 101)
    with pytest.raises(RenderError, match="too many to be drawn"):
        step_picture(endless)


def test_parse_words():
    assert parse_words("3,7,12") == [3, 7, 12] and parse_words(" 4 - 6 ,5,1") == [1, 4, 5, 6]
    for wrong in ("", ",", "3,,4", "-3", "1-2-3", "٣", "1e3", "99999"):
        with pytest.raises(RenderError):
            parse_words(wrong)


def test_a_trace_shows_its_player_in_a_notebook(corners):
    """The frame's document is the standalone page, as an attribute that no text of the trace can leave."""
    trace = made([('"><img src=x onerror=alert(1)>', None), (" y", ([1], 0.9))])
    frame = trace._repr_html_()
    (document,) = re.findall(r'^<iframe srcdoc="([^"]*)" sandbox="allow-scripts allow-downloads" title=', frame)
    lines = [encode_header(trace.header), *trace.lines()]
    assert html.unescape(document) == page.standalone_html(lines, at="end")
    assert "<" not in frame[1 : frame.index("></iframe>")] and len(repr(corners)) < 100


def test_a_page_too_large_for_a_notebook_is_not_put_into_one(corners, monkeypatch):
    monkeypatch.setattr(page, "MOST_FRAMED_CHARS", 10_000)
    assert "too large for a notebook" in corners._repr_html_() and len(corners._repr_html_()) < 400


def test_rendering_needs_neither_torch_nor_gradio():
    """In a fresh process, from a recorded example to a map."""
    script = (
        "import sys\nfrom fovea_core.trace.record import read\nfrom fovea_core.render import strip\n"
        "strip(read('assets/traces/blue-hose.jsonl'))\n"
        "print([name for name in ('torch', 'gradio', 'transformers') if name in sys.modules])"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
