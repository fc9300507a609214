"""Files from a trace: which can be asked for, where they may be written, what is in them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from fovea_core.page import standalone_html
from fovea_core.render.animation import gif
from fovea_core.render.heat import PALETTES
from fovea_core.render.letters import label
from fovea_core.render.maps import DPI, RenderError, choose, maps_of, percent
from fovea_core.render.step import step_picture
from fovea_core.render.trajectory import strip
from fovea_core.trace.codec import encode_header
from fovea_core.trace.record import Trace
from fovea_core.trace.strip import looked

#: What can be made, and how its file's name ends.
ENDINGS = {"strip": ".png", "gif": ".gif", "html": ".html", "png": ".png"}


def exported(
    trace: Trace, kind: str, *, words: Sequence[int] | None = None, step: int | None = None, palette: str = "viridis"
) -> bytes:
    """The bytes of one file. kind: ``strip`` (trajectory, PNG at 300 dpi), ``gif``, ``html`` (standalone page) or ``png`` (one
    step); words: numbers from 1, of strip, GIF and the page's strip; step: from 1, of ``png``. Raises RenderError,
    PictureError."""
    if palette not in PALETTES:
        raise RenderError(f"There is no palette {palette!r}: choose one of {', '.join(PALETTES)}.")
    if kind == "html":
        chosen = None if words is None else [word.token.position for word in choose(maps_of(trace), words)]
        return page(trace, chosen).encode("utf-8")
    if kind == "gif":
        return gif(trace, words, palette)
    return _png(strip(trace, words, palette) if kind == "strip" else step_picture(trace, step, palette))


def page(trace: Trace, strip: Sequence[int] | None = None) -> str:
    """The standalone page of a trace, as the page itself exports it; ``strip``: positions of the tokens whose words stand in
    its strip."""
    return standalone_html([encode_header(trace.header), *trace.lines()], strip=strip)


def word_list(trace: Trace) -> list[str]:
    """A line per word of the answer that has a map: its number, the word, K and captured mass. Raises RenderError."""
    summary = maps_of(trace).summary
    sights = ((number, looked(word, summary)) for number, word in enumerate(summary.words(), 1))
    return [f"{n:4d}  {label(s.word.text)}  K {len(s.entries)}, {percent(s.captured)} of mass" for n, s in sights if s]


def parse_words(text: str) -> list[int]:
    """``3,7,12`` or ``3-9`` as numbers in order. Raises RenderError."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:\s*-\s*(\d{1,4}))?\s*", part, re.ASCII)
        if match is None:
            raise RenderError(f"{text[:60]!r} are no numbers of words: write 3,7,12 or 3-9.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise RenderError(f"{part.strip()!r} runs backwards: write the smaller number first.")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def check_places(source: Path, places: Mapping[str, Path]) -> None:
    """Refuse, before anything is drawn, what cannot be written or would be lost: another ending, the trace itself, one file
    twice, no plain file (all RenderError), a folder that is missing or closed (OSError). Existing files may be overwritten."""
    taken = {source.resolve()}
    for kind, path in places.items():
        if path.suffix.lower() != ENDINGS[kind]:
            raise RenderError(f"--{kind} writes a file that ends in {ENDINGS[kind]}, not {path.name[-60:]!r}.")
        if path.resolve() in taken or (path.exists() and path.samefile(source)):
            raise RenderError(f"{path.name[-60:]!r} would be written over the trace or by two options.")
        if path.exists() and not path.is_file():
            raise RenderError(f"{path.name[-60:]!r} is no plain file, so nothing is written there.")
        taken.add(path.resolve())
        fresh = not path.exists()
        path.open("ab").close()
        if fresh:
            path.unlink()


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", dpi=(DPI, DPI))
    return buffer.getvalue()
