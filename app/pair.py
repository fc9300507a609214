"""Two runs of one request side by side: which ways there are, a checked ticket for both, and what the page is told of them.

The runs take their turn in the session's queue as one ticket: A, then B, then the measurement of both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.asking import DRAFTERS, Status, how_far, lasted, make_ticket, status, under_way
from app.models import label_of
from app.ticket import Board, Ticket
from fovea_core.request import Request
from fovea_core.settings import SettingsError, make_settings
from fovea_core.trace.codec import Header
from fovea_core.trace.events import Finished
from fovea_core.trace.fold import Summary

if TYPE_CHECKING:
    from fovea_core.engine import Engine

#: name -> (what the page calls it, drafter, policy). Beside these the name of any policy is a way: FOVEA's drafter with it.
WAYS = {
    "fovea": ("FOVEA: the entries it needs", "builtin", "fovea"),
    "topk-16": ("FOVEA, always 16 entries", "builtin", "topk-16"),
    "random-16": ("FOVEA, 16 random entries, a control", "builtin", "random-16"),
    "dense": ("FOVEA, all entries", "builtin", "dense"),
    "unilaspec-8": ("Where the target looked, a stand-in for Uni-LaSpec", "builtin", "unilaspec-8"),
    "hawk": ("Cells chosen once a picture, a stand-in for HAWK", "builtin", "hawk"),
    "foveated": ("One box until it no longer serves, a stand-in for Foveated Reasoner", "builtin", "foveated"),
    "unread": ("FOVEA, memory switched off", "builtin", "none"),
    "blind": ("Its blind twin, trained without", "blind", "none"),
    "lookup": ("Prompt lookup, untrained", "lookup", "none"),
    "trie": ("Trie: a tree of what followed the same words, untrained", "trie", "none"),
    "plain": ("Plain decoding", "none", "none"),
}
SIDES = ("A", "B")
POLICY_WAY = "or write a policy of the memory, such as topk-4, random-8, static-8"


def offered_ways(drafters: Sequence[str]) -> list[tuple[str, str]]:
    """The ways of the embedded model with these ``drafters`` as a dropdown shows them: (text, way)."""
    ways = [(text, name) for name, (text, _, _) in WAYS.items()]
    return ways + [(label_of(name), name) for name in drafters if name not in DRAFTERS]


def way_of(drafter: str | None, policy: str | None, drafters: Sequence[str] = ()) -> str | None:
    """The way with this drafter and policy; None where there is none. Only the trained drafter has a policy. drafters: those of
    the loaded model, each of which is a way of its own where no way is made of it."""
    for name, (_, of_drafter, of_policy) in WAYS.items():
        if drafter == of_drafter and (policy == of_policy or drafter != "builtin"):
            return name
    return policy if drafter == "builtin" else drafter if drafter in drafters else None


def drafter_of(way: str | None, drafters: Sequence[str] = ("builtin",)) -> tuple[str, str]:
    """Drafter and policy of a way; whether a policy of another name exists is for the settings to say. Raises SettingsError.

    drafters: those of the loaded model, best first; each is a way of its own, and the best one goes with a policy's name. One
    without a visual memory has no policy of it, whatever way of its own it has to read the picture.
    """
    from fovea_core.targets.shelf import remembers

    if not isinstance(way, str) or not way:
        raise SettingsError("Please choose A and B.")
    if way in WAYS:
        return WAYS[way][1:]
    if way not in drafters or way == "none":  # the policy: what drafts nothing is a way of its own
        return drafters[0], way
    return way, "fovea" if remembers(way) else "none"


@dataclass(eq=False)
class PairTicket(Ticket):
    """One press of Compare: ``request`` is A, ``second`` is B; they differ in drafter and policy only."""

    second: Request | None = None

    def board(self) -> PairBoard:
        """What the page is shown of both."""
        return PairBoard(self.header, (self.request.drafter, self.second.drafter))

    def work(self, engine: Engine, tell: Callable[[object], None]) -> None:
        """On the engine's thread: A, then B, then both timed against plain decoding; events are told as (side, event)."""
        done: list[tuple[Request, Finished]] = []
        for side, request in enumerate((self.request, self.second)):
            if self.stop.is_set():  # between A and B
                tell("stopped")
                return
            tell(f"prefill {SIDES[side]}")
            finished = None
            with engine.lock, contextlib.closing(engine.run(request, self.stop.is_set)) as events:
                for event in events:
                    tell((side, event))
                    finished = event if isinstance(event, Finished) else finished
            if finished.reason == "stopped":
                tell("stopped")
                return
            done.append((request, finished))
        tell("comparing")
        with engine.lock:
            compared = engine.compare_pair(done, self.stop.is_set)
        for side, event in enumerate(compared or ()):
            tell((side, event))
        tell("done")


