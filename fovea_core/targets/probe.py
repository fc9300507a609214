"""Whether a forward over a draft tree gives what each of its paths gives alone: here, in this dtype, with this attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from fovea_core.targets.base import Target, TargetError, TargetRun

#: Root, three siblings, two grandchildren of different parents.
PARENTS, DEPTHS = (-1, 0, 0, 0, 2, 3), (0, 1, 1, 1, 2, 2)
PATHS = ((0, 1), (0, 2, 4), (0, 3, 5))
#: Largest error in float32, per unit of the logits' size.
FLOAT32_ERROR = 1e-4


@dataclass(frozen=True)
class Capability:
    """What was measured, in logits: ``error`` of a tree against each path alone; ``block`` = a chain sent at once against one
    token at a time; ``blurred`` = the error of a mask in which siblings see each other; ``scale``: the largest logit."""

    attention: str
    dtype: torch.dtype
    error: float
    block: float
    blurred: float
    scale: float

    @property
    def holds(self) -> bool:
        """Float32 must agree to FLOAT32_ERROR. In half precision the backend itself differs between a block and single tokens:
        three times that is allowed (or the last digit), if siblings in sight of each other would do ten times the harm."""
        if self.dtype == torch.float32:
            return self.error <= FLOAT32_ERROR * max(1.0, self.scale)
        floor = torch.finfo(self.dtype).eps * self.scale
        return self.error <= max(3 * self.block, floor) and self.error <= self.blurred / 10


@torch.inference_mode()
def capability(target: Target) -> Capability:
    """Measure ``target`` as it is, behind a grey picture and a short question."""
    parents, depths = torch.tensor(PARENTS), torch.tensor(DEPTHS)
    tokens = (torch.arange(len(PARENTS)) * 7 + 11) % target.vocab_size
    run = target.prefill(Image.new("RGB", (64, 48), (128, 128, 128)), "?")
    length = run.cache.committed
    together = run.forward_tree(tokens, parents, depths)[0].float()
    blur = torch.zeros(1, 1, len(PARENTS), length + len(PARENTS), dtype=target.embedding.dtype, device=target.device)
    blurred = run.forward_masked(tokens, depths, blur)[0].float()
    error = mistake = 0.0
    for path in PATHS:
        alone = _one_by_one(run, tokens[list(path)], length)
        error = _worst(error, together[list(path)], alone)
        mistake = _worst(mistake, blurred[list(path)], alone)
    run.cache.rewind(length)
    chain = torch.arange(len(PARENTS))
    block = run.forward_tree(tokens, chain - 1, chain)[0].float()
    apart = _worst(0.0, block, _one_by_one(run, tokens, length))
    scale = float(run.logits.abs().max())
    return Capability(target.backbone.attention, target.embedding.dtype, error, apart, mistake, scale)


def probe(target: Target) -> Capability:
    """Make sure that ``target`` can check a draft tree, with another attention where its own cannot. Raises TargetError."""
    own = target.backbone.attention
    for name in (own, *({"sdpa", "eager"} - {own})):
        target.backbone.attention = name
        found = capability(target)
        if found.holds:
            return found
    target.backbone.attention = own
    if not math.isfinite(found.scale):
        dtype = str(target.embedding.dtype).removeprefix("torch.")
        raise TargetError(
            f"The numbers of the target {target.id} overflow in {dtype} here: choose --dtype bfloat16 or float32."
        )
    raise TargetError(
        f"The target {target.id} cannot check a draft tree here: in {str(target.embedding.dtype).removeprefix('torch.')} its "
        "attention gives other results for a tree than for each path alone, with sdpa as with eager."
    )


def _one_by_one(run: TargetRun, tokens: Tensor, length: int) -> Tensor:
    """(n, V) float32 logits behind each of (n,) tokens, sent one at a time behind the first ``length`` committed ones."""
    run.cache.rewind(length)
    rows, root = [], torch.tensor([0])
    for token in tokens:
        rows.append(run.forward_tree(token[None], root - 1, root)[0][0].float())
        run.commit([0])
    run.cache.rewind(length)
    return torch.stack(rows)


def _worst(so_far: float, one: Tensor, other: Tensor) -> float:
    """The larger error, infinite where anything is no number."""
    error = float((one - other).abs().max())
    return max(so_far, error) if math.isfinite(error) else math.inf
