"""The page on a ZeroGPU Space: the model's work happens on a GPU that the host lends for one piece of it.

The host runs the decorated generator in a forked process, so what goes in and comes out is pickled, and everything else is
what the process had at the fork. It must be the only thing decorated: what surrounds it stays where the page is.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fovea_core.engine import Engine

#: Seconds of GPU time asked for at a time; the embedded model's answers with their comparison take a few.
LENT_S = 60
#: How often a person's wish to stop is passed on.
LOOK_S = 0.1
KEPT = "what came before it is kept."


class HostError(ValueError):
    """One sentence: why the host ended or refused a piece of work."""


@dataclass(frozen=True)
class Refusal:
    """An error that is a sentence for a person; the host would pass on its name only."""

    sentence: str


def never() -> bool:
    """Nobody wishes to stop."""
    return False


class LentEngine:
    """An engine (fovea_core.engine.Engine) whose work happens in ``gpu``'s hands, the decorator ``spaces.GPU``.

    Raises HostError from whatever works where the host has its own reasons to end it.
    """

    def __init__(self, engine: Engine, gpu: Callable) -> None:
        self.engine, self.target, self.health, self.lock = engine, engine.target, engine.health, engine.lock
        self.drafter = engine.drafter
        stopping = multiprocessing.get_context("fork").Event()  # made before any fork: both processes know it
        here = os.getpid()

        def work(name: str, arguments: Sequence) -> Iterator:
            if os.getpid() != here:
                import torch

                torch.set_num_threads(1)  # a forked child must not enter the parallel loops of its parent's threads
            try:
                result = getattr(engine, name)(*arguments, stop=stopping.is_set)
                if name == "run":
                    yield from result
                else:
                    yield result
            except (ValueError, OSError) as error:
                yield Refusal(str(error))

        self._stopping, self._lent = stopping, gpu(duration=LENT_S)(work)

    def run(self, request, stop: Callable[[], bool] | None = None) -> Iterator:
        """See Engine.run."""
        yield from self._work("run", (request,), stop)

    def compare(self, request, finished, stop: Callable[[], bool] | None = None):
        """See Engine.compare."""
        return self._result("compare", (request, finished), stop)

    def compare_pair(self, pair: Sequence, stop: Callable[[], bool] | None = None):
        """See Engine.compare_pair."""
        return self._result("compare_pair", (pair,), stop)

    def redraft(self, recorded: Sequence, image, round: int, lost: Sequence[int], stop: Callable[[], bool] | None = None):
        """See Engine.redraft."""
        return self._result("redraft", (recorded, image, round, lost), stop)

    def _result(self, name: str, arguments: Sequence, stop: Callable[[], bool] | None):
        (result,) = self._work(name, arguments, stop)
        return result

    def _work(self, name: str, arguments: Sequence, stop: Callable[[], bool] | None) -> Iterator:
        with self._passing_on(stop or never), closing(self._lent(name, arguments)) as results:
            while True:
                try:
                    result = next(results, results)
                except Exception as error:
                    raise host_error(error) or error from None
                if result is results:
                    return
                if isinstance(result, Refusal):
                    raise ValueError(result.sentence)
                yield result

    @contextmanager
    def _passing_on(self, stop: Callable[[], bool]):
        """Tell the other process when ``stop`` says so, for as long as the work lasts."""
        over = threading.Event()
        self._stopping.clear()

        def look() -> None:
            while not stop():
                if over.wait(LOOK_S):
                    return
            self._stopping.set()

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()


def host_error(error: Exception) -> HostError | None:
    """The sentence for an error of the host's own; None for any other."""
    import gradio as gr

    if not isinstance(error, gr.Error):
        return None
    title, said = str(getattr(error, "title", "")).lower(), " ".join(str(error.message).split()).strip("'\" .")[:300]
    if "aborted" in said:
        return HostError(f"The host's GPU time for this run was up before its end; {KEPT} A shorter answer may fit.")
    if "timeout" in title or "no gpu" in said.lower():
        return HostError(f"The host has no GPU free at the moment; {KEPT} Please try again in a minute.")
    if "quota" in title or "credits" in title:
        return HostError(f"The host's GPU quota is used up for now ({said}); {KEPT}")
    return HostError(f"The host ended this run ({said}); {KEPT}")


def main() -> None:
    """Open the page. The model is loaded first: what lies on the GPU when the page opens is moved fastest later."""
    import spaces  # before anything asks for CUDA

    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from app.build import build_page, launch_page
    from app.models import offered
    from app.session import Session
    from fovea_core.engine import load_engine

    engine = load_engine("builtin")
    for name in offered():
        engine.drafter(name)  # here, since on other threads the host does not stand in for CUDA
    session = Session(lambda: LentEngine(engine, spaces.GPU), offers=offered)
    session.start().result()
    page = build_page(session)
    launch_page(page)
    try:
        page.block_thread()
    finally:
        session.close()
