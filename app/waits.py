"""How long the answers of a model take on this machine: those of the last runs here, kept beside its other measurements."""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fovea_core.targets.base import Target

#: Answers of a model that are remembered.
KEPT = 9


def note_answer(target: Target, total_ms: float) -> None:
    """An answer of ``target`` took so many milliseconds, reading the picture included. Only published models are noted."""
    if not (target.published and target.fingerprint):
        return
    path = _place(target.fingerprint, target.device.type)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps([*_read(path), round(total_ms / 1e3, 3)][-KEPT:]), "utf-8")
        fresh.replace(path)
    except OSError:
        pass  # then nothing is expected, either


def expected(fingerprint: str, kind: str) -> str:
    """A sentence about a model's last answers on this machine, on cpu or cuda; empty where there was none."""
    taken = _read(_place(fingerprint, kind))
    if not taken:
        return ""
    middle = statistics.median(taken)
    took = f"took {middle:.0f} s" if middle >= 10 else f"took {middle:.1f} s"
    return f"An answer here {took}, the median of the last {len(taken)}." if len(taken) > 1 else f"Its last answer here {took}."


def _place(fingerprint: str, kind: str) -> Path:
    from fovea_core.decode.cost import cache_folder

    return cache_folder() / f"answers-{hashlib.sha256(f'{fingerprint} {kind}'.encode()).hexdigest()[:16]}.json"


def _read(path: Path) -> list[float]:
    """The seconds in a file; none where there is none or it is damaged."""
    try:
        taken = json.loads(path.read_text("utf-8"))
        return [float(one) for one in taken if math.isfinite(one) and one > 0][-KEPT:]
    except (OSError, ValueError, TypeError):
        return []
