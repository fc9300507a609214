"""What the Learn tab replays: the first example of each kind, and the same request once more without the visual memory.

The second recording (``assets/traces/without/NAME.jsonl``) answers, token by token, whether the answer needs the memory, and
shows what the drafter would have guessed at the same place without the correction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fovea_core.examples import MAX_NEW_TOKENS, Example
from fovea_core.trace.codec import Header
from fovea_core.trace.record import Trace, read, write

#: Levels, children, nodes. Fixed, since a drafter without its memory drafts nothing where the tree is chosen by its cost.
TREE = "3,4,13"


def lesson_examples(examples: Sequence[Example]) -> list[Example]:
    """The first recorded example of each kind, in order."""
    first: dict[str, Example] = {}
    for example in examples:
        if example.recorded:
            first.setdefault(example.kind, example)
    return list(first.values())


def without_path(example: Example) -> Path:
    """Where the recording without the memory lies; it may not be there."""
    return example.trace.parent / "without" / example.trace.name


def read_without(example: Example, trace: Trace) -> Trace | None:
    """The recording without the memory that belongs to ``trace``, the example's own; None where there is none of the same
    models, picture and question. Raises ValueError where its file is damaged."""
    path = without_path(example)
    if not path.is_file():
        return None
    found = read(path)
    same = all(
        getattr(found.events[0], name) == getattr(trace.events[0], name)
        for name in ("question", "picture_sha256", "target", "drafter")
    )
    return found if same else None


def record_without(
    engine, examples: Sequence[Example], say: Callable[[str], None] = lambda text: None, budget: int = MAX_NEW_TOKENS
) -> None:
    """Record each lesson example again with the memory switched off, the same request otherwise; ``budget`` as for ``record``.

    Raises ValueError where the answer differs from the example's own: a lesson must not be built on that.
    """
    from fovea_core.pictures import data_url, open_picture
    from fovea_core.request import Request
    from fovea_core.settings import make_settings, parse_tree
    from fovea_core.trace.fold import fold

    settings = make_settings(max_new_tokens=budget, policy="none", tree=parse_tree(TREE))
    for example in lesson_examples(examples):
        rgb = open_picture(example.picture).rgb
        events = tuple(engine.run(Request(rgb, example.question, settings)))
        if fold(events).ids != fold(read(example.trace).events).ids:
            raise ValueError(f"{example.name}: the answer without the memory is another; record the examples anew.")
        path = without_path(example)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, Trace(Header(data_url(rgb)), events))
        say(f"{example.name} without the memory: {len(events)} events, {path.stat().st_size / 1024:,.0f} KiB")
