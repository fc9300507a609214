"""The FOVEA training objective (paper Table 5, eq 15-18): L = 1.0 L_hid + 0.2 L_KL + 1.0 L_tok, each a weighted mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class LossWeights:
    """The paper's factors: lambdas of the three parts, betas inside them, margin m and rank K_c of the competition term.

    ``gamma``: decay of w = exp(-(n - 1) / gamma); n is the step of the unroll, or with ``literal`` the position in the answer
    (as the paper's text reads, which would train on about four tokens a sample).
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


def step_weights(step: Tensor, position: Tensor, weights: LossWeights) -> Tensor:
    """w_n = exp(-(n - 1) / gamma) with n = step (from 1), or with ``literal`` n = position in the answer (from 1)."""
    n = position if weights.literal else step
    return torch.exp(-(n.to(torch.float32) - 1) / weights.gamma)


@dataclass(frozen=True)
class Parts:
    """What a loss is made of, scalars, and top-1 hits (M,) bool."""

    total: Tensor
    hidden: Tensor
    kl: Tensor
    token: Tensor
    hits: Tensor


def hidden_loss(scoring: Tensor, truth: Tensor, middle: Tensor, middle_truth: Tensor, weights: LossWeights) -> Tensor:
    """L_hid per row: beta_h |h^ - h^T|^2 / d + beta_mid |h~ - h~^T|^2 / d. All (M, d); returns (M,)."""
    last = (scoring.float() - truth).square().mean(-1)
    return weights.last * last + weights.middle * (middle.float() - middle_truth).square().mean(-1)


def kl_loss(logits: Tensor, log_total: Tensor, truth_logits: Tensor) -> Tensor:
    """L_KL per row: KL(p^T || p^D), summed over the vocabulary (averaging would make it vanish). (M, V), (M,), (M, V) to (M,).

    ``log_total`` = logsumexp of the logits, so that sum p^T log p^D needs no second (M, V) array of log-probabilities.
    """
    log_truth = torch.log_softmax(truth_logits, -1)
    truth = log_truth.exp()
    return (truth * (log_truth - logits)).sum(-1) + log_total


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


def fovea_loss(
    scoring: Tensor,
    logits: Tensor,
    middle: Tensor,
    truth: Tensor,
    truth_logits: Tensor,
    middle_truth: Tensor,
    labels: Tensor,
    w: Tensor,
    weights: LossWeights,
) -> Parts:
    """The whole objective over M supervised rows.

    scoring (M, d): h^ after the correction and the final norm; logits (M, V) = head h^; middle (M, d): block 1's output;
    truth (M, d): h^T after the target's final norm; truth_logits (M, V); middle_truth (M, d): h~^T; labels (M,): the target's
    argmax; w (M,).
    """
    logits = logits.float()
    log_total = torch.logsumexp(logits, -1)
    share = w / w.sum()
    token, hits = token_loss(logits, log_total, labels, weights)
    hidden = (share * hidden_loss(scoring, truth, middle, middle_truth, weights)).sum()
    kl = (share * kl_loss(logits, log_total, truth_logits)).sum()
    token = (share * token).sum()
    total = weights.hidden * hidden + weights.kl * kl + weights.token * token
    return Parts(total, hidden, kl, token, hits)
