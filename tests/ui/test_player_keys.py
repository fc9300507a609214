"""The player by keyboard alone: the focus is never lost, patches can be asked for; and long answers, seen or not."""

from __future__ import annotations

import json

import pytest

from fovea_core.bench.page import lengthened
from fovea_core.trace.codec import encode_header
from fovea_core.trace.record import read
from tests.sample_traces import sample_lines
from tests.ui.test_player import END, count, events_of, settle, summary_of

pytestmark = pytest.mark.browser
FOCUSED = "() => document.querySelector('.fv').contains(document.activeElement)"


def test_keys_work_on_after_what_had_the_focus_is_made_anew(show):
    """A node of the tree, a place in the caption, a word in the list of a patch, a card taken out of the strip."""
    page = show(sample_lines("scene"), **END)
    page.keyboard.press("Home")
    page.evaluate("FOVEA.page.goto(2)")
    settle(page)
    page.click(".fv-branches .fv-node >> nth=1")
    for at in (3, 4):
        page.keyboard.press("ArrowRight")
        assert count(page).startswith(f"step {at} of") and page.evaluate(FOCUSED)
    page.evaluate("() => FOVEA.page.toWord(FOVEA.page.run.words.findIndex((word) => FOVEA.page.run.readOf(word)))")
    settle(page)
    page.click(".fv-caption .fv-hint .fv-link >> nth=0")
    settle(page)
    assert page.is_visible(".fv-usedby") and page.evaluate(FOCUSED)
    page.keyboard.press("Escape")
    settle(page)
    assert page.is_hidden(".fv-usedby")
    page.click(".fv-caption .fv-hint .fv-link >> nth=0")
    settle(page)
    page.click(".fv-usedby .fv-chip >> nth=0")
    settle(page)
    assert page.evaluate(FOCUSED)
    cards = page.locator(".fv-strip .fv-drop").count()
    page.click(".fv-strip .fv-drop >> nth=0")
    assert page.locator(".fv-strip .fv-drop").count() == cards - 1 and page.evaluate(FOCUSED)


def test_a_patch_is_asked_for_by_key(show):
    """Arrows move over the picture, Enter asks; the words are those of a click there, which leaves the arrows to the steps."""
    page = show(sample_lines("scene"), **END)
    page.focus(".fv-heat")
    start = page.evaluate("FOVEA.middleOf(FOVEA.page.run)")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("FOVEA.page.stage.cursor") == start
    page.keyboard.press("ArrowRight")
    moved = page.evaluate("FOVEA.page.stage.cursor")
    there = page.evaluate(
        "([a, b]) => [a, b].map((entry) => FOVEA.page.run.place(entry)).map(({ row, column }) => [row, column])", [start, moved]
    )
    assert there[1][0] == there[0][0] and there[1][1] == there[0][1] + 1
    assert page.inner_text(".fv [aria-live=polite].fv-unseen, .fv .fv-live") == page.evaluate(
        "FOVEA.page.run.nameOf(FOVEA.page.stage.cursor)"
    )
    page.keyboard.press("Enter")
    settle(page)
    by_key = page.inner_text(".fv-usedby")
    assert page.evaluate("FOVEA.page.patch") == [moved] and by_key
    page.keyboard.press("Escape")
    box = page.evaluate("(entry) => FOVEA.page.run.place(entry).box", moved)
    heat = page.locator(".fv-heat").bounding_box()
    x, y = heat["x"] + heat["width"] * (box[0] + box[2]) / 2, heat["y"] + heat["height"] * (box[1] + box[3]) / 2
    page.mouse.click(x, y)
    settle(page)
    assert page.inner_text(".fv-usedby") == by_key
    step = page.evaluate("FOVEA.page.at")
    page.keyboard.press("ArrowLeft")
    assert count(page).startswith(f"step {step - 1} of")


def test_a_link_to_a_pinned_node_names_its_own_step(show):
    """However far the reader has walked on since."""
    page = show(sample_lines("scene"), **END)
    page.evaluate("FOVEA.page.goto(2)")
    settle(page)
    page.click(".fv-branches .fv-node.fv-rejected >> nth=0")
    link = page.evaluate("FOVEA.writePlace(FOVEA.page)")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert link.startswith("step=2&node=") and page.evaluate("FOVEA.writePlace(FOVEA.page)") == link


