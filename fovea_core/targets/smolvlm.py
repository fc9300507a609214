"""SmolVLM and Idefics3: tiles of one size in reading order, marker tokens between them, the whole picture last."""

from __future__ import annotations

import math

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import Idefics3ForConditionalGeneration, SmolVLMForConditionalGeneration
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from fovea_core.targets.geometry import Layout
from fovea_core.targets.hub import HubTarget, edge
from fovea_core.trace.events import Tile

#: Marker tokens around the views, by the names that both families use.
AROUND, GLOBAL = "<fake_token_around_image>", "<global-img>"
#: The processors scale no side beyond this.
LARGEST_PX = 4096


class SmolVLMTarget(HubTarget):
    """SmolVLM2, and whatever else is stored as ``smolvlm``."""

    model_class = SmolVLMForConditionalGeneration
    processor_class = SmolVLMImageProcessorPil

    def language_model(self) -> torch.nn.Module:
        """See HubTarget."""
        return self.model.model.text_model

    def check_parts(self) -> None:
        """See HubTarget: tiles of the tower's size, a whole number of entries on each side."""
        config, processor = self.model.config, self.processor
        self.tile_px, self.longest_px = edge(processor.max_image_size, "longest_edge"), edge(processor.size, "longest_edge")
        self.patch_px = config.vision_config.patch_size
        patches = self.tile_px // self.patch_px
        self.cells = patches // config.scale_factor
        self.require(
            self.tile_px == config.vision_config.image_size, f"tiles are not {config.vision_config.image_size} px wide"
        )
        self.require(self.cells > 0 and patches % config.scale_factor == 0, "patches cannot be merged evenly")
        self.require(processor.do_resize and 0 < self.longest_px <= LARGEST_PX, "it does not say how pictures are scaled")

    def layout(self, width: int, height: int) -> Layout:
        """See HubTarget. The picture is stretched to whole tiles, so nothing is padded; where the tower's patches do not fill a
        tile, the rest at its right and lower edge is cut off."""
        rows, columns = self.split(width, height)
        count, token = self.cells**2, self.chat.image_token
        views = [(column / columns, row / rows, 1 / columns, 1 / rows) for row in range(rows) for column in range(columns)]
        tiles = [self._tile(*view, "tile", number * count) for number, view in enumerate(views)]
        tiles.append(self._tile(0.0, 0.0, 1.0, 1.0, "global", len(views) * count))
        lines = "".join(
            "".join(f"{AROUND}<row_{row + 1}_col_{column + 1}>{token}" for column in range(columns)) + "\n"
            for row in range(rows)
        )
        text = f"{lines}{chr(10) if lines else ''}{AROUND}{GLOBAL}{token}{AROUND}"
        return Layout(text, [count] * len(tiles), tiles, np.ones(len(tiles) * count, bool))

    def _tile(self, left: float, top: float, width: float, height: float, view: str, first: int) -> Tile:
        seen = self.tile_px // self.patch_px * self.patch_px / self.tile_px  # share of a side that patches fill
        box = (left, top, left + width * seen, top + height * seen)
        return Tile(rows=self.cells, columns=self.cells, box=box, view=view, first=first, valid=[self.cells**2])

    def split(self, width: int, height: int) -> tuple[int, int]:
        """Rows and columns of tiles; 0, 0 where the global view is the only one.

        The longer side becomes ``longest_px``, the other one follows, rounded down and then up to an even number; both are then
        stretched to whole tiles, the shorter one by the longer one's factor first.
        """
        if not self.processor.do_image_splitting:
            return 0, 0
        ratio, tile = width / height, self.tile_px
        wide, high = self.longest_px, self.longest_px
        if width >= height:
            high = _even(self.longest_px / ratio)
        else:
            wide = _even(self.longest_px * ratio)
        if wide >= high:
            columns = math.ceil(wide / tile)
            rows = math.ceil(int(columns * tile / (wide / high)) / tile)
        else:
            rows = math.ceil(high / tile)
            columns = math.ceil(int(rows * tile * (wide / high)) / tile)
        return (rows, columns) if rows > 1 or columns > 1 else (0, 0)

    def pixels(self, image: Image.Image) -> dict[str, Tensor]:
        """See HubTarget: pixel_values (1, views, 3, px, px) and the mask of their px, which has no gap: nothing is padded."""
        made = self.processor(images=[[image]], return_tensors="pt")
        values = made["pixel_values"].to(self.device, self.embedding.dtype)
        mask = torch.ones(*values.shape[:2], *values.shape[3:], dtype=torch.int64, device=self.device)
        return {"pixel_values": values, "pixel_attention_mask": mask}

    def features(self, pixels: dict[str, Tensor]) -> Tensor:
        """See HubTarget. Tower and connector are called themselves: the model's own way drops a view whose values are all 0."""
        model, values = self.model.model, pixels["pixel_values"][0]
        side = self.tile_px // self.patch_px
        mask = torch.ones(values.shape[0], side, side, dtype=torch.bool, device=values.device)
        states = model.vision_model(pixel_values=values, patch_attention_mask=mask).last_hidden_state
        return model.connector(states).flatten(0, 1)


class Idefics3Target(SmolVLMTarget):
    """Idefics3 and the first SmolVLM, which are stored as ``idefics3``."""

    model_class = Idefics3ForConditionalGeneration
    processor_class = Idefics3ImageProcessorPil


def _even(length: float) -> int:
    """Rounded down, then up to an even number, at least 1."""
    whole = int(length)
    return max(whole + whole % 2, 1)
