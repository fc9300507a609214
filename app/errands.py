"""What a person wants of the engine beside a run, and where it is."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field


@dataclass(eq=False)
class Errand:
    """``doing``: what it does now, in a few words, and since when."""

    stop: threading.Event = field(default_factory=threading.Event)
    begun: bool = False
    doing: tuple[str, float] = ("", 0.0)

    def say(self, text: str) -> None:
        """Note what is done now; the clock starts anew with other words (up to a comma: shares of one work follow it)."""
        same = text.partition(",")[0] == self.doing[0].partition(",")[0]
        self.doing = text, self.doing[1] if same else time.monotonic()


@dataclass(frozen=True)
class Asked:
    """Where an errand is: loading, waiting (behind ``ahead`` others), working (at ``doing`` for ``since_s`` seconds), then done
    (with ``result``), stopped or trouble (with the ``error``)."""

    phase: str
    ahead: int = 0
    result: object = None
    error: Exception | None = None
    doing: str = ""
    since_s: float = 0.0


def working(errand: Errand) -> Asked:
    """An errand at work."""
    text, since = errand.doing
    return Asked("working", doing=text, since_s=time.monotonic() - since if text else 0.0)


def ended(answer: Future) -> Asked:
    """How an errand ended."""
    if answer.cancelled():
        return Asked("stopped")
    error = answer.exception()
    if error is not None:
        return Asked("trouble", error=error)
    return Asked("stopped") if answer.result() is None else Asked("done", result=answer.result())
