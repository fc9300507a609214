"""What happens when something on the page 'Compare' is pressed, in the manner of app/handlers.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import gradio as gr

from app.asking import DRAFTERS, recorded_settings, status
from app.comparison import shown_sides
from app.handlers import look
from app.pair import SIDES, make_pair, pair_status, way_of
from app.session import CHANGED, TOO_MANY, Session, sentence
from fovea_core.examples import Example
from fovea_core.lesson import read_without
from fovea_core.pictures import open_picture
from fovea_core.trace.codec import encode_header
from fovea_core.trace.fold import fold
from fovea_core.trace.record import Trace, read

READY = "Two ways to answer one question: the text is the same, the work is not. Open an example, or bring a picture."
#: Settings that both sides share, in the order of pair.make_pair.
SHARED = 5
#: How many values ``make_pair`` takes from the page.
ASKED = 4 + SHARED


class Comparing:
    """The listeners of 'Compare'. A client's two runs stand beside its run on 'Explain': both may wait in the queue.

    ``ways``: the components A and B; ``presses``: the events that ask.
    """

    def __init__(self, session: Session, examples: list[Example]) -> None:
        self.session, self.examples = session, examples
        self.ways: list[gr.components.Component] = []
        self.presses: list = []

    @staticmethod
    def who(request: gr.Request) -> str:
        """The client, on this page."""
        return f"{request.session_hash} compare"

    def accept(self, request: gr.Request, *values) -> dict:
        """Compare was pressed: check (picture, question, A, B, *settings and, on a page with several models, the one it is set
        for) and keep a ticket, or say what is missing."""
        session = self.session
        if values[ASKED:] not in ((), (session.model,)):
            return status(CHANGED, "trouble")
        try:
            session.accept(self.who(request), make_pair(*values[:ASKED], session.model, session.drafters))
        except Exception as error:
            return status(sentence(error), "trouble")
        return status("Waiting for the model …" if session.ready else "Loading the model …", "busy")

    def answer(self, request: gr.Request) -> Iterator[tuple[dict, dict]]:
        """Run both, if there is a ticket, and stream lines and status."""
        update = None
        for update in self.session.run(self.who(request)):
            yield shown_sides(*update.lines, update.order), pair_status(update)
        if update is None:
            crowded = self.session.crowded(self.who(request))
            yield gr.skip(), status(TOO_MANY, "trouble") if crowded else gr.skip()

    def stop(self, request: gr.Request) -> None:
        """End the run under way within one round; the other one is not begun."""
        self.session.stop(self.who(request))

    def leave(self, request: gr.Request) -> None:
        """The tab was closed, or something else is shown."""
        self.session.forget(self.who(request))

    def open(self, event: gr.EventData, request: gr.Request) -> list:
        """An example was chosen: its recorded run is A, and B is the same request recorded without the memory, where there is
        such a recording, until Compare runs both on this machine."""
        try:
            example = self.examples[event.index]
            trace = read(example.trace)
            without = read_without(example, trace)
        except Exception as error:
            return [*[gr.skip()] * 5, status(sentence(error), "trouble"), *[gr.skip()] * SHARED]
        self.leave(request)
        started = fold(trace.events).started
        drafters = self.session.drafters
        drafter, policy, *shared = recorded_settings(started, drafters)
        said, b = "A is a recorded run, no model needed.", None
        if without is not None:
            other = recorded_settings(fold(without.events).started, drafters)
            b = way_of(*other[:2], drafters)
            said = f"Two recorded runs, no model needed: B has the memory switched off, and a tree of its own ({other[2]})."
        values = [gr.skip() if value is None else value for value in (way_of(drafter, policy, drafters), b, *shared)]
        shown = shown_sides(lines_of(trace), [] if without is None else lines_of(without))
        said = status(f"{said} Compare answers both ways live and times them on this machine.")
        return [str(example.picture), started.question, *values[:2], shown, said, *values[2:]]

    def load(self, side: int, path: str, request: gr.Request) -> list:
        """A trace file of the person's own for side 0 (A) or 1 (B): sides, status."""
        try:
            trace = read(path)
            open_picture(trace.header.picture_bytes())
        except Exception as error:
            return [gr.skip(), status(sentence(error), "trouble")]
        self.leave(request)  # first: what is shown must be newer than all that the run showed
        lines: list = [None, None]
        lines[side] = lines_of(trace)
        return [shown_sides(*lines), status(f"{SIDES[side]} is a trace of your own, no model needed.")]

    def load_a(self, path: str, request: gr.Request) -> list:
        """A trace file as A."""
        return self.load(0, path, request)

    def load_b(self, path: str, request: gr.Request) -> list:
        """A trace file as B."""
        return self.load(1, path, request)

    def dropped(self, request: gr.Request) -> tuple[dict, dict]:
        """A trace was dropped on a side, which the browser shows by itself: end the run it took the place of."""
        self.leave(request)
        return shown_sides(None, None), status("A trace of your own, opened in the browser alone.")


def looked(path: str | None) -> tuple:
    """A picture was brought: as handlers.look, without suggestions: picture, status."""
    picture, _, said = look(path)
    return picture, said


def takes(session: Session) -> Callable[..., list]:
    """``take`` with the drafters of the session's model."""
    return lambda *values: take(*values, drafters=session.drafters)


def take(
    path: str | None, question: str | None, drafter: str, policy: str, *shared, drafters: Sequence[str] = DRAFTERS
) -> list:
    """What 'Explain' shows and asks, for this page: picture, question, A, settings, status."""
    if not path and not (question or "").strip():
        return [gr.skip()] * (3 + SHARED) + [status("'Explain' shows no picture and no question yet.", "trouble")]
    return [path, question, way_of(drafter, policy, drafters) or gr.skip(), *shared, status("Taken from 'Explain'.")]


def lines_of(trace: Trace) -> list[str]:
    """A trace as a side takes it, header first."""
    return [encode_header(trace.header), *trace.lines()]
