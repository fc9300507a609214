"""One step of a run as a picture: the mean map over its accepted path, and the answer as far as it had come."""

from __future__ import annotations

import numpy as np
from PIL import Image

from fovea_core.render.answer import Answer, pieces_of
from fovea_core.render.legend import legend, put, with_caveat
from fovea_core.render.letters import INK, SOFT, width_px, write
from fovea_core.render.maps import Maps, RenderError, is_flat, maps_of, to_image
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.record import Trace

_WIDTH_PX = 1500  # 5 in at 300 dpi
_TALLEST_PX = 1500
_EDGE = 24
_TEXT_PX, _FIGURES_PX = 40, 30
_LINES = 5


def step_picture(trace: Trace, step: int | None = None, palette: str = "viridis") -> Image.Image:
    """A step of the run (counted from 1) as an RGB picture, 5 in wide at 300 dpi. None: the step with the sharpest read.

    Raises RenderError: no word was drafted with a look, or there is no such step.
    """
    maps = maps_of(trace)
    if step is None:
        best = max((token for token in maps.summary.tokens if token.read), key=lambda token: token.read.peak)
        step = maps.step(best.round)
    if not 1 <= step <= len(maps.verdicts):
        raise RenderError(f"This run has no step {step}: its steps are numbered 1 to {len(maps.verdicts)}.")
    size = maps.shape_within(_WIDTH_PX, _TALLEST_PX)
    answer = Answer(pieces_of(maps, [step]), _WIDTH_PX, _TEXT_PX)
    said = [token.position for token in maps.summary.tokens if token.round is None or maps.step(token.round) <= step]
    last = answer.line_of(said[-1])
    lines = range(max(0, last + 1 - _LINES), last + 1)
    under = _EDGE * 2 + size[1]
    sheet = np.full((under + 72 + len(lines) * answer.pitch + _EDGE, _WIDTH_PX + 2 * _EDGE, 3), 255, np.uint8)
    put(sheet, maps.draw(maps.reads_of_step(step), size, palette, line=3), _EDGE + (_WIDTH_PX - size[0]) // 2, _EDGE)
    scale = legend(maps, palette, _FIGURES_PX)
    put(sheet, scale, _EDGE + _WIDTH_PX - scale.shape[1], under)
    base, name = under + round(_FIGURES_PX * 1.02), f"step {step} of {len(maps.verdicts)}"
    write(sheet, name, _EDGE, base, _FIGURES_PX, INK, bold=True)
    write(sheet, _figures(maps, step), _EDGE + width_px(name, _FIGURES_PX, bold=True) + 20, base, _FIGURES_PX, SOFT)
    answer.draw(sheet, (_EDGE, under + 60), lines, lambda piece: piece.step <= step, lambda piece: piece.step == step)
    return to_image(with_caveat(sheet, maps, _FIGURES_PX, _EDGE))


def _figures(maps: Maps, step: int) -> str:
    reads = maps.reads_of_step(step)
    if not maps.verdicts[step - 1].accepted:
        return "no drafted word was accepted"
    if not reads:
        return "drafted without a look"
    if len(reads) > 1:
        return f"mean of the {len(reads)} maps of its words"
    if is_flat(reads[0]):
        return "no preference: the mass lies almost evenly over all entries"
    entries = len(unpack_entries(reads[0].entries))
    return f"K {entries} of {int(maps.valid.sum())} · {maps.held(reads[0].captured)}"
