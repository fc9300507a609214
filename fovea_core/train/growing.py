"""A finished target grows: more layers in its language model, at first without effect, and only they learn.

What the old layers can do stays what it is while the new ones learn something else, and the picture's features, which a
drafter's memory is made of, stay bit for bit. (Adding blocks whose outputs are zero is how a network is deepened without
changing its function: Chen et al., Net2Net, 2016; Wu et al., LLaMA Pro, 2024.)
"""

from __future__ import annotations

import torch
from transformers import LlavaForConditionalGeneration


def grown_layers(before: int, after: int) -> list[int]:
    """Which of ``after`` layers are new where a target of ``before`` grows: evenly spread, the first among them.

    Raises ValueError where ``after`` is not larger than ``before``, or more than twice as large.
    """
    if not before < after <= 2 * before:
        raise ValueError(f"a target of {before} layers can grow to {before + 1} to {2 * before} layers, not to {after}.")
    new = after - before
    return [round(i * before / new) + i for i in range(new)]


@torch.no_grad()
def grow(model: LlavaForConditionalGeneration, grown: LlavaForConditionalGeneration) -> None:
    """Fill ``grown``, the same target with more layers, so that it computes what ``model`` does: a new layer is a copy of the
    one behind it whose outputs are zero."""
    old = model.model.language_model.layers
    new = grown_layers(len(old), len(grown.model.language_model.layers))
    state = {name: value for name, value in model.state_dict().items() if ".language_model.layers." not in name}
    grown.load_state_dict(state, strict=False)
    source = 0
    for number, layer in enumerate(grown.model.language_model.layers):
        layer.load_state_dict(old[source].state_dict())
        if number in new:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        else:
            source += 1


def learn_only(model: LlavaForConditionalGeneration, layers: list[int]) -> None:
    """Keep everything of ``model`` as it is but the language model's ``layers``."""
    model.requires_grad_(False)
    for number in layers:
        model.model.language_model.layers[number].requires_grad_(True)
