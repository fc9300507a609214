"""From a name to a loaded target: ``builtin``, a folder, or a hub id of assets/targets.json; no other is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from fovea_core.settings import SettingsError
from fovea_core.targets.base import Target, TargetError
from fovea_core.targets.shelf import (
    BUILTIN,
    DRAFTER,
    DTYPES,
    FAMILIES,
    HUB_ID,
    cache_place,
    folder_of,
    free_bytes,
    gigabytes,
    known_targets,
    model_type,
    need,
)

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
    name: str,
    device: str | torch.device = "cpu",
    dtype: str = "auto",
    local: bool = False,
    step: Step = unheard,
    role: str = "target",
) -> Target:
    """Load, check and return a target. Raises TargetError with one sentence that says what to do.

    dtype: of its weights, see pick_dtype. ``local``: only what is on this machine, under whatever id; else an id has to be on
    the list of known targets, and is fetched where need be. ``role``: what a sentence about it calls it.
    """
    where = {"device": device, "dtype": pick_dtype(name=dtype, device=device), "step": step}
    if name == "builtin":
        if not (BUILTIN / "config.json").is_file():
            raise TargetError("The built-in target is not in assets/builtin/target: fetch the whole repository, or train one.")
        from fovea_core.targets.llava import load_llava

        return load_llava(BUILTIN, id="builtin", **where)
    folder, id = Path(name).expanduser(), None
    if not folder.is_dir():
        id = name
        if local:
            folder = folder_of(name)
        elif name in {known.id for known in known_targets()}:
            step("fetching what is not on this machine")
            folder = fetch(name)
        else:
            raise TargetError(
                f"There is no folder {str(folder.absolute())[:160]!r}: use builtin, a folder, or an id that "
                "`fovea_core targets` lists."
            )
    check_room(folder, str(device), dtype, role)
    return load_folder(folder, id=id, **where)


def check_room(folder: Path, device: str, dtype: str, role: str = "target") -> None:
    """Raise TargetError where the weights alone are more than is free there. A model is not spread over several GPUs; on a CPU
    one that is too large does not end in an error but in the end of the process."""
    kind = torch.device(device).type
    try:
        wanted = need(folder, kind, dtype)
    except TargetError:
        return  # loading says what is wrong with it
    free = free_bytes(device)
    if wanted.weights <= free:
        return
    takes = f"The {role} takes {wanted.sentence}"
    if kind == "cuda":
        raise TargetError(
            f"{takes}, and {device} has {gigabytes(free)} free. A model is not spread over several GPUs here: choose a smaller "
            "one, a GPU with more memory, or --device cpu."
        )
    smaller = "" if dtype != "auto" else ", or --dtype bfloat16"
    raise TargetError(f"{takes}, and {gigabytes(free)} are free here: choose a smaller one{smaller}.")


def fetch(name: str) -> Path:
    """The folder of a known target in the hub's cache, fetched if need be and if HF_HUB_OFFLINE allows. Raises TargetError."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES), ignore_patterns=["onnx/*"]))
    except Exception as error:  # network, rights, disk: the library has an own kind for each
        raise _not_fetched("The target", name, error) from error


def fetch_drafter(name: str, fingerprint: str) -> Path:
    """The folder of a trained drafter in the hub's cache, fetched if need be and if HF_HUB_OFFLINE allows: anybody's, since it
    is numbers and one JSON text. Its config comes first: where that is for another target than the one of ``fingerprint``, no
    weights follow, and loading says whose it is. Raises TargetError."""
    from huggingface_hub import hf_hub_download, snapshot_download

    try:
        config = Path(hf_hub_download(name, DRAFTER))
        if fingerprint not in config.read_text("utf-8"):
            return config.parent
        return Path(snapshot_download(name, allow_patterns=[DRAFTER, "drafter*.safetensors", "README.md"]))
    except Exception as error:
        raise _not_fetched(f"There is no folder {name} here, and the drafter", name, error) from error


def _not_fetched(what: str, name: str, error: Exception) -> TargetError:
    from huggingface_hub import constants

    why = "HF_HUB_OFFLINE forbids to fetch it" if constants.HF_HUB_OFFLINE else " ".join(str(error).split())[:200]
    return TargetError(f"{what} {name} is not complete in {cache_place(name)}, and {why}.")


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
