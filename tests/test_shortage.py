"""No memory left: one sentence, whichever way torch says it, nothing kept by the error, and what runs next is whole."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from app.session import Session
from fovea_core import shortage
from fovea_core.cli import main
from fovea_core.engine import Engine
from fovea_core.shortage import ADVICE, ShortageError, eased, is_shortage
from fovea_core.targets.qwen2_5_vl import Qwen25VLTarget
from tests.families import noise
from tests.test_app import TOKENS, right, ticket
from tests.test_registry import store
from tests.toys import toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

#: What torch says: an error of its own, or a RuntimeError of an allocator.
CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB")
CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "8589934592 bytes. Error code 12 (Cannot allocate memory)"
)
SHORT = (CUDA, CPU, MemoryError(), RuntimeError("CUDA error: out of memory"))


def test_which_errors_say_it():
    assert all(is_shortage(error) for error in SHORT)
    others = (RuntimeError("expected all tensors to be on the same device"), ValueError("out of memory"), KeyError("memory"))
    assert not any(is_shortage(error) for error in others)
    assert all(eased(error) is error for error in others)


def test_the_allocator_of_this_machine_says_it():
    """The real thing: more bytes than any machine has."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55, dtype=torch.uint8)
    assert is_shortage(caught.value)


def test_an_eased_error_holds_nothing():
    """The frames of the error, and of the one it was raised behind, let their tensors go while the error is still held."""
    kept = []

    def deep(tensor):
        kept.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("CUDA out of memory")

    def fails():
        try:
            deep(torch.zeros(8))
        except RuntimeError:
            second = torch.ones(8)
            kept.append(weakref.ref(second))
            raise MemoryError from None

    try:
        fails()
    except MemoryError as error:
        told, held = eased(error), error
    gc.collect()
    assert isinstance(told, ShortageError) and str(told) == ADVICE and held.__traceback__ is not None
    assert [ref() for ref in kept] == [None, None]


class Broken(torch.nn.Module):
    """A decoder layer that has no memory while ``error`` is set."""

    def __init__(self, layer) -> None:
        super().__init__()
        self.layer, self.error = layer, None

    def forward(self, *arguments, **named):
        if self.error is not None:
            raise self.error
        return self.layer(*arguments, **named)


@pytest.mark.parametrize("error", SHORT, ids=["cuda", "cpu", "python", "driver"])
def test_the_page_s_session_works_on(error, monkeypatch):
    """In prefill and in the middle of an answer: one sentence, what was decided is kept, memory is handed back, and the next
    run gives the reference's ids."""
    target, given = toy_target(), []
    target.eos_ids = frozenset()
    layers = target.backbone.layers
    layers[1] = broken = Broken(layers[1])
    monkeypatch.setattr(shortage, "let_go", lambda: given.append(gc.collect()))
    session = Session(lambda: Engine(target, lambda name: None))
    try:
        broken.error = error
        session.accept("me", ticket())
        first = list(session.run("me"))[-1]
        assert (first.phase, first.trouble) == ("trouble", ADVICE) and given
        broken.error = None
        session.accept("me", ticket(tokens=200))
        for update in session.run("me"):
            if update.summary.rounds >= 2:
                broken.error = error
        assert (update.phase, update.trouble) == ("trouble", ADVICE) and update.summary.rounds >= 2
        assert update.summary.ids == right(0, update.summary.started.question, len(update.summary.ids))
        broken.error = None
        session.accept("me", ticket())
        last = list(session.run("me"))[-1]
        assert last.phase == "done" and last.summary.ids == right(0, last.summary.started.question, TOKENS)
    finally:
        session.close()


def test_an_errand_is_answered_too():
    """A redraft, say: the error that arrives is the sentence."""
    session = Session(lambda: Engine(toy_target(), lambda name: None))

    def work(engine, stop):
        raise torch.OutOfMemoryError("CUDA out of memory")

    try:
        asked = list(session.ask("me", work))[-1]
        assert asked.phase == "trouble" and isinstance(asked.error, ShortageError)
        assert list(session.ask("me", lambda engine, stop: 7))[-1].result == 7
    finally:
        session.close()


def test_the_command_line_says_it_and_ends_with_2(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, picture = store("qwen", tmp_path / "tiny"), tmp_path / "p.png"
    noise(50, 40).save(picture)

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Qwen25VLTarget, "prompt", full)
    monkeypatch.setattr("fovea_core.targets.families.probe", lambda target: None)
    asked = ["doctor", "--target", str(folder), "--device", "cpu"]
    assert main(asked) == 1 and "FAILED" in capsys.readouterr().err  # the doctor's own lines say so
    asked = ["decode", "--target", str(folder), "--image", str(picture), "--question", "what?", "--device", "cpu"]
    assert main(asked) == 2
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == ADVICE and said.out == ""
