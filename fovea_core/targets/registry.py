"""From a name to a loaded target: ``builtin``, a folder, or a hub id of assets/targets.json; no other id is ever fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from fovea_core.settings import SettingsError
from fovea_core.targets.base import Target, TargetError
from fovea_core.targets.shelf import BUILTIN, DTYPES, FAMILIES, HUB_ID, folder_of, known_targets, model_type

#: What is fetched of a repository on the hub: weights, configs, tokenizer, template.
FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
#: Hears what loading does now, in a few words, often; whatever it raises ends the loading.
Step = Callable[[str], None]


def unheard(text: str) -> None:
    """A Step that nobody listens to."""


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


def pick_dtype(name: str, device: str | torch.device) -> torch.dtype | str:
    """float32, bfloat16 or float16; ``auto`` is float32 on a CPU and "auto", as stored, elsewhere. Raises SettingsError."""
    if name == "auto":
        return torch.float32 if torch.device(device).type == "cpu" else "auto"
    if name not in DTYPES:
        raise SettingsError(f"dtype {name[:40]!r} is not possible: use auto, {', '.join(DTYPES)}.")
    return getattr(torch, name)


def load_target(
    name: str, device: str | torch.device = "cpu", dtype: str = "auto", local: bool = False, step: Step = unheard
) -> Target:
    """Load, check and return a target. Raises TargetError with one sentence that says what to do.

    dtype: of its weights, see pick_dtype. ``local``: only what is on this machine, under whatever id; else an id has to be on
    the list of known targets, and is fetched where need be.
    """
    where = {"device": device, "dtype": pick_dtype(name=dtype, device=device), "step": step}
    if name == "builtin":
        if not (BUILTIN / "config.json").is_file():
            raise TargetError("The built-in target is not in assets/builtin/target: fetch the whole repository, or train one.")
        from fovea_core.targets.llava import load_llava

        return load_llava(BUILTIN, id="builtin", **where)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return load_folder(folder, **where)
    if local:
        return load_folder(folder_of(name), id=name, **where)
    if name in {known.id for known in known_targets()}:
        step("fetching what is not on this machine")
        return load_folder(fetch(name), id=name, **where)
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


def load_folder(
    folder: Path,
    device: str | torch.device = "cpu",
    id: str | None = None,
    dtype: torch.dtype | str = torch.float32,
    step: Step = unheard,
) -> Target:
    """Load a target from a folder by the model type in its config. Raises TargetError."""
    family = model_type(folder)
    where = {"device": device, "id": id or folder.name, "dtype": dtype, "step": step}
    if family is None:
        raise TargetError(f"The folder {folder.absolute()} is no target: it has no readable config.json.")
    if family == "llava":
        from fovea_core.targets.llava import load_llava

        return load_llava(folder, **where)
    if family not in FAMILIES:
        raise TargetError(f"Models of type {family[:40]} are not supported: only llava, {', '.join(FAMILIES)}.")
    from fovea_core.targets.families import load_hub

    return load_hub(folder, family, **where)


def is_target(name: str, local: bool = False) -> bool:
    """Whether ``name`` says a target, so that as a drafter it is a sibling: a known hub id, or a folder with a whole model;
    with ``local`` any hub id."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return model_type(folder) in ("llava", *FAMILIES)
    return name in {known.id for known in known_targets()} or (local and HUB_ID.fullmatch(name) is not None)
