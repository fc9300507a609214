"""Published drafter heads of EAGLE's kind as drafters of this project's kind: a body, its memory still to be trained.

EAGLE (arXiv 2401.15077, EAGLE-2: 2406.16858), MSD (2505.14260) and ViSpec (2509.15235) share one body, read from their public
code: fc with a bias over [embedding; state], decoder layers of which the first has no norm before its attention, and the last
layer's output goes to the target's head, and into the next fc, as it is. They differ in how the picture comes in: MSD puts
image tokens into the head's context (without weights for it), ViSpec adds a compressor. Neither has a place here, where a
drafter sees the picture by its memory alone: ViSpec's picture weights are left out, and neither head sees what it was trained
to see.
"""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fovea_core.drafter.checkpoint import DrafterError
from fovea_core.drafter.model import Drafter, DrafterConfig

#: Weights of a format that a body has no place for; the embedding is the target's own everywhere.
LEFT_OUT = {"eagle": (), "msd": (), "vispec": ("imadpt.", "img_fc.")}
EMBEDDING = "embed_tokens.weight"
#: What only EAGLE-3's heads have: a vocabulary and a layer of another kind.
EAGLE_3 = ("d2t", "t2d", "midlayer.")
#: Levels and bounds of the memory that will be trained: the paper's.
DEPTH_ROWS, K_MIN, K_MAX = 7, 32, 256
#: What provenance says of a memory that nobody trained.
UNTRAINED = "not trained"
_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
_LICENCE = re.compile(r"^licen[cs]e:\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Origin:
    """Where a head comes from: its format, source and licence, kept in what is written."""

    format: str
    source: str
    licence: str


def licence_of(folder: Path) -> str:
    """The licence that a model card's front matter names; empty where there is none."""
    card = folder / "README.md"
    found = _LICENCE.search(card.read_text("utf-8", "replace")[:4_000]) if card.is_file() else None
    return found[1] if found else ""


def read_published(folder: Path, origin: Origin, target_id: str, target_fingerprint: str) -> tuple[Drafter, list[str]]:
    """The drafter of a published head's folder (config.json and weights), and the names of weights that were left out.

    Raises DrafterError that names what is wrong: another format, a missing, unknown or misshaped tensor.
    """
    if origin.format not in LEFT_OUT:
        raise DrafterError(f"There is no format {origin.format[:40]!r}: {', '.join(LEFT_OUT)} are known.")
    tensors = _weights(folder)
    if any(name.startswith(EAGLE_3) for name in tensors):
        raise DrafterError(
            f"The head in {folder.name} is one of EAGLE-3, which has a vocabulary of its own: it cannot be used here."
        )
    skipped = sorted(name for name in tensors if name == EMBEDDING or name.startswith(LEFT_OUT[origin.format]))
    tensors = {name: tensor for name, tensor in tensors.items() if name not in skipped}
    config = _config(folder, tensors, origin, target_id, target_fingerprint)
    torch.manual_seed(0)  # of the memory, whose correction is zero until it is trained
    drafter = Drafter(config)
    _fill(drafter, tensors, folder)
    return drafter, skipped


def _weights(folder: Path) -> dict[str, Tensor]:
    """All tensors in float32, names without a wrapper's prefix."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise DrafterError(f"The folder {folder.name} holds no weights: neither *.safetensors nor pytorch_model*.bin.")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            if file.suffix == ".bin":
                tensors |= torch.load(file, map_location="cpu", weights_only=True)
            else:
                tensors |= load_file(file)
        except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, TypeError, OSError) as error:
            said = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise DrafterError(f"The head in {folder.name} cannot be read: {file.name}, {said}.") from None
    wrong = [name for name, tensor in tensors.items() if not isinstance(tensor, Tensor)]
    if wrong:
        raise DrafterError(f"The head in {folder.name} is damaged: {wrong[0]} is no tensor.")
    return {name.removeprefix("model.").removeprefix("ea_layer."): tensor.float() for name, tensor in tensors.items()}


def _config(folder: Path, tensors: dict[str, Tensor], origin: Origin, target_id: str, target_fingerprint: str) -> DrafterConfig:
    try:
        own = json.loads((folder / "config.json").read_text("utf-8"))
        own = own.get("text_config") or own
        size, heads = int(own["hidden_size"]), int(own["num_attention_heads"])
        layers = {int(found[1]) for name in tensors if (found := _LAYER.match(name))}
        if layers != set(range(len(layers))) or not layers:
            raise DrafterError(f"The head in {folder.name} is damaged: its layers are {sorted(layers)}.")
        return DrafterConfig(
            hidden_size=size,
            vocab_size=own["vocab_size"],
            heads=heads,
            kv_heads=own.get("num_key_value_heads") or heads,
            head_dim=own.get("head_dim") or size // heads,
            intermediate_size=own["intermediate_size"],
            blocks=len(layers),
            rms_eps=own.get("rms_norm_eps", 1e-6),
            rope_theta=own.get("rope_theta") or (own.get("rope_parameters") or {}).get("rope_theta") or 10_000.0,
            first_norm="layers.0.input_layernorm.weight" in tensors,
            last_norm=False,
            fc_bias="fc.bias" in tensors,
            qkv_bias="layers.0.self_attn.q_proj.bias" in tensors,
            k_min=K_MIN,
            k_max=K_MAX,
            depth_limit=DEPTH_ROWS - 2,
            depth_rows=DEPTH_ROWS,
            target_id=target_id,
            target_fingerprint=target_fingerprint,
            provenance={
                "imported_format": origin.format,
                "source": origin.source,
                "licence": origin.licence,
                "memory": UNTRAINED,
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        if isinstance(error, DrafterError):
            raise
        said = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise DrafterError(f"The config.json in {folder.name} does not describe a head: {said}.") from None


#: Our name of a block's part and the names, side by side in one matrix, that the heads give it.
_PARTS = {
    "qkv": tuple(f"self_attn.{part}_proj" for part in "qkv"),
    "out": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
    "input_norm": ("input_layernorm",),
    "post_norm": ("post_attention_layernorm",),
}


def names_of(name: str) -> tuple[str, ...]:
    """The published names whose tensors, stacked, are our tensor ``name`` of a body."""
    parts = name.split(".")
    if parts[0] != "blocks":
        return (name,)
    return tuple(f"layers.{parts[1]}.{part}.{parts[3]}" for part in _PARTS[parts[2]])


def _fill(drafter: Drafter, tensors: dict[str, Tensor], folder: Path) -> None:
    """Put the published tensors into the body; all of them, and every one that the body asks for."""
    left = dict(tensors)
    for name, ours in drafter.state_dict().items():
        if name.startswith(("memory.", "correction.")):
            continue
        wanted = names_of(name)
        missing = [one for one in wanted if one not in left]
        if missing:
            raise DrafterError(f"The head in {folder.name} is damaged: tensor {missing[0]} is missing.")
        theirs = torch.cat([left.pop(one) for one in wanted])
        if theirs.shape != ours.shape:
            raise DrafterError(
                f"The head in {folder.name} is damaged: {' with '.join(wanted)} is {tuple(theirs.shape)}, "
                f"{tuple(ours.shape)} expected."
            )
        ours.copy_(theirs)
    if left:
        raise DrafterError(f"The head in {folder.name} is of another kind: tensor {min(left)} is unknown.")
