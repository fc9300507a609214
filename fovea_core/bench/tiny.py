"""Tiny random models of the hub's families: transformers' own classes, processors with explicit sizes, a tokenizer made here.

Nothing is downloaded. The chat templates have the structure of the families' own (control tokens, roles, where the picture
stands), in words of this project.
"""

from __future__ import annotations

import json
from functools import lru_cache

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    CLIPVisionConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from fovea_core.targets.llava_next import LlavaNextTarget
from fovea_core.targets.qwen2_5_vl import Qwen25VLTarget
from fovea_core.targets.smolvlm import Idefics3Target, SmolVLMTarget

WIDTH = 48
CORPUS = (
    "what is in the picture? a red ball, a blue cone and a yellow hat stand left of the green box",
    "USER: describe it\nASSISTANT: the worker wears an orange jumpsuit and holds a blue hose. User: Assistant: system user",
)
#: One turn, as each family writes it: picture first, then the words.
TURN = (
    "{% for part in turn.content if part.type == 'image' %}PICTURE{% endfor %}"
    "{% for part in turn.content if part.type == 'text' %}{{ part.text }}{% endfor %}"
)
TEMPLATES = {
    "vicuna": "{% for turn in messages %}{{ turn.role | upper }}: "
    + TURN.replace("PICTURE", "<image>\n")
    + " {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}",
    "mistral": "{{ bos_token }}{% for turn in messages %}[INST] "
    + TURN.replace("PICTURE", "<image>\n")
    + " [/INST]{% endfor %}",
    "qwen": "<|im_start|>system\nwhat is left of the box<|im_end|>\n{% for turn in messages %}<|im_start|>{{ turn.role }}\n"
    + TURN.replace("PICTURE", "<|vision_start|><|image_pad|><|vision_end|>")
    + "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "smolvlm": "<|im_start|>{% for turn in messages %}{{ turn.role | capitalize }}:"
    + TURN.replace("PICTURE", "<image>")
    + "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}",
}
MARKS = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
SPECIALS = {
    "llama": ["<unk>", "<s>", "</s>", "<image>", "<pad>"],
    "qwen": [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    ],
    "smolvlm": [
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<fake_token_around_image>", "<image>", "<end_of_utterance>"),
        "<global-img>",
        *MARKS,
    ],
}


@lru_cache(maxsize=3)
def _tokenizer_text(kind: str) -> str:
    """Byte-level BPE, or for ``llama`` a SentencePiece-like one with byte fallback and a begin token."""
    words = SPECIALS[kind]
    if kind != "llama":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
        tokenizer.add_special_tokens([AddedToken(word, normalized=False, special=True) for word in words])
        return tokenizer.to_str()
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=[*words, *bytes_], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    kept = json.loads(tokenizer.to_str())
    kept["added_tokens"] = kept["added_tokens"][: len(words)]  # byte tokens are ordinary ones
    tokenizer = Tokenizer.from_str(json.dumps(kept))
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer.to_str()


def tokenizer_of(family: str) -> PreTrainedTokenizerFast:
    """A fast tokenizer with the family's special tokens and template."""
    kind = {"vicuna": "llama", "mistral": "llama", "idefics3": "smolvlm"}.get(family, family)
    names = {
        "llama": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        "qwen": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        "smolvlm": {"bos_token": "<|im_start|>", "eos_token": "<end_of_utterance>", "pad_token": "<|im_end|>"},
    }[kind]
    template = TEMPLATES["smolvlm" if family == "idefics3" else family]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_tokenizer_text(kind)),
        chat_template=template,
        clean_up_tokenization_spaces=False,
        **names,
    )


def _text(vocabulary: int, context: int) -> dict:
    return {
        "vocab_size": vocabulary,
        "hidden_size": WIDTH,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": context,
    }


