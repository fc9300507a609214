"""Run control without a browser: phases with their time, places in the queue, stops and restarts, who waits for whom."""

from __future__ import annotations

import itertools
import json
import threading
import time
from types import SimpleNamespace

import pytest

from app.asking import DRAFTING, status_of
from app.handlers import Handlers
from app.player import PHRASES, wired
from app.session import Session
from fovea_core.engine import Engine
from tests.sample_traces import sample_lines
from tests.test_app import QUESTION, TOKENS, make_session, right, ticket
from tests.toys import ScriptDrafter, empty, oracle

ME = SimpleNamespace(session_hash="me")


@pytest.fixture(name="target", scope="module")
def own_target():
    from tests.toys import toy_target

    found = toy_target()
    found.eos_ids = frozenset()
    return found


def test_twenty_stops_and_restarts(target):
    """Stopped before the first round, in it and later, each time followed by a whole run: nothing is left over."""
    session, drafter = make_session(target)
    threads = threading.active_count() + 1  # the engine's own
    for cycle in range(20):
        drafter.delay_s = 0.02
        session.accept("me", ticket(tokens=200))
        for update in session.run("me"):
            if update.summary.rounds >= cycle % 4:
                session.stop("me")
        assert update.phase == "stopped" and update.summary.ids == right(0, QUESTION, TOKENS)[: len(update.summary.ids)]
        drafter.delay_s = 0.0
        session.accept("me", ticket(tokens=6))
        update = list(session.run("me"))[-1]
        assert update.phase == "done" and update.summary.ids == right(0, QUESTION, TOKENS)[:6]
        assert not session._line and not session._tickets and threading.active_count() <= threads
    session.close()


def test_twenty_closed_tabs(target):
    """Each leaves within its first rounds; the engine drafts at most one round more for it and then serves the next."""
    session, drafter = make_session(target, delay_s=0.02)
    for cycle in range(20):
        session.accept(f"tab-{cycle}", ticket(tokens=200))
        running = session.run(f"tab-{cycle}")
        while next(running).summary.rounds < cycle % 3:
            pass
        at_close = drafter.proposed
        running.close()
        while session._line:
            time.sleep(0.005)
        assert drafter.proposed <= at_close + 1
    session.accept("last", ticket(tokens=4))
    assert list(session.run("last"))[-1].phase == "done"
    session.close()


def test_phases_come_in_order(target):
    session, _ = make_session(target, delay_s=0.06)
    session.accept("me", ticket(compare=True))
    phases = [update.phase for update in session.run("me")]
    session.close()
    order = ["loading", "waiting", "prefill", "answering", "comparing", "done"]
    assert [order.index(phase) for phase in phases] == sorted(map(order.index, phases)) and phases[-1] == "done"
    assert {"answering", "done"} <= set(phases)


def test_a_phase_that_lasts_shows_its_seconds(target):
    """Loading, drafting and checking, each held for more than a second; what is quick shows none."""

    def load():
        time.sleep(1.3)
        return Engine(target, lambda name: slow)

    _, slow = make_session(target)
    session = Session(load)
    said = []
    session.accept("me", ticket(tokens=4))
    for update in session.run("me"):
        said.append(status_of(update)["text"])
        slow.delay_s = 1.3 if update.summary.prefill is None else 0.0
    session.close()
    assert "Loading the model …" in said and "Loading the model … 1 s" in said
    assert any(text.endswith(f"{DRAFTING} 1 s") for text in said), said
    assert said[-1].startswith("Done")


def said_while_checking_lasts(target, monkeypatch, script) -> list[str]:
    """The status lines of a run whose target takes its time over each draft of ``script``."""
    import fovea_core.decode.loop as loop

    verify = loop.verify
    monkeypatch.setattr(loop, "verify", lambda *given: (time.sleep(1.3), verify(*given))[1])
    session, drafter = make_session(target)
    drafter.inner = ScriptDrafter("script", script, right(0, QUESTION, TOKENS), target.vocab_size)
    session.accept("me", ticket(tokens=4))
    said = [status_of(update)["text"] for update in session.run("me")]
    session.close()
    return [text for text in said if text.startswith("Answering") and text.endswith(" 1 s")]


