"""The gallery: pictures with a question each, and their recorded runs, which open without a model.

``assets/examples/examples.json`` lists them: {name, title, kind, seed, question, look?, spec?, tree?}; ``look`` says what to
watch, ``tree`` the shape of its drafts, for runs in which branches are to be seen: where cost decides, a sure drafter makes
chains. ``record`` draws the pictures into ``assets/examples`` and writes the runs into ``assets/traces``; both are committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fovea_core.trace.codec import Header
from fovea_core.trace.events import Finished
from fovea_core.trace.record import Trace, write

ASSETS = Path(__file__).resolve().parents[1] / "assets"
#: How a heading calls the kinds of pictures.
KIND_NAMES = {"scene": "Scenes", "text": "Signs and receipts", "chart": "Charts"}
MAX_NEW_TOKENS = 256
#: Of the WebP files: a fifth of the lossless size, and what a run reads is what the file holds.
PICTURE_QUALITY = 95
#: Examples are drawn from seeds below the validation range.
FIRST_RESERVED_SEED = 9_000_000


@dataclass(frozen=True)
class Example:
    """One entry of the gallery. ``picture`` and ``trace`` are its files; the trace may not be recorded yet. ``look``: one
    sentence about what this run shows, or empty; ``tree``: levels,children,nodes of its drafts, None: chosen by cost."""

    name: str
    title: str
    kind: str
    seed: int
    question: str
    spec: dict | None
    picture: Path
    trace: Path
    look: str = ""
    tree: str | None = None

    @property
    def recorded(self) -> bool:
        """True where both files are there."""
        return self.picture.is_file() and self.trace.is_file()


def load_examples(assets: Path = ASSETS) -> list[Example]:
    """All examples in order. Raises ValueError where the list is damaged, names a file twice or uses a reserved seed."""
    path = assets / "examples" / "examples.json"
    if not path.is_file():
        return []
    found = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        name, seed = entry["name"], entry["seed"]
        if not name.replace("-", "").isalnum() or name in [example.name for example in found]:
            raise ValueError(f"example name {name!r} is not possible or used twice.")
        if not 0 <= seed < FIRST_RESERVED_SEED:
            raise ValueError(f"example {name!r} uses the reserved seed {seed}.")
        found.append(
            Example(
                name=name,
                title=entry["title"],
                kind=entry["kind"],
                seed=seed,
                question=entry["question"],
                spec=entry.get("spec"),
                picture=assets / "examples" / f"{name}.webp",
                trace=assets / "traces" / f"{name}.jsonl",
                look=entry.get("look", ""),
                tree=entry.get("tree"),
            )
        )
    return found


def record(
    engine, examples: list[Example], say: Callable[[str], None] = lambda text: None, budget: int = MAX_NEW_TOKENS
) -> None:
    """Draw each example's picture and record a run of ``engine`` (fovea_core.engine.Engine) with its measured comparison.

    ``budget``: new tokens an answer may have; an answer that this cuts off would make a poor example.
    """
    from PIL import Image

    from fovea_core.pictures import data_url, open_picture
    from fovea_core.request import Request
    from fovea_core.settings import make_settings, parse_tree
    from fovea_core.worksite import make_picture

    for example in examples:
        drawn = make_picture(example.kind, example.seed, spec=example.spec)
        example.picture.parent.mkdir(parents=True, exist_ok=True)
        example.trace.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(drawn.rgb).save(example.picture, quality=PICTURE_QUALITY, method=6)
        # Read back through the door that every picture takes, so that Run on the page repeats exactly this.
        rgb = open_picture(example.picture).rgb
        request = Request(rgb, example.question, make_settings(max_new_tokens=budget, tree=parse_tree(example.tree)))
        warm = list(engine.run(request))
        events = tuple(_with_comparison(engine, request))
        write(example.trace, Trace(Header(data_url(rgb)), events))
        say(f"{example.name}: {len(warm)} events, {example.trace.stat().st_size / 1024:,.0f} KiB")


def _with_comparison(engine, request) -> Iterator:
    finished = None
    for event in engine.run(request):
        finished = event if isinstance(event, Finished) else finished
        yield event
    compared = engine.compare(request, finished)
    if compared is not None:
        yield compared
