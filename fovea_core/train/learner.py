"""What the embedded target learns from: its recipe, its shape, packed batches, and the two losses."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

from fovea_core.train.data import COLOURS, MARKS, NOUNS, Sample
from fovea_core.train.grounding import grounding_loss
from fovea_core.train.growing import grown_layers
from fovea_core.train.tokenizer import ANSWER, ASK, BOS, EOS, IMAGE, PAD
from fovea_core.worksite.naming import looks_up

IMAGE_SIZE, PATCH = 224, 16
CELLS = IMAGE_SIZE // PATCH
PREPROCESSING = {"image_size": IMAGE_SIZE, "cells": CELLS, "mean": 0.5, "std": 0.5, "fill": 128}
#: Answers of at most so many tokens, EOS included, are short.
SHORT = 8
#: Width of the three dense targets of a cell: noun, colour, mark, each with a 'nothing' class.
DENSE = (len(NOUNS) + 1, len(COLOURS) + 1, len(MARKS) + 1)


@dataclass(frozen=True)
class TargetRecipe:
    """Everything that decides a target training besides the pictures. ``samples`` counts pictures, not questions.

    lookup_share: share of the pictures that bring only questions that look something up; lookup_codes: also those that name it
    by a code, not only by a word; grown_from: layers of the target that training starts from, the others are new and only
    they learn (0: everything learns); ground_weight: of the loss of train/grounding.py.
    """

    width: int = 256
    layers: int = 10
    grown_from: int = 0
    intermediate: int = 704
    tower_layers: int = 6
    tower_intermediate: int = 768
    batch: int = 16
    samples: int = 40_000
    tower_samples: int = 9_600
    warmup: int = 480
    decay_share: float = 0.3
    lr: float = 1.5e-3
    muon_lr: float = 5e-3
    clip: float = 1.0
    dense_weight: float = 1.0
    least_long: int = 1
    long_questions: int = 2
    short_questions: int = 6
    short_weight: float = 2.0
    lookup_share: float = 0.0
    lookup_codes: bool = True
    ground_weight: float = 0.0
    text_tokens: int = 176
    shares: dict = field(default_factory=lambda: {"scene": 0.4, "text": 0.25, "chart": 0.35})
    seed: int = 0

    def onward(self) -> TargetRecipe:
        """The recipe for weights that are trained already: no tower-first phase, a lower rate, a longer decay; a quarter of the
        pictures bring only questions that look something up, and a third of the others only short ones (beside long ones few
        of them fit, and they stayed behind)."""
        return replace(self, tower_samples=0, muon_lr=4e-3, decay_share=0.6, least_long=0, short_questions=8, lookup_share=0.25)


def growing(recipe: TargetRecipe, layers: int) -> TargetRecipe:
    """The recipe for a finished target that grows to ``layers`` layers for look-ups: only the new ones learn, and words that
    name something are taught where to look (docs/LOG.md, fifth sitting). Raises ValueError where it cannot grow so."""
    grown_layers(recipe.layers, layers)
    look = {"lookup_share": 0.6, "lookup_codes": False, "ground_weight": 0.3, "dense_weight": 0.0}
    size = {"batch": 8, "text_tokens": 352, "short_questions": 10, "warmup": 400, "decay_share": 0.7}
    return replace(recipe.onward(), layers=layers, grown_from=recipe.layers, **look, **size)


def build_target(recipe: TargetRecipe, vocabulary: int) -> LlavaForConditionalGeneration:
    """A fresh target of transformers' own classes, float32."""
    torch.manual_seed(recipe.seed)
    tower = SiglipVisionConfig(
        hidden_size=recipe.width,
        num_hidden_layers=recipe.tower_layers,
        num_attention_heads=recipe.width // 64,
        intermediate_size=recipe.tower_intermediate,
        image_size=IMAGE_SIZE,
        patch_size=PATCH,
        vision_use_head=False,
    )
    text = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.width // 64,
        num_key_value_heads=recipe.width // 64,
        intermediate_size=recipe.intermediate,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    config = LlavaConfig(
        vision_config=tower,
        text_config=text,
        image_token_id=IMAGE,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        image_seq_length=CELLS**2,
        tie_word_embeddings=True,
    )
    return LlavaForConditionalGeneration(config)


@dataclass(frozen=True)
class Batch:
    """One packed batch of B pictures with T text tokens each, segments of a picture blind to each other.

    pixels (B, 3, 224, 224) float; tokens, positions, targets (B, T) int64 (targets -100 where nothing is learnt); weights (B,
    T) float, what a target counts for; segment (B, T) int64, 0 = padding; asking (B, T) bool, the words of questions that look
    something up; labels (B, 3, cells, cells) int64; valid (B, cells, cells) bool.
    """

    pixels: Tensor
    tokens: Tensor
    positions: Tensor
    targets: Tensor
    weights: Tensor
    segment: Tensor
    asking: Tensor
    labels: Tensor
    valid: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(*(getattr(self, f.name).to(device) for f in fields(self)))


