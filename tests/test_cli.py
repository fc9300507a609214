"""The command line: results on stdout, everything else on stderr, one sentence and exit code 2 for an error."""

from __future__ import annotations

import functools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from fovea_core import cli, engine
from fovea_core.bench import outside
from fovea_core.examples import FIRST_RESERVED_SEED, load_examples, record
from fovea_core.targets.registry import load_target
from fovea_core.trace.events import OUTSIDE, Compared, Finished
from fovea_core.trace.record import read
from tests.sample_traces import sample_lines
from tests.toys import ScriptDrafter, coin, reference, toy_model, toy_picture, toy_target, toy_tokenizer

QUESTION = "what is in the picture?"
TOKENS = 10


@pytest.fixture
def toy(monkeypatch):
    """The command line finds a toy target and a drafter that is right about half of the time."""
    target = toy_target()
    target.eos_ids = frozenset()
    truth, _ = reference(target, toy_picture(0), QUESTION, TOKENS)
    drafter = ScriptDrafter("script", coin(0.6), truth, target.vocab_size)
    made = engine.Engine(target, lambda name: None if name == "none" else drafter)
    monkeypatch.setattr(engine, "load_engine", lambda *arguments, **options: made)
    return made, truth


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    toy_picture(0).save(path)
    return str(path)


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(sample_lines("compared")) + "\n")
    return str(path)


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *arguments: str) -> str:
    """The command is refused: exit code 2, nothing on stdout, one line without traceback on stderr; returns it."""
    code, out, err = call(capsys, *arguments)
    assert code == 2 and out == "" and "Traceback" not in err
    assert len(err.strip().splitlines()) == 1, err
    return err


KEYS = {"text", "token_ids", "plain_token_ids", "same_ids", "finish", "rounds", "tau", "drafted", "accepted"}
KEYS |= {"plain_ms", "speculative_ms", "speedup", "policy", "device", "outside"}


@pytest.mark.parametrize("tree", ["3,2,6", "auto"])
def test_decode_json_is_one_object_that_agrees_with_the_reference(toy, picture, capsys, tree):
    arguments = ["--image", picture, "--question", QUESTION, "--max-new-tokens", str(TOKENS), "--tree", tree, "--json"]
    code, out, _ = call(capsys, "decode", *arguments)
    values = json.loads(out)
    assert code == 0 and set(values) == KEYS and out.count("\n") == 1
    assert values["token_ids"] == values["plain_token_ids"] == toy[1] and values["same_ids"] is True
    assert values["finish"] == "length" and values["tau"] == (TOKENS - 1) / values["rounds"]
    assert values["speedup"] == pytest.approx(values["plain_ms"] / values["speculative_ms"])
    assert values["accepted"] <= values["drafted"]


def test_decode_prints_the_answer_and_records_a_lawful_trace(toy, picture, capsys, tmp_path):
    path = tmp_path / "new.jsonl"
    arguments = ["--image", picture, "--question", QUESTION, "--max-new-tokens", "6", "--trace", str(path), "--tree", "3,2,6"]
    code, out, err = call(capsys, "decode", *arguments)
    trace = read(path)
    finished = next(event for event in trace.events if isinstance(event, Finished))
    assert code == 0 and out == finished.text + "\n" and "tau" in err
    assert isinstance(trace.events[-1], Compared) and finished.ids == toy[1][:6]
    code, again, _ = call(capsys, "replay", str(path), "--json")
    assert code == 0 and json.loads(again)["token_ids"] == finished.ids


def test_decode_passes_the_depth_limit_on(toy, picture, capsys, monkeypatch):
    asked, run = [], toy[0].run
    monkeypatch.setattr(toy[0], "run", lambda request, *rest: asked.append(request.settings.depth_limit) or run(request, *rest))
    arguments = ["--image", picture, "--question", QUESTION, "--max-new-tokens", "3", "--tree", "2,1,3", "--json"]
    assert call(capsys, "decode", *arguments, "--depth-limit", "1")[0] == 0 and set(asked) == {1}


