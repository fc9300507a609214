"""The whole page in a real browser on a toy target: examples without a model, live runs, Stop, wrong input."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request

import pytest

from app.build import build_page, launch_page
from app.session import Session
from fovea_core.engine import Engine
from fovea_core.examples import Example
from fovea_core.trace.events import CostTable
from tests.sample_traces import draw_picture, sample_lines
from tests.test_app import Slow
from tests.toys import ScriptDrafter, coin, reference, toy_picture, toy_target

QUESTION = "what is in the picture?"
TITLES = ("A worker", "A second worker")


class Served:
    """A running page and the levers of its engine."""

    def __init__(self, folder) -> None:
        self.may_load = threading.Event()
        self.target = toy_target()
        self.target.eos_ids = frozenset()
        truth, _ = reference(self.target, toy_picture(0), QUESTION, 12)
        self.drafter = Slow(ScriptDrafter("script", coin(0.6), truth, self.target.vocab_size))
        self.session = Session(self._load)
        self.page = build_page(self.session, [self._example(folder, n, title) for n, title in enumerate(TITLES)])
        _, self.url, _ = launch_page(self.page, "127.0.0.1", None, quiet=True)
        self.session.start()

    def _load(self) -> Engine:
        assert self.may_load.wait(120)
        engine = Engine(self.target, lambda name: self.drafter)
        # Measured on a busy machine, or while a test slows the drafter, drafting would not pay and nothing would be drafted.
        engine.cost = lambda name: CostTable(tokens=[1, 64], verify_ms=[1.0, 1.0], level_ms=0.01)
        return engine

    def _example(self, folder, number: int, title: str) -> Example:
        picture, trace = folder / f"{number}.png", folder / f"{number}.jsonl"
        draw_picture().save(picture)
        trace.write_text("\n".join(sample_lines(seed=7 + number)) + "\n")
        return Example(str(number), title, "scene", number, "?", None, picture, trace)

    def close(self) -> None:
        self.may_load.set()
        self.page.close(verbose=False)
        self.session.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = Served(tmp_path_factory.mktemp("examples"))
    yield running
    running.close()


@pytest.fixture
def opened(served, new_page):
    """The page in a fresh tab, engine at full speed."""
    served.drafter.delay_s = 0.0
    return open_tab(served, new_page)


def open_tab(served, new_page, width: int = 1440, **options):
    page = new_page(width, 1000, **options)
    page.set_default_timeout(60_000)
    page.goto(served.url)
    page.wait_for_selector(".fx-examples button")
    return page


def wait_status(page, pattern: str, timeout_s: float = 90) -> str:
    """The status line once it matches; a failure tells what it said instead."""
    until = time.monotonic() + timeout_s
    while True:
        text = page.locator(".fx-status p").text_content()
        if re.search(pattern, text):
            return text
        assert time.monotonic() < until, f"waited for {pattern!r}, the page says {text!r}"
        page.wait_for_timeout(50)


def wait_idle(served, page, timeout_s: float = 60) -> None:
    """The run that was just forgotten ends within a round, and what it still had on its way has arrived."""
    before, until = served.drafter.proposed, time.monotonic() + timeout_s
    while served.session._line:
        assert time.monotonic() < until, "the run goes on"
        page.wait_for_timeout(50)
    page.wait_for_timeout(1_000)
    assert served.drafter.proposed <= before + 1


def bring(page, tmp_path, name: str = "toy.png", data: bytes | None = None) -> None:
    path = tmp_path / name
    if data is None:
        toy_picture(0).save(path)
    else:
        path.write_bytes(data)
    page.set_input_files("#fx-picture input[type=file]", str(path))


def ask(page, tmp_path, tokens: int | None = None, question: str = QUESTION) -> None:
    bring(page, tmp_path)
    wait_status(page, "60 × 40 px")
    page.fill("#fx-question textarea", question)
    if tokens:
        page.click("#fx-settings > button")
        set_tokens(page, tokens)
    page.click("#fx-go")


def set_tokens(page, tokens: int) -> None:
    """The two inputs of the slider agree once the page has taken the number over; a slider just drawn may miss the first."""
    box, bar = page.get_by_label("number input for Most new tokens"), page.get_by_label("range slider for Most new tokens")
    bar.wait_for()
    until = time.monotonic() + 60
    while bar.input_value() != str(tokens) or box.input_value() != str(tokens):
        assert time.monotonic() < until, f"the slider stays at {bar.input_value()}"
        box.fill(str(tokens))
        box.press("Tab")
        page.wait_for_timeout(200)


def words(page) -> int:
    return page.locator(".fv-answer .fv-word:not(.fv-rejected):not(.fv-unverified)").count()


def test_examples_open_before_any_model_is_there(served, opened):
    """The engine's loading is held back: the recorded run shows all the same, with its picture and question."""
    assert not served.session.ready
    opened.click(f".fx-examples button:has-text('{TITLES[1]}')")
    opened.wait_for_selector(".fv-answer .fv-word")
    assert "recorded run" in wait_status(opened, "recorded")
    assert opened.locator("#fx-question textarea").input_value().startswith("Describe the worker")
    opened.wait_for_selector("#fx-picture img")
    opened.click(f".fx-examples button:has-text('{TITLES[0]}')")
    opened.click(f".fx-examples button:has-text('{TITLES[0]}')")
    wait_status(opened, "recorded")
    served.may_load.set()


