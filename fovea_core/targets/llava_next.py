"""LLaVA-NeXT: one squashed view of the whole picture, then its tiles as one grid without padding, a newline behind each row."""

from __future__ import annotations

import math

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import LlavaNextForConditionalGeneration
from transformers.image_processing_utils import select_best_resolution
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

from fovea_core.targets.geometry import Layout, run_lengths, whole
from fovea_core.targets.hub import HubTarget, edge
from fovea_core.trace.events import Tile


class LlavaNextTarget(HubTarget):
    """LLaVA-NeXT over Vicuna, Mistral or another Llama-like model."""

    model_class = LlavaNextForConditionalGeneration
    processor_class = LlavaNextImageProcessorPil

    def check_parts(self) -> None:
        """See HubTarget: views of the tower's size, the same list of resolutions on both sides."""
        config, processor = self.model.config, self.processor
        vision, size = config.vision_config, processor.size
        self.view_px, self.patch_px = vision.image_size, vision.patch_size
        self.cells = self.view_px // self.patch_px
        self.pinpoints = [list(pair) for pair in processor.image_grid_pinpoints]
        side = edge(size, "shortest_edge") or edge(size, "height")
        self.require(side == edge(processor.crop_size, "height") == self.view_px, f"views are not {self.view_px} px wide")
        self.require(self.pinpoints == [list(pair) for pair in config.image_grid_pinpoints], "other resolutions")
        self.require(all(px % self.view_px == 0 for pair in self.pinpoints for px in pair), "resolutions are no whole views")

    def layout(self, width: int, height: int) -> Layout:
        """See HubTarget: first ``cells`` x ``cells`` entries of the global view, then the grid of the tiles, if any is left."""
        base = self.cells**2
        grid = fit(width, height, select_best_resolution((height, width), self.pinpoints), self.patch_px)
        valid = np.concatenate([np.ones(base, bool), grid.valid().reshape(-1)])
        tiles = [whole(self.cells, self.cells, "global"), *grid.tiles(base)]
        return Layout(self.chat.image_token, [len(valid)], tiles, valid)

    def pixels(self, image: Image.Image) -> dict[str, Tensor]:
        """See HubTarget: pixel_values (1, views, 3, px, px), image_sizes (1, 2) height and width."""
        made = self.processor(images=[image], return_tensors="pt")
        return {
            "pixel_values": made["pixel_values"].to(self.device, self.embedding.dtype),
            "image_sizes": torch.as_tensor(made["image_sizes"], device=self.device),
        }

    def features(self, pixels: dict[str, Tensor]) -> Tensor:
        """See HubTarget; newlines are among the rows."""
        return self.model.model.get_image_features(**pixels).pooler_output[0]


class Grid:
    """The cells of a picture's tiles that are kept: ``rows`` x ``columns``, and a newline behind each row.

    ``x_px``, ``y_px``: edges of the cells in px of the padded picture; ``across``, ``down``: where the picture itself begins in
    it and how long it is, in px.
    """

    def __init__(
        self, left: int, top: int, rows: int, columns: int, patch_px: int, across: tuple[int, int], down: tuple[int, int]
    ) -> None:
        self.rows, self.columns, self.across, self.down = rows, columns, across, down
        self.x_px = (left + np.arange(columns + 2)) * patch_px  # the newlines stand where one more column would
        self.y_px = (top + np.arange(rows + 1)) * patch_px

    def valid(self) -> np.ndarray:
        """(rows, columns + 1) bool: which entries lie on the picture at all; newlines, the last column, never do."""
        inside = [
            (edges[1:] > start) & (edges[:-1] < start + length)
            for edges, (start, length) in ((self.y_px, self.down), (self.x_px, self.across))
        ]
        inside[1][-1] = False
        return inside[0][:, None] & inside[1][None, :]

    def tiles(self, first: int) -> list[Tile]:
        """The grid as a trace Tile, newlines as an invalid column right of it; none where no cell is left."""
        if not (self.rows and self.columns):
            return []
        (left, width), (top, height) = self.across, self.down
        x, y = (self.x_px - left) / width, (self.y_px - top) / height
        box = (float(x[0]), float(y[0]), float(x[-1]), float(y[-1]))
        valid = run_lengths(self.valid().reshape(-1))
        return [Tile(rows=self.rows, columns=self.columns + 1, box=box, view="tile", first=first, valid=valid)]


def fit(width: int, height: int, resolution: tuple[int, int], patch_px: int) -> Grid:
    """A picture scaled into ``resolution`` (height, width in px) and centred; whole rows or columns of padding are cut off.

    The cut is the same on both sides and is computed in cells, from the picture's aspect; the scaled size in px rounds up.
    An odd remainder leaves cells that are partly padding, and rounding down may cut some px of the picture itself.
    """
    height_px, width_px = resolution
    rows, columns = height_px // patch_px, width_px // patch_px
    if width / height > columns / rows:
        filled = int(round(height * (columns / width), 7))
        left, top = 0, (rows - filled) // 2
    else:
        filled = int(round(width * (rows / height), 7))
        left, top = (columns - filled) // 2, 0
    if width_px / width < height_px / height:
        shown = width_px, min(math.ceil(height * (width_px / width)), height_px)
    else:
        shown = min(math.ceil(width * (height_px / height)), width_px), height_px
    across = (width_px - shown[0]) // 2, shown[0]
    down = (height_px - shown[1]) // 2, shown[1]
    return Grid(left, top, rows - 2 * top, columns - 2 * left, patch_px, across, down)
