"""The page's engine room on a toy target: queue, stop, errors, streaming; and that the page starts without torch."""

from __future__ import annotations

import functools
import itertools
import json
import runpy
import threading
import time
from types import SimpleNamespace

import gradio as gr
import pytest

from app.asking import finished_text, recorded_settings, status, status_of
from app.handlers import Handlers
from app.loaded import read_prices
from app.pages.explain import recording_note
from app.player import shown_lines
from app.session import UPDATES_PER_SECOND, Session
from app.ticket import Ticket
from fovea_core.engine import Engine
from fovea_core.examples import ASSETS, load_examples
from fovea_core.pictures import data_url
from fovea_core.request import Request
from fovea_core.settings import make_settings
from fovea_core.trace.codec import Header, decode
from fovea_core.trace.events import Compared, Finished, RoundVerified, RunStarted, Shape
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.trace.record import read
from tests.sample_traces import sample_lines
from tests.toys import ScriptDrafter, coin, reference, toy_picture, toy_target

QUESTION = "what is in the picture?"
TOKENS = 16


@functools.lru_cache
def right(picture: int, question: str, count: int) -> list[int]:
    """Greedy ids by the independent reference."""
    target = toy_target()
    target.eos_ids = frozenset()
    return reference(target, toy_picture(picture), question, count)[0]


class Slow:
    """A drafter that waits before each proposal, so that a run takes as long as a test needs; ``hook`` may raise."""

    def __init__(self, inner, delay_s: float = 0.0, hook=None) -> None:
        self.inner, self.delay_s, self.hook = inner, delay_s, hook or (lambda: None)
        self.id, self.fingerprint = inner.id, inner.fingerprint
        self.proposed = 0

    def start(self, run, settings):
        inner, outer = self.inner.start(run, settings), self

        class Run:
            extend = staticmethod(inner.extend)

            def propose(self, shape):
                outer.proposed += 1
                time.sleep(outer.delay_s)
                outer.hook()
                return inner.propose(shape)

        return Run()


@pytest.fixture(scope="module")
def target():
    target = toy_target()
    target.eos_ids = frozenset()  # every answer runs to its limit
    return target


def ticket(picture=0, question=QUESTION, tokens=TOKENS, compare=False) -> Ticket:
    image = toy_picture(picture)
    settings = make_settings(max_new_tokens=tokens, tree=Shape(depth=3, width=2, nodes=6))
    return Ticket(Request(image, question, settings, "script"), Header(data_url(image)), compare)


def make_session(target, delay_s: float = 0.0, hook=None) -> tuple[Session, Slow]:
    """A session on the toy target whose drafter is right about half of the time."""
    truth = right(0, QUESTION, TOKENS)
    drafter = Slow(ScriptDrafter("script", coin(0.6), truth, target.vocab_size), delay_s, hook)
    return Session(lambda: Engine(target, lambda name: drafter)), drafter


def events_of(update):
    return [decode(line) for line in update.lines[1:]]


def test_a_run_gives_a_lawful_trace_that_equals_the_reference(target):
    """Header first, then events; the ids are those of the independent reference, and plain decoding agrees."""
    session, _ = make_session(target)
    session.accept("me", ticket(compare=True))
    updates = list(session.run("me"))
    session.close()
    last = updates[-1]
    assert json.loads(last.lines[0])["format"] == "fovea-trace"
    summary = fold(checked(events_of(last)))
    assert summary.ids == right(0, QUESTION, TOKENS)
    assert last.phase == "done" and last.trouble is None and summary.compared.same_ids
    assert summary.compared.plain_median_ms > 0 and summary.compared.speculative_ms > 0


