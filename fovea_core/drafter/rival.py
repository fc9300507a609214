"""Drafters of other makers' kinds on FOVEA's own body: what stands in the context beside text, what is read, how items go on.

A rival differs from FOVEA by settings of its config, each of which is a small module here:
- ``context``: image tokens in front of the text ('image', all or a share of them), or two vectors that a learned query each
  makes of them ('vectors', with a third one fused into every text item);
- ``source``: what its states read by cross-attention once the last block is through: the target's states at the committed
  text ('states'), pooled states of the target at the picture ('cells'), or a few image tokens that a router of its own
  ('routed') or the target's look ('watched') chooses once a round;
- ``parallel``: all drafted positions in one pass, on learned items instead of tokens.
Unlike FOVEA's correction, what was read goes on to the children. Training and decoding call the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from fovea_core.drafter.model import Drafter, DrafterConfig, Norm

#: Which rival is which settings of a RivalConfig; EAGLE-3 has none, only layers of the target fused beside its last one.
KINDS: dict[str, dict] = {
    "eagle3": {},
    "prefix": {"context": "image"},
    "compressed": {"context": "vectors"},
    "dream": {"context": "image", "kept": 0.75, "source": "states"},
    "hawk": {"source": "cells"},
    "tiger": {"source": "routed"},
    "unilaspec": {"source": "watched", "gated": True, "parallel": True},
}
#: Those that fuse such layers.
FUSING = ("eagle3", "dream")
#: Vectors that stand in the context where it is compressed; a further one is fused into each text item.
VECTORS = 2
#: Image tokens that are noted of each look of the target.
LOOKED = 8
#: Where an untrained gate of a reader stands, as FOVEA's.
GATE_BIAS = -1.0


class RivalConfig(DrafterConfig):
    """A DrafterConfig without FOVEA's memory and with the settings of the module's docstring.

    ``kind``: which rival it imitates; ``kept``: share of the image tokens in its context, those on which the target looked most
    at the end of the prompt; ``entries``: how many a router or the target's look chooses; ``layers``: layers of the target
    that are mixed into cells; ``gated``: a gate for each state's read.
    """

    kind: Annotated[str, Field(pattern=r"[a-z0-9]+(-[a-z0-9]+)*", max_length=40)]
    sighted: Literal[False] = False
    context: Literal["text", "image", "vectors"] = "text"
    kept: Annotated[float, Field(gt=0, le=1)] = 1.0
    source: Literal["none", "states", "cells", "routed", "watched"] = "none"
    entries: Annotated[int, Field(ge=1, le=LOOKED)] = LOOKED
    layers: Annotated[int, Field(ge=0, le=64)] = 0
    gated: bool = False
    parallel: bool = False

    @model_validator(mode="after")
    def _has_layers(self) -> RivalConfig:
        if (self.source == "cells") != (self.layers > 0):
            raise ValueError("layers are mixed for cells, and only for them")
        return self

    @property
    def watches(self) -> bool:
        """Whether it asks where the target looks, or for its states at the picture."""
        return self.source in ("cells", "watched") or (self.context == "image" and self.kept < 1)


@dataclass(frozen=True)
class View:
    """What rivals may be given of B pictures with N image tokens each; None for what nobody asks.

    features (B, N, d), valid (B, N) bool; at (B, N) int64: position ids of the image tokens; attended (B, N): where the target
    looked at the end of the prompt; cells (B, layers, C, d), present (B, C) bool: its states at the picture, pooled, in some
    layers; looked (B, A, entries) int64: image tokens on which it looked when it predicted each base's token; aimed, the same,
    where a read is to fall (train.views), -1 for none;
    states (B, T, d or more), base (B, A): the items' states and, for each base, the last item that it may know.
    """

    features: Tensor
    valid: Tensor
    at: Tensor
    attended: Tensor | None = None
    cells: Tensor | None = None
    present: Tensor | None = None
    looked: Tensor | None = None
    aimed: Tensor | None = None
    states: Tensor | None = None
    base: Tensor | None = None


@dataclass(frozen=True)
class Given:
    """A View as a rival's body takes it.

    ahead (B, P, d): items in front of the text, ahead_at (B, P) their position ids, ahead_ok (B, P) bool: False for padding;
    added (B, 1, d): fused into every text item; keys, values (B, heads, L, head_dim): what is read, bias (B, 1 or A, L) added
    to the scores, -inf where something may not be read; asked (B, N, d): keys of the router.
    """

    ahead: Tensor | None = None
    ahead_at: Tensor | None = None
    ahead_ok: Tensor | None = None
    added: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    bias: Tensor | None = None
    asked: Tensor | None = None
    valid: Tensor | None = None


class Reader(nn.Module):
    """Cross-attention: h + g W_O softmax(q k / sqrt(head_dim)) v with q of RMSNorm(h), k and v of vectors of ``width``.

    W_O starts at zero, so that an untrained reader reads nothing; g is 1, or sigmoid of one number a state.
    """

    def __init__(self, config: DrafterConfig, width: int, gated: bool) -> None:
        super().__init__()
        self.heads, self.head_dim = config.heads, config.head_dim
        inner = config.heads * config.head_dim
        self.norm, self.norm_source = Norm(config.hidden_size, config.rms_eps), nn.LayerNorm(width)
        self.query = nn.Linear(config.hidden_size, inner, bias=False)
        self.kv = nn.Linear(width, 2 * inner, bias=False)
        self.out = nn.Linear(inner, config.hidden_size, bias=False)
        self.gate = nn.Linear(config.hidden_size, 1) if gated else None
        nn.init.zeros_(self.out.weight)
        if gated:
            nn.init.zeros_(self.gate.weight)
            nn.init.constant_(self.gate.bias, GATE_BIAS)

    def remember(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(B, L, width) vectors to keys and values, each (B, heads, L, head_dim)."""
        both = self.kv(self.norm_source(vectors)).unflatten(-1, (2 * self.heads, self.head_dim)).transpose(1, 2)
        return both.chunk(2, 1)

    def forward(self, states: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """(B, n, d) states, read; bias (B, 1 or n, L) is added to the scores."""
        normed = self.norm(states)
        q = self.query(normed).unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)  # (B, heads, n, head_dim)
        scores = q @ keys.transpose(-1, -2) * self.head_dim**-0.5
        weights = torch.softmax(scores if bias is None else scores + bias[:, None], -1)
        found = self.out((weights @ values).transpose(1, 2).flatten(-2))
        return states + (found if self.gate is None else torch.sigmoid(self.gate(normed)) * found)


