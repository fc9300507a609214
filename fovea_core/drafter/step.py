"""The drafter's forward as decoding needs it: folded weights, an own preallocated cache, few and small operations.

The same function as model.Drafter up to rounding (tests compare them), arranged for a handful of rows on a CPU, where a
level costs as many microseconds in dispatch as in arithmetic:
- matrices stand as the product of few rows reads them (thin.Matrix), in the precision they were shipped in;
- a norm is x / hypot(|x|, sqrt(d eps)) times a scale that carries sqrt(d);
- query and key rows are reordered so that a rotary pair is adjacent and turning is one complex product;
- embedding and fc's token half become one table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from fovea_core.drafter.model import Block, Drafter, Norm, rope_table
from fovea_core.thin import COPY_LIMIT, Matrix


@dataclass(frozen=True)
class FoldedBlock:
    """One block: query and key rows stand in rotary order; ``input_scale``, ``post_scale`` (d,): of its norms, None without."""

    input_scale: torch.Tensor | None
    qkv: Matrix
    out: Matrix
    post_scale: torch.Tensor
    gate_up: Matrix
    down: Matrix


def _fold_block(block: Block) -> FoldedBlock:
    half, turned = block.head_dim // 2, block.heads + block.kv_heads
    pairs = torch.arange(block.head_dim).view(2, half).t().reshape(-1)  # 0, half, 1, half + 1, ...
    rows = block.qkv.weight.unflatten(0, (-1, block.head_dim)).clone()  # (heads + 2 kv_heads, head_dim, d)
    rows[:turned] = rows[:turned, pairs]
    bias = None
    if block.qkv.bias is not None:
        bias = block.qkv.bias.unflatten(0, (-1, block.head_dim)).clone()
        bias[:turned] = bias[:turned, pairs]
        bias = bias.flatten()
    return FoldedBlock(
        input_scale=_scale(block.input_norm),
        qkv=Matrix(rows.flatten(0, 1), bias),
        out=Matrix(block.out.weight),
        post_scale=_scale(block.post_norm),
        gate_up=Matrix(block.gate_up.weight),
        down=Matrix(block.down.weight),
    )


def _scale(norm: Norm | nn.Identity) -> torch.Tensor | None:
    """(d,) the norm's weight times sqrt(d): what a unit vector is multiplied by; None for no norm."""
    return None if isinstance(norm, nn.Identity) else math.sqrt(norm.weight.shape[0]) * norm.weight