def test_the_end_of_the_answer_has_a_name_wherever_it_is_told(show):
    """A target that wanted to end, a drafter that did: both have no text."""
    lines = sample_lines("scene")
    eos = summary_of(lines).ids[-1]
    at = next(i for i, line in enumerate(lines) if i and json.loads(line).get("rejected"))
    rejected = json.loads(lines[at])["rejected"]
    verdict = json.loads(lines[at])
    verdict["rejected"] = [item | {"target_token": eos, "target_text": ""} for item in rejected]
    page = show([*lines[:at], json.dumps(verdict), *lines[at + 1 :]], **END)
    page.evaluate("(step) => FOVEA.page.goto(step)", verdict["round"] + 1)
    settle(page)
    page.click(".fv-branches .fv-node.fv-rejected >> nth=0")
    settle(page)
    assert "target ∎ the end of the answer (p" in page.inner_text(".fv-caption")
    label = page.get_attribute(".fv-branches .fv-node.fv-rejected >> nth=0", "aria-label")
    assert "the target said ∎ (p" in label


def test_the_tree_tells_a_near_miss_from_a_wild_guess(show):
    """By look as well: every rejected node has the class that its chip in the answer has."""
    lines = sample_lines("wide")
    page = show(lines, **END)
    told = {}
    for event in events_of(lines):
        if event.kind == "round_verified" and event.rejected:
            page.evaluate("(step) => FOVEA.page.goto(step)", event.round + 1)
            settle(page)
            for node in event.rejected:
                key = f"n:{event.round + 1}:{node.node}"
                told[key] = page.evaluate(
                    "(key) => [...document.querySelectorAll(`[data-key='${key}']`)].map((e) =>"
                    " ['near', 'wild'].find((kind) => e.classList.contains(`fv-${kind}`)) || 'plain')",
                    key,
                )
    assert told and all(len(kinds) == 2 and len(set(kinds)) == 1 for kinds in told.values()), told


def test_a_picture_saved_in_the_browser_has_its_scale(show):
    """Strip and step: the ends of the palette stand on the sheet, and so do 0 and the largest mass."""
    page = show(sample_lines("scene"), **END)
    written = page.evaluate(
        """() => {
          const { run, stage } = FOVEA.page, sheet = document.createElement("canvas"), pen = sheet.getContext("2d"), texts = [];
          Object.assign(sheet, { width: 700, height: 80 });
          const real = pen.fillText.bind(pen);
          pen.fillText = (text, ...place) => (texts.push(text), real(text, ...place));
          const reads = run.words.map((word) => run.readOf(word)).filter(Boolean);
          stage.legendOn(pen, 10, 40, reads, true);
          const row = pen.getImageData(0, 30, 700, 1).data, colours = new Set();
          for (let x = 0; x < 700; x += 1) colours.add([...row.slice(4 * x, 4 * x + 3)].join());
          return { texts, colours: colours.size, most: run.largestMass, grown: FOVEA.drawStep(FOVEA.page).height };
        }"""
    )
    assert written["texts"][0] == "0 %" and "of mass per entry" in written["texts"][1] and written["colours"] > 100
    assert written["grown"] > 0


def test_an_oversized_picture_of_a_dropped_trace_is_not_painted(show):
    """One sentence, and the picture is let go of."""
    page = show(sample_lines("scene"), **END)
    page.evaluate(
        "() => { const wide = document.createElement('canvas'); Object.assign(wide, { width: 1400, height: 4 });"
        " FOVEA.page.stage.picture.src = wide.toDataURL(); }"
    )
    page.wait_for_function("() => !document.querySelector('.fv-note').hidden")
    assert "larger than 1,280 px" in page.inner_text(".fv-note")
    assert page.get_attribute(".fv-picture", "src") is None


@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "hidden"])
def test_a_thousand_tokens_that_arrive_in_pieces(show, hidden):
    """Live, in batches; in a tab behind another no frame is drawn meanwhile. Nothing is lost, and a step stays quick."""
    trace = lengthened(read("assets/traces/blue-hose.jsonl"), tokens=1000)
    lines = [encode_header(trace.header), *trace.lines()]
    page = show(lines[:3], autoplay=True)
    page.evaluate(
        "() => { FOVEA.page.clear(); FOVEA.page._setPace('real', true); window.frames_ = window.requestAnimationFrame; }"
    )
    if hidden:
        page.evaluate("() => { window.requestAnimationFrame = () => 0; }")
    page.evaluate(
        """async (lines) => {
          for (let at = 0; at < lines.length; at += 60) {
            FOVEA.page.set(lines.slice(0, at + 60));
            await new Promise((done) => setTimeout(done, 2));
          }
        }""",
        lines,
    )
    if hidden:
        page.evaluate("() => { window.requestAnimationFrame = window.frames_; FOVEA.page.frame = null; FOVEA.page._draw(); }")
    page.evaluate("FOVEA.page.skipToEnd()")
    steps = summary_of(lines).rounds
    assert count(page) == f"step {steps} of {steps}"
    chips = ".fv-answer .fv-word[data-word]:not(.fv-off)"
    assert page.locator(chips).count() == len(summary_of(lines).tokens) > 1000
    assert page.inner_text(".fv-pill") == "finished"
