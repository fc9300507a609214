"""The second map, where the target looked, in a real browser."""

from __future__ import annotations

import json

import pytest

from fovea_core.trace.codec import decode, unpack_entries
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from tests.sample_traces import sample_lines
from tests.ui.test_player import settle

pytestmark = pytest.mark.browser


def with_looks() -> list[str]:
    """A sample trace in which every token behind the first has a look of the target: the first read of its round."""
    lines, rounds = sample_lines("scene"), {}
    events = [json.loads(line) for line in lines[1:]]
    for event in events:
        if event["kind"] == "memory_read":
            rounds.setdefault(event["round"], event)
    out = []
    for event in events:
        if event["kind"] == "round_verified" and event["round"] in rounds:
            for depth, node in enumerate([0, *event["accepted"]][: len(event["emitted"])]):
                out.append(rounds[event["round"]] | {"source": "target", "node": node, "depth": depth, "gate": None})
        out.append(event)
    made = [lines[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(out))]
    list(checked(decode(line) for line in made[1:]))
    return made


def test_the_map_says_whose_it_is(show):
    """Hidden without looks; with them one press shows the target's, says so and counts what the drafter retrieved as well."""
    page = show(sample_lines("scene"), at="end")
    assert not page.is_visible(".fv-segments[aria-label='Whose map']")
    lines = with_looks()
    page = show(lines, at="end")
    tokens = fold(checked(decode(line) for line in lines[1:])).tokens
    word = next(token for token in tokens if token.how == "accepted" and token.read is not None)
    page.click(f".fv-answer [data-word='{word.position}'] >> nth=0")
    settle(page)
    assert "retrieved entries of" in page.inner_text(".fv-caption")
    page.click(".fv-segments[aria-label='Whose map'] [data-value='target']")
    settle(page)
    caption = page.inner_text(".fv-caption")
    look, read = (set(unpack_entries(event.entries)) for event in (word.look, word.read))
    assert f"The target looked here as it said this: {len(look)} entries" in caption
    assert f"{len(look & read)} of them among the {len(read)} that the drafter retrieved" in caption
    assert page.get_attribute(".fv-heat", "aria-label").startswith("Map of where the target looked")
    bonus = next(token for token in tokens if token.how == "bonus" and token.look is not None)
    page.click(f".fv-answer [data-word='{bonus.position}'] >> nth=0")
    settle(page)
    assert "The target looked here" in page.inner_text(".fv-caption") and "among" not in page.inner_text(".fv-caption")
    shown = page.evaluate("FOVEA.page.run.words.map((w) => FOVEA.page.run.lookOf(w)?.event.node ?? null)")
    assert shown == [None if token.look is None else token.look.node for token in tokens]
    page.click(".fv-segments[aria-label='Whose map'] [data-value='drafter']")
    settle(page)
    assert "target looked" not in page.inner_text(".fv-caption")


def test_a_look_at_no_node_is_refused(show):
    """A stranger's look must lie on a node of its round, in the round under way, and once."""
    page, lines = show([]), with_looks()
    at = next(i for i, line in enumerate(lines) if i and json.loads(line).get("source") == "target")
    add = """(lines) => { const run = new FOVEA.Run(); try { lines.forEach((line) => run.add(line)); return "fine"; }
        catch (error) { return error.message; } }"""
    assert page.evaluate(add, lines) == "fine"
    look = json.loads(lines[at])
    later = [json.dumps(json.loads(line) | {"n": json.loads(line)["n"] + 1}) for line in lines[at + 1 :]]
    for changed in (
        [*lines[:at], json.dumps(look | {"node": 4000}), *lines[at + 1 :]],
        [*lines[:at], json.dumps(look | {"round": 9}), *lines[at + 1 :]],
        [*lines[: at + 1], json.dumps(look | {"n": look["n"] + 1}), *later],
    ):
        assert "is damaged" in page.evaluate(add, changed)
