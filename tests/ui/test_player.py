"""The player in a real browser, from a standalone page: what it shows is what the events say."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter

import pytest

from fovea_core.page import standalone_html
from fovea_core.trace.codec import decode, unpack_entries, unpack_masses
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.trace.strip import trajectory_strip
from tests.sample_traces import CELLS, EOS, HOSTILE, SIZE_PX, sample_lines

pytestmark = pytest.mark.browser
END = {"at": "end"}


@pytest.fixture
def show(new_page, tmp_path):
    """``show(lines, at=...)`` opens the standalone page of a trace and waits until it is drawn."""

    def open_trace(lines, page=None, **options):
        page = page or new_page()
        file = tmp_path / "trace.html"
        file.write_text(standalone_html(lines, autoplay=options.pop("autoplay", False), **options), "utf-8")
        page.goto(file.as_uri())
        if lines:
            page.wait_for_function("() => FOVEA.page && FOVEA.page.stage.ready && FOVEA.page.stage.drawn")
        return page

    return open_trace


def events_of(lines):
    return list(checked(decode(line) for line in lines[1:]))


def summary_of(lines):
    return fold(events_of(lines))


def read_of(token):
    """(entries, masses) of a folded token's read."""
    read = token.read
    return unpack_entries(read.entries), [byte / 255 * read.top_mass for byte in unpack_masses(read.masses)]


def answer_text(page):
    chips = ".fv-answer .fv-word[data-word], .fv-answer .fv-rest"
    return page.evaluate("(chips) => [...document.querySelectorAll(chips)].map((e) => e.textContent).join('')", chips)


def settle(page):
    """Two frames, so that what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def count(page):
    settle(page)
    return page.inner_text(".fv-count")


@pytest.mark.parametrize("variant", ["scene", "wide", "hostile", "flat"])
def test_chips_join_to_the_answer_and_carry_its_verdicts(show, variant):
    """Joined chips = decoded answer; how each token came = the Python fold of the same events."""
    lines = sample_lines(variant)
    page, summary = show(lines, **END), summary_of(lines)
    assert answer_text(page) == summary.text
    shown = page.evaluate("FOVEA.page.run.words.map((w) => [w.token, w.status, Boolean(FOVEA.page.run.readOf(w))])")
    assert shown == [[token.token, token.how, token.read is not None] for token in summary.tokens]
    marks = Counter(
        page.evaluate("[...document.querySelectorAll('.fv-answer .fv-word')].map((e) => e.className.split(' ')[1].slice(3))")
    )
    assert (marks["accepted"], marks["rejected"]) == (summary.accepted, summary.rejected)
    assert marks["unverified"] <= summary.unverified and marks["first"] == 1
    assert page.inner_text(".fv-pill") == "finished"
    assert page.inner_text(".fv-figures div:nth-child(1) .fv-figure") == f"{summary.tau:.2f}"


def test_unfinished_characters_stay_joined(show):
    """A token that completes no character shows its bytes, the next one the whole character; the joined text is exact."""
    lines = sample_lines("stopped")
    events = [json.loads(line) for line in lines[1:]]
    verdict = next(event for event in events if event["kind"] == "round_verified" and len(event["accepted"]) >= 2)
    first, second = verdict["accepted"][:2]
    for event in events:
        if event["kind"] == "node_drafted" and event["round"] == verdict["round"] and event["node"] == first:
            event.update(text="", bytes="c3")
        if event["kind"] == "node_drafted" and event["round"] == verdict["round"] and event["node"] == second:
            event["text"] = "é"
    verdicts = [event for event in events if event["kind"] == "round_verified"]
    verdicts[-1].update(bonus_text="", bonus_bytes="e282")
    pieces = []
    for event in verdicts:
        drafted = {e["node"]: e["text"] for e in events if e["kind"] == "node_drafted" and e["round"] == event["round"]}
        pieces += [*(drafted[node] for node in event["accepted"]), event["bonus_text"] or ""]
    text = events[1]["text"] + "".join(pieces)
    events[-1]["text"] = text + "\ufffd"  # what a decoder makes of the two bytes left open
    page = show([lines[0], *(json.dumps(event) for event in events)], **END)
    assert "é" in text and answer_text(page) == text + "\ufffd"
    assert page.locator(".fv-word.fv-accepted .fv-joined[data-sign=c3]").count() == 1


def test_a_word_shows_what_its_parent_retrieved(show):
    """Pinning a word shows K, captured mass and strongest cell of its parent's read, with heat there and none far away."""
    lines = sample_lines("compared")
    page, summary = show(lines, **END), summary_of(lines)
    token = max((t for t in summary.tokens if t.read), key=lambda t: t.read.peak)
    entries, masses = read_of(token)
    page.click(f"[data-word='{token.position}']")
    settle(page)
    caption = page.inner_text(".fv-caption")
    row, column = divmod(entries[0], CELLS)
    assert f"{len(entries)} retrieved entries of {page.evaluate('FOVEA.page.run.validCount')}" in caption
    assert f"row {row + 1}, column {column + 1} ({round(masses[0] * 100)} %)" in caption
    assert page.get_attribute(f"[data-word='{token.position}']", "aria-pressed") == "true"
    box = events_of(lines)[1].tiles[0].box

    def alpha(entry):
        """Opacity of the heat at the centre of a cell."""
        r, c = divmod(entry, CELLS)
        x = box[0] + (c + 0.5) / CELLS * (box[2] - box[0])
        y = box[1] + (r + 0.5) / CELLS * (box[3] - box[1])
        return page.evaluate(
            "([x, y]) => { const c = document.querySelector('.fv-heat');"
            " return c.getContext('2d').getImageData(x * c.width, y * c.height, 1, 1).data[3] }",
            [x, y],
        )

    valid = page.evaluate("[...FOVEA.page.run.valid]")
    near = {entries[0] + d for d in (-1, 0, 1, CELLS, -CELLS, CELLS + 1, CELLS - 1, 1 - CELLS, -1 - CELLS)}
    idle = [e for e in range(CELLS * CELLS) if valid[e] and e not in entries and e not in near]
    assert alpha(entries[0]) > 150
    assert alpha(idle[0]) < 20
    page.keyboard.press("Escape")
    settle(page)
    assert page.locator(".fv-pinned").count() == 0


