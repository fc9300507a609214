"""The drafter: fc([emb(t_{i+1}); h^T_i]), Llama-style blocks, the target's frozen embedding and head, and FOVEA's memory.

Item i of the drafter stands for token t_i at the target's position id of t_i; beside the token it sees the target state
that predicted it, or on drafted tokens the parent's own RMSNorm(h), uncorrected. Its output state h_i
scores the tokens that may follow t_i. The blind twin is the same class without a memory.
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import nn

from fovea_core.memory.build import MemoryWeights, VisualMemory
from fovea_core.memory.correct import Correction, read
from fovea_core.memory.select import Bounds, Policy

Size = Annotated[int, Field(ge=1, le=10_000_000)]


class DrafterConfig(BaseModel):
    """Everything needed to build a drafter and to know whose it is.

    ``depth_limit``: deepest state that reads the memory; ``depth_rows``: rows of E_dep (levels it was trained on + 1);
    ``reach``: most levels it drafts where cost decides, beyond those of the training too: the states that were not trained
    read with the row of the deepest one that was; None: as many as it was trained on;
    ``bears_out``: how often a held-out answer bears a drafted level out, which is what is expected of a draft at first;
    ``k_min``, ``k_max``, ``rho``: bounds of a read (FOVEA eq 6); ``sighted`` False is the blind twin;
    ``first_norm``, ``last_norm``: whether a norm stands before the first block and behind the last; ``fc_bias``, ``qkv_bias``:
    biases of fc and of queries, keys and values; ours are norms and no biases, published heads differ (drafter.published).
    ``taps``: layers of the target whose entering states are fused beside its last one (EAGLE-3's way); FOVEA names none.
    ``memory_layer``: layer of the target whose entering states at the picture the memory is made of; 0, where the projector's
    output enters, is the paper's.
    ``target_fingerprint``: the only target this drafter may serve; ``provenance``: how it was trained.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Annotated[int, Field(ge=1, le=1)] = 1
    hidden_size: Size
    vocab_size: Size
    heads: Size
    kv_heads: Size
    head_dim: Annotated[int, Field(ge=2, le=1024, multiple_of=2)]
    intermediate_size: Size
    blocks: Annotated[int, Field(ge=1, le=16)] = 2
    rms_eps: Annotated[float, Field(gt=0, le=0.1)] = 1e-5
    rope_theta: Annotated[float, Field(gt=1)] = 10_000.0
    first_norm: bool = True
    last_norm: bool = True
    fc_bias: bool = False
    qkv_bias: bool = False
    sighted: bool = True
    correction_width: Size = 512
    k_min: Size = 4
    k_max: Size = 64
    rho: Annotated[float, Field(gt=0, le=1)] = 0.8
    depth_limit: Annotated[int, Field(ge=-1, le=64)] = 5
    depth_rows: Annotated[int, Field(ge=1, le=65)] = 7
    reach: Annotated[int, Field(ge=1, le=64)] | None = None
    bears_out: Annotated[float, Field(ge=0, le=1)] | None = None
    taps: Annotated[tuple[Annotated[int, Field(ge=1, le=1_000)], ...], Field(max_length=8)] = ()
    memory_layer: Annotated[int, Field(ge=0, le=1_000)] = 0
    target_id: str = ""
    target_fingerprint: str = ""
    provenance: dict[str, str | int | float | bool | None] = {}

    @model_validator(mode="after")
    def _consistent(self) -> DrafterConfig:
        if self.heads % self.kv_heads:
            raise ValueError("heads must be a multiple of kv_heads")
        if self.k_min > self.k_max:
            raise ValueError("k_min must not exceed k_max")
        if self.depth_limit >= self.depth_rows:
            raise ValueError("depth_limit must lie below depth_rows")
        if self.reach is not None and self.reach < self.depth_rows - 1:
            raise ValueError("reach must not be less than the levels of depth_rows")
        return self

    @property
    def bounds(self) -> Bounds:
        """The bounds of a read."""
        return Bounds(self.k_min, self.k_max, self.rho)


class Norm(nn.Module):
    """RMSNorm with a learned scale: x / sqrt(mean(x^2) + eps) * weight."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def rope_table(positions: torch.Tensor, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of rotary positions, Llama's order of halves: two (..., head_dim) float32 for (...) positions."""
    rates = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim)
    angles = positions.to(torch.float32).unsqueeze(-1) * rates
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Turn (..., heads, head_dim) by a rope table of (..., head_dim)."""
    cos, sin = (part.unsqueeze(-2).to(x.dtype) for part in rope)
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Block(nn.Module):
    """One decoder block of the backbone's kind, split around its attention so that each caller brings its own context."""

    def __init__(self, config: DrafterConfig, normed: bool = True) -> None:
        super().__init__()
        size, self.heads, self.kv_heads, self.head_dim = config.hidden_size, config.heads, config.kv_heads, config.head_dim
        self.input_norm = Norm(size, config.rms_eps) if normed else nn.Identity()
        self.qkv = nn.Linear(size, (config.heads + 2 * config.kv_heads) * config.head_dim, bias=config.qkv_bias)
        self.out = nn.Linear(config.heads * config.head_dim, size, bias=False)
        self.post_norm = Norm(size, config.rms_eps)
        self.gate_up = nn.Linear(size, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, size, bias=False)

    def project(self, x: torch.Tensor, rope) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(..., d) to turned queries (..., heads, head_dim), turned keys and values (..., kv_heads, head_dim)."""
        mixed = self.qkv(self.input_norm(x)).unflatten(-1, (-1, self.head_dim))
        q, k, v = mixed.split((self.heads, self.kv_heads, self.kv_heads), -2)
        return rotate(q, rope), rotate(k, rope), v

    def finish(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Add the attended context (..., heads, head_dim) and the feed-forward part to (..., d)."""
        x = x + self.out(context.flatten(-2))
        gate, up = self.gate_up(self.post_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Drafter(nn.Module):
    """Body, memory (where sighted) and the borrowed embedding and head of the target."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.fc_bias)
        self.tap = nn.Linear(len(config.taps) * config.hidden_size, config.hidden_size, bias=False) if config.taps else None
        self.blocks = nn.ModuleList(Block(config, number > 0 or config.first_norm) for number in range(config.blocks))
        self.norm = Norm(config.hidden_size, config.rms_eps) if config.last_norm else nn.Identity()
        self.memory = MemoryWeights(config.hidden_size, config.depth_rows) if config.sighted else None
        self.correction = Correction(config.hidden_size, config.correction_width) if config.sighted else None
        self.embedding: torch.Tensor | None = None
        self.head: torch.Tensor | None = None

    def attach(self, embedding: torch.Tensor, head: torch.Tensor) -> Drafter:
        """Borrow the target's embedding and head, both (V, d), frozen and never saved. Raises ValueError on another size."""
        shape = (self.config.vocab_size, self.config.hidden_size)
        for name, tensor in (("embedding", embedding), ("head", head)):
            if tuple(tensor.shape) != shape:
                raise ValueError(f"the target's {name} is {tuple(tensor.shape)}, this drafter needs {shape}.")
        like = self.fc.weight
        self.embedding = embedding.detach().to(like.device, like.dtype)
        self.head = head.detach().to(like.device, like.dtype)
        return self

    def balance(self) -> Drafter:
        """Before training: scale fc's token half so that a small embedding weighs as much as a normed state."""
        size = self.config.hidden_size
        with torch.no_grad():
            self.fc.weight[:, :size] /= self.embedding.square().mean().sqrt().clamp_min(1e-3)
        return self

    def rope(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rope tables at (...) position ids."""
        return rope_table(positions, self.config.head_dim, self.config.rope_theta)

    def fuse(self, tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """fc([emb(t); h]): (...) tokens with (..., d) states to (..., d); tapped states behind them add their own product.

        A target's states bring what it has appended to them, a drafter's own do not.
        """
        size = self.config.hidden_size
        x = self.fc(torch.cat((F.embedding(tokens, self.embedding), states[..., :size]), -1))
        return x if self.tap is None or states.shape[-1] == size else x + self.tap(states[..., size:])

    def onward(self, tokens: torch.Tensor, states: list[torch.Tensor]) -> torch.Tensor:
        """The next level's items (B, A, d): (B, A) tokens and the states of all levels before, the parents' being the last."""
        return self.fuse(tokens, self.norm(states[-1]))

    @torch.no_grad()
    def stretch(self) -> None:
        """Become a drafter of ``config.reach`` levels, where it names a reach: E_dep goes on with the row of the deepest
        state that reads, and all states read that did so up to there."""
        config = self.config
        if config.reach is None:
            return
        rows, limit = config.reach + 1, config.depth_limit
        if self.memory is not None and limit >= 0:
            row = torch.arange(rows, device=self.memory.depth.device).clamp_max(limit)
            self.memory.depth = nn.Parameter(self.memory.depth[row], requires_grad=False)
            limit = rows - 2
        self.config = config.model_copy(update={"depth_rows": rows, "depth_limit": limit, "reach": None})

    def remember(self, features: torch.Tensor, valid: torch.Tensor) -> VisualMemory | None:
        """The visual memory of (..., N, d) features (FOVEA eq 2-3), the picture as it enters ``memory_layer``; None for the
        blind twin."""
        return VisualMemory.build(features, valid, self.memory) if self.config.sighted else None

    def scoring_states(self, states, depth, memory: VisualMemory | None, policy: Policy) -> torch.Tensor:
        """FOVEA eq 9: RMSNorm(h + g c) where the state reads, RMSNorm(h) where it does not.

        states: (..., n, d) outputs of the last block; depth: number or (n,); a state deeper than the limit does not read.
        """
        if memory is None or not policy.reads:
            return self.norm(states)
        limit = min(self.config.depth_limit, self.config.depth_rows - 1)
        depth = torch.as_tensor(depth, device=states.device)
        corrected = read(states, depth.clamp_max(limit), memory, policy, self.correction)[0]
        return self.norm(torch.where((depth <= limit).unsqueeze(-1), corrected, states))

    def logits(self, scoring: torch.Tensor) -> torch.Tensor:
        """z = W_LM h^: (..., d) scoring states to (..., V) with the target's frozen head."""
        return F.linear(scoring, self.head)
