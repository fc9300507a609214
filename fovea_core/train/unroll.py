"""The drafter's forward in training: every answer item starts a draft of D steps, with attention as it will be at inference.

Step 1 sees the true target states. Step s feeds the drafter's own RMSNorm(h), uncorrected, of step s - 1 together with the
next token of the target's answer; it attends the items up to its base with their true states, and the drafted items of its
own base. For bases 1 and 2 of items 0..2 (columns: true items | own step 2 | own step 3), step 3 sees

    base 1    0 0 . | own 0 | own 0
    base 2    0 0 0 | own 0 | own 0

A rival's image items stand in front of the true ones and are seen by all of them; what it reads, it reads at the states that
score (drafter.rival).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from fovea_core.drafter.model import Drafter
from fovea_core.drafter.rival import Given, RivalDrafter
from fovea_core.train.samples import Batch

#: From the target's next tokens (B, A) and the states (B, A, d) that score them to the tokens that are fed.
Feed = Callable[[Tensor, Tensor], Tensor]
#: From a rival's root states (B, A, d) and what it is given to what it is given for their rounds.
Settle = Callable[[Tensor, Given], Given]


def unroll(
    drafter: Drafter,
    batch: Batch,
    steps: int,
    given: Given | None = None,
    settle: Settle | None = None,
    feed: Feed | None = None,
) -> tuple[Tensor, Tensor]:
    """States of all steps, both (B, steps, A, d): h, the last block's output before the final norm, and the first block's.

    Row [b, s, a] stands for item base[b, a] + s of the answer at depth s (s from 0); where that item does not exist the row
    is of no meaning (``supervised`` says so). given: of a rival (RivalDrafter.given), settled by ``settle`` (its own way, where
    none is named); feed: tokens other than the target's.
    """
    rows, bases = batch.base.shape
    length, pick = batch.tokens.shape[1], batch.base.unsqueeze(-1)  # (B, A, 1)
    x, first, stored = _teacher(drafter, batch, given)
    root = x.gather(1, pick.expand(-1, -1, x.shape[-1]))  # (B, A, d)
    rival = drafter if isinstance(drafter, RivalDrafter) else None
    if rival:
        given = (settle or rival.settle)(root, given)
    states = [rival.look(root, given) if rival else root]
    mids = [first.gather(1, pick.expand(-1, -1, x.shape[-1]))]
    seen = torch.arange(length, device=x.device) <= pick  # (B, A, T)
    if given and given.ahead is not None:
        seen = torch.cat((given.ahead_ok[:, None].expand(-1, bases, -1), seen), -1)  # (B, A, P + T)
    mask = torch.zeros(rows, 1, *seen.shape[1:], device=x.device, dtype=x.dtype).masked_fill_(~seen[:, None], -math.inf)
    own: list[list[tuple[Tensor, Tensor]]] = [[] for _ in drafter.blocks]
    for step in range(1, steps):
        items = (batch.base + step).clamp_max(length - 1)
        tokens = batch.tokens.gather(1, items)
        x = drafter.onward(tokens if feed is None else feed(tokens, states[-1]), states)
        x = x + given.added if given and given.added is not None else x
        rope = drafter.rope(batch.positions.gather(1, items))
        for number, block in enumerate(drafter.blocks):
            q, k, v = block.project(x, rope)
            own[number].append((_spread(k, block), _spread(v, block)))
            x = block.finish(x, _attend(q.transpose(1, 2), *stored[number], mask, own[number]).transpose(1, 2))
            if number == 0:
                mids.append(x)
        states.append(rival.look(x, given) if rival else x)
    return torch.stack(states, 1), torch.stack(mids, 1)


def _teacher(drafter: Drafter, batch: Batch, given: Given | None = None) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Step 1 over all items: last block's and first block's output (B, T, d), and each block's keys and values, those of image
    items (P) in front."""
    x, positions, mask, ahead = drafter.fuse(batch.tokens, batch.states), batch.positions, None, 0
    x = x + given.added if given and given.added is not None else x
    if given and given.ahead is not None:
        ahead, length = given.ahead.shape[1], given.ahead.shape[1] + x.shape[1]
        x, positions = torch.cat((given.ahead.to(x.dtype), x), 1), torch.cat((given.ahead_at, positions), 1)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril_()[None].repeat(x.shape[0], 1, 1)
        mask[:, :, :ahead] &= given.ahead_ok[:, None]
        mask = (mask | torch.eye(length, dtype=torch.bool, device=x.device))[:, None]  # padding sees at least itself
    rope = drafter.rope(positions)
    first, stored = x, []
    for number, block in enumerate(drafter.blocks):
        q, k, v = block.project(x, rope)
        k, v = _spread(k, block), _spread(v, block)
        stored.append((k, v))
        context = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=mask, is_causal=mask is None)
        x = block.finish(x, context.transpose(1, 2))
        first = x if number == 0 else first
    return x[:, ahead:], first[:, ahead:], stored


def _spread(part: Tensor, block) -> Tensor:
    """(B, n, kv_heads, head_dim) to (B, heads, n, head_dim), shared heads repeated."""
    return part.transpose(1, 2).repeat_interleave(block.heads // block.kv_heads, 1)


def _attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, own: list[tuple[Tensor, Tensor]]) -> Tensor:
    """(B, heads, A, head_dim) queries over the true items (masked) and each base's own drafted items."""
    q, length = q * q.shape[-1] ** -0.5, keys.shape[2]
    scores = q @ keys.transpose(-1, -2) + mask  # (B, heads, A, T)
    drafted = [(q * k).sum(-1, keepdim=True) for k, _ in own]
    weights = torch.softmax(torch.cat((scores, *drafted), -1), -1)
    context = weights[..., :length] @ values
    for place, (_, v) in enumerate(own):
        context = context + weights[..., length + place : length + place + 1] * v
    return context


def supervised(batch: Batch, steps: int) -> Tensor:
    """(B, steps, A) bool: where item base + s exists and the target said what follows it."""
    ahead = batch.base[:, None] + torch.arange(steps, device=batch.base.device)[None, :, None]
    return batch.real[:, None] & (ahead + 1 < batch.ends[:, None, None])
