"""Two runs of one request as one ticket, on a toy target: order, stop, errors, queue, measurement; what may be asked."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import gradio as gr
import pytest

from app.asking import DRAFTING
from app.comparing import Comparing, take
from app.comparison import shown_sides
from app.pair import WAYS, PairTicket, drafter_of, make_pair, pair_status, way_of
from app.session import Session
from fovea_core.engine import Engine
from fovea_core.examples import load_examples
from fovea_core.lesson import lesson_examples
from fovea_core.pictures import PictureError, data_url
from fovea_core.request import Request
from fovea_core.settings import SettingsError, make_settings
from fovea_core.trace.codec import Header, decode
from fovea_core.trace.events import Finished, Shape
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from tests.test_app import QUESTION, TOKENS, Slow, right, target, ticket  # noqa: F401
from tests.toys import ScriptDrafter, oracle, toy_picture, wrong


def make_pair_ticket(tokens: int = TOKENS) -> PairTicket:
    image = toy_picture(0)
    settings = make_settings(max_new_tokens=tokens, tree=Shape(depth=3, width=2, nodes=6))
    first, second = (Request(image, QUESTION, settings, name) for name in ("right", "wrong"))
    return PairTicket(first, Header(data_url(image)), True, second=second)


@pytest.fixture
def drafters(target):  # noqa: F811
    truth = right(0, QUESTION, TOKENS)
    made = {"right": oracle, "wrong": wrong, "script": oracle}
    return {name: Slow(ScriptDrafter(name, script, truth, target.vocab_size)) for name, script in made.items()}


@pytest.fixture
def session(target, drafters):  # noqa: F811
    running = Session(lambda: Engine(target, drafters.__getitem__))
    yield running
    running.close()


def run(session, who: str = "me"):
    return list(session.run(who))


def events_of(update, side: int):
    return [decode(line) for line in update.lines[side][1:]]


def test_both_runs_are_lawful_and_equal_the_reference(session):
    """A first, then B; header each; both end in the reference's ids; both are measured against one and the same plain runs."""
    session.accept("me", make_pair_ticket())
    updates = run(session)
    for before, after in itertools.pairwise(updates):
        for side in (0, 1):
            assert after.lines[side][: len(before.lines[side])] == before.lines[side]
        assert len(before.lines[1]) == 1 or before.summaries[0].reason  # B begins where A has ended
    a, b = (fold(checked(events_of(updates[-1], side))) for side in (0, 1))
    assert updates[-1].phase == "done" and a.ids == b.ids == right(0, QUESTION, TOKENS)
    assert (a.started.drafter.id, b.started.drafter.id) == ("right", "wrong") and a.rounds < b.rounds
    assert a.compared.plain_ms == b.compared.plain_ms and a.compared.same_ids and b.compared.same_ids
    assert a.compared.speedup == pytest.approx(a.compared.plain_median_ms / a.compared.speculative_ms)


@pytest.mark.parametrize("side", [0, 1])
def test_stop_keeps_what_came_and_begins_nothing_more(session, drafters, side):
    """Stopped in A, B never begins; stopped in B, A stays whole. Nothing is measured."""
    for drafter in drafters.values():
        drafter.delay_s = 0.05
    session.accept("me", make_pair_ticket(tokens=120))
    names, proposed = ("right", "wrong"), None
    for update in session.run("me"):
        if proposed is None and update.summaries[side].rounds >= 1:
            session.stop("me")
            proposed = drafters[names[side]].proposed
    assert update.phase == "stopped" and drafters[names[side]].proposed <= proposed + 1
    assert update.summaries[side].reason == "stopped" and update.summaries[side].compared is None
    assert len(update.lines[1]) == 1 if side == 0 else update.summaries[0].reason == "length"


def test_an_error_in_b_keeps_a(session, drafters):
    """One sentence; A's run is whole; the session runs again."""

    def broken():
        raise RuntimeError("broken on purpose")

    drafters["wrong"].hook = broken
    session.accept("me", make_pair_ticket())
    last = run(session)[-1]
    assert last.phase == "trouble" and "broke off" in last.trouble
    assert last.summaries[0].ids == right(0, QUESTION, TOKENS) and len(last.summaries[1].tokens) == 1
    drafters["wrong"].hook = lambda: None
    session.accept("me", make_pair_ticket())
    assert run(session)[-1].phase == "done"


def test_a_pair_waits_in_the_queue_like_any_other(session, drafters):
    """Behind a single run it says its place; closed while it waits, it leaves the line and frees the engine."""
    drafters["script"].delay_s = 0.05
    session.accept("first", ticket(tokens=100))
    first = session.run("first")
    while not next(first).summary.rounds:
        pass
    session.accept("me", make_pair_ticket())
    mine = session.run("me")
    update = next(mine)
    assert update.phase == "waiting" and update.ahead == 1 and "1 before you" in pair_status(update)["text"]
    mine.close()
    assert len(session._line) == 1
    first.close()
    session.accept("me", make_pair_ticket())
    assert run(session)[-1].phase == "done" and session._line == []


def test_what_lasts_shows_its_seconds(session, drafters):
    """As in Explain: what A or B does, and for how long, once that is more than a second."""
    drafters["right"].delay_s = 1.2
    session.accept("me", make_pair_ticket())
    said = []
    for update in session.run("me"):
        said.append(pair_status(update)["text"])
        if update.summaries[0].rounds:
            drafters["right"].delay_s = 0.0
    assert f"A answers: 1 token in 0 rounds. {DRAFTING} 1 s" in said, said


