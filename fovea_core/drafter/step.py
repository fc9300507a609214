"""The drafter's forward as decoding needs it: folded weights, an own preallocated cache, few and small operations.

The same function as model.Drafter up to rounding (tests compare them), arranged for a handful of rows on a CPU, where a
level costs as many microseconds in dispatch as in arithmetic:
- every norm weight is multiplied into the matrix behind it, so that a norm is x / hypot(|x|, sqrt(d eps)), three operations;
- query and key rows are reordered so that a rotary pair is adjacent and turning is one complex product;
- embedding and fc's token half become one table; matrices are stored the way the product reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from fovea_core.drafter.model import Block, Drafter, rope_table

#: Largest embedding (elements) for which a second, folded copy of embedding and head is kept.
FOLD_LIMIT = 32_000_000


@dataclass(frozen=True)
class FoldedBlock:
    """Matrices of one block, each (in, out): norms, attention scale and rotary order folded in."""

    qkv: torch.Tensor
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def _fold_block(block: Block, root: float) -> FoldedBlock:
    half, turned = block.head_dim // 2, block.heads + block.kv_heads
    pairs = torch.arange(block.head_dim).view(2, half).t().reshape(-1)  # 0, half, 1, half + 1, ...
    rows = block.qkv.weight.unflatten(0, (-1, block.head_dim)).clone()  # (heads + 2 kv_heads, head_dim, d)
    rows[:turned] = rows[:turned, pairs]
    rows[: block.heads] *= block.head_dim**-0.5
    return FoldedBlock(
        qkv=(rows.flatten(0, 1) * (root * block.input_norm.weight)).t().contiguous(),
        out=block.out.weight.t().contiguous(),
        gate_up=(block.gate_up.weight * (root * block.post_norm.weight)).t().contiguous(),
        down=block.down.weight.t().contiguous(),
    )


class FoldedDrafter:
    """Read-only matrices of a loaded drafter; shared by all its runs."""

    @torch.no_grad()
    def __init__(self, drafter: Drafter) -> None:
        config = self.config = drafter.config
        size, root = config.hidden_size, math.sqrt(config.hidden_size)
        scale = root * drafter.norm.weight
        self.blocks = [_fold_block(block, root) for block in drafter.blocks]
        self.floor = torch.tensor(root * math.sqrt(config.rms_eps), device=scale.device)
        token_half, state_half = drafter.fc.weight[:, :size].t(), drafter.fc.weight[:, size:].t()
        self.folds_vocabulary = drafter.embedding.numel() <= FOLD_LIMIT
        self.table = drafter.embedding @ token_half if self.folds_vocabulary else drafter.embedding  # (V, d)
        self.token_half = token_half.contiguous()
        tapped = () if drafter.tap is None else (drafter.tap.weight.t(),)
        self.from_target = torch.cat((state_half, *tapped)).contiguous()  # on states after the target's norm, and its taps
        self.from_own = (scale[:, None] * state_half).contiguous()  # on unit(h) of the drafter's own h
        self.scale = scale
        self.head = (scale[:, None] * drafter.head.t()).contiguous() if self.folds_vocabulary else drafter.head.t()
        self.turns = torch.empty(0)

    def unit(self, states: torch.Tensor) -> torch.Tensor:
        """RMSNorm without its scale sqrt(d) weight, which the matrices behind it carry: (m, d) to (m, d)."""
        return states / torch.hypot(torch.linalg.vector_norm(states, dim=-1, keepdim=True), self.floor)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """W_LM RMSNorm(states) (FOVEA eq 9): (m, d) corrected or plain states before the norm to (m, V)."""
        unit = self.unit(states)
        return unit @ self.head if self.folds_vocabulary else (unit * self.scale) @ self.head

    def fuse_target(self, tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """fc([emb(t); h^T]) and the taps' product: (m,) tokens, (m, d or more) states of the target, to (m, d)."""
        return torch.addmm(self._tokens(tokens), states[:, : self.from_target.shape[0]], self.from_target)

    def fuse_own(self, tokens: torch.Tensor, units: torch.Tensor) -> torch.Tensor:
        """fc([emb(t); RMSNorm(h)]): (m,) tokens, (m or 1, d) parents' ``unit`` states, uncorrected, to (m, d)."""
        return self._tokens(tokens) + units @ self.from_own

    def _tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = self.table.index_select(0, tokens)
        return rows if self.folds_vocabulary else rows @ self.token_half

    def turn(self, positions: torch.Tensor) -> torch.Tensor:
        """Rotary factors at (m,) position ids: (m, 1, head_dim / 2) complex64."""
        return self.turns.index_select(0, positions)

    def cover(self, highest: int) -> None:
        """Make the rotary table reach position id ``highest``."""
        if self.turns.shape[0] <= highest:
            cos, sin = rope_table(torch.arange(2 * highest + 64), self.config.head_dim, self.config.rope_theta)
            half = self.config.head_dim // 2
            self.turns = torch.complex(cos[:, None, :half], sin[:, None, :half]).to(self.floor.device)


