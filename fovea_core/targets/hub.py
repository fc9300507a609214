"""What the hub's families share: a chat template, an image processor, a tower whose rows the layout must explain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from PIL import Image
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.image_processing_utils import BaseImageProcessor

from fovea_core.targets.backbone import Backbone
from fovea_core.targets.base import Prompt, Target, TargetError
from fovea_core.targets.chat import Chat
from fovea_core.targets.geometry import Layout
from fovea_core.targets.reference import own_answer


class HubTarget(Target):
    """A published checkpoint: its own template, processor and tower around its own language model.

    A family says which classes it is made of and how a picture becomes image tokens. EOS ids are those that ``generate()``
    would use. Raises TargetError where processor and model do not belong together.
    """

    published = True
    #: transformers' classes of the family.
    model_class: ClassVar[type[PreTrainedModel]]
    processor_class: ClassVar[type[BaseImageProcessor]]

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        processor: BaseImageProcessor,
        id: str = "",
        fingerprint: str = "",
        template: str | None = None,
    ) -> None:
        self.model, self.processor = model.eval(), processor
        self.chat = Chat(tokenizer, model.config.image_token_id, template)
        backbone = Backbone(self.language_model(), model.lm_head)
        eos_ids = _ids(model.generation_config.eos_token_id) or _ids(model.config.text_config.eos_token_id)
        if not eos_ids:
            raise TargetError(f"The target {id} names no token that ends an answer.")
        super().__init__(id, fingerprint, backbone, self.chat.tokenizer, frozenset(eos_ids), self.chat.image_token_id)
        self.check_parts()

    def language_model(self) -> nn.Module:
        """The decoder stack inside the model."""
        return self.model.model.language_model

    @abstractmethod
    def check_parts(self) -> None:
        """Raise TargetError where the processor prepares pictures for another model than this one."""

    @abstractmethod
    def layout(self, width: int, height: int) -> Layout:
        """The image tokens of a picture of that size in px. Raises TargetError for a size the family refuses."""

    @abstractmethod
    def pixels(self, image: Image.Image) -> dict[str, Tensor]:
        """What the model's own forward takes for a picture, on its device."""

    @abstractmethod
    def features(self, pixels: dict[str, Tensor]) -> Tensor:
        """(N, d) rows of the projector for what ``pixels`` gave."""

    def positions(self, layout: Layout, spans: list[tuple[int, int]], length: int) -> Tensor | None:
        """(3, length) rotary positions; None where they are the tokens' numbers."""
        return None

    def prompt(self, image: Image.Image, question: str) -> Prompt:
        """See Target.prompt; one count for placeholders, rows of features and entries, or a TargetError."""
        return self.prompts(image, [question])[0]

    @torch.inference_mode()
    def prompts(self, image: Image.Image, questions: Sequence[str]) -> list[Prompt]:
        """See Target.prompts; the picture passes the tower once."""
        image = image if image.mode == "RGB" else image.convert("RGB")
        layout = self.layout(image.width, image.height)
        features = self.features(self.pixels(image))
        valid = torch.from_numpy(layout.valid).to(self.device)
        made = []
        for question in questions:
            ids, spans = self.chat.prompt(question, layout.text, layout.counts)
            placeholders = sum(last - first for first, last in spans)
            if not placeholders == features.shape[0] == layout.entries:
                raise TargetError(
                    f"The target {self.id} reads this picture of {image.width} x {image.height} px otherwise than expected: "
                    f"{placeholders} placeholders, {features.shape[0]} features, {layout.entries} entries."
                )
            made.append(Prompt(ids, spans, features, layout.tiles, valid, self.positions(layout, spans, len(ids))))
        return made

    def inputs(self, image: Image.Image, question: str) -> dict[str, Tensor]:
        """The same request as the model's own forward and ``generate()`` take it."""
        image = image if image.mode == "RGB" else image.convert("RGB")
        layout = self.layout(image.width, image.height)
        ids = torch.tensor([self.chat.prompt(question, layout.text, layout.counts)[0]], device=self.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **self.pixels(image)}

    def generate(self, image: Image.Image, question: str, count: int) -> list[int]:
        """See Target.generate."""
        return own_answer(self.model, self.inputs(image, question), self.eos_ids, count)

    def require(self, holds: bool, what: str) -> None:
        """Raise TargetError unless processor and model agree."""
        if not holds:
            raise TargetError(f"The image processor of {self.id or 'this target'} does not fit its model: {what}.")


def edge(size: object, name: str) -> int:
    """One number of a processor's size, which is a dict or an object; 0 where it has none of that name."""
    value = size.get(name) if isinstance(size, dict) else getattr(size, name, None)
    return int(value or 0)


def _ids(value: int | list[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)
