"""The Lab in a real browser: figures are drawn, numbers can be opened, nothing reaches beyond a narrow window."""

from __future__ import annotations

import pytest

from tests.ui.test_page import open_tab, served  # noqa: F401 - a fixture


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_lab_shows_what_was_measured(served, new_page, width, scheme):  # noqa: F811
    page = open_tab(served, new_page, width, color_scheme=scheme)
    page.get_by_role("tab", name="Lab").click()
    page.wait_for_selector(".fx-study .js-plotly-plot svg.main-svg")
    page.get_by_role("button", name="The numbers").first.click()
    page.wait_for_selector(".fx-table td")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    link = page.locator("a[download='builtin.csv']")
    assert link.get_attribute("href").startswith("data:text/csv")