@dataclass(frozen=True)
class PairUpdate:
    """What the page shows of two runs: per side the lines (header first, they only grow) and their fold; else as Update.

    ``phase`` as in Update, with the side behind it where one side is at work: prefill A, answering B.
    """

    lines: tuple[list[str], list[str]]
    summaries: tuple[Summary, Summary]
    phase: str
    trouble: str | None = None
    ahead: int = 0
    order: int = 0
    step: str = ""
    since_s: float = 0.0


class PairBoard:
    """Two boards that are told of together."""

    def __init__(self, header: Header, drafters: tuple[str, str]) -> None:
        self.sides = tuple(Board(header, drafter) for drafter in drafters)
        self.step = ""

    def take(self, item: tuple, phase: str) -> str:
        """Add (side, event); the phase it leads to."""
        side, event = item
        now = self.sides[side].take(event, "")
        self.step = self.sides[side].step
        return f"{now} {SIDES[side]}" if now else phase

    def update(
        self, phase: str, trouble: str | None = None, ahead: int = 0, order: int = 0, since_s: float = 0.0
    ) -> PairUpdate:
        """What the page shows now."""
        a, b = self.sides
        lines, summaries = (list(a.lines), list(b.lines)), (a.fold.summary(), b.fold.summary())
        return PairUpdate(lines, summaries, phase, trouble, ahead, order, self.step, since_s)


def make_pair(
    path: str | None,
    question: str | None,
    a: str,
    b: str,
    tree: str,
    max_new_tokens: float,
    temperature: float,
    top_p: float,
    seed: float,
    target: str | None = None,
    drafters: Sequence[str] = DRAFTERS,
) -> PairTicket:
    """Check everything before any model work. Raises PictureError or SettingsError with one sentence."""
    (drafter, policy), (other, others) = drafter_of(a, drafters), drafter_of(b, drafters)
    make_settings(policy=others)
    numbers, model = (tree, max_new_tokens, temperature, top_p, seed, True), {"target": target, "drafters": drafters}
    if other not in drafters:
        make_ticket(path, question, other, others, *numbers, **model)  # says so
    first = make_ticket(path, question, drafter, policy, *numbers, **model)
    asked = first.request
    second = Request(asked.image, asked.question, asked.settings.model_copy(update={"policy": others}), other)
    return PairTicket(asked, first.header, True, target=target, second=second)


def pair_status(update: PairUpdate) -> Status:
    """One line about where the two runs are."""
    text, state = _said(update)
    return status(text, state, update.order)


def _said(update: PairUpdate) -> tuple[str, str]:
    phase, _, side = update.phase.partition(" ")
    summary, lasting = update.summaries[SIDES.index(side) if side else 0], lasted(update)
    if phase == "loading":
        return f"Loading the model …{lasting}", "busy"
    if phase == "waiting":
        place = f"{update.ahead} before you" if update.ahead else "next"
        return f"Waiting for the model: {place}.{lasting}", "busy"
    if phase == "prefill":
        return f"{side}: the target reads picture and question …{lasting}", "busy"
    if phase == "answering":
        return f"{side} answers: {how_far(summary)}.{under_way(update)}", "busy"
    if phase == "comparing":
        return f"Timing A, B and plain decoding in turns, without recording …{lasting}", "busy"
    if phase == "trouble":
        return update.trouble or "", "trouble"
    if phase == "stopped":
        counts = " and ".join(str(len(summary.tokens)) for summary in update.summaries)
        some = update.summaries[0].tokens
        return f"Stopped {f'after {counts} tokens; what was answered is kept' if some else 'before it began'}.", "done"
    return pair_text(*update.summaries), "done"


def pair_text(a: Summary, b: Summary) -> str:
    """How two runs compare, in one line; both are complete or recorded."""
    counts = " and ".join(str(summary.rounds) for summary in (a, b))
    parts = [f"{len(a.tokens)} tokens in {counts} rounds"]
    if a.compared and b.compared:
        parts.append(f"{a.compared.speedup:.2f} and {b.compared.speedup:.2f} × plain decoding, measured")
    parts.append("same text" if a.ids == b.ids else "texts differ")
    return f"Done, A and B: {', '.join(parts)}."
