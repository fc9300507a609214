"""Several runs of one target in one forward: their nodes are rows side by side in every linear layer, and only attention
pads them, each run over its own committed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from fovea_core.targets.base import Target, TargetError, TargetRun
from fovea_core.targets.cache import SeatedRows, Seats
from fovea_core.targets.mask import tree_mask

#: Name under which decoder layers find ``attend``.
SEATED = "fovea_seated"

#: tokens, parents, depths of a draft tree, as in TargetRun.forward_tree.
Tree = tuple[Tensor, Tensor, Tensor]

_NO_PARENT, _NO_DEPTH = torch.tensor([-1]), torch.tensor([0])


@dataclass(frozen=True)
class Seating:
    """A forward's mask (seats, 1, n, longest) for n nodes a seat at most, and where each of its N rows stands among the
    seats * n places, (N,); None where all places are filled."""

    mask: Tensor
    place: Tensor | None


def attend(module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Seating, **options) -> tuple[Tensor, None]:
    """Attention of (1, heads, N, size) rows to (seats, kv heads, longest, size) keys: (1, N, heads, size).

    The mask's rows that belong to no node see nothing; what comes out of them is dropped.
    """
    seating, rows = attention_mask, query[0].transpose(0, 1)  # (N, heads, size)
    seats, _, count, _ = seating.mask.shape
    if seating.place is not None:
        rows = rows.new_zeros(seats * count, *rows.shape[1:]).index_copy_(0, seating.place, rows)
    padded = rows.reshape(seats, count, *rows.shape[1:]).transpose(1, 2)  # (seats, heads, n, size)
    out = ALL_ATTENTION_FUNCTIONS["sdpa"](module, padded, key, value, seating.mask, **options)[0]
    out = out.reshape(1, seats * count, *out.shape[2:])
    return (out if seating.place is None else out[:, seating.place]), None


class Together:
    """Runs that share their forwards. ``runs`` stand in the order of their seats; one that leaves is replaced by the last.

    Raises TargetError for a target whose attention is not sdpa: only there one call serves seats of different length.
    """

    def __init__(self, target: Target) -> None:
        if target.backbone.attention != "sdpa":
            raise TargetError(f"The target {target.id} cannot answer several requests at once: its attention is not sdpa.")
        AttentionInterface.register(SEATED, attend)
        self.target, self.runs = target, []
        self._seats: Seats | None = None
        self._own: list = []

    @torch.inference_mode()
    def join(self, run: TargetRun) -> None:
        """Seat ``run`` behind the others. Raises ValueError where it watches other layers than they do."""
        if self.runs and run.cache.watched != self.runs[0].cache.watched:
            raise ValueError("runs that go on together watch the same layers")
        if self._seats is None:
            self._seats = Seats(run.cache)
        self._own.append(run.cache)
        run.cache = self._seats.seat(run.cache)
        self.runs.append(run)

    @torch.inference_mode()
    def leave(self, place: int) -> TargetRun:
        """Free the seat of run number ``place``. Its own cache comes back as it was when it joined."""
        run, own = self.runs[place], self._own[place]
        self._seats.free(place)
        for row in (self.runs, self._own):
            last = row.pop()
            if place < len(row):
                row[place] = last
        run.cache = own
        return run

    @torch.inference_mode()
    def forward_trees(self, trees: Sequence[Tree]) -> tuple[Tensor, Tensor]:
        """One forward over a draft tree for each run, in the order of ``runs``: logits (N, V) and states (N, d or more), the
        rows of the first tree first. Then each run commits as after its own forward_tree.

        Raises ValueError past the context of a run.
        """
        target, counts = self.target, [tree[0].shape[0] for tree in trees]
        for run, (_, _, depths) in zip(self.runs, trees, strict=True):
            deepest = run.next_position + (int(depths.max()) if depths.shape[0] > 1 else 0)
            if deepest >= target.context:
                raise ValueError(f"a node at position {deepest} lies past the context of {target.context}")
        rows = SeatedRows(self._seats, counts)
        rows.watched = self.runs[0].cache.watched
        tokens = torch.cat([tree[0] for tree in trees]).to(target.device)
        first = torch.tensor([run.next_position for run in self.runs]).repeat_interleave(torch.tensor(counts))
        positions = (first + torch.cat([tree[2] for tree in trees])).to(target.device)
        seating = self._seating([tree[1] for tree in trees], rows.longest)
        config = target.backbone.language_model.config
        own, config._attn_implementation = config._attn_implementation, SEATED
        try:
            hidden = target.backbone.forward(F.embedding(tokens, target.embedding), positions, seating, rows)
        finally:
            config._attn_implementation = own
        if rows.entered is not None:
            for run, entered in zip(self.runs, rows.entered.split(counts, 1)):
                run.cache.entered = entered
        return target.logits(hidden), hidden

    def forward_roots(self, tokens: Sequence[int]) -> tuple[Tensor, Tensor]:
        """``forward_trees`` over one token a run."""
        return self.forward_trees([(token, _NO_PARENT, _NO_DEPTH) for token in torch.tensor(tokens).split(1)])

    def _seating(self, parents: Sequence[Tensor], longest: int) -> Seating:
        dtype, device = self.target.embedding.dtype, self.target.device
        counts = [row.shape[0] for row in parents]
        most, committed = max(counts), torch.tensor([run.cache.committed for run in self.runs])
        lowest = torch.finfo(dtype).min
        if most == 1:
            unseen = torch.arange(longest) > committed[:, None]  # (seats, longest)
            return Seating(torch.zeros(unseen.shape, dtype=dtype).masked_fill_(unseen, lowest)[:, None, None].to(device), None)
        mask = torch.full((len(counts), 1, most, longest), lowest, dtype=dtype)
        for row, tree, before in zip(mask, parents, committed.tolist()):
            row[0, : tree.shape[0], : before + tree.shape[0]] = tree_mask(tree, before, dtype)[0, 0]
        place = None
        if min(counts) < most:
            place = torch.cat([seat * most + torch.arange(count) for seat, count in enumerate(counts)]).to(device)
        return Seating(mask.to(device), place)
