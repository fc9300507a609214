"""The player in Python: its assets, the ``gr.HTML`` instance that hosts it, and the standalone page around one trace.

The player draws event lines and nothing else. Everything a model or a stranger wrote reaches the browser as data: a JSON
value of the component, or a deflated block in the standalone page; never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.widgets import next_order

if TYPE_CHECKING:
    import gradio as gr

ASSETS = Path(__file__).resolve().parent.parent / "assets" / "player"
#: Plain scripts, loaded in this order; each adds its names to ``window.FOVEA``.
SCRIPTS = (
    "dom.js",
    "trace.js",
    "heat.js",
    "stage.js",
    "answer.js",
    "caption.js",
    "tree.js",
    "strip.js",
    "numbers.js",
    "player.js",
)

# Static on purpose: Gradio evaluates templates as code, so no value may ever stand in one.
_TEMPLATE = '<div class="fovea-player"></div>'
_ON_LOAD = """
// A dropped trace takes the run's place: what is still on its way stays out until the server has ended that run.
let newest = 0;
const opened = () => { newest = Number.MAX_SAFE_INTEGER; trigger("open"); };
const player = window.FOVEA.createPlayer(element.querySelector(".fovea-player"), { mode: "live", opened });
const sync = () => {
  const { order, lines } = props.value;
  if (lines && order < newest) return;
  newest = order;
  if (lines) player.set(lines);
};
watch("value", sync);
sync();
"""
# The page carries everything deflated; this small script unpacks it. The policy knows the hashes of what it unpacks.
_BOOT = """
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("packed").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { style, script, options, trace } = JSON.parse(await new Response(stream).text());
  for (const [tag, text] of [["style", style], ["script", script]]) {
    const element = document.createElement(tag);
    element.textContent = text;
    document.head.append(element);
  }
  const player = window.FOVEA.createPlayer(document.getElementById("player"), options);
  window.FOVEA.page = player;
  if (!trace) return;
  try {
    player.load(window.FOVEA.splitFile(trace), options.at);
  } catch (error) {
    if (!(error instanceof window.FOVEA.TraceError)) throw error;
    player.trouble(error.message);
  }
})();
"""
_PAGE_CSS = """
html { background: #fbfaf8; color-scheme: light dark; }
body { margin: 0 auto; max-width: 1500px; padding: clamp(16px, 3vw, 44px); }
@media (prefers-color-scheme: dark) { html { background: #101114; } }
"""


@lru_cache(maxsize=1)
def player_css() -> str:
    """The player's style sheet."""
    return (ASSETS / "player.css").read_text("utf-8")


@lru_cache(maxsize=1)
def player_js() -> str:
    """All scripts of the player, in order."""
    return "\n".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS)


def player_head() -> str:
    """Markup for a document head that brings the player: one style element, one script element."""
    return f"<style>{player_css()}</style><script>{player_js()}</script>"


def shown_lines(lines: Sequence[str] | None) -> dict:
    """The player's value: header and event lines, newer than all values before; None keeps what a reader dropped on it."""
    return {"order": next_order(), "lines": None if lines is None else list(lines)}


def make_player(**options) -> gr.HTML:
    """The component that shows a run. Its value is what ``shown_lines`` makes of a list of JSON strings that only grows:
    header line, then event lines.

    When the first lines differ from those shown, the player starts afresh. A value older than the one shown is left out.
    Event ``open``: the reader dropped a trace on it. Use ``show_progress="hidden"`` on every event
    that writes to it. ``options`` are passed to gr.HTML (elem_id, visible, render, ...).
    """
    import gradio as gr

    return gr.HTML(
        value=shown_lines([]),
        html_template=_TEMPLATE,
        js_on_load=_ON_LOAD,
        head=player_head(),
        apply_default_css=False,
        **options,
    )


def standalone_html(lines: Sequence[str], *, autoplay: bool = True, at: str = "start", title: str = "FOVEA explorer") -> str:
    """One self-contained page that replays a trace: no request, strict content policy, the lines deflated.

    lines: a trace file's lines, header first; none for an empty page that waits for a dropped trace. at: ``start`` or
    ``end``, where the player stands when it opens. The lines are checked by the player when the page opens.
    """

    script, style = player_js(), player_css() + _PAGE_CSS
    options = {"mode": "page", "autoplay": autoplay and at == "start", "at": at}
    content = json.dumps({"style": style, "script": script, "options": options, "trace": "\n".join(lines)})
    packed = base64.b64encode(zlib.compress(content.encode("utf-8"), 9)).decode("ascii")
    policy = (
        f"default-src 'none'; script-src {_hash(_BOOT)} {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title></head><body>"
        "<noscript>This page replays a recorded run and needs JavaScript.</noscript>"
        f'<div id="player"></div><script type="text/plain" id="packed">{packed}</script><script>{_BOOT}</script>'
        "</body></html>\n"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
