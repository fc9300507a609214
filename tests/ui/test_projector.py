"""Large type for a room, one key: of the lesson and of the player."""

from __future__ import annotations

import pytest

from tests.sample_traces import sample_lines
from tests.ui.lessons import STEPS, goto
from tests.ui.test_player import settle

pytestmark = pytest.mark.browser


def test_projector_of_the_lesson(teach, lesson, new_page):
    """p and the button switch large type, Esc leaves it; it outlives a reload and not the session; nothing overflows."""
    page = teach(*lesson)
    size = "document.querySelector('.fl-title').getBoundingClientRect().height"
    small = page.evaluate(size)
    page.focus(".fl-title")
    page.keyboard.press("p")
    assert page.evaluate(size) > 1.3 * small
    assert page.get_attribute(".fv-projector-switch", "aria-pressed") == "true"
    for step in STEPS:
        goto(page, step)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, step
    teach(*lesson, page=page)
    assert page.evaluate("document.documentElement.classList.contains('fv-projector')")
    page.focus(".fl-title")
    page.keyboard.press("Escape")
    assert not page.evaluate("FOVEA.projector.on")
    page.click(".fv-projector-switch")
    assert page.evaluate("FOVEA.projector.on")
    page.set_viewport_size({"width": 360, "height": 740})
    for part in page.query_selector_all(".fl-top select, .fl-top button, .fl-dots button"):
        box = part.bounding_box()  # None: not shown, as the choice of a run where there is one
        assert not box or (box["x"] >= 0 and box["x"] + box["width"] <= 360), "cut off on a phone"
    assert not teach(*lesson, page=new_page()).evaluate("FOVEA.projector.on")


def test_projector_of_the_player(show):
    """p only while the player has the focus; Esc lets a pinned word go first, then leaves."""
    page = show(sample_lines("scene"), at="end")
    page.keyboard.press("p")
    assert not page.evaluate("FOVEA.projector.on")
    page.focus(".fv-scrub")
    page.keyboard.press("p")
    assert page.evaluate("FOVEA.projector.on") and page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.click("[data-word='5']")
    settle(page)
    page.keyboard.press("Escape")
    settle(page)
    assert page.locator(".fv-pinned").count() == 0 and page.evaluate("FOVEA.projector.on")
    page.keyboard.press("Escape")
    assert not page.evaluate("FOVEA.projector.on")
    page.click(".fv-projector-switch")
    assert page.evaluate("FOVEA.projector.on")
