"""The FOVEA training objective (paper Table 5, eq 15-18): L = 1.0 L_hid + 0.2 L_KL + 1.0 L_tok, each a weighted mean.

The parts that need logits are computed over a few hundred rows at a time together with their gradient: the head is frozen,
so nothing of a chunk's (rows, V) arrays is needed later, and they stay in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

#: Rows of logits at a time: 512 rows of a vocabulary of 2,000 are 4 MB.
CHUNK = 512


@dataclass(frozen=True)
class LossWeights:
    """The paper's factors: lambdas of the three parts, betas inside them, margin m and rank K_c of the competition term.

    ``gamma``: decay of w = exp(-(n - 1) / gamma); n is the step of the unroll, or with ``literal`` the position in the answer
    (as the paper's text reads, which would train on about four tokens a sample). ``relative`` measures L_hid in units of the
    target's own mean square state, so that lambda means the same for every target (ours has 28: L_hid drowned the rest).
    ``look``: of train.looks, which the paper has not.
    """

    hidden: float = 1.0
    kl: float = 0.2
    token: float = 1.0
    last: float = 1.0
    middle: float = 0.1
    entropy: float = 1.5
    compete: float = 0.5
    margin: float = 0.5
    rank: int = 6
    gamma: float = 2.0
    literal: bool = False
    relative: bool = True
    look: float = 0.0


def loss_for(blocks: int, look: float = 0.0) -> LossWeights:
    """The paper's weights for a drafter of so many blocks. With a single one h~ would be the state that scores: its part of
    L_hid is left out."""
    return LossWeights(look=look, middle=0.0) if blocks == 1 else LossWeights(look=look)


def step_weights(step: Tensor, position: Tensor, weights: LossWeights) -> Tensor:
    """w_n = exp(-(n - 1) / gamma) with n = step (from 1), or with ``literal`` n = position in the answer (from 1)."""
    n = position if weights.literal else step
    return torch.exp(-(n.to(torch.float32) - 1) / weights.gamma)


@dataclass(frozen=True)
class Truth:
    """What the target said at the M supervised rows of a batch; shared by the twins.

    rows (M,) int64 into the flattened (B, steps, A); step, position (M,) int64 from 1; states (M, d): h^T after the target's
    final norm; middle (M, d): h~^T; labels (M,) int64: its argmax; item (M,) int64 into ``probabilities`` (B A, V), p^T, and
    ``negentropy`` (B A,), sum p^T log p^T.
    """

    rows: Tensor
    step: Tensor
    position: Tensor
    states: Tensor
    middle: Tensor
    labels: Tensor
    item: Tensor
    probabilities: Tensor
    negentropy: Tensor


@dataclass(frozen=True)
class Parts:
    """What a loss is made of: ``total`` with a gradient, the three parts without, top-1 hits (M,) bool."""

    total: Tensor
    hidden: Tensor
    kl: Tensor
    token: Tensor
    hits: Tensor


def hidden_loss(scoring: Tensor, truth: Tensor, middle: Tensor, middle_truth: Tensor, weights: LossWeights) -> Tensor:
    """L_hid per row: beta_h |h^ - h^T|^2 / d + beta_mid |h~ - h~^T|^2 / d, each over the mean square of the true states where
    ``weights.relative``. All (M, d); returns (M,).
    """
    last = (scoring.float() - truth).square().mean(-1)
    mid = (middle.float() - middle_truth).square().mean(-1)
    if weights.relative:
        last, mid = last / truth.square().mean(), mid / middle_truth.square().mean()
    return weights.last * last + weights.middle * mid


def kl_loss(logits: Tensor, log_total: Tensor, truth: Tensor, negentropy: Tensor) -> Tensor:
    """L_KL per row: KL(p^T || p^D), summed over the vocabulary (averaging would make it vanish).

    logits (M, V); log_total (M,) their logsumexp; truth (M, V) p^T; negentropy (M,) sum p^T log p^T. Returns (M,).
    """
    return negentropy - (truth * logits).sum(-1) + log_total


def token_loss(logits: Tensor, log_total: Tensor, labels: Tensor, weights: LossWeights) -> tuple[Tensor, Tensor]:
    """L_tok per row (eq 15-18): beta_CE CE(y, p^D) + beta_cmp softplus(m - gamma_n); also the top-1 hits.

    gamma_n = z_y - (K_c-th largest logit among the others): with the K_c + 1 best at hand that is the last of them where y is
    among the K_c best, and the one before it elsewhere. Returns (M,), (M,) bool.
    """
    own = logits.gather(-1, labels[:, None])[:, 0]
    best = logits.topk(weights.rank + 1, -1)
    among = (best.indices[:, : weights.rank] == labels[:, None]).any(-1)
    rival = torch.where(among, best.values[:, weights.rank], best.values[:, weights.rank - 1])
    pushed = F.softplus(weights.margin - (own - rival))
    return weights.entropy * (log_total - own) + weights.compete * pushed, best.indices[:, 0] == labels


class _HeadLoss(torch.autograd.Function):
    """lambda_KL L_KL + lambda_tok L_tok of (M, d) scoring states, with its gradient computed on the way forward."""

    @staticmethod
    def forward(ctx, scoring: Tensor, head: Tensor, truth: Truth, share: Tensor, weights: LossWeights):
        gradient = torch.empty(scoring.shape, dtype=torch.float32, device=scoring.device)
        hits = torch.empty(scoring.shape[0], dtype=torch.bool, device=scoring.device)
        kl = token = torch.zeros((), device=scoring.device)
        for rows in torch.arange(scoring.shape[0], device=scoring.device).split(CHUNK):
            part = slice(int(rows[0]), int(rows[-1]) + 1)
            item, w = truth.item[part], share[part]
            logits = (scoring[part] @ head.t()).float().requires_grad_()
            with torch.enable_grad():
                log_total = torch.logsumexp(logits, -1)
                some_kl = (w * kl_loss(logits, log_total, truth.probabilities[item], truth.negentropy[item])).sum()
                rowwise, hits[part] = token_loss(logits, log_total, truth.labels[part], weights)
                some_token = (w * rowwise).sum()
                (slope,) = torch.autograd.grad(weights.kl * some_kl + weights.token * some_token, logits)
            gradient[part] = (slope.to(scoring.dtype) @ head).float()
            kl, token = kl + some_kl.detach(), token + some_token.detach()
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(kl, token, hits)
        return weights.kl * kl + weights.token * token, kl, token, hits

    @staticmethod
    def backward(ctx, outer, *_):
        (gradient,) = ctx.saved_tensors
        return outer * gradient, None, None, None, None


def fovea_loss(
    scoring: Tensor,
    middle: Tensor,
    head: Tensor,
    truth: Truth,
    weights: LossWeights,
    w: Tensor | None = None,
    looks: Tensor | None = None,
) -> Parts:
    """The whole objective over M supervised rows.

    scoring (M, d): h^ after the correction and the final norm, logits = head h^; middle (M, d): block 1's output; head (V, d);
    w (M,): weights of the rows other than those by step; looks (M,): train.looks.look_loss where ``weights.look`` is not 0.
    """
    w = step_weights(truth.step, truth.position, weights) if w is None else w
    share = w / w.sum()
    hidden = (share * hidden_loss(scoring, truth.states, middle, truth.middle, weights)).sum()
    judged, kl, token, hits = _HeadLoss.apply(scoring, head.to(scoring.dtype), truth, share, weights)
    total = weights.hidden * hidden + judged
    if looks is not None:
        total = total + weights.look * (share * looks).sum()
    return Parts(total, hidden.detach(), kl, token, hits)
