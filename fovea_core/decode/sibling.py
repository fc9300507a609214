"""A smaller model of the target's family as drafter: its own picture, prompt and cache, a branching tree, nothing to train.

It answers the same request as a target of its own. What was committed is sent through it with the target's words; a tree grows
level by level in its cache, each node seeing its ancestors only, and is dropped again after the round. Words are exchanged by
name, so that two checkpoints may number their special tokens differently.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import Tensor

from fovea_core.decode.tree import Draft, root_only
from fovea_core.drafter.checkpoint import DrafterError
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import Shape

#: Share of the target's words that a sibling must know.
LEAST_SHARED = 0.98


class SiblingDrafter:
    """A decode.draft.Drafter around a loaded target. Raises DrafterError where the two do not speak the same vocabulary."""

    def __init__(self, sibling: Target, target: Target) -> None:
        self.target, self.id, self.fingerprint = sibling, sibling.id, sibling.fingerprint
        theirs, ours = (model.tokenizer.get_vocab(with_added_tokens=True) for model in (target, sibling))
        shared = [(number, ours[word]) for word, number in theirs.items() if word in ours]
        shared = [(number, own) for number, own in shared if number < target.vocab_size and own < sibling.vocab_size]
        if len(shared) < LEAST_SHARED * len(theirs):
            raise DrafterError(
                f"{sibling.id} is no sibling of {target.id}: it knows {len(shared):,} of its {len(theirs):,} words."
            )
        numbers = torch.tensor(shared, dtype=torch.int64)
        self.to_own = torch.full((target.vocab_size,), -1, dtype=torch.int64)
        self.to_own[numbers[:, 0]] = numbers[:, 1]
        to_target = torch.full((sibling.vocab_size,), -1, dtype=torch.int64)
        to_target[numbers[:, 1]] = numbers[:, 0]
        self.to_target = to_target.to(sibling.device)
        self.unknown = torch.zeros(sibling.vocab_size, device=sibling.device).masked_fill_(self.to_target < 0, -torch.inf)

    def start(self, run: TargetRun, settings: RunSettings) -> SiblingRun:
        """Read the same picture and question. Raises TargetError where they leave the sibling no room."""
        return SiblingRun(self, self.target.prefill(*run.asked), run.answer_position)


class SiblingRun:
    """One request (decode.draft.DraftRun). ``start``: the target's position of the answer's first token."""

    def __init__(self, drafter: SiblingDrafter, run: TargetRun, start: int) -> None:
        self.drafter, self.run, self.start = drafter, run, start
        self.token = 0  # the root, as the target calls it
        self.waiting: list[int] = []  # committed answer tokens that are not in the cache, as the sibling calls them
        self.lost = False  # the answer holds a word the sibling does not know

    def extend(self, tokens: Tensor, states: Tensor, positions: Tensor) -> None:
        """See decode.draft.DraftRun.extend; states and the prompt's text are not looked at, the sibling has its own."""
        said = tokens[positions >= self.start]
        if said.numel():
            self.token = int(said[-1])
            self.waiting += self.drafter.to_own[said].tolist()
            self.lost = self.lost or -1 in self.waiting

    @torch.inference_mode()
    def propose(self, shape: Shape) -> Draft:
        """See decode.draft.DraftRun.propose; nothing behind a word that the sibling does not know, or at its context's end."""
        began, run = time.perf_counter(), self.run
        levels = min(shape.depth, shape.nodes - 1, run.target.context - run.next_position - len(self.waiting))
        if self.lost or levels < 1:
            return root_only(self.token)
        if len(self.waiting) > 1:  # the root itself stays out: it is sent with every draft, like a target's
            chain = torch.arange(len(self.waiting) - 1)
            run.forward_tree(torch.tensor(self.waiting[:-1]), chain - 1, chain)
            run.commit(range(len(chain)))
            del self.waiting[:-1]
        committed = run.cache.committed
        try:
            return self._grow(levels, shape, began)
        finally:
            run.cache.rewind(committed)

    def _grow(self, levels: int, shape: Shape, began: float) -> Draft:
        """EAGLE-2 growth: per level the best ``width`` states get ``width`` children each; then the best of all candidates."""
        drafter, device = self.drafter, self.run.target.device
        width = min(shape.width, self.run.target.vocab_size)
        log = self._level(torch.tensor([self.waiting[-1]], device=device), 0, torch.zeros(1, 0, device=device))
        best = log.topk(width)
        tokens, logps, parents = [best.indices[0]], [best.values[0]], [torch.zeros(width, dtype=torch.int64, device=device)]
        scores, depths, made = [best.values[0]], [1] * width, width
        frontier, total = best.indices[0], best.values[0]
        numbers = torch.arange(1, width + 1, device=device)  # of the frontier's candidates
        seen = torch.zeros(width, 1, device=device)  # (k, speculative slots): 0 where a node sees, here the root
        apart = torch.full((width, width), -torch.inf, device=device).fill_diagonal_(0)
        for depth in range(1, levels):
            best = self._level(frontier, depth, seen).topk(width)  # (k, k)
            seen = torch.cat([seen, apart], 1)
            sums = (total[:, None] + best.values).view(-1)
            tokens.append(best.indices.view(-1))
            logps.append(best.values.view(-1))
            scores.append(sums)
            parents.append(numbers.repeat_interleave(width))
            depths += [depth + 1] * len(sums)
            total, chosen = sums.topk(width)
            frontier, numbers = tokens[-1][chosen], chosen + made + 1
            seen, made = seen[chosen // width], made + len(sums)
        token, logp, score, parent = (torch.cat(part) for part in (tokens, logps, scores, parents))
        usable = int((score > -torch.inf).sum())
        kept = score.sort(descending=True, stable=True).indices[: min(shape.nodes - 1, usable)].sort().values
        place = torch.zeros(len(token) + 1, dtype=torch.int64, device=device)
        place[kept + 1] = torch.arange(1, len(kept) + 1, device=device)
        return Draft(
            tokens=torch.cat([torch.tensor([self.token]), drafter.to_target[token[kept]].cpu()]),
            parents=torch.cat([torch.tensor([-1]), place[parent[kept]].cpu()]),
            depths=torch.cat([torch.tensor([0]), torch.tensor(depths)[kept.cpu()]]),
            logp=torch.cat([torch.zeros(1), logp[kept].float().cpu()]),
            pruned=len(token) - len(kept),
            draft_ms=(time.perf_counter() - began) * 1e3,
        )

    def _level(self, tokens: Tensor, depth: int, seen: Tensor) -> Tensor:
        """(n, V) log-probabilities behind (n,) nodes of one depth, whose keys stay in the cache until the round is over.

        seen: (n, speculative slots) 0 or -inf; a node also sees all that is committed, and itself.
        """
        target, cache, count = self.run.target, self.run.cache, tokens.shape[0]
        dtype, behind = target.embedding.dtype, cache.committed - seen.shape[1]
        mask = torch.full((count, cache.committed + count), torch.finfo(dtype).min, dtype=dtype, device=target.device)
        mask[:, :behind] = 0
        mask[:, behind : cache.committed].masked_fill_(seen == 0, 0)
        mask[:, cache.committed :].fill_diagonal_(0)
        at = self.run.next_position - seen.shape[1] + depth
        positions = torch.full((count,), at, dtype=torch.int64, device=target.device)
        states = target.backbone.forward(F.embedding(tokens, target.embedding), positions, mask[None, None], cache)
        cache.commit(range(count))
        return (target.logits(states).float() + self.drafter.unknown).log_softmax(-1)
