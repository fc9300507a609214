"""Draw a picture: beside the upload, one of the drawn world, and every property of it that can be changed by hand.

The session holds what is drawn as plain JSON ({id, name, kind, seed, drawn, spec}), never a picture: a change draws it anew.
``drawn`` is the content as it was at first, ``spec`` as it is now. The panel shows the parts (app/pages/draw.js); all its texts
reach the page as data.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path

import gradio as gr
import numpy as np
from PIL import Image

from app.asking import status
from app.session import sentence
from app.widgets import next_order
from fovea_core.examples import FIRST_RESERVED_SEED, Example
from fovea_core.worksite import KINDS, make_picture
from fovea_core.worksite.checking import shown
from fovea_core.worksite.editing import change, find
from fovea_core.worksite.parts import Part, parts_of
from fovea_core.worksite.suggesting import carried, suggestions
from fovea_core.worksite.words import COLOURS

#: Files that this page draws are named so.
PREFIX = "worksite-"
MAX_CHANGES = 64
FOLDER = Path(__file__).parent


def make_draw() -> tuple[gr.HTML, gr.State]:
    """The panel and what is drawn in this session; ``wire_draw`` brings them to life."""
    colours = {name: "#{:02x}{:02x}{:02x}".format(*rgb) for name, rgb in COLOURS.items()}
    panel = gr.HTML(
        value=None,
        html_template=(FOLDER / "draw.html").read_text("utf-8"),
        js_on_load=f"const COLOURS = {json.dumps(colours)};\n" + (FOLDER / "draw.js").read_text("utf-8"),
        apply_default_css=False,
        elem_id="fx-draw",
    )
    return panel, gr.State(None)


def wire_draw(panel: gr.HTML, state: gr.State, picture, question, suggested, line, player, gallery=None, examples=()) -> None:
    """Listeners of the panel; ``gallery`` (widgets.make_examples) shows the recorded ``examples``; an address that
    ``player`` follows may name one."""
    on = Drawing(picture.GRADIO_CACHE, examples)
    quiet = {"api_visibility": "private", "show_progress": "hidden"}
    slow = quiet | {"concurrency_id": "draw", "concurrency_limit": 1}
    shows = [state, panel, picture, question, suggested, line]
    panel.draw(on.draw, [state, question], shows, trigger_mode="once", **slow)
    panel.edit(on.edit, [state, question], shows, trigger_mode="multiple", **slow)
    panel.undo(on.undo, [state, question], shows, trigger_mode="once", **slow)
    picture.change(on.other, [picture, state], [state, panel], queue=False, **quiet)
    picture.upload(lambda: (None, closed()), None, [state, panel], queue=False, **quiet)
    if gallery is not None:
        gallery.open(on.example, None, [state, panel], **slow)
        gallery.rerun(on.example, None, [state, panel], **slow)
    player.link(on.link, None, [state, panel], **slow)


class Drawing:
    """The listeners. ``cache`` is the folder of files that the page may serve; Gradio clears it."""

    def __init__(self, cache: str | Path, examples: Sequence[Example] = ()) -> None:
        self.cache, self.examples = Path(cache), examples

    def draw(self, event: gr.EventData, state: dict | None, asked: str) -> list:
        """A new picture of a kind, of a given seed or of any."""
        data = _data(event)
        try:
            kind = data.get("kind")
            if kind not in KINDS:
                raise ValueError(f"kind {shown(kind)} is not possible: choose {', '.join(KINDS)}.")
            seed = random.randrange(FIRST_RESERVED_SEED) if data.get("seed") is None else checked_seed(data["seed"])
        except ValueError as error:
            if state is None:
                return _trouble(error)
            return [gr.skip(), panel_of(state, troubles=[["", "seed", sentence(error)]]), *[gr.skip()] * 4]
        drawn = make_picture(kind, seed)
        state = begun(kind, seed, drawn.spec)
        fitting = suggestions(kind, drawn.spec, asked=asked)
        asked = asked if asked in fitting else fitting[0]
        said = f"A drawn {kind}, seed {seed}. Choose a question or write your own."
        return self._shown(state, drawn.rgb, asked, fitting, said)

    def edit(self, event: gr.EventData, state: dict | None, asked: str) -> list:
        """Change properties of the drawn picture; what cannot be is told, all else is drawn at once."""
        data = _data(event)
        answer = data.get("answer") if isinstance(data.get("answer"), int) else 0
        if state is None:
            return [
                None,
                closed(),
                *[gr.skip()] * 3,
                status("This picture is no longer kept here; please draw one.", "trouble"),
            ]
        if data.get("id") != state["id"]:
            return [gr.skip(), panel_of(state, answer), *[gr.skip()] * 4]
        new, done, troubles = changed(state, data.get("changes"))
        if not done:
            return [gr.skip(), panel_of(state, answer, troubles), *[gr.skip()] * 4]
        drawn = make_picture(new["kind"], new["seed"], spec=new["spec"])
        asked = carried(new["kind"], asked or "", state["spec"], new["spec"])
        fitting = suggestions(new["kind"], new["spec"], done[-1], asked)
        part, found = find(new["kind"], new["spec"], *done[-1])
        said = f"Changed: {part.label}, {found.label.lower()}: {found.value or 'none'}. Run asks about the new picture."
        return self._shown(new, drawn.rgb, asked, fitting, said, answer, troubles)

    def undo(self, event: gr.EventData, state: dict | None, asked: str) -> list:
        """All properties as they were drawn."""
        if state is None or _data(event).get("id") != state["id"]:
            return [gr.skip()] * 6
        new = state | {"spec": state["drawn"]}
        drawn = make_picture(new["kind"], new["seed"], spec=new["spec"])
        asked = carried(new["kind"], asked or "", state["spec"], new["spec"])
        fitting = suggestions(new["kind"], new["spec"], asked=asked)
        return self._shown(new, drawn.rgb, asked, fitting, f"As drawn: {new['kind']}, seed {new['seed']}.")

    def example(self, event: gr.EventData) -> tuple[dict, dict]:
        """A recorded example was opened: its picture is a drawn one, and can be changed as well."""
        return self._of(self.examples[event.index])

    def link(self, event: gr.EventData) -> tuple:
        """An address asked for a recorded example by its name."""
        name = _data(event).get("name")
        found = next((example for example in self.examples if example.name == name), None)
        return self._of(found) if found else (gr.skip(), gr.skip())

    def _of(self, example: Example) -> tuple[dict, dict]:
        """State and panel for the picture of a recorded example."""
        spec = example.spec or make_picture(example.kind, example.seed, 0.5).spec
        state = begun(example.kind, example.seed, spec, example.picture.name)
        return state, panel_of(state, open=False)

    def other(self, path: str | None, state: dict | None) -> tuple:
        """The picture box shows something else: close the panel unless that was drawn here."""
        name = Path(path).name if path else ""
        if state is None or name.startswith(PREFIX) or name == state["name"]:
            return gr.skip(), gr.skip()
        return None, closed()

    def _shown(self, state, rgb, asked, fitting, said, answer=0, troubles=()) -> list:
        """Values of state, panel, picture, question, suggestions and status."""
        path = saved(rgb, self.cache, state["name"])
        chosen = gr.update(choices=fitting, value=asked if asked in fitting else None, visible=True)
        return [state, panel_of(state, answer, troubles), path, asked, chosen, status(said)]


def begun(kind: str, seed: int, spec: dict, name: str | None = None) -> dict:
    """What a session keeps of a picture just drawn."""
    name = name or f"{PREFIX}{kind}-{seed}.png"
    return {"id": next_order(), "name": name, "kind": kind, "seed": seed, "drawn": spec, "spec": spec}


def changed(state: dict, changes: object) -> tuple[dict, list[tuple[str, str]], list[list[str]]]:
    """The state after ``changes`` ([part, property, text] each), those that were made, and [part, property, sentence] of
    each that cannot be. A change that changes nothing is neither."""
    spec, done, troubles = state["spec"], [], []
    for one in changes[:MAX_CHANGES] if isinstance(changes, list) else []:
        if not (isinstance(one, list) and len(one) == 3 and all(isinstance(text, str) for text in one)):
            continue
        part, key, text = one
        try:
            new = change(state["kind"], spec, part, key, text, state["drawn"])
        except ValueError as error:
            said = sentence(error)
            troubles.append([part, key, said[:1].upper() + said[1:]])
            continue
        if new != spec:
            spec = new
            done.append((part, key))
    name = f"{PREFIX}{state['kind']}-{state['seed']}.png" if done else state["name"]
    return state | {"spec": spec, "name": name}, done, troubles


def checked_seed(text: object) -> int:
    """The seed a person wrote. Raises ValueError."""
    text = text.strip() if isinstance(text, str) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) < FIRST_RESERVED_SEED):
        raise ValueError(f"A seed is a whole number from 0 to {FIRST_RESERVED_SEED - 1:,}.")
    return int(text)


def panel_of(state: dict, answer: int = 0, troubles: Sequence = (), open: bool = True) -> dict:
    """Value of the panel. ``answer``: number of the edit that this answers; ``open``: unfold the panel of a new picture. The
    parts travel as one text, since the browser copies a value text by text, and does so at every update of a run."""
    return {
        "id": state["id"],
        "order": next_order(),
        "answer": answer,
        "open": open,
        "kind": state["kind"],
        "seed": str(state["seed"]),
        "edited": state["spec"] != state["drawn"],
        "parts": json.dumps([_part(part) for part in parts_of(state["kind"], state["spec"])]),
        "troubles": list(troubles),
    }


def closed() -> dict:
    """Value of the panel where no drawn picture is shown."""
    order = next_order()
    return {"id": order, "order": order, "answer": 0, "open": False, "kind": "", "seed": "", "parts": None, "troubles": []}


def saved(rgb: np.ndarray, cache: Path, name: str) -> str:
    """Write (height, width, 3) pixels as a PNG that the page may show, quickly rather than small; returns its path."""
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, "PNG", compress_level=1)
    folder = cache / hashlib.sha256(buffer.getvalue()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(buffer.getvalue())
    return str(folder / name)


def _part(part: Part) -> dict:
    names = ("key", "row", "label", "sort", "value", "choices", "least", "most")
    fields = [{name: getattr(found, name) for name in names} for found in part.properties]
    return {"key": part.key, "label": part.label, "colour": part.colour, "fields": fields}


def _data(event: gr.EventData) -> dict:
    data = getattr(event, "_data", None)
    return data if isinstance(data, dict) else {}


def _trouble(error: Exception) -> list:
    return [*[gr.skip()] * 5, status(sentence(error), "trouble")]
