"""The player around its words: colours, widths, what made a run, runs that lack something, hostile text."""

from __future__ import annotations

import json

import pytest

from fovea_core.targets.shelf import LAB, LAB_ROWS, lab_label
from tests.sample_traces import HOSTILE, sample_lines
from tests.ui.test_player import END, answer_text, change, settle, summary_of

pytestmark = pytest.mark.browser


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
    assert said.endswith("pooled into cells. Shown instead: where the target looked.")
    read = "{ started: { drafter: { id: 'x' }, policy: 'watched-8' }, hasLooks: true, hasReads: true }"
    assert page.evaluate(f"FOVEA.mapNoteOf({read})").endswith("'target looked' shows the target's own look.")
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
