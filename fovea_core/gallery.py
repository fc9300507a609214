"""The static gallery: a folder whose index.html shows the recorded examples by double click, or as a static Space.

All runs lie inside the one page, each deflated apart, and are unpacked when they are opened. No model, no server, no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fovea_core.examples import KIND_NAMES, Example
from fovea_core.page import ASSETS, PAGE_CSS, packed_page, player_css, player_js
from fovea_core.pictures import data_url, open_picture
from fovea_core.trace.codec import TraceError, encode_header
from fovea_core.trace.fold import fold
from fovea_core.trace.record import read

TITLE = "FOVEA gallery"
THUMBNAIL_PX = 480
#: What tells files of ours from a person's own, which are never written over.
MARK = "fovea-gallery"
README = f"""---
title: {TITLE}
emoji: 🔭
colorFrom: blue
colorTo: green
sdk: static
pinned: false
license: apache-2.0
short_description: Recorded runs of a drafter that looks, guesses, is checked
---

<!-- {MARK} -->
# {TITLE}

Recorded runs of the FOVEA explorer, replayed in the browser: open `index.html`. It needs no server and no model, asks for
nothing from any address, and works from a file. `index.html#run=NAME&step=N` opens a run at a step.
"""


class GalleryError(ValueError):
    """One sentence: why no gallery was written."""


def write_gallery(out: Path, examples: Sequence[Example]) -> list[Path]:
    """Write index.html and README.md into the folder ``out`` and return them.

    Raises GalleryError where a trace is damaged or a file of somebody else would be lost, OSError where nothing can be written.
    """
    files = {out / "index.html": gallery_html(examples), out / "README.md": README}
    for path in files:
        if path.exists() and MARK not in path.read_text("utf-8", "replace"):
            raise GalleryError(f"{path} is not from an earlier gallery and would be lost; choose another folder.")
    out.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, "utf-8")
    return list(files)


def gallery_html(examples: Sequence[Example]) -> str:
    """The page of the gallery. Raises GalleryError: there is no recorded example, or one is damaged."""
    recorded = [example for example in examples if example.recorded]
    if not recorded:
        raise GalleryError("No example is recorded yet; make traces records them.")
    cards, runs = [], {}
    for example in recorded:
        try:
            trace = read(example.trace)
            thumbnail = data_url(open_picture(trace.header.picture_bytes()).rgb, THUMBNAIL_PX)
        except TraceError as error:
            raise GalleryError(f"{example.trace.name}: {error}") from None
        summary = fold(trace.events)
        cards.append(
            {
                "name": example.name,
                "title": example.title,
                "kind": KIND_NAMES.get(example.kind, example.kind),
                "question": summary.started.question,
                "look": example.look,
                "thumbnail": thumbnail,
                "tokens": len(summary.tokens),
                "rounds": summary.rounds,
                "tau": summary.tau,
                "speedup": summary.compared.speedup if summary.compared else None,
            }
        )
        runs[f"run-{example.name}"] = "\n".join([encode_header(trace.header), *trace.lines()])
    script = player_js() + "\n" + (ASSETS / "gallery.js").read_text("utf-8")
    style = player_css() + PAGE_CSS + (ASSETS / "gallery.css").read_text("utf-8")
    return packed_page(TITLE, style, script, {"title": TITLE, "cards": cards}, runs, mark=MARK)
