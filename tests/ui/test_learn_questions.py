"""The three steps of the Learn tab that ask before they show."""

from __future__ import annotations

import json

import pytest

from fovea_core.trace.codec import unpack_entries, unpack_masses
from fovea_core.trace.fold import fold
from tests.sample_traces import sample_lines
from tests.ui.lessons import STRONG, Rounds, events_of, goto, slow_round, step_of
from tests.ui.test_player import settle

pytestmark = pytest.mark.browser


def near(value):
    return pytest.approx(value, abs=1e-6)


def test_which_words_survive(teach, lesson):
    """Before the check nothing tells the verdict; afterwards the count is what the events say of the ticks."""
    page = teach(*lesson)
    goto(page, "check")
    events = events_of(lesson[0])
    rounds, number = Rounds(events), slow_round(events)
    verdict, nodes = rounds.verdicts[number], rounds.nodes[number]
    tree = page.inner_html(".fl .fv-tree")
    assert not any(word in tree for word in ("accepted", "rejected", "bonus", "unverified"))
    drawn = page.locator(".fl g[data-key]")
    assert drawn.count() == 1 + len(nodes)
    ticked, clicked = 0, []
    for group in drawn.all()[1:4]:
        clicked.append(group.get_attribute("aria-label").split(",")[0])
        group.click()
        ticked += 1
    keys = page.evaluate("[...document.querySelectorAll('.fl-ticked')].map((g) => g.dataset.key)")
    assert len(keys) == ticked and page.inner_text(".fl-count") == f"{ticked} ticked."
    first = page.locator(".fl-boxes input").all()
    ids = page.evaluate("learn.answer('check').ticks")  # guesses are drawn branch by branch, and listed in the order of nodes
    assert len(set(ids)) == ticked and [box.is_checked() for box in first] == [node in ids for node in nodes]
    listed = page.locator(".fl-boxes label:has(input:checked)").all_text_contents()
    assert sorted(text.strip() for text in listed) == sorted(text.strip() for text in clicked)
    page.locator(".fl-boxes input:checked").first.click()
    assert page.inner_text(".fl-count") == f"{ticked - 1} ticked."
    page.click(".fl-act .fl-main")
    ids = page.evaluate("learn.answer('check').ticks")
    right = sum((node in ids) == (node in verdict.accepted) for node in nodes)
    said = page.inner_text(".fl-act [role=status]")
    assert f"You judged {right} of {len(nodes)} guesses as the target did." in said
    assert f"{verdict.verify_ms:.1f} ms" in said
    assert page.locator(".fl g.fv-accepted").count() == len(verdict.accepted)
    page.click(".fl g[data-key] >> nth=2")
    assert page.evaluate("learn.answer('check').ticks") == ids, "after the check ticks stay"
    page.click("text=Start over")
    assert step_of(page) == "cost"
    goto(page, "check")
    assert page.is_enabled(".fl-act .fl-main") and page.inner_text(".fl-count") == "0 ticked."


def test_which_patch(teach, lesson):
    """No map before the click; then the sum of mass where one clicked is that of the read, and the map is drawn."""
    page = teach(*lesson)
    goto(page, "look")
    assert page.evaluate(STRONG) == 0
    word = page.evaluate("[learn.word.token.index, learn.word.text]")
    token = fold(events_of(lesson[0])).tokens[word[0]]
    assert f"“{word[1]}”" in page.inner_text(".fl-todo") or word[1] in page.text_content(".fl-todo")
    masses = dict(zip(unpack_entries(token.read.entries), unpack_masses(token.read.masses), strict=True))
    top = unpack_entries(token.read.entries)[0]
    box = page.evaluate("(entry) => learn.run.place(entry).box", top)
    canvas = page.locator(".fl .fv-heat").bounding_box()
    at = {"x": (box[0] + box[2]) / 2 * canvas["width"], "y": (box[1] + box[3]) / 2 * canvas["height"]}
    page.click(".fl .fv-heat", position=at)
    settle(page)
    said = page.inner_text(".fl-act [role=status]")
    mass = masses[top] / 255 * token.read.top_mass
    assert said.startswith("Good eye.") and f"holds {round(100 * mass)} % of the mass" in said
    assert page.evaluate(STRONG) > 0
    other = next(e for e in range(196) if page.evaluate("(e) => learn.run.valid[e] === 1", e) and e not in masses)
    page.evaluate("(entry) => learn.pickPatch([entry])", other)
    assert "holds 0 % of the mass" in page.inner_text(".fl-act [role=status]")
    page.evaluate("learn.pickPatch([])")
    assert "not seen by the model" in page.inner_text(".fl-act [role=status]")
    goto(page, "many")
    assert page.get_attribute(".fl .fv-heat", "tabindex") is None and page.evaluate("learn.stage.picked") is None


def test_does_the_answer_change(teach, lesson):
    """Yes and no get the recorded fact: both runs' tokens and rounds; a run alone says so, a difference is not hidden."""
    lines, without = lesson
    a, b = fold(events_of(lines)), fold(events_of([None, *without]))
    page = teach(lines, without)
    goto(page, "same")
    assert "without the memory" not in page.inner_text(".fl-figure") and page.is_visible(".fl-unknown")
    for answer, begins in (("Yes", "It does not."), ("No", "Right.")):
        page.click(f".fl-act button:has-text('{answer}')")
        said = page.inner_text(".fl-act [role=status]")
        assert said.startswith(begins) and f"all {len(a.ids)} tokens are the same" in said
        assert f"{b.rounds} rounds instead of {a.rounds}" in said
    assert page.locator(".fl-lane").count() == 3
    boxes = page.evaluate("[...document.querySelectorAll('.fl-lane')].map((lane) => lane.getAttribute('viewBox'))")
    assert len(set(boxes)) == 1, "a block's height means the same in every lane"
    assert page.locator(".fl-lane >> nth=0").locator("rect.fl-kept").count() == sum(
        1 for event in events_of(lines) if event.kind == "round_verified" and event.accepted
    )
    changed = [json.loads(line) for line in without]
    for event in changed:  # the last token of the other recording is another one
        if event["kind"] == "finished":
            event["ids"][-1] += 1
    last = next(event for event in reversed(changed) if event["kind"] == "round_verified")
    last["emitted"][-1] += 1
    if last["bonus"] is None:
        drafted = next(
            e
            for e in changed
            if e["kind"] == "node_drafted" and [e["round"], e["node"]] == [last["round"], last["accepted"][-1]]
        )
        drafted["token"] += 1
    else:
        last["bonus"] += 1
    page = teach(lines, [json.dumps(event) for event in changed], page=page)
    goto(page, "same")
    page.click(".fl-act button:has-text('No')")
    assert f"the answers differ from token {len(a.ids)} on" in page.inner_text(".fl-act [role=status]")
    page = teach(sample_lines("scene"), page=page)
    goto(page, "same")
    page.click(".fl-act button:has-text('No')")
    assert "recorded alone" in page.inner_text(".fl-act [role=status]")
    page = teach(sample_lines("compared"), page=page)
    goto(page, "same")
    page.click(".fl-act button:has-text('No')")
    assert "Plain decoding, with no drafter" in page.inner_text(".fl-act [role=status]")