def test_lines_only_grow_and_updates_are_merged(target):
    """Every update's lines start with those of the one before; there are at most 20 updates a second."""
    session, _ = make_session(target, delay_s=0.012)
    session.accept("me", ticket())
    started = time.monotonic()
    updates = list(session.run("me"))
    seconds = time.monotonic() - started
    session.close()
    for before, after in itertools.pairwise(updates):
        assert after.lines[: len(before.lines)] == before.lines
    assert len(updates) <= 3 + UPDATES_PER_SECOND * seconds
    assert len(updates) > 3
    assert updates[0].phase in ("waiting", "loading") and updates[-1].phase == "done"


def test_two_clients_interleaved_each_get_their_own(target):
    """Different pictures and questions, both started at once: own answers, own pictures, lawful traces."""
    session, _ = make_session(target, delay_s=0.005)
    asked = {"a": (0, QUESTION), "b": (1, "and a blue cone?")}
    last, threads = {}, []
    for who, (picture, question) in asked.items():
        session.accept(who, ticket(picture, question))

        def consume(who=who):
            last[who] = list(session.run(who))[-1]

        threads.append(threading.Thread(target=consume))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    session.close()
    for who, (picture, question) in asked.items():
        summary = fold(checked(events_of(last[who])))
        assert summary.ids == right(picture, question, TOKENS)
        assert summary.started.question == question
        assert json.loads(last[who].lines[0])["picture"] == data_url(toy_picture(picture))


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_stop_ends_within_one_round_and_keeps_the_part(target, rounds):
    """Stop before the first round, in round 1, in the middle; twice: nothing more is drafted after the round under way."""
    session, drafter = make_session(target, delay_s=0.05)
    session.accept("me", ticket(tokens=200))
    seen_at_stop = None
    for update in session.run("me"):
        if seen_at_stop is None and update.summary.prefill and update.summary.rounds >= rounds:
            assert session.stop("me") and session.stop("me")
            seen_at_stop = drafter.proposed
    session.close()
    assert update.phase == "stopped" and drafter.proposed <= seen_at_stop + 1
    summary = fold(checked(events_of(update)))
    assert summary.reason == "stopped" and summary.ids == right(0, QUESTION, len(summary.ids))


def test_stop_while_waiting_never_starts(target):
    """A queued run knows its place; stopped, it ends at once though the engine is still busy."""
    session, drafter = make_session(target, delay_s=0.03)
    session.accept("first", ticket(tokens=400))
    first = session.run("first")
    while not next(first).summary.rounds:
        pass
    session.accept("second", ticket(1))
    second = session.run("second")
    assert next(second).ahead == 1
    assert session.stop("second")
    updates = list(second)
    assert updates[-1].phase == "stopped" and len(updates[-1].lines) == 1
    assert not next(first).summary.reason and drafter.proposed > 0
    first.close()
    session.close()


def test_a_client_that_looks_elsewhere_sees_nothing_more_of_its_run(target):
    session, _ = make_session(target, delay_s=0.03)
    session.accept("me", ticket(tokens=200))
    running = session.run("me")
    while not next(running).summary.rounds:
        pass
    session.forget("me")
    assert list(running) == []
    session.close()


def test_stop_during_the_comparison_keeps_the_run(target):
    session, _ = make_session(target, delay_s=0.02)
    session.accept("me", ticket(compare=True))
    for update in session.run("me"):
        if update.phase == "comparing":
            session.stop("me")
    session.close()
    kinds = [type(event) for event in events_of(update)]
    assert update.phase == "done" and Finished in kinds and Compared not in kinds


def test_a_closed_tab_frees_the_engine(target):
    """Closing the generator stops the computation; the next client runs."""
    session, drafter = make_session(target, delay_s=0.02)
    session.accept("gone", ticket(tokens=200))
    running = session.run("gone")
    while not next(running).summary.rounds:
        pass
    running.close()
    at_close = drafter.proposed
    session.accept("next", ticket())
    assert list(session.run("next"))[-1].phase == "done"
    assert list(session.run("gone")) == []
    assert drafter.proposed <= at_close + 1 + TOKENS
    session.close()