def test_decode_without_a_drafter_is_plain(toy, picture, capsys):
    arguments = ["--image", picture, "--question", QUESTION, "--max-new-tokens", "5", "--drafter", "none", "--json"]
    values = json.loads(call(capsys, "decode", *arguments)[1])
    assert values["token_ids"] == toy[1][:5] and values["tau"] == 1.0 and values["drafted"] == 0


WRONG = {
    "no question": (["decode", "--image", "P"], "question"),
    "empty question": (["decode", "--image", "P", "--question", " \u200b"], "ask a question"),
    "no picture": (["decode", "--image", "missing.png", "--question", "a?"], "cannot be read"),
    "no tokens": (["decode", "--image", "P", "--question", "a?", "--max-new-tokens", "0"], "max_new_tokens"),
    "too many tokens": (["decode", "--image", "P", "--question", "a?", "--max-new-tokens", "1000000000"], "max_new_tokens"),
    "tokens are no number": (["decode", "--image", "P", "--question", "a?", "--max-new-tokens", "abc"], "integer"),
    "cold": (["decode", "--image", "P", "--question", "a?", "--temperature", "-1"], "temperature"),
    "infinitely hot": (["decode", "--image", "P", "--question", "a?", "--temperature", "inf"], "temperature"),
    "not a number": (["decode", "--image", "P", "--question", "a?", "--top-p", "nan"], "top_p"),
    "half a tree": (["decode", "--image", "P", "--question", "a?", "--tree", "6,6"], "tree"),
    "huge tree": (["decode", "--image", "P", "--question", "a?", "--tree", "6,6,9999"], "tree"),
    "policy": (["decode", "--image", "P", "--question", "a?", "--policy", "magic"], "policy"),
    "depth limit": (["decode", "--image", "P", "--question", "a?", "--depth-limit", "-2"], "depth_limit"),
    "device": (["decode", "--image", "P", "--question", "a?", "--device", "foo"], "device 'foo'"),
    "device to train on": (["train-target", "--work", "W", "--device", "foo"], "device 'foo'"),
    "device to train drafters on": (["train-drafter", "--work", "W", "--device", "foo"], "device 'foo'"),
    "no place for results": (["bench", "builtin", "--json", "W/results.json"], "No such file"),
    "command": (["frobnicate"], "frobnicate"),
    "option": (["replay", "--loud"], "loud"),
    "no trace": (["replay", "missing.jsonl"], "cannot be read"),
    "not a trace": (["replay", "P"], "not a trace"),
    "kind": (["world", "--kind", "opera", "--seed", "1", "--out", "W"], "opera"),
    "seed": (["world", "--kind", "scene", "--seed", "-5", "--out", "W"], "seed"),
    "seeds": (["bench", "builtin", "--seeds", "9:3"], "seeds"),
    "pace": (["replay", "T", "--pace", "-1"], "pace"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(name, capsys, picture, trace_file, tmp_path):
    arguments, says = WRONG[name]
    places = {"P": picture, "T": trace_file, "W": str(tmp_path / "world")}
    places["W/results.json"] = str(tmp_path / "world" / "results.json")
    assert says in refused(capsys, *[places.get(argument, argument) for argument in arguments])


def test_a_target_folder_that_is_none(capsys, picture, tmp_path):
    assert "config.json" in refused(capsys, "decode", "--image", picture, "--question", "a?", "--target", str(tmp_path))
    assert "no folder" in refused(capsys, "decode", "--image", picture, "--question", "a?", "--target", "../../etc/none")


def test_a_fault_of_the_program_is_one_sentence_too(capsys, monkeypatch, picture):
    def broken(*arguments, **options):
        raise RuntimeError("two\nlines [red]")

    monkeypatch.setattr(engine, "load_engine", broken)
    line = refused(capsys, "decode", "--image", picture, "--question", "a?")
    assert "fault of the program" in line and "[red]" in line


def test_replay_prints_text_and_figures(capsys, trace_file):
    code, out, err = call(capsys, "replay", trace_file)
    assert code == 0 and out.startswith("The worker wears") and "same text: yes" in err


def test_world_writes_picture_questions_and_masks(capsys, tmp_path):
    code, out, _ = call(capsys, "world", "--kind", "text", "--seed", "11", "--out", str(tmp_path))
    questions = json.loads((tmp_path / "qa.json").read_text())
    assert code == 0 and out == "" and (tmp_path / "picture.png").is_file()
    for question in questions:
        assert set(question) == {"question", "answer", "type", "facts"}
        for fact in question["facts"]:
            assert question["answer"][fact["start"] : fact["end"]] == fact["text"]
            assert (tmp_path / fact["mask"]).is_file()


def run_on_terminal(*arguments: str) -> str:
    """What a person sees in a terminal of 80 columns."""
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fovea_core", *arguments],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"},
    )
    os.close(other_end)
    seen = b""
    while True:
        try:
            data = os.read(main_end, 65_536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(main_end)
    assert process.wait(60) == 0
    return seen.decode("utf-8", "replace")


def test_replay_on_a_terminal_is_coloured_and_cannot_be_steered(tmp_path, trace_file):
    """Accepted and rejected words are styled; an escape sequence inside a recorded text is shown, not obeyed."""
    seen = run_on_terminal("replay", trace_file, "--pace", "0")
    assert "\x1b[" in seen and "jumpsuit" in seen and "tau" in seen
    evil = tmp_path / "evil.jsonl"
    lines = [line.replace('" worker"', '" wor\\u001b]0;gotcha\\u0007ker"') for line in sample_lines("compared")]
    evil.write_text("\n".join(lines) + "\n")
    seen = run_on_terminal("replay", str(evil), "--pace", "0")
    assert "gotcha" in seen and "\x1b]0;" not in seen


@pytest.fixture
def outside_file(tmp_path):
    """The sample trace, its picture outside the target's world."""
    path = tmp_path / "outside.jsonl"
    lines = sample_lines("compared")
    lines[2] = json.dumps({**json.loads(lines[2]), "outside": True})
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_picture_outside_the_world_is_called_that_before_the_answer(capsys, trace_file, outside_file):
    """One sentence before the answer, on stderr or on the terminal; true in --json; nothing of it for other runs."""
    code, out, err = call(capsys, "replay", outside_file)
    assert code == 0 and out.startswith("The worker wears") and err.startswith(OUTSIDE)
    assert OUTSIDE not in call(capsys, "replay", trace_file)[2]
    for path, said in ((outside_file, True), (trace_file, None)):
        assert json.loads(call(capsys, "replay", path, "--json")[1])["outside"] is said
    seen = run_on_terminal("replay", outside_file, "--pace", "0")
    assert "This model only knows" in seen and seen.rindex("This model only knows") < seen.rindex("jumpsuit")


def test_calibrate_outside_writes_a_check_beside_the_target(capsys, tmp_path, monkeypatch):
    """The command's own way on a toy target with a few pictures; its file is loaded with the target from then on."""
    folder = tmp_path / "toy"
    toy_model().save_pretrained(folder)
    toy_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "fovea_target.json").write_text(json.dumps({"image_size": 32, "cells": 4}))
    capsys.readouterr()  # a progress bar of saving
    arguments = ("calibrate-outside", "--target", str(folder))
    assert "no folder" in refused(capsys, *arguments, "--photos", str(tmp_path / "none"))
    few = functools.partial(outside.calibrate, counts=(3, 3, 3), strangers=1)
    monkeypatch.setattr(outside, "calibrate", few)
    code, out, err = call(capsys, *arguments)
    assert code == 0 and out == "" and "false alarms" in err and "photographs" in err
    assert (tmp_path / "toy.outside.safetensors").is_file() and load_target(str(folder)).check.measured["detected"]


