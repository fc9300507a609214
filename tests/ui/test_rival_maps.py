"""What the Lab's trained rivals read of the picture, in a real browser: maps that say their kind, or why there are none."""

from __future__ import annotations

import json
from functools import cache

import pytest

from app.comparison import comparison_head
from app.player import player_head
from fovea_core.engine import load_engine
from fovea_core.examples import load_examples
from fovea_core.pictures import data_url, open_picture
from fovea_core.request import Request
from fovea_core.settings import make_settings
from fovea_core.targets.shelf import LAB, LAB_ROWS, lab_label
from fovea_core.trace.codec import Header, decode, encode, encode_header, unpack_entries
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.trace.reads import MOST_SHOWN, SHOWN, own_reader
from tests.sample_traces import sample_lines
from tests.ui.test_player import change, settle
from tests.ui.test_player_around import without_reads

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("one_thread")]
END = {"at": "end"}
NOTE = ".fv-mapnote"


@cache
def engine():
    """The embedded model with the committed drafters."""
    return load_engine("builtin", "cpu")


@cache
def recorded(name: str) -> list[str]:
    """A run of a committed drafter as a trace."""
    example = load_examples()[0]
    rgb, settings = (
        open_picture(example.picture).rgb,
        make_settings(max_new_tokens=14, tree={"depth": 4, "width": 4, "nodes": 16}),
    )
    run = list(engine().run(Request(rgb, example.question, settings, name)))
    return [encode_header(Header(data_url(rgb))), *map(encode, run)]


def tokens_of(lines):
    return fold(checked(decode(line) for line in lines[1:])).tokens


def pinned(page, position: int) -> str:
    """The caption of a word."""
    page.evaluate("(at) => FOVEA.page._pin(`w:${at}`)", position)
    settle(page)
    return page.inner_text(".fv-caption")


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("lab-tiger", "its router chooses 8 entries once a step", "Its router chose 8 entries of 196 for this step"),
        ("lab-unilaspec", "the 8 entries on which the target looked most", "The target looked most at 8 entries of 196"),
        ("lab-hawk", "pooled into cells of 2 × 2 entries", "It read the whole picture in cells; those shown have"),
    ],
)
def test_a_rival_that_reads_the_picture_has_maps_and_says_what_they_are(show, name, kind, told):
    """The map of a word is drawn from its read; note, caption, figures and legend say whose reading it is, and the run is
    called by its drafter's name alone; nothing of it is called mass of a memory."""
    lines = recorded(name)
    tokens = tokens_of(lines)
    page = show(lines, **END)
    assert page.inner_text(NOTE).startswith("The maps of this run are of its drafter's own reader, not of FOVEA's memory: ")
    assert kind in page.inner_text(NOTE)
    assert f"drafts by {lab_label(name.removeprefix(LAB))} ·" in page.inner_text(".fv-meta")
    word = next(token for token in tokens if token.read is not None)
    caption, entries = pinned(page, word.position), unpack_entries(word.read.entries)
    assert told in caption and "mass" not in caption and "without a look" not in caption
    assert page.evaluate("FOVEA.page.stage.drawn.split('|')[1]") == "1"
    figures = page.inner_text(".fv-figures")
    assert f"{len(entries)} of 196" in figures and "of its reading" in figures.replace("what the cells shown hold ", "")
    assert page.inner_text(".fv-legend .fv-hint") == "of reading per entry"
    assert page.get_attribute(".fv-heat", "aria-label").startswith("Map of what the drafter read")
    assert ("all that was read goes into the guess" in figures) == (word.read.gate is None) == (name != "lab-unilaspec")
    cards = page.inner_text(".fv-strip")
    assert "of its reading" in cards and "of mass" not in cards