def test_a_live_run_streams_compares_and_equals_plain_decoding(served, opened, tmp_path):
    served.may_load.set()
    ask(opened, tmp_path, tokens=12)
    text = wait_status(opened, "^Done")
    assert re.fullmatch(r"Done: 12 tokens in \d+ rounds, tau [\d.]+, [\d.]+ × plain decoding, measured, same text\.", text)
    opened.click(".fv-transport >> text=Skip to end")
    opened.wait_for_function("document.querySelector('.fv-pill').textContent === 'token limit reached'")
    assert words(opened) >= 12
    assert opened.locator(".fv-question").text_content() == QUESTION


def test_a_question_of_markup_stays_text(served, opened, tmp_path):
    served.may_load.set()
    evil = "<img src=x onerror=window.hacked=1> ${window.hacked=2} {{7*7}} </script><svg onload=window.hacked=3>"
    ask(opened, tmp_path, tokens=4, question=evil)
    wait_status(opened, "^Done")
    assert opened.locator(".fv-question").text_content() == evil
    assert opened.evaluate("window.hacked") is None


def test_nothing_asked_nothing_brought(served, opened, new_page):
    """Each missing thing is one friendly sentence; spaces and zero-width spaces are no question; what is shown stays."""
    opened.click(".fx-examples button >> nth=0")
    wait_status(opened, "recorded run")
    opened.fill("#fx-question textarea", "")
    opened.click("#fx-go")
    assert wait_status(opened, "Please") == "Please ask a question about the picture."
    opened.fill("#fx-question textarea", "  \u200b ")
    opened.click("#fx-go")
    wait_status(opened, "ask a question")
    assert words(opened) > 0
    fresh = open_tab(served, new_page)
    fresh.fill("#fx-question textarea", "What?")
    fresh.click("#fx-go")
    wait_status(fresh, "bring a picture")
    assert fresh.locator("#fx-question textarea").input_value() == "What?"


def test_a_bad_picture_is_one_sentence_and_the_next_one_works(served, opened, tmp_path):
    served.may_load.set()
    opened.fill("#fx-question textarea", "What is it?")
    bring(opened, tmp_path, "photo.png", b"hello, I am no picture")
    wait_status(opened, "not a picture")
    assert opened.locator(".fx-status").get_attribute("data-state") == "trouble"
    bring(opened, tmp_path)
    wait_status(opened, "60 × 40 px")
    opened.click("#fx-picture button[aria-label='Remove Image']")
    wait_status(opened, "Take an example")
    bring(opened, tmp_path, "again.png", b"no picture either")  # by now Gradio has made the box anew
    wait_status(opened, "not a picture")
    assert opened.locator("#fx-question textarea").input_value() == "What is it?"


