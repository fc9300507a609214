"""Targets of a published model's shape with random weights, made on the device; and small ones of the same kind."""

from __future__ import annotations

import torch

from fovea_core.bench.tiny import MAKERS, tokenizer_of
from fovea_core.targets.base import Target

#: Family -> (the tiny maker's name, text sizes of the 7B model, those of the small one). LLaVA-NeXT here is Vicuna's.
SHAPES = {
    "llava_next": (
        "vicuna",
        {
            "vocab_size": 32_064,
            "hidden_size": 4_096,
            "intermediate_size": 11_008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
        },
        {
            "vocab_size": 2_048,
            "hidden_size": 256,
            "intermediate_size": 688,
            "num_hidden_layers": 8,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
        },
    ),
    "qwen2_5_vl": (
        "qwen",
        {
            "vocab_size": 152_064,
            "hidden_size": 3_584,
            "intermediate_size": 18_944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
        },
        {
            "vocab_size": 4_096,
            "hidden_size": 256,
            "intermediate_size": 1_024,
            "num_hidden_layers": 7,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
        },
    ),
}
CONTEXT = 4_096
SPREAD = 0.02


def random_target(family: str, small: bool, device: torch.device, dtype: torch.dtype) -> Target:
    """A target of the family's language model at 7B or small size, with a tiny tower, since no picture goes through it."""
    name, large, little = SHAPES[family]
    tokenizer = tokenizer_of(name)
    sizes = little if small else large
    half = sizes["hidden_size"] // sizes["num_attention_heads"] // 2
    kind, config, target, processor = MAKERS[name](name, tokenizer, CONTEXT, text=sizes | _rotary(name, half))
    config._attn_implementation = "sdpa"
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(dtype)
        with torch.device(device):
            model = kind(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, SPREAD)
    return target(model, tokenizer, processor, id=f"random-{family}")


def _rotary(name: str, half: int) -> dict:
    """Qwen2.5-VL shares the halves of a head out to time, height and width: 16, 24 and 24 of 64."""
    if name != "qwen":
        return {}
    share = half * 3 // 8
    return {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1_000_000.0,
            "mrope_section": [half - 2 * share, share, share],
        }
    }
