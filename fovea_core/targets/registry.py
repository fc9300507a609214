"""From a name to a loaded target: ``builtin``, a folder, or a hub id."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from fovea_core.settings import SettingsError
from fovea_core.targets.base import Target, TargetError
from fovea_core.targets.llava import load_llava

ASSETS = Path(__file__).resolve().parents[2] / "assets"
BUILTIN = ASSETS / "builtin" / "target"


def pick_device(name: str) -> str:
    """``cpu``, ``cuda`` or ``cuda:1``; ``auto`` is CUDA where there is one. Raises SettingsError for what is not here."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SettingsError(f"device {name[:40]!r} is not possible: use cpu, cuda or auto.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingsError(f"device {name[:40]!r} is not possible: torch finds no such CUDA device here.")
    return name


def load_target(name: str, device: str | torch.device = "cpu") -> Target:
    """Load, check and return a target. Raises TargetError with one sentence that says what to do."""
    if name == "builtin":
        if not (BUILTIN / "config.json").is_file():
            raise TargetError("The built-in target is not in assets/builtin/target: fetch the whole repository, or train one.")
        return load_llava(BUILTIN, device, id="builtin")
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise TargetError(
            f"There is no folder {name[:100]!r}; models from the hub are not supported yet: use builtin or a folder."
        )
    return load_folder(folder, device)


def load_folder(folder: Path, device: str | torch.device = "cpu") -> Target:
    """Load a target from a folder by the model type in its config. Raises TargetError."""
    try:
        family = json.loads((folder / "config.json").read_text()).get("model_type")
    except (OSError, ValueError, AttributeError):
        raise TargetError(f"The folder {folder.name} is no target: it has no readable config.json.") from None
    if family != "llava":
        raise TargetError(f"Models of type {str(family)[:40]} are not supported yet: only llava.")
    return load_llava(folder, device, id=folder.name)
