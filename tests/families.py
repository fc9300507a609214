"""Tiny random models of the hub's families (bench.tiny), and pictures of many sizes for them."""

from __future__ import annotations

import random

import numpy as np
from PIL import Image

from fovea_core.bench.tiny import FAMILIES, tiny, tokenizer_of

__all__ = ["FAMILIES", "noise", "random_sizes", "tiny", "tokenizer_of"]


def random_sizes(count: int, most: int, seed: int = 0) -> list[tuple[int, int]]:
    """``count`` picture sizes of 1 .. ``most`` px, thin ones among them."""
    rng = random.Random(seed)
    side = lambda: rng.choice([rng.randint(1, most), int(2 ** rng.uniform(0, rng.uniform(1, most.bit_length())))])  # noqa: E731
    return [(min(most, side()), min(most, side())) for _ in range(count)]


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture of dim random values."""
    return Image.fromarray(np.random.default_rng(seed).integers(60, 120, (height, width, 3), dtype=np.uint8))
