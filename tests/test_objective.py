"""The drafter's objective, FOVEA eq 10-19, term by term and its gradient."""

import math

import pytest
import torch
import torch.nn.functional as F

from fovea_core.train.loss import LossWeights, Truth, fovea_loss, hidden_loss, kl_loss, step_weights, token_loss


def random_rows(count=7, vocabulary=12, size=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    logits, truth = (torch.randn(count, vocabulary, generator=draw) * 2 for _ in range(2))
    return logits, truth, torch.randint(vocabulary, (count,), generator=draw), torch.randn(4, count, size, generator=draw)


def test_token_loss_by_hand():
    """CE and softplus(m - (z_y - K_c-th largest among the others)) for each row by sorting; labels of every rank occur."""
    logits, _, labels, _ = random_rows(60)
    loss, hits = token_loss(logits, logits.logsumexp(-1), labels, LossWeights())
    ranks = set()
    for row in range(60):
        z, y = logits[row], int(labels[row])
        others = sorted((float(v) for i, v in enumerate(z) if i != y), reverse=True)
        ranks.add(sum(float(v) > float(z[y]) for v in z))
        gamma = float(z[y]) - others[5]
        expected = 1.5 * F.cross_entropy(z[None], labels[row : row + 1]) + 0.5 * math.log1p(math.exp(0.5 - gamma))
        assert float(loss[row]) == pytest.approx(float(expected), rel=1e-5)
        assert bool(hits[row]) == (int(z.argmax()) == y)
    assert {0, 5, 6, 7} <= ranks


def test_kl_is_summed_over_the_vocabulary():
    logits, truth_logits, _, _ = random_rows()
    log_p = torch.log_softmax(truth_logits, -1)
    expected = F.kl_div(torch.log_softmax(logits, -1), log_p, log_target=True, reduction="none").sum(-1)
    negentropy = (log_p.exp() * log_p).sum(-1)
    torch.testing.assert_close(kl_loss(logits, logits.logsumexp(-1), log_p.exp(), negentropy), expected)
    same = kl_loss(truth_logits, truth_logits.logsumexp(-1), log_p.exp(), negentropy)
    assert (same.abs() < 1e-5).all()


def test_hidden_loss_by_hand():
    _, _, _, (a, b, c, d) = random_rows()
    expected = ((a - b) ** 2).sum(-1) / 5 + 0.1 * ((c - d) ** 2).sum(-1) / 5
    torch.testing.assert_close(hidden_loss(a, b, c, d, LossWeights(relative=False)), expected)
    scaled = ((a - b) ** 2).mean(-1) / (b**2).mean() + 0.1 * ((c - d) ** 2).mean(-1) / (d**2).mean()
    torch.testing.assert_close(hidden_loss(a, b, c, d, LossWeights()), scaled)


def test_weights_by_unroll_step_and_literally():
    """gamma = 1 gives step 4 a weight of 0.05; the literal reading counts answer positions instead."""
    step, position = torch.tensor([1, 2, 4]), torch.tensor([9, 1, 2])
    assert step_weights(step, position, LossWeights(gamma=1.0)).tolist() == pytest.approx([1, math.exp(-1), math.exp(-3)])
    literal = step_weights(step, position, LossWeights(gamma=1.0, literal=True))
    assert literal.tolist() == pytest.approx([math.exp(-8), 1, math.exp(-1)])


def test_objective_and_its_gradient_by_plain_autograd(monkeypatch):
    """The chunked loss equals the weighted mean of its parts over whole arrays, its gradient what autograd makes of that."""
    monkeypatch.setattr("fovea_core.train.loss.CHUNK", 3)
    _, truth_logits, labels, (a, b, c, d) = random_rows(7)
    head, item, weights = torch.randn(12, 5), torch.tensor([0, 0, 1, 2, 3, 4, 4]), LossWeights()
    step, position = torch.tensor([1, 2, 3, 1, 2, 1, 1]), torch.arange(7) + 1
    p = torch.softmax(truth_logits[:5], -1)
    truth = Truth(torch.arange(7), step, position, b, d, labels, item, p, (p * p.log()).sum(-1))
    scoring, middle = a.clone().requires_grad_(), c.clone().requires_grad_()
    parts = fovea_loss(scoring, middle, head, truth, weights)
    (3 * parts.total).backward()
    plain_scoring, plain_middle = a.clone().requires_grad_(), c.clone().requires_grad_()
    logits = plain_scoring @ head.t()
    total = logits.logsumexp(-1)
    w = step_weights(step, position, weights)
    rows = (
        hidden_loss(plain_scoring, b, plain_middle, d, weights)
        + 0.2 * kl_loss(logits, total, p[item], (p * p.log()).sum(-1)[item])
        + token_loss(logits, total, labels, weights)[0]
    )
    expected = (w * rows).sum() / w.sum()
    (3 * expected).backward()
    torch.testing.assert_close(parts.total, expected)
    torch.testing.assert_close(scoring.grad, plain_scoring.grad)
    torch.testing.assert_close(middle.grad, plain_middle.grad)
    assert torch.equal(parts.hits, logits.argmax(-1) == labels)
