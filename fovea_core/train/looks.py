"""An objective that the paper has not: a read is to fall where the target itself looked when it said the word.

The truth are the target's own looks (train.views). No mask enters it, but a target may have been taught by masks where to look
(train.grounding): then they reach the drafter by that way. It is off unless LossWeights.look says otherwise, and a row of the
Lab is trained with it, so that what it does stands beside its absence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fovea_core.memory.build import VisualMemory
from fovea_core.train.samples import Batch


def look_loss(memory: VisualMemory, states: Tensor, depth: Tensor, batch: Batch, rows: Tensor) -> Tensor:
    """-log of the mass that a read gives the entries at which the target aimed when it said the drafted word. (M,)

    states (B, steps, A, d): the last block's output; depth (steps A,); rows (M,) int64: supervised rows of the flattened
    (B, steps, A). A draft of step s (from 0) from base a proposes answer token a + s + 1; where nobody noted a look for that,
    at the answer's last token, the row has none: 0. Raises ValueError for a batch without looks.
    """
    if batch.view is None or batch.view.aimed is None:
        raise ValueError("these artifacts do not say where the target looked: make them with views.")
    steps, bases = states.shape[1:3]
    mass = torch.log_softmax(memory.scores(states.flatten(1, 2), depth), -1).flatten(0, 1)[rows]  # (M, N)
    after = rows % bases + rows // bases % steps + 1
    sample, noted = rows // (bases * steps), after.clamp_max(bases - 1)
    known = (after < bases) & batch.real[sample, noted]
    aimed = batch.view.aimed[sample, noted]  # (M, LOOKED)
    on_it = mass.gather(-1, aimed.clamp_min(0)).masked_fill(aimed < 0, -torch.inf).logsumexp(-1)
    return torch.where(known, -on_it, torch.zeros_like(on_it))