class Body:
    """The blocks of one run with their cache: a stable prefix of committed text, behind it the speculative items of a round.

    ``stable``: committed items; ``used``: items in the cache. Cache of a block: (2, kv_heads, capacity, head_dim).
    """

    def __init__(self, folded: FoldedDrafter, capacity: int = 512) -> None:
        self.folded, self.stable, self.used = folded, 0, 0
        config = folded.config
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.group, self.width = config.heads // config.kv_heads, config.intermediate_size
        like = folded.from_target
        self.caches = [like.new_zeros(2, self.kv_heads, capacity, self.head_dim) for _ in folded.blocks]

    def reserve(self, items: int) -> None:
        """Make room for ``items`` more."""
        capacity = self.caches[0].shape[2]
        if self.used + items > capacity:
            extra = max(items, capacity)
            self.caches = [F.pad(cache, (0, 0, 0, extra)) for cache in self.caches]

    def drop_speculative(self) -> None:
        """Forget everything behind the stable prefix."""
        self.used = self.stable

    def keep(self) -> None:
        """Make everything in the cache stable."""
        self.stable = self.used

    def forward(self, x: torch.Tensor, turn: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Append (m, d) fused items and run the blocks. Returns (m, d): h, the last block's output before the final norm.

        turn: (m or 1, 1, head_dim / 2) rotary factors; mask: (m, used + m) additive, None where every item sees all.
        """
        start, m = self.used, x.shape[0]
        end = self.used = start + m
        if mask is not None and self.group > 1:
            mask = mask.repeat(self.group, 1)
        for weights, cache in zip(self.folded.blocks, self.caches):
            mixed = (self.folded.unit(x) @ weights.qkv).view(m, -1, self.head_dim)
            turned = mixed[:, : self.heads + self.kv_heads].unflatten(-1, (-1, 2))
            torch.view_as_complex(turned).mul_(turn)
            stored = mixed[:, self.heads :].view(m, 2, self.kv_heads, self.head_dim)
            cache[:, :, start:end].copy_(stored.permute(1, 2, 0, 3))
            context = self._attend(mixed[:, : self.heads], cache[0, :, :end], cache[1, :, :end], mask)
            x = torch.addmm(x, context, weights.out)
            both = self.folded.unit(x) @ weights.gate_up
            x = torch.addmm(x, F.silu(both[:, : self.width]).mul_(both[:, self.width :]), weights.down)
        return x

    def _attend(self, queries, keys, values, mask) -> torch.Tensor:
        """(m, heads, head_dim) queries over (kv_heads, L, head_dim) keys and values: (m, heads head_dim)."""
        m = queries.shape[0]
        grouped = queries.view(m, self.kv_heads, self.group, self.head_dim).permute(1, 2, 0, 3)
        grouped = grouped.reshape(self.kv_heads, self.group * m, self.head_dim)
        if mask is None:
            scores = torch.bmm(grouped, keys.transpose(1, 2))
        else:
            scores = torch.baddbmm(mask, grouped, keys.transpose(1, 2))
        mixed = torch.bmm(torch.softmax(scores, -1), values)  # (kv_heads, group m, head_dim)
        return mixed.view(self.kv_heads, self.group, m, self.head_dim).permute(2, 0, 1, 3).reshape(m, -1)
