"""transformers' own opinion on what a target answers: its whole model, its own cache and loop, nothing of ours."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel


@torch.inference_mode()
def own_answer(model: PreTrainedModel, inputs: dict[str, Tensor], eos_ids: Collection[int], count: int) -> list[int]:
    """Greedy ids of ``generate()`` behind ``inputs`` (input_ids (1, T), pixels, what else the model takes), at most ``count``.

    Of the checkpoint's generation defaults only the EOS ids are used, as in plain decoding.
    """
    before = model.generation_config
    model.generation_config = GenerationConfig(
        max_new_tokens=count, do_sample=False, eos_token_id=sorted(eos_ids) or None, pad_token_id=0
    )
    try:
        return model.generate(**inputs)[0, inputs["input_ids"].shape[1] :].tolist()
    finally:
        model.generation_config = before
