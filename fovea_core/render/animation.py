"""The answer word by word as an animated GIF: the picture with each word's map, the answer so far below."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from fovea_core.render.answer import MARKS, WASH, Answer, pieces_of
from fovea_core.render.heat import colours
from fovea_core.render.legend import legend, put, with_caveat
from fovea_core.render.letters import GHOST, INK, SOFT, write
from fovea_core.render.maps import Maps, RenderError, choose, is_flat, maps_of
from fovea_core.trace.fold import Word
from fovea_core.trace.record import Trace
from fovea_core.trace.strip import looked

MOST_FRAMES = 200
WORD_MS, LAST_MS = 700, 2_400
_WIDTH_PX, _TALLEST_PX = 640, 640
_EDGE = 14
_TEXT_PX, _FIGURES_PX = 21, 16
_LINES = 3
#: Ordered mixing of neighbouring palette colours, in steps of an 8-bit value.
_BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.int16) // 2 - 4


def gif(trace: Trace, words: Sequence[int] | None = None, palette: str = "viridis") -> bytes:
    """A GIF file that plays the answer for ever, one frame a word. ``words``: numbers from 1 of those with a frame; None:
    all words, those without a map too. Raises RenderError: no word was drafted with a look, more than MOST_FRAMES words."""
    maps = maps_of(trace)
    shown = maps.summary.words() if words is None else [word.word for word in choose(maps, words)]
    if len(shown) > MOST_FRAMES:
        raise RenderError(f"A GIF shows at most {MOST_FRAMES} words and this would be {len(shown)}; choose some of them.")
    width, height = maps.shape_within(_WIDTH_PX, _TALLEST_PX)
    left = _EDGE + (_WIDTH_PX - width) // 2
    drawing = (slice(_EDGE, _EDGE + height), slice(left, left + width))
    answer = Answer(pieces_of(maps), _WIDTH_PX, _TEXT_PX)
    # Drawn twice rather than kept: a frame in full colour takes three times the room of one in the palette's.
    some = [_frame(maps, answer, word, drawing, palette) for word in shown[:: max(1, len(shown) // 8)][:9]]
    table = _palette(some, palette)
    frames = [_in_palette(_frame(maps, answer, word, drawing, palette), table, drawing) for word in shown]
    times = [WORD_MS] * (len(frames) - 1) + [LAST_MS]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=False)
    return buffer.getvalue()


def _frame(maps: Maps, answer: Answer, word: Word, drawing: tuple[slice, slice], palette: str) -> np.ndarray:
    lines = min(_LINES, answer.lines)
    under = drawing[0].stop + _EDGE
    sheet = np.full((under + 34 + lines * answer.pitch + _EDGE, _WIDTH_PX + 2 * _EDGE, 3), 255, np.uint8)
    sight = looked(word, maps.summary)
    reads = [] if sight is None else [sight.token.read]
    size = drawing[1].stop - drawing[1].start, drawing[0].stop - drawing[0].start
    sheet[drawing] = maps.draw(reads, size, palette)
    scale = legend(maps, palette, _FIGURES_PX)
    put(sheet, scale, _EDGE + _WIDTH_PX - scale.shape[1], under)
    write(sheet, _figures(maps, word), _EDGE, under + _FIGURES_PX * 1.02, _FIGURES_PX, SOFT)
    first = min(max(0, answer.line_of(word.last) - lines // 2), answer.lines - lines)
    now = range(word.first, word.last + 1)
    answer.draw(
        sheet,
        (_EDGE, under + 30),
        range(first, first + lines),
        said=lambda piece: piece.first <= word.last,
        now=lambda piece: piece.first in now or piece.last in now,
    )
    return with_caveat(sheet, maps, _FIGURES_PX, _EDGE)


def _figures(maps: Maps, word: Word) -> str:
    sight = looked(word, maps.summary)
    if sight is None:
        own = all(token.how != "accepted" for token in maps.summary.tokens[word.first : word.last + 1])
        return "the target's own word, not drafted" if own else "drafted without a look"
    mass = "no preference" if is_flat(sight.token.read) else maps.held(sight.captured)
    return f"step {maps.step(sight.round)} · K {len(sight.entries)} · {mass}"


def _palette(frames: Sequence[np.ndarray], palette: str) -> Image.Image:
    """One palette for all frames, so that what stands still keeps its colour: the fixed colours of text and legend, the
    others from ``frames``."""
    fixed = np.array([(255, 255, 255), INK, SOFT, GHOST, WASH, *MARKS.values(), *colours(palette)[::11]], np.uint8)
    some = np.concatenate(frames)
    found = Image.fromarray(some).quantize(256 - len(fixed), Image.Quantize.MEDIANCUT).getpalette()
    table = Image.new("P", (1, 1))
    table.putpalette([*fixed.ravel().tolist(), *found][: 3 * 256])
    return table


def _in_palette(frame: np.ndarray, table: Image.Image, drawing: tuple[slice, slice]) -> Image.Image:
    """The frame in the palette's colours; in the ``drawing`` mixed by a fixed pattern, which hides bands and stands still.
    Error diffusion would carry a change in one place across the whole frame."""
    part = frame[drawing]
    rows, columns = np.indices(part.shape[:2]) % 4
    mixed = frame.copy()
    mixed[drawing] = np.clip(part + _BAYER[rows, columns][..., None], 0, 255).astype(np.uint8)
    flat = np.array(Image.fromarray(mixed).quantize(palette=table, dither=Image.Dither.NONE))
    flat[(frame == 255).all(axis=2)] = 0  # the library finds a near colour, not the nearest one, and paper must be white
    image = Image.fromarray(flat)
    image.putpalette(table.getpalette())
    return image
