"""Where a target looks on the picture when it says its next token, without a change to its attention or its numbers.

A run that watches some layers keeps the states that enter them (``Target.prefill``, ``watch``). From such a state a layer's
query follows as the layer itself makes it, and its visual keys lie in the cache: nothing has to come out of the attention.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    def masses(self, at: int | None = None) -> Tensor:
        """(layers, N) float32: each layer's softmax over the valid entries, the mean of its heads; 0 at padding.

        As it looked at the text token number ``at`` of the prompt; None = at the token that predicted the root.
        """
        run = self.run
        if at is not None:
            return self._masses(run.entered[:, at : at + 1], int(run.positions[at]))[0]
        states = run.entered[:, -1] if run.cache.tip is None else run.cache.tip
        return self._masses(states[:, None], run.next_position - 1)[0]

    @torch.inference_mode()
    def along(self, path: Sequence[int]) -> Tensor:
        """(path, layers, N): ``masses`` of the nodes that were committed last."""
        return self._masses(self.run.cache.entered[:, list(path)], self.run.next_position - len(path))

    def _masses(self, states: Tensor, position: int) -> Tensor:
        """(layers, m, d) states that enter the watched layers at ``position`` and the ones behind it, to (m, layers, N)."""
        asked = self._queries(states, position).float()
        grouped = asked.unflatten(1, (self.keys.shape[1], -1))  # (layers, kv heads, heads of each, m, size)
        scores = grouped @ self.keys.float().transpose(-1, -2)[:, :, None] / asked.shape[-1] ** 0.5  # (..., m, N)
        if self.scale is not None:
            scores = scores * self.scale.transpose(-1, -2)[:, :, None]
        return scores.masked_fill(~self.valid, -torch.inf).softmax(-1).mean((1, 2)).transpose(0, 1)

    def _queries(self, states: Tensor, position: int) -> Tensor:
        """(layers, heads, m, size): what each watched layer asks at these states, turned to their positions."""
        backbone = self.run.target.backbone
        cos, sin = (part[0] for part in backbone.rotation(position, states.shape[1]))  # (m, size)
        asked = []
        for layer, state in zip(self.layers, states):
            query = _query(backbone.layers[layer], state).unflatten(-1, (-1, backbone.head_size)).transpose(0, 1)
            left, right = query.chunk(2, -1)
            asked.append(query * cos + torch.cat([-right, left], -1) * sin)
        return torch.stack(asked)

    def visual_states(self) -> Tensor:
        """(layers, N, d): what entered the watched layers at the image tokens."""
        return self.run.entered[:, self.slots]


def _query(layer: nn.Module, state: Tensor) -> Tensor:
    """(m, d) states that enter a decoder layer to (m, heads x size) the query its attention makes of it, not yet turned."""
    return layer.self_attn.q_proj(layer.input_layernorm(state))
