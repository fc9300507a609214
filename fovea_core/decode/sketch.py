"""A draft as it lies on the device that made it, before the host has read anything of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fovea_core.decode.tree import Draft, Read, transfer


@dataclass(frozen=True)
class Look:
    """What the states of one level retrieved, kept as tensors until somebody knows which of them matter.

    nodes: (m,) candidate number of each state (0 = root); every tensor has m rows. stats: (m, 3 to 5) as in Looked, or what
    they are worked out from later.
    """

    depth: int
    nodes: Tensor
    order: Tensor
    masses: Tensor
    stats: Tensor | tuple[Tensor, ...]
    ms: float

    @property
    def count(self) -> Tensor:
        """(m,) how many entries each state chose."""
        return self.stats[0] if isinstance(self.stats, tuple) else self.stats[:, 0]


@dataclass(frozen=True)
class Looked:
    """The looks of all levels, a row a state: ``nodes`` (r,) its node (0 = the root, or a candidate that is not in the tree;
    the root's row is the first), ``stats`` (r, 3 to 5) float32: count, k_raw, peak and, where there are any, gate and norm of
    the correction, ``entries`` and ``masses`` (r, K) in falling order of mass, of which its count is chosen; ``levels`` its
    level, as (depth, ms) for the host."""

    nodes: Tensor
    stats: Tensor
    entries: Tensor
    masses: Tensor
    levels: list[tuple[int, float]]


def gather(
    looks: Sequence[Look], place: Tensor, entries: Tensor | None, most: int | None = None, stats: Tensor | None = None
) -> Looked:
    """The ``looks`` of a draft, at least one. place: candidate number to node number; entries: numbers in the picture of what
    the looks' orders number, None where they are such numbers already; most: no state chose more; stats: of all of them, None
    where each has its own."""
    order = torch.cat([look.order for look in looks])[:, :most]
    return Looked(
        nodes=place[torch.cat([look.nodes for look in looks])],
        stats=torch.cat([look.stats for look in looks]) if stats is None else stats,
        entries=order if entries is None else entries[order],
        masses=torch.cat([look.masses for look in looks])[:, :most].float(),
        levels=[(look.depth, look.ms) for look in looks for _ in range(look.nodes.shape[0])],
    )


@dataclass(frozen=True)
class Sketch:
    """A draft tree like ``Draft``, its tensors on the device. Its shape is known without reading them: ``levels`` bounds the
    depth of every node, and there is at least one below the root."""

    tokens: Tensor
    parents: Tensor
    depths: Tensor
    logp: Tensor
    levels: int
    looked: Looked | None = None
    pruned: int = 0
    draft_ms: float = 0.0
    select_ms: float = 0.0

    @property
    def tree(self) -> tuple[Tensor, Tensor, Tensor, int]:
        """What TargetRun.forward_tree takes."""
        return self.tokens, self.parents, self.depths, self.levels

    def draft(self) -> Draft:
        """The draft, read by the host: one transfer, none on a CPU."""
        parts = self._parts()
        return self._told(parts if self.tokens.device.type == "cpu" else transfer(parts))

    def read(self, *found: Tensor) -> tuple[Draft, list[Tensor]]:
        """See Draft.read: the draft comes to the host with whatever was ``found`` about it."""
        parts = self._parts()
        host = transfer([*parts, *found])
        return self._told(host[: len(parts)]), host[len(parts) :]

    def _parts(self) -> list[Tensor]:
        looked = self.looked
        told = [] if looked is None else [looked.nodes, looked.stats, looked.entries, looked.masses]
        return [self.tokens, self.parents, self.depths, self.logp, *told]

    def _told(self, parts: Sequence[Tensor]) -> Draft:
        """The draft from its parts on the host."""
        tokens, parents, depths, logp, *looked = parts
        reads = _reads(self.looked.levels, parents, *looked) if looked else ()
        return Draft(tokens, parents, depths, logp, reads, self.pruned, self.draft_ms, self.select_ms)


def _reads(levels: list[tuple[int, float]], parents, nodes, stats, entries, masses) -> tuple[Read, ...]:
    """Reads of the states whose children are in the tree; all tensors lie on the host."""
    asked = set(parents.tolist())
    held_by = (masses * (torch.arange(masses.shape[1]) < stats[:, :1])).sum(-1).tolist()
    nodes, stats = nodes.tolist(), stats.tolist()
    rows = [row for row, node in enumerate(nodes) if node in asked and (node or not row)]
    reads = []
    for row in rows:
        held = held_by[row]
        (count, k_raw, peak, *more), (depth, ms) = stats[row], levels[row]
        reads.append(
            Read(
                node=nodes[row],
                depth=depth,
                entries=entries[row, : int(count)],
                masses=masses[row, : int(count)],
                captured=min(1.0, held),
                k_raw=int(k_raw),
                peak=min(1.0, max(0.0, peak)),
                gate=more[0] if more else None,
                correction_norm=more[1] if len(more) > 1 else None,
                ms=ms,
            )
        )
    return tuple(reads)
