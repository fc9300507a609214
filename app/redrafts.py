"""Erase and redraft on the page: what the player asks for goes to the engine's thread in its turn, and comes back as data.

The player sends the few events of its run that decide a redraft; nothing of a run is kept on this side. A static page has no
engine, and its player no such tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import gradio as gr
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.session import Asked, Session
from fovea_core.examples import Example
from fovea_core.pictures import PictureError, open_picture
from fovea_core.trace.codec import TraceError, decode, encode
from fovea_core.trace.events import MAX_ENTRIES, MAX_LINE_BYTES, MAX_TOKENS, AnyEvent

if TYPE_CHECKING:
    from PIL import Image

    from fovea_core.engine import Engine

# Hands each value to the player beside it. The player is found anew each time: Gradio may mount it later.
_ON_LOAD = """
const tell = () => {
  if (!props.value?.asked) return;
  const detail = props.value;
  document.querySelector(`${props.player} .fv`)?.dispatchEvent(new CustomEvent("fv-redraft", { detail }));
};
watch("value", tell);
"""
DAMAGED = "This request for a redraft is damaged; reload the page and try again."
NO_PICTURE = (
    "A trace holds only a reduced copy of its picture: bring the original picture into the box called Picture, then redraft."
)


class Wish(BaseModel):
    """What the player asks for: a number of its own, the round (from 0), erased entries, and the run's lines that decide it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    asked: Annotated[int, Field(ge=1, le=2**53)]
    round: Annotated[int, Field(ge=0, le=MAX_TOKENS)]
    lost: Annotated[list[Annotated[int, Field(ge=0, le=MAX_ENTRIES)]], Field(max_length=MAX_ENTRIES)]
    lines: Annotated[list[Annotated[str, Field(max_length=MAX_LINE_BYTES)]], Field(max_length=MAX_TOKENS + 2)]

    def events(self) -> list[AnyEvent]:
        """The lines as events. Raises ValueError with one sentence."""
        try:
            return [decode(line) for line in self.lines]
        except TraceError:
            raise ValueError(DAMAGED) from None


class Redrafts:
    """The listeners. ``examples``: recorded runs, whose pictures are at hand whatever the picture box holds."""

    def __init__(self, session: Session, examples: Sequence[Example]) -> None:
        self.session = session
        self._pictures = [example.picture for example in examples]

    def draft(self, path: str | None, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        """The player wishes a redraft; ``path``: what lies in the picture box. Yields values of ``make_redrafts``."""
        data = event._data if isinstance(event._data, dict) else {}
        try:
            wish = Wish.model_validate(data)
        except ValidationError:
            asked = data.get("asked")
            yield _told(asked if isinstance(asked, int) else 0, "trouble", DAMAGED)
            return
        for asked in self.session.ask(request.session_hash, self._work(wish, path)):
            yield _told(wish.asked, asked.phase, _said(asked, wish), _found(asked.result))

    def cancel(self, request: gr.Request) -> None:
        """The person does not want to wait for it any more."""
        self.session.cancel(request.session_hash)

    def _work(self, wish: Wish, path: str | None) -> Callable[[Engine, Callable[[], bool]], object]:
        def work(engine: Engine, stop: Callable[[], bool]):
            recorded = wish.events()
            return engine.redraft(recorded, self._picture(recorded, path), wish.round, wish.lost, stop)

        return work

    def _picture(self, recorded: list[AnyEvent], path: str | None) -> Image.Image:
        """The very picture of a run: from the box, else one of the examples'. Raises ValueError where neither is it."""
        from fovea_core.decode.report import picture_sha256  # on the engine's thread: torch is there already

        wanted = getattr(recorded[0], "picture_sha256", None) if recorded else None
        for candidate in [path, *self._pictures]:
            try:
                rgb = open_picture(candidate).rgb if candidate else None
            except PictureError:
                continue
            if rgb is not None and picture_sha256(rgb) == wanted:
                return rgb
        raise ValueError(NO_PICTURE)


def _told(asked: int, phase: str, text: str, found: dict | None = None) -> dict:
    return {"asked": asked, "phase": phase, "text": text, "found": found}


def _said(asked: Asked, wish: Wish) -> str:
    """One sentence about where a redraft is."""
    if asked.phase == "loading":
        return "The model is still loading; the redraft begins by itself."
    if asked.phase == "waiting":
        return f"The model is busy: {asked.ahead} before this redraft." if asked.ahead else "This redraft is next."
    if asked.phase == "working":
        return f"Drafting step {wish.round + 1} again, as it was and without the erased entries …"
    if asked.phase == "stopped":
        return "The redraft was cancelled; the run is as it was."
    if asked.phase == "trouble":
        text = " ".join(str(asked.error).split())
        known = isinstance(asked.error, ValueError | OSError) and text
        return text[:500] if known else f"The redraft broke off ({type(asked.error).__name__}); the run is as it was."
    return ""


def _found(redraft) -> dict | None:
    """A decode.redraft.Redraft as plain data for the player."""
    if redraft is None:
        return None
    words = [[word.token, word.old, word.new] for word in redraft.words]
    old, new = ([encode(event) for event in events] for events in (redraft.old, redraft.new))
    return {"old": old, "new": new, "words": words}


def make_redrafts(player: str) -> gr.HTML:
    """The unseen component through which answers reach the player that the CSS selector ``player`` finds."""
    return gr.HTML(
        value=None, html_template="<div></div>", js_on_load=_ON_LOAD, apply_default_css=False, visible="hidden", player=player
    )


def wire_redrafts(session: Session, examples: Sequence[Example], player: gr.HTML, redrafts: gr.HTML, picture: gr.Image) -> None:
    """Answer the events of a player made with ``redraft=True``."""
    on, quiet = Redrafts(session, examples), {"api_visibility": "private", "show_progress": "hidden"}
    player.redraft(
        on.draft, [picture], [redrafts], trigger_mode="multiple", concurrency_id="redraft", concurrency_limit=16, **quiet
    )
    player.cancel_redraft(on.cancel, None, None, queue=False, **quiet)
