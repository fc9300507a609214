"""Who sees whom in the forward over a draft tree."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def tree_mask(parents: Tensor, committed: int, dtype: torch.dtype, levels: int | None = None) -> Tensor:
    """(1, 1, n, committed + n) additive mask: 0 where a node sees, the most negative number where it does not.

    Additive because a boolean mask is silently wrong under eager attention. For parents (-1, 0, 0, 1) behind one token:

        0 0 . . .
        0 0 0 . .
        0 0 . 0 .
        0 0 0 . 0

    Made on the host, or with ``levels``, which no node is deeper than, where ``parents`` lie and without reading them.
    Raises ValueError where a parent does not stand before its child, if they are read.
    """
    count = parents.shape[0]
    if levels is not None:
        seen = ancestors(parents, levels)
        behind = torch.zeros(count, count, dtype=dtype, device=parents.device).masked_fill_(~seen, torch.finfo(dtype).min)
        return torch.cat([behind.new_zeros(count, committed), behind], 1)[None, None]
    tree = np.full((count, count), torch.finfo(dtype).min, np.float32)  # (nodes, nodes)
    for node, parent in enumerate(parents.tolist()):
        if parent >= node:
            raise ValueError(f"node {node} stands before its parent {parent}")
        if parent >= 0:
            tree[node] = tree[parent]
        tree[node, node] = 0
    mask = torch.zeros(1, 1, count, committed + count, dtype=dtype)
    mask[0, 0, :, committed:] = torch.from_numpy(tree)
    return mask


def ancestors(parents: Tensor, levels: int) -> Tensor:
    """(n,) parents of nodes at most ``levels`` deep to (n, n) bool: whether a node is another's ancestor or itself."""
    above = parents.clamp_min(0)  # from the root one comes to the root
    at, seen = above, torch.eye(parents.shape[0], dtype=torch.bool, device=parents.device)
    for _ in range(levels):
        seen.scatter_(1, at[:, None], True)
        at = above[at]
    return seen
