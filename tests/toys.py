"""A tiny random LLaVA with its tokenizer, and drafters that follow a script: what decoding tests run on.

Everything is real and small: transformers' own classes, float32, a fixed seed. ``reference_ids`` is the independent
reference: no cache, no code of ours but the prompt, the whole model run anew for every token.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.tree import Draft, chain
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.settings import RunSettings
from fovea_core.targets.llava import ImageSettings, LlavaTarget
from fovea_core.targets.pieces import Pieces
from fovea_core.trace.events import Shape

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


def toy_drafter(target: LlavaTarget, seed: int = 0, **changes) -> FoveaDrafter:
    """FOVEA's drafter with random weights on a toy target; ``changes`` go into its DrafterConfig."""
    config = target.model.config.text_config
    wanted = {
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocab_size,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": target.backbone.head_size,
        "intermediate_size": config.intermediate_size,
        "correction_width": 24,
    }
    torch.manual_seed(seed)
    drafter = Drafter(DrafterConfig(**(wanted | changes)))
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return FoveaDrafter(drafter.attach(target.embedding, target.head).requires_grad_(False))


def toy_picture(seed: int = 0, width: int = 60, height: int = 40) -> Image.Image:
    """A picture of random blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


def ending_with(target: LlavaTarget, *tokens: int) -> LlavaTarget:
    """The same target with other EOS ids: declare a token that it really produces, and it ends inside an answer."""
    other = copy.copy(target)
    other.eos_ids = frozenset(tokens)
    other.pieces = Pieces(target.tokenizer, other.eos_ids)
    return other


@torch.no_grad()
def reference(target: LlavaTarget, image: Image.Image, question: str, count: int) -> tuple[list[int], torch.Tensor]:
    """Greedy ids (EOS included where one comes) and raw logits (len(ids), V): the whole model anew for every token."""
    prompt = target.prompt(image, question)
    embed = target.model.get_input_embeddings()
    first, last = prompt.spans[0]
    ids, rows = [], []
    while len(ids) < count and not (ids and ids[-1] in target.eos_ids):
        embedded = embed(torch.tensor([[*prompt.ids, *ids]])).clone()
        embedded[0, first:last] = prompt.features
        states = target.model.model.language_model(inputs_embeds=embedded, use_cache=False).last_hidden_state
        rows.append(target.model.lm_head(states[0, -1]))
        ids.append(int(rows[-1].argmax()))
    return ids, torch.stack(rows)


# Drafters that follow a script. ``truth`` is the whole right answer; the script sees how much of it is committed.

Script = Callable[["ScriptRun", Shape], Draft]


class ScriptDrafter:
    """A decode.draft.Drafter that knows the right answer and drafts by ``script``."""

    fingerprint = ""

    def __init__(self, id: str, script: Script, truth: Sequence[int], vocab_size: int, seed: int = 0) -> None:
        self.id, self.script, self.truth, self.vocab_size, self.seed = id, script, list(truth), vocab_size, seed

    def start(self, run, settings: RunSettings) -> ScriptRun:
        return ScriptRun(self, run.next_position)


class ScriptRun:
    """``answer`` holds the committed tokens; ``calls`` what extend was given, for tests of the protocol."""

    def __init__(self, drafter: ScriptDrafter, start: int) -> None:
        self.drafter, self.answer, self.calls = drafter, [], []
        self.start = start  # position of the answer's first token
        self.random = random.Random(drafter.seed)

    def extend(self, tokens, states, positions) -> None:
        assert tokens.shape[0] == states.shape[0] == positions.shape[0]
        self.calls.append((tokens, states, positions))
        self.answer += [token for token, position in zip(tokens.tolist(), positions.tolist()) if position >= self.start]

    def propose(self, shape: Shape) -> Draft:
        return self.drafter.script(self, shape)

    def ahead(self, count: int) -> list[int]:
        """The next right tokens; where the answer is over, or was another one, token 7."""
        rest = self.drafter.truth[len(self.answer) :][:count]
        return rest + [7] * (count - len(rest))

    def wrong(self, token: int) -> int:
        """Some other token."""
        return (token + 1 + self.random.randrange(self.drafter.vocab_size - 1)) % self.drafter.vocab_size


def levels(shape: Shape) -> int:
    return min(shape.depth, shape.nodes - 1)


def oracle(run: ScriptRun, shape: Shape) -> Draft:
    """Always right."""
    return chain(run.answer[-1], run.ahead(levels(shape)))


def wrong(run: ScriptRun, shape: Shape) -> Draft:
    """Never right."""
    return chain(run.answer[-1], [run.wrong(token) for token in run.ahead(levels(shape))])


def coin(p: float) -> Script:
    """Each token right with probability p."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        right = run.ahead(levels(shape))
        return chain(run.answer[-1], [t if run.random.random() < p else run.wrong(t) for t in right])

    return script


def until(k: int) -> Script:
    """The first k tokens right, then wrong."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        right = run.ahead(levels(shape))
        return chain(run.answer[-1], [t if i < k else run.wrong(t) for i, t in enumerate(right)])

    return script


def eos_at(k: int) -> Script:
    """Right tokens, but EOS at depth k, whatever the target says."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        right = run.ahead(levels(shape))
        return chain(run.answer[-1], [EOS if i == k - 1 else t for i, t in enumerate(right)])

    return script


def empty(run: ScriptRun, shape: Shape) -> Draft:
    """Drafts nothing."""
    return chain(run.answer[-1], [])


def sibling(place: int, copies: int = 1) -> Script:
    """A tree of shape.width children per right node in which the right token is child ``place`` (from 0), ``copies`` times."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        tokens, parents, depths, parent = [run.answer[-1]], [-1], [0], 0
        for depth, right in enumerate(run.ahead(levels(shape)), start=1):
            at = min(place, shape.width - 1)
            row = [run.wrong(right) for _ in range(shape.width)]
            row[at : at + copies] = [right] * len(row[at : at + copies])
            if len(tokens) + len(row) > shape.nodes:
                break
            first = len(tokens)
            tokens += row
            parents += [parent] * len(row)
            depths += [depth] * len(row)
            parent = first + at
        size = len(tokens)
        return Draft(torch.tensor(tokens), torch.tensor(parents), torch.tensor(depths), torch.zeros(size))

    return script


def dup(run: ScriptRun, shape: Shape) -> Draft:
    """Every right token twice among its siblings; only the first copy has children."""
    return sibling(0, copies=2)(run, shape)
