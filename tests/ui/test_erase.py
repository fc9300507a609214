"""Erase and redraft in a real browser, on a toy target with a FOVEA drafter: brush, keys, waiting, cancel, refusals."""

from __future__ import annotations

import re
import threading

import pytest

from app.build import build_page, launch_page
from app.session import Session
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.engine import Engine
from fovea_core.examples import Example
from fovea_core.pictures import data_url, open_picture
from fovea_core.request import Request
from fovea_core.settings import RunSettings
from fovea_core.trace.codec import Header
from fovea_core.trace.events import CostTable, Shape
from fovea_core.trace.record import Trace, write
from tests.sample_traces import sample_lines
from tests.toys import reference, toy_drafter, toy_picture, toy_target
from tests.ui.test_page import ask, wait_status

QUESTION = "what is in the picture?"


class Served:
    """A running page whose drafter reads a visual memory, and one recorded run of it."""

    def __init__(self, folder) -> None:
        self.target = toy_target(3, cells=6)
        self.target.eos_ids = frozenset()
        inner = toy_drafter(self.target, 1, k_min=2, k_max=5).drafter
        said, _ = reference(self.target, toy_picture(), QUESTION, 16)
        head = inner.head.new_zeros(inner.head.shape)
        head[said] = self.target.head[said]  # right now and then: it drafts the answer's own tokens only
        drafter = FoveaDrafter(inner.attach(self.target.embedding, head), "builtin")
        self.engine = Engine(self.target, lambda name: drafter)
        self.engine.cost = lambda name: CostTable(tokens=[1, 64], verify_ms=[1.0, 1.0], level_ms=0.01)
        self.session = Session(lambda: self.engine)
        self.page = build_page(self.session, [self._example(folder)])
        _, self.url, _ = launch_page(self.page, "127.0.0.1", None, quiet=True)
        self.session.start()

    def _example(self, folder) -> Example:
        picture, trace = folder / "toy.png", folder / "toy.jsonl"
        toy_picture().save(picture)
        rgb = open_picture(picture).rgb
        settings = RunSettings(max_new_tokens=16, tree=Shape(depth=3, width=6, nodes=24))
        write(trace, Trace(Header(data_url(rgb)), tuple(self.engine.run(Request(rgb, QUESTION, settings)))))
        return Example("toy", "A toy", "scene", 0, QUESTION, None, picture, trace)

    def close(self) -> None:
        self.page.close(verbose=False)
        self.session.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = Served(tmp_path_factory.mktemp("examples"))
    yield running
    running.close()


def open_tab(served, new_page, width: int = 1440, **options):
    """The example at step 2, ready to erase."""
    page = new_page(width, 1000, **options)
    page.set_default_timeout(60_000)
    page.goto(served.url)
    page.click(".fx-examples button >> nth=0")
    to_step(page, 2)
    page.keyboard.press("e")
    page.wait_for_selector(".fv-erase")
    return page


def to_step(page, step: int) -> None:
    page.wait_for_function("document.querySelector('.fv-scrub')?.max > 1")
    page.locator(".fv-scrub").fill(str(step))
    page.wait_for_function("(n) => document.querySelector('.fv-count').textContent.startsWith(`step ${n} `)", arg=step)


def erased(page) -> int:
    """How many entries the panel says are erased."""
    page.wait_for_timeout(60)  # it is drawn with the next frame
    found = re.match(r"(\d+) of 24 entries", page.locator(".fv-erased").text_content())
    return int(found[1]) if found else 0


def said(page, pattern: str) -> str:
    page.wait_for_function(
        "(p) => new RegExp(p).test(document.querySelector('.fv-erase [role=status]').textContent)", arg=pattern
    )
    return page.locator(".fv-erase [role=status]").text_content()


def test_what_it_fetched_and_as_many_others(served, new_page):
    """A recorded run: both are one click each; two trees, words with changes, and that the answer stays."""
    page = open_tab(served, new_page)
    assert page.locator(".fv-go").is_disabled() and "Nothing is erased yet" in page.locator(".fv-erased").text_content()
    page.click("text=all this step fetched")
    fetched = erased(page)
    assert fetched > 1
    page.click(".fv-go")
    assert "the answer stays the same" in said(page, "redrafted without")
    assert page.locator(".fv-redrafted .fv-pair svg").count() == 2
    assert page.locator(".fv-redrafted .fv-changed").count() > 0
    assert "cannot change" in page.locator(".fv-stays").text_content()
    page.click("text=as many others")
    assert erased(page) == min(fetched, 24 - fetched)
    page.click(".fv-go")
    page.wait_for_function("document.querySelectorAll('.fv-redrafted .fv-chip').length === 2")
    said(page, "redrafted without")
    page.click(".fv-redrafted .fv-chip >> nth=0")
    assert f"without {fetched} entries" in page.locator(".fv-redrafted .fv-name").text_content()
    new = page.locator(".fv-pair > section >> nth=1").locator(".fv-changed >> nth=0")
    new.hover()
    page.wait_for_function("document.querySelector('.fv-caption').textContent.includes('was drafted')")
    to_step(page, 1)
    assert page.locator(".fv-redrafted").is_hidden()
    to_step(page, 2)
    assert page.locator(".fv-redrafted").is_visible()
    page.click("text=clear")
    assert erased(page) == 0


