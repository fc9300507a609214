"""Other ways to bring the picture into the drafter than FOVEA's correction (the paper's Table 3), around one trained drafter.

'rebuild' is the same correction with the drafter's cache made anew each round: the same drafts, only slower. 'prefix' keeps all
image tokens in the drafter's context and reads no memory; 'insertion' keeps the INSERTED entries there that the root scores
highest, chosen anew each round, and rebuilds. **The shipped drafter was never trained with image tokens in its context**: what
'prefix' and 'insertion' cost is theirs, their tau is that of weights untrained for it and says nothing about the interface.
"""

from __future__ import annotations

import torch

from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.drafter.step import FoldedDrafter
from fovea_core.memory.correct import FoldedMemory
from fovea_core.memory.select import Policy, make_policy
from fovea_core.settings import RunSettings
from fovea_core.targets.base import TargetRun

#: Image tokens that 'insertion' keeps in the drafter's context.
INSERTED = 16
KINDS = ("rebuild", "prefix", "insertion")


class Interface:
    """A drafter (decode.draft.Drafter) of one of KINDS, with the weights of a FoveaDrafter. Raises ValueError for another."""

    def __init__(self, drafter: FoveaDrafter, kind: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"an interface is one of {', '.join(KINDS)}, not {kind[:40]!r}")
        self._drafter, self.kind, self.id = drafter, kind, kind

    def __getattr__(self, name: str):
        return getattr(self._drafter, name)

    def sight(self, settings: RunSettings) -> tuple[str, int]:
        """See FoveaDrafter.sight: image tokens in the context are no reads."""
        return self._drafter.sight(settings) if self.kind == "rebuild" else ("none", -1)

    @torch.inference_mode()
    def start(self, run: TargetRun, settings: RunSettings) -> FoveaRun:
        """See Drafter.start."""
        made = self._drafter.start(run, settings)
        if self.kind == "rebuild":
            return RebuiltRun(made.folded, made.memory, made.policy, made.depth_limit, made.record)
        none = make_policy("none", self.config.bounds)
        return SeeingRun(made.folded, none, run, made.memory if self.kind == "insertion" else None)


class RebuiltRun(FoveaRun):
    """A FoveaRun that reads all committed text anew before each draft."""

    _told: tuple[torch.Tensor, ...] | None = None

    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """See FoveaRun.extend."""
        new = (tokens, states, positions)
        self._told = new if self._told is None else tuple(torch.cat(pair) for pair in zip(self._told, new))
        self.body.stable = 0  # its place is used anew
        super().extend(*self._told)


class SeeingRun(FoveaRun):
    """A FoveaRun with image tokens in its context and no correction: all of them, or those that ``memory`` scores highest for
    the root, chosen anew and the cache rebuilt at each round.

    An image token's item is fc([its feature; the target state before it]), at the target's position id.
    """

    def __init__(self, folded: FoldedDrafter, policy: Policy, run: TargetRun, memory: FoldedMemory | None) -> None:
        super().__init__(folded, None, policy, -1, False)
        self.choosing = memory
        slots = torch.cat([torch.arange(*span) for span in run.spans])
        like = folded.table
        states = run.hidden[(slots - 1).to(run.hidden.device)].to(like)[:, : folded.fused]
        self.seen = folded.token_half(run.features.to(like)) + folded.from_target(states)  # (N, d)
        self.places = run.positions[slots].to(like.device)
        self.items: list[tuple[torch.Tensor, torch.Tensor]] = []  # of the text: (m, d) fused, (m,) positions
        self.everything = run.valid.nonzero()[:, 0].to(like.device)

    @torch.inference_mode()
    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """See FoveaRun.extend."""
        if tokens.shape[0] == 0:
            return
        first, device = not self.items, self.seen.device
        fused = self.folded.fuse_target(tokens.to(device), states.to(self.seen))
        self.items.append((fused, positions.to(device)))
        self.token, self.position = tokens[-1:].to(device), int(positions[-1])
        self.folded.cover(self.position + 128)
        if first or self.choosing is not None:
            self._read_anew(self.everything if self.choosing is None else self._chosen(first))
        else:
            self._append(*self.items[-1])

    def _chosen(self, first: bool) -> torch.Tensor:
        """(K,) entries for this round, by the root as it stands with those of the round before (at first without any)."""
        if first:
            self._read_anew(self.everything[:0])
        else:
            self._append(*self.items[-1])
        scores = self.choosing.scores(self.root, 0)[0]
        return self.choosing.entries[scores.topk(min(INSERTED, len(scores))).indices]

    def _read_anew(self, entries: torch.Tensor) -> None:
        """The cache anew, over ``entries`` and all text so far, in the order of the prompt."""
        self.body.stable = 0
        x = torch.cat([self.seen[entries], *(fused for fused, _ in self.items)])
        places = torch.cat([self.places[entries], *(at for _, at in self.items)])
        order = places.argsort(stable=True)
        self._append(x[order], places[order])
