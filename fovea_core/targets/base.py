"""What a target is, and one request at work on it.

Words: the *root* is the last committed token; it is chosen but not yet in the cache. ``hidden`` states are always after the
target's final norm; a target with *taps* appends the states of some earlier layers to them, for a drafter that fuses several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor

from fovea_core.targets.backbone import Backbone, seen_at
from fovea_core.targets.errors import TargetError as TargetError
from fovea_core.targets.mask import tree_mask
from fovea_core.targets.outside import OutsideCheck
from fovea_core.targets.pieces import Pieces
from fovea_core.trace.events import Tile


@dataclass(frozen=True)
class Prompt:
    """What a family makes of a picture and a question.

    ids: the prompt's tokens, image placeholders included; spans: half-open index ranges of the placeholders;
    features (N, d): output of the projector for all of them; tiles, valid (N,) bool: where they lie on the picture.
    positions (3, T) int64: rotary positions on the axes time, height, width, one number thrice for text; None = 0 .. T-1.
    """

    ids: list[int]
    spans: list[tuple[int, int]]
    features: Tensor
    tiles: list[Tile]
    valid: Tensor
    positions: Tensor | None = None


#: Committed tokens as a drafter takes them: tokens (m,) int64, states (m, d) that predicted them, positions (m,) int64.
News = tuple[Tensor, Tensor, Tensor]


class Target(ABC):
    """A frozen vision-language model; its plain output is the result.

    Attributes: ``id``, ``fingerprint`` (may be empty for a model in memory), ``hidden_size`` d, ``vocab_size`` V, ``eos_ids``,
    ``context`` (positions), ``embedding`` (V, d), ``head`` (V, d), ``norm`` (the final norm), ``tokenizer``, ``pieces``,
    ``image_token_id``, ``device``, ``backbone``, ``check`` (what lies outside its world; None = nothing says so),
    ``published`` (a stranger's checkpoint, looked over at its first load here).
    """

    published = False

    def __init__(
        self, id: str, fingerprint: str, backbone: Backbone, tokenizer: Tokenizer, eos_ids: frozenset[int], image_token_id: int
    ) -> None:
        self.id, self.fingerprint, self.backbone, self.tokenizer = id, fingerprint, backbone, tokenizer
        self.embedding, self.head, self.norm = backbone.embedding, backbone.head, backbone.norm
        self.vocab_size, self.hidden_size = self.head.shape
        self.context, self.device = backbone.context, backbone.embedding.device
        self.eos_ids, self.image_token_id = eos_ids, image_token_id
        self.pieces = Pieces(tokenizer, eos_ids)
        self.check: OutsideCheck | None = None

    @abstractmethod
    def prompt(self, image: Image.Image, question: str) -> Prompt:
        """Preprocess, encode and project. The question is encoded as ordinary text, whatever it spells."""

    def prompts(self, image: Image.Image, questions: Sequence[str]) -> list[Prompt]:
        """``prompt`` of several questions about one picture."""
        return [self.prompt(image, question) for question in questions]

    @abstractmethod
    def generate(self, image: Image.Image, question: str, count: int) -> list[int]:
        """Greedy ids of transformers' own ``generate()``, at most ``count``: the other opinion on what plain decoding is."""

    def prefill(self, image: Image.Image, question: str, answer: Sequence[int] = (), watch: Sequence[int] = ()) -> TargetRun:
        """Read picture and question, and ``answer`` token ids behind them if given. Two runs never share anything.

        ``watch``: layers whose entering states this run keeps for ``looking``; no number of the run depends on it.
        Raises TargetError where the prompt leaves no room for an answer.
        """
        run = TargetRun(self, self.prompt(image, question), answer, watch)
        run.asked = (image, question)
        return run

    def tap(self, layers: Sequence[int]) -> None:
        """Append the states that enter these decoder layers to ``hidden`` from the next run on.

        Raises TargetError for a layer that is not there or where other layers are tapped already.
        """
        layers, before = tuple(layers), self.backbone.taps
        if any(not 0 < layer < len(self.backbone.layers) for layer in layers) or list(layers) != sorted(set(layers)):
            raise TargetError(f"the target {self.id} cannot be tapped at layers {', '.join(map(str, layers))}.")
        if layers and before and layers != before:
            raise TargetError(f"the target {self.id} is tapped at layers {', '.join(map(str, before))} already.")
        self.backbone.taps = layers or before

    def keep(self, layer: int) -> None:
        """Let every later run keep the states that enter this layer at the picture, for ``TargetRun.seen``; 0 always is.

        Raises TargetError for a layer that is not there.
        """
        if not 0 <= layer < len(self.backbone.layers):
            raise TargetError(f"the target {self.id} has no layer {layer}.")
        if layer:
            self.backbone.kept = tuple(sorted({*self.backbone.kept, layer}))

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, d or more) states after the final norm, whatever is appended to them, to (n, V)."""
        return self.backbone.lm_head(hidden[:, : self.hidden_size])


class TargetRun:
    """One request: what the prompt gave, and a cache of its own that grows by ``forward_tree`` and ``commit``.

    Attributes: ``prompt_ids`` (T), ``spans``, ``tiles``, ``features`` (N, d), ``valid`` (N,) bool, ``hidden`` (T, d or more)
    states of the prompt, ``logits`` (V,) behind it, ``positions`` (T,) position ids (of image tokens on three axes: the first),
    ``next_position`` of the root, ``answer_position`` of the first token behind the prompt, ``asked``: picture and question,
    where prefill made the run, ``entered`` (layers, T, d): states of the prompt that enter the watched layers, None where none
    is watched.
    """

    asked: tuple[Image.Image, str] | None = None

    @torch.inference_mode()
    def __init__(self, target: Target, prompt: Prompt, answer: Sequence[int] = (), watch: Sequence[int] = ()) -> None:
        self.target = target
        self.prompt_ids, self.spans, self.tiles = [*prompt.ids, *answer], prompt.spans, prompt.tiles
        self.features, self.valid = prompt.features, prompt.valid
        length = len(self.prompt_ids)
        if length >= target.context:
            raise TargetError(
                f"Picture and question take {length} tokens, but the model reads at most {target.context} with the answer: "
                "ask a shorter question."
            )
        self.cache = target.backbone.new_cache(min(target.context, length + 256) + 64)
        self.cache.watched = tuple(watch)
        embedded = F.embedding(torch.tensor(self.prompt_ids, device=target.device), target.embedding)
        taken = 0
        for first, last in self.spans:
            embedded[first:last] = self.features[taken : taken + last - first]
            taken += last - first
        self.positions, self._ahead = torch.arange(length), 0  # _ahead: by how much the root's position differs from its number
        rope: Tensor | slice = slice(0, length)
        if prompt.positions is not None:
            behind = int(prompt.positions.max()) + 1 + torch.arange(len(answer))
            rope = torch.cat([prompt.positions, behind.expand(3, -1)], 1).to(target.device)  # (3, T)
            self.positions, self._ahead = rope[0].cpu(), int(rope.max()) + 1 - length
        self.answer_position = length + self._ahead
        kept: dict[int, Tensor] = {}
        self.hidden = target.backbone.forward(embedded, rope, None, self.cache, kept)
        self.entered = self.cache.entered
        self._kept = {layer: seen_at(torch.cat([x[slice(*span)] for span in self.spans])) for layer, x in kept.items()}
        self.cache.commit(range(length))
        self.logits = target.logits(self.hidden[-1:])[0]

    @property
    def next_position(self) -> int:
        """Position id of the root: everything before it is in the cache."""
        return self.cache.committed + self._ahead

    def seen(self, layer: int) -> Tensor:
        """(N, d) the picture as it enters a layer, see ``seen_at``; layer 0: ``features``, the projector's output.

        Raises ValueError for a layer that the target was not told to ``keep``.
        """
        if layer and layer not in self._kept:
            raise ValueError(f"this run kept nothing of layer {layer}: tell the target to keep it before prefill.")
        return self._kept[layer] if layer else self.features

    def outside(self) -> bool | None:
        """Whether the picture lies outside the target's world, by its image tokens; None where the target has no check."""
        check = self.target.check
        return None if check is None else check.outside(self.features, self.valid)

    def text_prompt(self) -> News:
        """The prompt as a drafter without image tokens in its context takes it (DraftRun.extend).

        All prompt tokens but image placeholders and the very first token, which no state predicted. The token behind a picture
        comes with the state of the picture's last token.
        """
        keep = torch.ones(len(self.prompt_ids), dtype=torch.bool)
        keep[0] = False
        for first, last in self.spans:
            keep[first:last] = False
        index = keep.nonzero()[:, 0]
        return torch.tensor(self.prompt_ids)[index], self.hidden[(index - 1).to(self.hidden.device)], self.positions[index]

    def first_news(self, token: int) -> News:
        """``text_prompt`` and the first ``token`` of the answer behind it, wherever the run is by now."""
        tokens, states, positions = self.text_prompt()
        here = torch.tensor([self.answer_position])
        return torch.cat([tokens, torch.tensor([token])]), torch.cat([states, self.hidden[-1:]]), torch.cat([positions, here])

    @torch.inference_mode()
    def forward_tree(self, tokens: Tensor, parents: Tensor, depths: Tensor, levels: int | None = None) -> tuple[Tensor, Tensor]:
        """One forward over a draft tree behind the committed tokens: logits (n, V), states (n, d or more, see Target.tap).

        tokens, parents, depths: (n,) int64; node 0 is the root and parents stand before children. A node attends the committed
        tokens, its ancestors and itself; its position is the root's plus its depth. Raises ValueError past the context.

        levels: no node is deeper; where it is given nothing is read of the tensors, so that a device that holds them goes on.
        """
        count, device, committed = tokens.shape[0], self.target.device, self.cache.committed
        mask = tree_mask(parents, committed, self.target.embedding.dtype, levels).to(device) if count > 1 else None
        return self.forward_masked(tokens, depths, mask, levels)

    @torch.inference_mode()
    def forward_masked(
        self, tokens: Tensor, depths: Tensor, mask: Tensor | None, levels: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """``forward_tree`` with a ready additive mask (1, 1, n, committed + n); None for a single node."""
        device = self.target.device
        deepest = self.next_position + (int(depths.max()) if levels is None else levels)
        if deepest >= self.target.context:
            raise ValueError(f"a node at position {deepest} lies past the context of {self.target.context}")
        positions = (depths + self.next_position).to(device) if mask is not None else slice(deepest, deepest + 1)
        embedded = F.embedding(tokens.to(device), self.target.embedding)
        hidden = self.target.backbone.forward(embedded, positions, mask, self.cache)
        return self.target.logits(hidden), hidden

    def commit(self, nodes: Sequence[int]) -> None:
        """Keep the caches of ``nodes``, a path that starts at the root 0, and drop the rest of the last forward."""
        self.cache.commit(nodes)