def test_bonus_words_and_words_without_a_read_say_so(show):
    """A bonus token is the target's own; below the depth limit a word was drafted without a look."""
    lines = sample_lines("flat")
    page, summary = show(lines, **END), summary_of(lines)
    bonus = next(token for token in summary.tokens if token.how == "bonus")
    page.click(f"[data-word='{bonus.position}']")
    settle(page)
    assert "the target's own word, not drafted" in page.inner_text(".fv-caption")
    page.click(".fv-caption .fv-link")  # what the drafter tried there
    settle(page)
    assert "rejected in step" in page.inner_text(".fv-caption")
    blind = next(token for token in summary.tokens if token.how == "accepted" and token.read is None)
    page.click(f"[data-word='{blind.position}']")
    settle(page)
    assert "drafted without a look" in page.inner_text(".fv-caption")
    seen = next(token for token in summary.tokens if token.read)
    page.click(f"[data-word='{seen.position}']")
    settle(page)
    assert page.is_visible(".fv-flat") and "no preference" in page.inner_text(".fv-flat")


def test_rejected_nodes_tell_a_near_miss_from_a_wild_guess(show):
    """A rejected node opens with its own map, the target's word and both chances; the two kinds of miss look different."""
    lines = sample_lines("wide")
    page = show(lines, **END)
    page.click(".fv-segments [data-value='all']")
    verdicts = [event for event in events_of(lines) if event.kind == "round_verified"]
    for limit, kind, words in ((0.1, "near", "A near miss"), (0.001, "wild", "A wild guess")):
        step, judged = next(
            (step, r)
            for step, v in enumerate(verdicts, 1)
            for r in v.rejected
            if (math.exp(r.logp) >= limit if kind == "near" else math.exp(r.logp) < limit)
        )
        chip = page.locator(f".fv-answer [data-key='n:{step}:{judged.node}']")
        assert f"fv-{kind}" in chip.get_attribute("class")
        chip.click()
        settle(page)
        caption = page.inner_text(".fv-caption")
        assert words in caption and f"rank {judged.rank + 1}" in caption and "retrieved entries" in caption
        assert f"target {judged.target_text.strip()}" in caption


