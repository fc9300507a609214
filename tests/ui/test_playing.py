"""Time in a real browser: a run that still comes, its pace and phases, and a step of a long one."""

from __future__ import annotations

import json

import pytest

from tests.sample_traces import sample_lines
from tests.ui.test_player import END, answer_text, change, settle, summary_of

pytestmark = pytest.mark.browser
SNAPSHOT = """async () => {
  const player = FOVEA.page;
  player.goto(player.run.steps);
  player.steps.box.open = true;
  player.steps.sync(player.run);
  await new Promise((done) => setTimeout(done, 400));
  return ['.fv-answer', '.fv-tree', '.fv-numbers', '.fv-steps tbody', '.fv-caption', '.fv-cards', '.fv-question', '.fv-meta',
    '.fv-pill'].map((part) => document.querySelector(part).innerHTML);
}"""


def test_live_append_gives_the_same_page_as_replay(show):
    """The same lines whole, or as a list that grows unevenly: the same elements in the end. Another run starts afresh."""
    lines = sample_lines("compared")
    whole = show(lines, **END).evaluate(SNAPSHOT)
    page = show([])
    for end in (0, 1, 2, 3, 10, 11, 12, 40, 41, 90, len(lines), len(lines)):
        page.evaluate("(lines) => FOVEA.page.set(lines)", lines[:end])
        settle(page)
    page.wait_for_function("() => FOVEA.page.stage.ready")
    assert page.evaluate(SNAPSHOT) == whole
    other = change(sample_lines("stopped"), "run_started", question="Another question?")
    page.evaluate("(lines) => FOVEA.page.set(lines)", other[:30])
    settle(page)
    assert page.inner_text(".fv-question") == "Another question?"
    page.evaluate("(lines) => FOVEA.page.set(lines)", other)
    page.wait_for_function("() => FOVEA.page.stage.ready")  # the same picture again
    page.evaluate("FOVEA.page.goto(FOVEA.page.run.steps)")
    settle(page)
    assert answer_text(page) == summary_of(other).text
    page.evaluate("FOVEA.page.set([])")
    settle(page)
    assert page.is_visible(".fv-empty")


def test_before_prefill_nothing_is_claimed(show):
    """Map and tree say that the target has not read the picture; in a live page the run is unfinished."""
    page = show([])
    lines = sample_lines("scene")
    page.evaluate("(lines) => FOVEA.page.set(lines)", lines[:2])
    settle(page)
    assert page.inner_text(".fv-caption") == "The target has not read the picture yet."
    assert page.inner_text(".fv-tree") == "Nothing is drafted yet."
    page.evaluate("(lines) => FOVEA.page.set(lines)", lines[:3])
    settle(page)
    assert "read the picture and wrote its first word" in page.inner_text(".fv-caption")
    assert "drafting starts with step 1" in page.inner_text(".fv-tree")
    page.evaluate("FOVEA.page.options.mode = 'live'; FOVEA.page._draw()")
    settle(page)
    assert page.inner_text(".fv-pill") == "unfinished"


def test_the_pace_follows_the_engine_until_one_is_chosen(show):
    """Rounds slower than 300 ms are shown in real time, also where all come at once; 'Skip to end' is no choice."""
    lines = sample_lines("scene")
    slow = [
        json.dumps(event | {"verify_ms": 900.0}) if event["kind"] == "round_verified" else json.dumps(event)
        for event in (json.loads(line) for line in lines[1:])
    ]
    page = show([])
    load = "(lines) => { FOVEA.page.load(lines); return FOVEA.page.pace; }"
    assert page.evaluate(load, [lines[0], *slow]) == "real"
    assert page.evaluate(load, lines) == "2"
    page.evaluate("(lines) => { FOVEA.page.load(lines); FOVEA.page.skipToEnd(); }", lines[:-1])
    assert page.evaluate("FOVEA.page.pace") == "real"
    assert page.evaluate(load, lines) == "2"
    page.evaluate("FOVEA.page._setPace('4', true)")
    assert page.evaluate(load, [lines[0], *slow]) == "4"