def test_checking_that_lasts_shows_its_seconds(target, monkeypatch):
    """The target takes its time over a draft."""
    said = said_while_checking_lasts(target, monkeypatch, oracle)
    assert any(text.endswith("The target checks the draft … 1 s") for text in said), said


def test_nothing_drafted_is_not_said_to_be_drafted(target, monkeypatch):
    """Where the draft is empty the target works alone, and the line allows for it."""
    said = said_while_checking_lasts(target, monkeypatch, empty)
    assert said and all(text.endswith("the target writes the next word alone … 1 s") for text in said)


def test_each_client_sees_its_place(target):
    """Two before the third; one; then it is its turn."""
    session, _ = make_session(target, delay_s=0.05)
    runs = {}
    for who in ("first", "second", "third"):
        session.accept(who, ticket(tokens=60))
        runs[who] = session.run(who)
        update = next(runs[who])
    assert update.ahead == 2 and status_of(update)["text"] in ("Waiting for the model: 2 before you.", "Loading the model …")
    session.stop("first")
    places = []
    threading.Thread(target=lambda: [list(runs["first"]), session.stop("second"), list(runs["second"])]).start()
    for update in runs["third"]:
        places.append(update.ahead)
        if update.phase == "answering":
            session.stop("third")
    session.close()
    assert places == sorted(places, reverse=True) and places[-1] == 0 and update.phase == "stopped"


def test_the_engine_is_free_when_it_is_done_whoever_still_looks(target):
    """The first client takes one update and looks no further: the second is answered meanwhile, the first keeps its own."""
    session, _ = make_session(target)
    session.accept("slow", ticket())
    slow = session.run("slow")
    next(slow)
    session.accept("quick", ticket(1))
    assert list(session.run("quick"))[-1].phase == "done"
    assert list(slow)[-1].summary.ids == right(0, QUESTION, TOKENS)
    session.close()


def test_an_update_on_the_wire_is_what_is_new(target):
    """What reached the browser is never sent again: the batches only grow in number, whatever came before, and the stream
    ends without a whole run; joined they are the run's lines."""
    session, _ = make_session(target, delay_s=0.004)
    session.accept("me", ticket(tokens=200))
    shown = list(Handlers(session, []).answer(ME))
    batches = [player["lines"] for player, _ in shown[:-1]]
    for before, after in itertools.pairwise(batches):
        assert after[: len(before)] == before and len(after) <= len(before) + 1
    assert len(batches[-1]) > 10
    assert shown[-1][0] == {"__type__": "update"} and shown[-1][1]["text"].startswith("Done")
    sizes = [len(batch) for batch in batches[-1][1:]]
    assert max(sizes) < 20_000 and "\n".join(batches[-1]).count('"round_verified"') > 50
    session.close()


def spelled(batch: str) -> str:
    """A batch as the browser reads it, letter by letter."""
    if not batch.startswith("~"):
        return batch
    return "".join(PHRASES[ord(c) - 0xC0] if 0xC0 <= ord(c) < 0xC0 + len(PHRASES) else c for c in batch[1:])


@pytest.mark.parametrize("variant", ["scene", "compared", "hostile", "wide", "flat"])
def test_wired_lines_are_spelled_out_as_they_were(variant):
    batch = "\n".join(sample_lines(variant)[1:])
    assert spelled(wired(batch)) == batch and len(json.dumps(wired(batch))) <= len(json.dumps(batch))
    for foreign in (batch + " Ã", '{"text":"ß"}', ""):  # a line begins with a brace, so none looks like a wired batch
        assert spelled(wired(foreign)) == foreign


def test_an_error_in_the_middle_keeps_the_batches_that_came(target):
    calls = []

    def hook():
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("broken")

    session, _ = make_session(target, delay_s=0.06, hook=hook)
    session.accept("me", ticket(tokens=60))
    shown = list(Handlers(session, []).answer(ME))
    session.close()
    assert shown[-1][1]["state"] == "trouble" and "\n".join(shown[-2][0]["lines"]).count('"round_verified"') == 2
