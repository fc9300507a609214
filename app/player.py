"""The player on the live page: the ``gr.HTML`` instance that hosts it (fovea_core/page.py has its assets and exported pages).

The player draws event lines and nothing else. Everything a model or a stranger wrote reaches the browser as data, the JSON
value of the component, never as markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from app.charts import plotly_js
from app.saving import make_file
from app.widgets import next_order
from fovea_core.page import player_css, player_js

if TYPE_CHECKING:
    import gradio as gr

# Static on purpose: Gradio evaluates templates as code, so no value may ever stand in one.
_TEMPLATE = '<div class="fovea-player"></div><div class="fovea-charts"></div>'
_NO_ENGINE = """
const asks = {};
"""
_ENGINE = """
const asks = { redraft: (wish) => trigger("redraft", wish), cancelRedraft: () => trigger("cancel_redraft") };
"""
_ON_LOAD = """
// A dropped trace takes the run's place: what is still on its way stays out until the server has ended that run.
let newest = 0;
const opened = () => { newest = Number.MAX_SAFE_INTEGER; charts.show(null); trigger("open"); };
const links = props.whole ? { open: (name) => trigger("link", { name }) } : null;
const exporter = props.whole ? (asked) => server.make_file(asked) : null;
const options = { mode: "live", opened, links, exporter, ...asks };
const player = window.FOVEA.createPlayer(element.querySelector(".fovea-player"), options);
const served = `${window.gradio_config?.root ?? ""}/gradio_api/file=`;
const charts = window.FOVEA.createCharts(element.querySelector(".fovea-charts"), player, served + PLOTLY);
let first = "", batches = [], split = [];
const phrase = (code) => PHRASES[code.charCodeAt(0) - FIRST];
const spelled = (batch) => (batch[0] === "~" ? batch.slice(1).replace(CODES, phrase) : batch);
// Each batch's lines; only what is new is looked at.
const unpacked = (lines) => {
  if (lines.length < batches.length || batches.some((batch, i) => batch !== lines[i])) batches = split = [];
  split = [...split, ...lines.slice(batches.length).map((batch) => spelled(batch).split("\\n"))];
  batches = lines;
  return split.flat();
};
const sync = () => {
  if (!props.value) return;
  const { order, lines, charts: figures, name } = props.value;
  if (lines && order < newest) return;
  newest = order;
  const asked = lines?.length && lines[0] !== first; // somebody has just asked for this run
  first = lines?.[0] ?? first;
  if (!lines) return player.links?.missing();
  player.set(unpacked(lines));
  if (lines.length) player.links?.arrived(name);
  charts.show(figures && JSON.parse(figures));
  if (asked) requestAnimationFrame(() => window.FOVEA.intoView(element)); // once the page is as long as the run makes it
};
watch("value", sync);
sync();
"""


#: What event lines say over and over, a letter each on the way to the browser: inside a JSON string its quotation marks would
#: travel as two bytes each, and names are most of an event.
PHRASES = (
    *('{"n":', ',"kind":"memory_read","round":', ',"kind":"node_drafted","round":', ',"node":', ',"parent":', ',"depth":'),
    *(',"token":', ',"text":"', ',"logp":', ',"entries":"', '","masses":"', '","top_mass":', ',"captured":', ',"k_raw":'),
    *(',"gate":', ',"correction_norm":', ',"peak":', ',"ms":', '"accepted":[', '],"rejected":[', ',"target_token":'),
    *(',"target_text":"', '","target_logp":', ',"rank":', '"unverified":[', '],"bonus":', ',"bonus_text":"', '"emitted":['),
    *(',"pruned":', ',"draft_ms":', ',"select_ms":', ',"verify_ms":'),
)
_FIRST = 0xC0  # the first of these letters
_CODES = {phrase: chr(_FIRST + place) for place, phrase in enumerate(PHRASES)}
_TAKEN = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + len(PHRASES) - 1)}]")


def wired(batch: str) -> str:
    """Event lines as the player also takes them, its phrases as letters behind a '~'; as they are where a text has such a
    letter of its own."""
    if _TAKEN.search(batch):
        return batch
    for phrase, code in _CODES.items():
        batch = batch.replace(phrase, code)
    return f"~{batch}"


def player_head() -> str:
    """Markup for a document head that brings the player: one style element, one script element."""
    return f"<style>{player_css()}</style><script>{player_js(engine=True)}</script>"


def shown_lines(
    lines: Sequence[str] | None, order: int | None = None, charts: list[dict] | None = None, name: str | None = None
) -> dict:
    """The player's value. ``lines``: header and event lines, or batches of them joined by line breaks (``wired`` or not), a
    list that only grows; None keeps what the player shows. ``order``: of an update, None = newer than all values before.
    ``charts``: figures of a run that has ended (app/charts.py); they travel as one text, since the browser copies a value
    number by number, several times an update. ``name``: of a recorded example, by which links call it."""
    charts = charts and json.dumps(charts)
    lines = None if lines is None else list(lines)
    return {"order": next_order() if order is None else order, "lines": lines, "charts": charts, "name": name}


def make_player(whole: bool = False, redraft: bool = False, **options) -> gr.HTML:
    """The component that shows a run. Its value is what ``shown_lines`` makes of a list of JSON strings that only grows:
    header line, then event lines.

    When the first lines differ from those shown, the player starts afresh. A value older than the one shown is left out.
    Event ``open``: the reader dropped a trace on it; event ``link``: an address asks for the example ``name``. ``whole``: the
    player of the page, which follows links and has its files made here (app/saving.py); only one may. ``redraft``: patches can
    be erased and a step drafted again; the events ``redraft`` and ``cancel_redraft`` then have to be answered
    (app/redrafts.py). The page's head has to bring ``player_head`` and ``charts_head``: as an argument of the component they
    would be copied in the browser at every update. Use ``show_progress="hidden"`` on every event that writes to it.
    ``options`` are passed to gr.HTML (elem_id, visible, render, ...).
    """
    import gradio as gr

    known = {"PLOTLY": quote(plotly_js().as_posix()), "PHRASES": PHRASES, "FIRST": _FIRST}
    constants = "".join(f"const {name} = {json.dumps(value)};" for name, value in known.items())
    constants += f"const CODES = /{_TAKEN.pattern}/g;"
    return gr.HTML(
        value=shown_lines([]),
        html_template=_TEMPLATE,
        js_on_load=constants + (_ENGINE if redraft else _NO_ENGINE) + _ON_LOAD,
        apply_default_css=False,
        server_functions=[make_file] if whole else None,
        whole=whole,
        **options,
    )