class Router(nn.Module):
    """Which image tokens a round may read: softmax of W_Q RMSNorm(h_root) . W_K LN(v) / sqrt(d) over them."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.norm, self.norm_source = Norm(size, config.rms_eps), nn.LayerNorm(size)
        self.query, self.key = (nn.Linear(size, size, bias=False) for _ in range(2))

    def forward(self, roots: Tensor, asked: Tensor, valid: Tensor) -> Tensor:
        """(B, A, N) log-probabilities of (B, A, d) roots over the keys ``asked`` (B, N, d), -inf at padding."""
        scores = self.query(self.norm(roots)) @ asked.transpose(-1, -2) * asked.shape[-1] ** -0.5
        return torch.log_softmax(scores.float().masked_fill(~valid[:, None], -torch.inf), -1)


class Compressor(nn.Module):
    """VECTORS learned queries that each make one vector of all image tokens, and one more whose vector is fused into text."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm_source = nn.LayerNorm(size)
        self.asked = nn.Parameter(torch.randn(VECTORS + 1, size) * 0.02)
        self.key, self.value, self.fuse = (nn.Linear(size, size, bias=False) for _ in range(3))
        nn.init.zeros_(self.fuse.weight)

    def forward(self, features: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, d) image tokens to (B, VECTORS, d) items and the (B, 1, d) global vector as it is added to text."""
        normed = self.norm_source(features)
        scores = self.asked @ self.key(normed).transpose(-1, -2) * features.shape[-1] ** -0.5  # (B, VECTORS + 1, N)
        weights = torch.softmax(scores.masked_fill(~valid[:, None], -torch.inf), -1)
        made = weights @ self.value(normed)
        return made[:, :VECTORS], self.fuse(made[:, VECTORS:])


class RivalDrafter(Drafter):
    """FOVEA's body with a rival's context, reader and items."""

    config: RivalConfig

    def __init__(self, config: RivalConfig) -> None:
        super().__init__(config)
        size, source = config.hidden_size, config.source
        self.see = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, size, bias=False)) if config.context == "image" else None
        self.compressor = Compressor(size) if config.context == "vectors" else None
        width = size * (1 + len(config.taps)) if source == "states" else size
        self.reader = Reader(config, width, config.gated) if source != "none" else None
        self.router = Router(config) if source == "routed" else None
        self.mix = nn.Parameter(torch.zeros(config.layers)) if source == "cells" else None
        levels = config.depth_rows - 1
        self.blank = nn.Parameter(torch.randn(levels - 1, size) * 0.02) if config.parallel else None

    def given(self, view: View, share: Tensor | None = None, draws: torch.Generator | None = None) -> Given:
        """What the body takes of ``view``. share (B,): of the image tokens drawn at random by ``draws`` for the context, as in
        training; without it the config's share, by where the target looked."""
        given = Given(valid=view.valid)
        if self.see is not None:
            given = self._images(given, view, share, draws)
        if self.compressor is not None:
            ahead, added = self.compressor(view.features, view.valid)
            ok = torch.ones_like(ahead[..., 0], dtype=torch.bool)
            given = replace(given, ahead=ahead, ahead_at=view.at[:, -VECTORS:], ahead_ok=ok, added=added)
        return given if self.reader is None else self._source(given, view)

    def _images(self, given: Given, view: View, share: Tensor | None, draws: torch.Generator | None) -> Given:
        """Kept image tokens as items, in the order of the picture."""
        valid, device = view.valid, view.valid.device
        if share is not None:
            rank = torch.rand(valid.shape, generator=draws).to(device)
        elif self.config.kept < 1:
            share, rank = torch.full((valid.shape[0],), self.config.kept, device=device), view.attended.float()
        else:
            share, rank = torch.ones(valid.shape[0], device=device), valid.float()
        count = (valid.sum(-1) * share + 1e-4).long().clamp_min(1)  # (B,): at least one of each picture
        order = rank.masked_fill(~valid, -torch.inf).argsort(dim=-1, descending=True, stable=True)
        kept = torch.zeros_like(valid).scatter(-1, order, torch.arange(valid.shape[1], device=device) < count[:, None])
        widest = int(count.max())
        index = kept.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :widest]  # (B, P)
        items = self.see(view.features.gather(1, index.unsqueeze(-1).expand(-1, -1, view.features.shape[-1])))
        ok = torch.arange(widest, device=device) < count[:, None]
        return replace(given, ahead=items, ahead_at=view.at.gather(1, index), ahead_ok=ok)

    def _source(self, given: Given, view: View) -> Given:
        """Keys, values and what may be read."""
        source, bias, asked = self.config.source, None, None
        if source == "states":
            vectors = view.states[..., : self.config.hidden_size * (1 + len(self.config.taps))]
            later = torch.arange(vectors.shape[1], device=vectors.device) > view.base.unsqueeze(-1)  # (B, A, T)
            bias = torch.zeros(later.shape, device=vectors.device).masked_fill_(later, -torch.inf)
        elif source == "cells":
            vectors = (self.mix.softmax(-1)[:, None, None] * F.rms_norm(view.cells, view.cells.shape[-1:])).sum(1)
            bias = torch.zeros(view.present.shape, device=vectors.device).masked_fill_(~view.present, -torch.inf)[:, None]
        else:
            vectors = view.features
        if source == "watched":
            bias = torch.full((*view.looked.shape[:2], vectors.shape[1]), -torch.inf, device=vectors.device)
            bias = bias.scatter(-1, view.looked[..., : self.config.entries], 0.0).masked_fill_(~view.valid[:, None], -torch.inf)
        if source == "routed":
            asked = self.router.key(self.router.norm_source(vectors))
        keys, values = self.reader.remember(vectors)
        return replace(given, keys=keys, values=values, bias=bias, asked=asked)

    def settle(self, roots: Tensor, given: Given, every: bool = False, chosen: Tensor | None = None) -> Given:
        """A router's choice for the rounds of (B, A, d) roots, kept for all states of each; nothing changes without a router.

        The best ``entries`` of each, with ``every`` all of them, or the given ``chosen`` (B, A, entries) ones. Their
        log-probability is added to the reader's scores, and so the router learns.
        """
        if self.router is None:
            return given
        logp = self.router(roots, given.asked, given.valid)
        if every:
            return replace(given, bias=logp)
        if chosen is None:
            chosen = logp.topk(min(self.config.entries, logp.shape[-1]), -1).indices
        return replace(given, bias=torch.full_like(logp, -torch.inf).scatter(-1, chosen, logp.gather(-1, chosen)))

    def look(self, states: Tensor, given: Given) -> Tensor:
        """(B, n, d) outputs of the last block, with what they read."""
        return states if self.reader is None else self.reader(states, given.keys, given.values, given.bias)

    def onward(self, tokens: Tensor, states: list[Tensor]) -> Tensor:
        """See Drafter.onward; a parallel drafter's items know the root and their place only."""
        if not self.config.parallel:
            return super().onward(tokens, states)
        return F.linear(self.norm(states[0]), self.fc.weight[:, self.config.hidden_size :]) + self.blank[len(states) - 1]


def grid_cells(rows: int, columns: int, first: int = 0) -> Tensor:
    """(rows columns,) int64: number, from ``first``, of the 2 x 2 cell in which each entry of a grid lies."""
    wide = (columns + 1) // 2
    return (torch.arange(rows)[:, None] // 2 * wide + torch.arange(columns) // 2).reshape(-1) + first


def pool_cells(states: Tensor, valid: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """(..., N, d) states to their means over the valid entries of each cell, (..., C, d), and which cells have any, (..., C).

    valid (..., N) bool without the leading layers of ``states``; numbers (N,) int64 of cells, -1 for an entry in none.
    """
    count = int(numbers.max()) + 1
    member = (numbers == torch.arange(count, device=numbers.device)[:, None]) & valid.unsqueeze(-2)  # (..., C, N)
    sizes = member.sum(-1)
    weights = (member / sizes.clamp_min(1).unsqueeze(-1)).to(states.dtype)
    for _ in range(states.dim() - weights.dim()):
        weights = weights.unsqueeze(-3)
    return weights @ states, sizes > 0
