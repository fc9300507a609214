"""Small traces over a grey picture, whose maps are known cell by cell."""

from __future__ import annotations

import base64
import io

from PIL import Image

from fovea_core.trace import events as ev
from fovea_core.trace.codec import Header
from fovea_core.trace.record import Trace
from tests.test_strip import spoken

GREY = (120, 120, 120)


def picture(size: tuple[int, int] = (400, 320), colour: tuple[int, int, int] = GREY) -> Header:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return Header("data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode())


def grid(rows: int, columns: int, **changes) -> ev.Tile:
    values = {"rows": rows, "columns": columns, "box": (0, 0, 1, 1), "view": "tile", "first": 0, "valid": [rows * columns]}
    return ev.Tile(**{**values, **changes})


def made(pieces, size=(400, 320), tiles=None, **prefilled) -> Trace:
    """A trace over a grey picture; pieces as of ``spoken``."""
    return Trace(picture(size), tuple(spoken(pieces, tiles=tiles or [grid(4, 5)], **prefilled)))


#: Each word looks at one cell of the 4 x 5 grid.
LOOKS = {"alpha": 0, "beta": 4, "gamma": 15, "delta": 19}


def corners() -> Trace:
    """Words that look at one corner each, between two that were not drafted with a look."""
    return made([("The", None)] + [(f" {word}", ([cell], 0.9)) for word, cell in LOOKS.items()] + [(" end", None)])


def opened(data: bytes) -> Image.Image:
    """The picture of these bytes."""
    return Image.open(io.BytesIO(data))
