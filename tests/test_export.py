"""``export`` and a notebook: which files are written, what they hold, what is refused in one sentence."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from fovea_core import cli, page
from fovea_core.render import RenderError, exported, maps_of, step_picture, strip
from fovea_core.render.export import parse_words
from fovea_core.render.maps import MOST_TILES
from fovea_core.trace.codec import encode_header
from fovea_core.trace.record import Trace, read, write
from tests import grey_traces
from tests.grey_traces import grid, made, picture
from tests.sample_traces import sample_lines


@pytest.fixture
def corners() -> Trace:
    return grey_traces.corners()


@pytest.fixture
def sample(tmp_path) -> str:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(sample_lines("compared")) + "\n")
    return str(path)


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


def test_html_keeps_the_words_chosen_for_its_strip(corners):
    """As the page exports a strip that was edited: by the position of the token that stands for each word."""
    lines = [encode_header(corners.header), *corners.lines()]
    token = maps_of(corners).summary.words()[2]
    chosen = exported(corners, "html", words=[3]).decode()
    assert any(chosen == page.standalone_html(lines, strip=[at]) for at in range(token.first, token.last + 1))
    assert chosen != page.standalone_html(lines)


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
    "words of nothing": (["--words", "2"], "--strip, --gif or --html"),
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
    """Also where only an end of sequence, or white space, was drafted with a look."""
    path, out = tmp_path / "plain.jsonl", tmp_path / f"x.{'gif' if kind == 'gif' else 'png'}"
    unseen, begun = made([("The", None), (" end", None)]), Trace(picture(), made([("The", None)]).events[:1])
    for trace in (unseen, begun, made([("The", None), ("", ([3], 0.9))]), made([(" ", None), (" ", ([3], 0.9))])):
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
