"""The Lab in a real browser: figures are drawn, numbers can be opened, nothing reaches beyond a narrow window."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.build import build_page, launch_page
from app.pages import lab
from app.session import Session
from fovea_core.engine import Engine
from fovea_core.examples import ASSETS
from fovea_core.trace.events import CostTable
from tests.toys import toy_target
from tests.ui.test_page import open_tab, served  # noqa: F401 - a fixture


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_lab_shows_what_was_measured(served, new_page, width, scheme):  # noqa: F811
    page = open_tab(served, new_page, width, color_scheme=scheme)
    page.get_by_role("tab", name="Lab").click()
    page.wait_for_selector(".fx-study .js-plotly-plot svg.main-svg")
    page.locator(".fx-numbers summary").first.click()
    page.wait_for_selector(".fx-table td")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    study = page.locator(".fx-study").first
    assert not study.locator(".fx-rerun").is_visible()  # a page does not offer it unless it was started so
    for name, file, begin in (("CSV", "builtin.csv", b"pictures,tree"), ("PNG", "builtin.png", b"\x89PNG")):
        with page.expect_download() as download:
            study.get_by_role("button", name=name).click()
        assert download.value.suggested_filename == file
        assert Path(download.value.path()).read_bytes().startswith(begin)


HOSTILE = "<b id=evil>x</b>${1+1}"
SCRIPT = f"""
import json, sys, time
for step in (1, 2):
    print(f"{{step}} of 2: timing {HOSTILE}", file=sys.stderr, flush=True)
    time.sleep(float(sys.argv[2]))
json.dump(json.load(open(sys.argv[3])), open(sys.argv[1], "w"))
"""


@pytest.fixture
def measuring(monkeypatch):
    """The page with measurements switched on; a study's command is a script that hands over the committed result."""
    waits = {"s": 0.1}

    def words(study, options, file):
        return [sys.executable, "-c", SCRIPT, str(file), str(waits["s"]), str(ASSETS / "bench" / f"{study.name}.json")]

    target = toy_target()
    engine = Engine(target, {"none": None}.__getitem__)
    engine.cost = lambda name: CostTable(tokens=[1, 64], verify_ms=[1.0, 1.0], level_ms=0.01)
    session = Session(lambda: engine)
    monkeypatch.setattr(lab, "command", words)
    page = build_page(session, [], reruns=True)
    _, url, _ = launch_page(page, "127.0.0.1", None, quiet=True)
    yield url, waits
    page.close(verbose=False)
    session.close()


def test_a_study_is_measured_on_this_machine(measuring, new_page):
    """Progress, cancel, then the result beside the committed one; text of the command is never markup."""
    url, waits = measuring
    page = new_page(1440, 900)
    page.goto(url)
    page.get_by_role("tab", name="Lab").click()
    study = page.locator(".fx-study", has=page.locator("code", has_text="bench fig6"))
    waits["s"] = 20
    study.get_by_role("button", name="Quick").click()
    said = study.locator(".fx-rerun-now")
    page.wait_for_function("(node) => node.textContent.startsWith('1 of 2')", arg=said.element_handle())
    assert said.text_content() == f"1 of 2: timing {HOSTILE}" and not page.locator("#evil").count()
    assert study.locator("progress").evaluate("(bar) => bar.value") == 0.5
    study.get_by_role("button", name="Cancel").click()
    page.wait_for_function("(node) => node.textContent.startsWith('Cancelled')", arg=said.element_handle())
    assert study.locator(".fx-shown").count() == 1
    waits["s"] = 0.1
    study.get_by_role("button", name="As committed").click()
    page.wait_for_function("(node) => node.textContent.startsWith('Done')", arg=said.element_handle())
    assert study.locator(".fx-shown h3").all_text_contents() == ["As committed", "This machine"]
    with page.expect_download() as download:
        study.get_by_role("button", name="CSV of: this machine").click()
    assert download.value.suggested_filename == "fig6-here.csv"
