"""Two players on one scrubber: the ``gr.HTML`` instance that hosts them (assets/compare)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from app.widgets import next_order
from fovea_core.examples import ASSETS

if TYPE_CHECKING:
    import gradio as gr

SCRIPTS = ("differences.js", "compare.js")
# Static on purpose: Gradio evaluates templates as code, so no value may ever stand in one.
_TEMPLATE = '<div class="fovea-comparison"></div>'
_ON_LOAD = """
// A dropped trace takes a run's place: what is still on its way stays out until the server has ended that run.
let newest = 0;
const opened = () => { newest = Number.MAX_SAFE_INTEGER; trigger("open"); };
const comparison = window.FOVEA.createComparison(element.querySelector(".fovea-comparison"), { opened });
const sync = () => {
  if (!props.value) return;
  const { order, a, b } = props.value;
  if ((a || b) && order < newest) return;
  newest = order;
  comparison.set(a, b);
};
watch("value", sync);
sync();
"""


@lru_cache(maxsize=1)
def comparison_head() -> str:
    """Markup for a document head that brings this widget; the player's has to be there too."""
    folder = ASSETS / "compare"
    script = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    return f"<style>{(folder / 'compare.css').read_text('utf-8')}</style><script>{script}</script>"


def shown_sides(a: Sequence[str] | None, b: Sequence[str] | None, order: int | None = None) -> dict:
    """The value: header and event lines of A and B, empty for a side without a run; None keeps what a side shows. ``order``: of
    an update, None = newer than all values before."""
    lines = [None if side is None else list(side) for side in (a, b)]
    return {"order": next_order() if order is None else order, "a": lines[0], "b": lines[1]}


def make_comparison(**options) -> gr.HTML:
    """The component. Its value is what ``shown_sides`` makes; event ``open``: the reader dropped a trace on a side. Use
    ``show_progress="hidden"`` on every event that writes to it. ``options`` are passed to gr.HTML."""
    import gradio as gr

    return gr.HTML(
        value=shown_sides([], []),
        html_template=_TEMPLATE,
        js_on_load=_ON_LOAD,
        apply_default_css=False,
        **options,
    )
