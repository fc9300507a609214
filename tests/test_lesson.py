"""What the Learn tab replays: which runs, the recordings without the memory, and what a damaged file does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.pages.learn import lesson_value
from fovea_core.engine import Engine
from fovea_core.examples import load_examples, record
from fovea_core.lesson import lesson_examples, read_without, record_without, without_path
from fovea_core.trace.fold import fold
from fovea_core.trace.record import read
from tests.toys import ScriptDrafter, coin, reference, toy_picture, toy_target


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two charts and a scene, recorded with a toy pair: (examples, engine)."""
    folder = tmp_path_factory.mktemp("assets")
    (folder / "examples").mkdir()
    entries = [
        {"name": name, "title": name, "kind": kind, "seed": seed, "question": "List all."}
        for name, kind, seed in (("bars", "chart", 3), ("more", "chart", 4), ("site", "scene", 5))
    ]
    (folder / "examples" / "examples.json").write_text(json.dumps(entries))
    target = toy_target()
    target.eos_ids = frozenset()
    truth, _ = reference(target, toy_picture(0), "List all.", 6)
    engine = Engine(target, lambda name: ScriptDrafter("script", coin(0.6), truth, target.vocab_size))
    examples = load_examples(folder)
    record(engine, examples, budget=6)
    return examples, engine


def test_the_first_example_of_each_kind_is_taught_from(recorded):
    examples, _ = recorded
    assert [example.name for example in lesson_examples(examples)] == ["bars", "site"]
    lost = [replace(examples[0], trace=examples[0].trace.with_name("none.jsonl")), *examples[1:]]
    assert [example.name for example in lesson_examples(lost)] == ["more", "site"]


def test_a_recording_without_the_memory_belongs_to_its_run(recorded):
    """Same ids, nothing read; one of another question, or none, is not used."""
    examples, engine = recorded
    trace = read(examples[0].trace)
    assert read_without(examples[0], trace) is None and lesson_value(examples, 0)["without"] == []
    record_without(engine, examples, budget=6)
    found = read_without(examples[0], trace)
    assert fold(found.events).ids == fold(trace.events).ids
    assert found.events[0].policy == "none" and not any(event.kind == "memory_read" for event in found.events)
    assert lesson_value(examples, 0)["without"] == list(found.lines())
    assert not without_path(examples[1]).exists()
    path, text = without_path(examples[0]), without_path(examples[0]).read_text()
    path.write_text(text.replace("List all.", "List none."))
    assert read_without(examples[0], trace) is None
    path.write_text(text)


def test_an_answer_that_differs_is_not_recorded(recorded):
    """With a shorter budget the ids differ: one sentence, and the file stays as it was."""
    examples, engine = recorded
    with pytest.raises(ValueError, match="bars: the answer without the memory"):
        record_without(engine, examples, budget=3)


def test_the_value_of_the_lesson(recorded, tmp_path):
    examples, _ = recorded
    first = lesson_value(examples)
    assert first["lines"] == [] and [run["title"] for run in first["runs"]] == ["bars", "more", "site"]
    value = lesson_value(examples, 2)
    assert value["index"] == 2 and json.loads(value["lines"][1])["question"] == "List all." and value["trouble"] == ""
    for wrong in (-1, 3, "0", 1.0, {}, [0]):
        assert lesson_value(examples, wrong)["trouble"] == "There is no such recorded run."
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"format": "fovea-trace"}\n')
    assert lesson_value([replace(examples[0], trace=broken)], 0)["trouble"]


def test_committed_recordings_without_the_memory_fit():
    """Each lesson example has one, of the committed run's models, and with the same answer; `make traces` makes them anew."""
    for example in lesson_examples(load_examples()):
        trace = read(example.trace)
        found = read_without(example, trace)
        assert found is not None, f"{example.name}: run make traces"
        assert fold(found.events).ids == fold(trace.events).ids
