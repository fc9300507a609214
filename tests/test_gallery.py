"""The static gallery's folder: what is written, what is refused; it needs no model library."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

from fovea_core import cli
from fovea_core.examples import KIND_NAMES, Example, load_examples
from fovea_core.gallery import GalleryError, gallery_html, write_gallery
from fovea_core.trace.codec import encode_header
from fovea_core.trace.record import read
from tests.sample_traces import HOSTILE, draw_picture, sample_lines

ROOT = Path(__file__).parents[1]


def make_examples(folder: Path, titles=("A worker", HOSTILE)) -> list[Example]:
    """Recorded sample runs under these titles, named run-0, run-1, ..."""
    found = []
    for number, title in enumerate(titles):
        picture, trace = folder / f"{number}.png", folder / f"{number}.jsonl"
        draw_picture().save(picture)
        trace.write_text("\n".join(sample_lines(seed=7 + number)) + "\n")
        found.append(Example(f"run-{number}", title, "scene", number, "?", None, picture, trace, look=title))
    return found


def unpacked(page: str, name: str):
    (packed,) = re.findall(f'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_the_page_carries_every_run_as_data(tmp_path):
    """Runs deflated apart, a card each; no text of theirs stands in the markup, and the policy lets nothing in."""
    examples = make_examples(tmp_path)
    page = gallery_html(examples)
    cards = unpacked(page, "packed")["content"]["cards"]
    assert [card["title"] for card in cards] == ["A worker", HOSTILE] and [card["kind"] for card in cards] == ["Scenes"] * 2
    for example, card in zip(examples, cards):
        trace = read(example.trace)
        assert unpacked(page, f"run-{example.name}").split("\n") == [encode_header(trace.header), *trace.lines()]
        assert card["rounds"] > 0 and card["tau"] > 1 and card["thumbnail"].startswith("data:image/webp")
    assert "default-src 'none'" in page and "A worker" not in page and "unsafe" not in page
    assert re.sub(r'<script type="text/plain" id="[\w-]+">[\w+/=]*</script>', "", page).count("<script") == 1


def test_the_command_writes_a_static_space_of_all_examples(tmp_path, capsys):
    out = tmp_path / "deep" / "gallery"
    assert cli.main(["gallery", str(out)]) == 0
    assert cli.main(["gallery", str(out)]) == 0, "an earlier gallery is written over"
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "index.html"]
    front = out.joinpath("README.md").read_text().split("---\n")[1]
    assert "\nsdk: static\n" in front and "title: " in front
    cards = unpacked(out.joinpath("index.html").read_text(), "packed")["content"]["cards"]
    assert [card["name"] for card in cards] == [example.name for example in load_examples()] and len(cards) >= 12
    assert out.joinpath("index.html").stat().st_size < 4_000_000


@pytest.mark.parametrize("name", ["README.md", "index.html"])
def test_nobodys_own_file_is_written_over(tmp_path, name):
    own = tmp_path / name
    own.write_text("my own words")
    with pytest.raises(GalleryError, match="would be lost"):
        write_gallery(tmp_path, make_examples(tmp_path))
    assert own.read_text() == "my own words" and len(list(tmp_path.glob("*.html"))) == (name == "index.html")


def test_a_place_that_is_no_folder_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert cli.main(["gallery", str(tmp_path / "file")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_without_a_recorded_run_there_is_no_gallery(tmp_path):
    (example,) = make_examples(tmp_path, ["A worker"])
    example.trace.unlink()
    with pytest.raises(GalleryError, match="No example is recorded"):
        gallery_html([example])


def test_gallery_and_files_need_neither_torch_nor_gradio(tmp_path):
    script = (
        "import sys\nfrom fovea_core import cli\n"
        f"assert cli.main(['gallery', {str(tmp_path / 'g')!r}]) == 0\n"
        "print([name for name in ('torch', 'gradio', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def test_branches_are_to_be_seen_in_every_kind_of_picture():
    """A sure drafter makes chains where cost decides: some runs of each kind are recorded with a tree, as the page promises."""
    shown = set()
    for example in load_examples():
        drafted = [event for event in read(example.trace).events if event.kind == "node_drafted"]
        siblings = Counter((event.round, event.parent) for event in drafted)
        if any(count > 1 for count in siblings.values()):
            shown.add((example.kind, example.tree is not None))
    assert {(kind, True) for kind in KIND_NAMES} <= shown
