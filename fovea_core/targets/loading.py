"""A checkpoint's weights from a folder, whole or not at all."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers.utils.logging import set_tqdm_hook

from fovea_core.targets.base import TargetError

#: Tables that old checkpoints store and every model computes itself.
COMPUTED = re.compile(r"(rotary_emb\.inv_freq|position_ids)$")


def load_model(
    kind: type[PreTrainedModel],
    folder: Path,
    device: torch.device,
    dtype: torch.dtype | str = torch.float32,
    step: Callable[[str], None] = lambda text: None,
) -> PreTrainedModel:
    """Load frozen weights, all on one device, in ``dtype`` ("auto" = as stored). Raises TargetError that names the first wrong
    tensor. ``step`` hears what share of them is there; what it raises ends the loading.

    With ``accelerate`` installed they go straight to the device, else through this machine's memory.
    """
    straight = device.type != "cpu" and importlib.util.find_spec("accelerate") is not None
    try:
        with counted(step):
            model, report = kind.from_pretrained(
                folder,
                dtype=dtype,
                attn_implementation="sdpa",
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                device_map={"": device} if straight else None,
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


@contextmanager
def counted(step: Callable[[str], None]) -> Iterator[None]:
    """While inside, ``step`` hears how far transformers is with a model's weights, instead of its progress bar."""

    def hook(bar: Callable, arguments: tuple, named: dict) -> Iterable:
        if named.get("desc") != "Loading weights":
            return bar(*arguments, **named)
        return _counted(list(arguments[0]), step)

    before = set_tqdm_hook(hook)
    try:
        yield
    finally:
        set_tqdm_hook(before)


def _counted(tensors: list, step: Callable[[str], None]) -> Iterator:
    for number, tensor in enumerate(tensors):
        step(f"reading the weights, {100 * number // len(tensors)} %")
        yield tensor


def unreadable(folder: Path, error: Exception) -> TargetError:
    """The sentence for a folder whose files cannot be read."""
    return TargetError(
        f"The target in {folder.name} cannot be read: {(str(error) or type(error).__name__).splitlines()[0][:200]}"
    )
