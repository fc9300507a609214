"""The model panel in a real browser: another model is loaded, checked and asked; unless configured, it is not there at all."""

from __future__ import annotations

import json

import pytest

from app.build import build_page, launch_page
from app.models import Models
from app.session import Session
from fovea_core.engine import Engine
from tests.test_models import copied_folder
from tests.test_registry import store
from tests.toys import toy_picture, toy_target

HOSTILE = "<img src=x onerror=alert(1)> ${1+1}"
AWAY = "Qwen/Qwen2.5-VL-7B-Instruct"


@pytest.fixture
def served(tmp_path):
    """A toy in the embedded model's place, two tiny checkpoints, one with a hostile name, and a known one that is not here.

    Every test has an app of its own: which model is loaded would go on into the next one, or into a second try."""
    place = tmp_path
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place / "hub"))
    large = store("qwen", place / "large")
    models = Models([str(large), str(copied_folder(large, place / HOSTILE)), AWAY], [], "cpu")
    session = Session(lambda: Engine(toy_target(), lambda name: None), offers=models.offers)
    page = build_page(session, [], models)
    _, url, _ = launch_page(page, "127.0.0.1", None, quiet=True)
    session.start().result()
    yield url, session, str(large), place
    page.close(verbose=False)
    session.close()
    patch.undo()


def open_tab(url, new_page, width: int = 1440, **options):
    page = new_page(width, 1000, **options)
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_selector(".fx-model select option", state="attached")
    return page


def reads(page, what: str, start: str, part: str = "") -> None:
    """Wait until the text of ``what`` starts with ``start`` and has ``part``: a page draws each component when it comes."""
    seen = f"document.querySelector({json.dumps(what)}).innerText.trim()"
    page.wait_for_function(f"{seen}.startsWith({json.dumps(start)}) && {seen}.includes({json.dumps(part)})")


def test_another_model_is_loaded_checked_asked_and_given_back(served, new_page, tmp_path):
    url, _, large, _ = served
    page, other = open_tab(url, new_page), open_tab(url, new_page, 400, color_scheme="dark")
    assert not page.is_visible(".fx-model-load") and not page.is_visible(".fx-model-report")
    page.select_option(".fx-model select", large)
    assert "of memory (weights" in page.inner_text(".fx-model-about")
    page.click(".fx-model-load")
    reads(page, ".fx-model-now", "large: checked on this machine.")
    reads(page, "#fx-notice", "This model was not made for drawn pictures")
    with page.expect_download() as saved:
        page.click(".fx-model-report")
    report = json.loads(saved.value.path().read_text())
    assert saved.value.suggested_filename == "doctor-large.json" and report["target"] == "large" and len(report["checks"]) == 6
    picture = tmp_path / "p.png"
    toy_picture().save(picture)
    for tab in (page, other):
        tab.set_input_files("#fx-picture input[type=file]", str(picture))
        tab.wait_for_selector("#fx-picture img")
        tab.fill("#fx-question textarea", "what is it?")
    page.click("#fx-settings button")
    page.get_by_label("Most new tokens").first.fill("6")
    page.click("#fx-go")
    reads(page, "#fx-line p", "Done: ", "same text")
    other.click("#fx-go")  # set for the embedded model still
    reads(other, "#fx-line p", "Another model was loaded")
    reads(other, ".fx-model-now", "large: checked on this machine.")
    assert other.evaluate("document.documentElement.scrollWidth") <= 400
    page.select_option(".fx-model select", "builtin")
    page.click(".fx-model-load")
    page.wait_for_function(
        "document.querySelector('.fx-model-load').hidden && !document.querySelector('.fx-model select').disabled"
    )
    reads(page, "#fx-notice", "The embedded model knows drawn Worksite pictures only")


def test_what_is_not_here_says_what_to_do_and_names_are_only_text(served, new_page):
    url, _, _, place = served
    page = open_tab(url, new_page)
    page.select_option(".fx-model select", AWAY)
    about = page.inner_text(".fx-model-about")
    assert str(place / "hub" / "models--Qwen--Qwen2.5-VL-7B-Instruct") in about
    assert page.inner_text(".fx-model-about code") == f"python -m fovea_core doctor --target {AWAY}"
    assert not page.is_visible(".fx-model-load")
    assert page.locator(".fx-model option").nth(2).text_content() == HOSTILE and page.locator(".fx-model img").count() == 0


def test_without_configured_models_there_is_no_panel(new_page):
    session = Session(lambda: None)
    blocks = build_page(session, [])
    _, url, _ = launch_page(blocks, "127.0.0.1", None, quiet=True)
    try:
        page = new_page()
        page.goto(url)
        page.wait_for_selector("#fx-go")
        assert page.locator(".fx-model").count() == 0
    finally:
        blocks.close(verbose=False)
        session.close()
