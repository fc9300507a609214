"""A tiny random LLaVA with its tokenizer, and a random drafter for any target: transformers' own classes, float32, a seed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

from fovea_core.decode.draft import Drafter as Drafting
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.rival import TrainedRival
from fovea_core.drafter.checkpoint import make_drafter
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.drafter.rival import FUSING, KINDS, RivalConfig
from fovea_core.targets.base import Target
from fovea_core.targets.llava import ImageSettings, LlavaTarget
from fovea_core.targets.looking import look_layers

SPECIALS = ("<pad>", "<bos>", "<eos>", "<image>", "<ask>", "<answer>")
PAD, BOS, EOS, IMAGE, ASK, ANSWER = range(6)
CORPUS = (
    "what is in the picture? a red ball, a blue cone and a yellow hat stand left of the green box",
    "the worker wears an orange jumpsuit and a yellow hard hat and holds a blue hose",
)
CELLS, PATCH, WIDTH = 4, 8, 48


@lru_cache(maxsize=1)
def _tokenizer_json() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer.to_str()


def toy_tokenizer() -> Tokenizer:
    """A byte-level BPE of 320 entries; ids 0-5 are the control tokens of the embedded target."""
    return Tokenizer.from_str(_tokenizer_json())


def toy_model(
    seed: int = 0,
    *,
    layers: int = 3,
    kv_heads: int = 2,
    context: int = 512,
    attention: str = "sdpa",
    spread: float = 0.35,
    cells: int = CELLS,
):
    """A random LlavaForConditionalGeneration, float32, 16 image tokens, hidden size 48. ``spread``: standard deviation of its
    weights, large enough that argmax depends on picture, question and position."""
    torch.manual_seed(seed)
    vision = SiglipVisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=cells * PATCH,
        patch_size=PATCH,
        vision_use_head=False,
    )
    text = LlamaConfig(
        vocab_size=toy_tokenizer().get_vocab_size(),
        hidden_size=WIDTH,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=IMAGE,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        image_seq_length=cells**2,
        tie_word_embeddings=True,
    )
    config._attn_implementation = attention
    model = LlavaForConditionalGeneration(config).eval().requires_grad_(False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.05 if "embed_tokens" in name else spread)
    return model


def toy_target(seed: int = 0, cells: int = CELLS, **options) -> LlavaTarget:
    """``toy_model`` as a target; it has no fingerprint, so nothing about it is cached on disk."""
    image = ImageSettings(image_size=cells * PATCH, cells=cells)
    return LlavaTarget(toy_model(seed, cells=cells, **options), toy_tokenizer(), image, id=f"toy-{seed}")


def toy_drafter(target: Target, seed: int = 0, **changes) -> FoveaDrafter:
    """FOVEA's drafter with random weights on a toy target; ``changes`` go into its DrafterConfig."""
    if "memory_layer" in changes:
        target.keep(changes["memory_layer"])
    return FoveaDrafter(_random(DrafterConfig(**(_sizes(target) | changes)), target, seed))


def toy_rival(target: Target, kind: str, seed: int = 0) -> Drafting:
    """The rival ``kind`` (drafter.rival.KINDS) with random weights on a toy target, which is tapped where it fuses layers."""
    layers, settings = len(target.backbone.layers), KINDS[kind]
    wanted = _sizes(target) | {"taps": tuple(range(layers))[-2:] if kind in FUSING else ()}
    target.tap(wanted["taps"])
    if not settings:
        return FoveaDrafter(_random(DrafterConfig(**wanted, sighted=False), target, seed))
    mixed = len(look_layers(layers)) if settings.get("source") == "cells" else 0
    return TrainedRival(_random(RivalConfig(**wanted, kind=kind, layers=mixed, **settings), target, seed), kind)


def _sizes(target: Target) -> dict:
    """What a drafter's config has from a toy target."""
    config = target.model.config.text_config
    return {
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocab_size,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": target.backbone.head_size,
        "intermediate_size": config.intermediate_size,
        "correction_width": 24,
    }


def _random(config: DrafterConfig, target: Target, seed: int) -> Drafter:
    torch.manual_seed(seed)
    drafter = make_drafter(config)
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return drafter.attach(target.embedding, target.head).requires_grad_(False)


def toy_picture(seed: int = 0, width: int = 60, height: int = 40) -> Image.Image:
    """A picture of random blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)
