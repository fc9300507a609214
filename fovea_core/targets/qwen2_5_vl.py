"""Qwen2.5-VL: one grid over the whole picture at its own resolution, rotary positions on three axes."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

from fovea_core.targets.base import TargetError
from fovea_core.targets.geometry import Layout, whole
from fovea_core.targets.hub import HubTarget, edge


class Qwen25VLTarget(HubTarget):
    """Qwen2.5-VL. The tower puts its rows back into reading order behind its windows, so entry = row * columns + column."""

    model_class = Qwen2_5_VLForConditionalGeneration
    processor_class = Qwen2VLImageProcessorPil

    def check_parts(self) -> None:
        """See HubTarget: patches and merging of processor and tower are the same."""
        vision, processor = self.model.config.vision_config, self.processor
        self.cell_px = processor.patch_size * processor.merge_size
        self.least_px, self.most_px = edge(processor.size, "shortest_edge"), edge(processor.size, "longest_edge")
        self.require(processor.patch_size == vision.patch_size, f"patches are not {vision.patch_size} px wide")
        self.require(processor.merge_size == vision.spatial_merge_size, "patches are merged otherwise")
        self.require(processor.temporal_patch_size == vision.temporal_patch_size, "pictures are repeated otherwise")
        self.require(bool(self.least_px and self.most_px and processor.do_resize), "it does not say how large a picture may be")

    def layout(self, width: int, height: int) -> Layout:
        """See HubTarget: the picture is scaled to whole cells, width and height each on its own: nothing is padded or cut."""
        try:
            height_px, width_px = smart_resize(height, width, self.cell_px, self.least_px, self.most_px)
        except ValueError:
            raise TargetError(
                f"Qwen2.5-VL reads no picture more than 200 times as long as wide; this one has {width} x {height} px."
            ) from None
        rows, columns = height_px // self.cell_px, width_px // self.cell_px
        count = rows * columns
        return Layout(self.chat.image_token, [count], [whole(rows, columns, "tile")], np.ones(count, bool))

    def pixels(self, image: Image.Image) -> dict[str, Tensor]:
        """See HubTarget: pixel_values (patches, values of one), image_grid_thw (1, 3) in patches."""
        made = self.processor(images=[image], return_tensors="pt")
        return {
            "pixel_values": made["pixel_values"].to(self.device, self.embedding.dtype),
            "image_grid_thw": torch.as_tensor(made["image_grid_thw"], device=self.device),
        }

    def features(self, pixels: dict[str, Tensor]) -> Tensor:
        """See HubTarget."""
        return self.model.model.get_image_features(**pixels).pooler_output[0]

    def positions(self, layout: Layout, spans: list[tuple[int, int]], length: int) -> Tensor:
        """M-RoPE: text counts on, alike on all axes; image tokens keep one time and count their row and column from there; the
        text behind them goes on past the longer side of the grid."""
        (first, last), tile = spans[0], layout.tiles[0]
        rows, columns = torch.arange(tile.rows), torch.arange(tile.columns)
        picture = torch.stack(
            [
                torch.zeros(last - first, dtype=torch.int64),
                rows.repeat_interleave(tile.columns),
                columns.repeat(tile.rows),
            ]
        )
        before = torch.arange(first).expand(3, -1)
        behind = torch.arange(length - last).expand(3, -1) + first + max(tile.rows, tile.columns)
        return torch.cat([before, picture + first, behind], 1)

    def inputs(self, image: Image.Image, question: str) -> dict[str, Tensor]:
        """See HubTarget; without token types transformers would count positions on one axis, and say nothing."""
        made = super().inputs(image, question)
        return made | {"mm_token_type_ids": (made["input_ids"] == self.image_token_id).int()}
