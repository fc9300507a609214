"""The page 'Learn': eight guided steps on recorded runs (assets/learn). No model takes part; a run is sent when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import gradio as gr

from app.session import sentence
from fovea_core.examples import ASSETS, Example
from fovea_core.lesson import lesson_examples, read_without
from fovea_core.trace.codec import encode_header
from fovea_core.trace.record import read

#: Plain scripts, in this order, after the player's.
SCRIPTS = ("pick.js", "parts.js", "writing.js", "looking.js", "learn.js")
# Static on purpose, as the player's: Gradio evaluates templates as code.
_TEMPLATE = '<div class="fovea-learn"></div>'
_ON_LOAD = """
const pick = (index) => trigger("pick", { index });
const learn = window.FOVEA.createLearn(element.querySelector(".fovea-learn"), { pick });
const sync = () => props.value && learn.set(props.value);
watch("value", sync);
sync();
"""


@lru_cache(maxsize=1)
def learn_head() -> str:
    """Markup for a document head that brings the lesson; the player's has to be there too."""
    folder = ASSETS / "learn"
    scripts = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    return f"<style>{(folder / 'learn.css').read_text('utf-8')}</style><script>{scripts}</script>"


def lesson_value(examples: Sequence[Example], index: int | None = None) -> dict:
    """The component's value: {runs: [{title}], index, lines, without, trouble}; without lines where ``index`` is None.

    ``lines``: header and events of run ``index``; ``without``: events of the same request without the visual memory, [] where
    there is no such recording. A recording that cannot be read is one sentence in ``trouble``.
    """
    runs = [{"title": example.title} for example in examples]
    value = {"runs": runs, "index": index, "lines": [], "without": [], "trouble": ""}
    if index is None:
        return value
    try:
        if not isinstance(index, int) or not 0 <= index < len(examples):
            raise ValueError("There is no such recorded run.")
        trace = read(examples[index].trace)
        without = read_without(examples[index], trace)
        lines = [encode_header(trace.header), *trace.lines()]
        return value | {"lines": lines, "without": list(without.lines()) if without else []}
    except Exception as error:
        return value | {"trouble": sentence(error)}


def build_learn(examples: Sequence[Example]) -> gr.HTML:
    """Lay out the lesson inside the current gr.Blocks: the first recorded example of each kind."""
    runs = lesson_examples(examples)
    learn = gr.HTML(
        value=lesson_value(runs),
        html_template=_TEMPLATE,
        js_on_load=_ON_LOAD,
        apply_default_css=False,
        elem_id="fx-learn",
    )

    def pick(event: gr.EventData) -> dict:
        return lesson_value(runs, event.index)

    learn.pick(pick, None, [learn], queue=False, show_progress="hidden", api_visibility="private")
    return learn
