"""The player in a real browser, from a standalone page: what it shows is what the events say."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

from fovea_core.trace.codec import decode, unpack_entries, unpack_masses
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.trace.strip import trajectory_strip
from tests.sample_traces import CELLS, EOS, SIZE_PX, sample_lines

pytestmark = pytest.mark.browser
END = {"at": "end"}


def events_of(lines):
    return list(checked(decode(line) for line in lines[1:]))


def summary_of(lines):
    return fold(events_of(lines))


def read_of(token):
    """(entries, masses) of a folded token's read."""
    read = token.read
    return unpack_entries(read.entries), [byte / 255 * read.top_mass for byte in unpack_masses(read.masses)]


def change(lines, kind, **fields):
    """Lines with the first event of a kind changed."""
    at = next(i for i, line in enumerate(lines) if i and json.loads(line)["kind"] == kind)
    return [*lines[:at], json.dumps(json.loads(lines[at]) | fields), *lines[at + 1 :]]


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
    page.keyboard.press("x")
    assert page.evaluate("FOVEA.page.stage.exact") and page.locator("label:has-text('exact cells') input").is_checked()
    page.keyboard.press("x")
    assert not page.evaluate("FOVEA.page.stage.exact")
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
    assert page.locator(".fv-card-word").all_inner_texts() == [word.word.text.rstrip(",;:.") for word in strip]
    page.click(".fv-card >> nth=1")
    settle(page)
    assert page.get_attribute(".fv-answer .fv-pinned", "data-word") == str(expected[1])
    with page.expect_download() as download:
        page.click("text=Save strip (PNG)")
    assert download.value.path().read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    page.hover(".fv-cards > li >> nth=1")
    page.click(".fv-drop >> nth=1")
    assert page.evaluate("FOVEA.page.strip.words.map((w) => w.token.index)") == [expected[0], *expected[2:]]
    assert page.get_attribute("text=Add pinned word", "title") == "Put the pinned word into the strip"
    page.click("text=Add pinned word")
    assert page.evaluate("FOVEA.page.strip.words.map((w) => w.token.index)") == expected
    assert page.get_attribute("text=Add pinned word", "title") == "The pinned word stands in the strip"
    page.evaluate("FOVEA.page._release()")
    settle(page)
    assert page.get_attribute("text=Add pinned word", "title").startswith("Click a word of the answer first")


def test_sample_traces_are_lawful():
    """What these tests stand on keeps the laws of a trace, and its end token is the last one."""
    for variant in ("scene", "compared", "stopped", "hostile", "long", "wide", "flat"):
        summary = summary_of(sample_lines(variant))
        assert summary.rounds > 0 and (summary.reason == "stopped" or summary.ids[-1] == EOS)
        assert (summary.started.picture_width_px, summary.started.picture_height_px) == SIZE_PX
