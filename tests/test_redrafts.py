"""Redrafts asked for by the page: in turn behind runs, cancelled, refused in one sentence, answered as data."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import gradio as gr
import pytest

from app.redrafts import DAMAGED, NO_PICTURE, Redrafts
from app.session import Session
from app.ticket import Ticket
from fovea_core.decode.redraft import NEEDED
from fovea_core.engine import Engine
from fovea_core.examples import Example
from fovea_core.pictures import data_url
from fovea_core.request import Request
from fovea_core.trace.codec import Header, decode, encode
from fovea_core.trace.events import MemoryRead, RoundVerified
from tests.test_redraft import drafter, reads_of, record, rounds_of, settings_of, target, without_times  # noqa: F401
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")
ME = SimpleNamespace(session_hash="me")


@pytest.fixture
def session(target, drafter):  # noqa: F811
    session = Session(lambda: Engine(target, lambda name: drafter))
    yield session
    session.close()


@pytest.fixture
def box(tmp_path):
    """What lies in the picture box."""
    path = tmp_path / "toy.png"
    toy_picture().save(path)
    return str(path)


def wish(recorded, asked: int = 1, round: int = 1, lost=(8, 9), **other) -> gr.EventData:
    """What the player sends; numbers pass through the browser's JSON, which knows no 1.0."""
    lines = [encode(event) for event in recorded if isinstance(event, NEEDED)][: int(round) + 3]
    lines = [json.dumps(json.loads(line), separators=(",", ":")).replace(".0,", ",") for line in lines]
    return gr.EventData(None, {"asked": asked, "round": round, "lost": list(lost), "lines": lines} | other)


def test_a_redraft_comes_back_as_lawful_lines(session, target, drafter, box):  # noqa: F811
    """The old lines are the recorded round's, the new ones read nothing that is erased, words have two log-probabilities."""
    recorded = record(target, drafter, settings_of())
    told = list(Redrafts(session, []).draft(box, wish(recorded), ME))
    assert [value["asked"] for value in told] == [1] * len(told) and told[-1]["phase"] == "done"
    assert all(value["text"] for value in told[:-1])
    found = told[-1]["found"]
    assert json.loads(json.dumps(found)) == found
    old, new = ([decode(line) for line in found[side]] for side in ("old", "new"))
    assert without_times(old) == without_times(rounds_of(recorded)[1])
    assert isinstance(new[-1], RoundVerified) and any(isinstance(event, MemoryRead) for event in new)
    assert not any({8, 9} & set(read) for read in reads_of(new))
    assert [word[0] for word in found["words"]] == rounds_of(recorded)[1][-1].emitted[: len(found["words"])]


def test_the_picture_may_be_an_example_s(session, target, drafter, box, tmp_path):  # noqa: F811
    """Another picture, none or a broken one in the box: the example that has the run's pixels is taken; else one sentence."""
    recorded = record(target, drafter, settings_of())
    example = Example("toy", "Toy", "scene", 0, "?", None, box, tmp_path / "none.jsonl")
    other, broken = tmp_path / "other.png", tmp_path / "broken.png"
    toy_picture(1).save(other)
    broken.write_bytes(b"no picture")
    for path in (str(other), str(broken), None):
        assert list(Redrafts(session, [example]).draft(path, wish(recorded), ME))[-1]["phase"] == "done"
        refused = list(Redrafts(session, []).draft(path, wish(recorded), ME))[-1]
        assert (refused["phase"], refused["text"], refused["found"]) == ("trouble", NO_PICTURE, None)


@pytest.mark.parametrize(
    "damage",
    [
        {"lost": ["8"]},
        {"lost": [-1]},
        {"round": -1},
        {"round": 1.5},
        {"asked": "1"},
        {"more": 1},
        {"lines": ["{}"]},
        {"lines": ["<script>"]},
        {"lines": None},
    ],
)
def test_a_damaged_wish_is_one_sentence(session, target, drafter, box, damage):  # noqa: F811
    recorded = record(target, drafter, settings_of())
    told = list(Redrafts(session, []).draft(box, wish(recorded, **damage), ME))
    assert (told[-1]["phase"], told[-1]["text"]) == ("trouble", DAMAGED)


def test_what_the_run_does_not_have_is_one_sentence(session, target, drafter, box):  # noqa: F811
    recorded = record(target, drafter, settings_of())
    for event, sentence in ((wish(recorded, round=90), "no step 91"), (wish(recorded, lost=[0]), "Entry 0 cannot be erased")):
        told = list(Redrafts(session, []).draft(box, event, ME))
        assert told[-1]["phase"] == "trouble" and sentence in told[-1]["text"]


def test_a_redraft_waits_for_its_turn_and_leaves_the_answer_alone(session, target, drafter, box):  # noqa: F811
    """Behind a run under way: it says so, the run's answer comes to its end, then the redraft is done."""
    recorded = record(target, drafter, settings_of())
    session.start().result()
    gate = threading.Event()
    session._thread.submit(gate.wait)
    image = toy_picture()
    session.accept("me", Ticket(Request(image, "red?", settings_of()), Header(data_url(image)), compare=False))
    running = session.run("me")
    next(running)
    asking = Redrafts(session, []).draft(box, wish(recorded), ME)
    first = next(asking)
    assert (first["phase"], first["text"]) == ("waiting", "The model is busy: 1 before this redraft.")
    gate.set()
    assert list(asking)[-1]["phase"] == "done"
    last = list(running)[-1]
    assert last.phase == "done" and decode(last.lines[-1]).ids == recorded[-1].ids


def test_cancelled_loading_failed_and_asked_anew(session, target, drafter, box):  # noqa: F811
    """Cancelled in the queue or at work: one sentence, the thread is free; a newer wish ends the older; a run ends it too."""
    recorded, on = record(target, drafter, settings_of()), Redrafts(session, [])
    gate = threading.Event()
    session._thread.submit(gate.wait)
    waiting = on.draft(box, wish(recorded), ME)
    assert next(waiting)["text"] == "The model is still loading; the redraft begins by itself."
    newer = on.draft(box, wish(recorded, asked=2), ME)
    next(newer)
    assert [value["phase"] for value in waiting] == ["stopped"]
    on.cancel(ME)
    assert [(value["asked"], value["phase"], "cancelled" in value["text"]) for value in newer] == [(2, "stopped", True)]
    third = on.draft(box, wish(recorded, asked=3), ME)
    next(third)
    session.forget("me")
    assert list(third)[-1]["phase"] == "stopped"
    abandoned = on.draft(box, wish(recorded, asked=4), ME)
    next(abandoned)
    abandoned.close()
    gate.set()
    assert list(on.draft(box, wish(recorded, asked=5), ME))[-1]["phase"] == "done"
    assert not session._line and not session._errands


def test_an_error_inside_is_one_sentence():
    def load():
        raise RuntimeError("no weights")

    session = Session(load)
    told = list(Redrafts(session, []).draft(None, gr.EventData(None, {"asked": 1, "round": 0, "lost": [], "lines": []}), ME))
    session.close()
    assert told[-1]["phase"] == "trouble" and "broke off (RuntimeError)" in told[-1]["text"]
