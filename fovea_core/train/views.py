"""What a rival may be given of an answer beside its states (drafter.rival.View): where the target looked, what it made of the
picture. Noted of given answers of a LLaVA, whose pictures are all one grid of as many image tokens.

In a shard: ``at`` (N,) position ids of the image tokens, the same for all; per picture ``cells`` (layers, C, d) half, the
target's states at it as they enter the watched layers, pooled, and ``present`` (C,) bool; per sample ``attended`` (N,) half,
where it looked at the end of the prompt; ``looked`` (A, LOOKED) int16, where it looked most when it predicted each answer token
but the last; ``aimed`` (A, LOOKED) int16, where a read is to fall that drafts this token (train.looks): what a head that was
taught to look at it looked at most, -1 behind the first AIMED of its mass; of a target without such a head as ``looked``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fovea_core.drafter.rival import LOOKED, View, grid_cells, pool_cells
from fovea_core.memory.rivals import vote
from fovea_core.train.asked import Asked
from fovea_core.train.worker import BatchCache, BatchTarget

VIEW_NAMES = ("at", "cells", "present", "attended", "looked", "aimed")
#: Share of a taught head's mass that counts as looked at.
AIMED = 0.9


@dataclass(frozen=True)
class Looks:
    """What a rival may be given of one answer: at (N,); attended (N,); looked, aimed (A, LOOKED); cells (1, layers, C, d) and
    present (1, C) with the first answer of a picture, (0, ...) with the others."""

    at: Tensor
    attended: Tensor
    looked: Tensor
    aimed: Tensor
    cells: Tensor
    present: Tensor


def check_viewed(asked: Sequence[Asked]) -> None:
    """Raise ValueError where views cannot be made of a batch: image tokens in other places, or answers that are not given."""
    places = {tuple(one.prompt.spans) for one in asked}
    if len(places) > 1:
        raise ValueError("Views need prompts that have their image tokens in the same places.")
    if not all(one.answer for one in asked):
        raise ValueError("Views are made of given answers only.")


def note_looks(
    target: BatchTarget,
    cache: BatchCache,
    asked: Sequence[Asked],
    entered: dict[int, dict[int, Tensor]],
    behind: Tensor,
    spoken: Sequence[tuple[int, int]],
) -> list[Looks]:
    """The looks of a batch whose questions and answers were the last forward.

    entered: by picture and layer the (N, d) states that entered it at the image tokens; behind (rows,): position id
    of each row's first token in that forward; spoken: of each row the number there of the token that predicted the answer's
    first, and how many answer tokens were fed.
    """
    first, last = asked[0].prompt.spans[0]
    slots = torch.arange(first, last, device=target.device)
    valid = torch.stack([one.prompt.valid for one in asked]).to(target.device)  # (rows, N)
    positions = behind[:, None] + torch.arange(target.entered[target.watched[0]].shape[1], device=target.device)
    masses = target.masses(cache, positions, slots, valid)  # (rows, n, watched, N)
    aims = most_of(target.aims(cache, positions, slots, valid), LOOKED, AIMED) if target.aimed else None  # (rows, n, LOOKED)
    numbers = grid_cells(target.target.image.cells, target.target.image.cells).to(target.device)
    done, looks = set(), []
    for row, (one, (start, fed)) in enumerate(zip(asked, spoken)):
        ranks = vote(masses[row, start : start + fed]).masked_fill_(~valid[row], -torch.inf)
        states = torch.stack([entered[one.picture][layer] for layer in target.watched])  # (watched, N, d)
        cells, present = pool_cells(states[None], valid[row : row + 1], numbers)
        fresh = one.picture not in done
        looked = ranks.topk(min(LOOKED, ranks.shape[-1]), -1).indices
        done.add(one.picture)
        looks.append(
            Looks(
                at=slots,
                attended=masses[row, start].mean(0),
                looked=looked,
                aimed=looked if aims is None else aims[row, start : start + fed],
                cells=cells[:fresh],
                present=present[:fresh],
            )
        )
    return looks


def most_of(masses: Tensor, count: int, share: float) -> Tensor:
    """(..., N) masses that sum to 1 to (..., count) int64: the entries with most, at least one, until they hold ``share``; then
    -1. Where N is less than count, (..., N)."""
    most = masses.topk(min(count, masses.shape[-1]), -1)
    before = most.values.cumsum(-1) - most.values
    return most.indices.masked_fill(before >= share, -1)


def view_tensors(looks: Sequence[Looks], half: torch.dtype) -> dict[str, Tensor]:
    """The tensors of a shard, in the order of its samples. Raises ValueError where its image tokens stand in other places."""
    at = looks[0].at
    if not all(torch.equal(look.at, at) for look in looks):
        raise ValueError("Views need prompts that have their image tokens in the same places.")
    return {
        "at": at.to("cpu", torch.int32),
        "cells": torch.cat([look.cells.to("cpu", half) for look in looks]),
        "present": torch.cat([look.present.cpu() for look in looks]),
        "attended": torch.stack([look.attended.to("cpu", half) for look in looks]),
        "looked": torch.cat([look.looked.to("cpu", torch.int16) for look in looks]),
        "aimed": torch.cat([look.aimed.to("cpu", torch.int16) for look in looks]),
    }


def view_of(shard: dict[str, Tensor], picture: int, row: int, answers: slice) -> dict[str, Tensor]:
    """The view's tensors of sample ``row`` of a shard; none where the shard has none."""
    if not set(VIEW_NAMES) <= shard.keys():
        return {}
    return {
        "at": shard["at"],
        "attended": shard["attended"][row],
        "cells": shard["cells"][picture],
        "present": shard["present"][picture],
        "looked": shard["looked"][answers],
        "aimed": shard["aimed"][answers],
    }


def join_views(views: Sequence[dict[str, Tensor]], features: Tensor, valid: Tensor, states: Tensor, base: Tensor) -> View:
    """The samples' views as that of a batch (train.samples.Batch); the last look of a sample stands for its padding."""
    stacked = {name: torch.stack([view[name] for view in views]) for name in ("at", "attended", "cells", "present")}
    bases = torch.arange(base.shape[1])
    padded = {
        name: torch.stack([view[name][bases.clamp_max(view[name].shape[0] - 1)] for view in views]).long()
        for name in ("looked", "aimed")
    }
    return View(
        features=features,
        valid=valid,
        at=stacked["at"].long(),
        attended=stacked["attended"].float(),
        cells=stacked["cells"].float(),
        present=stacked["present"],
        **padded,
        states=states,
        base=base,
    )