def test_ctrl_c_ends_cleanly(trace_file, tmp_path):
    """Interrupted while replaying slowly: exit code 130, no traceback."""
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fovea_core", "replay", trace_file, "--pace", "0.2"],
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm"},
        # A shell that starts the tests in its background has them ignore the signal, and whoever they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(other_end)
    seen = []

    def drain():
        try:
            while data := os.read(main_end, 4096):
                seen.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    until = time.monotonic() + 60
    while not any(b"The" in data for data in seen) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    code = process.wait(30)
    reader.join(10)
    os.close(main_end)
    assert code == 130 and b"Traceback" not in b"".join(seen)


def test_help_and_replay_need_no_model_library(trace_file):
    """Neither torch nor transformers nor gradio is imported by help, replay or a refused request."""
    script = (
        "import sys; from fovea_core.cli import main; codes = [main(['--help']), main(['replay', sys.argv[1]]), "
        "main(['decode', '--image', 'x', '--question', ' '])]; assert codes == [0, 0, 2], codes; "
        "assert not {'torch', 'transformers', 'gradio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, trace_file], check=True, capture_output=True, timeout=120)


def test_a_closed_pipe_is_no_error(trace_file):
    command = f"{sys.executable} -m fovea_core replay {trace_file} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_the_list_of_examples_is_lawful():
    """Four examples of each kind, none from seeds that validation or the last judgement use; the first is the paper's."""
    examples = load_examples()
    assert [example.kind for example in examples] == ["scene"] * 4 + ["text"] * 4 + ["chart"] * 4
    (worker,) = examples[0].spec["workers"]
    assert [worker[part] for part in ("jumpsuit", "headwear_colour", "headwear", "tool_colour", "tool")] == (
        ["orange", "yellow", "hard hat", "blue", "hose"]
    )
    assert len({example.question for example in examples}) >= 10 and all(example.look for example in examples)
    assert all(example.seed < FIRST_RESERVED_SEED and example.question for example in examples)


def test_record_draws_pictures_and_runs(toy, tmp_path):
    """Recording writes a picture and a lawful trace per example; its question and fingerprints are those of the run."""
    (tmp_path / "examples").mkdir()
    entry = {"name": "bars", "title": "Bars", "kind": "chart", "seed": 3, "question": "List the bars."}
    (tmp_path / "examples" / "examples.json").write_text(json.dumps([entry]))
    examples = load_examples(tmp_path)
    assert not examples[0].recorded
    record(toy[0], examples, budget=6)
    assert examples[0].recorded
    events = read(examples[0].trace).events
    assert events[0].question == "List the bars." and isinstance(events[-1], Compared)


@pytest.mark.parametrize("change", [{"name": "../up"}, {"seed": FIRST_RESERVED_SEED}])
def test_a_damaged_list_of_examples_is_refused(tmp_path, change):
    (tmp_path / "examples").mkdir()
    entry = {"name": "bars", "title": "Bars", "kind": "chart", "seed": 3, "question": "List the bars.", **change}
    (tmp_path / "examples" / "examples.json").write_text(json.dumps([entry]))
    with pytest.raises(ValueError, match="example"):
        load_examples(tmp_path)


def test_recorded_examples_are_of_the_committed_models():
    """The gallery was recorded with the very weights in assets/builtin; `make traces` records it anew."""
    loaded = engine.load_engine("builtin", "cpu")
    drafter = loaded.drafter("builtin")
    for example in load_examples():
        assert example.recorded, f"{example.name} is not recorded: run make traces"
        started = read(example.trace).events[0]
        assert started.target.fingerprint == loaded.target.fingerprint, f"{example.name}: run make traces"
        assert started.drafter.fingerprint == drafter.fingerprint, f"{example.name}: run make traces"
        assert started.question == example.question
