"""A study measured anew on this machine: its own command in a process of its own, with progress and an end at any moment.

A process, since the page's engine leaves a core to the server and shares one interpreter with it, which would tilt every
timing; since it can be ended in the middle of a forward; and since the result is then that of the command which the page names.
It has its turn on the engine's thread (Session.ask), so that nothing else of this page runs beside the timings.
"""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.lab.study import Study

ROOT = Path(__file__).resolve().parents[2]
#: How often a person's wish to stop is looked at.
LOOK_S = 0.2
#: Lines of the command's last words that are kept for a sentence about what went wrong.
KEPT = 20
_STEP = re.compile(r"(\d{1,6}) of (\d{1,6}): (.{0,200})")


class RerunError(ValueError):
    """One sentence: why the command gave no result."""


@dataclass
class Progress:
    """How far a rerun is: steps done of ``total`` (0 before the first is known), and what the last one was."""

    done: int = 0
    total: int = 0
    what: str = ""


def command(study: Study, options: Sequence[str], file: Path) -> list[str]:
    """The study's command with ``options`` for this interpreter; it puts its result into ``file``."""
    return [sys.executable, "-m", "fovea_core", "bench", study.name, *options, "--json", str(file)]


def rerun(words: Callable[[Path], list[str]], progress: Progress, stop: Callable[[], bool], root: Path = ROOT) -> dict | None:
    """Run a command that puts one JSON object into a file, and return that; None once ``stop`` said so.

    words: the command for a file; progress: kept up to date from its lines on standard error. The file lies in a temporary
    folder and is gone afterwards. Raises RerunError with what the command said last.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        try:
            process = subprocess.Popen(words(file), cwd=root, text=True, encoding="utf-8", errors="replace", **pipes)
        except OSError as error:
            raise RerunError(f"The command could not be started: {error.strerror or error}.") from None
        try:
            said = _follow(process, progress, stop)
        finally:
            _end(process)
        if said is None:
            return None
        if process.returncode:
            last = " ".join(said[-1:]) or f"it ended with {process.returncode} and said nothing"
            raise RerunError(f"The measurement broke off: {last[:300]}")
        try:
            return json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            raise RerunError("The measurement left no readable result; please try it again.") from None


def _follow(process: subprocess.Popen, progress: Progress, stop: Callable[[], bool]) -> list[str] | None:
    """The last lines of a process on standard error, once it has ended; None where ``stop`` said so before."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in process.stderr:
            lines.put(line.strip())
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    said: list[str] = []
    while not stop():
        try:
            line = lines.get(timeout=LOOK_S)
        except queue.Empty:
            continue
        if line is None:
            process.wait()
            return said
        if step := _STEP.fullmatch(line):
            progress.done, progress.total, progress.what = int(step[1]), int(step[2]), step[3]
        elif line:
            said = [*said[1 - KEPT :], line]
    return None


def _end(process: subprocess.Popen) -> None:
    """End a process with all that it began, if it still runs."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    for child in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    if process.poll() is None:
        process.kill()
        process.wait()
