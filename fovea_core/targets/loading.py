"""A checkpoint's weights from a folder, whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from transformers import PreTrainedModel

from fovea_core.targets.base import TargetError

#: Tables that old checkpoints store and every model computes itself.
COMPUTED = re.compile(r"(rotary_emb\.inv_freq|position_ids)$")


def load_model(kind: type[PreTrainedModel], folder: Path, device: torch.device) -> PreTrainedModel:
    """Load frozen weights: float32 on the CPU, as stored elsewhere. Raises TargetError that names the first wrong tensor."""
    try:
        model, report = kind.from_pretrained(
            folder,
            dtype=torch.float32 if device.type == "cpu" else "auto",
            attn_implementation="sdpa",
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except (OSError, ValueError, KeyError) as error:
        raise unreadable(folder, error) from error
    for problem, key in (
        ("is missing", "missing_keys"),
        ("is unknown", "unexpected_keys"),
        ("has the wrong shape", "mismatched_keys"),
    ):
        found = sorted(name if isinstance(name, str) else name[0] for name in report[key])
        wrong = [name for name in found if key != "unexpected_keys" or not COMPUTED.search(name)]
        if wrong:
            raise TargetError(f"The target in {folder.name} is damaged: tensor {wrong[0]} {problem}.")
    return model.to(device).eval().requires_grad_(False)


def unreadable(folder: Path, error: Exception) -> TargetError:
    """The sentence for a folder whose files cannot be read."""
    return TargetError(
        f"The target in {folder.name} cannot be read: {(str(error) or type(error).__name__).splitlines()[0][:200]}"
    )
