"""Published checkpoints by family, loaded from a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from fovea_core.fingerprint import fingerprint
from fovea_core.targets.hub import HubTarget
from fovea_core.targets.llava_next import LlavaNextTarget
from fovea_core.targets.loading import load_model, unreadable
from fovea_core.targets.outside import load_check
from fovea_core.targets.probe import probe
from fovea_core.targets.qwen2_5_vl import Qwen25VLTarget
from fovea_core.targets.smolvlm import Idefics3Target, SmolVLMTarget

CLASSES: dict[str, type[HubTarget]] = {
    "llava_next": LlavaNextTarget,
    "qwen2_5_vl": Qwen25VLTarget,
    "smolvlm": SmolVLMTarget,
    "idefics3": Idefics3Target,
}


def load_hub(
    folder: Path,
    family: str,
    device: str | torch.device = "cpu",
    id: str = "",
    dtype: torch.dtype | str = torch.float32,
    step: Callable[[str], None] = lambda text: None,
) -> HubTarget:
    """Load a checkpoint as the hub stores it. Raises TargetError that names what is wrong with it.

    Image processor and tokenizer are loaded themselves: the families' processor classes ask for video parts. The processor is
    the PIL one wherever it runs, so that a picture gives the same numbers on every machine. Code in the folder is never run,
    and weights come from safetensors only: the fingerprint asks for them first.
    """
    kind, device = CLASSES[family], torch.device(device)
    step("reading configs and tokenizer")
    try:
        mark = fingerprint(folder)
        tokenizer = _tokenizer(folder)
        processor = kind.processor_class.from_pretrained(folder, local_files_only=True)
        template = _template(folder)
    except Exception as error:  # files of strangers: the libraries raise whatever they like
        raise unreadable(folder, error) from error
    model = load_model(kind.model_class, folder, device, dtype, step)
    try:
        target = kind(model, tokenizer, processor, id, mark, template)
    except (AttributeError, KeyError) as error:
        raise unreadable(folder, error) from error
    step("checking that it can check a draft tree")
    probe(target)
    target.check = load_check(folder, mark, target.hidden_size)
    return target


def _tokenizer(folder: Path):
    """What the folder's tokenizer.json says, as it is: a class that a config names may build another one of its parts, which
    splits digits and spaces otherwise."""
    if (folder / "tokenizer.json").is_file():
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _template(folder: Path) -> str | None:
    """The processor's chat template, which older checkpoints keep in a file of its own; None = the tokenizer's."""
    modern, legacy = folder / "chat_template.jinja", folder / "chat_template.json"
    if modern.is_file():
        return modern.read_text("utf-8")
    return str(json.loads(legacy.read_text("utf-8"))["chat_template"]) if legacy.is_file() else None
