"""What the embedded target is and learns by: its recipe, its shape and its losses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

from fovea_core.train.data import SIGNED
from fovea_core.train.grounding import grounding_loss, link_loss, look_loss, naming_words
from fovea_core.train.labels import SIZES
from fovea_core.train.packing import CELLS, IMAGE_SIZE, Batch, packed_mask
from fovea_core.train.tokenizer import BOS, EOS, IMAGE, PAD

PREPROCESSING = {"image_size": IMAGE_SIZE, "cells": CELLS, "mean": 0.5, "std": 0.5, "fill": 128}


@dataclass(frozen=True)
class TargetRecipe:
    """Everything that decides a target training besides the pictures. ``samples`` counts pictures, not questions.

    lookup_share: share of the pictures that bring only questions that look something up; dense_weight: of the loss of the
    cells' labels; ground_weight (names and links), look_weight: of the losses of train/grounding.py.
    """

    width: int = 256
    layers: int = 10
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
    ground_weight: float = 0.0
    look_weight: float = 0.0
    text_tokens: int = 176
    shares: dict = field(default_factory=lambda: {"scene": 0.4, "text": 0.25, "chart": 0.35})
    seed: int = 0

    def onward(self) -> TargetRecipe:
        """The recipe for weights that are trained already: no tower-first phase, a lower rate, a longer decay; where to look is
        taught, too. Nearly a third of the pictures bring only questions that look something up, and a third of the others only
        short ones (beside long ones few of them fit, and they stayed behind); most of those of writing show sign words
        (as drawn it is a quarter, and of them one in five was read wrong)."""
        rates = {"lr": 1.2e-3, "muon_lr": 3e-3, "decay_share": 0.65}
        shares = {"scene": 0.38, "text": 0.12, SIGNED: 0.16, "chart": 0.34}
        asked = {"least_long": 0, "short_questions": 10, "lookup_share": 0.3, "text_tokens": 192}
        return replace(self, tower_samples=0, ground_weight=0.3, look_weight=0.5, shares=shares, **rates, **asked)


def build_target(recipe: TargetRecipe, vocabulary: int) -> LlavaForConditionalGeneration:
    """A fresh target of transformers' own classes, float32."""
    torch.manual_seed(recipe.seed)
    tower = SiglipVisionConfig(
        hidden_size=recipe.width,
        num_hidden_layers=recipe.tower_layers,
        num_attention_heads=recipe.width // 64,
        intermediate_size=recipe.tower_intermediate,
        image_size=IMAGE_SIZE,
        patch_size=IMAGE_SIZE // CELLS,
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


class Read(NamedTuple):
    """A packed batch as the language model read it: positions (B, S), mask (B, 1, S, S) additive, the states (B, S, d) that
    enter each layer, the last ones normed."""

    positions: Tensor
    mask: Tensor
    entering: tuple[Tensor, ...]
    last: Tensor


class Learner(nn.Module):
    """The target plus the dense head that teaches its tower; the head is dropped when training ends."""

    def __init__(self, model: LlavaForConditionalGeneration) -> None:
        super().__init__()
        self.model = model
        self.dense = nn.Linear(model.config.text_config.hidden_size, sum(SIZES))
        layers = model.config.text_config.num_hidden_layers
        #: Their first heads are taught: answers heed the names in their question, then look at what they state next. The second
        #: is the layer from which on heads do so by themselves.
        self.link_layer, self.look_layer = layers // 5, layers // 2

    @property
    def language(self) -> nn.Module:
        """The language model."""
        return self.model.model.language_model

    def features(self, pixels: Tensor) -> Tensor:
        """(B, N, d) image tokens after tower and projector."""
        inner = self.model.model
        seen = inner.vision_tower(pixel_values=pixels, output_hidden_states=True).hidden_states[-1]
        return inner.multi_modal_projector(seen)

    def dense_loss(self, features: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the nine labels per valid cell ('nothing' weighs a third); and the accuracy of each."""
        parts = self.dense(features).float().split(SIZES, dim=-1)
        losses, right = [], []
        for part, label in zip(parts, batch.labels.flatten(2).unbind(1), strict=True):
            weight = torch.where(label > 0, 1.0, 0.33) * batch.valid.flatten(1)
            loss = F.cross_entropy(part.flatten(0, 1), label.flatten(), reduction="none")
            losses.append((loss * weight.flatten()).sum() / weight.sum())
            named = label > 0
            right.append((part.argmax(-1) == label)[named].float().mean())
        return torch.stack(losses).sum(), torch.stack(right).detach()

    def read(self, features: Tensor, batch: Batch) -> Read:
        """BOS, image and text through the language model, teacher-forced."""
        language, rows = self.language, features.shape[0]
        text = language.embed_tokens(batch.tokens)
        first = language.embed_tokens(torch.full((rows, 1), BOS, device=features.device))
        inputs = torch.cat([first, features.to(text.dtype), text], 1)
        image = 1 + features.shape[1]
        positions = torch.cat([torch.arange(image, device=features.device).expand(rows, -1), batch.positions], 1)
        mask = packed_mask(batch.segment, image)
        out = language(
            inputs_embeds=inputs, attention_mask=mask, position_ids=positions, use_cache=False, output_hidden_states=True
        )
        return Read(positions, mask, out.hidden_states[:-1], out.last_hidden_state)

    def answer_loss(self, read: Read, batch: Batch) -> tuple[Tensor, Tensor]:
        """Weighted cross-entropy per answer token, and (B,) share of answer tokens right (teacher-forced)."""
        hidden = read.last[:, -batch.tokens.shape[1] :]
        learnt = batch.targets >= 0
        logits = F.linear(hidden[learnt], self.model.lm_head.weight).float()
        targets = batch.targets[learnt]
        right = torch.zeros(learnt.shape, device=learnt.device)
        right.masked_scatter_(learnt, (logits.argmax(-1) == targets).float())
        weights = batch.weights[learnt]
        loss = (F.cross_entropy(logits, targets, reduction="none") * weights).sum() / weights.sum()
        return loss, right.sum(1) / learnt.sum(1)

    def ground_loss(self, read: Read, batch: Batch, names: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and attention of words that see what they name (train/grounding.py); ``names``: its name_table."""
        text = (batch.tokens, batch.asking, batch.labels)
        return grounding_loss(self.language, read.entering[0], read.positions, read.mask, *text, names)

    def link_loss(self, read: Read, batch: Batch, names: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and attention of answers that heed what their question names (train/grounding.py)."""
        naming, answering = naming_words(batch.tokens, batch.asking, names), batch.targets >= 0
        at = (self.link_layer, 0), read.entering[self.link_layer], read.positions, read.mask
        return link_loss(self.language, *at, naming, answering, batch.segment)

    def look_loss(self, read: Read, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss and attention of tokens that look at what they are about to state (train/grounding.py)."""
        at = (self.look_layer, 0), read.entering[self.look_layer], read.positions, read.mask
        return look_loss(self.language, *at, batch.shown, batch.things)