def test_a_patch_lists_the_words_that_used_it(show):
    """Patch to words: same words, same order, same masses as a brute-force search of the folded trace."""
    lines = sample_lines("scene")
    page, summary = show(lines, **END), summary_of(lines)
    strongest = max((t for t in summary.tokens if t.read), key=lambda t: t.read.top_mass)
    entry = read_of(strongest)[0][0]
    expected = []
    for token in summary.tokens:
        entries, masses = read_of(token) if token.read else ([], [])
        if entry in entries:
            expected.append((-masses[entries.index(entry)], token.position))
    row, column = divmod(entry, CELLS)
    left, top, right, bottom = events_of(lines)[1].tiles[0].box
    canvas = page.locator(".fv-heat").bounding_box()
    x = (left + (column + 0.5) / CELLS * (right - left)) * canvas["width"]
    y = (top + (row + 0.5) / CELLS * (bottom - top)) * canvas["height"]
    page.click(".fv-heat", position={"x": x, "y": y})
    settle(page)
    assert f"row {row + 1}, column {column + 1} was used by {len(expected)} word" in page.inner_text(".fv-usedby")
    shown = page.evaluate("FOVEA.page.used.map(({ word, mass }) => [word.index, mass])")
    assert [index for index, _ in shown] == [position for _, position in sorted(expected)]
    assert [mass for _, mass in shown] == pytest.approx([-mass for mass, _ in sorted(expected)], abs=1e-6)
    assert page.locator(".fv-answer .fv-used").count() == len(expected)
    page.click(".fv-usedby .fv-chip")
    settle(page)
    assert page.get_attribute(".fv-answer .fv-pinned", "data-word") == str(sorted(expected)[0][1])


def test_keys_move_only_while_the_player_has_the_focus(show):
    """Arrow keys, Shift, Home, End, palettes; nothing happens while the focus is elsewhere; ghosts keep the layout."""
    lines = sample_lines("scene")
    page, steps = show(lines), summary_of(lines).rounds
    assert count(page) == f"step 0 of {steps}"
    page.keyboard.press("ArrowRight")
    assert count(page) == f"step 0 of {steps}"
    page.focus(".fv-scrub")
    for key, at in (("ArrowRight", 1), ("Shift+ArrowRight", 6), ("ArrowLeft", 5), ("End", steps), ("Home", 0)):
        page.keyboard.press(key)
        assert count(page) == f"step {at} of {steps}"
    visible = page.evaluate("document.querySelectorAll('.fv-answer [data-word]:not(.fv-ghost):not(.fv-off)').length")
    assert visible == 1
    page.keyboard.press("3")
    assert page.get_attribute("[data-value=magma]", "aria-pressed") == "true"
    page.keyboard.press("?")
    assert page.is_visible(".fv-help")
    page.keyboard.press("Escape")
    assert not page.is_visible(".fv-help")
    page.focus(".fv-answer [tabindex='0']")
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator(".fv-answer .fv-pinned").count() == 1


