"""The page 'Compare': one picture, one question, two ways to answer it, side by side on one scrubber."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr

from app.asking import status
from app.comparing import READY, Comparing, looked, takes
from app.comparison import make_comparison
from app.models import budget_note
from app.pages.explain import picture_box, shared_settings, thumbnail_card
from app.pair import POLICY_WAY, offered_ways
from app.session import Session
from app.widgets import make_examples, make_status
from fovea_core.examples import Example


def build_compare(
    session: Session,
    examples: Sequence[Example],
    explain: list[gr.components.Component],
    shown: gr.State | None = None,
) -> Comparing:
    """Lay out the page inside the current tab and wire it to ``session``; returns its listeners.

    ``explain``: what 'Explain' asks: picture, question, drafter, policy and the settings both pages share. ``shown``: the model
    that this page is set for, where there are several.
    """
    recorded = [example for example in examples if example.recorded]
    ways = offered_ways(session.drafters)
    with gr.Row(elem_classes="fx-columns"):
        with gr.Column(elem_id="fx-compare-input", elem_classes="fx-input"):
            picture = picture_box(elem_id="fx-compare-picture", height=180)
            question = gr.Textbox(
                label="Question", lines=2, max_lines=6, placeholder="What do you want to know?", elem_id="fx-compare-question"
            )
            copy = gr.Button("Take what Explain shows", size="sm", elem_id="fx-compare-take")
            a = gr.Dropdown(
                ways,
                value="fovea",
                label="A",
                info=budget_note(session.drafters),
                allow_custom_value=True,
                elem_id="fx-compare-a",
            )
            b = gr.Dropdown(
                ways,
                value="blind",
                label="B",
                info=POLICY_WAY,
                allow_custom_value=True,
                elem_id="fx-compare-b",
            )
            with gr.Row(elem_classes="fx-buttons"):
                run = gr.Button("Compare", variant="primary", elem_id="fx-compare-go")
                stop = gr.Button("Stop", elem_id="fx-compare-stop")
            line = make_status(status(READY), elem_id="fx-compare-line")
            with gr.Accordion("Settings of both", open=False, elem_id="fx-compare-settings"):
                shared = shared_settings()
            with gr.Row(elem_classes="fx-more"):
                loads = [gr.UploadButton(f"Load a trace as {side}", elem_id=f"fx-compare-load-{side.lower()}") for side in "AB"]
        with gr.Column(elem_classes="fx-run"):
            if recorded:
                gallery = make_examples([thumbnail_card(example) for example in recorded], elem_id="fx-compare-examples")
            sides = make_comparison(elem_id="fx-comparison")

    on = Comparing(session, recorded)
    quiet = {"api_visibility": "private", "show_progress": "hidden"}
    asked = [picture, question, a, b, *shared, *([shown] if shown else [])]
    accepted = gr.on([run.click, question.submit], on.accept, asked, [line], trigger_mode="once", queue=False, **quiet)
    accepted.then(
        on.answer, None, [sides, line], trigger_mode="always_last", concurrency_id="engine", concurrency_limit=16, **quiet
    )
    stop.click(on.stop, None, None, queue=False, **quiet)
    if recorded:
        gallery.open(on.open, None, [picture, question, a, b, sides, line, *shared], queue=False, **quiet)
    sides.open(on.dropped, None, [sides, line], queue=False, **quiet)
    for load, listener in zip(loads, (on.load_a, on.load_b)):
        load.upload(listener, [load], [sides, line], queue=False, **quiet)
    picture.upload(looked, [picture], [picture, line], concurrency_id="draw", **quiet)
    picture.clear(lambda: status(READY), None, [line], queue=False, **quiet)
    copy.click(takes(session), explain, [picture, question, a, *shared, line], queue=False, **quiet)
    on.ways, on.presses = [a, b], [run.click, question.submit]
    return on
