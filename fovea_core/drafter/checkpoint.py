"""A drafter on disk: ``fovea_drafter.json`` (config, the fingerprint of its target, provenance) and safetensors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.drafter.rival import RivalConfig, RivalDrafter

CONFIG_NAME, WEIGHTS_NAME = "fovea_drafter.json", "drafter.safetensors"
#: The hub takes ordinary git files only below 10 MiB.
SHARD_BYTES = 9 * 2**20


class DrafterError(ValueError):
    """One sentence for a person: why this drafter cannot be used with this target."""


def title(folder: Path) -> str:
    """What a drafter's folder is called: by its name, or by the hub id whose snapshot in the hub's cache it is."""
    kept = folder.parent.parent.name
    if folder.parent.name == "snapshots" and kept.startswith("models--"):
        return kept.removeprefix("models--").replace("--", "/", 1)
    return folder.name


def make_drafter(config: DrafterConfig) -> Drafter:
    """A drafter with untrained weights, of the kind that its config says."""
    return RivalDrafter(config) if isinstance(config, RivalConfig) else Drafter(config)


def save_drafter(folder: str | Path, drafter: Drafter, dtype: torch.dtype = torch.float16) -> Path:
    """Write config and weights (never the borrowed embedding and head) into ``folder``, shards under 10 MiB."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, torch.Tensor]] = [{}]
    filled = 0
    for name, tensor in drafter.state_dict().items():
        stored = tensor.detach().to("cpu", dtype).contiguous()
        size = stored.numel() * stored.element_size()
        if filled + size > SHARD_BYTES and shards[-1]:
            shards.append({})
            filled = 0
        shards[-1][name] = stored
        filled += size
    for old in folder.glob("drafter*.safetensors"):
        old.unlink()
    for number, shard in enumerate(shards, start=1):
        name = WEIGHTS_NAME if len(shards) == 1 else f"drafter-{number:02d}-of-{len(shards):02d}.safetensors"
        save_file(shard, folder / name)
    write_config(folder, drafter.config)
    return folder


def write_config(folder: Path, config: DrafterConfig) -> None:
    """Write the config of a drafter folder, whole or not at all."""
    unfinished = folder / (CONFIG_NAME + ".tmp")
    unfinished.write_text(config.model_dump_json(indent=2) + "\n")
    os.replace(unfinished, folder / CONFIG_NAME)


def read_config(folder: str | Path) -> DrafterConfig:
    """The config of a drafter folder: with a ``kind`` a rival's, else FOVEA's. Raises DrafterError where it is missing or not
    valid."""
    folder = Path(folder)
    try:
        values = json.loads((folder / CONFIG_NAME).read_text())
        return (RivalConfig if isinstance(values, dict) and "kind" in values else DrafterConfig).model_validate(values)
    except OSError:
        raise DrafterError(f"The folder {title(folder)} is no drafter: {CONFIG_NAME} is missing.") from None
    except (ValidationError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "it is no JSON text"}
        where = ".".join(str(part) for part in first["loc"]) or CONFIG_NAME
        raise DrafterError(f"The drafter in {title(folder)} has a wrong config: {where}, {first['msg']}.") from None


def read_drafter(folder: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Drafter:
    """Build the drafter of a folder in ``dtype``. Raises DrafterError that names a missing, unknown or misshaped tensor."""
    folder = Path(folder)
    config = read_config(folder)
    files = sorted(folder.glob("drafter*.safetensors"))
    if not files:
        raise DrafterError(f"The drafter in {title(folder)} has no weights: {WEIGHTS_NAME} is missing.")
    with torch.device("meta"):
        drafter = make_drafter(config)
    expected = {name: tuple(tensor.shape) for name, tensor in drafter.state_dict().items()}
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            with safe_open(file, "pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a dict
                    shape = tuple(opened.get_slice(name).get_shape())
                    if name not in expected:
                        raise DrafterError(f"The drafter in {title(folder)} is damaged: tensor {name} is unknown.")
                    if shape != expected[name]:
                        raise DrafterError(
                            f"The drafter in {title(folder)} is damaged: tensor {name} is {shape}, {expected[name]} expected."
                        )
                    tensors[name] = opened.get_tensor(name).to(device, dtype)
        except SafetensorError as error:
            raise DrafterError(f"The drafter in {title(folder)} cannot be read: {file.name}, {str(error)[:120]}.") from None
    for name in expected:
        if name not in tensors:
            raise DrafterError(f"The drafter in {title(folder)} is damaged: tensor {name} is missing.")
    drafter.load_state_dict(tensors, assign=True)
    return drafter.requires_grad_(False)