def test_the_tree_has_real_branches(show):
    """Every drafted node is drawn once, right of its parent, with its verdict; root and bonus stand beside them."""
    lines = sample_lines("wide")
    page = show(lines, **END)
    events = events_of(lines)
    verdicts = [event for event in events if event.kind == "round_verified"]
    step, verdict = max(enumerate(verdicts, 1), key=lambda pair: len(pair[1].rejected))
    page.evaluate("(step) => FOVEA.page.goto(step)", step)
    settle(page)
    nodes = [event for event in events if event.kind == "node_drafted" and event.round == verdict.round]
    kinds = Counter(page.evaluate("[...document.querySelectorAll('.fv-tree .fv-node')].map((g) => g.classList[1].slice(3))"))
    expected = {"root": 1, "accepted": len(verdict.accepted), "rejected": len(verdict.rejected)}
    assert {kind: kinds[kind] for kind in expected} == expected
    assert kinds["unverified"] == len(verdict.unverified) and kinds["bonus"] == (verdict.bonus is not None)
    assert page.locator(".fv-tree .fv-branch").count() == len(nodes) + (verdict.bonus is not None)
    ends = page.evaluate(
        "[...document.querySelectorAll('.fv-tree .fv-branch')].map((p) =>"
        " [p.getPointAtLength(0).x, p.getPointAtLength(p.getTotalLength()).x])"
    )
    assert all(left < right for left, right in ends)
    places = page.evaluate(
        "[...document.querySelectorAll('.fv-tree .fv-box')].map((r) => [r.x.baseVal.value, r.y.baseVal.value])"
    )
    assert len({tuple(place) for place in places}) == len(places), "two nodes lie on each other"


def test_the_strip_follows_its_rule_and_can_be_edited(show):
    """Same words and tokens as the engine's rule; a click jumps; words can be taken out and put in; PNG is a picture."""
    lines = sample_lines("compared")
    page, summary = show(lines, **END), summary_of(lines)
    page.wait_for_selector(".fv-card")
    strip = trajectory_strip(summary)
    expected = [word.token.position for word in strip]
    assert len(expected) >= 3
    assert page.evaluate("FOVEA.page.strip.words.map((w) => w.token.index)") == expected
    assert page.locator(".fv-card-word").all_inner_texts() == [word.word.text for word in strip]
    page.click(".fv-card >> nth=1")
    settle(page)
    assert page.get_attribute(".fv-answer .fv-pinned", "data-word") == str(expected[1])
    with page.expect_download() as download:
        page.click("text=Save strip (PNG)")
    assert download.value.path().read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    page.hover(".fv-cards > li >> nth=1")
    page.click(".fv-drop >> nth=1")
    assert page.evaluate("FOVEA.page.strip.words.map((w) => w.token.index)") == [expected[0], *expected[2:]]
    page.click("text=Add pinned word")
    assert page.evaluate("FOVEA.page.strip.words.map((w) => w.token.index)") == expected


def test_hostile_text_stays_text(show):
    """Markup in question, answer, names and rejected tokens is shown literally; nothing runs, nothing is added to the page."""
    lines = sample_lines("hostile")
    started = json.loads(lines[1])
    started.update(policy=HOSTILE[:90], device=HOSTILE[:150], target={"id": HOSTILE, "fingerprint": ""})
    page = show([lines[0], json.dumps(started), *lines[2:]], **END)
    page.click(".fv-segments [data-value='all']")
    for chip in page.query_selector_all(".fv-answer .fv-word:not(.fv-off)")[:20]:
        chip.hover()
    page.click("summary:has-text('Table of steps')")
    page.wait_for_selector(".fv-steps td")
    assert page.evaluate("window.hacked") is None
    assert answer_text(page) == HOSTILE
    assert "<img src=x onerror=window.hacked=1>" in page.inner_text(".fv-question")
    assert "</script><script>" in page.inner_text(".fv-meta")
    assert page.locator("#player img").count() == 1 and page.locator("#player :is(script, style, iframe, object)").count() == 0
    assert page.is_visible(".fv-answer")
    assert page.locator(".fv-answer .fv-sign[data-sign='U+202E']").count() >= 1
    assert "\u202e" not in page.inner_text(".fv-question")


