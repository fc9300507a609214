"""A trace file: written while the run goes on, read back as a stranger's file."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fovea_core.page import framed_html
from fovea_core.trace.codec import (
    MAX_HEADER_BYTES,
    Header,
    TraceError,
    decode,
    decode_header,
    encode,
    encode_header,
)
from fovea_core.trace.events import MAX_EVENTS, MAX_LINE_BYTES, AnyEvent
from fovea_core.trace.laws import checked

MAX_FILE_BYTES = 48 * 1024 * 1024


@dataclass(frozen=True, repr=False)
class Trace:
    """A recorded run: its picture and its events, which keep the laws. In a notebook it shows its player."""

    header: Header
    events: tuple[AnyEvent, ...]

    def lines(self) -> list[str]:
        """The events as the page takes them, one JSON string each."""
        return [encode(event) for event in self.events]

    def __repr__(self) -> str:
        return f"<Trace of {len(self.events)} events>"

    def _repr_html_(self) -> str:
        return framed_html([encode_header(self.header), *self.lines()])


def tee(events: Iterable[AnyEvent], path: str | Path, header: Header) -> Iterator[AnyEvent]:
    """Pass events on and write each to ``path`` as it comes, so that a run that is stopped or breaks is kept so far.

    Raises OSError where the file cannot be written.
    """
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.write(encode_header(header) + "\n")
        for event in events:
            file.write(encode(event) + "\n")
            file.flush()
            yield event


def write(path: str | Path, trace: Trace) -> None:
    """Write a whole trace file."""
    for _ in tee(trace.events, path, trace.header):
        pass


def read(source: str | Path | bytes) -> Trace:
    """A checked trace from a file or from its bytes. Raises TraceError with one sentence."""
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), len(source))
    path = Path(source)
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size)
    except OSError as error:
        raise TraceError(f"The trace {path.name!r} cannot be read: {error.strerror or error}.") from None


def replay(source: str | Path | bytes) -> Iterator[AnyEvent]:
    """The events of a recorded run in order. Raises TraceError before the first one if anything is wrong."""
    yield from read(source).events


def _read(file: io.BufferedIOBase, size: int) -> Trace:
    if size > MAX_FILE_BYTES:
        raise TraceError(f"This file has {size / 2**20:,.0f} MiB; a trace has at most {MAX_FILE_BYTES // 2**20} MiB.")
    header = decode_header(file.readline(MAX_HEADER_BYTES + 1))
    events: list[AnyEvent] = []
    try:
        for event in checked(_events(file)):
            events.append(event)
    except TraceError as error:
        raise TraceError(f"Line {len(events) + 2} of this trace is damaged: {error}.") from None
    if not events:
        raise TraceError("This trace holds no event.")
    return Trace(header, tuple(events))


def _events(file: io.BufferedIOBase) -> Iterator[AnyEvent]:
    for _ in range(MAX_EVENTS + 1):
        line = file.readline(MAX_LINE_BYTES + 2)
        if not line:
            return
        yield decode(line.rstrip(b"\r\n"))
