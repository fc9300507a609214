"""How long the answers of a model take on this machine: those of the last runs here or, before the first of them, what its
check makes one expect; kept beside its other measurements."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fovea_core.bench.doctor import Health
    from fovea_core.targets.base import Target

#: Answers of a model that are remembered.
KEPT = 9
#: Tokens of the answer that an estimate is for, as in bench.doctor, which brings torch.
ANSWER = 60


def note_answer(target: Target, total_ms: float) -> None:
    """An answer of ``target`` took so many milliseconds, reading the picture included. Only published models are noted."""
    if not (target.published and target.fingerprint):
        return
    path = _place(target.fingerprint, target.device.type)
    _write(path, [*_read(path), round(total_ms / 1e3, 3)][-KEPT:])


def note_estimate(target: Target, health: Health | None) -> None:
    """What the check of a published model says of the time of an answer."""
    if health is not None and health.answer_s is not None:
        _write(_place(target.fingerprint, target.device.type, "estimate"), [round(health.answer_s, 3)])


def _write(path: Path, seconds: list[float]) -> None:
    from fovea_core.decode.cost import keep

    keep(path, json.dumps(seconds))


def expected(fingerprint: str, kind: str) -> str:
    """A sentence about a model's last answers on this machine, on cpu or cuda, else about what one should take; empty where
    neither is known."""
    taken = _read(_place(fingerprint, kind))
    if not taken:
        should = _read(_place(fingerprint, kind, "estimate"))
        return f"An answer of {ANSWER} tokens should take about {_seconds(should[-1])} here, by its check." if should else ""
    took = f"took {_seconds(statistics.median(taken))}"
    return f"An answer here {took}, the median of the last {len(taken)}." if len(taken) > 1 else f"Its last answer here {took}."


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _place(fingerprint: str, kind: str, what: str = "answers") -> Path:
    from fovea_core.decode.cost import cache_folder

    return cache_folder() / f"{what}-{hashlib.sha256(f'{fingerprint} {kind}'.encode()).hexdigest()[:16]}.json"


def _read(path: Path) -> list[float]:
    """The seconds in a file; none where there is none or it is damaged."""
    try:
        taken = json.loads(path.read_text("utf-8"))
        return [float(one) for one in taken if math.isfinite(one) and one > 0][-KEPT:]
    except (OSError, ValueError, TypeError):
        return []
