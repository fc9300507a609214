"""Files that the live page makes of a run: strip and step at 300 dpi, GIF, standalone page.

The browser sends the lines it holds; they are read as a stranger's trace. The file goes back in the same answer: nothing is
written to disk, so nothing has to be removed.
"""

from __future__ import annotations

import base64
import threading

from fovea_core.render import RenderError, exported
from fovea_core.trace.codec import TraceError
from fovea_core.trace.fold import fold
from fovea_core.trace.record import Trace, read

#: What fits into one request (app/guard.py) with the marks that JSON puts around it.
MAX_TRACE_CHARS = 3_000_000
#: Files are made one after the other; who waits longer than this, or finds this many before, is told to come back: the
#: threads in which they wait are those that answer all other requests too.
LONGEST_WAIT_S = 30
MOST_WAITING = 4
BUSY = "Other files are being made for others; please try again in a moment."
MOST_WORDS = 1_000
TYPES = {"strip": "image/png", "png": "image/png", "gif": "image/gif", "html": "text/html"}
_one_at_a_time = threading.Lock()
_places = threading.BoundedSemaphore(MOST_WAITING)


def make_file(asked: object) -> dict[str, str]:
    """What the player's exporter gets: {data (base64), type}, or {trouble: one sentence}.

    asked: {kind, lines: [str], words: [position of a token] or None, step: from 1, palette}; a browser's word, so all of it
    is checked.
    """
    if not _places.acquire(blocking=False):
        return {"trouble": BUSY}
    try:
        if not _one_at_a_time.acquire(timeout=LONGEST_WAIT_S):
            return {"trouble": BUSY}
        try:
            return _made(asked)
        finally:
            _one_at_a_time.release()
    finally:
        _places.release()


def _made(asked: object) -> dict[str, str]:
    try:
        kind, trace, words, step, palette = _checked(asked)
        data = exported(trace, kind, words=words, step=step, palette=palette)
    except Exception as error:
        known = isinstance(error, ValueError) and str(error)
        return {"trouble": str(error)[:500] if known else f"This file could not be made ({type(error).__name__})."}
    return {"data": base64.b64encode(data).decode("ascii"), "type": TYPES[kind]}


def _checked(asked: object) -> tuple[str, Trace, list[int] | None, int | None, str]:
    values = asked if isinstance(asked, dict) else {}
    kind, lines, words, step = (values.get(name) for name in ("kind", "lines", "words", "step"))
    palette = values.get("palette", "viridis")
    if not isinstance(kind, str) or kind not in TYPES:
        raise RenderError(f"There is no such file: choose one of {', '.join(TYPES)}.")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise TraceError("This is no trace.")
    if sum(map(len, lines)) > MAX_TRACE_CHARS:
        most = MAX_TRACE_CHARS // 1_000_000
        raise TraceError(f"This run is longer than the {most} MB that the page takes; save its trace and use the command line.")
    trace = read("\n".join(lines).encode("utf-8", "surrogatepass"))
    whole = step if type(step) is int and step > 0 and kind == "png" else None
    return kind, trace, None if words is None else _numbers(trace, words), whole, palette if isinstance(palette, str) else ""


def _numbers(trace: Trace, positions: object) -> list[int]:
    """Numbers (from 1) of the words that hold the tokens at these positions (from 0). Raises RenderError."""
    if not isinstance(positions, list) or not all(type(at) is int for at in positions) or len(positions) > MOST_WORDS:
        raise RenderError("These are no words of this answer.")
    spoken = enumerate(fold(trace.events).words(), 1)
    return [number for number, word in spoken if any(word.first <= at <= word.last for at in positions)]
