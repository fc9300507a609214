"""The trace: coding, laws, folding, recording, and hostile files."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fovea_core.trace import codec, record
from fovea_core.trace import events as ev
from fovea_core.trace.codec import TraceError, decode, encode
from fovea_core.trace.fold import Fold, fold
from fovea_core.trace.laws import checked
from tests import traces as made

SOME = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def breaks(events, sentence: str | None = None) -> None:
    """The events break a law; the sentence matches ``sentence``."""
    with pytest.raises(TraceError, match=sentence):
        list(checked(events))


@SOME
@given(made.traces())
def test_coding_is_exact_and_one_line(events):
    """decode(encode(e)) == e for every event, on one line of JSON that a browser reads too."""
    for event in events:
        line = encode(event)
        assert decode(line) == event and decode(line.encode()) == event
        assert "\n" not in line
        assert json.loads(line, parse_constant=pytest.fail)["kind"] == event.kind


@SOME
@given(made.traces())
def test_made_traces_keep_the_laws_at_every_prefix(events):
    assert list(checked(events)) == events


@SOME
@given(made.traces())
def test_fold_of_replay_is_fold_of_live(tmp_path_factory, events):
    """A recorded run folds to the same summary, and every prefix of a trace folds."""
    path = tmp_path_factory.mktemp("trace") / "run.jsonl"
    live = Fold()
    for event in record.tee(events, path, made.header()):
        live.add(event)
        live.summary().words()
    assert fold(record.replay(path)) == live.summary()
    assert record.read(path).lines() == [encode(event) for event in events]


@SOME
@given(made.traces())
def test_summary_counts_agree_with_finished(events):
    summary, done = fold(events), next(event for event in events if isinstance(event, ev.Finished))
    assert summary.ids == done.ids and summary.rounds == done.rounds and summary.tau == done.tau
    assert (summary.drafted, summary.accepted) == (done.drafted, done.accepted)
    assert summary.text == done.text and summary.reason == "length"


def node(number: int, parent: int, depth: int, text: str, token: int = 50, **more) -> ev.NodeDrafted:
    return ev.NodeDrafted(n=0, round=0, node=number, parent=parent, depth=depth, token=token, text=text, **more)


def read_of(number: int, depth: int, **changes) -> ev.MemoryRead:
    values = {
        "n": 0,
        "round": 0,
        "node": number,
        "depth": depth,
        "entries": codec.pack_entries([3, 7]),
        "masses": codec.pack_masses([0.5, 0.25]),
        "top_mass": 0.5,
        "captured": 0.75,
        "k_raw": 2,
        "peak": 0.4,
        "ms": 0.1,
    }
    return ev.MemoryRead(**{**values, **changes})


def verdict(**changes) -> ev.RoundVerified:
    values = {
        "n": 0,
        "round": 0,
        "accepted": [1],
        "rejected": [ev.Rejected(node=2, target_token=50, target_text=" a", target_logp=-0.1, logp=-3, rank=2)],
        "unverified": [3],
        "bonus": 51,
        "bonus_text": " b",
        "emitted": [50, 51],
        "pruned": 4,
        "draft_ms": 1,
        "select_ms": 0.2,
        "verify_ms": 3,
    }
    return ev.RoundVerified(**{**values, **changes})


def finished(**changes) -> ev.Finished:
    values = {"n": 0, "reason": "eos", "ids": [5, 50, 51], "text": "The a b", "rounds": 1, "drafted": 3, "accepted": 1}
    times = {f"{name}_ms": 1.0 for name in ("total", "prefill", "draft", "select", "verify")}
    return ev.Finished(**{**values, "tau": 2.0, **times, **changes})


def small(**changes) -> list[ev.AnyEvent]:
    """root - 1 ' a' (accepted), root - 2 (rejected), 2 - 3 (never judged), bonus ' b'; ``changes`` replaces parts."""
    parts = {
        "start": made.started(),
        "prefill": made.prefill(),
        "read0": read_of(0, 0),
        "node1": node(1, 0, 1, " a"),
        "node2": node(2, 0, 1, " c", 60),
        "node3": node(3, 2, 2, " d", 61),
        "verdict": verdict(),
        "finished": finished(),
        "compared": None,
    }
    return made.numbered([part for part in {**parts, **changes}.values() if part is not None])


def test_small_trace_by_hand():
    """2 children of the root, one accepted, one rejected with a child never judged, one bonus: all counts by hand."""
    summary = fold(checked(small()))
    assert (summary.drafted, summary.accepted, summary.rejected, summary.unverified) == (3, 1, 1, 1)
    assert summary.tau == 2.0 and summary.ids == [5, 50, 51] and summary.text == "The a b"
    assert [token.how for token in summary.tokens] == ["first", "accepted", "bonus"]
    assert summary.tokens[1].read.node == 0 and summary.tokens[2].read is None
    assert [(word.text, word.first, word.last) for word in summary.words()] == [("The", 0, 0), ("a", 1, 1), ("b", 2, 2)]


MUTATIONS = {
    "no start": {"start": None},
    "two starts": {"read0": made.started()},
    "no prefill": {"prefill": None},
    "validity too short": {
        "prefill": made.prefill(tiles=[ev.Tile(rows=4, columns=4, box=(0, 0, 1, 1), view="tile", first=0, valid=[12])])
    },
    "tiles overlap": {"prefill": made.prefill(tiles=made.prefill().tiles * 2)},
    "tile without area": {
        "prefill": made.prefill(tiles=[ev.Tile(rows=1, columns=1, box=(1, 0, 0, 1), view="tile", first=0, valid=[1])])
    },
    "span outside the prompt": {"prefill": made.prefill(image_spans=[(3, 99)])},
    "read of a padded entry": {"read0": read_of(0, 0, entries=codec.pack_entries([3, 12]))},
    "read of an entry beyond": {"read0": read_of(0, 0, entries=codec.pack_entries([3, 999]))},
    "read names an entry twice": {"read0": read_of(0, 0, entries=codec.pack_entries([3, 3]))},
    "more masses than entries": {"read0": read_of(0, 0, masses=codec.pack_masses([0.5, 0.2, 0.05]))},
    "masses rise": {"read0": read_of(0, 0, masses="f/8=")},
    "first mass is not the largest": {"read0": read_of(0, 0, masses="gH8=")},
    "entries cut off": {"read0": read_of(0, 0, entries="AwAH")},
    "no base64": {"read0": read_of(0, 0, entries="AwAHAA=")},
    "captured below top": {"read0": read_of(0, 0, captured=0.3)},
    "captured more than there is": {"read0": read_of(0, 0, top_mass=0.1, captured=0.9)},
    "read of no node": {"read0": read_of(9, 1)},
    "read at a wrong depth": {"read0": read_of(0, 1)},
    "read of another round": {"read0": read_of(0, 0, round=2)},
    "node twice": {"node2": node(1, 0, 1, " c", 60)},
    "node before its parent": {"node3": node(3, 4, 2, " d", 61)},
    "depth skips": {"node3": node(3, 2, 3, " d", 61)},
    "bytes are no hex": {"node3": node(3, 2, 2, "", 61, bytes="zz")},
    "a node without verdict": {"verdict": verdict(unverified=[])},
    "a verdict without node": {"verdict": verdict(unverified=[3, 4])},
    "two verdicts": {"verdict": verdict(unverified=[3, 2])},
    "accepted is no path": {"verdict": verdict(accepted=[3], rejected=[], unverified=[1, 2])},
    "judged below a rejected node": {
        "verdict": verdict(
            rejected=[ev.Rejected(node=n, target_token=1, target_text="", target_logp=-1, logp=-1, rank=1) for n in (2, 3)],
            unverified=[],
        )
    },
    "emitted another token": {"verdict": verdict(emitted=[49, 51])},
    "emitted another bonus": {"verdict": verdict(emitted=[50, 52])},
    "emitted too many": {"verdict": verdict(emitted=[50, 51, 52])},
    "emitted nothing": {"verdict": verdict(accepted=[], unverified=[1, 3], bonus=None, emitted=[]), "finished": None},
    "round number skips": {"verdict": verdict(round=1)},
    "finished with other ids": {"finished": finished(ids=[5, 50])},
    "finished with other counts": {"finished": finished(drafted=4)},
    "finished with other rounds": {"finished": finished(rounds=2)},
    "finished with another tau": {"finished": finished(tau=1.0)},
    "finished without tau": {"finished": finished(tau=None)},
    "finished within a round": {"verdict": None, "finished": finished(ids=[5], rounds=0, drafted=0, accepted=0, tau=None)},
    "finished twice": {"compared": finished()},
    "compared before finished": {
        "finished": None,
        "compared": ev.Compared(n=0, plain_ms=[1], plain_median_ms=1, speculative_ms=1, speedup=1, same_ids=True),
    },
    "same ids with a difference": {
        "compared": ev.Compared(
            n=0, plain_ms=[1], plain_median_ms=1, speculative_ms=1, speedup=1, same_ids=True, first_difference=2
        )
    },
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_law_refuses_its_mutation(name):
    list(checked(small()))
    breaks(small(**MUTATIONS[name]))


def test_running_numbers_have_no_gap():
    events = small()
    breaks([*events[:3], events[4]], "carries the number")
    breaks(events[1:], "carries the number")


@SOME
@given(made.traces(), st.data())
def test_dropping_or_swapping_an_event_is_noticed(events, data):
    """Remove any event but the last, or swap two neighbours, and renumber: counts or order no longer agree."""
    assume(len(events) > 3)
    place = data.draw(st.integers(0, len(events) - 2))
    lost = events[place]
    # A read is an extra; and a first verdict may be missing only together with what finished counts.
    assume(not isinstance(lost, ev.MemoryRead))
    assume(not isinstance(lost, ev.Finished))
    breaks(made.numbered(events[:place] + events[place + 1 :]))


def file_of(events, head: str | None = None) -> bytes:
    lines = [head if head is not None else codec.encode_header(made.header()), *map(encode, events)]
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("form", ["png", "jpeg", "webp"])
def test_file_round_trip(form, tmp_path):
    trace = record.Trace(made.header(form=form), tuple(small()))
    record.write(tmp_path / "t.jsonl", trace)
    assert record.read(tmp_path / "t.jsonl") == trace
    assert trace.header.picture_bytes()[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"RIFF")


def test_a_trace_cut_after_any_whole_line_is_valid_and_within_a_line_is_not():
    data = file_of(small())
    ends = [place for place, byte in enumerate(data) if byte == 10]
    for end in ends[1:]:
        assert record.read(data[: end + 1]).events == record.read(data[:end]).events
        with pytest.raises(TraceError, match="damaged"):
            record.read(data[: end - 3])


def test_a_stopped_recording_keeps_what_came(tmp_path):
    """Closing the generator closes the file; the events so far are a valid trace."""
    events = small()
    running = record.tee(iter(events), tmp_path / "t.jsonl", made.header())
    for _ in range(4):
        next(running)
    running.close()
    assert list(record.replay(tmp_path / "t.jsonl")) == events[:4]


def header_line(**changes) -> str:
    return json.dumps({"format": "fovea-trace", "version": 1, "picture": made.header().picture, **changes})


SVG = "data:image/svg+xml;base64,PHN2Zy8+"
HOSTILE = {
    "empty": (b"", "not a trace"),
    "one byte": (b"x", "not a trace"),
    "zeros": (b"\0" * 5000, "not a trace"),
    "png": (made.header().picture_bytes(), "not a trace"),
    "deep nesting": (b"[" * 200_000, "not a trace"),
    "other json": (b'{"format": "other"}\n', "not a trace"),
    "list": (b"[1]\n", "not a trace"),
    "newer": (header_line(version=2).encode(), "newer explorer"),
    "version zero": (header_line(version=0).encode(), "damaged"),
    "version true": (header_line(version=True).encode(), "damaged"),
    "version text": (header_line(version="1").encode(), "damaged"),
    "extra key": (header_line(script="x").encode(), "damaged"),
    "no event": (header_line().encode() + b"\n", "no event"),
    "svg": (header_line(picture=SVG).encode(), "not a png"),
    "address": (header_line(picture="https://example.org/x.png").encode(), "not a png"),
    "markup": (header_line(picture='data:image/png;base64,"><img src=x>').encode(), "not a png"),
    "picture is a number": (header_line(picture=3).encode(), "not a png"),
    "wrong type": (header_line(picture=made.header().picture.replace("png", "jpeg")).encode(), "another type"),
    "cut picture": (header_line(picture=made.header().picture[:-60]).encode(), "damaged"),
    "large picture": (header_line(picture=made.header((1281, 10)).picture).encode(), "larger than"),
    "long header": (b" " * 13_000_000, "too long"),
    "long line": (header_line().encode() + b"\n" + b" " * 500_000, "larger than"),
    "not utf-8": (header_line().encode() + b"\n\xff\xfe{}\n", "damaged"),
    "unknown kind": (header_line().encode() + b'\n{"kind": "evil", "n": 0}\n', "damaged"),
    "nan": (file_of(small()).replace(b'"ms":0.1', b'"ms":NaN'), "damaged"),
    "text for a number": (file_of(small()).replace(b'"round":0', b'"round":"0"'), "damaged"),
    "unknown field": (file_of(small()).replace(b'"pruned":4', b'"pruned":4,"x":1'), "damaged"),
    "setting is infinite": (file_of(small()).replace(b'"temperature":0.0', b'"temperature":1e999'), "damaged"),
    "surrogate": (file_of(small()).replace(b'"text":" a"', b'"text":"\\ud800"'), "damaged"),
    "newer schema": (file_of(small()).replace(b'"schema_version":1', b'"schema_version":2'), "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_get_one_sentence(name):
    data, sentence = HOSTILE[name]
    with pytest.raises(TraceError, match=sentence) as caught:
        record.read(data)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 300 and message.endswith(".")


def test_a_file_too_large_is_not_read(tmp_path):
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        file.truncate(record.MAX_FILE_BYTES + 1)
    with pytest.raises(TraceError, match="MiB"):
        record.read(path)
    with pytest.raises(TraceError, match="cannot be read"):
        record.read(tmp_path / "missing.jsonl")


@given(st.lists(st.integers(0, 65_535)))
def test_entries_packing_is_exact(entries):
    assert codec.unpack_entries(codec.pack_entries(entries)) == entries


def test_packed_masses_are_relative_to_the_largest():
    assert codec.unpack_masses(codec.pack_masses([0.5, 0.25, 0.0])) == [255, 128, 0]
    assert codec.unpack_masses(codec.pack_masses([])) == []


def test_incomplete_characters_join_to_the_text():
    """Tokens that hold halves of an emoji give the whole emoji once joined."""
    emoji = "🦊".encode()
    events = small(
        node1=node(1, 0, 1, "", bytes=(b" " + emoji[:2]).hex()),
        verdict=verdict(bonus_text="", bonus_bytes=emoji[2:].hex()),
        finished=None,
    )
    assert fold(checked(events)).text == "The 🦊"


def test_reads_that_serve_a_round_or_the_run_reach_words_without_their_own():
    run = read_of(0, 0, serves="run")
    assert fold(checked(small(read0=run))).tokens[1].read == small(read0=run)[2]
    assert fold(checked(small(read0=None))).tokens[1].read is None


def test_the_trace_room_needs_no_model_library():
    """No file of fovea_core/trace imports torch, numpy, transformers or the app."""
    for path in Path("fovea_core/trace").glob("*.py"):
        for item in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in item.names] if isinstance(item, ast.Import) else []
            names += [item.module or ""] if isinstance(item, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"torch", "numpy", "transformers", "gradio", "app"}