def test_what_is_asked_for_comes_into_view(served, new_page):
    """On a phone an example, and on a low window a run, are scrolled to."""
    page = open_tab(served, new_page, 390)
    page.locator("#fx-examples button").first.click()
    page.wait_for_selector("#fx-player .fv-answer .fv-word")
    page.wait_for_function(
        "() => { const { top } = document.querySelector('#fx-player').getBoundingClientRect(); return top > -2 && top < 500 }"
    )


def test_a_tiff_is_shown_as_the_model_gets_it(opened, tmp_path):
    """A browser cannot draw a TIFF; the preview becomes a picture it can."""
    path = tmp_path / "scan.tiff"
    toy_picture(0).save(path)
    opened.set_input_files("#fx-picture input[type=file]", str(path))
    wait_status(opened, "px")
    opened.wait_for_function("document.querySelector('#fx-picture img')?.naturalWidth === 60")


def test_stop_keeps_the_part_and_a_new_run_works(served, opened, tmp_path):
    served.may_load.set()
    served.drafter.delay_s = 0.15
    ask(opened, tmp_path, tokens=200)
    opened.wait_for_selector(".fv-answer .fv-word")
    opened.click("#fx-stop")
    opened.click("#fx-stop")
    text = wait_status(opened, "^Stopped after")
    assert "is kept" in text
    opened.wait_for_function("document.querySelector('.fv-pill').textContent.includes('stopped')")
    served.drafter.delay_s = 0.0
    set_tokens(opened, 5)
    opened.click("#fx-go")
    wait_status(opened, "^Done: 5 tokens")


def test_run_while_an_answer_streams_begins_anew(served, opened, tmp_path):
    """The old answer ends; the new one begins when its stream has closed, and comes to its end."""
    served.may_load.set()
    served.drafter.delay_s = 0.15
    ask(opened, tmp_path, tokens=200)
    opened.wait_for_selector(".fv-answer .fv-word")
    set_tokens(opened, 5)
    opened.click("#fx-go")
    wait_status(opened, "^Done: 5 tokens")
    served.drafter.delay_s = 0.0


def test_an_example_comes_back_after_a_dropped_trace(opened):
    """A file dropped on the player hides the example; choosing the example again shows it."""
    opened.click(".fx-examples button >> nth=0")
    opened.wait_for_function("document.querySelector('.fv-pill').textContent === 'finished'")
    drop_trace(opened)
    opened.wait_for_function("document.querySelector('.fv-pill').textContent === 'stopped'")
    wait_status(opened, "trace of your own")
    opened.click(".fx-examples button >> nth=0")
    opened.wait_for_function("document.querySelector('.fv-pill').textContent === 'finished'")


@pytest.mark.parametrize("way", ["drop", "load"])
def test_a_trace_opened_during_a_run_ends_it_and_stays(served, opened, tmp_path, way):
    """Nothing that the run still had on its way covers the trace or its status."""
    served.may_load.set()
    served.drafter.delay_s = 0.1
    ask(opened, tmp_path, tokens=200)
    opened.wait_for_selector(".fv-answer .fv-word")
    if way == "drop":
        drop_trace(opened)
    else:
        (tmp_path / "run.jsonl").write_text("\n".join(sample_lines("stopped")) + "\n")
        opened.locator("#fx-input > input[type=file]").set_input_files(str(tmp_path / "run.jsonl"))
    wait_status(opened, "trace of your own|A recorded run")
    said, shown = opened.locator(".fx-status p").text_content(), opened.locator(".fv-question").text_content()
    assert shown != QUESTION
    wait_idle(served, opened)
    assert opened.locator(".fx-status p").text_content() == said
    assert opened.locator(".fv-question").text_content() == shown
    served.drafter.delay_s = 0.0


