"""Pictures for training: drawn once into shards on disk, read back as memory maps.

A shard holds ``pixels`` (n, 224, 224, 3) uint8 letterboxed, ``valid`` (n, cells, cells) bool, ``labels`` (n, 9, cells, cells)
and ``things`` (n, 3, cells, cells) uint8 (train/labels.py), its questions and where their facts are seen as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from fovea_core.targets.geometry import letterbox
from fovea_core.train.labels import cell_labels, main_things, shown_facts, shows_words
from fovea_core.worksite import make_picture, words
from fovea_core.worksite.suggesting import questions_of

#: The arrays of a shard, a file each.
ARRAYS = ("pixels", "valid", "labels", "things")
#: Supersampling of training pictures; the demos' 2 takes three times as long to draw.
SCALE = 0.5


def kind_of(seed: int) -> str:
    """The kind of picture that a seed of a workload draws: scene, text, chart in turn."""
    return words.KINDS[seed % 3]


#: Beside the kinds: the pictures that show sign words. Few do, and a word is one token, so words are learnt last.
SIGNED = "signed"


def draw(seed: int, size: int = 224, cells: int = 14, scale: float = SCALE) -> tuple:
    """One training picture as the fields of a Sample behind its kind, every short question among its questions."""
    cv2.setNumThreads(1)
    picture = make_picture(kind_of(seed), seed, scale=scale)
    pixels, place = letterbox(picture.rgb, size)
    things = main_things(picture, place, cells)
    kept = [q for q in picture.questions if q.type != "short"] + questions_of(picture.kind, picture.spec)[1]
    questions = [(q.question, q.answer, q.type) for q in kept]
    facts = {q.question: shown_facts(picture, q) for q in kept}
    return pixels, place.valid(cells), cell_labels(picture, things), things, questions, facts


def draw_shards(out: Path, kind: str, first: int, count: int, shard: int = 300, workers: int = 1, scale: float = SCALE) -> None:
    """Draw ``count`` pictures of ``kind`` with seeds from ``first`` on into shards; shards that exist are kept (resumable).
    ``scale``: the canvas's supersampling."""
    out.mkdir(parents=True, exist_ok=True)
    seeds = [s for s in range(first, first + 3 * count) if kind_of(s) == kind]
    with ProcessPoolExecutor(workers) as pool:
        for start in tqdm(range(0, count, shard), desc=f"drawing {kind}", unit="shard"):
            path = out / f"{kind}-{seeds[start]:08d}"
            if path.with_suffix(".json").exists():
                continue
            drawn = list(pool.map(partial(draw, scale=scale), seeds[start : start + shard], chunksize=10))
            *arrays, questions, facts = zip(*drawn, strict=True)
            for name, part in zip(ARRAYS, arrays, strict=True):
                np.save(path.with_suffix(f".{name}.npy"), np.stack(part))
            unfinished = path.with_suffix(".tmp")
            unfinished.write_text(json.dumps({"kinds": [kind] * len(drawn), "questions": questions, "facts": facts}))
            unfinished.rename(path.with_suffix(".json"))


@dataclass(frozen=True)
class Sample:
    """One picture of a shard: arrays as in the module docstring; questions as (question, answer, type); facts: by question
    (start, end, number of the thing) of each fact of its answer."""

    kind: str
    pixels: np.ndarray
    valid: np.ndarray
    labels: np.ndarray
    things: np.ndarray
    questions: list[tuple[str, str, str]]
    facts: dict[str, list[tuple[int, int, int]]]


class Shards:
    """All shards drawn so far in a folder; ``refresh`` notices new ones while another process still draws."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.samples, self._known = folder, {kind: [] for kind in (*words.KINDS, SIGNED)}, set()
        self.refresh()

    def refresh(self) -> int:
        """Take in new shards; returns the number of pictures known."""
        for path in sorted(self.folder.glob("*.json")):
            if path.name in self._known:
                continue
            self._known.add(path.name)
            meta = json.loads(path.read_text())
            arrays = [np.load(path.with_suffix(f".{n}.npy"), mmap_mode="r") for n in ARRAYS]
            rows = zip(meta["kinds"], meta["questions"], meta["facts"], strict=True)
            signed = shows_words(arrays[ARRAYS.index("labels")])
            for row, (kind, questions, facts) in enumerate(rows):
                sample = Sample(kind, *(a[row] for a in arrays), questions, facts)
                self.samples[kind].append(sample)
                if signed[row]:
                    self.samples[SIGNED].append(sample)
        return sum(len(self.samples[kind]) for kind in words.KINDS)

    def pick(self, rng: np.random.Generator, shares: dict[str, float]) -> Sample:
        """A random sample whose kind (or SIGNED) is drawn by ``shares``."""
        kinds = [k for k, known in self.samples.items() if known and shares.get(k, 0) > 0]
        weights = np.array([shares[k] for k in kinds])
        pool = self.samples[kinds[rng.choice(len(kinds), p=weights / weights.sum())]]
        return pool[rng.integers(len(pool))]

    def __iter__(self) -> Iterator[Sample]:
        for kind in words.KINDS:
            yield from self.samples[kind]