def test_a_run_without_detail_and_a_plain_run_are_shown(show):
    """Recorded with rounds only: the text stands below its chips; without a drafter: every word is the target's own."""
    lines = sample_lines("compared")
    events = [json.loads(line) for line in lines[1:]]
    events = [event for event in events if event["kind"] not in ("memory_read", "node_drafted")]
    events[0]["settings"]["detail"] = "rounds"
    sparse = [lines[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(events))]
    page = show(sparse, **END)
    assert page.inner_text(".fv-natural") == summary_of(sparse).text
    assert page.inner_text(".fv-figures div:nth-child(2) .fv-figure") == f"{summary_of(sparse).compared.speedup:.2f}×"
    assert "Nothing was drafted" not in page.inner_text(".fv-tree") and "recorded rounds only" in page.inner_text(".fv-tree")
    words = ["A", " red", " cone"]
    plain, times = [events[0] | {"drafter": None}, events[1] | {"text": words[0], "token": 1}], {"draft_ms": 0, "select_ms": 0}
    for number, word in enumerate(words[1:]):
        verdict = {
            "accepted": [],
            "rejected": [],
            "unverified": [],
            "bonus": 2,
            "bonus_text": word,
            "emitted": [2],
            "pruned": 0,
        }
        plain.append({"kind": "round_verified", "round": number, **verdict, **times, "verify_ms": 5})
    sums = {"rounds": 2, "drafted": 0, "accepted": 0, "tau": 1.0, "ids": [1, 2, 2], "text": "A red cone", "reason": "length"}
    plain.append(events[-2] | sums)
    lines = [lines[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(plain))]
    page = show(lines, **END)
    assert answer_text(page) == summary_of(lines).text == "A red cone"
    assert page.locator(".fv-answer .fv-bonus").count() == 2 and "Nothing was drafted" in page.inner_text(".fv-tree")
    assert page.get_attribute(".fv-mark", "data-sign") == "token limit reached"


def test_a_stopped_run_is_marked(show):
    """'stopped' stands at the answer and in the head; the partial answer is kept."""
    lines = sample_lines("stopped")
    page = show(lines, **END)
    assert page.inner_text(".fv-pill") == "stopped"
    assert page.get_attribute(".fv-mark", "data-sign") == "stopped"
    assert answer_text(page) == summary_of(lines).text
    page = show(lines[:-1], **END)
    assert page.inner_text(".fv-pill") == "ended early"


def change(lines, kind, **fields):
    """Lines with the first event of a kind changed."""
    at = next(i for i, line in enumerate(lines) if i and json.loads(line)["kind"] == kind)
    return [*lines[:at], json.dumps(json.loads(lines[at]) | fields), *lines[at + 1 :]]


def bad_files():
    lines = sample_lines("scene")
    one = base64.b64encode((999).to_bytes(2, "little")).decode()
    yield "cut", "\n".join(lines)[:-40], "is damaged"
    yield "page", "<!doctype html><p>hello", "no events"
    yield "text", "hello\nworld", "not a trace"
    yield "version", json.dumps(json.loads(lines[0]) | {"version": 2}) + "\n" + lines[1], "no usable version"
    svg = "data:image/svg+xml;base64,PHN2Zy8+"
    yield "svg", json.dumps(json.loads(lines[0]) | {"picture": svg}) + "\n" + lines[1], "no usable picture"
    yield "missing", "\n".join([*lines[:4], *lines[5:]]), "running number"
    yield "entry", "\n".join(change(lines, "memory_read", entries=one, masses="/w==")), "packed entries"
    yield "range", "\n".join(change(lines, "memory_read", captured=7.5)), "its captured is not possible"
    yield "unknown", "\n".join(change(lines, "node_drafted", html="<b>")), "unknown field"
    yield "type", "\n".join(change(lines, "node_drafted", token="5")), "its token is not possible"
    yield "verdict", "\n".join(change(lines, "round_verified", accepted=[])), "does not fit"


def drop(page, text):
    """Drops a file with ``text`` onto the player."""
    page.evaluate(
        """(text) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([text], 'a.jsonl'));
          const drop = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true });
          document.querySelector('.fv').dispatchEvent(drop);
        }""",
        text,
    )


