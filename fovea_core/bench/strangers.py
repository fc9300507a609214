"""Pictures that are no Worksite pictures: textures, gradients, noise, documents and plots drawn here, photographs that
installed packages ship. They measure the outside check (targets.outside); nothing learns from them.

Every drawn family takes a generator of random numbers and gives one (h, w, 3) uint8 picture, its long side 448 px.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFont

from fovea_core.pictures import PictureError, open_picture

LONG_PX = 448
PAGE_WORDS = [
    *("the", "a", "of", "model", "answer", "picture", "system", "error", "file", "open", "window", "save", "as", "print"),
    *("settings", "value", "return", "import", "class", "else", "page", "user", "data", "table", "report", "month", "home"),
]
#: Where packages keep photographs: package, pattern below its folder. None of them is needed; those that are installed count.
SHIPPED = (
    ("gradio", "media_assets/images/*.jp*g"),
    ("matplotlib", "mpl-data/sample_data/*.jpg"),
    *(("skimage", f"data/{name}.*") for name in ("astronaut", "camera", "chelsea", "coffee", "motorcycle_left", "rocket")),
    *(("skimage", f"data/{name}.*") for name in ("brick", "grass", "gravel", "coins", "moon", "retina", "hubble*")),
    ("sklearn", "datasets/images/*.jpg"),
)


def flat(rng: Generator) -> np.ndarray:
    """One colour."""
    width, height = _size(rng)
    return np.full((height, width, 3), _colour(rng), np.uint8)


def gradient(rng: Generator) -> np.ndarray:
    """Two colours, one fading into the other along a line or from a point."""
    across, down = _mesh(rng)
    if rng.random() < 0.7:
        angle = rng.uniform(0, 2 * np.pi)
        way = np.cos(angle) * across + np.sin(angle) * down
    else:
        way = np.hypot(across - rng.uniform(0, LONG_PX), down - rng.uniform(0, LONG_PX))
    share = ((way - way.min()) / np.ptp(way))[..., None]
    return (_colour(rng) * share + np.array(_colour(rng)) * (1 - share)).astype(np.uint8)


def noise(rng: Generator) -> np.ndarray:
    """Every pixel by chance, grey or in colour."""
    width, height = _size(rng)
    return np.broadcast_to(rng.integers(0, 256, (height, width, rng.choice([1, 3])), np.uint8), (height, width, 3)).copy()


def blobs(rng: Generator) -> np.ndarray:
    """Coarse noise, as soft clouds or as hard blocks."""
    width, height = _size(rng)
    grain = int(rng.integers(3, 40))
    coarse = rng.integers(0, 256, (max(2, height // grain), max(2, width // grain), 3), np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC if rng.random() < 0.5 else cv2.INTER_NEAREST)


def stripes(rng: Generator) -> np.ndarray:
    """Bands of two colours at any angle."""
    across, down = _mesh(rng)
    angle = rng.choice([0, np.pi / 2, rng.uniform(0, np.pi)])
    return _two_colours(rng, (np.cos(angle) * across + np.sin(angle) * down) // rng.integers(4, 80) % 2 == 0)


def checkerboard(rng: Generator) -> np.ndarray:
    """Squares of two colours."""
    across, down = _mesh(rng)
    side = rng.integers(6, 80)
    return _two_colours(rng, (across // side + down // side) % 2 == 0)


def shapes(rng: Generator) -> np.ndarray:
    """Ellipses, boxes, triangles and lines anywhere."""
    picture, pen = _canvas(rng, _colour(rng))
    width, height = picture.size
    for _ in range(rng.integers(3, 20)):
        x, y, r, colour = rng.integers(0, width), rng.integers(0, height), rng.integers(10, 120), _colour(rng)
        match rng.integers(4):
            case 0:
                pen.ellipse((x - r, y - 0.7 * r, x + r, y + 0.7 * r), fill=colour)
            case 1:
                pen.rectangle((x - r, y - 0.6 * r, x + r, y + 0.6 * r), fill=colour)
            case 2:
                pen.polygon([(x + rng.integers(-r, r), y + rng.integers(-r, r)) for _ in range(3)], fill=colour)
            case _:
                pen.line((x, y, rng.integers(0, width), rng.integers(0, height)), fill=colour, width=int(rng.integers(1, 12)))
    return np.asarray(picture)


def document(rng: Generator) -> np.ndarray:
    """A page of running text, dark on light or light on dark."""
    dark = rng.random() < 0.4
    picture, pen = _canvas(rng, (30, 30, 34) if dark else (255, 255, 255))
    size = int(rng.integers(9, 22))
    for y in range(8, picture.height - size, round(1.35 * size)):
        words = " ".join(rng.choice(PAGE_WORDS, rng.integers(1, 10)))
        pen.text((8 + 12 * rng.integers(0, 4), y), words, (220,) * 3 if dark else (20,) * 3, ImageFont.load_default(size))
    return np.asarray(picture)


def screenshot(rng: Generator) -> np.ndarray:
    """The window of a program: title, side bar, cards."""
    picture, pen = _canvas(rng, (236, 238, 241))
    width, height = picture.size
    font, left = ImageFont.load_default(12), width // 4
    pen.rectangle((0, 0, width, 26), fill=_colour(rng))
    pen.rectangle((0, 26, left, height), fill=(220, 224, 230))
    for y in range(40, height - 20, 24):
        pen.text((8, y), " ".join(rng.choice(PAGE_WORDS, 2)), (40, 40, 50), font)
    for y in range(40, height - 60, 60):
        pen.rounded_rectangle((left + 12, y, width - 14, y + 48), 6, "white", (200, 200, 205))
        pen.text((left + 20, y + 8), " ".join(rng.choice(PAGE_WORDS, 4)), (20, 20, 20), font)
        pen.ellipse((width - 60, y + 10, width - 32, y + 38), fill=_colour(rng))
    return np.asarray(picture)


def curves(rng: Generator) -> np.ndarray:
    """A line plot with two axes."""
    picture, pen = _canvas(rng, "white")
    width, height = picture.size
    pen.line((40, 10, 40, height - 30, width - 10, height - 30), fill="black")
    for i in range(5):
        pen.text((8, 20 + i * (height - 60) // 5), str(rng.integers(100)), "black", ImageFont.load_default(11))
    for _ in range(rng.integers(1, 4)):
        walk = np.cumsum(rng.normal(size=60))
        walk = (walk - walk.min()) / np.ptp(walk)
        points = [(40 + i * (width - 50) / 59, height - 40 - value * (height - 60)) for i, value in enumerate(walk)]
        pen.line(points, fill=_colour(rng), width=2)
    return np.asarray(picture)


def bars(rng: Generator) -> np.ndarray:
    """A bar chart as other programs draw it: one colour, no values on the bars."""
    picture, pen = _canvas(rng, "white")
    width, height = picture.size
    count, colour, font = int(rng.integers(3, 12)), _colour(rng), ImageFont.load_default(10)
    step, base = (width - 60) / count, height - 30
    for i in range(6):
        y = base - i * (height - 60) / 5
        pen.line((45, y, width - 10, y), fill=(205, 205, 205))
        pen.text((10, y - 6), str(20 * i), "black", font)
    for i in range(count):
        x = 50 + i * step
        pen.rectangle((x, base - rng.uniform(0.1, 1) * (height - 60), x + 0.7 * step, base), fill=colour)
        pen.text((x, base + 6), str(rng.choice(PAGE_WORDS))[:5], "black", font)
    return np.asarray(picture)


def pie(rng: Generator) -> np.ndarray:
    """A pie chart."""
    picture, pen = _canvas(rng, "white")
    width, height = picture.size
    r, angle = 0.4 * min(width, height), 0.0
    for part in 360 * rng.dirichlet(np.ones(5)):
        pen.pieslice((width / 2 - r, height / 2 - r, width / 2 + r, height / 2 + r), angle, angle + part, fill=_colour(rng))
        angle += part
    return np.asarray(picture)


FAMILIES: tuple[Callable[[Generator], np.ndarray], ...] = (
    flat,
    gradient,
    noise,
    blobs,
    stripes,
    checkerboard,
    shapes,
    document,
    screenshot,
    curves,
    bars,
    pie,
)


def photographs(folder: Path | None = None) -> list[np.ndarray]:
    """Photographs that installed packages ship, (h, w, 3) uint8 each, and every picture in ``folder`` if one is named."""
    found = [path for package, pattern in SHIPPED for home in _homes(package) for path in sorted(home.glob(pattern))]
    found += sorted(path for path in folder.iterdir() if path.is_file()) if folder else []
    pictures = []
    for path in found:
        try:
            pictures.append(np.asarray(open_picture(path).rgb))
        except PictureError:
            continue  # a folder may hold other files
    return pictures


def _homes(package: str) -> list[Path]:
    """Where an installed package lies; it is not imported."""
    found = importlib.util.find_spec(package)
    return [Path(home) for home in found.submodule_search_locations or ()] if found else []


def _size(rng: Generator) -> tuple[int, int]:
    """(width, height) in px: between square and 2 : 1, lying or standing."""
    short = int(LONG_PX * rng.uniform(0.5, 1))
    return (LONG_PX, short) if rng.random() < 0.6 else (short, LONG_PX)


def _mesh(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    width, height = _size(rng)
    down, across = np.mgrid[0:height, 0:width]
    return across, down


def _colour(rng: Generator) -> tuple[int, int, int]:
    return tuple(int(value) for value in rng.integers(0, 256, 3))


def _two_colours(rng: Generator, where: np.ndarray) -> np.ndarray:
    return np.where(where[..., None], np.array(_colour(rng)), np.array(_colour(rng))).astype(np.uint8)


def _canvas(rng: Generator, colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", _size(rng), colour)
    return picture, ImageDraw.Draw(picture)
