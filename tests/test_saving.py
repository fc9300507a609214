"""Files that the page makes of the lines a browser sends, and what every door says to a trace that cannot be shown."""

from __future__ import annotations

import base64
import io
import json
import threading
from types import SimpleNamespace

import pytest
from PIL import Image

from app import saving
from app.asking import DRAFTERS
from app.handlers import LINE, PLAYER, Handlers
from app.saving import make_file
from fovea_core import cli
from fovea_core.examples import Example
from fovea_core.gallery import GalleryError, gallery_html
from fovea_core.render import exported, maps_of
from fovea_core.trace.record import read
from fovea_core.trace.strip import trajectory_strip
from tests.sample_traces import draw_picture, sample_lines


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return sample_lines("scene")


@pytest.fixture(scope="module")
def trace(lines):
    return read("\n".join(lines).encode())


def asked(lines, kind="strip", **more):
    return {"kind": kind, "lines": lines, "words": None, "step": 1, "palette": "viridis", **more}


def made(answer) -> bytes:
    assert "trouble" not in answer, answer
    return base64.b64decode(answer["data"])


@pytest.mark.parametrize("kind", ["strip", "png", "html"])
def test_the_file_is_what_the_command_line_makes(lines, trace, kind):
    step = 1 if kind == "png" else None
    assert made(make_file(asked(lines, kind))) == exported(trace, kind, step=step)


def test_the_strip_has_the_words_that_were_chosen(lines, trace):
    """A token of each word names it; the page's own choice sent as tokens gives the page's own strip."""
    summary = maps_of(trace).summary
    own = trajectory_strip(summary)
    tokens = [word.word.last for word in own]
    assert made(make_file(asked(lines, words=tokens))) == exported(trace, "strip")
    numbers = [n for n, word in enumerate(summary.words(), 1) if word.first in [w.word.first for w in own[:2]]]
    assert made(make_file(asked(lines, words=tokens[:2]))) == exported(trace, "strip", words=numbers)
    with Image.open(io.BytesIO(made(make_file(asked(lines, "gif", words=tokens[:2]))))) as movie:
        assert movie.n_frames == 2


@pytest.mark.parametrize(
    "change, said",
    [
        ({"kind": "exe"}, "no such file"),
        ({"kind": ["strip"]}, "no such file"),
        ({"lines": "{}"}, "no trace"),
        ({"lines": [1, 2]}, "no trace"),
        ({"lines": ["x" * 2_000_000] * 2}, "longer than the 3 MB"),
        ({"lines": ['{"format": "fovea-trace", "version": 9}', "{}"]}, "newer explorer"),
        ({"lines": ["\ud800", "{}"]}, "not a trace"),
        ({"words": "all"}, "no words"),
        ({"words": [True]}, "no words"),
        ({"words": [-5]}, "No word is chosen"),
        ({"palette": "<b>"}, "no palette"),
        ({"palette": 7}, "no palette"),
        ({"kind": "png", "step": 10**9}, "no step"),
    ],
)
def test_a_browsers_word_is_checked(lines, change, said):
    """Whatever is sent: one sentence, and the next file is made."""
    answer = make_file({**asked(lines), **change})
    assert set(answer) == {"trouble"} and said in answer["trouble"] and "\n" not in answer["trouble"]
    assert not saving._one_at_a_time.locked()


@pytest.mark.parametrize("nothing", [None, [], "strip", 3, {}])
def test_what_is_no_request_is_a_sentence(nothing):
    assert "no such file" in make_file(nothing)["trouble"]


def test_files_are_made_one_after_the_other(lines, monkeypatch):
    """Who waits too long is told so; nothing is made meanwhile."""
    monkeypatch.setattr(saving, "LONGEST_WAIT_S", 0.05)
    with saving._one_at_a_time:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(make_file(asked(lines))))
        waiting.start()
        waiting.join(20)
    assert "try again" in answers[0]["trouble"]


#: Drafter, policy, tree, tokens, temperature, top-p, seed, whether to compare: as the page's widgets stand.
PAGE = ("lookup", "dense", "chain", 33, 0.5, 0.9, 7, False, False)
EMBEDDED = {"ready": True, "model": "builtin", "drafters": DRAFTERS}


def test_only_a_few_may_wait(lines, monkeypatch):
    """The fifth is sent away at once, however long the others would wait; afterwards all is as before."""
    monkeypatch.setattr(saving, "LONGEST_WAIT_S", 30)
    with saving._one_at_a_time:
        waiting = [threading.Thread(target=make_file, args=(asked(lines, "nothing"),)) for _ in range(saving.MOST_WAITING)]
        for thread in waiting:
            thread.start()
        while saving._places._value:
            pass
        assert make_file(asked(lines))["trouble"] == saving.BUSY
    for thread in waiting:
        thread.join(20)
    assert "data" in make_file(asked(lines))


