"""LLaVA: one square picture, one grid of image tokens, a Llama behind a projector. The embedded target is of this family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError
from tokenizers import Tokenizer
from transformers import LlavaForConditionalGeneration

from fovea_core.fingerprint import fingerprint
from fovea_core.targets.backbone import Backbone
from fovea_core.targets.base import Prompt, Target, TargetError
from fovea_core.targets.geometry import Letterbox, letterbox
from fovea_core.targets.loading import load_model, unreadable
from fovea_core.targets.outside import load_check
from fovea_core.targets.probe import probe
from fovea_core.targets.reference import own_answer
from fovea_core.thin import thin


class ImageSettings(BaseModel):
    """``fovea_target.json``: how a picture becomes pixels, which head looks. Keys that say how it was made are left alone.

    image_size: side of the square input in px; cells: side of its grid of image tokens; mean, std: of pixel values in 0..1;
    fill: grey value of the padding; look_head: layer and head that were taught to look at what the next token states
    (train/grounding.py), None where none was.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    image_size: int = Field(224, ge=8, le=4096)
    cells: int = Field(14, ge=1, le=256)
    mean: float = 0.5
    std: float = Field(0.5, gt=0)
    fill: int = Field(128, ge=0, le=255)
    look_head: tuple[NonNegativeInt, NonNegativeInt] | None = None


class LlavaTarget(Target):
    """A LLaVA with the prompt ``<bos> <image> x N <ask> question <answer>``; N = cells x cells.

    ``tokenizer`` knows these names as single tokens. All EOS ids of the checkpoint's generation and text configs and the
    token ``<eos>`` end a run; nothing else of its generation defaults is used.
    """

    def __init__(
        self,
        model: LlavaForConditionalGeneration,
        tokenizer: Tokenizer,
        image: ImageSettings | None = None,
        id: str = "llava",
        fingerprint: str = "",
    ) -> None:
        config, image = model.config, image or ImageSettings()
        if config.text_config.model_type != "llama":
            raise TargetError(f"a LLaVA over {config.text_config.model_type} is not supported yet: only over llama.")
        heads = config.text_config.num_hidden_layers, config.text_config.num_attention_heads
        if image.look_head and not all(mine < count for mine, count in zip(image.look_head, heads)):
            raise TargetError(
                f"look_head is layer {image.look_head[0]}, head {image.look_head[1]}, and the model has none such."
            )
        self.model, self.image = model.eval(), image
        tokenizer.encode_special_tokens = True  # typed control tokens stay ordinary text
        self._bos, self._ask, self._answer, eos, placeholder = (
            _token(tokenizer, name) for name in ("<bos>", "<ask>", "<answer>", "<eos>", "<image>")
        )
        if placeholder != config.image_token_id:
            raise TargetError(f"<image> is token {placeholder} of the tokenizer, but {config.image_token_id} of the model.")
        eos_ids = {eos, *_ids(model.generation_config.eos_token_id), *_ids(config.text_config.eos_token_id)}
        backbone = Backbone(model.model.language_model, model.lm_head)
        super().__init__(id, fingerprint, backbone, tokenizer, frozenset(eos_ids), placeholder)

    @torch.inference_mode()
    def prompt_ids(self, question: str) -> list[int]:
        """The whole prompt: begin, image placeholders, the question as ordinary text between its two marks."""
        asked = self.tokenizer.encode(question, add_special_tokens=False).ids
        return [self._bos, *[self.image_token_id] * self.image.cells**2, self._ask, *asked, self._answer]

    def pixels(self, image: Image.Image) -> tuple[torch.Tensor, Letterbox]:
        """(1, 3, size, size) what the model's own forward takes for a picture, and where the picture lies in it."""
        settings = self.image
        square, place = letterbox(np.asarray(image.convert("RGB")), settings.image_size, settings.fill)
        pixels = (torch.from_numpy(square).permute(2, 0, 1)[None].float() / 255 - settings.mean) / settings.std
        return pixels.to(self.device, self.embedding.dtype), place

    def generate(self, image: Image.Image, question: str, count: int) -> list[int]:
        """See Target.generate."""
        ids = torch.tensor([self.prompt_ids(question)], device=self.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": self.pixels(image)[0]}
        return own_answer(self.model, inputs, self.eos_ids, count)

    def prompt(self, image: Image.Image, question: str) -> Prompt:
        """See Target.prompt; the picture is letterboxed, cells that lie on padding only are invalid."""
        settings, (pixels, place) = self.image, self.pixels(image)
        features = self.model.model.get_image_features(pixel_values=pixels).pooler_output[0]  # (N, d)
        count = settings.cells**2
        if features.shape[0] != count:
            raise TargetError(
                f"the tower gives {features.shape[0]} image tokens, {settings.cells} x {settings.cells} expected."
            )
        valid = torch.from_numpy(place.valid(settings.cells).reshape(-1)).to(self.device)
        return Prompt(self.prompt_ids(question), [(1, 1 + count)], features, [place.tile(settings.cells)], valid)


def load_llava(
    folder: str | Path,
    device: str | torch.device = "cpu",
    id: str | None = None,
    dtype: torch.dtype | str = torch.float32,
    step: Callable[[str], None] = lambda text: None,
) -> LlavaTarget:
    """Load an embedded target. Raises TargetError that names what is wrong with it.

    ``folder`` holds what ``save_pretrained`` wrote, ``tokenizer.json`` and ``fovea_target.json``.
    """
    folder = Path(folder)
    for name in ("config.json", "tokenizer.json", "fovea_target.json"):
        if not (folder / name).is_file():
            raise TargetError(f"The folder {folder.name} is no target: {name} is missing.")
    device = torch.device(device)
    try:
        image = _read_settings(folder / "fovea_target.json")
        tokenizer = _read_tokenizer(folder / "tokenizer.json")
        mark = fingerprint(folder)
    except (OSError, ValueError, KeyError) as error:
        raise unreadable(folder, error) from error
    model = load_model(LlavaForConditionalGeneration, folder, device, dtype, step)
    thin(model)
    target = LlavaTarget(model, tokenizer, image, id or str(folder), mark)
    probe(target)
    target.check = load_check(folder, mark, target.hidden_size)
    return target


def _read_settings(path: Path) -> ImageSettings:
    try:
        return ImageSettings.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(" ".join([f"{path.name}:", *map(str, first["loc"]), first["msg"]])) from error


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path.name}: {error}") from error


def _ids(value: int | list[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)


def _token(tokenizer: Tokenizer, name: str) -> int:
    found = tokenizer.token_to_id(name)
    if found is None:
        raise TargetError(f"The tokenizer has no token {name}.")
    return found
