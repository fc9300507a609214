"""The listeners behind 'Draw a picture', called as the page calls them: what they show, keep and refuse."""

from __future__ import annotations

import json

import gradio as gr
import numpy as np
import pytest

from app.pages.draw import PREFIX, Drawing, checked_seed, closed, make_draw
from fovea_core.examples import load_examples
from fovea_core.pictures import open_picture
from fovea_core.worksite import KINDS, make_picture
from fovea_core.worksite.suggesting import questions_of

NOTHING = gr.skip()


def event(**data) -> gr.EventData:
    return gr.EventData(None, data)


@pytest.fixture
def on(tmp_path):
    return Drawing(tmp_path, load_examples())


@pytest.fixture
def drawn(on):
    """(state, question) of a chart just drawn."""
    state, _, _, asked, *_ = on.draw(event(kind="chart", seed="3"), None, "")
    return state, asked


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_gets_the_pixels_of_the_drawn_picture(on, kind, tmp_path):
    """Through the door of all pictures; the session keeps a small table of plain values and no pixels."""
    state, panel, path, asked, suggested, line = on.draw(event(kind=kind, seed=" 41 "), None, "What is it?")
    picture = make_picture(kind, 41)
    assert np.array_equal(np.asarray(open_picture(path).rgb), picture.rgb)
    assert path.startswith(str(tmp_path)) and len(json.dumps(state)) < 6_000 and json.loads(json.dumps(state)) == state
    assert asked == suggested["choices"][0] == suggested["value"] and suggested["visible"]
    assert asked in [q.question for q in picture.questions] and "seed 41" in line["text"]
    assert panel["parts"] and panel["seed"] == "41" and not panel["edited"] and len(json.dumps(panel)) < 40_000


def test_dice_give_another_picture_and_keep_a_question_that_fits(on):
    first = on.draw(event(kind="scene", seed=None), None, "")
    second = on.draw(event(kind="scene", seed=None), first[0], "Describe everything from right to left.")
    assert first[0]["seed"] != second[0]["seed"] and first[0]["id"] < second[0]["id"]
    assert second[3] == "Describe everything from right to left."


def test_an_edit_shows_the_new_picture_and_asks_the_same_again(on, drawn):
    state, asked = drawn
    new, panel, path, question, suggested, line = on.edit(
        event(id=state["id"], answer=4, changes=[["bar2", "value", "777"], ["bar1", "badge", "x"]]), state, asked
    )
    assert [bar["value"] for bar in new["spec"]["bars"]][1] == 777 and new["spec"]["bars"][0]["badge"] == "X"
    assert state["spec"] == state["drawn"] == new["drawn"] != new["spec"]
    assert np.array_equal(np.asarray(open_picture(path).rgb), make_picture("chart", 3, spec=new["spec"]).rgb)
    assert (
        question == asked
        and asked in suggested["choices"]
        and suggested["choices"][0] == "What is the badge of the purple bar?"
    )
    assert (
        panel["answer"] == 4
        and panel["edited"]
        and panel["troubles"] == []
        and line["text"].startswith("Changed: bar 1, badge: X")
    )
    back = on.undo(event(id=state["id"]), new, asked)
    assert back[0]["spec"] == state["drawn"] and not back[1]["edited"] and back[3] == asked
    assert np.array_equal(np.asarray(open_picture(back[2]).rgb), make_picture("chart", 3).rgb)


def test_what_cannot_be_is_told_and_all_else_is_drawn(on, drawn):
    """The last good picture stays; a good change beside a bad one is made."""
    state, asked = drawn
    only_bad = on.edit(event(id=state["id"], answer=1, changes=[["bar2", "value", "many"]]), state, asked)
    assert only_bad[0] == only_bad[2] == only_bad[3] == NOTHING
    assert only_bad[1]["troubles"] == [["bar2", "value", "Value: 'many' is no whole number from 1 to 999."]]
    changes = [["bar2", "value", "551"], ["bar1", "value", "551"], ["bar2", "label", "Q"]]
    both = on.edit(event(id=state["id"], answer=2, changes=changes), state, asked)
    assert both[0]["spec"]["bars"][1]["label"] == "Q" and both[0]["spec"]["bars"][0]["value"] == 450
    assert both[1]["troubles"] == [["bar1", "value", "'551' stands twice in the chart: labels, values and badges must differ."]]