def drop_trace(page) -> None:
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.items.add(new File([text], "run.jsonl"));
          const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
          document.querySelector(".fv").dispatchEvent(drop);
        }""",
        "\n".join(sample_lines("stopped")),
    )


def test_an_error_inside_the_run_keeps_what_came(served, opened, tmp_path):
    served.may_load.set()
    calls = []

    def hook():
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("broken on purpose")

    served.drafter.hook = hook
    try:
        ask(opened, tmp_path, tokens=60)
        wait_status(opened, "broke off")
    finally:
        served.drafter.hook = lambda: None
    opened.wait_for_selector(".fv-answer .fv-word")
    opened.click("#fx-go")
    wait_status(opened, "^Done")


def test_two_tabs_do_not_mix(served, new_page, tmp_path):
    """Both run at once; each shows its own question and its own picture."""
    served.may_load.set()
    served.drafter.delay_s = 0.02
    pages = []
    for question in ("first question?", "second question?"):
        pages.append((open_tab(served, new_page), question))
    for page, question in pages:
        ask(page, tmp_path, tokens=20, question=question)
    for page, question in pages:
        wait_status(page, "^Done")
        assert page.locator(".fv-question").text_content() == question
    served.drafter.delay_s = 0.0


def test_looking_at_an_example_ends_the_run(served, opened, tmp_path):
    """The run stops computing and does not write over the example."""
    served.may_load.set()
    served.drafter.delay_s = 0.1
    ask(opened, tmp_path, tokens=200)
    opened.wait_for_selector(".fv-answer .fv-word")
    opened.click(".fx-examples button >> nth=0")
    wait_status(opened, "recorded run")
    wait_idle(served, opened)
    assert "recorded" in opened.locator(".fx-status p").text_content()
    served.drafter.delay_s = 0.0


def test_traces_load_and_hostile_files_are_refused(opened, tmp_path):
    good, bad = tmp_path / "run.jsonl", tmp_path / "<img src=x onerror=alert(1)>.jsonl"
    good.write_text("\n".join(sample_lines("stopped")) + "\n")
    bad.write_text('{"format": "fovea-trace", "version": 9}\n')
    opened.click(".fx-examples button >> nth=0")
    wait_status(opened, "recorded run")
    chooser = opened.locator("#fx-input > input[type=file]")
    chooser.set_input_files(str(bad))
    assert "newer explorer" in wait_status(opened, "newer")
    assert words(opened) > 0
    chooser.set_input_files(str(good))
    assert re.search(r"Stopped: .* with the settings below", wait_status(opened, "Stopped"))
    opened.wait_for_function("document.querySelector('.fv-pill').textContent === 'stopped'")


def test_nothing_but_the_api_is_a_public_endpoint(served):
    """The four of app/api.py and no listener of the page, also where undocumented ones are asked for."""
    for asked in ("", "?all_endpoints=true"):
        info = json.load(urllib.request.urlopen(f"{served.url}gradio_api/info{asked}"))
        assert sorted(info["named_endpoints"]) == ["/compare", "/explain", "/models", "/render_filmstrip"]
        assert info["unnamed_endpoints"] == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_light_dark_narrow(served, new_page, scheme, width):
    """Nothing reaches beyond the window; the player stands beside the input when there is room, else below it."""
    page = open_tab(served, new_page, width, color_scheme=scheme)
    page.click(".fx-examples button >> nth=0")
    page.wait_for_selector(".fv-answer .fv-word")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    run = "#fx-run" if width > 1100 else "#fx-player"  # in one column the run has no box of its own, only its parts have
    boxes = f"['#fx-input', '{run}'].map((id) => document.querySelector(id).getBoundingClientRect().toJSON())"
    left, right = page.evaluate(boxes)  # both at once: the page may still be scrolling to what was asked for
    if width > 1100:
        assert right["x"] >= left["x"] + left["width"] and abs(right["y"] - left["y"]) < 40
    else:
        assert right["y"] >= left["y"] + left["height"]
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((v) => v < 60)")
    assert dark == (scheme == "dark")
