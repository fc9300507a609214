"""Verification: which drafted nodes are the target's own tokens. Exact for every drafter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fovea_core.decode.sampling import choose, choose_each, uniforms
from fovea_core.decode.sketch import Sketch
from fovea_core.decode.tree import Draft
from fovea_core.settings import RunSettings


@dataclass(frozen=True)
class Judged:
    """A rejected node: the target's token in its place, log-probability of both (raw softmax), rank (0 = best) of its own."""

    node: int
    target_token: int
    target_logp: float
    logp: float
    rank: int


@dataclass(frozen=True)
class Verdict:
    """What became of a draft. ``accepted`` is the path below the root; ``emitted`` = its tokens + ``bonus`` if there is one."""

    accepted: list[int]
    rejected: list[Judged]
    unverified: list[int]
    bonus: int | None
    emitted: list[int]

    @property
    def path(self) -> list[int]:
        """The accepted path with the root in front: what the target's cache keeps."""
        return [0, *self.accepted]


@dataclass(frozen=True)
class Found:
    """What the target says of a whole tree, on the host: its token behind each node, and of each node below the root the
    ``figures`` of Judged (target_logp, logp, rank) as if it were rejected."""

    tokens: list[int]
    figures: list[list[float]]


class Reader:
    """Reads a draft and what the target found, in one transfer a round, for a run of at most ``limit`` answer tokens."""

    def __init__(self, settings: RunSettings, limit: int, device: torch.device) -> None:
        self.settings = settings
        self.numbers = uniforms(settings.seed, limit, device) if settings.temperature else None  # (limit,) on the device

    @torch.inference_mode()
    def read(self, draft: Draft | Sketch, logits: Tensor, position: int) -> tuple[Draft, Found]:
        """``draft`` and its Found, from (n, V) raw ``logits``; position: answer position of the first token to emit."""
        tokens, parents, depths = (part.to(logits.device) for part in draft.tree[:3])
        if self.numbers is None:
            own = logits.argmax(-1)
        else:
            own = choose_each(logits, self.settings, self.numbers[depths + position])
        judging = parents[1:]
        figures = _figures(logits.float(), judging, own[judging], tokens[1:])
        draft, (own, figures) = draft.read(own, figures)
        return draft, Found(own.tolist(), figures.tolist())


@torch.inference_mode()
def verify(
    draft: Draft,
    logits: Tensor,
    settings: RunSettings,
    position: int,
    limit: int,
    eos_ids: frozenset[int],
    found: Found | None = None,
) -> Verdict:
    """Walk the tree from the root along the target's own tokens.

    logits: (n, V) raw, row i behind node i; position: answer position of the first token this round emits; limit >= 1: how
    many tokens it may emit. The walk stops behind an EOS or the limit, without a bonus token; there and below a rejected node
    nodes are unverified. A twin of an accepted sibling is unverified too: it was not wrong, just not needed.
    found: what a Reader brought; without it ``logits`` are asked for what the walk needs.
    """
    token_at = _target_tokens(logits, settings, position) if found is None else lambda node, depth: found.tokens[node]
    tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
    accepted, wrong, bonus, emitted = walk(tokens, parents, token_at, limit, eos_ids)
    judged = {*accepted, *(child for child, _, _ in wrong)}
    unverified = [node for node in range(1, len(tokens)) if node not in judged]
    figures = _measure(logits, tokens, wrong) if found is None else [found.figures[node - 1] for node, _, _ in wrong]
    rejected = [
        Judged(node, chosen, min(0.0, own_logp), min(0.0, logp), int(rank))
        for (node, _, chosen), (own_logp, logp, rank) in zip(wrong, figures)
    ]
    return Verdict(accepted, rejected, unverified, bonus, emitted)


def walk(
    tokens: list[int], parents: list[int], token_at: Callable[[int, int], int], limit: int, eos_ids: frozenset[int]
) -> tuple[list[int], list[tuple[int, int, int]], int | None, list[int]]:
    """The walk of ``verify`` alone: accepted path, rejected (node, parent, target's token), bonus token, emitted tokens.

    token_at: (node, depth) to the target's token behind that node.
    """
    children: list[list[int]] = [[] for _ in tokens]
    for node, parent in enumerate(parents[1:], start=1):
        children[parent].append(node)
    node, accepted, wrong, bonus = 0, [], [], None
    emitted: list[int] = []
    while True:
        chosen = token_at(node, len(accepted))
        emitted.append(chosen)
        wrong += [(child, node, chosen) for child in children[node] if tokens[child] != chosen]
        node = next((child for child in children[node] if tokens[child] == chosen), -1)
        if node < 0:
            bonus = chosen
            break
        accepted.append(node)
        if chosen in eos_ids or len(emitted) == limit:
            break
    return accepted, wrong, bonus, emitted


def _target_tokens(logits: Tensor, settings: RunSettings, position: int) -> Callable[[int, int], int]:
    """(node, depth) to the target's token behind that node. Greedy tokens of all nodes come back in one transfer."""
    if settings.temperature == 0:
        greedy = logits.argmax(-1).tolist()
        return lambda node, depth: greedy[node]
    return lambda node, depth: choose(logits[node], settings, position + depth)


def _measure(logits: Tensor, tokens: list[int], wrong: list[tuple[int, int, int]]) -> list[list[float]]:
    """Figures of rejected (node, parent, target's token), in one transfer."""
    if not wrong:
        return []
    device = logits.device
    at = sorted({parent for _, parent, _ in wrong})
    rows = logits[torch.tensor(at, device=device)].float()  # (judging nodes, V)
    row = torch.tensor([at.index(parent) for _, parent, _ in wrong], device=device)
    own = torch.tensor([chosen for _, _, chosen in wrong], device=device)
    theirs = torch.tensor([tokens[node] for node, _, _ in wrong], device=device)
    return _figures(rows, row, own, theirs).tolist()


def _figures(rows: Tensor, row: Tensor, own: Tensor, theirs: Tensor) -> Tensor:
    """(m, 3) float64: log-probabilities of the tokens ``own`` (m,) and ``theirs`` (m,) in the ``row`` (m,) of raw ``rows``
    (r, V) that judges them, and the rank of theirs."""
    logs = rows.log_softmax(-1)
    ranks = (rows[row] > rows[row, theirs][:, None]).sum(-1)
    return torch.stack([logs[row, own].double(), logs[row, theirs].double(), ranks.double()], -1)