@pytest.mark.parametrize(
    "changes", [None, "x", 7, [], [None], [["a"]], [[1, 2, 3]], [["bar1", "value", None]], [["", "", ""]] * 10_000]
)
def test_an_edit_of_nonsense_changes_nothing(on, drawn, changes):
    state, asked = drawn
    found = on.edit(event(id=state["id"], answer="x", changes=changes), state, asked)
    assert found[0] == found[2] == NOTHING and found[1]["answer"] == 0 and len(found[1]["troubles"]) <= 64


def test_an_edit_that_comes_too_late(on, drawn):
    """Meant for another picture, it is void; with nothing drawn (the server started anew) the page says so."""
    state, asked = drawn
    late = on.edit(event(id=1, answer=9, changes=[["bar1", "value", "5"]]), state, asked)
    assert late[0] == late[2] == NOTHING and late[1]["answer"] == 9 and late[1]["id"] == state["id"]
    gone = on.edit(event(id=1, answer=9, changes=[["bar1", "value", "5"]]), None, asked)
    assert gone[0] is None and gone[1]["parts"] is None and gone[5]["state"] == "trouble"
    assert on.undo(event(id=1), state, asked) == on.undo(event(), None, asked) == [NOTHING] * 6


@pytest.mark.parametrize("seed", ["", "abc", "-1", "1.5", "9000000", "9" * 99, "٣", 5, [], {}, True])
def test_a_seed_that_is_none(on, drawn, seed):
    with pytest.raises(ValueError, match="whole number from 0 to 8,999,999"):
        checked_seed(seed)
    state, asked = drawn
    found = on.draw(event(kind="chart", seed=seed), state, asked)
    assert found[0] == found[2] == NOTHING and found[1]["troubles"][0][1] == "seed"


@pytest.mark.parametrize("kind", [None, "poem", 5, ["scene"], "<b>"])
def test_a_kind_that_is_none(on, kind):
    found = on.draw(event(kind=kind), None, "")
    assert found[:5] == [NOTHING] * 5 and "is not possible" in found[5]["text"]


def test_an_example_of_ours_can_be_changed(on):
    """The panel holds what its picture was drawn from: drawn again, the same picture, but for what its file format loses."""
    for index, example in enumerate(on.examples):
        state, panel = on.example(gr.EventData(None, {"index": index}))
        again = make_picture(state["kind"], state["seed"], spec=state["spec"]).rgb
        kept = np.asarray(open_picture(example.picture).rgb)
        assert again.shape == kept.shape and np.abs(again.astype(int) - kept).mean() < 4, example.name
        assert panel["parts"] and not panel["open"]
        assert on.other(str(example.picture), state) == (NOTHING, NOTHING)
        assert example.question in [q.question for group in questions_of(state["kind"], state["spec"]) for q in group]


def test_a_link_to_an_example_brings_its_panel_too(on):
    """By name, as the address says it; a name that is none leaves the panel as it is."""
    for index, example in enumerate(on.examples):
        linked, panel = on.link(event(name=example.name))
        opened, _ = on.example(gr.EventData(None, {"index": index}))
        assert {**linked, "id": None} == {**opened, "id": None} and panel["parts"] and not panel["open"]
    for name in ("nope", "", None, 3, ["x"]):
        assert on.link(event(name=name)) == (NOTHING, NOTHING)
    assert on.link(event()) == (NOTHING, NOTHING)


def test_another_picture_in_the_box_closes_the_panel(on, drawn):
    state, _ = drawn
    assert on.other(f"/x/{PREFIX}chart-3.png", state) == (NOTHING, NOTHING) == on.other("/x/photo.png", None)
    for path in ("/x/photo.png", None):
        kept, panel = on.other(path, state)
        assert kept is None and panel["parts"] is None
    assert closed()["order"] > panel["order"]


def test_the_panel_is_made_of_data_alone():
    """Its template is static: nothing in it is evaluated, and no text of a picture stands in it."""
    with gr.Blocks():
        panel, state = make_draw()
    assert "${" not in panel.html_template and "{{" not in panel.html_template and state.value is None
    assert "innerHTML" not in panel.js_on_load and "insertAdjacent" not in panel.js_on_load