def test_playing_goes_through_the_phases_and_can_be_skipped(show, new_page):
    """propose, check, verdict, done at the chosen pace; with reduced motion only whole steps; skip shows the end."""
    watch = """(enough) => new Promise((done) => {
      const seen = [], player = FOVEA.page, draw = player._draw.bind(player);
      player._draw = () => {  // every change of phase asks for a drawing, also where a busy machine skips frames
        if (player.playing && seen[seen.length - 1] !== player.phase) seen.push(player.phase);
        draw();
        if (seen.length >= 6 || player.at >= enough) { player._draw = draw; done(seen); }
      };
      player.goto(0);
      player._setPace('4', true);
      player.toggle();
    })"""
    lines = sample_lines("scene")
    page = show(lines)
    seen = page.evaluate(watch, 14)
    start = seen.index("propose")
    assert seen[start : start + 4] == ["propose", "check", "verdict", "done"]
    assert page.inner_text(".fv-count") != f"step {summary_of(lines).rounds} of {summary_of(lines).rounds}"
    page.click("text=Skip to end")
    settle(page)
    assert answer_text(page) == summary_of(lines).text and page.locator(".fv-answer .fv-off[data-word]").count() == 0
    calm = show(lines, page=new_page(reduced_motion="reduce"))
    assert set(calm.evaluate(watch, 2)) <= {"done"}


def test_a_step_of_a_long_trace_changes_little(show):
    """500 tokens: a step touches few elements, however many there are; milliseconds are measured elsewhere, not tested."""
    lines = sample_lines("long")
    page = show(lines)
    assert len(summary_of(lines).tokens) == 500
    page.evaluate("FOVEA.page.goto(FOVEA.page.run.steps)")
    settle(page)
    touched = page.evaluate(
        """async () => {
          const player = FOVEA.page, counts = [], all = document.querySelectorAll(".fv *").length;
          let seen = 0;
          const watch = new MutationObserver((list) => { seen += list.length; });
          watch.observe(document.querySelector(".fv"), {subtree: true, childList: true, attributes: true});
          for (let i = 0; i < 12; i += 1) {
            seen = 0;
            player.goto(player.run.steps - 12 + i);
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            counts.push(seen);
          }
          watch.disconnect();
          return {all, most: Math.max(...counts), least: Math.min(...counts)};
        }"""
    )
    assert touched["least"] > 0 and touched["most"] < touched["all"] / 4, touched


def test_the_strip_follows_a_streaming_run_at_its_own_pace(show):
    """Its maps take longer than a step of a fast engine: a run that comes in bursts has few strips made on the way; what it
    has come to stands in the strip in the end, also where the run breaks off without a word."""
    lines = sample_lines("scene")
    whole = show(lines[:-1], **END)
    whole.wait_for_selector(".fv-card")
    words = whole.locator(".fv-card-word").all_inner_texts()
    page = show([], autoplay=True)
    made = page.evaluate(
        """async (lines) => {
          const player = FOVEA.page, { strip } = player, show = strip.show;
          let made = 0;
          strip.show = function (...given) { made += 1; return show.apply(this, given); };
          player._setPace("real", true);
          for (let end = 3; end < lines.length; end += 4) {
            player.set(lines.slice(0, end));
            await new Promise((done) => setTimeout(done, 10));
          }
          player.set(lines.slice(0, -1));
          return made;
        }""",
        lines,
    )
    rounds = sum('"round_verified"' in line for line in lines)
    assert made < rounds / 2, f"{made} strips of {rounds} rounds"
    page.wait_for_function("() => FOVEA.page.at === FOVEA.page.run.steps")
    shown = "(words) => [...document.querySelectorAll('.fv-card-word')].map((word) => word.innerText).join('|') === words"
    page.wait_for_function(shown, arg="|".join(words))
