"""axe-core finds nothing serious on the page with an example open, or on an exported page, light and dark."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.sample_traces import sample_lines
from tests.ui.test_page import open_tab, served, wait_status  # noqa: F401 (fixture)


def serious(page) -> list[str]:
    """Rules of axe-core that are broken seriously or critically, with the element."""
    page.wait_for_timeout(600)  # colours fade in
    found = Axe().run(page).response["violations"]
    broken = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    return [f"{rule['id']}: {node['html'][:160]}" for rule in broken for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_with_an_example_and_its_settings_open(served, new_page, scheme):  # noqa: F811
    page = open_tab(served, new_page, color_scheme=scheme)
    assert serious(page) == []
    page.click(".fx-examples button >> nth=0")
    page.wait_for_selector(".fv-answer .fv-word")
    page.click("#fx-settings > button")
    page.click(".fv-transport >> text=Skip to end")
    assert serious(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_exported_page(show, new_page, scheme):
    """At its end, and scrubbed back, where the words behind are ghosts."""
    page = show(sample_lines(), page=new_page(color_scheme=scheme), at="end")
    assert serious(page) == []
    page.evaluate("FOVEA.page.goto(1)")
    page.wait_for_selector(".fv-answer .fv-ghost", state="attached")
    assert serious(page) == []


def test_axe_finds_what_is_wrong(new_page):
    page = new_page()
    page.set_content("<html lang=en><title>t</title><main><img src='data:,'><p style='color:#ccc'>pale</p></main>")
    assert {line.split(":")[0] for line in serious(page)} >= {"image-alt", "color-contrast"}
