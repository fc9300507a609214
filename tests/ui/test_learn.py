"""The Learn tab in a real browser: eight steps by keyboard and by mouse, poorer runs, hostile text, where the reader was."""

from __future__ import annotations

import json
import threading

import pytest

from app.build import build_page, launch_page
from app.session import Session
from fovea_core.trace.fold import fold
from tests.sample_traces import HOSTILE, sample_lines
from tests.ui.lessons import STEPS, STRONG, events_of, goto, step_of
from tests.ui.test_player import settle

pytestmark = pytest.mark.browser
VARIANTS = ("scene", "compared", "wide", "stopped", "hostile", "flat")


class Served:
    """The whole page with a model that never comes."""

    def __init__(self) -> None:
        never = threading.Event()
        self.session = Session(lambda: never.wait() and None)
        self.page = build_page(self.session)
        _, self.url, _ = launch_page(self.page, "127.0.0.1", None, quiet=True)


@pytest.fixture(scope="module")
def served():
    running = Served()
    yield running
    running.page.close(verbose=False)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def tab_to(page, selector, most=60):
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_to_the_end_by_keyboard_alone_without_a_model(served, new_page):
    """Tour button, eight steps, the three questions, another run, and back where one was after a reload; no pointer."""
    page = new_page(1440, 1000)
    page.set_default_timeout(60_000)
    page.goto(served.url)
    page.wait_for_selector(".fx-examples button")
    page.focus(".fx-tour")
    page.keyboard.press("Enter")
    page.wait_for_selector(".fl-title:not(:empty)")
    page.wait_for_function("document.querySelector('.fl .fv-picture').naturalWidth > 0")
    page.focus(".fl-title")
    seen = []
    for step in STEPS:
        seen.append(step_of(page))
        assert page.get_attribute(".fl-dot[aria-current]", "aria-label").startswith(f"Step {len(seen)}:")
        if step == "cost":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter", "Space")
            assert page.locator(".fl-token").count() == 3
        if step == "guess":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert page.locator(".fl g:not(.fl-unborn)[data-depth='1']").count() > 0
        if step == "check":
            tab_to(page, ".fl g[data-key]")
            press(page, "ArrowDown", "Enter", "ArrowDown", "Enter", "Enter")
            assert page.locator(".fl g[aria-pressed='true']").count() == 1
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert "guesses as the target did" in page.inner_text(".fl-act")
        if step == "look":
            tab_to(page, ".fl .fv-heat")
            press(page, "ArrowRight", "ArrowUp", "ArrowUp", "Enter")
            assert "The most," in page.inner_text(".fl-act") and step_of(page) == "look"
        if step == "many":
            tab_to(page, ".fl .fv-scrub")
            before = page.inner_text(".fl-act .fv-figure >> nth=0")
            press(page, "End")
            assert step_of(page) == "many" and page.inner_text(".fl-act .fv-figure >> nth=0") != before
        if step == "correct":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert "gate" in page.inner_text(".fl-act")
        if step == "same":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert "all" in page.inner_text(".fl-act") and "the same" in page.inner_text(".fl-act")
        else:
            press(page, *(["Tab"] if step in ("look", "many") else []), "ArrowRight")  # picture and slider keep the arrows
    assert seen == list(STEPS) and not served.session.ready
    page.reload()
    page.wait_for_selector(".fx-examples button")
    page.click("#fx-tabs [role=tab]:has-text('Learn')")
    page.wait_for_selector(".fl-title:not(:empty)")
    assert step_of(page) == "same" and "lossless" in page.inner_text(".fl-act")
    page.select_option(".fl-select", index=1)
    page.wait_for_function("document.querySelector('.fl-act').textContent.includes('lossless') === false")
    page.focus(".fl-title")
    press(page, "Home")
    assert step_of(page) == "cost" and page.locator(".fl-token").count() == 1


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1900, "dark")])
def test_to_the_end_by_mouse_at_every_width(teach, lesson, width, scheme):
    """Next through all steps: nothing reaches beyond the window, every button can be hit, light is light and dark is dark."""
    page = teach(*lesson, width=width, color_scheme=scheme, reduced_motion="reduce")
    page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
    acts = {
        "cost": "text=All the rest",
        "guess": "text=Guess one level",
        "keep": "text=Next round",
        "correct": ".fl-act .fl-main",
    }
    for step in STEPS:
        assert step_of(page) == step
        if step in acts:
            page.click(acts[step])
        if step == "keep":
            page.click(".fl .fv-word.fv-first")
            assert page.inner_text(".fl-about").endswith("the target's first word.")
        if step == "check":
            page.click(".fl g.fv-pending >> nth=0")
            page.click(".fl-act .fl-main")
        if step == "look":
            page.click(".fl .fv-heat", position={"x": 90, "y": 90})
        if step == "many":
            page.locator(".fl .fv-scrub").fill("3")
        if step == "same":
            page.click("text=Yes, it changes")
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, step
        small = page.evaluate(
            "[...document.querySelectorAll('.fl button, .fl select, .fl input')].filter((e) => e.offsetParent &&"
            " (e.closest('label') ?? e).getBoundingClientRect().height < 32).map((e) => e.outerHTML)"
        )
        assert small == [], step
        if step != "same":
            page.click(".fl-nav > :last-child")
    assert page.is_disabled(".fl-nav > :last-child")
    page.click(".fl-nav > :first-child")
    assert step_of(page) == "correct"
    page.click(".fl-dot >> nth=0")
    tokens = page.locator(".fl-token").all_text_contents()
    assert "".join(tokens) == fold(events_of(lesson[0])).text
    ink = page.evaluate("getComputedStyle(document.querySelector('.fl')).color")
    assert ink == ("rgb(236, 234, 229)" if scheme == "dark" else "rgb(28, 27, 25)")


