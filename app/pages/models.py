"""The panel that says which model answers and loads another; where the app was started with more than the embedded one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from app.errands import Asked
from app.loaded import BUILTIN
from app.models import Models, budget_note
from app.pair import POLICY_WAY, WAYS, offered_ways
from app.session import Session, sentence
from app.widgets import next_order

FOLDER = Path(__file__).parent
UNKNOWN_WORLD = "<strong>This model was not made for drawn pictures</strong>: bring a picture of your own."
NO_MEMORY = (
    " There is no drafter with a visual memory for it here: its maps show where the model itself looked as it said a word "
    "('Record where the target looked' under Settings), and the text is the model's own all the same."
)


def make_models(session: Session, models: Models) -> tuple[gr.HTML, gr.State]:
    """The panel and the name of the model that this client's page is set for; ``wire_models`` brings them to life."""
    panel = gr.HTML(
        value=panel_value(session, models),
        html_template=(FOLDER / "models.html").read_text("utf-8"),
        js_on_load=(FOLDER / "models.js").read_text("utf-8"),
        apply_default_css=False,
        elem_id="fx-model",
    )
    return panel, gr.State(BUILTIN)


def panel_value(session: Session, models: Models, state: str = "idle", text: str = "", wanted: str = "") -> dict:
    """What the panel shows now. ``state``: idle, busy (with loading ``wanted`` for this client), done or trouble."""
    engine = session.engine
    health = engine.health if engine else None
    seen = health and {"ok": not health.failed, "text": health.sentence, "report": health.model_dump_json(indent=2)}
    return {
        "order": next_order(),
        "models": models.cards(engine.target.device.type if engine else None),
        "current": session.model,
        "state": state,
        "text": text,
        "wanted": wanted,
        "mine": bool(wanted),
        "health": seen,
    }


class Choosing:
    """The listeners. ``notice``: what the page says about the embedded model's world.

    Their values: panel, model of this page, drafter, policy, notice, whether looks are recorded, and the two ways of 'Compare'.
    """

    VALUES = 8

    def __init__(self, session: Session, models: Models, notice: str) -> None:
        self.session, self.models, self.notice = session, models, notice

    @staticmethod
    def who(request: gr.Request) -> str:
        """The client, at this panel: its runs and redrafts are other errands."""
        return f"{request.session_hash} model"

    def open(self) -> list:
        """The page was opened: what is loaded, and what can be set for it."""
        return self._whole(panel_value(self.session, self.models))

    def follow(self, shown: str) -> list:
        """Something was asked of a page that is set for the model ``shown``: where that has changed, show what is there now."""
        return [gr.skip()] * self.VALUES if shown == self.session.model else self.open()

    def choose(self, event: gr.EventData, request: gr.Request) -> Iterator[list]:
        """Another model is wanted: load it in its turn and say how far it is."""
        name, before = getattr(event, "name", None), self.session.model
        if name not in self.models.names:
            yield self._whole(panel_value(self.session, self.models, "trouble", "There is no such model."))
            return
        value = panel_value(self.session, self.models, "busy", "", name)
        check = lambda: self.models.check(name, self.session.model)  # noqa: E731
        with contextlib.closing(self.session.change(self.who(request), name, check, self.models.load(name))) as asking:
            for asked in asking:
                if asked.phase in ("done", "stopped", "trouble"):
                    break
                yield self._only(value | {"order": next_order(), "text": _said(asked, self.models.title(name))})
        now = self.models.title(self.session.model)
        if asked.phase == "done":
            text, state = "", "done"
        elif asked.phase == "stopped":
            text, state = f"Cancelled; {now} is loaded.", "done"
        else:
            kept = f" {now} is loaded as before." if self.session.ready and self.session.model == before else ""
            text, state = sentence(asked.error, "Loading broke off") + kept, "trouble"
        yield self._whole(panel_value(self.session, self.models, state, text))

    def cancel(self, request: gr.Request) -> None:
        """Not this model after all."""
        self.session.cancel(self.who(request))

    def _only(self, panel: dict) -> list:
        return [panel, *[gr.skip()] * (self.VALUES - 1)]

    def _whole(self, panel: dict) -> list:
        """The panel, and everything that depends on the model."""
        name = panel["current"]
        offered, ours, trained = self.models.labelled(name), name == BUILTIN, self.models.trained(name)
        notice = self.notice if ours else f"<p class='fx-note'>{UNKNOWN_WORLD}{'' if trained else NO_MEMORY}</p>"
        return [
            panel,
            name,
            gr.update(choices=offered, value=offered[0][1], info=budget_note([drafter for _, drafter in offered])),
            gr.update(visible=trained),
            notice,
            gr.skip() if trained else gr.update(value=True),  # there is no other map
            *ways_of(offered, ours, trained),
        ]


def ways_of(offered: list[tuple[str, str]], ours: bool, trained: bool) -> list[dict]:
    """The dropdowns A and B of 'Compare' for these drafters."""
    if ours:
        ways, first, second = offered_ways([drafter for _, drafter in offered]), "fovea", "blind"
    else:
        plain = {"lookup": "lookup", "trie": "trie", "none": "plain"}
        ways = [(WAYS[plain[name]][0] if name in plain else text, plain.get(name, name)) for text, name in offered]
        first, second = ways[0][1], ways[-1][1]
    a, b = ({"choices": ways, "value": value} for value in (first, second))
    said = budget_note([drafter for _, drafter in offered])
    return [gr.update(**a, info=said), gr.update(**b, info=POLICY_WAY if trained else None)]


def _said(asked: Asked, name: str) -> str:
    """One line about where a change of models is."""
    if asked.phase == "loading":
        return "The embedded model is still loading; this one follows."
    if asked.phase == "waiting":
        return f"Waiting for the model: {asked.ahead} before this." if asked.ahead else "Next."
    lasting = f" {int(asked.since_s)} s" if asked.since_s >= 1 else ""
    return f"{name}: {asked.doing} …{lasting}" if asked.doing else f"{name} …"


@dataclass(frozen=True)
class ModelPanel:
    """The panel on 'Explain' and what goes with it there. ``settings``: drafter, policy, notice and whether looks are recorded,
    which depend on the model; ``presses``: the events that ask it something."""

    panel: gr.HTML
    shown: gr.State
    settings: list[gr.components.Component]
    presses: list
    on: Choosing

    def wire(self, blocks: gr.Blocks, ways: list[gr.components.Component], presses: list) -> None:
        """Answer the panel's events; ``ways`` and ``presses``: of 'Compare'."""
        shows = [self.panel, self.shown, *self.settings, *ways]
        quiet = {"api_visibility": "private", "show_progress": "hidden"}
        one = {"trigger_mode": "once", "concurrency_id": "model", "concurrency_limit": 16}
        self.panel.choose(self.on.choose, None, shows, **one, **quiet)
        self.panel.cancel(self.on.cancel, None, None, queue=False, **quiet)
        blocks.load(self.on.open, None, shows, queue=False, **quiet)
        for press in (*self.presses, *presses):
            press(self.on.follow, [self.shown], shows, queue=False, **quiet)
        blocks.unload(self.on.cancel)
