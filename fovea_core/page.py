"""A run's page as one file: the player of assets/player around the lines of one trace, on its own or inside a notebook.

Everything a model or a stranger wrote is data: a deflated block that the player checks and draws, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets" / "player"
#: Plain scripts, loaded in this order; each adds its names to ``window.FOVEA``.
SCRIPTS = (
    "dom.js",
    "schema.js",
    "trace.js",
    "maps.js",
    "heat.js",
    "stage.js",
    "patches.js",
    "answer.js",
    "names.js",
    "caption.js",
    "tree.js",
    "strip.js",
    "numbers.js",
    "projector.js",
    "draw.js",
    "saving.js",
    "links.js",
    "layout.js",
    "keys.js",
    "player.js",
    "page.js",
)
#: Of a page with an engine behind it; an exported page cannot redraft and leaves them out.
ENGINE_SCRIPTS = ("redrafted.js", "erase.js")

#: A larger page would slow a notebook down, which keeps it inside its own file.
MOST_FRAMED_CHARS = 8_000_000
# The page carries everything deflated; this small script unpacks it. The policy knows the hashes of what it unpacks.
_BOOT = """
(async () => {
  const unpack = async (id) => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const { style, script, content } = await unpack("packed");
  for (const [tag, text] of [["style", style], ["script", script]]) {
    const element = document.createElement(tag);
    element.textContent = text;
    document.head.append(element);
  }
  window.FOVEA.openPage(document.getElementById("player"), content, unpack);
})();
"""
#: Around a player that has a page for itself.
PAGE_CSS = """
html { background: #fbfaf8; color-scheme: light dark; }
body { margin: 0 auto; max-width: 1500px; padding: clamp(16px, 3vw, 44px); }
@media (prefers-color-scheme: dark) { html { background: #101114; } }
"""


@lru_cache(maxsize=1)
def player_css() -> str:
    """The player's style sheet."""
    return (ASSETS / "player.css").read_text("utf-8")


@lru_cache(maxsize=2)
def player_js(engine: bool = False) -> str:
    """All scripts of the player, in order; with ``engine`` those that ask an engine for something too."""
    return "\n".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS + (ENGINE_SCRIPTS if engine else ()))


def standalone_html(
    lines: Sequence[str],
    *,
    autoplay: bool = True,
    at: str = "start",
    title: str = "FOVEA explorer",
    strip: Sequence[int] | None = None,
) -> str:
    """One self-contained page that replays a trace: no request, strict content policy, the lines deflated.

    lines: a trace file's lines, header first; none for an empty page that waits for a dropped trace. at: ``start`` or
    ``end``, where the player stands when it opens. strip: positions of the tokens whose words stand in the strip (None: the
    player's choice). The lines are checked by the player when the page opens.
    """
    content = {"options": {"mode": "page", "autoplay": autoplay and at == "start", "at": at}, "trace": "\n".join(lines)}
    if strip is not None:
        content["options"]["strip"] = list(strip)
    return packed_page(title, player_css() + PAGE_CSS, player_js(), content)


def packed_page(
    title: str, style: str, script: str, content: object, blocks: Mapping[str, object] | None = None, mark: str = "fovea-run"
) -> str:
    """A page around ``script``, whose ``FOVEA.openPage(root, content, unpack)`` is called when all is unpacked.

    ``blocks``: what ``await unpack(id)`` gives, by id; each is unpacked only when asked for. Values are JSON; ids and
    ``mark``, which says what kind of page this is, are plain names, written as they are.
    """
    packed = {"packed": {"style": style, "script": script, "content": content}, **(blocks or {})}
    carried = "".join(f'<script type="text/plain" id="{name}">{_pack(value)}</script>' for name, value in packed.items())
    policy = (
        f"default-src 'none'; script-src {_hash(_BOOT)} {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="{mark}">'
        f"<title>{html.escape(title)}</title></head><body>"
        "<noscript>This page replays recorded runs and needs JavaScript.</noscript>"
        f'<main id="player"></main>{carried}<script>{_BOOT}</script>'
        "</body></html>\n"
    )


def framed_html(lines: Sequence[str], height_px: int = 900) -> str:
    """The standalone page inside a frame of its own, for a notebook's cell; one sentence where it is too large for one.

    The frame is sandboxed: its scripts run apart from the notebook and reach neither its page nor any address.
    """
    page = standalone_html(lines, at="end")
    if len(page) > MOST_FRAMED_CHARS:
        return (
            f"<p>This trace makes a page of {len(page) / 1e6:,.0f} MB, too large for a notebook; "
            "write it into a file with <code>python -m fovea_core export F --html OUT.html</code>.</p>"
        )
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" title="FOVEA explorer" '
        f'style="width: 100%; height: {height_px}px; border: 0"></iframe>'
    )


def _pack(value: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode("utf-8"), 9)).decode("ascii")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
