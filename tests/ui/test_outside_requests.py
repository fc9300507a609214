"""That the browser tests notice, and refuse, what would leave the machine."""

from __future__ import annotations

from tests.ui.conftest import watch


def test_what_leaves_the_machine_fails_and_is_noted(browser):
    """By name and by number, by picture and by script; a page of this machine opens as ever."""
    outside, context = [], browser.new_context()
    try:
        watch(context, outside)
        page = context.new_page()
        page.goto("data:text/html,<title>here</title>")
        assert page.title() == "here"
        asked = ["http://fovea.invalid/a", "https://192.0.2.1/b", "http://192.0.2.1/c"]
        ended = """(address) => new Promise((done) => {
          const picture = new Image();
          picture.onerror = () => done("refused");
          picture.onload = () => done("drawn");
          picture.src = address;
        })"""
        assert [page.evaluate(ended, address) for address in asked] == ["refused"] * 3
        assert page.evaluate("fetch('http://192.0.2.1/d').then(() => 'came', () => 'refused')") == "refused"
        assert outside == [*asked, "http://192.0.2.1/d"]
    finally:
        context.close()
