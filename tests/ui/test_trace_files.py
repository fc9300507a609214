"""Files in a real browser: traces dropped on the player, saved from it, and the standalone page around one."""

from __future__ import annotations

import base64
import json

import pytest

from fovea_core.page import standalone_html
from tests.sample_traces import sample_lines
from tests.ui.test_player import END, answer_text, change, settle, summary_of

pytestmark = pytest.mark.browser


def bad_files():
    lines = sample_lines("scene")
    one = base64.b64encode((999).to_bytes(2, "little")).decode()
    yield "cut", "\n".join(lines)[:-40], "is damaged"
    yield "page", "<!doctype html><p>hello", "no events"
    yield "text", "hello\nworld", "not a trace"
    yield (
        "version",
        json.dumps(json.loads(lines[0]) | {"version": 2}) + "\n" + lines[1],
        "written by a newer explorer (version 2, this one reads 1)",
    )
    svg = "data:image/svg+xml;base64,PHN2Zy8+"
    yield "svg", json.dumps(json.loads(lines[0]) | {"picture": svg}) + "\n" + lines[1], "no usable picture"
    yield "missing", "\n".join([*lines[:4], *lines[5:]]), "running number"
    yield "entry", "\n".join(change(lines, "memory_read", entries=one, masses="/w==")), "packed entries"
    yield "range", "\n".join(change(lines, "memory_read", captured=7.5)), "its captured is not possible"
    yield "unknown", "\n".join(change(lines, "node_drafted", html="<b>")), "unknown field"
    yield "type", "\n".join(change(lines, "node_drafted", token="5")), "its token is not possible"
    yield "verdict", "\n".join(change(lines, "round_verified", accepted=[])), "does not fit"


def drop(page, text):
    """Drops a file with ``text`` onto the player."""
    page.evaluate(
        """(text) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([text], 'a.jsonl'));
          const drop = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true });
          document.querySelector('.fv').dispatchEvent(drop);
        }""",
        text,
    )


def test_a_dropped_trace_opens_and_a_damaged_one_says_why(show):
    """One sentence for each kind of damage, what was shown stays; then a good file opens. Never a script error."""
    page = show([])
    assert page.is_visible(".fv-empty")
    drop(page, "\n".join(sample_lines("stopped")) + "\n")
    page.wait_for_function("() => FOVEA.page.stage.ready")
    before = answer_text(page)
    for name, text, words in bad_files():
        drop(page, text)
        page.wait_for_function("(words) => document.querySelector('.fv-note').textContent.includes(words)", arg=words)
        sentence = page.inner_text(".fv-note")
        assert sentence.endswith(".") and sentence.count(".") <= 2, name
        assert answer_text(page) == before, name
    drop(page, "\n".join(sample_lines("scene")))
    page.wait_for_function("() => document.querySelector('.fv-note').hidden && FOVEA.page.run.finished")
    settle(page)
    assert answer_text(page) == summary_of(sample_lines("scene")).text


def test_a_picture_that_is_none_is_a_sentence(show, new_page):
    """A picture whose bytes are no picture says so instead of showing an empty frame."""
    lines = sample_lines("scene")
    header = json.dumps(json.loads(lines[0]) | {"picture": "data:image/png;base64,AAAA"})
    page = new_page()
    show([], page=page)
    drop(page, "\n".join([header, *lines[1:]]))
    page.wait_for_function("() => document.querySelector('.fv-note').textContent.includes('picture in this trace is damaged')")


def test_saved_trace_is_the_trace(show):
    """The saved file holds exactly the lines that were shown, and replays."""
    lines = sample_lines("scene")
    page = show(lines, **END)
    with page.expect_download() as download:
        page.click("text=Save trace (JSON)")
    assert download.value.path().read_text("utf-8").splitlines() == lines


def test_an_exported_page_is_small_and_strict(show, new_page):
    """100 steps and the player, without the picture, in at most 150 kB; its policy lets nothing in."""
    lines = sample_lines("long")
    upto = [i for i, line in enumerate(lines) if i and json.loads(line)["kind"] == "round_verified"][99]
    text = standalone_html(lines[: upto + 1])
    picture = len(json.loads(lines[0])["picture"])
    assert len(text) - picture <= 150_000, f"{(len(text) - picture) / 1000:.0f} kB"
    page = show(lines[: upto + 1], page=new_page(console=False), **END)
    blocked = page.evaluate("fetch('https://example.org/').then(() => 'let through', () => 'blocked')")
    assert blocked == "blocked"
