"""What the player says of a picture outside its target's world: one sentence above the answer, on the strip, nowhere else."""

from __future__ import annotations

import io
import json

import pytest
from PIL import Image

from fovea_core.trace.events import OUTSIDE
from tests.sample_traces import sample_lines

pytestmark = pytest.mark.browser
SAYS = "() => { const e = document.querySelector('.fv-outside'); return e.hidden ? '' : e.textContent; }"


def lines_that_say(outside, variant: str = "scene") -> list[str]:
    """The sample trace with this value in its prefill event."""
    lines = sample_lines(variant)
    lines[2] = json.dumps({**json.loads(lines[2]), "outside": outside})
    return lines


def test_the_notice_comes_with_prefill_and_goes_with_its_run(show):
    """Shown before any round is, above the answer; gone with the next run; never for a run that is inside or unchecked."""
    lines = lines_that_say(True)
    page = show([])
    assert page.evaluate(SAYS) == ""
    page.evaluate("(lines) => FOVEA.page.set(lines)", lines[:2])
    page.wait_for_function("() => FOVEA.page.run.started && !document.querySelector('.fv-head').hidden")
    assert page.evaluate(SAYS) == ""
    page.evaluate("(lines) => FOVEA.page.set(lines)", lines[:3])
    page.wait_for_function("(words) => document.querySelector('.fv-outside').textContent === words", arg=OUTSIDE)
    assert page.is_visible(".fv-outside") and page.evaluate("FOVEA.page.run.steps") == 0
    page.evaluate("(lines) => FOVEA.page.set(lines)", lines)
    page.wait_for_function("() => FOVEA.page.run.finished")
    notice, answer = (page.locator(name).bounding_box() for name in (".fv-outside", ".fv-answer"))
    assert page.evaluate(SAYS) == OUTSIDE and notice["y"] + notice["height"] <= answer["y"]
    for other in (lines_that_say(False), lines_that_say(None), sample_lines("stopped")):
        page.evaluate("(lines) => FOVEA.page.load(lines, 'end')", other)
        page.wait_for_function("() => document.querySelector('.fv-outside').hidden")
        assert page.evaluate(SAYS) == ""
        page.evaluate("(lines) => FOVEA.page.load(lines, 'end')", lines)
        page.wait_for_function("() => !document.querySelector('.fv-outside').hidden")


@pytest.mark.parametrize("hostile", ["<img src=x onerror=window.hacked=1>", 1, [], {}, "true"])
def test_what_is_no_truth_value_is_damage(show, hostile):
    """The page judges as the engine does, and shows none of it."""
    page = show([])
    said = page.evaluate(
        "(lines) => { try { FOVEA.page.load(lines); return ''; } catch (error) { return error.message; } }",
        lines_that_say(hostile),
    )
    assert "outside" in said and page.evaluate(SAYS) == "" and not page.evaluate("window.hacked")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_notice_can_be_read_and_stands_on_the_exported_strip(show, new_page, scheme):
    """Contrast of at least 4.5 in both themes; the strip's PNG has the sentence below its cards, in a colour of its own."""
    page = show(lines_that_say(True), page=new_page(color_scheme=scheme), at="end")
    ink, paper = page.evaluate(
        "() => { const s = getComputedStyle(document.querySelector('.fv-outside')); return [s.color, s.backgroundColor]; }"
    )
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
    marked = saved_strip(page)
    page.evaluate("(lines) => FOVEA.page.load(lines, 'end')", lines_that_say(False))
    page.wait_for_function("() => FOVEA.page.stage.ready && FOVEA.page.strip.words.length > 0")
    plain = saved_strip(page)
    assert marked.width == plain.width and marked.height == plain.height + 60
    below = marked.crop((0, plain.height - 6, marked.width, marked.height)).getcolors(1_000_000)
    assert any(colour == (0xA3, 0x3F, 0x00) for _, colour in below)


def saved_strip(page) -> Image.Image:
    with page.expect_download() as download:
        page.click("text=Save strip (PNG)")
    return Image.open(io.BytesIO(download.value.path().read_bytes())).convert("RGB")


def luminance(css: str) -> float:
    """Relative luminance (WCAG 2) of ``rgb(r, g, b)``."""
    values = [int(value) / 255 for value in css.removeprefix("rgb(").removesuffix(")").split(",")]
    parts = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