def test_hostile_text_stays_text(teach):
    """Markup in question, answer, guesses and titles is shown literally in every step; nothing runs."""
    lines = sample_lines("hostile")
    page = teach(lines)
    value = {"runs": [{"title": HOSTILE}], "index": 0, "lines": lines, "without": lines[1:], "trouble": ""}
    page.evaluate("(value) => learn.set(value)", value)
    for step in STEPS:
        goto(page, step)
        for button in page.locator(".fl-act .fl-main:not(:disabled)").all()[:1]:
            button.click()
        settle(page)
        assert page.evaluate("window.hacked") is None
        assert page.locator(".fl img").count() <= 1 and page.locator(".fl :is(script, style, iframe, object)").count() == 0
    goto(page, "cost")
    page.click("text=All the rest")
    page.wait_for_function("document.querySelectorAll('.fl-token').length === learn.run.words.length")
    assert "".join(page.locator(".fl-token").all_text_contents()) == HOSTILE
    assert "<img src=x onerror=window.hacked=1>" in page.inner_text(".fl-question")
    assert page.locator(".fl-select option").all_text_contents() == [HOSTILE]


def test_every_step_of_poorer_runs(teach, new_page):
    """Rounds only, a plain run, flat maps, one word: each step says what is missing, none breaks; a damaged trace is one
    sentence."""
    page, full = new_page(), sample_lines("compared")
    events = [json.loads(line) for line in full[1:]]
    sparse = [event for event in events if event["kind"] not in ("memory_read", "node_drafted")]
    cases = {
        "sparse": [full[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(sparse))],
        "first word": full[:3],
        "flat": sample_lines("flat"),
        "stopped": sample_lines("stopped"),
    }
    for name, lines in cases.items():
        teach(lines, page=page)
        for step in STEPS:
            goto(page, step)
            assert step_of(page) == step and page.inner_text(".fl-words").strip(), (name, step)
        goto(page, "look")
        missing = page.text_content(".fl-step")
        assert ("recorded no reads" in missing) == (name != "stopped"), name
    goto(page, "correct")
    assert "no second recording" in page.inner_text(".fl-act")
    teach([full[0], *full[2:]], page=page)
    assert "damaged" in page.inner_text(".fv-note") and page.is_hidden(".fl-step")
    teach(full[:2], page=page)
    assert "ends before its first word" in page.inner_text(".fv-note")
    page.evaluate("learn.set({ runs: [], lines: [] })")
    assert "no recorded run" in page.inner_text(".fv-note")


def test_a_hidden_tab_draws_when_it_is_shown(teach, lesson):
    """Opened and moved on while nothing of it is on the screen, the map has its size and its colours once it shows."""
    page = teach(*lesson)
    page.evaluate("document.getElementById('learn').style.display = 'none'")
    page.evaluate("learn.keep('look', learn.word.read.entries[0])")
    goto(page, "look")
    page.evaluate("document.getElementById('learn').style.display = ''")
    page.wait_for_function("document.querySelector('.fl .fv-heat').width > 100")
    settle(page)
    width, strong = page.evaluate("document.querySelector('.fl .fv-heat').width"), page.evaluate(STRONG)
    assert width == round(page.locator(".fl .fv-heat").bounding_box()["width"]) and strong > 50


def test_where_the_reader_was_comes_back(teach, lesson):
    """Step and answers outlive a reload of the tab; ``restore`` takes ``state`` back; nonsense in the store is left alone."""
    page = teach(*lesson)
    goto(page, "check")
    page.click(".fl g.fv-pending >> nth=1")
    page.click(".fl-act .fl-main")
    state = page.evaluate("learn.state")
    teach(*lesson, page=page)
    assert step_of(page) == "check" and page.is_disabled(".fl-act .fl-main")
    goto(page, "cost")
    page.evaluate("(state) => learn.restore(state)", state)
    assert step_of(page) == "check" and page.locator(".fl-ticked").count() == 1
    for nonsense in (
        '"x"',
        "{",
        '{"name":"A run","step":99,"answers":{"cost":"a","keep":-5,"check":7,"look":1e9,"many":"","same":{}}}',
    ):
        page.evaluate("(text) => sessionStorage.setItem('fovea-learn', text)", nonsense)
        teach(*lesson, page=page)
    for step in STEPS:
        goto(page, step)
        assert page.inner_text(".fl-act").strip()