def test_brush_click_and_keys(served, new_page):
    """A drag erases what it touches, a second one restores; arrows and Space do it without a mouse; padding is no patch."""
    page = open_tab(served, new_page)
    box = page.locator(".fv-brush").bounding_box()
    at = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])  # noqa: E731
    row = (0.5 + 1) / 4  # 4 of 6 rows of cells lie on the picture
    for expected in (6, 0):
        page.mouse.move(*at(0.04, row))
        page.mouse.down()
        page.mouse.move(*at(0.96, row))
        page.mouse.up()
        assert erased(page) == expected
    page.mouse.click(*at(0.5 / 6, 0.5 / 4))
    assert erased(page) == 1
    page.locator(".fv-brush").focus()
    for key in ("ArrowLeft", "Space", "ArrowUp", "Enter", "Enter"):
        page.keyboard.press(key)
    assert erased(page) == 2
    assert "step 2" in page.locator(".fv-count").text_content()  # arrows on the picture move no step
    page.keyboard.press("e")
    assert page.locator(".fv-erase").is_hidden() and page.locator(".fv-brush").is_hidden()


def test_a_live_run_is_redrafted(served, new_page, tmp_path):
    page = new_page(1440, 1000)
    page.set_default_timeout(60_000)
    page.goto(served.url)
    page.wait_for_selector(".fx-examples button")
    ask(page, tmp_path, tokens=12, question=QUESTION)
    wait_status(page, "^Done")
    page.click("text=Skip to end")
    to_step(page, 1)
    page.click(".fv-toggle")
    page.click("text=all this step fetched")
    page.click(".fv-go")
    said(page, "redrafted without .* the answer stays the same")


def test_waiting_cancel_and_again(served, new_page):
    """The engine is busy: the panel says so, Cancel ends the wait at once, and the next redraft works."""
    page, gate = open_tab(served, new_page), threading.Event()
    served.session._thread.submit(gate.wait)
    try:
        page.click("text=all this step fetched")
        page.click(".fv-go")
        said(page, "next")
        assert page.locator(".fv-go").text_content() == "Cancel"
        page.click(".fv-go")
        said(page, "cancelled; the run is as it was")
    finally:
        gate.set()
    page.wait_for_function("document.querySelector('.fv-go').textContent === 'Redraft step 2'")
    page.click(".fv-go")
    said(page, "redrafted without")


def test_strangers_runs_are_refused_in_one_sentence(served, new_page):
    """A dropped trace of another target or picture: one sentence says so; a run without a memory has nothing to erase."""
    page = open_tab(served, new_page)
    drop(page, sample_lines("stopped"), "policy fovea · sample")
    assert not page.is_visible(".fv-erase")  # another run: a click on the picture asks for words again
    to_step(page, 1)
    page.keyboard.press("e")
    page.click("text=all this step fetched")
    page.click(".fv-go")
    said(page, "bring the original picture|another target|not one that is loaded")
    blind = [line.replace('"policy":"fovea"', '"policy":"none"') for line in sample_lines("stopped")]
    drop(page, blind, "policy none")
    to_step(page, 1)
    page.keyboard.press("e")
    page.wait_for_function(
        "document.querySelector('.fv-erased').textContent.includes('nothing to erase')"
    )  # with the next frame
    assert page.locator(".fv-go").is_disabled()


def drop(page, lines: list[str], meta: str) -> None:
    """Drop a trace on the player; ``meta``: what the line below its question says then."""
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.items.add(new File([text], "run.jsonl"));
          const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
          document.querySelector(".fv").dispatchEvent(drop);
        }""",
        "\n".join(lines),
    )
    page.wait_for_function("(meta) => document.querySelector('.fv-meta').textContent.includes(meta)", arg=meta)


def test_a_static_page_has_no_such_tool(show):
    page = show(sample_lines("compared"))
    page.locator(".fv-scrub").focus()
    page.keyboard.press("e")
    assert page.locator(".fv-erase, .fv-brush, .fv-toggle").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_light_dark_narrow(served, new_page, scheme, width):
    """Nothing reaches beyond the window; trees stand side by side where there is room."""
    page = open_tab(served, new_page, width, color_scheme=scheme)
    page.click("text=all this step fetched")
    page.click(".fv-go")
    said(page, "redrafted without")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Both at one moment: the page still scrolls smoothly to the redraft.
    boxes = "[...document.querySelectorAll('.fv-pair > section')].map((e) => e.getBoundingClientRect().toJSON())"
    old, new = page.evaluate(boxes)
    if width > 1100:
        assert new["x"] >= old["x"] + old["width"] and abs(new["y"] - old["y"]) < 4
    else:
        assert new["y"] >= old["y"] + old["height"]
