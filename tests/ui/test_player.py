"""The player in a real browser, from a standalone page: what it shows is what the events say."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

from fovea_core.targets.shelf import LAB, LAB_ROWS, lab_label
from fovea_core.trace.codec import decode, unpack_entries, unpack_masses
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.trace.strip import trajectory_strip
from tests.sample_traces import CELLS, EOS, HOSTILE, SIZE_PX, sample_lines

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


def test_a_patch_whose_numbers_are_read_off_is_shown_as_cells(show):
    """Picking one draws the whole cells, as the key for exact cells does; without it the map is smooth."""
    page = show(sample_lines("scene"), **END)
    settle(page)
    smooth = page.evaluate("FOVEA.page.stage.canvas.toDataURL()")
    page.focus(".fv-scrub")
    page.keyboard.press("x")
    settle(page)
    assert page.evaluate("FOVEA.page.stage.canvas.toDataURL()") != smooth
    page.keyboard.press("x")
    settle(page)
    assert page.evaluate("FOVEA.page.stage.canvas.toDataURL()") == smooth
    page.evaluate("""() => {
      const { stage } = FOVEA.page, draw = stage.heat.draw.bind(stage.heat);
      window.exact = [];
      stage.heat.draw = (canvas, map, options) => { window.exact.push(options.exact); draw(canvas, map, options); };
    }""")
    page.locator(".fv-heat").click()
    settle(page)
    assert page.evaluate("window.exact.at(-1)") is True and page.evaluate("FOVEA.page.stage.picked") is not None


MADE = {
    ("builtin", "fovea"): "drafts by FOVEA",
    ("builtin", "none"): "drafts by FOVEA, memory switched off",
    ("builtin", "topk-16"): "drafts by FOVEA, always 16 entries",
    ("blind", "none"): "drafts by blind twin, no memory",
    (None, "none"): "plain decoding",
    ("org/small", "none"): "drafts by org/small, policy none",
}


def test_what_made_a_run_is_said_for_people(show):
    """Below the question in words; the ids of the trace stand in the numbers panel."""
    model = {"id": "builtin", "fingerprint": ""}
    lines = change(sample_lines("scene"), "run_started", target=model, drafter=model, policy="fovea", device="cpu, 2 threads")
    page = show(lines, **END)
    assert page.inner_text(".fv-meta") == "Embedded model · drafts by FOVEA · CPU, 2 threads"
    ids = "In the trace: target builtin · drafter builtin · policy fovea"
    assert page.inner_text(".fv-numbers .fv-ids") == ids
    for (drafter, policy), said in MADE.items():
        started = {"target": model, "drafter": drafter and {"id": drafter}, "policy": policy, "device": "cpu, 2 threads"}
        words = page.evaluate("(started) => FOVEA.makersOf(started)", started)
        assert words == f"Embedded model · {said} · CPU, 2 threads"


def test_the_sign_that_ends_the_answer_is_called_so(show):
    """It has no text; its number says nothing to a reader."""
    lines = sample_lines("scene")
    page, summary = show(lines, **END), summary_of(lines)
    assert summary.reason == "eos" and not summary.tokens[-1].raw
    page.locator(f".fv-answer [data-word='{len(summary.tokens) - 1}']").first.click()
    settle(page)
    assert page.inner_text(".fv-caption .fv-said") == "∎ the end of the answer"


def test_the_picture_stays_beside_the_words_and_off_the_strip(show, new_page):
    """Scrolling keeps it in the window only as long as answer, tree and numbers stand beside it."""
    page = show(sample_lines("scene"), page=new_page(1440, 700), **END)
    for at in range(0, page.evaluate("document.documentElement.scrollHeight"), 150):
        below, above = page.evaluate(
            """(at) => {
              scrollTo(0, at);
              const [look, strip] = [".fv-look", ".fv-wide"].map((name) => document.querySelector(name));
              return [strip.getBoundingClientRect().top, look.getBoundingClientRect().bottom];
            }""",
            at,
        )
        assert above <= below + 1, at


BARS = """() => {
  const bars = document.querySelector(".fv-bars"), seen = new Set();
  const { data } = bars.getContext("2d").getImageData(0, 0, bars.width, bars.height), style = getComputedStyle(bars);
  const hex = (at) => "#" + [...data.slice(at, at + 3)].map((part) => part.toString(16).padStart(2, "0")).join("");
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(hex(at));
  const wanted = ["accepted", "bonus"].map((name) => style.getPropertyValue(`--fv-${name}`).trim());
  return seen.size > 0 && [...seen].every((ink) => wanted.includes(ink));
}"""


def test_the_bars_above_the_scrubber_have_the_colours_of_the_theme(show):
    """Accepted and bonus tokens a step; another theme draws them anew."""
    page = show(sample_lines("scene"), **END)
    for scheme in ("light", "dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(BARS)


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


def test_sample_traces_are_lawful():
    """What these tests stand on keeps the laws of a trace, and its end token is the last one."""
    for variant in ("scene", "compared", "stopped", "hostile", "long", "wide", "flat"):
        summary = summary_of(sample_lines(variant))
        assert summary.rounds > 0 and (summary.reason == "stopped" or summary.ids[-1] == EOS)
        assert (summary.started.picture_width_px, summary.started.picture_height_px) == SIZE_PX


def without_reads(lines, drafter: str):
    """A run whose drafter reads nothing, as a rival's."""
    events = [event for line in lines[1:] if (event := json.loads(line))["kind"] != "memory_read"]
    kept = [lines[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(events))]
    return change(kept, "run_started", drafter={"id": drafter, "fingerprint": "0" * 64}, policy="none")


