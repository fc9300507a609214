"""Batches of the embedded target's training: several questions of a picture packed behind one copy of its image tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from fovea_core.train.data import Sample
from fovea_core.train.tokenizer import ANSWER, ASK, EOS, PAD
from fovea_core.worksite.naming import looks_up

if TYPE_CHECKING:
    from fovea_core.train.learner import TargetRecipe

IMAGE_SIZE, CELLS = 224, 14
#: Answers of at most so many tokens, EOS included, are short.
SHORT = 8


@dataclass(frozen=True)
class Batch:
    """One packed batch of B pictures with T text tokens each, segments of a picture blind to each other.

    pixels (B, 3, 224, 224) float; tokens, positions, targets (B, T) int64 (targets -100 where nothing is learnt); weights (B,
    T) float, what a target counts for; segment (B, T) int64, 0 = padding; asking (B, T) bool, the words of questions that look
    something up; shown (B, T) int64, number of the thing that shows what the next token states, 0 = none; labels (B, 9, cells,
    cells), things (B, 3, cells, cells) int64 (train/labels.py); valid (B, cells, cells) bool.
    """

    pixels: Tensor
    tokens: Tensor
    positions: Tensor
    targets: Tensor
    weights: Tensor
    segment: Tensor
    asking: Tensor
    shown: Tensor
    labels: Tensor
    things: Tensor
    valid: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(*(getattr(self, f.name).to(device) for f in fields(self)))


def pick_questions(sample: Sample, recipe: TargetRecipe, rng: np.random.Generator) -> list[tuple[str, str]]:
    """A random few of a picture's questions: ``least_long`` to ``long_questions`` long ones, then others; in ``lookup_share``
    of the pictures instead all that look something up (worksite/naming.py), as far as they fit."""
    lookups = [(q, a) for q, a, t in sample.questions if t == "short" and looks_up(q)]
    if rng.random() < recipe.lookup_share and lookups:
        return [lookups[i] for i in rng.permutation(len(lookups))]
    chosen = []
    for long, most in ((True, rng.integers(recipe.least_long, recipe.long_questions + 1)), (False, recipe.short_questions)):
        pool = [(q, a) for q, a, t in sample.questions if (t == "long") is long]
        chosen += [pool[i] for i in rng.permutation(len(pool))[:most]]
    return chosen


def normalise(pixels: np.ndarray) -> Tensor:
    """(B, size, size, 3) uint8 to (B, 3, size, size) float32 in -1..1."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def pack(
    samples: list[Sample],
    questions: list[list[tuple[str, str]]],
    tokenizer: Tokenizer,
    length: int | None = None,
    short_weight: float = 1.0,
) -> Batch:
    """Pack each picture's questions into one row; position ids of every question restart behind the image.

    Tokens of answers up to ``SHORT`` tokens count ``short_weight`` times. With ``length`` every row has that many text tokens
    and questions that no longer fit are left out, so that all batches have one shape (torch.compile compiles once).
    """
    rows = []
    for sample, asked in zip(samples, questions, strict=True):
        tokens, positions, targets, weights, segment, asking, shown = [], [], [], [], [], [], []
        for number, (question, answer) in enumerate(asked, start=1):
            ask, stated = [ASK, *tokenizer.encode(question).ids, ANSWER], tokenizer.encode(answer)
            say = [*stated.ids, EOS]
            ids = [*ask, *say]
            if length is not None and len(tokens) + len(ids) > length:
                continue
            tokens += ids
            positions += range(1 + CELLS**2, 1 + CELLS**2 + len(ids))
            targets += [-100] * (len(ask) - 1) + say + [-100]
            weights += [short_weight if len(say) <= SHORT else 1.0] * len(ids)
            segment += [number] * len(ids)
            asking += [looks_up(question)] * len(ask) + [False] * len(say)
            facts = sample.facts.get(question, ())
            shown += [0] * (len(ask) - 1) + [_thing_at(*place, facts) for place in stated.offsets] + [0, 0]
        rows.append((tokens, positions, targets, weights, segment, asking, shown))
    longest = length or max(len(row[0]) for row in rows)
    padded = [
        torch.tensor([row[part] + [fill] * (longest - len(row[part])) for row in rows])
        for part, fill in enumerate((PAD, 0, -100, 0.0, 0, False, 0))
    ]
    return Batch(
        normalise(np.stack([s.pixels for s in samples])),
        *padded,
        *(torch.from_numpy(np.stack(part).astype(np.int64)) for part in zip(*((s.labels, s.things) for s in samples))),
        torch.from_numpy(np.stack([s.valid for s in samples])),
    )


def _thing_at(start: int, end: int, facts: list[tuple[int, int, int]]) -> int:
    """Number of the thing that shows the fact which the characters from ``start`` to ``end`` state, 0 where they state none."""
    return next((number for first, last, number in facts if start < last and end > first), 0)


def packed_mask(segment: Tensor, image: int) -> Tensor:
    """(B, 1, S, S) additive float mask, S = image + T: causal image tokens, each segment sees them and its own past.

    For two segments of one token behind two image tokens:   0  .  .  .
                                                             0  0  .  .
                                                             0  0  0  .
                                                             0  0  .  0
    """
    rows, length = segment.shape
    size = image + length
    allowed = torch.ones(size, size, dtype=torch.bool, device=segment.device).tril().repeat(rows, 1, 1)
    own = (segment[:, :, None] == segment[:, None, :]) & (segment > 0)[:, :, None]
    allowed[:, image:, image:] &= own | torch.eye(length, dtype=torch.bool, device=segment.device)
    mask = torch.zeros(rows, 1, size, size, device=segment.device)
    return mask.masked_fill_(~allowed[:, None], torch.finfo(torch.float32).min)