def test_an_error_inside_the_loop_then_a_new_run_20_times(target):
    """Each broken run ends with one sentence and keeps its lines; the lock is free and the next run is whole."""
    broken = {"now": False}

    def hook():
        if broken["now"]:
            raise RuntimeError("out of something\nwith details")

    session, _ = make_session(target, hook=hook)
    truth = right(0, QUESTION, TOKENS)[:8]
    for _ in range(20):
        broken["now"] = True
        session.accept("me", ticket(tokens=8))
        update = list(session.run("me"))[-1]
        assert update.phase == "trouble" and "\n" not in update.trouble and "RuntimeError" in update.trouble
        assert len(events_of(update)) == 2
        broken["now"] = False
        session.accept("me", ticket(tokens=8))
        update = list(session.run("me"))[-1]
        assert update.phase == "done" and update.summary.ids == truth
    session.close()


def test_a_question_that_is_too_long_for_the_model_is_one_sentence(target):
    session, _ = make_session(target)
    session.accept("me", ticket(question="red " * 600))
    update = list(session.run("me"))[-1]
    session.close()
    assert update.phase == "trouble" and "shorter question" in update.trouble


def test_an_engine_that_cannot_load_says_why_and_is_tried_again(target):
    tries = []

    def load():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("The built-in target is missing.")
        return Engine(target, lambda name: None)

    session = Session(load)
    session.accept("me", ticket(tokens=4))
    assert list(session.run("me"))[-1].trouble == "The built-in target is missing."
    assert not session.ready
    session.accept("me", ticket(tokens=4))
    assert list(session.run("me"))[-1].phase == "done" and session.ready and len(tries) == 2
    session.close()


def test_a_request_runs_once(target):
    """While its run goes on, and afterwards, a second run of the same request gives nothing."""
    session, drafter = make_session(target, delay_s=0.01)
    session.accept("me", ticket())
    running = session.run("me")
    while not next(running).summary.rounds:
        pass
    assert list(session.run("me")) == []
    last = list(running)[-1]
    assert last.phase == "done" and drafter.proposed <= last.summary.rounds
    assert list(session.run("me")) == []
    session.close()


def test_what_an_ended_run_showed_is_older_than_what_comes_next(target, monkeypatch):
    """Also where the run is forgotten between its last look at 'gone' and the moment its update is shown."""
    session, _ = make_session(target, delay_s=0.01)
    session.accept("me", ticket(tokens=200))
    orders = []
    for update in session.run("me"):
        orders.append(update.order)
        if update.summary.rounds > 2:
            session.forget("me")  # the update is on its way
            assert status_of(update)["order"] == shown_lines(update.lines, update.order)["order"] == update.order
            assert update.order < status("An example.")["order"] and update.order < shown_lines([])["order"]
    assert orders == sorted(set(orders)) and len(orders) > 2
    session.close()


def test_a_stream_without_a_request_leaves_everything_as_it_is(target):
    session, _ = make_session(target)
    (shown,) = Handlers(session, []).answer(SimpleNamespace(session_hash="nobody"))
    assert shown == (gr.skip(), gr.skip())
    session.close()


@pytest.mark.parametrize(
    "bench, said",
    [
        ('{"overall": {"trace_overhead": 0.042}}', "costs about 4 % of"),
        ('{"overall": {"trace_overhead": -0.01}}', "costs less than 1 % of"),
        ('{"overall": {"trace_overhead": null}}', None),
        ("{", None),
        ("[]", None),
        (None, None),
    ],
)
def test_the_page_states_what_recording_costs_where_it_was_measured(tmp_path, bench, said):
    if bench is not None:
        (tmp_path / "bench.json").write_text(bench)
    note = recording_note(tmp_path / "bench.json")
    assert (said in note) if said else note == ""


def started(**fields) -> RunStarted:
    lines = sample_lines()
    return decode(json.dumps(json.loads(lines[1]) | fields))


