"""From a name to a loaded target: ``builtin``, a folder, or a hub id of assets/targets.json; no other id is ever fetched."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fovea_core.settings import SettingsError
from fovea_core.targets.base import Target, TargetError

ASSETS = Path(__file__).resolve().parents[2] / "assets"
BUILTIN = ASSETS / "builtin" / "target"
KNOWN = ASSETS / "targets.json"
#: What is fetched of a repository on the hub: weights, configs, tokenizer, template.
FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
#: Model types as config.json names them, beside the embedded target's own.
FAMILIES = ("llava_next", "qwen2_5_vl", "smolvlm", "idefics3")


class KnownTarget(BaseModel):
    """One line of the registry file. drafters: what may be tried as ``--drafter``, best first; notes: for a person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$", max_length=100)]
    family: Annotated[str, Field(pattern="^(" + "|".join(FAMILIES) + ")$")]
    drafters: tuple[Annotated[str, Field(max_length=100)], ...] = ()
    notes: Annotated[str, Field(max_length=400)] = ""


@functools.cache
def known_targets() -> tuple[KnownTarget, ...]:
    """The registry file. Raises TargetError where it is damaged."""
    try:
        return TypeAdapter(tuple[KnownTarget, ...]).validate_json(KNOWN.read_bytes())
    except (OSError, ValueError) as error:
        raise TargetError(f"The list of known targets {KNOWN} cannot be read: {str(error).splitlines()[0][:200]}") from None


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
        from fovea_core.targets.llava import load_llava

        return load_llava(BUILTIN, device, id="builtin")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return load_folder(folder, device)
    if name in {known.id for known in known_targets()}:
        return load_folder(fetch(name), device, id=name)
    raise TargetError(
        f"There is no folder {str(folder.absolute())[:160]!r}: use builtin, a folder, or an id that `fovea_core targets` lists."
    )


def fetch(name: str) -> Path:
    """The folder of a known target in the hub's cache, fetched if need be and if HF_HUB_OFFLINE allows. Raises TargetError."""
    from huggingface_hub import constants, snapshot_download

    place = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES), ignore_patterns=["onnx/*"]))
    except Exception as error:  # network, rights, disk: the library has an own kind for each
        why = "HF_HUB_OFFLINE forbids to fetch it" if constants.HF_HUB_OFFLINE else " ".join(str(error).split())[:200]
        raise TargetError(f"The target {name} is not complete in {place}, and {why}.") from error


def load_folder(folder: Path, device: str | torch.device = "cpu", id: str | None = None) -> Target:
    """Load a target from a folder by the model type in its config. Raises TargetError."""
    family = model_type(folder)
    if family is None:
        raise TargetError(f"The folder {folder.absolute()} is no target: it has no readable config.json.")
    if family == "llava":
        from fovea_core.targets.llava import load_llava

        return load_llava(folder, device, id=id or folder.name)
    if family not in FAMILIES:
        raise TargetError(f"Models of type {family[:40]} are not supported: only llava, {', '.join(FAMILIES)}.")
    from fovea_core.targets.families import load_hub

    return load_hub(folder, family, device, id=id or folder.name)


def model_type(folder: Path) -> str | None:
    """What config.json of a folder says it is; None where there is no readable one."""
    try:
        return str(json.loads((folder / "config.json").read_text()).get("model_type"))
    except (OSError, ValueError, AttributeError):
        return None


def is_target(name: str) -> bool:
    """Whether ``name`` says a target, so that as a drafter it is a sibling: a known hub id, or a folder with a whole model."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return model_type(folder) in ("llava", *FAMILIES)
    return name in {known.id for known in known_targets()}