def pick_questions(sample: Sample, recipe: TargetRecipe, rng: np.random.Generator) -> list[tuple[str, str]]:
    """A random few of a picture's questions: ``least_long`` to ``long_questions`` long ones, then others; in ``lookup_share``
    of the pictures instead all that look something up (worksite/naming.py), as far as they fit."""
    lookups = [(q, a) for q, a, t in sample.questions if t == "short" and looks_up(q, recipe.lookup_codes)]
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
    for asked in questions:
        tokens, positions, targets, weights, segment, asking = [], [], [], [], [], []
        for number, (question, answer) in enumerate(asked, start=1):
            ask = [ASK, *tokenizer.encode(question).ids, ANSWER]
            say = [*tokenizer.encode(answer).ids, EOS]
            ids = [*ask, *say]
            if length is not None and len(tokens) + len(ids) > length:
                continue
            tokens += ids
            positions += range(1 + CELLS**2, 1 + CELLS**2 + len(ids))
            targets += [-100] * (len(ask) - 1) + say + [-100]
            weights += [short_weight if len(say) <= SHORT else 1.0] * len(ids)
            segment += [number] * len(ids)
            asking += [looks_up(question)] * len(ask) + [False] * len(say)
        rows.append((tokens, positions, targets, weights, segment, asking))
    longest = length or max(len(row[0]) for row in rows)
    padded = [
        torch.tensor([row[part] + [fill] * (longest - len(row[part])) for row in rows])
        for part, fill in enumerate((PAD, 0, -100, 0.0, 0, False))
    ]
    return Batch(
        normalise(np.stack([s.pixels for s in samples])),
        *padded,
        torch.from_numpy(np.stack([s.labels for s in samples]).astype(np.int64)),
        torch.from_numpy(np.stack([s.valid for s in samples])),
    )


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


class Learner(nn.Module):
    """The target plus the dense head that teaches its tower; the head is dropped when training ends."""

    def __init__(self, model: LlavaForConditionalGeneration) -> None:
        super().__init__()
        self.model = model
        self.dense = nn.Linear(model.config.text_config.hidden_size, sum(DENSE))

    def features(self, pixels: Tensor) -> Tensor:
        """(B, N, d) image tokens after tower and projector."""
        inner = self.model.model
        seen = inner.vision_tower(pixel_values=pixels, output_hidden_states=True).hidden_states[-1]
        return inner.multi_modal_projector(seen)

    def dense_loss(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of noun, colour and mark per valid cell ('nothing' weighs a third); and the accuracy of each."""
        parts = self.dense(features).float().split(DENSE, dim=-1)
        losses, right = [], []
        for part, label in zip(parts, batch.labels.flatten(2).unbind(1), strict=True):
            weight = torch.where(label > 0, 1.0, 0.33) * batch.valid.flatten(1)
            loss = F.cross_entropy(part.flatten(0, 1), label.flatten(), reduction="none")
            losses.append((loss * weight.flatten()).sum() / weight.sum())
            named = label > 0
            right.append((part.argmax(-1) == label)[named].float().mean())
        return torch.stack(losses).sum(), torch.stack(right).detach()

    def ground_loss(self, features: Tensor, batch: Batch, names: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and attention of words that see what they name (train/grounding.py); ``names``: its name_table."""
        inputs, positions, mask = self._inputs(features, batch)
        language = self.model.model.language_model
        return grounding_loss(language, inputs, positions, mask, batch.tokens, batch.asking, batch.labels, names)

    def _inputs(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings (B, S, d) of BOS, image and text, their position ids (B, S) and mask (B, 1, S, S)."""
        embed, rows = self.model.model.language_model.embed_tokens, features.shape[0]
        text = embed(batch.tokens)
        first = embed(torch.full((rows, 1), BOS, device=features.device))
        inputs = torch.cat([first, features.to(text.dtype), text], 1)
        image = 1 + features.shape[1]
        positions = torch.cat([torch.arange(image, device=features.device).expand(rows, -1), batch.positions], 1)
        return inputs, positions, packed_mask(batch.segment, image)

    def answer_loss(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Weighted cross-entropy per answer token, and (B,) share of answer tokens right (teacher-forced)."""
        inputs, positions, mask = self._inputs(features, batch)
        language = self.model.model.language_model
        hidden = language(inputs_embeds=inputs, attention_mask=mask, position_ids=positions, use_cache=False)
        hidden = hidden.last_hidden_state[:, -batch.tokens.shape[1] :]
        learnt = batch.targets >= 0
        logits = F.linear(hidden[learnt], self.model.lm_head.weight).float()
        targets = batch.targets[learnt]
        right = torch.zeros(learnt.shape, device=learnt.device)
        right.masked_scatter_(learnt, (logits.argmax(-1) == targets).float())
        weights = batch.weights[learnt]
        loss = (F.cross_entropy(logits, targets, reduction="none") * weights).sum() / weights.sum()
        return loss, right.sum(1) / learnt.sum(1)
