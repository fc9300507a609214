"""Whether retrieved entries lie on the thing that a word of the answer is about: the masks of the drawn world are the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from fovea_core.bench.score import PlacedFact
from fovea_core.targets.geometry import from_run_lengths
from fovea_core.trace.codec import unpack_entries, unpack_masses
from fovea_core.trace.events import MemoryRead, Tile
from fovea_core.trace.fold import Summary
from fovea_core.worksite.base import Picture

#: A top entry is a hit with this share of its box inside the mask, or holding this share of the mask.
HIT_SHARE = 0.25


class EntryMap:
    """Where the entries of a picture of width x height px lie, pixel by pixel; a pixel belongs to the box its centre is in.

    box_px (N,): area of each entry's whole box; seen_px (N,): its pixels inside the picture; valid (N,) bool.
    """

    def __init__(self, tiles: Sequence[Tile], width: int, height: int) -> None:
        self.size = max(tile.first + tile.rows * tile.columns for tile in tiles)
        self.box_px, self.seen_px = np.zeros(self.size), np.zeros(self.size)
        self.valid = np.zeros(self.size, bool)
        self._grids = []
        for tile in tiles:
            left, top, right, bottom = tile.box
            rows = _cells((np.arange(height) + 0.5) / height, top, bottom, tile.rows)  # (height,)
            columns = _cells((np.arange(width) + 0.5) / width, left, right, tile.columns)  # (width,)
            span = slice(tile.first, tile.first + tile.rows * tile.columns)
            self.box_px[span] = (right - left) * width * (bottom - top) * height / (tile.rows * tile.columns)
            self.seen_px[span] = np.outer(_count(rows, tile.rows), _count(columns, tile.columns)).reshape(-1)
            self.valid[span] = from_run_lengths(tile.valid)
            self._grids.append((tile, rows, columns))

    def count(self, mask: np.ndarray) -> np.ndarray:
        """(height, width) bool to (N,): pixels of the mask in each entry's box."""
        ys, xs = np.nonzero(mask)
        counts = np.zeros(self.size)
        for tile, rows, columns in self._grids:
            row, column = rows[ys], columns[xs]
            inside = (row >= 0) & (column >= 0)
            entry = tile.first + row[inside] * tile.columns + column[inside]
            counts += np.bincount(entry, minlength=self.size)
        return counts

    def hit(self, entry: int, mask: np.ndarray) -> bool:
        """Whether the entry has at least HIT_SHARE of its box inside the mask, or holds HIT_SHARE of the mask."""
        there = self.count(mask)[entry]
        return bool(there > 0 and (there >= HIT_SHARE * self.box_px[entry] or there >= HIT_SHARE * mask.sum()))

    def mass_ratio(self, read: MemoryRead, mask: np.ndarray) -> float:
        """Chosen mass inside the mask over the mask's share of the valid area: 1 for a read that knows nothing.

        An entry's mass lies evenly over the visible part of its box. Raises ZeroDivisionError for an empty mask.
        """
        return self.ratio(*read_masses(read), mask)

    def ratio(self, entries: np.ndarray, masses: np.ndarray, mask: np.ndarray) -> float:
        """``mass_ratio`` of (K,) entries with their masses."""
        there = self.count(mask)
        inside = float((masses * there[entries] / np.maximum(self.seen_px[entries], 1)).sum())
        return inside / float(there[self.valid].sum() / self.seen_px[self.valid].sum())


def read_masses(read: MemoryRead) -> tuple[np.ndarray, np.ndarray]:
    """(K,) int64 chosen entries and (K,) float64 masses over all valid entries, both in falling order of mass."""
    masses = np.array(unpack_masses(read.masses), np.float64) * read.top_mass / 255
    return np.array(unpack_entries(read.entries), np.int64), masses


def _cells(places: np.ndarray, first: float, last: float, cells: int) -> np.ndarray:
    """Which of ``cells`` equal parts of [first, last) each place is in, -1 outside."""
    index = np.floor((places - first) / (last - first) * cells).astype(np.int64)
    return np.where((index >= 0) & (index < cells), index, -1)


def _count(cells: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(cells[cells >= 0], minlength=size)


@dataclass
class Pointing:
    """Sums over the answers of one kind; ``figures`` turns them into keys of the result.

    hits: class -> [hits, facts with a read]; stated: facts the answers state; k_fact, k_other: k_raw / valid entries of
    reads behind first tokens of facts and behind words that belong to none; clipped, reads: of all reads of the runs.
    """

    hits: dict[str, list[int]] = field(default_factory=dict)
    stated: int = 0
    ratios: list[float] = field(default_factory=list)
    k_fact: list[float] = field(default_factory=list)
    k_other: list[float] = field(default_factory=list)
    clipped: int = 0
    reads: int = 0

    def add(self, picture: Picture, summary: Summary, facts: Sequence[PlacedFact], reads: Sequence[MemoryRead]) -> None:
        """Take one answer: its folded run, the facts it states, and every read of the run.

        Only a fact whose first token was drafted from a read points: the token's node was accepted, the read is its parent's.
        """
        height, width = picture.rgb.shape[:2]
        places = EntryMap(summary.prefill.tiles, width, height)
        entries = int(places.valid.sum())
        self.reads += len(reads)
        self.clipped += sum(read.k_raw > len(unpack_entries(read.entries)) for read in reads)
        of_facts = {position for fact in facts for position in range(fact.first, fact.last + 1)}
        for token in summary.tokens:
            if token.read is not None and token.position not in of_facts:
                self.k_other.append(token.read.k_raw / entries)
        for placed in facts:
            self.stated += 1
            read = summary.tokens[placed.first].read
            if read is None:
                continue
            mask = picture.mask(placed.fact.mask)
            score = self.hits.setdefault(placed.fact.cls, [0, 0])
            score[0] += places.hit(unpack_entries(read.entries)[0], mask)
            score[1] += 1
            if mask.any():
                self.ratios.append(places.mass_ratio(read, mask))
            self.k_fact.append(read.k_raw / entries)

    def merge(self, other: Pointing) -> None:
        """Add what another one counted."""
        for cls, (hits, total) in other.hits.items():
            mine = self.hits.setdefault(cls, [0, 0])
            mine[0] += hits
            mine[1] += total
        self.stated += other.stated
        self.ratios += other.ratios
        self.k_fact += other.k_fact
        self.k_other += other.k_other
        self.clipped += other.clipped
        self.reads += other.reads

    def figures(self) -> dict:
        """pointing, pointing_coverage, pointing_by_class, mass_ratio, k_p50_fact, k_p50_other, clip_rate; None without data."""
        hits = sum(hit for hit, _ in self.hits.values())
        facts = sum(total for _, total in self.hits.values())
        return {
            "pointing": hits / facts if facts else None,
            "pointing_coverage": facts / self.stated if self.stated else None,
            "pointing_by_class": {cls: hit / total for cls, (hit, total) in sorted(self.hits.items())},
            "mass_ratio": median(self.ratios) if self.ratios else None,
            "k_p50_fact": median(self.k_fact) if self.k_fact else None,
            "k_p50_other": median(self.k_other) if self.k_other else None,
            "clip_rate": self.clipped / self.reads if self.reads else None,
        }