class FoldedDrafter:
    """Read-only matrices of a loaded drafter; shared by all its runs."""

    @torch.no_grad()
    def __init__(self, drafter: Drafter) -> None:
        config = self.config = drafter.config
        size = config.hidden_size
        self.scale = _scale(drafter.norm)
        self.blocks = [_fold_block(block) for block in drafter.blocks]
        like, bias = drafter.fc.weight, drafter.fc.bias
        self.floor = torch.tensor(math.sqrt(size * config.rms_eps), device=like.device, dtype=like.dtype)
        token_half, state_half = drafter.fc.weight[:, :size], drafter.fc.weight[:, size:].contiguous()
        self.folds_vocabulary = drafter.embedding.numel() <= COPY_LIMIT
        self.token_half = Matrix(token_half.contiguous(), bias)
        folded = drafter.embedding @ token_half.t() if self.folds_vocabulary else drafter.embedding  # (V, d)
        self.table = folded if bias is None or not self.folds_vocabulary else folded + bias
        self.from_own = Matrix(state_half)  # on RMSNorm(h) of the drafter's own h
        self.from_target = (  # on states after the target's norm, and its taps
            self.from_own if drafter.tap is None else Matrix(torch.cat((state_half, drafter.tap.weight), 1))
        )
        self.fused = size * (1 + len(config.taps))
        self.head = Matrix(drafter.head)
        self.turns = torch.empty(0)

    def norm(self, x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        """RMSNorm of (m, d) with a folded ``scale``; as it is without one."""
        return x if scale is None else x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self.floor) * scale

    def normed(self, states: torch.Tensor) -> torch.Tensor:
        """RMSNorm(h), the final norm where there is one: (m, d) to (m, d)."""
        return self.norm(states, self.scale)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """W_LM RMSNorm(states) (FOVEA eq 9): (m, d) corrected or plain states before the norm to (m, V)."""
        return self.head(self.normed(states))

    def fuse_target(self, tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """fc([emb(t); h^T]) and the taps' product: (m,) tokens, (m, d or more) states of the target, to (m, d)."""
        return self._tokens(tokens) + self.from_target(states[:, : self.fused])

    def fuse_own(self, tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """fc([emb(t); RMSNorm(h)]): (m,) tokens, (m or 1, d) parents' ``normed`` states, uncorrected, to (m, d)."""
        return self._tokens(tokens) + self.from_own(states)

    def _tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = self.table.index_select(0, tokens)
        return rows if self.folds_vocabulary else self.token_half(rows)

    def mixed(self, block: FoldedBlock, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values of a block's (m, d) input, the first two turned: (m, heads + 2 kv_heads, head_dim)."""
        heads = self.config.heads + self.config.kv_heads
        mixed = block.qkv(self.norm(x, block.input_scale)).view(x.shape[0], -1, self.config.head_dim)
        _turn(mixed[:, :heads].unflatten(-1, (-1, 2)), turn)
        return mixed

    def after(self, block: FoldedBlock, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """The rest of a block behind its attention's (m, heads head_dim) ``context``: (m, d)."""
        x = x + block.out(context)
        both = block.gate_up(self.norm(x, block.post_scale))
        width = self.config.intermediate_size
        return x + block.down(F.silu(both[:, :width]).mul_(both[:, width:]))

    def turn(self, positions: torch.Tensor) -> torch.Tensor:
        """Rotary factors at (m,) position ids: (m, 1, head_dim / 2) complex64."""
        return self.turns.index_select(0, positions)

    def cover(self, highest: int) -> None:
        """Make the rotary table reach position id ``highest``."""
        if self.turns.shape[0] <= highest:
            cos, sin = rope_table(torch.arange(2 * highest + 64), self.config.head_dim, self.config.rope_theta)
            half = self.config.head_dim // 2
            self.turns = torch.complex(cos[:, None, :half], sin[:, None, :half]).to(self.floor.device)


def _turn(pairs: torch.Tensor, turn: torch.Tensor) -> None:
    """Turn (m, heads, head_dim / 2, 2) adjacent pairs in place by complex factors; bfloat16 has no complex kind."""
    if pairs.dtype == torch.float32:
        torch.view_as_complex(pairs).mul_(turn)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * turn))


class Body:
    """The blocks of one run with their cache: a stable prefix of committed text, behind it the speculative items of a round.

    ``stable``: committed items; ``used``: items in the cache. Cache of a block: (2, kv_heads, capacity, head_dim).
    """

    def __init__(self, folded: FoldedDrafter, capacity: int = 512) -> None:
        self.folded, self.stable, self.used = folded, 0, 0
        config = folded.config
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.group = config.heads // config.kv_heads
        like = folded.table
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
        for number, weights in enumerate(self.folded.blocks):
            mixed = self.folded.mixed(weights, x, turn)
            x = self.folded.after(weights, x, self.context(number, mixed, start, end, mask))
        return x

    def context(self, number: int, mixed: torch.Tensor, start: int, end: int, mask: torch.Tensor | None) -> torch.Tensor:
        """(m, heads head_dim) what items start .. end attend to in block ``number``; ``mixed`` (m, heads + 2 kv_heads,
        head_dim): their turned queries and keys, and values, of which the latter two go into the cache."""
        cache = self.caches[number]
        if mask is not None and self.group > 1:
            mask = mask.repeat(self.group, 1)
        stored = mixed[:, self.heads :].view(end - start, 2, self.kv_heads, self.head_dim)
        cache[:, :, start:end].copy_(stored.permute(1, 2, 0, 3))
        return self._attend(mixed[:, : self.heads], cache[0, :, :end], cache[1, :, :end], mask)

    def _attend(self, queries, keys, values, mask) -> torch.Tensor:
        """(m, heads, head_dim) queries over (kv_heads, L, head_dim) keys and values: (m, heads head_dim)."""
        m = queries.shape[0]
        grouped = queries.view(m, self.kv_heads, self.group, self.head_dim).permute(1, 2, 0, 3)
        grouped = grouped.reshape(self.kv_heads, self.group * m, self.head_dim)
        mask, beta = (self.folded.floor, 0) if mask is None else (mask, 1)
        scores = torch.baddbmm(mask, grouped, keys.transpose(1, 2), beta=beta, alpha=self.head_dim**-0.5)
        mixed = torch.bmm(torch.softmax(scores, -1), values)  # (kv_heads, group m, head_dim)
        return mixed.view(self.kv_heads, self.group, m, self.head_dim).permute(2, 0, 1, 3).reshape(m, -1)
