"""What a trace holds to be drawn: its picture, its words, and for each the entries that were retrieved for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from fovea_core.pictures import open_picture
from fovea_core.render import heat
from fovea_core.trace import events as ev
from fovea_core.trace.codec import unpack_entries, unpack_masses
from fovea_core.trace.fold import Summary, fold
from fovea_core.trace.reads import mass_name
from fovea_core.trace.record import Trace
from fovea_core.trace.strip import StripWord, looked, trajectory_strip

DPI = 300
#: Views of the picture that are drawn; every one may lie over all of it.
MOST_TILES = 256


class RenderError(ValueError):
    """One sentence for a person: why this cannot be drawn."""


@dataclass(frozen=True)
class Maps:
    """A trace made ready for drawing.

    rgb: (h, w, 3) uint8; valid: (entries,) bool; scale: the mass of the palette's last colour, the same for the whole
    answer, as on the page; verdicts: one per step, steps are counted from 1.
    """

    rgb: np.ndarray
    summary: Summary
    tiles: tuple[ev.Tile, ...]
    valid: np.ndarray
    scale: float
    verdicts: tuple[ev.RoundVerified, ...]
    nodes: tuple[ev.NodeDrafted, ...]

    @property
    def aspect(self) -> float:
        """Width / height of the picture."""
        return self.rgb.shape[1] / self.rgb.shape[0]

    def held(self, captured: float) -> str:
        """What a read captured, and of what that is a share."""
        return f"{percent(captured)} of {mass_name(self.summary.started.policy)}"

    def step(self, round_number: int) -> int:
        """The step in which this round is shown."""
        return round_number - self.verdicts[0].round + 1

    def reads_of_step(self, step: int) -> list[ev.MemoryRead]:
        """What scored the accepted path of a step, each read once, in order of the words."""
        tokens = [token for token in self.summary.tokens if token.round is not None and self.step(token.round) == step]
        return list({token.read.n: token.read for token in tokens if token.read is not None}.values())

    def values(self, reads: Sequence[ev.MemoryRead]) -> np.ndarray:
        """Mean mass per entry over the reads, (entries,) float32."""
        values = np.zeros(len(self.valid), np.float32)
        for read in reads:
            masses = np.array(unpack_masses(read.masses), np.float32) / 255 * read.top_mass
            values[unpack_entries(read.entries)] += masses / len(reads)
        return values

    def shape_within(self, width: int, height: int) -> tuple[int, int]:
        """Largest (width, height) in px of the picture in a box of that size; at least 1 x 1."""
        wide = min(width, height * self.aspect)
        return max(1, round(wide)), max(1, round(wide / self.aspect))

    def draw(
        self, reads: Sequence[ev.MemoryRead], size: tuple[int, int], palette: str = "viridis", line: int = 1
    ) -> np.ndarray:
        """The picture at ``size`` (width, height) px with the mean map of ``reads``, (h, w, 3) uint8; none: the picture alone.

        A single read gets the outlines of its chosen entries, ``line`` px wide, the first one's stronger; not where it
        shows no preference or chose every entry.
        """
        width, height = size
        smaller = width < self.rgb.shape[1]
        rgb = cv2.resize(self.rgb, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)
        if not reads:
            return rgb
        field = heat.spread(self.tiles, self.valid, self.values(reads), width, height)
        rgb = heat.paint(rgb, field, self.scale, palette)
        if len(reads) == 1 and not is_flat(reads[0]):
            entries = unpack_entries(reads[0].entries)
            if len(entries) < int(self.valid.sum()):
                heat.outline(rgb, self.tiles, entries, line, 0.6)
                heat.outline(rgb, self.tiles, entries[:1], 2 * line, 1.0)
        return rgb


def maps_of(trace: Trace) -> Maps:
    """Everything that is drawn of a trace. Raises PictureError, RenderError: no word drafted with a look, too many views."""
    summary = fold(trace.events)
    if not any(looked(word, summary) for word in summary.words()):  # an EOS or a blank may have a read and is no word
        raise RenderError("No word of this answer was drafted with a look, so there is no map to draw.")
    tiles = tuple(summary.prefill.tiles)
    if len(tiles) > MOST_TILES:
        raise RenderError(f"This trace has {len(tiles):,} views of its picture; at most {MOST_TILES} can be drawn.")
    valid = np.zeros(max((tile.first + tile.rows * tile.columns for tile in tiles), default=0), bool)
    for tile in tiles:
        ends = np.cumsum(tile.valid)
        for first, end in zip(ends[::2] - tile.valid[::2], ends[::2]):
            valid[tile.first + first : tile.first + end] = True
    # An answer of flat maps must not look like one of sharp maps.
    least = 4 / max(1, int(valid.sum()))
    scale = max(least, *(token.read.top_mass for token in summary.tokens if token.read is not None))
    rgb = np.ascontiguousarray(open_picture(trace.header.picture_bytes()).rgb)
    verdicts = tuple(event for event in trace.events if isinstance(event, ev.RoundVerified))
    nodes = tuple(event for event in trace.events if isinstance(event, ev.NodeDrafted))
    return Maps(rgb, summary, tiles, valid, scale, verdicts, nodes)


def is_flat(read: ev.MemoryRead) -> bool:
    """True where the mass lies almost evenly over all entries."""
    return read.peak < heat.FLAT_PEAK


def choose(maps: Maps, words: Sequence[int] | None) -> list[StripWord]:
    """The words to show, in answer order: those numbered (from 1), or the trajectory strip's own choice for None.

    Raises RenderError for a number the answer does not have, or a word without a map.
    """
    if words is None:
        return trajectory_strip(maps.summary)
    spoken = maps.summary.words()
    chosen = []
    for number in sorted(set(words)):
        if not 1 <= number <= len(spoken):
            raise RenderError(f"This answer has no word {number}: its words are numbered 1 to {len(spoken)}.")
        word = looked(spoken[number - 1], maps.summary)
        if word is None:
            raise RenderError(f"Word {number} was not drafted with a look, so it has no map; choose others.")
        chosen.append(word)
    if not chosen:
        raise RenderError("No word is chosen.")
    return chosen


def word_map(trace: Trace, word: int, palette: str = "viridis") -> Image.Image:
    """The picture of a trace, at its own size, with the map of one word of the answer (numbered from 1).

    Raises RenderError: there is no such word, or it was not drafted with a look.
    """
    maps = maps_of(trace)
    (chosen,) = choose(maps, [word])
    size = maps.rgb.shape[1], maps.rgb.shape[0]
    return to_image(maps.draw([chosen.token.read], size, palette, line=max(1, size[0] // 640)))


def percent(share: float) -> str:
    """A share without false precision, as on the page."""
    if share == 0 or share >= 0.0995:
        return f"{int(share * 100 + 0.5)} %"
    return f"{share * 100:.{2 if share < 0.00995 else 1}f} %"


def to_image(rgb: np.ndarray) -> Image.Image:
    """A drawing as a PIL picture that knows its 300 dpi."""
    image = Image.fromarray(rgb)
    image.info["dpi"] = (DPI, DPI)
    return image
