"""The figures of a run: their numbers against the fold, their schema against plotly, hostile words against its markup."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings

from app.charts import charts_of, plotly_js
from fovea_core.bench.page import lengthened
from fovea_core.trace.codec import decode, unpack_entries
from fovea_core.trace.events import RoundVerified
from fovea_core.trace.fold import fold
from fovea_core.trace.record import read
from tests.sample_traces import sample_lines
from tests.traces import traces


def figures(events) -> dict[str, dict]:
    return {figure["name"]: figure for figure in charts_of(fold(events)) or []}


def check(events) -> None:
    """Every number of every figure equals what events and fold say."""
    summary, made = fold(events), figures(events)
    verdicts = [event for event in events if isinstance(event, RoundVerified)]
    if not verdicts:
        assert made == {}
        return
    steps = [verdict.round + 1 for verdict in verdicts]
    accepted, bonus = made["kept"]["data"]
    assert accepted["x"] == bonus["x"] == steps
    assert accepted["y"] == [len(verdict.accepted) for verdict in verdicts] and sum(accepted["y"]) == summary.accepted
    assert [a + b for a, b in zip(accepted["y"], bonus["y"])] == [len(verdict.emitted) for verdict in verdicts]
    for trace in made["times"]["data"]:
        assert trace["x"] == steps
        assert trace["y"] == [getattr(verdict, f"{trace['name']}_ms") for verdict in verdicts]
    reads = [token.read for token in summary.tokens]
    assert ("entries" in made) == ("shares" in made) == any(reads)
    if any(reads):
        (entries,), (captured, *gates) = made["entries"]["data"], made["shares"]["data"]
        assert entries["x"] == captured["x"] == [token.position + 1 for token in summary.tokens]
        assert entries["y"] == [None if read is None else len(unpack_entries(read.entries)) for read in reads]
        assert captured["y"] == [None if read is None else read.captured for read in reads]
        expected = [None if read is None else read.gate for read in reads]
        assert [trace["y"] for trace in gates] == ([expected] if any(gate is not None for gate in expected) else [])


@settings(max_examples=60, deadline=None)
@given(traces())
def test_numbers_are_those_of_the_fold(events):
    """Also of runs cut off anywhere."""
    for end in {len(events), len(events) // 2}:
        check(events[:end])


@pytest.mark.parametrize("variant", ["compared", "stopped", "flat", "wide"])
def test_plotly_takes_every_figure(variant):
    """The whole schema is checked by plotly itself; every figure says in words what it shows."""
    import plotly.graph_objects as go

    events = [decode(line) for line in sample_lines(variant)[1:]]
    check(events)
    made = figures(events)
    assert list(made) == ["kept", "entries", "shares", "times"]
    for figure in made.values():
        go.Figure({"data": figure["data"], "layout": figure["layout"]})
        assert figure["text"].endswith(".") and any(sign.isdigit() for sign in figure["text"])


def test_a_run_without_reads_has_no_charts_of_them():
    """A drafter that never looks: steps and times only."""
    events = [decode(line) for line in sample_lines("scene")[1:]]
    blind = [event for event in events if event.kind != "memory_read"]
    assert list(figures(blind)) == ["kept", "times"] and charts_of(fold(blind[:2])) is None


def test_hostile_words_are_escaped():
    """Nothing of a model's text is left that plotly could take for markup."""
    made = figures([decode(line) for line in sample_lines("hostile")[1:]])
    for trace in (*made["entries"]["data"], *made["shares"]["data"]):
        assert any("&lt;" in text for text in trace["hovertext"])
        assert not any(sign in text for text in trace["hovertext"] for sign in "<>")


def test_a_committed_example_has_all_charts():
    check(read("assets/traces/blue-hose.jsonl").events)


def test_the_markers_of_a_long_answer_are_small():
    trace = read("assets/traces/blue-hose.jsonl")
    sizes = [
        {line["marker"]["size"] for line in figures(run.events)["shares"]["data"]}
        for run in (trace, lengthened(trace, tokens=250))
    ]
    assert sizes == [{6}, {3}]


def test_charts_need_neither_torch_nor_plotly_to_be_made():
    """The page starts without either; plotly's script lies where it is served from."""
    assert plotly_js().stat().st_size > 1_000_000
    heavy = "{'torch', 'plotly.graph_objects'} & set(sys.modules)"
    code = f"import sys, app.charts; app.charts.plotly_js(); sys.exit(bool({heavy}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
