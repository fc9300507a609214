"""Gradio's import without the type stubs it writes for editors."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator


@contextlib.contextmanager
def no_stubs() -> Iterator[None]:
    """While this is open, component classes (Gradio's and this package's) get no .pyi file beside them.

    Gradio parses the source of every component for that each time it is imported, which is half of the import's time. Classes
    that come from no file it leaves out, and it is told that these do. Open it around the first import only.
    """
    ask = inspect.getfile

    def getfile(thing):
        if isinstance(thing, type) and thing.__module__.partition(".")[0] in ("gradio", "app"):
            raise OSError("no stub is wanted")
        return ask(thing)

    inspect.getfile = getfile
    try:
        yield
    finally:
        inspect.getfile = ask
