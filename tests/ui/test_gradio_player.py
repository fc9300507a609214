"""The player inside Gradio: one gr.HTML instance fed by an append-only list of event lines."""

from __future__ import annotations

import os

import pytest

from app.charts import charts_head
from app.player import make_player, player_head, shown_lines
from fovea_core.trace.codec import decode
from fovea_core.trace.fold import fold
from tests.sample_traces import sample_lines

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server():
    """A bare Gradio page with a player and buttons that feed it; yields its address."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import gradio as gr

    def grow():
        lines = sample_lines("compared")
        for end in range(1, len(lines), 9):
            yield shown_lines(lines[:end])
        yield shown_lines(lines)

    with gr.Blocks(analytics_enabled=False) as page:
        player = make_player(elem_id="player")
        hidden = {"outputs": player, "show_progress": "hidden", "api_visibility": "private"}
        gr.Button("grow", elem_id="grow").click(grow, **hidden)
        gr.Button("hostile", elem_id="hostile").click(lambda: shown_lines(sample_lines("hostile")), **hidden)
    _, url, _ = page.launch(
        head=player_head() + charts_head(), prevent_thread_lock=True, quiet=True, ssr_mode=False, server_name="127.0.0.1"
    )
    yield url
    page.close()


SHOWN = "[...document.querySelectorAll('.fv-answer [data-word]:not(.fv-off)')].map((e) => e.textContent).join('')"


def shown(page):
    return page.evaluate(SHOWN)


def test_streams_into_the_player_and_starts_afresh(new_page, server):
    """Streamed lines end in the whole answer; another run replaces it; markup stays text; dark follows Gradio."""
    page = new_page()
    page.goto(server + "?__theme=dark")
    page.wait_for_selector(".fv-empty")
    assert page.evaluate("getComputedStyle(document.querySelector('.fv')).color") == "rgb(236, 234, 229)"
    page.click("#grow")
    page.wait_for_function("() => document.querySelector('.fv-pill').textContent === 'finished'")
    page.click("text=Skip to end")
    page.wait_for_function("() => document.querySelector('.fv-figures').textContent.includes('×')")
    text = fold(decode(line) for line in sample_lines("compared")[1:]).text
    page.wait_for_function(f"(text) => {SHOWN} === text", arg=text)
    page.click("#hostile")
    page.wait_for_function("() => document.querySelector('.fv-question').textContent.includes('onerror')")
    page.click("text=Skip to end")
    summary = fold(decode(line) for line in sample_lines("hostile")[1:])
    page.wait_for_function(
        "(n) => document.querySelectorAll('.fv-answer [data-word]:not(.fv-off)').length === n", arg=len(summary.ids)
    )
    assert shown(page) == summary.text
    assert page.evaluate("window.hacked") is None and page.locator(".fv img").count() == 1
