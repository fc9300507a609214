"""The whole page and how it is served. Importing this brings Gradio, but no model library: the gallery opens without one."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr
from starlette.middleware import Middleware

from app.api import add_api
from app.charts import charts_head, plotly_js
from app.comparison import comparison_head
from app.guard import CLEANED_EVERY_S, KEPT_NOTE, KEPT_S, MOST_CLIENTS, Guard
from app.models import Models
from app.pages.compare import build_compare
from app.pages.explain import build_explain
from app.pages.lab import build_lab, measured, wire_lab
from app.pages.learn import build_learn, learn_head
from app.player import player_head
from app.session import Session
from app.theme import CSS, make_theme
from fovea_core.examples import ASSETS, Example, load_examples

TITLE = "FOVEA explorer"
MAX_UPLOAD = "100mb"
HEAD = (
    f"<header class='fx-head'><h1>{TITLE}</h1><p>Watch a vision-language model's answer being drafted, checked and kept, "
    "and what its drafter looked at for every word.</p>"
    "<button type='button' class='fx-tour' title='Eight guided steps on a recorded run'>(i) tour</button></header>"
)
_HEAD_JS = "element.querySelector('.fx-tour').addEventListener('click', () => trigger('tour'));"


def build_page(
    session: Session, examples: Sequence[Example] | None = None, models: Models | None = None, reruns: bool = False
) -> gr.Blocks:
    """The page on top of ``session``; ``examples`` None takes the recorded ones of the repository; ``models``: what else than
    the embedded model may be loaded, None = nothing; ``reruns``: the Lab's studies can be measured anew on this machine, for
    pages that no stranger reaches."""
    examples = load_examples() if examples is None else examples
    with gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False, delete_cache=(CLEANED_EVERY_S, KEPT_S)) as blocks:
        head = gr.HTML(html_template=HEAD, js_on_load=_HEAD_JS)
        with gr.Tabs(elem_id="fx-tabs") as tabs:
            with gr.Tab("Explain", id="explain"):
                on = build_explain(session, examples, models)
            with gr.Tab("Compare", id="compare"):
                pair = build_compare(session, examples, on.asked[:-2], on.models.shown if on.models else None)
            studies = []
            if reruns or measured(ASSETS / "bench"):
                with gr.Tab("Lab", id="lab"):
                    studies = build_lab(session, ASSETS / "bench", reruns)
            with gr.Tab("Learn", id="learn"):
                build_learn(examples)
        open_tour = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        head.tour(lambda: gr.Tabs(selected="learn"), None, [tabs], **open_tour)
        gr.HTML(KEPT_NOTE, elem_id="fx-kept")
        if on.models:
            on.models.wire(blocks, pair.ways, pair.presses)
        blocks.unload(on.leave)
        blocks.unload(pair.leave)
        wire_lab(blocks, studies)
        add_api(session)
    return blocks.queue(max_size=64, default_concurrency_limit=8)


def launch_page(blocks: gr.Blocks, host: str | None = None, port: int | None = None, **options):
    """Serve the page and return at once. ``host`` None is this machine only, or what GRADIO_SERVER_NAME says."""
    return blocks.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=True,
        theme=make_theme(),
        css_paths=CSS,
        head=player_head() + charts_head() + comparison_head() + learn_head(),
        ssr_mode=False,
        run_history=False,
        footer_links=["api"],
        max_file_size=MAX_UPLOAD,
        allowed_paths=[*(str(example.picture) for example in load_examples() if example.recorded), str(plotly_js())],
        enable_monitoring=False,
        state_session_capacity=MOST_CLIENTS,
        app_kwargs={"middleware": [Middleware(Guard)]},
        **options,
    )
