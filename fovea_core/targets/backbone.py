"""A target's language model as decoding calls it: its modules without their wrapper, and what is kept of the states inside."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fovea_core.targets.cache import SlotCache, run_layers
from fovea_core.targets.errors import TargetError


class Backbone:
    """A language model's own modules, called without its wrapper: embedding, decoder layers, final norm, head, rotation table.

    Attributes: ``embedding`` (V, d), ``head`` (V, d), ``norm`` (module), ``context`` (positions), ``layers``, ``taps``,
    ``kept``.
    Where the checkpoint has a sliding window, the context ends with it, so that the window never slides.
    """

    taps: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()

    def __init__(self, language_model: nn.Module, head: nn.Linear) -> None:
        config = language_model.config
        if config.rope_parameters["rope_type"] in ("dynamic", "longrope"):
            raise TargetError(f"rotary positions of type {config.rope_parameters['rope_type']} are not supported.")
        self.layers, self.norm, self.lm_head = language_model.layers, language_model.norm, head
        self.embedding, self.head = language_model.embed_tokens.weight, head.weight
        self.language_model, self.hidden_size = language_model, config.hidden_size
        self.context = min(config.max_position_embeddings, getattr(config, "sliding_window", None) or sys.maxsize)
        self.kv_heads = config.num_key_value_heads
        self.head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        with torch.no_grad():
            positions = torch.arange(self.context, device=self.embedding.device)[None]
            self._rope = tuple(t.detach() for t in language_model.rotary_emb(self.embedding, positions))  # 2 x (1, C, size)

    @property
    def attention(self) -> str:
        """Name of the attention in use: sdpa, eager."""
        return self.language_model.config._attn_implementation

    @attention.setter
    def attention(self, name: str) -> None:
        self.language_model.set_attn_implementation(name)

    def new_cache(self, slots: int) -> SlotCache:
        """An empty cache for one run."""
        return SlotCache(len(self.layers), self.kv_heads, self.head_size, slots, self.embedding.dtype, self.embedding.device)

    def rotation(self, position: int, count: int = 1) -> tuple[Tensor, Tensor]:
        """Cosine and sine of ``count`` text tokens from ``position`` on, each (1, count, size)."""
        cos, sin = self._rope
        return cos[:, position : position + count], sin[:, position : position + count]

    @torch.inference_mode()
    def forward(
        self,
        embedded: Tensor,
        positions: Tensor | slice,
        mask: Tensor | None,
        cache: SlotCache,
        kept: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """(n, d) embedded tokens at ``positions`` to (n, (1 + taps) d) states; their keys wait in ``cache``.

        positions: a slice, (n,) or (3, n), one row an axis. Without a mask the tokens are one alone or a prompt, read causally.
        Where ``kept`` is given, the (n, d) states that enter the kept layers are put there.
        """
        if isinstance(positions, Tensor) and positions.dim() == 2:
            rope = self.language_model.rotary_emb(embedded, positions[:, None])
        else:
            rope = tuple(table[:, positions] for table in self._rope)
        if mask is None and embedded.shape[0] > 1 and self.attention != "sdpa":  # the others take no mask for 'see everything'
            lowest = torch.finfo(embedded.dtype).min
            mask = embedded.new_full((embedded.shape[0],) * 2, lowest).triu_(1)[None, None]
        wanted = tuple(sorted({*self.taps, *cache.watched, *(() if kept is None else self.kept)}))
        states, entered = run_layers(self.layers, embedded[None], rope, mask, cache, wanted)
        if cache.watched:
            cache.entered = torch.cat([entered[wanted.index(layer)] for layer in cache.watched])  # (layers, n, d)
        if kept is not None:
            kept.update((layer, entered[wanted.index(layer)][0]) for layer in self.kept)
        return join_taps(self.norm(states), [entered[wanted.index(layer)] for layer in self.taps])[0]


def join_taps(last: Tensor, tapped: Sequence[Tensor]) -> Tensor:
    """(..., d) states after the final norm and of each tapped layer, the latter to a mean square of 1: (..., (1 + taps) d)."""
    return torch.cat([last, *(F.rms_norm(states, states.shape[-1:]) for states in tapped)], -1) if tapped else last


def seen_at(states: Tensor) -> Tensor:
    """(..., d) states that enter a layer as a memory is made of them: to a mean square of 1, which half precision holds."""
    return F.rms_norm(states, states.shape[-1:])
