"""What reaches a page of a run, and when: events that the engine's thread passes on, gathered for the next update."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fovea_core.trace.events import MemoryRead, NodeDrafted

if TYPE_CHECKING:
    from fovea_core.trace.events import AnyEvent

#: A draft and its verdict travel together where the verdict comes within this time.
TOGETHER_S = 0.05
#: While nothing happens a waiting page still hears from the run this often, so that a closed tab is noticed.
HEARTBEAT_S = 0.5


def _unjudged(item) -> bool:
    """Whether an item, an event or (side, event), belongs to a draft that the target has not judged yet."""
    event = item[1] if isinstance(item, tuple) else item
    return isinstance(event, MemoryRead | NodeDrafted)


def arrived(news: queue.Queue, until: float) -> list:
    """What has come by ``until`` (monotonic seconds), at least one item or, after a heartbeat, nothing. A draft without its
    verdict waits for it for TOGETHER_S."""
    try:
        items = [news.get(timeout=HEARTBEAT_S)]
    except queue.Empty:
        return []
    patience = max(until, time.monotonic() + TOGETHER_S)
    while (left := (patience if _unjudged(items[-1]) else until) - time.monotonic()) > 0:
        try:
            items.append(news.get(timeout=left))
        except queue.Empty:
            break
    with contextlib.suppress(queue.Empty):
        while True:
            items.append(news.get_nowait())
    return items


def log_events(path: str) -> Callable[[AnyEvent], None]:
    """A watch that notes [number, kind, wall clock in ms] of every event, one JSON line each."""
    file = open(path, "a", buffering=1, encoding="ascii")  # noqa: SIM115 (open as long as the process)
    return lambda event: file.write(json.dumps([event.n, event.kind, time.time() * 1e3]) + "\n")
