"""A target's own modules run over many rows at once, with what the artifacts need beside its tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from fovea_core.targets.backbone import join_taps
from fovea_core.targets.llava import LlavaTarget
from fovea_core.targets.looking import look_layers


class BatchCache:
    """Keys and values of a batch: per layer (rows, kv_heads, slots, head_dim); ``used`` slots are filled."""

    def __init__(self, layers: int) -> None:
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.used = 0

    def update(self, keys: Tensor, values: Tensor, layer: int, *_, **__) -> tuple[Tensor, Tensor]:
        """Called by a decoder layer of transformers 5.24: store behind the used slots, return all of them."""
        end = self.used + keys.shape[2]
        if self.keys[layer] is None:
            self.keys[layer], self.values[layer] = keys, values
        else:
            self.keys[layer][:, :, self.used : end] = keys
            self.values[layer][:, :, self.used : end] = values
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def place(self, other: BatchCache, sources: list[int], rows: list[int], count: int, start: int, slots: int) -> None:
        """Take the rows ``sources`` of ``other`` as rows ``rows`` of ``count``, which have room for ``slots`` tokens.

        Of its slots up to ``start`` those that ``other`` does not fill hold 0: a mask multiplies them by 0, and 0 times what
        memory happens to hold may be no number.
        """
        for mine, theirs in ((self.keys, other.keys), (self.values, other.values)):
            for layer, given in enumerate(theirs):
                if mine[layer] is None:
                    mine[layer] = given.new_empty(count, given.shape[1], slots, given.shape[3])
                mine[layer][rows, :, : other.used] = given[sources]
                mine[layer][rows, :, other.used : start] = 0
        self.used = start

    def keep(self, index: Tensor) -> None:
        """Keep the rows ``index``."""
        for store in (self.keys, self.values):
            for layer, old in enumerate(store):
                store[layer] = torch.empty_like(old[: index.shape[0]])
                store[layer][:, :, : self.used] = old[:, :, : self.used].index_select(0, index)


class BatchTarget:
    """A target (targets.base.Target) of whatever family, its language model run over a batch.

    ``views``: what rivals are given is noted, too (train.views). Raises ValueError where a target's picture is no single grid.
    """

    def __init__(self, target, views: bool = False) -> None:
        if views and not isinstance(target, LlavaTarget):
            raise ValueError(f"Views are made of a LLaVA with one grid of cells only, and {target.id} is none.")
        self.target, backbone = target, target.backbone
        self.lm, self.taps, self.layers = backbone.language_model, backbone.taps, backbone.layers
        self.device, self.dtype = target.device, target.embedding.dtype
        self.eos = torch.tensor(sorted(target.eos_ids), device=target.device)
        self.image_token_id = target.image_token_id
        self.watched = look_layers(len(self.layers)) if views else ()
        self.aimed = target.image.look_head if views else None
        self.kept = backbone.kept
        self.entered: dict[int, Tensor] = {}  # of the last forward: states (rows, n, d) that entered the layers below
        # States 1 .. max(1, floor(0.4 L) - 2); state i is the input of layer i.
        self.candidates = range(1, max(1, int(0.4 * len(self.layers)) - 2) + 1)

    def say(self, hidden: Tensor) -> Tensor:
        """(..., d or more) states to (...) likeliest tokens."""
        return self.target.backbone.lm_head(hidden[..., : self.target.hidden_size]).argmax(-1)

    def embed(self, ids: Tensor) -> Tensor:
        """(...) token ids to (..., d)."""
        return self.lm.embed_tokens(ids)

    def forward(
        self, x: Tensor, positions: Tensor, mask: Tensor | None, cache: BatchCache, mid: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(rows, n, d) embedded tokens to states as in Backbone.forward, taps behind them; fills the cache.

        positions: (rows, n), or (3, rows, n) where image tokens lie on three axes. mask: additive (rows, 1, n, slots) or None
        for causal into an empty cache. ``mid``: also h~^T (rows, n, d), the candidate state whose layer's attention has the
        least entropy (averaged over heads), chosen per token; text tokens only.
        """
        rope = self.lm.rotary_emb(x, positions)
        if mask is None and self.target.backbone.attention != "sdpa":  # the others take no mask for 'see everything'
            mask = x.new_full((x.shape[1],) * 2, torch.finfo(x.dtype).min).triu_(1)[None, None]
        best = least = None
        tapped, self.entered = [], {}
        noted = {*self.watched, *self.kept, *(self.aimed or ())[:1]}
        for number, layer in enumerate(self.layers):
            entering = x
            if number in self.taps:
                tapped.append(x)
            if number in noted:
                self.entered[number] = x
            x = layer(x, attention_mask=mask, cache=cache, position_embeddings=rope)
            if mid and number in self.candidates:
                entropy = self._entropy(layer, entering, rope, mask, cache.keys[number][:, :, : cache.used + x.shape[1]])
                if best is None:
                    best, least = entering, entropy
                else:
                    best = torch.where((entropy < least)[..., None], entering, best)
                    least = torch.minimum(entropy, least)
        cache.used += x.shape[1]
        return join_taps(self.lm.norm(x), tapped), best

    def _entropy(self, layer, entering: Tensor, rope, mask: Tensor | None, keys: Tensor) -> Tensor:
        """(rows, n): attention entropy of n queries per row, averaged over heads, recomputed from q and the cached keys."""
        scores = _scores(layer, entering, rope, keys)
        if mask is not None:
            scores = scores + mask[:, :, None]
        p = torch.softmax(scores, -1)
        return -torch.special.xlogy(p, p).sum(-1).mean((1, 2))

    def masses(self, cache: BatchCache, positions: Tensor, slots: Tensor, valid: Tensor) -> Tensor:
        """(rows, n, watched, N): where the watched layers looked in the last forward, whose (rows, n) ``positions`` these are:
        each layer's softmax over the valid (rows, N) image tokens in the ``slots`` (N,), the mean of its heads."""
        return torch.stack([self._looks(number, cache, positions, slots, valid).mean(1) for number in self.watched], 2)

    def aims(self, cache: BatchCache, positions: Tensor, slots: Tensor, valid: Tensor) -> Tensor:
        """(rows, n, N): as ``masses``, of the one head that was taught to look at what the next token states."""
        layer, head = self.aimed
        return self._looks(layer, cache, positions, slots, valid)[:, head]

    def _looks(self, layer: int, cache: BatchCache, positions: Tensor, slots: Tensor, valid: Tensor) -> Tensor:
        """(rows, heads, n, N): one layer's softmax over the valid image tokens."""
        entering = self.entered[layer]
        scores = _scores(self.layers[layer], entering, self.lm.rotary_emb(entering, positions), cache.keys[layer][:, :, slots])
        return scores.masked_fill(~valid[:, None, None, None], -torch.inf).softmax(-1).flatten(1, 2)


def _scores(layer, entering: Tensor, rope, keys: Tensor) -> Tensor:
    """(rows, kv_heads, group, n, slots): what a layer's attention asks at (rows, n, d) states over cached keys."""
    attention = layer.self_attn
    q = attention.q_proj(layer.input_layernorm(entering)).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
    q = apply_rotary_pos_emb(q, q, *rope)[0]  # (rows, heads, n, head_dim)
    grouped = q.unflatten(1, (keys.shape[1], -1))  # (rows, kv_heads, group, n, head_dim)
    return (grouped @ keys[:, :, None].transpose(3, 4)).float() * attention.scaling
