"""bench page: its longer traces are lawful, its figures come from a real page in a real browser; it says what is missing."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys

import pytest

from fovea_core.bench.page import EXAMPLE, WANTED, _bytes_of_rounds, lengthened
from fovea_core.cli import main
from fovea_core.examples import ASSETS
from fovea_core.trace.fold import fold
from fovea_core.trace.record import read

#: A result of bench builtin, whose prices choose the trees.
PRICES = ASSETS / "bench" / "builtin.json"


def test_a_lengthened_trace_is_lawful_and_as_long_as_asked():
    trace = read(EXAMPLE)
    for wanted in ({"rounds": 100}, {"tokens": 500}, {"rounds": 1}):
        long = lengthened(trace, **wanted)
        lines = "\n".join(["", *long.lines()]).encode()
        again = read(EXAMPLE.read_bytes().split(b"\n")[0] + lines)  # what a stranger's file must keep holds
        summary = fold(again.events)
        assert summary.rounds == wanted.get("rounds", summary.rounds)
        assert wanted.get("tokens", 0) <= len(summary.ids) <= wanted.get("tokens", 10**6) + 20


@pytest.mark.parametrize("waits", [0, 30])
def test_bytes_are_those_of_the_runs_events_and_its_end(waits):
    """However long the model took to load."""
    messages = [
        "a" * 10,
        "fovea-trace" + "b" * 90,
        *["Loading the model"] * waits,
        '\\"kind\\":\\"run_started\\"',
        "c" * 18,
        '\\"kind\\":\\"finished\\"',
        "heartbeat",
        "process_completed Done: x",
    ]
    assert _bytes_of_rounds(messages) == sum(len(message) + 2 for message in [*messages[-5:-2], messages[-1]])


def test_without_playwright_one_sentence_says_what_to_install(monkeypatch, capsys):
    real = builtins.__import__

    def refuse(name, *rest, **named):
        if name.startswith("playwright"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert main(["bench", "page"]) == 2
    error = capsys.readouterr().err
    assert "requirements-dev.txt" in error and error.count("\n") == 1


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_one_live_run_gives_every_figure():
    """In a process of its own, as a person runs it. Figures of a busy machine are not judged, but for those that do not
    depend on its speed: trees are those of the committed prices."""
    command = [sys.executable, "-m", "fovea_core", "bench", "page", "--runs", "1", "--prices", str(PRICES), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-500:]
    found = json.loads(done.stdout)
    assert set(found) == {*WANTED, "event_p50_ms", "events", "wanted"} and found["events"] > 50
    assert 0 < found["event_p50_ms"] <= found["event_p95_ms"] and found["scrub_ms"] > 0 and found["gallery_visible_s"] > 0
    assert found["bytes_per_round"] <= WANTED["bytes_per_round"] and found["export_kb"] <= WANTED["export_kb"]
