"""Charts of a run that has ended, as plotly figures without colours: assets/charts gives them the player's own.

All numbers are those of the trace's fold. Words of the model are escaped, since plotly reads some markup in texts.
"""

from __future__ import annotations

import html
from importlib.util import find_spec
from pathlib import Path

from fovea_core.examples import ASSETS
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.fold import Summary, Token
from fovea_core.trace.reads import own_reader

#: Longest piece of a word that a hover label shows.
MOST_CHARS = 32
#: Of more words a line's markers are small; none at all would hide a word between two without a value.
MANY_WORDS = 200


def plotly_js() -> Path:
    """The script that draws the figures, as the package plotly brings it; finding it does not import the package."""
    return Path(find_spec("plotly").origin).parent / "package_data" / "plotly.min.js"


def charts_head() -> str:
    """Markup for a document head that brings assets/charts; plotly itself is fetched when charts are looked at."""
    folder = ASSETS / "charts"
    style, script = ((folder / name).read_text("utf-8") for name in ("charts.css", "charts.js"))
    return f"<style>{style}</style><script>{script}</script>"


def charts_of(summary: Summary) -> list[dict] | None:
    """Figures of a run: what each round kept, what each word retrieved, where the time went; None before the first round.

    Each is {name, title, text (the same in words), by ('step' or 'word': what its x counts, from 1), data, layout}, the last
    two plotly's own. A trace's ``meta`` names its colour and, behind a space, how opaque it is.
    """
    if not summary.verdicts:
        return None
    return [_kept(summary), *_retrieved(summary), _times(summary)]


def _kept(summary: Summary) -> dict:
    accepted = [len(verdict.accepted) for verdict in summary.verdicts]
    bonus = [int(verdict.bonus is not None) for verdict in summary.verdicts]
    steps = list(range(1, len(accepted) + 1))
    return _figure(
        "kept",
        "Tokens kept per step",
        f"{sum(accepted)} accepted and {sum(bonus)} bonus tokens in {_count(len(steps), 'step')}; "
        f"{sum(accepted) / len(steps):.2f} accepted a step on average, {max(accepted)} at most.",
        "step",
        [
            _bars("accepted", "accepted", steps, accepted, "step %{x}: %{y} accepted"),
            _bars("bonus", "bonus", steps, bonus, "step %{x}: %{y} bonus", pattern="/"),
        ],
        {"title": {"text": "tokens"}, "dtick": None if max(accepted) > 8 else 1},
    )


def _retrieved(summary: Summary) -> list[dict]:
    """K, captured mass and gate of every word, with a gap where it was scored without a read; nothing where none was."""
    reads = [token.read for token in summary.tokens]
    if not any(reads):
        return []
    words = list(range(1, len(reads) + 1))
    texts = [_label(token) for token in summary.tokens]
    sizes = [len(unpack_entries(read.entries)) if read else None for read in reads]
    captured = [read.captured if read else None for read in reads]
    gates = [read.gate if read else None for read in reads]
    known = [size for size in sizes if size is not None]
    entries = _figure(
        "entries",
        "Retrieved entries per word (K)",
        f"{_count(len(known), 'word')} of {len(words)} drafted with a look, at {min(known)} to {max(known)} entries, "
        f"{sum(known) / len(known):.1f} on average.",
        "word",
        [_bars("retrieved entries", "accent", words, sizes, "%{hovertext}<br>K %{y}", texts)],
        {"title": {"text": "entries"}},
    )
    share = "captured share of its reading" if own_reader(summary.started.policy) else "captured mass"
    held = [value for value in captured if value is not None]
    lines = [_line(share, "accent", words, captured, f"%{{hovertext}}<br>{share} %{{y:.2f}}", texts, "circle", "solid")]
    said = f"{share.capitalize()} {min(held):.2f} to {max(held):.2f}, {sum(held) / len(held):.2f} on average"
    opened = [value for value in gates if value is not None]
    if opened:
        lines.append(_line("gate", "rejected", words, gates, "%{hovertext}<br>gate %{y:.2f}", texts, "diamond-open", "dot"))
        low, high = (f"{bound(opened):.2f}" for bound in (min, max))
        said += f"; gate {low}" + (" throughout" if low == high else f" to {high}, {sum(opened) / len(opened):.2f} on average")
    title = f"{share.capitalize()}{' and gate' if opened else ''} per word"
    shares = _figure("shares", title, f"{said}.", "word", lines, {"title": {"text": "share"}, "range": [0, 1.05]})
    return [entries, shares]


def _times(summary: Summary) -> dict:
    steps = list(range(1, len(summary.verdicts) + 1))
    bars = []
    for part, ink in (("draft", "accent 0.5"), ("select", "soft"), ("verify", "accent")):
        values = [getattr(verdict, f"{part}_ms") for verdict in summary.verdicts]
        bars.append(_bars(part, ink, steps, values, f"step %{{x}}: {part} %{{y:.1f}} ms"))
    return _figure(
        "times",
        "Milliseconds per step",
        f"Drafting took {summary.draft_ms:.0f} ms in all, selecting entries {summary.select_ms:.0f} ms, verifying "
        f"{summary.verify_ms:.0f} ms; before that the target read the picture in {summary.prefill_ms:.0f} ms.",
        "step",
        bars,
        {"title": {"text": "ms"}},
    )


def _figure(name: str, title: str, text: str, by: str, data: list[dict], yaxis: dict) -> dict:
    """One figure; ``by`` names what x counts."""
    axis = {"title": {"text": f"{by} of the answer"}, "tickformat": "d", "range": [0.4, len(data[0]["x"]) + 0.6]}
    layout = {"barmode": "stack", "xaxis": axis, "yaxis": {"rangemode": "tozero", **yaxis}, "showlegend": len(data) > 1}
    return {"name": name, "title": title, "text": text, "by": by, "data": data, "layout": layout}


def _bars(name: str, ink: str, x: list[int], y: list, hover: str, texts: list[str] | None = None, pattern: str = "") -> dict:
    shown = {} if texts is None else {"hovertext": texts}
    bars = {"type": "bar", "name": name, "meta": ink, "x": x, "y": y, "marker": {"pattern": {"shape": pattern}}}
    return bars | shown | {"hovertemplate": f"{hover}<extra></extra>"}


def _line(name: str, ink: str, x: list[int], y: list, hover: str, texts: list[str], symbol: str, dash: str) -> dict:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "meta": ink,
        "x": x,
        "y": y,
        "hovertext": texts,
        "marker": {"symbol": symbol, "size": 6 if len(x) <= MANY_WORDS else 3},
        "line": {"dash": dash, "width": 1.5},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def _label(token: Token) -> str:
    """A token's text for plotly: white space as signs, cut short, markup escaped."""
    text = token.raw.decode("utf-8", "replace")
    shown = text.strip() or text.replace("\n", "⏎").replace(" ", "␣") or "∎"
    shown = "".join(sign if sign.isprintable() else "·" for sign in shown)
    return html.escape(shown if len(shown) <= MOST_CHARS else shown[: MOST_CHARS - 1] + "…", quote=False)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