def test_a_recording_gives_its_settings_back():
    """Each value as the page sets it; what the page has no place for, or a stranger made up, is None."""
    given = {"max_new_tokens": 40, "temperature": 0.5, "top_p": 0.9, "seed": 3, "policy": "topk-16"}
    model, paper = {"id": "builtin"}, {"depth": 6, "width": 6, "nodes": 40}
    assert recorded_settings(started(settings=given, drafter=model, shape=None)) == [
        "builtin",
        "topk-16",
        "auto",
        40,
        0.5,
        0.9,
        3,
    ]
    odd = {"max_new_tokens": 600, "temperature": "hot", "top_p": -1, "policy": "<b>"}
    assert recorded_settings(started(settings=odd, shape=paper)) == [None, None, "paper", None, None, None, None]
    assert recorded_settings(started(settings={}, drafter=None, shape=paper | {"nodes": 20}))[:3] == ["none", None, "6,6,20"]


def test_only_a_whole_recording_is_announced_as_done():
    """A stopped and a cut-off recording say what they are."""
    for lines, said in (
        (sample_lines("compared"), "Done: "),
        (sample_lines("stopped"), "Stopped: "),
        (sample_lines("stopped")[:-1], "Unfinished: "),
    ):
        assert finished_text(fold(decode(line) for line in lines[1:])).startswith(said)


def test_running_without_a_request_does_nothing(target):
    session, _ = make_session(target)
    assert list(session.run("nobody")) == [] and not session.stop("nobody")
    session.close()


def test_a_run_in_which_little_was_drafted_says_so():
    """Every recorded example against a count of its own events; a run on a fixed tree was not the cost's choice."""
    seen = set()
    for example in load_examples():
        events = read(example.trace).events
        rounds = [event for event in events if event.kind == "round_verified"]
        drafted = len({event.round for event in events if event.kind == "node_drafted"})
        wanted = len(rounds) >= 4 and 2 * drafted < len(rounds)
        said = finished_text(fold(events))
        assert (f"Drafting paid in {drafted} of {len(rounds)} rounds" in said) is wanted, example.name
        seen.add(wanted)
        started = events[0].model_copy(update={"shape": Shape(depth=3, width=4, nodes=13)})
        assert "Drafting paid" not in finished_text(fold([started, *events[1:]]))
    assert False in seen
    by_cost = next(example for example in load_examples() if example.tree is None)
    opening = [event for event in read(by_cost.trace).events if event.kind in ("run_started", "prefill_done")]
    nothing = {"accepted": [], "rejected": [], "unverified": [], "pruned": 0, "draft_ms": 0, "select_ms": 0, "verify_ms": 9}
    empty = [RoundVerified(n=2 + i, round=i, bonus=1, bonus_text="x", emitted=[1], **nothing) for i in range(5)]
    assert "Drafting paid in 0 of 5 rounds" in finished_text(fold([*opening, *empty]))


def test_prices_may_come_from_a_committed_measurement(tmp_path, target, capsys, monkeypatch):
    """The engine then measures nothing; another file is refused in a sentence, and app.py ends with it."""
    prices = read_prices(str(ASSETS / "bench" / "builtin.json"))
    assert prices.model_dump(mode="json") == json.loads((ASSETS / "bench" / "builtin.json").read_text())["cost"]
    engine = Engine(target, {}.__getitem__, prices=prices)
    assert engine.cost("whatever") is prices
    for name, text in (("none.json", None), ("text.json", "{"), ("other.json", "{}"), ("list.json", '[{"cost": 1}]')):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match="no result of `fovea_core bench builtin --json`"):
            read_prices(str(tmp_path / name))
    monkeypatch.setattr("sys.argv", ["app.py", "--prices", str(tmp_path / "other.json")])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(ASSETS.parent / "app.py"), run_name="__main__")
    assert "no result of" in capsys.readouterr().err
