"""The draft tree as one value that travels from drafter to verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Read:
    """One retrieval by the state of ``node`` (0 = root) that scored that node's children; plain CPU tensors.

    entries: (K,) int64 in falling order of mass; masses: (K,) float32, mass over all valid entries (eq 5), of a rival the
    weights of its reader (trace.reads); captured: their sum; k_raw: entries needed before clipping (eq 6); gate,
    correction_norm: eq 8 or None;
    peak: 1 - entropy / log(valid entries), 1 = one entry holds everything, 0 = uniform.
    """

    node: int
    depth: int
    entries: torch.Tensor
    masses: torch.Tensor
    captured: float
    k_raw: int
    peak: float
    gate: float | None = None
    correction_norm: float | None = None
    serves: str = "node"
    source: str = "drafter"
    ms: float = 0.0


@dataclass(frozen=True)
class Draft:
    """A draft tree in which parents stand before children; node 0 is the root (the last committed token).

    tokens: (n,) int64; parents: (n,) int64, parents[0] = -1; depths: (n,) int64, depths[0] = 0; logp: (n,) float32
    log-probability of each node given its parent (0 for the root), None for drafters without probabilities.
    """

    tokens: torch.Tensor
    parents: torch.Tensor
    depths: torch.Tensor
    logp: torch.Tensor | None = None
    reads: tuple[Read, ...] = ()
    pruned: int = 0
    draft_ms: float = 0.0
    select_ms: float = 0.0

    @property
    def size(self) -> int:
        """Number of nodes, root included."""
        return int(self.tokens.shape[0])

    @property
    def tree(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What TargetRun.forward_tree takes."""
        return self.tokens, self.parents, self.depths

    def read(self, *found: torch.Tensor) -> tuple[Draft, list[torch.Tensor]]:
        """The draft and whatever was ``found`` about it on the device, both on the host; one transfer."""
        return self, transfer(found)


def transfer(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same values on the host, of whatever kinds and shapes, in one transfer: the host waits for the device once."""
    order = sorted(range(len(tensors)), key=lambda i: -tensors[i].element_size())  # so that each kind begins where it may
    raw = torch.cat([tensors[i].contiguous().view(-1).view(torch.uint8) for i in order]).cpu()
    host, first = list(tensors), 0
    for i in order:
        size = tensors[i].numel() * tensors[i].element_size()
        host[i] = raw[first : first + size].view(tensors[i].dtype).view(tensors[i].shape)
        first += size
    return host


def root_only(token: int) -> Draft:
    """A draft that proposes nothing: verification then makes one plain step."""
    return Draft(torch.tensor([token]), torch.tensor([-1]), torch.tensor([0]), torch.zeros(1))


def chain(token: int, drafted: list[int]) -> Draft:
    """A draft of one path: root ``token`` followed by ``drafted``."""
    size = 1 + len(drafted)
    return Draft(torch.tensor([token, *drafted]), torch.arange(size) - 1, torch.arange(size), None)


def keep_nodes(draft: Draft, nodes: list[int]) -> Draft:
    """The draft with the root and ``nodes`` only (rising, closed under parents); the others count as pruned candidates.

    Reads of states whose children are all gone go too. Raises ValueError where a kept node's parent is not kept.
    """
    if len(nodes) == draft.size - 1:
        return draft
    kept = [0, *nodes]
    place = {node: index for index, node in enumerate(kept)}
    parents = [-1]
    for node, parent in zip(nodes, draft.parents[nodes].tolist() if nodes else []):
        if parent not in place:
            raise ValueError(f"node {node} is kept without its parent {parent}")
        parents.append(place[parent])
    asked = set(parents)
    reads = tuple(
        replace(read, node=place[read.node])
        for read in draft.reads
        if read.node in place and (place[read.node] in asked or read.serves != "node")
    )
    return replace(
        draft,
        tokens=draft.tokens[kept],
        parents=torch.tensor(parents),
        depths=draft.depths[kept],
        logp=None if draft.logp is None else draft.logp[kept],
        reads=reads,
        pruned=draft.pruned + draft.size - len(kept),
    )
