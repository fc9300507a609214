"""What happens when something on the page is pressed. Wrong input is one sentence in the status line; nothing else is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import gradio as gr
from PIL import Image

from app.asking import DRAFTERS, finished_text, make_ticket, recorded_settings, status, status_of
from app.charts import charts_of
from app.loaded import BUILTIN
from app.player import shown_lines, wired
from app.session import CHANGED, TOO_MANY, Session, sentence
from app.ticket import ENDED
from fovea_core.examples import Example
from fovea_core.pictures import open_picture
from fovea_core.trace.codec import TraceError, encode_header
from fovea_core.trace.fold import fold
from fovea_core.trace.record import Trace, read

if TYPE_CHECKING:
    from app.pages.models import ModelPanel

READY = "Take an example, draw a picture or bring one, and ask."
#: How many values ``recorded_settings`` gives.
SETTINGS = 7
#: How many values ``make_ticket`` takes from the page.
ASKED = 11
#: Where player and status line stand among the values of ``shown``.
PLAYER, LINE = 3, 4


class Handlers:
    """The listeners that need the session. A client is known by Gradio's session hash.

    ``asked``: the components of picture, question and settings, in the order of asking.make_ticket. ``models``: the panel that
    chooses between models, where there are several.
    """

    def __init__(self, session: Session, examples: list[Example]) -> None:
        self.session, self.examples = session, examples
        self.asked: list[gr.components.Component] = []
        self.models: ModelPanel | None = None

    def accept(self, request: gr.Request, *values) -> dict:
        """Run was pressed: check (picture, question, *settings and, on a page with several models, the one it is set for) and
        keep a ticket, or say what is missing."""
        session = self.session
        if values[ASKED:] not in ((), (session.model,)):
            return status(CHANGED, "trouble")
        try:
            ticket = make_ticket(*values[:ASKED], target=session.model, drafters=session.drafters)
            session.accept(request.session_hash, ticket)
        except Exception as error:
            return status(sentence(error), "trouble")
        return status("Waiting for the model …" if session.ready else "Loading the model …", "busy")

    def answer(self, request: gr.Request) -> Iterator[tuple[dict, dict]]:
        """Run the ticket, if there is one, and stream its lines and status."""
        update, sent, batches = None, 0, []
        for update in self.session.run(request.session_hash):
            if len(update.lines) > sent:  # what was decided since the last update travels as one string
                batches.append(wired("\n".join(update.lines[sent:])))
                sent = len(update.lines)
            charts = charts_of(update.summary) if update.phase in ENDED else None
            yield shown_lines(batches, update.order, charts), status_of(update)
        # Gradio sends what was yielded last once more when the stream ends: that is to be no whole run. A generator that
        # yields nothing would empty both.
        yield gr.skip(), self._nothing(request.session_hash) if update is None else status_of(update)

    def _nothing(self, who: str) -> dict:
        """Status where no run began: a request that was refused has said why already."""
        return status(TOO_MANY, "trouble") if self.session.crowded(who) else gr.skip()

    def stop(self, request: gr.Request) -> None:
        """End this client's run within one round."""
        self.session.stop(request.session_hash)

    def leave(self, request: gr.Request) -> None:
        """The tab was closed."""
        self.session.forget(request.session_hash)

    def open(self, event: gr.EventData, request: gr.Request) -> list:
        """A recorded example was chosen: show it at once."""
        self.session.forget(request.session_hash)
        return self._example(getattr(event, "index", None))

    def rerun(self, event: gr.EventData, request: gr.Request, *current) -> list:
        """A recorded example is to run again: bring its picture, question and settings, and keep a ticket for it. ``current``:
        the page's settings, which hold where the recording says nothing, and what follows them in ``accept``."""
        values = self.open(event, request)
        path, question, _, _, said, *recorded = values
        if said["state"] == "trouble":
            return values
        settings = [now if value == gr.skip() else value for value, now in zip(recorded, current)]
        values[PLAYER], values[LINE] = gr.skip(), self.accept(request, path, question, *settings, *current[SETTINGS:])
        return values

    def link(self, event: gr.EventData, request: gr.Request) -> list:
        """An address asks for a recorded example by its name."""
        names, name = [example.name for example in self.examples], getattr(event, "name", None)
        if name not in names:
            return refused("This link names a run that is not among the recorded examples.", shown_lines(None))
        self.session.forget(request.session_hash)
        return self._example(names.index(name))

    def _example(self, index: object) -> list:
        """Values for one example; one sentence where there is none, or where its files are damaged."""
        try:
            if type(index) is not int or not 0 <= index < len(self.examples):
                raise TraceError("There is no such example.")
            example = self.examples[index]
            ours = self.session.model == BUILTIN
            return shown(read(example.trace), str(example.picture), ours, example.name, self.session.drafters)
        except Exception as error:
            return refused(sentence(error), shown_lines(None))

    def dropped(self, request: gr.Request) -> tuple[dict, dict]:
        """A trace was dropped on the player, which the browser shows by itself: end the run it took the place of."""
        self.session.forget(request.session_hash)
        return shown_lines(None), status("A trace of your own, opened in the browser alone.")

    def load(self, path: str, request: gr.Request) -> list:
        """A trace file of the person's own."""
        try:
            trace = read(path)
            picture = open_picture(trace.header.picture_bytes()).rgb
            self.session.forget(request.session_hash)  # first: what is shown must be newer than all that the run showed
            return shown(trace, picture, ours=False, drafters=self.session.drafters)
        except Exception as error:
            return refused(sentence(error))


def refused(said: str, player: dict | None = None) -> list:
    """Values of ``shown`` that leave all as it is and say why."""
    kept = gr.skip() if player is None else player
    return [gr.skip(), gr.skip(), gr.skip(), kept, status(said, "trouble"), *[gr.skip()] * SETTINGS]


def shown(
    trace: Trace,
    picture: str | Image.Image,
    ours: bool,
    name: str | None = None,
    drafters: Sequence[str] = DRAFTERS,
) -> list:
    """Values of picture, question, suggestions, player, status and settings for a recorded run.

    ``ours``: an example of this repository, recorded from this very picture with the model that is loaded; ``name``: its
    name; drafters: those that can be set.
    """
    summary = fold(trace.events)
    started = summary.started
    settings = recorded_settings(started, drafters)
    same = ours and None not in settings and started.settings.get("depth_limit") is None
    run = "Run repeats it live." if same else "Run asks the same question again with the settings below."
    said = f"A recorded run, no model needed. {finished_text(summary)} {run}"
    batches = [encode_header(trace.header), wired("\n".join(trace.lines()))]
    lines = shown_lines(batches, charts=charts_of(summary), name=name)
    values = [gr.skip() if value is None else value for value in settings]
    return [picture, started.question, gr.update(visible=False), lines, status(said), *values]


def emptied() -> tuple:
    """The picture was taken away: suggestions, status."""
    return gr.update(visible=False), status(READY)


def look(path: str | None) -> tuple:
    """A picture was brought: decode it now, so that trouble shows at once; where a browser cannot show it, convert it."""
    hidden = gr.update(visible=False)
    if path is None:
        return gr.skip(), hidden, status(READY)
    try:
        opened = open_picture(path)
    except Exception as error:
        return None, hidden, status(sentence(error), "trouble")
    said = " ".join(opened.notes) or f"{opened.rgb.width} × {opened.rgb.height} px. Ask about it."
    return (gr.skip() if opened.browser_safe else opened.rgb), hidden, status(said)
