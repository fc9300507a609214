"""Pictures for training: drawn once into shards on disk, read back as memory maps.

A shard holds ``pixels`` (n, 224, 224, 3) uint8 letterboxed, ``valid`` (n, cells, cells) bool, ``labels`` (n, 3, cells, cells)
uint8 (noun, colour, mark of the thing that fills most of a cell, 0 = none) and its questions as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from fovea_core.targets.geometry import Letterbox, letterbox
from fovea_core.worksite import make_picture, words
from fovea_core.worksite.base import Picture
from fovea_core.worksite.suggesting import questions_of

NOUNS = (*words.JUMPSUITS, *words.HEADWEAR, *words.TOOLS, *words.OBJECTS, "bar", "other")
COLOURS = tuple(words.COLOURS)
MARKS = (*words.CODE_CHARS, *words.SIGN_WORDS, "other")
#: A cell is labelled with the thing that fills most of it, if that is at least this share.
LABEL_SHARE = 0.25
_SAMPLES = 8  # points a cell side at which the layers are read


def kind_of(seed: int) -> str:
    """The kind of picture that a seed of a workload draws: scene, text, chart in turn."""
    return words.KINDS[seed % 3]


def cell_labels(picture: Picture, place: Letterbox, cells: int) -> np.ndarray:
    """(3, cells, cells) uint8: 1 + index of noun, colour and mark of each cell's main thing, 0 where there is none."""
    height, width = picture.layers.shape[1:]
    points = (np.arange(cells * _SAMPLES) + 0.5) * place.size / (cells * _SAMPLES)
    column, row = (points - place.left) * width / place.width, (points - place.top) * height / place.height
    inside = ((row >= 0) & (row < height))[:, None] & ((column >= 0) & (column < width))[None, :]
    seen = picture.layers[:, row.clip(0, height - 1).astype(int)[:, None], column.clip(0, width - 1).astype(int)[None, :]]
    seen = np.where(inside, seen, 0).reshape(2, cells, _SAMPLES, cells, _SAMPLES).transpose(0, 1, 3, 2, 4)
    counts = np.zeros((2, cells, cells, len(picture.things) + 1), np.int32)
    for number in range(1, len(picture.things) + 1):
        counts[..., number] = (seen == number).sum((-1, -2))
    main = np.where(counts.max(-1) >= LABEL_SHARE * _SAMPLES**2, counts.argmax(-1), 0)  # (2, cells, cells) thing numbers
    noun, colour, mark = (np.zeros(len(picture.things) + 1, np.uint8) for _ in range(3))
    for number, thing in enumerate(picture.things, start=1):
        noun[number] = 1 + (NOUNS.index(thing.noun) if thing.noun in NOUNS else len(NOUNS) - 1)
        colour[number] = 1 + COLOURS.index(thing.colour) if thing.colour else 0
        mark[number] = 1 + (MARKS.index(thing.noun) if thing.noun in MARKS else len(MARKS) - 1)
    return np.stack([noun[main[0]], colour[main[0]], mark[main[1]]])


def draw(seed: int, size: int = 224, cells: int = 14, scale: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray, list]:
    """One training picture: pixels (size, size, 3), valid (cells, cells), labels (3, cells, cells), its questions,
    every short one among them."""
    cv2.setNumThreads(1)
    picture = make_picture(kind_of(seed), seed, scale=scale)
    pixels, place = letterbox(picture.rgb, size)
    kept = [q for q in picture.questions if q.type != "short"] + questions_of(picture.kind, picture.spec)[1]
    questions = [(q.question, q.answer, q.type) for q in kept]
    return pixels, place.valid(cells), cell_labels(picture, place, cells), questions


def draw_shards(out: Path, kind: str, first: int, count: int, shard: int = 300, workers: int = 1) -> None:
    """Draw ``count`` pictures of ``kind`` with seeds from ``first`` on into shards; shards that exist are kept (resumable)."""
    out.mkdir(parents=True, exist_ok=True)
    seeds = [s for s in range(first, first + 3 * count) if kind_of(s) == kind]
    with ProcessPoolExecutor(workers) as pool:
        for start in tqdm(range(0, count, shard), desc=f"drawing {kind}", unit="shard"):
            path = out / f"{kind}-{seeds[start]:08d}"
            if path.with_suffix(".json").exists():
                continue
            drawn = list(pool.map(draw, seeds[start : start + shard], chunksize=10))
            for name, part in zip(("pixels", "valid", "labels"), list(zip(*drawn, strict=True))[:3], strict=True):
                np.save(path.with_suffix(f".{name}.npy"), np.stack(part))
            unfinished = path.with_suffix(".tmp")
            unfinished.write_text(json.dumps({"kinds": [kind] * len(drawn), "questions": [d[3] for d in drawn]}))
            unfinished.rename(path.with_suffix(".json"))


@dataclass(frozen=True)
class Sample:
    """One picture of a shard: arrays as in the module docstring; questions as (question, answer, type)."""

    kind: str
    pixels: np.ndarray
    valid: np.ndarray
    labels: np.ndarray
    questions: list[tuple[str, str, str]]


class Shards:
    """All shards drawn so far in a folder; ``refresh`` notices new ones while another process still draws."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.samples, self._known = folder, {kind: [] for kind in words.KINDS}, set()
        self.refresh()

    def refresh(self) -> int:
        """Take in new shards; returns the number of pictures known."""
        for path in sorted(self.folder.glob("*.json")):
            if path.name in self._known:
                continue
            self._known.add(path.name)
            meta = json.loads(path.read_text())
            arrays = [np.load(path.with_suffix(f".{n}.npy"), mmap_mode="r") for n in ("pixels", "valid", "labels")]
            for row, (kind, questions) in enumerate(zip(meta["kinds"], meta["questions"], strict=True)):
                self.samples[kind].append(Sample(kind, *(a[row] for a in arrays), questions))
        return sum(map(len, self.samples.values()))

    def pick(self, rng: np.random.Generator, shares: dict[str, float]) -> Sample:
        """A random sample whose kind is drawn by ``shares``."""
        kinds = [k for k in words.KINDS if self.samples[k] and shares.get(k, 0) > 0]
        weights = np.array([shares[k] for k in kinds])
        pool = self.samples[kinds[rng.choice(len(kinds), p=weights / weights.sum())]]
        return pool[rng.integers(len(pool))]

    def __iter__(self) -> Iterator[Sample]:
        for kind in words.KINDS:
            yield from self.samples[kind]