# ---- doors ----

BROKEN = {
    "future": ('{"format": "fovea-trace", "version": 9, "picture": ""}\n{}\n', "written by a newer explorer"),
    "cut": ("\n".join(sample_lines("scene"))[:-30], "is damaged"),
    "text": ("hello\nworld\n", "not a trace"),
    "empty": ("", "not a trace"),
    "binary": (b"\x00\xff\x1f\x8b" * 400, "not a trace"),
}


@pytest.fixture(params=BROKEN)
def broken(request, tmp_path):
    """A file that is no trace this program can show, an example made of it, and what has to be said."""
    content, said = BROKEN[request.param]
    path, picture = tmp_path / "run.jsonl", tmp_path / "run.png"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    draw_picture().save(picture)
    return path, Example("run", "A run", "scene", 1, "?", None, picture, path), said


@pytest.mark.parametrize("command", ["replay", "export"])
def test_the_command_line_says_one_sentence(broken, command, capsys):
    path, _, said = broken
    assert cli.main([command, str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.strip().splitlines()) == 1


def test_the_page_says_one_sentence_and_loses_nothing(broken):
    """Load, an example, a link to it, and its live run: the status line says it, everything else stays; no ticket is kept."""
    path, example, said = broken
    forgotten, accepted = [], []
    session = SimpleNamespace(forget=forgotten.append, accept=lambda *ticket: accepted.append(ticket), **EMBEDDED)
    on, who = Handlers(session, [example]), SimpleNamespace(session_hash="me")
    answers = [
        on.load(str(path), who),
        on.open(SimpleNamespace(index=0), who),
        on.link(SimpleNamespace(name="run"), who),
        on.rerun(SimpleNamespace(index=0), who, *PAGE),
    ]
    for values in answers:
        assert said in values[LINE]["text"] and values[LINE]["state"] == "trouble"
        assert values[PLAYER].get("lines") is None
        others = [value for place, value in enumerate(values) if place not in (LINE, PLAYER)]
        assert all(value.get("__type__") == "update" and len(value) == 1 for value in others)
    assert not accepted


def test_a_gallery_is_not_written_around_a_damaged_trace(broken):
    _, example, said = broken
    with pytest.raises(GalleryError, match=said) as error:
        gallery_html([example])
    assert "run.jsonl" in str(error.value)


@pytest.mark.parametrize("index", [-1, 5, "0", None, True, 1e9])
def test_an_example_that_is_not_there(index):
    on = Handlers(SimpleNamespace(forget=lambda who: None), [])
    assert "no such example" in on.open(SimpleNamespace(index=index), SimpleNamespace(session_hash="me"))[LINE]["text"]


@pytest.mark.parametrize("name", ["nope", "", None, ["run"], "../run"])
def test_a_link_to_nothing(name):
    on = Handlers(SimpleNamespace(forget=pytest.fail), [])
    assert "not among the recorded" in on.link(SimpleNamespace(name=name), SimpleNamespace(session_hash="me"))[LINE]["text"]


def test_run_again_keeps_a_ticket_with_the_recorded_settings(tmp_path):
    """Picture, question and settings are those of the recording; where it says nothing, the page's hold."""
    path, picture = tmp_path / "run.jsonl", tmp_path / "run.png"
    path.write_text("\n".join(sample_lines("scene")) + "\n")
    draw_picture().save(picture)
    accepted = []
    session = SimpleNamespace(forget=lambda who: None, accept=lambda who, ticket: accepted.append((who, ticket)), **EMBEDDED)
    on = Handlers(session, [Example("run", "A run", "scene", 1, "?", None, picture, path)])
    values = on.rerun(SimpleNamespace(index=0), SimpleNamespace(session_hash="me"), *PAGE)
    ((who, ticket),) = accepted
    started = read(path).events[0]
    assert who == "me" and ticket.request.question == started.question and not ticket.compare
    for name, value in zip(("policy", None, "max_new_tokens", "temperature", "top_p", "seed"), PAGE[1:]):
        assert name is None or getattr(ticket.request.settings, name) == started.settings.get(name, value)
    assert ticket.request.drafter in ("lookup", started.drafter.id)
    assert values[LINE]["text"] == "Waiting for the model …" and values[1] == started.question
    assert json.loads(sample_lines("scene")[1])["question"] == started.question
