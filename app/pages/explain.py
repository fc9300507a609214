"""The page 'Explain': bring a picture, ask, and watch the answer being drafted, checked and kept."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import gradio as gr
from PIL import Image

from app.asking import LIMITS, TREES, status
from app.boxes import AnyDropdown, PictureBox
from app.handlers import READY, Handlers, emptied, look
from app.models import Models, budget_note, label_of
from app.pages.draw import make_draw, wire_draw
from app.pages.models import Choosing, ModelPanel, make_models
from app.player import make_player
from app.redrafts import make_redrafts, wire_redrafts
from app.session import Session
from app.widgets import make_examples, make_status
from fovea_core.examples import ASSETS, KIND_NAMES, Example
from fovea_core.pictures import data_url
from fovea_core.settings import POLICY_KINDS

THUMBNAIL_PX = 200
#: Numbers of entries in the policies that the page offers; 16 elsewhere.
OFFERED = {"tiger-K": "tiger-8", "unilaspec-K": "unilaspec-8"}
POLICY_INFO = "which entries a state retrieves; for a number of your own write topk-8, random-4, ..."
NOTICE = (
    "<p class='fx-note'><strong>The embedded model knows drawn Worksite pictures only</strong>: building-site scenes, signs "
    "and receipts, bar charts. It was trained on nothing else; a photograph gets an answer, but no sensible one.</p>"
)


def recording_note(bench: Path) -> str:
    """What recording reads and nodes for the player costs, as ``bench builtin`` measured it; empty without a measurement."""
    try:
        share = float(json.loads(bench.read_text("utf-8"))["overall"]["trace_overhead"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    cost = f"about {100 * share:.0f} %" if share >= 0.01 else "less than 1 %"
    return (
        f"<p class='fx-note'>Recording what the player shows costs {cost} of a live run's decoding time; the speedup is "
        "measured in runs without it.</p>"
    )


def policy_choices() -> list[tuple[str, str]]:
    """Policies of the visual memory as the page names and as settings write them."""
    choices = []
    for name, words in POLICY_KINDS.items():
        written = OFFERED.get(name, name.replace("-K", "-16"))
        told = re.sub(r"\bK\b", written.rpartition("-")[2], words)
        choices.append((f"{written} · {told}", written))
    return choices


def build_explain(session: Session, examples: Sequence[Example], models: Models | None = None) -> Handlers:
    """Lay out the page inside the current gr.Blocks and wire it to ``session``; returns its listeners.

    models: what else than the embedded model may be loaded; None leaves out whatever chooses between models.
    """
    recorded = [example for example in examples if example.recorded]
    with gr.Row(elem_id="fx-columns"):
        with gr.Column(elem_id="fx-input"):
            chooser, shown = make_models(session, models) if models else (None, None)
            picture = picture_box(elem_id="fx-picture", height=230)
            panel, drawn = make_draw()
            question = gr.Textbox(
                label="Question", lines=2, max_lines=6, placeholder="What do you want to know?", elem_id="fx-question"
            )
            with gr.Row(elem_id="fx-buttons"):
                run = gr.Button("Run", variant="primary", elem_id="fx-go")
                stop = gr.Button("Stop", elem_id="fx-stop")
            line = make_status(status(READY), elem_id="fx-line")
            suggestions = gr.Radio(label="Questions for this picture", choices=[], visible=False, elem_id="fx-suggestions")
            note = NOTICE + recording_note(ASSETS / "bench" / "builtin.json")
            notice = gr.HTML(note, elem_id="fx-notice")
            settings = _settings(session.drafters)
            load = gr.UploadButton("Load a trace", elem_id="fx-load")
        with gr.Column(elem_id="fx-run"):
            if recorded:
                gallery = make_examples([thumbnail_card(example) for example in recorded], live=True, elem_id="fx-examples")
            player = make_player(whole=True, redraft=True, elem_id="fx-player")
            redrafts = make_redrafts("#fx-player")

    on = Handlers(session, recorded)
    quiet = {"api_visibility": "private", "show_progress": "hidden"}
    on.asked = [picture, question, *settings]
    named = [shown] if models else []  # the model that the page is set for goes with each request
    accepted = gr.on(
        [run.click, question.submit], on.accept, [*on.asked, *named], [line], trigger_mode="once", queue=False, **quiet
    )
    # Run while an answer streams ends that answer; the new one begins when its stream has closed ("once" would drop it).
    engine = {"concurrency_id": "engine", "concurrency_limit": 16, **quiet}
    accepted.then(on.answer, None, [player, line], trigger_mode="always_last", **engine)
    stop.click(on.stop, None, None, queue=False, **quiet)
    opened = [picture, question, suggestions, player, line, *settings[:-2]]  # a recording does not say what to do beside it
    if recorded:
        gallery.open(on.open, None, opened, queue=False, **quiet)
        again = gallery.rerun(on.rerun, [*settings, *named], opened, trigger_mode="once", queue=False, **quiet)
        again.then(on.answer, None, [player, line], trigger_mode="always_last", **engine)
    player.link(on.link, None, opened, queue=False, **quiet)
    player.open(on.dropped, None, [player, line], queue=False, **quiet)
    wire_redrafts(session, recorded, player, redrafts, picture)
    load.upload(on.load, [load], opened, queue=False, **quiet)
    wire_draw(panel, drawn, picture, question, suggestions, line, player, gallery if recorded else None, recorded)
    suggestions.input(lambda chosen: chosen, [suggestions], [question], queue=False, **quiet)
    picture.upload(look, [picture], [picture, suggestions, line], concurrency_id="draw", **quiet)
    picture.clear(emptied, None, [suggestions, line], queue=False, **quiet)
    if models:
        presses = [run.click, question.submit, *([gallery.rerun] if recorded else [])]
        on.models = ModelPanel(
            chooser, shown, [settings[0], settings[1], notice, settings[-1]], presses, Choosing(session, models, note)
        )
    return on


def _settings(drafters: Sequence[str]) -> list[gr.components.Component]:
    """The folded-up settings, in the order of asking.make_ticket; ``drafters``: those of the embedded model."""
    with gr.Accordion("Settings", open=False, elem_id="fx-settings"):
        drafter = AnyDropdown(
            [(label_of(name), name) for name in drafters],
            value="builtin",
            label="Drafter",
            info=budget_note(drafters),
        )
        policy = gr.Dropdown(
            policy_choices(), value="fovea", label="Policy of the visual memory", info=POLICY_INFO, allow_custom_value=True
        )
        shared = shared_settings()
        compare = gr.Checkbox(value=True, label="Measure plain decoding after the run")
        looks = gr.Checkbox(
            value=False,
            label="Record where the target looked",
            info="a second map, of the target's own attention; not in timed runs",
        )
    return [drafter, policy, *shared, compare, looks]


def shared_settings() -> list[gr.components.Component]:
    """Tree, most new tokens, temperature, top-p and seed, inside the current layout."""
    tree = gr.Dropdown(
        list(TREES),
        value="auto",
        label="Draft tree",
        info="auto: by measured cost; paper: 6 levels, 6 children, 40 nodes; or write levels,children,nodes",
        allow_custom_value=True,
    )
    tokens = gr.Slider(*LIMITS["max_new_tokens"], value=256, step=1, label="Most new tokens")
    temperature = gr.Slider(*LIMITS["temperature"], value=0, step=0.05, label="Temperature", info="0 is greedy")
    top_p = gr.Slider(*LIMITS["top_p"], value=1, step=0.05, label="Top-p")
    seed = gr.Number(value=0, precision=0, label="Seed", minimum=0)
    return [tree, tokens, temperature, top_p, seed]


def picture_box(elem_id: str, height: int) -> gr.Image:
    """Where a picture is brought; listeners get the path of the untouched file."""
    return PictureBox(
        label="Picture",
        type="filepath",
        image_mode=None,
        format="png",
        sources=["upload", "clipboard"],
        buttons=[],
        height=height,
        elem_id=elem_id,
    )


def thumbnail_card(example: Example) -> dict[str, str]:
    """An example for widgets.make_examples."""
    words = {"title": example.title, "kind": KIND_NAMES[example.kind], "question": example.question, "look": example.look}
    return {**words, "thumbnail": _thumbnail(example.picture)}


@functools.cache
def _thumbnail(file: Path) -> str:
    """A recorded picture made small, once for both pages that show it: twelve of them take a quarter of a second."""
    with Image.open(file) as picture:
        return data_url(picture.convert("RGB"), THUMBNAIL_PX)
