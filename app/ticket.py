"""What one press of Run is made of: the ticket that waits in the session's queue, and what the page is told of its run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.waits import note_answer
from fovea_core.request import Request
from fovea_core.trace.codec import Header, encode, encode_header
from fovea_core.trace.events import Finished, NodeDrafted, PrefillDone, RoundVerified, RunStarted
from fovea_core.trace.fold import Fold, Summary

if TYPE_CHECKING:
    from fovea_core.engine import Engine

#: Phases of a last update.
ENDED = ("done", "stopped", "trouble")


@dataclass(eq=False)
class Ticket:
    """One press of Run: its request, its wish to stop, and whose it is. ``target``: the model it was meant for; None = any."""

    request: Request
    header: Header
    compare: bool = True
    stop: threading.Event = field(default_factory=threading.Event)
    gone: bool = False  # nobody looks at it any more
    claimed: bool = False  # its run has begun; it has only one
    target: str | None = None

    def board(self) -> Board:
        """What the page is shown of this ticket, still without an event."""
        return Board(self.header, self.request.drafter)

    def work(self, engine: Engine, tell: Callable[[object], None]) -> None:
        """On the engine's thread: run the request, and ``tell`` every event and every change of phase."""
        finished = None
        tell("prefill")
        with engine.lock, contextlib.closing(engine.run(self.request, self.stop.is_set)) as events:
            for event in events:
                tell(event)
                finished = event if isinstance(event, Finished) else finished
        if finished.reason != "stopped":
            note_answer(engine.target, finished.total_ms)
        if self.compare and finished.reason != "stopped" and not self.stop.is_set():
            tell("comparing")
            with engine.lock:
                compared = engine.compare(self.request, finished, self.stop.is_set)
            if compared is not None:
                tell(compared)
        tell("stopped" if finished.reason == "stopped" else "done")


@dataclass(frozen=True)
class Update:
    """What the page shows now. ``lines``: header and event lines so far (the list only grows); ``phase``: where the run is.

    ``phase``: loading, waiting (behind ``ahead`` others), prefill, answering, comparing, then done, stopped or trouble.
    ``trouble``: one sentence where something went wrong; ``lines`` then hold what came before. ``order`` rises from update to
    update and lies below that of whatever is shown once the run was forgotten. ``step``: while answering, 'drafting' or
    'verifying' ('' where nothing is drafted); ``since_s``: seconds that this phase, or this step of it, has lasted.
    """

    lines: list[str]
    phase: str
    summary: Summary
    trouble: str | None = None
    ahead: int = 0
    order: int = 0
    step: str = ""
    since_s: float = 0.0


class Board:
    """One ticket's run as the page is told of it: lines that only grow, and their fold. ``step``: see Update."""

    def __init__(self, header: Header, drafter: str) -> None:
        self.fold, self.lines, self.step, self._drafter = Fold(), [encode_header(header)], "", drafter

    def take(self, event, phase: str) -> str:
        """Add an event; the phase it leads to from ``phase``."""
        self.fold.add(event)
        self.lines.append(encode(event))
        phase, self.step = _phase_after(event, phase, self.step, self._drafter)
        return phase

    def update(self, phase: str, trouble: str | None = None, ahead: int = 0, order: int = 0, since_s: float = 0.0) -> Update:
        """What the page shows now."""
        return Update(list(self.lines), phase, self.fold.summary(), trouble, ahead, order, self.step, since_s)


def _phase_after(event, phase: str, step: str, drafter: str) -> tuple[str, str]:
    """Phase and step once ``event`` was decided: a round's nodes are sent when its draft is whole, its verdict ends it."""
    if isinstance(event, RunStarted):
        return "prefill", ""
    if isinstance(event, PrefillDone | RoundVerified):
        return "answering", "" if drafter == "none" else "drafting"
    if isinstance(event, NodeDrafted):
        return phase, "verifying"
    return phase, "" if isinstance(event, Finished) else step
