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
const make = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text || "" });
const show = () => {
  const list = element.querySelector(".fx-examples"), about = element.querySelector(".fx-about"), kinds = new Map();
  const tell = (title, look) => about.replaceChildren(make("strong", "", title), look);
  tell("Recorded runs. ", `They open at once, without a model${props.live ? "; ↻ runs one again live" : ""}.`);
  (props.value || []).forEach((example, index) => {
    const cell = make("div", "fx-example"), open = make("button", "fx-open"), again = make("button", "fx-again");
    const picture = make("img"), name = make("span", "fx-example-title", example.title);
    open.type = again.type = "button";
    picture.src = example.thumbnail;
    picture.alt = "";
    open.title = example.question;
    again.title = "Run again live";
    again.setAttribute("aria-label", `Run again live: ${example.title}`);
    open.append(picture, name);
    cell.append(open, ...(props.live ? [again] : []));
    for (const event of ["pointerenter", "focusin"]) {
      open.addEventListener(event, () => tell(`${example.title}. `, example.look || example.question));
      again.addEventListener(event, () => tell("Run again live: ", `${example.title}.`));
    }
    open.addEventListener("click", () => trigger("open", { index }));
    again.addEventListener("click", () => trigger("rerun", { index }));
    if (!kinds.has(example.kind)) {
      const group = make("div", "fx-kind");
      group.append(make("p", "fx-kind-name", example.kind));
      kinds.set(example.kind, group);
    }
    kinds.get(example.kind).append(cell);
  });
  list.replaceChildren(...kinds.values());
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


def make_examples(value: list[dict[str, str]], live: bool = False, **options) -> gr.HTML:
    """Thumbnails in groups by kind; events ``open`` and, where ``live``, ``rerun`` carry ``index``.

    Value: [{title, kind, question, look, thumbnail (data URL)}]; kind as a heading says it.
    """
    import gradio as gr

    template = (
        '<div class="fx-examples" role="group" aria-label="Recorded examples"></div><p class="fx-about" aria-hidden="true"></p>'
    )
    fixed = {"html_template": template, "js_on_load": _EXAMPLES_JS, "apply_default_css": False}
    return gr.HTML(value=value, live=live, **fixed, **options)
