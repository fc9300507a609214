"""How much memory decoding holds at most, counted tensor by tensor: a figure that no load of the machine changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from torch.profiler import ProfilerActivity, profile, record_function

from fovea_core.trace.events import AnyEvent

_MARK, _MEMORY = "fovea: the prompt is read", "[memory]"


def peak_bytes(run: Callable[[], Iterator[AnyEvent]]) -> int:
    """Most bytes of tensors on the host, made since the begin of ``run()``, that live at once from its ``prefill_done`` on.

    Weights are there before and do not count; nor does what only the prompt's forward needs, which is the same for everybody.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # it would write two lines a run
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        for event in run():
            if event.kind == "prefill_done":
                with record_function(_MARK):
                    pass
    happened = sorted(watched.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    live = most = 0
    counts = False
    for event in happened:
        if event.name() == _MARK:
            counts, most = True, live
        elif event.name() == _MEMORY:
            live += event.nbytes()
            most = max(most, live) if counts else 0
    return most
