"""What a newcomer sees of a player without scrolling or searching, and what everything in it is called."""

from __future__ import annotations

from itertools import pairwise

from tests.sample_traces import sample_lines
from tests.ui.test_player import END, settle


def top_and_bottom(page, selector: str) -> tuple[float, float]:
    """Where an element begins and ends in the window, px from its top."""
    box = page.evaluate("(s) => document.querySelector(s).getBoundingClientRect().toJSON()", selector)
    return box["top"], box["bottom"]


def test_a_phone_shows_map_and_words_at_once(show, new_page):
    """Picture, what is said of its map, words, transport, tree: in this order, the first words in the window."""
    page = show(sample_lines("compared"), page=new_page(360, 740), **END)
    page.click("[data-word='6']")
    settle(page)
    page.evaluate("document.querySelector('.fv').scrollIntoView()")
    names = (".fv-frame", ".fv-caption", ".fv-answer", ".fv-transport", ".fv-tree", ".fv-numbers", ".fv-cards")
    places = [top_and_bottom(page, name) for name in names]
    assert all(above[1] <= below[0] for above, below in pairwise(places)), dict(zip(names, places))
    assert page.locator(".fv-answer .fv-pinned").first.bounding_box()["y"] < 740


def test_the_view_says_word_while_a_word_is_pinned(show):
    """A pinned word shows its own map; what was chosen before comes back with Esc."""
    page = show(sample_lines("compared"), **END)
    pressed = "[aria-label='View of the map'] [aria-pressed=true]"
    page.click("[data-value=answer] >> nth=0")
    settle(page)
    assert page.inner_text(pressed) == "whole answer"
    page.click("[data-word='6']")
    settle(page)
    assert page.inner_text(pressed) == "word" and page.locator("[data-word='6'].fv-pinned").count() == 1
    page.keyboard.press("Escape")
    settle(page)
    assert page.inner_text(pressed) == "whole answer"


def test_the_end_of_the_answer_has_a_name_everywhere(show):
    """Among the words that used a patch and in the table of steps, too, though its token has no text."""
    page = show(sample_lines("scene"), **END)
    place = page.evaluate("""() => {
      const { run, stage } = FOVEA.page, read = run.readOf(run.words.at(-1));
      if (!read) return null;
      const { box } = run.place(read.entries[0]), at = stage.canvas.getBoundingClientRect();
      return [at.left + (box[0] + box[2]) / 2 * at.width, at.top + (box[1] + box[3]) / 2 * at.height];
    }""")
    if place:
        page.mouse.click(*place)
        settle(page)
        assert "∎ the end of the answer" in page.inner_text(".fv-usedby")
    page.click("summary:has-text('Table of steps')")
    last = page.locator(".fv-steps tbody tr").last
    assert "∎" in last.inner_text()


def test_the_list_of_keys_can_be_closed_without_a_key(show):
    page = show(sample_lines("compared"), **END)
    page.click("[aria-label='Keys (?)']")
    assert page.is_visible(".fv-help") and page.locator(".fv-help dt").last.inner_text() == "?"
    page.click("[aria-label='Close the list of keys']")
    assert not page.is_visible(".fv-help")
    assert page.evaluate("document.activeElement === document.querySelector('.fv')")
