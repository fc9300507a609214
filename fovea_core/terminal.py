"""A run on a terminal: the answer with its verdicts in colour and mark, as the page shows them, and the figures below;
and where results go."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fovea_core.trace import events as ev
from fovea_core.trace.fold import Fold, Summary

#: Okabe-Ito colours and marks, as on the page; the mark tells as much as the colour.
STYLES = {
    "first": "underline2 #009E73",
    "accepted": "underline #56B4E9",
    "bonus": "underline2 #009E73",
    "rejected": "strike #D55E00",
}
#: Control characters of a model's text would steer the terminal; line breaks are kept.
_CONTROL = {code: chr(0xFFFD) for code in (*range(0, 10), *range(11, 32), *range(127, 160))}


def plain(text: str) -> str:
    """Text that cannot steer a terminal."""
    return text.translate(_CONTROL)


def say(console: Console, text: str) -> None:
    """One line of plain text: no markup, no wrapping, nothing that steers the terminal."""
    console.print(plain(text), markup=False, soft_wrap=True)


def watch(events: Iterable[ev.AnyEvent], console: Console) -> Iterator[ev.AnyEvent]:
    """Pass events on; on a terminal the answer grows round by round while they come and stays there at the end.

    A picture outside the target's world is called that before its answer, on a terminal or not.
    """
    if not console.is_terminal:
        for event in events:
            if isinstance(event, ev.PrefillDone) and event.outside:
                say(console, ev.OUTSIDE)
            yield event
        return
    fold, rejected = Fold(), {}
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        names: dict[int, str] = {}
        for event in events:
            fold.add(event)
            if isinstance(event, ev.NodeDrafted):
                names[event.node] = event.text
            elif isinstance(event, ev.RoundVerified):
                place = len(fold.tokens) - (event.bonus is not None)
                wrong = min((item for item in event.rejected if item.node in names), key=lambda item: item.node, default=None)
                rejected[place] = names[wrong.node] if wrong else ""
                names = {}
            if isinstance(event, ev.PrefillDone | ev.RoundVerified | ev.Finished):
                live.update(_view(fold.summary(), rejected), refresh=True)
            yield event


def _view(summary: Summary, rejected: dict[int, str]) -> Group:
    answer, pending, how = Text(), b"", "first"
    for token in summary.tokens:
        if rejected.get(token.position):
            answer.append(plain(rejected[token.position].strip()), STYLES["rejected"])
        pending, how = pending + token.raw, token.how
        try:
            answer.append(plain(pending.decode("utf-8")), STYLES[how])
            pending = b""
        except UnicodeDecodeError:
            continue  # a token that completes no character waits for the next one
    answer.append(plain(pending.decode("utf-8", "replace")), STYLES[how])
    notice = [Text(ev.OUTSIDE, "bold")] if summary.outside else []
    return Group(*notice, answer, Text(figures(summary), "dim"))


def figures(summary: Summary) -> str:
    """One line of numbers: rounds, tau, drafted and accepted nodes, time, and what a comparison found."""
    parts = [f"{len(summary.tokens)} tokens in {summary.rounds} rounds"]
    if summary.tau is not None:
        parts.append(f"tau {summary.tau:.2f} (bonus counted)")
    parts.append(f"{summary.accepted} of {summary.drafted} drafted nodes accepted")
    if summary.total_ms is not None:
        parts.append(f"{summary.total_ms:,.0f} ms")
    if summary.compared:
        found = summary.compared
        parts.append(f"{found.speedup:.2f}x plain decoding, same text: {'yes' if found.same_ids else 'no'}")
    if summary.reason:
        parts.append({"eos": "ended by itself", "length": "ended at the token limit", "stopped": "stopped"}[summary.reason])
    return " · ".join(parts)


def check_place(where: str | None) -> None:
    """Raise OSError now where ``put_json`` could not write later."""
    if where in (None, "-"):
        return
    path = Path(where)
    fresh = not path.exists()
    path.open("a").close()
    if fresh:
        path.unlink()


def put_json(values: dict[str, Any], where: str | None, answers: TextIO) -> None:
    """One JSON object to ``answers`` (stdout) where ``where`` is ``-``, else into that file; None puts nothing."""
    if where is None:
        return
    line = json.dumps(values, ensure_ascii=False, allow_nan=False)
    if where == "-":
        print(line, file=answers, flush=True)
    else:
        Path(where).write_text(line + "\n", encoding="utf-8")
