"""The one model in memory: which it is, and how another takes its place. Everything here runs on the engine's thread.

The model before is let go first, since both together may not fit; where the new one cannot be loaded, it is loaded again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fovea_core import shortage
from fovea_core.trace.events import CostTable

if TYPE_CHECKING:
    from fovea_core.engine import Engine

BUILTIN = "builtin"
#: Hears what loading does now, in a few words.
Step = Callable[[str], None]


class CancelledError(Exception):
    """Nobody wants this model any more."""


class Loaded:
    """``engine``: the loaded model, None while there is none; ``name``: what it is called, also while it loads.

    Both may be read on any thread. ``load`` makes the first engine, which is called ``builtin``.
    """

    def __init__(self, load: Callable[[], Engine]) -> None:
        self.engine: Engine | None = None
        self.name = BUILTIN
        self._load: Callable[[Step], Engine] = lambda step: load()

    def first(self) -> None:
        """Load the model unless it is there."""
        if self.engine is None:
            self.engine = self._load(lambda text: None)

    def change(self, name: str, load: Callable[[Step], Engine], say: Step, stop: Callable[[], bool]) -> None:
        """Put another model into the place of this one; ``say`` hears of it, ``stop`` ends it at the next word said.

        Raises what ``load`` raises, or CancelledError, with the model before loaded again; or a ValueError that says that this
        failed as well.
        """

        def step(text: str) -> None:
            say(text)
            if stop():
                raise CancelledError

        before = self.name, self._load
        trouble = self._replace(name, load, step)
        if trouble is None:
            return
        say("bringing back the model before")
        again = self._replace(*before, say)
        if again is not None:
            raise ValueError(f"{trouble} The model before could not be loaded again either: {again}")
        raise trouble

    def _replace(self, name: str, load: Callable[[Step], Engine], step: Step) -> Exception | None:
        """Let go of the model and load another; the error where that failed, which holds nothing of it."""
        self.engine = None
        shortage.let_go()
        self.name, self._load = name, load
        try:
            self.engine = load(step)
        except Exception as error:
            return shortage.eased(shortage.emptied(error))
        return None


def spare_a_core() -> None:
    """On the engine's thread: leave one processor to the server and to a browser on this machine, unless a number of threads is
    set. Where they share the last one, each of the engine's many small steps waits for a thread that does not run."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() - 1))


def read_prices(file: str) -> CostTable:
    """What drafting cost when ``file``, a result of bench builtin, was measured. Raises ValueError with a sentence."""
    try:
        return CostTable.model_validate(json.loads(Path(file).read_text("utf-8"))["cost"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{file[:160]!r} is no result of `fovea_core bench builtin --json`.") from None


def load_builtin(device: str = "auto", prices: CostTable | None = None) -> Engine:
    """The embedded model with its trained drafter, ready for a first answer; ``prices``: see Engine. This brings torch."""
    from fovea_core.engine import load_engine

    spare_a_core()
    engine = load_engine("builtin", device)
    engine.prices = prices
    engine.cost("builtin")
    return engine
