"""Where a target looks on the picture when it says its next token, without a change to its attention or its numbers.

A run that watches some layers keeps the states that enter them (``Target.prefill``, ``watch``). From such a state a layer's
query follows as the layer itself makes it, and its visual keys lie in the cache: nothing has to come out of the attention.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fovea_core.targets.base import TargetRun

#: How many layers are watched.
LAYERS = 4


def look_layers(count: int) -> tuple[int, ...]:
    """LAYERS layers of ``count``, spread evenly between the first and the last; fewer where there are fewer."""
    return tuple(sorted({min(count - 1, round(count * i / (LAYERS + 1))) for i in range(1, LAYERS + 1)}))


def quantise(keys: Tensor) -> tuple[Tensor, Tensor]:
    """(..., size) to int8 (..., size) and its scale (..., 1) float32, the largest absolute value over 127.

    A row of zeros has scale 0. Uni-LaSpec (arXiv 2611.01617) keeps its visual keys so: a scale a layer, head and token.
    """
    keys = keys.float()
    scale = keys.abs().amax(-1, keepdim=True) / 127
    return (keys / scale.clamp_min(1e-30)).round_().to(torch.int8), scale


class Looking:
    """The looks of one watching run. Its visual keys are kept as int8 from here on, unless ``exact``: then as they are.

    ``layers``: the watched ones. Raises ValueError for a run that watches none.
    """

    @torch.inference_mode()
    def __init__(self, run: TargetRun, exact: bool = False) -> None:
        if run.entered is None:
            raise ValueError("this run watches no layers: prefill it with watch")
        self.run, self.layers, self.valid = run, run.cache.watched, run.valid
        device = run.target.device
        self.slots = torch.cat([torch.arange(*span) for span in run.spans]).to(device)  # (N,) of the image tokens
        stored = run.cache.keys_at(self.layers, self.slots)
        self.keys, self.scale = (stored.float(), None) if exact else quantise(stored)

    @torch.inference_mode()
    def queries(self, at: int | None = None) -> Tensor:
        """(layers, heads, size): what each watched layer asked at the text token number ``at`` of the prompt, turned to its
        position; None = at the token that predicted the root."""
        run, backbone = self.run, self.run.target.backbone
        if at is None:
            states, position = run.entered[:, -1] if run.cache.tip is None else run.cache.tip, run.next_position - 1
        else:
            states, position = run.entered[:, at], int(run.positions[at])
        cos, sin = (part[0] for part in backbone.rotation(position))  # (1, size)
        asked = []
        for layer, state in zip(self.layers, states):
            query = _query(backbone.layers[layer], state).unflatten(-1, (-1, backbone.head_size))
            left, right = query.chunk(2, -1)
            asked.append(query * cos + torch.cat([-right, left], -1) * sin)
        return torch.stack(asked)

    @torch.inference_mode()
    def masses(self, at: int | None = None) -> Tensor:
        """(layers, N) float32: each layer's softmax over the valid entries, the mean of its heads; 0 at padding. ``at``: see
        ``queries``."""
        asked = self.queries(at).float()
        kv_heads, size = self.keys.shape[1], asked.shape[-1]
        grouped = asked.unflatten(1, (kv_heads, -1))  # (layers, kv heads, heads of each, size)
        scores = grouped @ self.keys.float().transpose(-1, -2) / size**0.5  # (layers, kv heads, heads of each, N)
        if self.scale is not None:
            scores = scores * self.scale.transpose(-1, -2)
        return scores.masked_fill(~self.valid, -torch.inf).softmax(-1).mean((1, 2))

    def visual_states(self) -> Tensor:
        """(layers, N, d): what entered the watched layers at the image tokens."""
        return self.run.entered[:, self.slots]


def _query(layer: nn.Module, state: Tensor) -> Tensor:
    """(d,) a state that enters a decoder layer to (heads x size) the query its attention makes of it, not yet turned."""
    return layer.self_attn.q_proj(layer.input_layernorm(state))