def _llava_next(family: str, tokenizer, context: int, view_px: int = 24, patch_px: int = 6, text: dict | None = None):
    id_of = tokenizer.convert_tokens_to_ids
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=view_px,
        patch_size=patch_px,
    )
    kind = MistralConfig if family == "mistral" else LlamaConfig
    text = kind(
        **_text(len(tokenizer) + 4, context) | (text or {}),
        bos_token_id=1,
        eos_token_id=id_of("</s>"),
        pad_token_id=id_of("<pad>"),
        **({"sliding_window": None} if family == "mistral" else {}),
    )
    pinpoints = [[view_px * a, view_px * b] for a, b in ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))]
    config = LlavaNextConfig(
        vision_config=vision, text_config=text, image_token_index=id_of("<image>"), image_grid_pinpoints=pinpoints
    )
    processor = LlavaNextImageProcessorPil(
        size={"shortest_edge": view_px}, crop_size={"height": view_px, "width": view_px}, image_grid_pinpoints=pinpoints
    )
    return LlavaNextForConditionalGeneration, config, LlavaNextTarget, processor


def _qwen(
    family: str,
    tokenizer,
    context: int,
    patch_px: int = 4,
    least_px: int = 64 * 4,
    most_px: int = 64 * 90,
    text: dict | None = None,
):
    id_of = tokenizer.convert_tokens_to_ids
    vision = {
        "depth": 3,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "patch_size": patch_px,
        "window_size": 8 * patch_px,
        "fullatt_block_indexes": [2],
    }
    text = (
        _text(len(tokenizer) + 4, context)
        | {
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 2, 2]},
            "eos_token_id": id_of("<|im_end|>"),
            "bos_token_id": None,
        }
        | (text or {})
    )
    vision["out_hidden_size"] = text["hidden_size"]
    config = Qwen2_5_VLConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=id_of("<|image_pad|>"),
        video_token_id=id_of("<|video_pad|>"),
        vision_start_token_id=id_of("<|vision_start|>"),
        vision_end_token_id=id_of("<|vision_end|>"),
    )
    size = {"shortest_edge": least_px, "longest_edge": most_px}
    processor = Qwen2VLImageProcessorPil(patch_size=patch_px, merge_size=2, size=size)
    return Qwen2_5_VLForConditionalGeneration, config, Qwen25VLTarget, processor


def _smolvlm(family: str, tokenizer, context: int, tile_px: int = 24, patch_px: int = 4, scale: int = 2, tiles: int = 3):
    id_of = tokenizer.convert_tokens_to_ids
    vision = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": tile_px,
        "patch_size": patch_px,
    }
    text = LlamaConfig(
        **_text(len(tokenizer) + 4, context),
        bos_token_id=id_of("<|im_start|>"),
        eos_token_id=id_of("<end_of_utterance>"),
        pad_token_id=id_of("<|im_end|>"),
    )
    old = family == "idefics3"
    config = (Idefics3Config if old else SmolVLMConfig)(
        vision_config=vision, text_config=text, image_token_id=id_of("<image>"), scale_factor=scale
    )
    processor = (Idefics3ImageProcessorPil if old else SmolVLMImageProcessorPil)(
        size={"longest_edge": tiles * tile_px},
        max_image_size={"longest_edge": tile_px},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    kind = Idefics3ForConditionalGeneration if old else SmolVLMForConditionalGeneration
    return kind, config, Idefics3Target if old else SmolVLMTarget, processor


MAKERS = {"vicuna": _llava_next, "mistral": _llava_next, "qwen": _qwen, "smolvlm": _smolvlm, "idefics3": _smolvlm}
FAMILIES = tuple(MAKERS)


def tiny(family: str, seed: int = 0, context: int = 768, attention: str = "sdpa", spread: float = 0.3, **options):
    """A random target of ``family``, float32, hidden size 48; ``options`` change the family's own
    sizes; ``text``: those of its language model."""
    tokenizer = tokenizer_of(family)
    kind, config, target, processor = MAKERS[family](family, tokenizer, context, **options)
    config._attn_implementation = attention
    torch.manual_seed(seed)
    model = kind(config).eval().requires_grad_(False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.05 if "embed_tokens" in name else spread)
            elif "norm" not in name:
                weight.normal_(0, 0.1)  # biases and newlines start at values that hide mistakes
    return target(model, tokenizer, processor, id=f"tiny-{family}-{seed}")
