"""Gradio's own boxes, taking what a browser sends as it is: fovea_core checks it, and says more.

Subclasses, since Gradio makes a component anew for a client when an answer leaves it as it was; whatever was set on the old
one is gone then.
"""

from __future__ import annotations

import gradio as gr


class PictureBox(gr.Image):
    """A picture; listeners get the path of the untouched file. Gradio would read it first, and fail without a word."""

    is_template = True  # in the browser an ordinary Image

    def preprocess(self, payload) -> str | None:
        return payload.path if payload else None


class AnyDropdown(gr.Dropdown):
    """A dropdown whose choices change with something else on the page; whoever is asked says which are possible."""

    is_template = True

    def preprocess(self, payload):
        return payload
