"""Drafts of several requests, level by level abreast: one forward for all of them, a row or a frontier each.

Matrices are read once for everybody and the memories lie side by side; only attention and its cache are each request's own. A
request's draft is the one that it would get alone, up to rounding, and verification decides what is emitted anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fovea_core.decode.draft import DraftRun
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.decode.tree import Draft
from fovea_core.memory.correct import StackedMemory
from fovea_core.memory.select import Policy
from fovea_core.settings import Shape
from fovea_core.targets.base import News


class Drafts:
    """The drafts of everybody who drafts this round: abreast where they are FOVEA's or its twin's, else one after the other."""

    def __init__(self) -> None:
        self._held: tuple[FoveaRun, ...] = ()
        self._memory: StackedMemory | None = None

    def extend(self, runs: Sequence[DraftRun], news: Sequence[News]) -> None:
        """Tell each run its ``news``, see DraftRun.extend."""
        if _fit(runs):
            _extend(runs, news)
        else:
            for run, mine in zip(runs, news, strict=True):
                run.extend(*mine)

    def propose(self, runs: Sequence[DraftRun], shapes: Sequence[Shape]) -> list[Draft]:
        """A draft of its shape for each run; equal shapes are drafted together."""
        drafts: dict[int, Draft] = {}
        for shape in dict.fromkeys(shapes):
            mine = [number for number, other in enumerate(shapes) if other == shape]
            group = [runs[number] for number in mine]
            made = self._grow(group, shape) if _fit(group) else [run.propose(shape) for run in group]
            drafts.update(zip(mine, made, strict=True))
        return [drafts[number] for number in range(len(runs))]

    @torch.inference_mode()
    def _grow(self, runs: Sequence[FoveaRun], shape: Shape) -> list[Draft]:
        """See FoveaRun.sketch; every tensor has a leading dimension of L runs."""
        folded, levels = runs[0].folded, min(shape.depth, shape.nodes - 1)
        width = min(shape.width, folded.config.vocab_size)
        for run in runs:
            run.body.drop_speculative()
            run.looks, run.select_ms = [], 0.0
            folded.cover(run.position + levels + 1)
            run.body.reserve(levels * width)
        states = torch.cat([run.root for run in runs])  # (L, d), later (L k, d)
        places = torch.tensor([run.position for run in runs], device=states.device)
        best = self._score(runs, states, 0).topk(width)
        tokens, logps, scores = [best.indices], [best.values], [best.values]  # (L, k), then (L, k k) a level
        parents, frontier, total = [torch.zeros_like(best.indices)], best.indices, best.values
        numbers = torch.arange(1, width + 1, device=states.device).expand(len(runs), -1)
        normed, made = folded.normed(states)[:, None].expand(-1, width, -1), width
        apart = torch.full((width, width), -torch.inf, device=states.device, dtype=states.dtype).fill_diagonal_(0)
        seen = apart.new_zeros(len(runs), width, 0)  # what a row sees of its own tree
        for depth in range(1, levels):
            seen = torch.cat((seen, apart.expand(len(runs), -1, -1)), 2)
            masks = [None if width == 1 else F.pad(mine, (run.body.stable, 0)) for run, mine in zip(runs, seen)]
            turn = folded.turn((places + depth).repeat_interleave(width))
            fused = folded.fuse_own(frontier.reshape(-1), normed.flatten(0, 1))
            states = _forward(runs, [width] * len(runs), fused, turn, masks)
            best = self._score(runs, states, depth).topk(width)
            sums = (total.unsqueeze(-1) + best.values.unflatten(0, total.shape)).flatten(1)
            tokens.append(best.indices.view(len(runs), -1))
            logps.append(best.values.view(len(runs), -1))
            scores.append(sums)
            parents.append(numbers.repeat_interleave(width, 1))
            if depth + 1 < levels:
                total, chosen = sums.topk(width)
                row = (chosen // width).unsqueeze(-1)
                frontier, numbers = tokens[-1].gather(1, chosen), chosen + (made + 1)
                states = folded.normed(states).unflatten(0, (len(runs), width))
                normed, seen = states.gather(1, row.expand_as(states)), seen.gather(1, row.expand_as(seen))
                made += width * width
        grown = [torch.cat(parts, 1) for parts in (tokens, logps, scores, parents)]
        return _finish(torch.cat([run.token for run in runs]), *grown, width, shape.nodes - 1)

    def _score(self, runs: Sequence[FoveaRun], states: Tensor, depth: int) -> Tensor:
        """FoveaRun.score for the (L m, d) states of L runs."""
        first = runs[0]
        if depth <= first.depth_limit:
            if self._held != tuple(runs):
                self._held, self._memory = tuple(runs), StackedMemory([run.memory for run in runs])
            apart = states.unflatten(0, (len(runs), -1))
            chosen = first.policy.choose(self._memory.scores(apart, depth), self._memory.n_valid)
            states = self._memory.correct(apart, chosen.weights).flatten(0, 1)
        return torch.log_softmax(first.folded.logits(states), -1, dtype=torch.float32)


def _fit(runs: Sequence[DraftRun]) -> bool:
    """Whether runs can share a forward: several, of one drafter, nothing recorded, a policy that keeps nothing of its own."""
    first = runs[0]
    return len(runs) > 1 and all(
        type(run) is FoveaRun
        and type(run.policy) is Policy
        and run.folded is first.folded
        and (run.policy.name, run.depth_limit, run.record) == (first.policy.name, first.depth_limit, False)
        for run in runs
    )


@torch.inference_mode()
def _extend(runs: Sequence[FoveaRun], news: Sequence[News]) -> None:
    """FoveaRun.extend for all at once."""
    folded, sizes = runs[0].folded, [tokens.shape[0] for tokens, _, _ in news]
    for run, (_, _, positions) in zip(runs, news, strict=True):
        run.cover(positions)
        run.make_room(positions.shape[0])
    tokens, states, positions = (torch.cat(parts).to(folded.table.device) for parts in zip(*news, strict=True))
    masks = [run.behind(size) for run, size in zip(runs, sizes)]
    fused = folded.fuse_target(tokens, states.to(folded.table))
    made = _forward(runs, sizes, fused, folded.turn(positions), masks).split(sizes)
    for run, mine, said in zip(runs, made, tokens.split(sizes)):
        run.root, run.token = mine[-1:], said[-1:]
        run.body.keep()


def _forward(runs: Sequence[FoveaRun], sizes: list[int], x: Tensor, turn: Tensor, masks: Sequence[Tensor | None]) -> Tensor:
    """Body.forward of several runs: (M, d) fused items, ``sizes`` of them each, (M, 1, head_dim / 2) turns, a mask each."""
    folded, starts = runs[0].folded, [run.body.used for run in runs]
    for run, size in zip(runs, sizes):
        run.body.used += size
    for number, block in enumerate(folded.blocks):
        mixed = folded.mixed(block, x, turn).split(sizes)
        context = [
            run.body.context(number, mine, start, run.body.used, mask)
            for run, mine, start, mask in zip(runs, mixed, starts, masks)
        ]
        x = folded.after(block, x, torch.cat(context))
    return x


def _finish(
    roots: Tensor, tokens: Tensor, logps: Tensor, scores: Tensor, parents: Tensor, width: int, budget: int
) -> list[Draft]:
    """FoveaRun._finish for (L, candidates) of each; ``roots`` (L,) tokens."""
    lanes, made = tokens.shape
    size = min(made, budget)
    kept = torch.arange(made, device=tokens.device).expand(lanes, -1)
    if made > budget:
        kept = scores.sort(descending=True, stable=True).indices[:, :budget].sort().values
    place = tokens.new_zeros(lanes, made + 1)  # candidate number to node number
    place.scatter_(1, kept + 1, torch.arange(1, size + 1, device=tokens.device).expand(lanes, -1))
    depths = (kept - width).div(width * width, rounding_mode="floor") + 2
    parts = (
        torch.cat((roots[:, None], tokens.gather(1, kept)), 1),
        F.pad(place.gather(1, parents.gather(1, kept)), (1, 0), value=-1),
        F.pad(depths, (1, 0)),
        F.pad(logps.gather(1, kept), (1, 0)),
    )
    return [Draft(*mine, pruned=made - size) for mine in zip(*(part.cpu() for part in parts), strict=True)]
