"""The trained drafter at work: an EAGLE-2 draft tree with FOVEA's retrieval at the states that score.

A round: the newly committed tokens pass the body with their true target states, the last one's state is the root's; then per
level one forward of the k frontier nodes, one retrieval for all of them, k children each. All k^2 children of a level stay
candidates, the k best are the next frontier, and after the last level the nodes - 1 best of all candidates are the tree.
Scores fall along a path and ties go to the earlier level, so the tree is closed under parents.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from fovea_core.decode.sketch import Look, Sketch, gather
from fovea_core.decode.tree import Draft, root_only
from fovea_core.drafter.step import Body, FoldedDrafter
from fovea_core.memory.correct import FoldedMemory
from fovea_core.memory.select import Policy, peak_of
from fovea_core.trace.events import Shape


def _now() -> float:
    """Seconds of a clock; a compiled step has none."""
    return 0.0 if torch.compiler.is_compiling() else time.perf_counter()


class FoveaRun:
    """One request (decode.draft.DraftRun). ``depth_limit``: deepest state that reads the memory, -1 where none does; ``ahead``:
    items that will follow the prompt, those of a draft included."""

    def __init__(
        self,
        folded: FoldedDrafter,
        memory: FoldedMemory | None,
        policy: Policy,
        depth_limit: int,
        record: bool,
        ahead: int = 0,
    ) -> None:
        self.folded, self.memory, self.policy, self.depth_limit, self.record = folded, memory, policy, depth_limit, record
        self.body, self.ahead = Body(folded), ahead
        self.root, self.token, self.position = None, None, -1
        self.looks: list[Look] = []
        self.select_ms = 0.0

    @torch.inference_mode()
    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """Commit (m,) tokens with the (m, d or more) target states that predicted them, at (m,) position ids (increasing)."""
        if tokens.shape[0] == 0:
            return
        folded = self.folded
        device = folded.table.device
        self.cover(positions)
        tokens, positions = tokens.to(device), positions.to(device)
        self.token = tokens[-1:]
        self._append(folded.fuse_target(tokens, states.to(folded.table)), positions)
        self.policy.round(states[-1])

    def _append(self, x: torch.Tensor, positions: torch.Tensor) -> None:
        """Commit (m, d) fused items at (m,) position ids; the last one's state is the root's."""
        self.make_room(x.shape[0])
        self.root = self.body.forward(x, self.folded.turn(positions), self.behind(x.shape[0]))[-1:]
        self.body.keep()

    def cover(self, positions: torch.Tensor) -> None:
        """Note (m,) position ids of tokens that are about to be committed, here, where they still lie on the host."""
        self.position = positions.tolist()[-1]
        self.folded.cover(self.position + 128 + (0 if self.body.stable else self.ahead))  # once for the whole answer

    def make_room(self, m: int) -> None:
        """Drop what was drafted, and make room for ``m`` committed items."""
        self.body.drop_speculative()
        self.body.reserve(m if self.body.stable else m + self.ahead)  # once for the answer, so that the cache stays in place

    def behind(self, m: int) -> torch.Tensor | None:
        """(m, stable + m) mask of new items: each sees the prefix and the new ones up to itself; None for a single one."""
        like = self.folded.table
        later = torch.full((m, m), -math.inf, device=like.device, dtype=like.dtype).triu_(1)
        return torch.cat((later.new_zeros(m, self.body.stable), later), 1) if m > 1 else None

    def _level(self, tokens: torch.Tensor, normed: torch.Tensor, depth: int, mask: torch.Tensor | None) -> torch.Tensor:
        """(m, d) states of (m,) drafted tokens of one depth below parents with (m or 1, d) ``normed`` states."""
        return self.body.forward(self.folded.fuse_own(tokens, normed), self._turn(depth), mask)

    @torch.inference_mode()
    def propose(self, shape: Shape) -> Draft:
        """Draft the tree below the last committed token: at most ``shape.nodes`` nodes, root included; the host reads it."""
        made = self.sketch(shape)
        return root_only(int(self.token)) if made is None else made.draft()

    @torch.inference_mode()
    def sketch(self, shape: Shape) -> Sketch | None:
        """``propose`` without a read by the host; None where ``shape`` leaves room for the root alone."""
        started = time.perf_counter()
        levels = min(shape.depth, shape.nodes - 1)  # a deeper node would need more ancestors than the tree may hold
        self.body.drop_speculative()
        self.looks, self.select_ms = [], 0.0
        if levels < 1:
            return None
        self.folded.cover(self.position + levels + 1)
        width = min(shape.width, self.folded.config.vocab_size)
        self.body.reserve(levels * width)
        grown = self._chain(levels) if width == 1 else self._grow(levels, width)
        return self._finish(grown, levels, shape.nodes - 1, started)

    def score(self, states: torch.Tensor, depth: int, nodes: torch.Tensor) -> torch.Tensor:
        """FOVEA eq 4-9: log-probabilities (m, V) of what may follow (m, d) states of one depth; notes what ``nodes`` read."""
        if depth <= self.depth_limit:
            started = _now()
            chosen = self.policy.select(states, depth, self.memory)
            states, gate, shift = self.memory.correct(states, chosen.weights)
            spent = (_now() - started) * 1e3
            self.select_ms += spent
            if self.record:
                found = (chosen.count, chosen.k_raw, gate[:, 0], shift)  # figures of all levels are worked out at once
                self.looks.append(Look(depth, nodes, chosen.order, chosen.masses, found, spent / states.shape[0]))
        return torch.log_softmax(self.folded.logits(states), -1, dtype=torch.float32)

    def _turn(self, depth: int) -> torch.Tensor:
        at = self.position + depth
        return self.folded.turns[at : at + 1]

    def _chain(self, levels: int) -> Grown:
        """Width 1: the likeliest token each time; every item sees all before it, so there is no mask and no sorting."""
        state = self.root
        numbers = torch.arange(levels, device=state.device)
        tokens, logps = [], []
        for depth in range(levels):
            if depth:
                state = self._level(tokens[-1], self.folded.normed(state), depth, None)
            best = self.score(state, depth, numbers[depth : depth + 1]).max(-1)
            tokens.append(best.indices)
            logps.append(best.values)
        logp = torch.cat(logps)
        return Grown(torch.cat(tokens), logp, logp.cumsum(0), numbers, 1)

    def _grow(self, levels: int, width: int) -> Grown:
        """All candidates of ``levels`` levels; candidate numbers count from 1 in the order of levels, 0 is the root."""
        folded, body = self.folded, self.body
        device = self.root.device
        apart = torch.full((width, width), -math.inf, device=device, dtype=self.root.dtype)
        apart.fill_diagonal_(0)  # siblings do not see each other
        best = self.score(self.root, 0, torch.zeros(1, dtype=torch.int64, device=device)).topk(width)
        tokens, logps, scores = [best.indices[0]], [best.values[0]], [best.values[0]]
        parents = [torch.zeros(width, dtype=torch.int64, device=device)]
        frontier, numbers, total = best.indices[0], torch.arange(1, width + 1, device=device), best.values[0]
        normed, mask, made = folded.normed(self.root), apart.new_zeros(width, body.stable), width
        for depth in range(1, levels):
            mask = torch.cat((mask, apart), 1)  # (k, stable + depth k)
            states = self._level(frontier, normed, depth, mask)
            best = self.score(states, depth, numbers).topk(width)  # (k, k) children
            sums = (total[:, None] + best.values).view(-1)
            tokens.append(best.indices.view(-1))
            logps.append(best.values.view(-1))
            scores.append(sums)
            parents.append(numbers.repeat_interleave(width))
            if depth + 1 < levels:
                total, chosen = sums.topk(width)
                row = chosen // width
                frontier, numbers = tokens[-1][chosen], chosen + (made + 1)
                normed, mask = folded.normed(states).index_select(0, row), mask.index_select(0, row)
                made += sums.shape[0]
        return Grown(torch.cat(tokens), torch.cat(logps), torch.cat(scores), torch.cat(parents), width)

    def _finish(self, grown: Grown, levels: int, budget: int, started: float) -> Sketch:
        """Keep the ``budget`` best candidates, ancestors first on ties, and number the nodes in the order of levels."""
        made, width = grown.tokens.shape[0], grown.width
        kept = torch.arange(made, device=grown.tokens.device)
        if made > budget:
            kept = grown.scores.sort(descending=True, stable=True).indices[:budget].sort().values
        size = min(made, budget)
        place = torch.zeros(made + 1, dtype=torch.int64, device=kept.device)  # candidate number to node number
        place[kept + 1] = torch.arange(1, size + 1, device=kept.device)
        entries = stats = None
        if self.memory is not None:
            entries, stats = self.memory.entries, _figures(self.looks, self.memory.n_valid) if self.looks else None
        depths = (kept - width).div(width * width, rounding_mode="floor") + 2  # k of them at depth 1, then k k a level
        return Sketch(
            tokens=torch.cat((self.token, grown.tokens[kept])),
            parents=F.pad(place[grown.parents[kept]], (1, 0), value=-1),
            depths=F.pad(depths, (1, 0)),
            logp=F.pad(grown.logp[kept], (1, 0)),
            levels=levels,
            looked=gather(self.looks, place, entries, self.policy.most, stats) if self.looks else None,
            pruned=made - size,
            draft_ms=(time.perf_counter() - started) * 1e3 - self.select_ms,
            select_ms=self.select_ms,
        )


def _figures(looks: list[Look], n_valid: torch.Tensor) -> torch.Tensor:
    """(r, 5) Looked.stats of the looks of a draft, whose ``stats`` are what the memory found."""
    count, k_raw, gate, shift = (torch.cat(parts) for parts in zip(*(look.stats for look in looks)))
    peak = peak_of(torch.cat([look.masses for look in looks]), n_valid)
    columns = (count, k_raw, peak, gate, torch.linalg.vector_norm(shift, dim=-1))
    return torch.stack([column.to(torch.float32) for column in columns], 1)  # counts are whole in it


@dataclass(frozen=True)
class Grown:
    """Candidates in the order of levels, number = index + 1: tokens, logp, scores (sum of logp along the path) and parents
    (candidate numbers, 0 = root), each (candidates,): ``width`` children of the root, then its square at every level."""

    tokens: torch.Tensor
    logp: torch.Tensor
    scores: torch.Tensor
    parents: torch.Tensor
    width: int