def test_a_pair_is_measured_in_turns_and_without_details(target, drafters, monkeypatch):  # noqa: F811
    """The timed runs alternate A, B; none records nodes; a stopped measurement gives nothing."""
    monkeypatch.setattr("fovea_core.engine.SLOW_MS", math.inf)  # however busy this machine is, both turns are taken
    engine, order = Engine(target, drafters.__getitem__), []
    inner = engine.run

    def spy(request, stop=None):
        order.append((request.drafter, request.settings.detail))
        return inner(request, stop)

    pair = make_pair_ticket()
    done = []
    for request in (pair.request, pair.second):
        done.append((request, next(event for event in engine.run(request) if isinstance(event, Finished))))
    engine.run = spy
    found = engine.compare_pair(done, repeats=2)
    assert order == [("right", "rounds"), ("wrong", "rounds")] * 2
    assert [event.n for event in found] == [finished.n + 1 for _, finished in done]
    assert engine.compare_pair(done, stop=lambda: True, repeats=2) is None


def picture(tmp_path) -> str:
    path = tmp_path / "toy.png"
    toy_picture(0).save(path)
    return str(path)


SHARED = ("auto", 16, 0.0, 1.0, 3)


@pytest.mark.parametrize("a,b", list(itertools.pairwise([*WAYS, "fovea"])))
def test_a_checked_pair_differs_in_its_ways_only(tmp_path, a, b):
    made = make_pair(picture(tmp_path), QUESTION, a, b, *SHARED)
    one, other = made.request, made.second
    assert (one.drafter, one.settings.policy) == WAYS[a][1:] and (other.drafter, other.settings.policy) == WAYS[b][1:]
    assert one.image is other.image and one.question == other.question and made.compare
    assert one.settings.model_copy(update={"policy": ""}) == other.settings.model_copy(update={"policy": ""})
    assert way_of(one.drafter, one.settings.policy) == a and way_of(other.drafter, other.settings.policy) == b


def test_a_pair_is_pinned_to_its_model(tmp_path):
    """Both sides take the drafters of the model that is loaded, and neither records where the target looked."""
    made = make_pair(picture(tmp_path), QUESTION, "small", "plain", *SHARED, "large", ("small", "lookup", "none"))
    assert (made.target, made.request.drafter, made.second.drafter) == ("large", "small", "none")
    assert not made.request.settings.looks
    with pytest.raises(SettingsError, match="choose one of small, none"):
        make_pair(picture(tmp_path), QUESTION, "small", "lookup", *SHARED, "large", ("small", "none"))


@pytest.mark.parametrize(
    "change,error,said",
    [
        ({0: None}, PictureError, "bring a picture"),
        ({1: "  "}, SettingsError, "ask a question"),
        ({2: "../../etc"}, SettingsError, "policy '../../etc'"),
        ({3: "topk-0"}, SettingsError, "policy 'topk-0'"),
        ({3: None}, SettingsError, "choose A and B"),
        ({5: 10**9}, SettingsError, "max_new_tokens"),
        ({6: float("nan")}, SettingsError, "temperature"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, change, error, said):
    assert drafter_of("topk-7") == ("builtin", "topk-7")
    values = [picture(tmp_path), QUESTION, "fovea", "blind", *SHARED]
    for place, value in change.items():
        values[place] = value
    with pytest.raises(error, match=said):
        make_pair(*values)


def test_taking_what_explain_shows():
    """Picture, question, way and settings come over; a policy of no name here is a way of its own; nothing there is said."""
    path, question, a, *shared, line = take("p.png", "What?", "builtin", "dense", *SHARED)
    assert (path, question, a, tuple(shared)) == ("p.png", "What?", "dense", SHARED) and line["state"] == "idle"
    assert take("p.png", "What?", "builtin", "topk-7", *SHARED)[2] == "topk-7"
    assert take(None, " ", "builtin", "fovea", *SHARED)[-1]["state"] == "trouble"


def test_a_value_keeps_sides_apart():
    """None keeps a side, an empty list empties it; later values are newer."""
    one, other = shown_sides(["x"], None), shown_sides([], ["y"])
    assert (one["a"], one["b"], other["a"], other["b"]) == (["x"], None, [], ["y"]) and other["order"] > one["order"]


def test_an_example_recorded_twice_opens_as_a_pair(session):
    """B is the same request without the memory, with the same text; where there is no such recording, B waits."""
    examples = [example for example in load_examples() if example.recorded]
    on, paired = Comparing(session, examples), {example.name for example in lesson_examples(examples)}
    for index, example in enumerate(examples):
        values = on.open(gr.EventData(None, {"index": index}), SimpleNamespace(session_hash="me"))
        picture, question, a, b, sides, line = values[:6]
        assert (picture, question, a, line["state"]) == (str(example.picture), example.question, "fovea", "idle")
        if example.name not in paired:
            assert sides["b"] == [] and isinstance(b, dict) and "A is a recorded run" in line["text"]
            continue
        runs = [fold([decode(text) for text in sides[side][1:]]) for side in "ab"]
        assert b == "unread" and "Two recorded runs" in line["text"]
        assert runs[0].ids == runs[1].ids and [run.started.policy for run in runs] == ["fovea", "none"]
    assert len(paired) == 3 and len(examples) > 3
