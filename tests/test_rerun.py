"""A study measured anew from the page: a process with progress, an end at any moment, and a sentence where it fails."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from app.errands import Asked
from app.lab import STUDIES
from app.lab.rerun import Progress, RerunError, command, rerun
from app.lab.study import load_study
from app.pages.lab import NOT_HERE, TOO_FEW, Rerun, is_here, only_here
from fovea_core.bench.report import progress_bar
from fovea_core.examples import ASSETS

STUDY = next(study for study in STUDIES if study.name == "fig6")
RESULT = load_study(STUDY, ASSETS / "bench")


def script(text: str):
    """The command that runs a piece of Python with the result's file as its argument."""
    return lambda *asked: [sys.executable, "-c", f"import sys, json, time\nfile = sys.argv[1]\n{text}", str(asked[-1])]


def never() -> bool:
    return False


GOOD = "print('2 of 5: timing scene 3', file=sys.stderr)\njson.dump({'a': 1}, open(file, 'w'))"


def test_a_result_and_its_progress():
    progress = Progress()
    assert rerun(script(GOOD), progress, never) == {"a": 1}
    assert (progress.done, progress.total, progress.what) == (2, 5, "timing scene 3")


def test_the_lines_are_those_of_the_commands():
    """Where no terminal is there, a bench says a line a step, which the page understands."""
    told = []
    console = SimpleNamespace(is_terminal=False, print=lambda text, **options: told.append(text))
    with progress_bar(console) as step:
        step(3, 7, "reading [text] 12")
    progress = Progress()
    rerun(script(f"print({told[0]!r}, file=sys.stderr)\n{GOOD.partition(chr(10))[2]}"), progress, never)
    assert (progress.done, progress.total, progress.what) == (3, 7, "reading [text] 12")


def test_the_command_is_the_one_that_is_named(tmp_path):
    for study in STUDIES:
        words = command(study, study.quick, tmp_path / "x.json")
        assert " ".join(words[1:5]) in study.command and words[5:] == [*study.quick, "--json", str(tmp_path / "x.json")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("print('1 of 2: x', file=sys.stderr); sys.exit('There is no drafter here.')", "There is no drafter here."),
        ("sys.exit(3)", "it ended with 3 and said nothing"),
        ("pass", "left no readable result"),
        ("open(file, 'w').write('{')", "left no readable result"),
    ],
)
def test_what_goes_wrong_is_a_sentence(text, sentence):
    with pytest.raises(RerunError, match=sentence):
        rerun(script(text), Progress(), never)
    with pytest.raises(RerunError, match="could not be started"):
        rerun(lambda file: ["no-such-program-anywhere"], Progress(), never)


def test_cancel_ends_the_process_and_its_children():
    began = time.monotonic()
    child = "import subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    progress = Progress()
    family: list[psutil.Process] = []

    def stop() -> bool:
        family[:] = psutil.Process().children(recursive=True) or family
        return progress.total == 9

    assert rerun(script(f"{child}print('1 of 9: x', file=sys.stderr)\ntime.sleep(60)"), progress, stop) is None
    assert len(family) >= 2 and time.monotonic() - began < 30
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


class Asking:
    """A session that does an errand at once."""

    def __init__(self) -> None:
        self.cancelled = []

    def ask(self, who, work):
        yield Asked("waiting", 1)
        yield Asked("working")
        try:
            result = work(None, never)
            yield Asked("stopped") if result is None else Asked("done", result=result)
        except Exception as error:
            yield Asked("trouble", error=error)

    def cancel(self, who):
        self.cancelled.append(who)


def asks(client="127.0.0.1", host="127.0.0.1:7860"):
    return SimpleNamespace(client=SimpleNamespace(host=client), headers={"host": host}, session_hash="me")


def pressed(text: str, request=None, way="quick", committed=RESULT) -> list[dict]:
    on = Rerun(STUDY, committed, Asking(), script(text))
    return list(on.measure(SimpleNamespace(way=way), request or asks()))


def test_the_page_is_told_how_far_it_is_and_shows_the_result():
    first, *_, last = pressed(f"json.dump({RESULT!r}, open(file, 'w'))")
    assert first["state"] == "busy" and first["text"] == "Waiting for the model: 1 before this."
    assert last["state"] == "done" and last["here"]["label"] == "This machine"
    assert last["here"]["where"].startswith("Seeds ") and last["here"]["rows"] and last["here"]["figure"]["data"]
    assert json.dumps(last)


def test_an_error_is_a_sentence_and_the_committed_result_stays():
    for text, said in (
        ("sys.exit('No weights.')", "The measurement broke off: No weights."),
        ("json.dump({}, open(file, 'w'))", TOO_FEW),
    ):
        last = pressed(text)[-1]
        assert last["state"] == "trouble" and last["text"] == said and last["here"] is None


def test_options_of_both_ways():
    given = []

    def words(study, options, file):
        given.append(options)
        return script(GOOD)(file)

    for committed, way in ((RESULT, "quick"), (RESULT, "full"), (None, "full")):
        list(Rerun(STUDY, committed, Asking(), words).measure(SimpleNamespace(way=way), asks()))
    assert given == [STUDY.quick, ("--seeds", RESULT["workload"]["seeds"]), ()]


@pytest.mark.parametrize("request_", [asks(client="10.0.0.7"), asks(host="some.where.example"), asks(host="evil.example:7860")])
def test_no_stranger_starts_a_measurement(request_):
    assert not is_here(request_)
    (only,) = pressed("sys.exit('this must not run')", request_)
    assert only["state"] == "trouble" and only["text"] == NOT_HERE


def test_who_may_measure(monkeypatch):
    """Only a page for this machine alone; a Space, a shared page or one for all addresses does not offer it."""
    for name in ("SPACE_ID", "GRADIO_SHARE", "GRADIO_SERVER_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert only_here(None) and only_here("127.0.0.1") and only_here("localhost") and only_here("::1")
    assert not only_here("0.0.0.0") and not only_here("10.0.0.7")
    assert is_here(asks(host="[::1]:7860")) and is_here(asks(client="::1", host="localhost"))
    for name, value in (("GRADIO_SERVER_NAME", "0.0.0.0"), ("SPACE_ID", "me/space"), ("GRADIO_SHARE", "True")):
        monkeypatch.setenv(name, value)
        assert not only_here(None)
        monkeypatch.delenv(name)