def test_a_rival_without_such_a_reader_says_why_it_has_none(show):
    """DREAM-style, of its own run; the others, in a sentence each that no other one has."""
    lines = recorded("lab-dream")
    page = show(lines, **END)
    assert not any(token.read for token in tokens_of(lines))
    note = page.inner_text(NOTE)
    assert note.startswith("The words of this run have no maps: its drafter reads the target's states at the text")
    word = next(token for token in tokens_of(lines) if token.how == "accepted")
    assert "was drafted without a look" in pinned(page, word.position)
    said = {}
    for name in LAB_ROWS:
        run = "{ started: { drafter: { id }, policy: 'none' }, hasLooks: false }"
        said[name] = page.evaluate(f"(id) => FOVEA.mapNoteOf({run})", LAB + name)
    assert said.pop("fovea").endswith("reads no visual memory, so its words have no maps.")
    assert len(set(said.values())) == len(said) and all(text.count(".") == 1 for text in said.values())
    assert said["dream"] == note and "in its context" in said["prefix"] and "three vectors" in said["compressed"]


def test_kinds_are_those_of_the_trace(show):
    """Page and Python take the same policies for a drafter's own reader, and the page's numbers are those of the rule."""
    page = show(sample_lines(), **END)
    policies = ["routed-8", "watched-8", "cells", "routed-9999", "routed-0", "routed-10000", "watched", "cells-1", "xcells"]
    policies += ["fovea", "none", "hawk", "unilaspec-8", "tiger-8", "cells\n", ""]
    kinds = page.evaluate("(all) => all.map((policy) => FOVEA.kindOf({ policy })?.name ?? null)", policies)
    assert kinds == [own_reader(policy) for policy in policies] and page.evaluate("FOVEA.kindOf(null)") is None
    note = page.evaluate("FOVEA.kindOf({ policy: 'cells' }).note()")
    assert f"until they hold {SHOWN * 100:.0f} % of it, and at most {MOST_SHOWN} entries" in note
    wanted = page.evaluate("FOVEA.kindOf({ policy: 'cells' }).entries({ size: 80, event: { k_raw: 120 } })")
    assert wanted.endswith(f"and 120 entries would hold {SHOWN * 100:.0f} % of it")


def test_traces_from_before_open_as_they_did(show):
    """A rival's run that was recorded without its reads; one of rounds only has no maps to speak of, nor a word of them."""
    page = show(without_reads(sample_lines(), "lab-hawk"), **END)
    assert "reads no visual memory" in page.inner_text(NOTE)
    lines = [line for line in change(sample_lines(), "run_started", policy="routed-8")]
    bare = [json.loads(line) for line in lines[1:]]
    bare = [event for event in bare if event["kind"] != "memory_read"]
    page = show([lines[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(bare))], page=page, **END)
    assert page.is_hidden(NOTE)


def test_side_by_side_they_are_called_by_their_names(new_page, tmp_path):
    """In Compare a side's title is its drafter's own; shares of a memory and of a reading are said not to compare, and have no
    scale in common, while two sides of one kind have."""
    page, file = new_page(), tmp_path / "pair.html"
    made = "FOVEA.createComparison(document.querySelector('#pair'), {})"
    file.write_text(
        f"<!doctype html>{player_head()}{comparison_head()}<div id=pair></div><script>window.pair = {made}</script>", "utf-8"
    )
    page.goto(file.as_uri())
    for names, common, said in (
        (("lab-fovea", "lab-tiger"), False, "these do not compare"),
        (("lab-tiger", "lab-dream"), None, "what a drafter's own reader read"),
        (("lab-tiger", "lab-tiger"), True, "what a drafter's own reader read"),
        (("lab-fovea", "lab-fovea"), True, "mean share of all mass"),
    ):
        page.evaluate("([a, b]) => pair.set(a, b)", [recorded(name) for name in names])
        page.wait_for_function("() => pair.sides.every(({ player }) => player.run.finished) && !pair.following")
        settle(page)
        assert page.locator(".fc-way").all_inner_texts() == [lab_label(name.removeprefix(LAB)) for name in names]
        figure = page.locator(".fc-figure", has=page.locator("dt", has_text="captured mass"))
        assert said in figure.inner_text()
        a, b = page.evaluate("pair.sides.map(({ player }) => player.run.largestMass)")
        assert common is None or common == (a == b)