def test_a_dropped_trace_opens_and_a_damaged_one_says_why(show):
    """One sentence for each kind of damage, what was shown stays; then a good file opens. Never a script error."""
    page = show([])
    assert page.is_visible(".fv-empty")
    drop(page, "\n".join(sample_lines("stopped")) + "\n")
    page.wait_for_function("() => FOVEA.page.stage.ready")
    before = answer_text(page)
    for name, text, words in bad_files():
        drop(page, text)
        page.wait_for_function("(words) => document.querySelector('.fv-note').textContent.includes(words)", arg=words)
        sentence = page.inner_text(".fv-note")
        assert sentence.endswith(".") and sentence.count(".") <= 2, name
        assert answer_text(page) == before, name
    drop(page, "\n".join(sample_lines("scene")))
    page.wait_for_function("() => document.querySelector('.fv-note').hidden && FOVEA.page.run.finished")
    settle(page)
    assert answer_text(page) == summary_of(sample_lines("scene")).text


def test_a_picture_that_is_none_is_a_sentence(show, new_page):
    """A picture whose bytes are no picture says so instead of showing an empty frame."""
    lines = sample_lines("scene")
    header = json.dumps(json.loads(lines[0]) | {"picture": "data:image/png;base64,AAAA"})
    page = new_page()
    show([], page=page)
    drop(page, "\n".join([header, *lines[1:]]))
    page.wait_for_function("() => document.querySelector('.fv-note').textContent.includes('picture in this trace is damaged')")


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


def test_saved_trace_is_the_trace(show):
    """The saved file holds exactly the lines that were shown, and replays."""
    lines = sample_lines("scene")
    page = show(lines, **END)
    with page.expect_download() as download:
        page.click("text=Save trace (JSON)")
    assert download.value.path().read_text("utf-8").splitlines() == lines


@pytest.mark.parametrize("width", [360, 768, 1100, 1900])
def test_fits_every_width_with_targets_large_enough(show, new_page, width):
    """No sideways scrolling of the page, every visible button at least 32 px high, the picture inside the window."""
    page = show(sample_lines("compared"), page=new_page(width=width), **END)
    page.click("summary:has-text('Colours and scale')")
    page.click("[data-word='6']")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        "[...document.querySelectorAll('.fv button:not(.fv-link), .fv summary, .fv input[type=range]')]"
        ".filter((e) => e.offsetParent && e.getBoundingClientRect().height < 32).map((e) => e.textContent)"
    )
    assert small == []


def test_light_and_dark(show, new_page):
    """A standalone page follows the system; inside an element of class dark it is dark whatever the system says."""
    ink = "getComputedStyle(document.querySelector('.fv')).color"
    light = show(sample_lines("scene"), page=new_page(color_scheme="light")).evaluate(ink)
    page = show(sample_lines("scene"), page=new_page(color_scheme="dark"))
    dark = page.evaluate(ink)
    assert light == "rgb(28, 27, 25)" and dark == "rgb(236, 234, 229)"
    page = show(sample_lines("scene"), page=new_page(color_scheme="light"))
    page.evaluate("document.body.classList.add('dark')")
    assert page.evaluate(ink) == dark


def test_an_exported_page_is_small_and_strict(show, new_page):
    """100 steps and the player, without the picture, in at most 150 kB; its policy lets nothing in."""
    lines = sample_lines("long")
    upto = [i for i, line in enumerate(lines) if i and json.loads(line)["kind"] == "round_verified"][99]
    text = standalone_html(lines[: upto + 1])
    picture = len(json.loads(lines[0])["picture"])
    assert len(text) - picture <= 150_000, f"{(len(text) - picture) / 1000:.0f} kB"
    page = show(lines[: upto + 1], page=new_page(console=False), **END)
    blocked = page.evaluate("fetch('https://example.org/').then(() => 'let through', () => 'blocked')")
    assert blocked == "blocked"


def test_sample_traces_are_lawful():
    """What these tests stand on keeps the laws of a trace, and its end token is the last one."""
    for variant in ("scene", "compared", "stopped", "hostile", "long", "wide", "flat"):
        summary = summary_of(sample_lines(variant))
        assert summary.rounds > 0 and (summary.reason == "stopped" or summary.ids[-1] == EOS)
        assert (summary.started.picture_width_px, summary.started.picture_height_px) == SIZE_PX