def test_a_run_without_maps_says_so(show):
    """A sentence stands where maps would be, with what a rival of the Lab has instead; a run with reads has none."""
    page = show(sample_lines(), **END)
    assert page.is_hidden(".fv-mapnote") and page.is_visible(".fv-tree .fv-dot")
    page = show(without_reads(sample_lines(), "lab-tiger"), page=page, **END)
    assert page.locator(".fv-tree .fv-dot").count() == 0, "a legend of dots that are not there"
    assert page.inner_text(".fv-strip .fv-foot").endswith("the drafter of this run reads no visual memory.")
    assert page.inner_text(".fv-mapnote") == (
        "The drafter of this run reads no visual memory, so its words have no maps; it reads a few image tokens that it "
        "chooses once a step, which are not recorded."
    )
    assert "drafts by TIGER-style, built from the abstract (Lab's budget)" in page.inner_text(".fv-meta")
    page = show(without_reads(sample_lines(), "blind"), page=page, **END)
    assert page.inner_text(".fv-mapnote").endswith("so its words have no maps.")
    page = show(without_reads(sample_lines(), "lab-<b>"), page=page, **END)
    assert page.inner_text(".fv-mapnote").endswith("so its words have no maps.")
    said = page.evaluate("FOVEA.maplessOf({ started: { drafter: { id: 'lab-hawk' }, policy: 'none' }, hasLooks: true })")
    assert said.endswith("pooled into cells. 'target looked' shows the target's own look.")
    assert page.evaluate("FOVEA.maplessOf({ started: { drafter: null, policy: 'none' } })") == ""


def test_the_labs_drafters_have_the_names_of_the_shelf(show):
    """What the player calls them is what page and API call them."""
    page = show(sample_lines(), **END)
    for name in LAB_ROWS:
        way = page.evaluate("(id) => FOVEA.wayOf({ drafter: { id }, policy: 'none' })", LAB + name)
        assert way == lab_label(name)
    assert (
        page.evaluate("FOVEA.wayOf({ drafter: { id: 'lab-fovea' }, policy: 'topk-4' })")
        == "FOVEA (Lab's budget), policy topk-4"
    )
