"""What a newcomer sees of the page without scrolling, on a laptop and on a phone."""

from __future__ import annotations

import pytest

from tests.ui.test_first_sight import top_and_bottom
from tests.ui.test_page import open_tab, served  # noqa: F401 - a fixture


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1900, 1000)])
def test_a_laptop_shows_map_and_what_is_said_of_it(served, new_page, width, height):  # noqa: F811
    page = open_tab(served, new_page, width)
    page.set_viewport_size({"width": width, "height": height})
    page.click(".fx-examples .fx-open >> nth=0")
    page.wait_for_selector(".fv-answer .fv-word")
    page.evaluate("scrollTo(0, 0)")
    assert top_and_bottom(page, ".fv-caption")[1] <= height


@pytest.mark.parametrize("width", [390, 768])
def test_one_column_begins_with_the_recorded_runs(served, new_page, width):  # noqa: F811
    page = open_tab(served, new_page, width)
    assert top_and_bottom(page, ".fx-examples")[1] <= top_and_bottom(page, "#fx-picture")[0]
    assert top_and_bottom(page, "#fx-go")[1] <= top_and_bottom(page, "#fx-player")[0]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
