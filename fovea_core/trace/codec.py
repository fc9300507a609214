"""An event as one line of JSON, and the first line of a trace file.

A trace file is a stranger's file: every line has a size limit and is checked strictly, and the picture in the first line
must be what it says it is before anything is shown. Whatever is wrong is a TraceError with one sentence.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from fovea_core.trace.events import ADAPTER, MAX_LINE_BYTES, AnyEvent

FORMAT = "fovea-trace"
VERSION = 1
#: Longest side of the picture inside a trace, and the longest first line that may carry it.
PICTURE_SIDE_PX = 1_280
MAX_HEADER_BYTES = 12_000_000
#: Fields that every line carries, though there is but one value of them.
_ALWAYS = ("kind", "schema_version")
_PICTURE_URL = re.compile(r"data:image/(png|jpeg|webp);base64,([A-Za-z0-9+/]+={0,2})")


class TraceError(ValueError):
    """One sentence for a person: why this is no trace that can be shown."""


@dataclass(frozen=True)
class Header:
    """First line of a trace file; ``picture`` is a data URL (png, jpeg or webp), at most 1,280 px on its long side."""

    picture: str

    def picture_bytes(self) -> bytes:
        """The encoded picture file."""
        return base64.b64decode(self.picture.split(",", 1)[1])


def encode(event: AnyEvent) -> str:
    """One line of JSON without its line break. A value that is its default is left out: lines are short on the wire."""
    fields = type(event).model_fields
    absent = {name for name, field in fields.items() if name not in _ALWAYS and getattr(event, name) == field.default}
    return event.model_dump_json(exclude=absent)


def decode(line: str | bytes) -> AnyEvent:
    """The event of one line; ``decode(encode(e)) == e``. Raises TraceError."""
    data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    if len(data) > MAX_LINE_BYTES:
        raise TraceError(f"an event of {len(data):,} bytes is larger than the {MAX_LINE_BYTES:,} a trace may have")
    try:
        return ADAPTER.validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        # The parser counts lines and columns within this one line, which would read as a place in the file.
        what = "it is no whole line of JSON" if first["type"] == "json_invalid" else first["msg"][:120]
        raise TraceError(f"this is no event of a trace ({where + ': ' if where else ''}{what})") from None


def pack_entries(entries: Sequence[int]) -> str:
    """Indices 0..65535 as base64 of little-endian uint16."""
    return base64.b64encode(struct.pack(f"<{len(entries)}H", *entries)).decode("ascii")


def pack_masses(masses: Sequence[float]) -> str:
    """Masses in falling order as base64 of one byte each: 255 x mass / largest, rounded."""
    top = masses[0] if masses else 0.0
    return base64.b64encode(bytes(round(255 * mass / top) if top > 0 else 255 for mass in masses)).decode("ascii")


def unpack_entries(packed: str) -> list[int]:
    """Inverse of pack_entries. Raises TraceError."""
    data = _unbase64(packed)
    if len(data) % 2:
        raise TraceError("the entries of a read are cut off")
    return list(struct.unpack(f"<{len(data) // 2}H", data))


def unpack_masses(packed: str) -> list[int]:
    """The bytes of pack_masses, 255 = the largest mass. Raises TraceError."""
    return list(_unbase64(packed))


def _unbase64(packed: str) -> bytes:
    try:
        return base64.b64decode(packed, validate=True)
    except binascii.Error:
        raise TraceError("a read is not packed as base64") from None


def encode_header(header: Header) -> str:
    """The first line of a trace file, without its line break. Raises TraceError where the picture is not allowed."""
    check_picture(header.picture)
    return json.dumps({"format": FORMAT, "version": VERSION, "picture": header.picture}, separators=(",", ":"))


def decode_header(line: str | bytes) -> Header:
    """The checked first line of a trace file. Raises TraceError, also for a version this program does not know."""
    if len(line) > MAX_HEADER_BYTES:
        raise TraceError("The first line of this file is too long for a trace.")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise TraceError("This file is not a trace of the FOVEA explorer.")
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise TraceError(f"This trace was written by a newer explorer (version {version}, this one reads {VERSION}).")
    if type(version) is not int or version != VERSION or set(values) != {"format", "version", "picture"}:
        raise TraceError("The first line of this trace is damaged.")
    check_picture(values["picture"])
    return Header(values["picture"])


def check_picture(url: object) -> None:
    """Raise TraceError unless ``url`` is a data URL whose bytes are the picture it names, whole and not too large."""
    # Only this check needs a picture library, and a live run never makes it.
    from PIL import Image

    match = _PICTURE_URL.fullmatch(url) if isinstance(url, str) and len(url) < MAX_HEADER_BYTES else None
    if match is None:
        raise TraceError("The picture in this trace is not a png, jpeg or webp.")
    Image.init()  # readers named in formats must be registered
    try:
        data = base64.b64decode(match[2], validate=True)
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as picture:
            if picture.format.lower() != match[1]:
                raise TraceError("The picture in this trace is of another type than it says.")
            if max(picture.size) > PICTURE_SIDE_PX:
                raise TraceError(f"The picture in this trace is larger than {PICTURE_SIDE_PX:,} px.")
            picture.load()
    except TraceError:
        raise
    except (binascii.Error, OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise TraceError("The picture in this trace is damaged.") from None
