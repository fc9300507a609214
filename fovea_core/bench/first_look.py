"""The doctor at the first load of a published checkpoint; what passed is stamped and not examined again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import torch

from fovea_core.bench.doctor import Health, examine
from fovea_core.bench.machine import versions
from fovea_core.decode.cost import cache_folder, device_name, keep
from fovea_core.targets.base import Target

#: Rises when the checks change.
EDITION = 1


def first_look(
    target: Target, say: Callable[[str], None] = lambda text: None, step: Callable[[str], None] = lambda text: None
) -> Health | None:
    """The report on a published checkpoint: from its stamp, or fresh. None for a target of this project's own making.

    ``say`` hears a line before it takes long, ``step`` what is examined; what that raises ends it. A stamp holds for one
    fingerprint, device, dtype and set of versions; a failed check leaves none.
    """
    if not (target.published and target.fingerprint):
        return None
    try:
        return Health.model_validate_json(stamp_path(target).read_text("utf-8"))
    except (OSError, ValueError):
        pass
    say(f"First load of {target.id} on this machine: it is checked against transformers, for half a minute or so.")
    step("checking it against transformers")
    health = examine(target, say=lambda check: step(f"checking it against transformers; done: {check.name}"))
    stamp(target, health)
    return health


def stamp(target: Target, health: Health) -> None:
    """Keep the report on a published checkpoint, unless one of its checks failed."""
    if health.failed or not (target.published and target.fingerprint):
        return
    keep(stamp_path(target), health.model_dump_json())


def stamp_path(target: Target) -> Path:
    """Where the stamp of this target on this machine lies: beside the cost tables."""
    found = versions()
    about = [EDITION, target.fingerprint, device_name(target.device), str(target.embedding.dtype), target.backbone.attention]
    key = json.dumps([*about, found["torch"], found["transformers"], torch.version.cuda])
    return cache_folder() / f"doctor-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
