"""Two small components of our own. Their templates are static: all text reaches the page as data and by textContent.

What the page shows of a run carries a rising ``order``: updates of an ended run may still be on their way when something else
is shown, and the browser leaves out whatever is older than what stands there.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gradio as gr

#: Also rises when the server starts anew under an open tab.
_orders = itertools.count(time.time_ns() // 1_000_000)

_STATUS_JS = """
let newest = 0;
const show = () => {
  const box = element.querySelector(".fx-status"), value = props.value;
  if (!value || value.order < newest) return;
  newest = value.order;
  box.dataset.state = value.state || "idle";
  box.querySelector("p").textContent = value.text || "";
};
watch("value", show);
show();
"""
_EXAMPLES_JS = """
const show = () => {
  const list = element.querySelector(".fx-examples");
  list.replaceChildren(...(props.value || []).map((example, index) => {
    const [button, picture, name] = ["button", "img", "span"].map((kind) => document.createElement(kind));
    button.type = "button";
    picture.src = example.thumbnail;
    picture.alt = "";
    name.textContent = example.title;
    button.title = example.question;
    button.append(picture, name);
    button.addEventListener("click", () => trigger("open", { index }));
    return button;
  }));
};
watch("value", show);
show();
"""


def next_order() -> int:
    """A number larger than every earlier one."""
    return next(_orders)


def make_status(value: dict, **options) -> gr.HTML:
    """A line that says what goes on. Value: {"state": idle | busy | done | trouble, "text": one sentence, "order": int}."""
    import gradio as gr

    template = '<div class="fx-status" role="status" aria-live="polite"><p></p></div>'
    return gr.HTML(value=value, html_template=template, js_on_load=_STATUS_JS, apply_default_css=False, **options)


def make_examples(value: list[dict[str, str]], **options) -> gr.HTML:
    """Buttons with thumbnails; event ``open`` carries ``index``. Value: [{title, question, thumbnail (data URL)}]."""
    import gradio as gr

    template = '<div class="fx-examples" role="group" aria-label="Recorded examples"></div>'
    return gr.HTML(value=value, html_template=template, js_on_load=_EXAMPLES_JS, apply_default_css=False, **options)
