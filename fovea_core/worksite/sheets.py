"""What writing and charts stand on: grounds, boards, plates, paper and labels, with screws and tacks."""

from __future__ import annotations

import numpy as np

from fovea_core.worksite.canvas import Canvas, Colour, Grad, tone

#: Board colours of a sign with the ink that is read well on them.
BOARDS: tuple[tuple[Colour, Colour], ...] = (
    ((24, 104, 66), (246, 248, 240)),
    ((28, 72, 150), (246, 248, 250)),
    ((246, 200, 40), (28, 28, 30)),
    ((238, 238, 230), (30, 32, 38)),
    ((112, 70, 40), (250, 240, 214)),
    ((44, 48, 54), (250, 214, 90)),
    ((176, 36, 36), (252, 246, 238)),
    ((240, 122, 30), (26, 24, 24)),
    ((246, 238, 214), (26, 46, 92)),
    ((188, 194, 200), (34, 38, 48)),
)
PAPERS: tuple[tuple[Colour, Colour], ...] = (
    ((250, 248, 242), (40, 40, 46)),
    ((252, 246, 226), (52, 44, 40)),
    ((238, 244, 250), (30, 44, 84)),
    ((250, 240, 246), (74, 30, 60)),
    ((240, 248, 236), (26, 66, 44)),
)
GROUNDS: dict[str, tuple[Colour, ...]] = {
    "brick": ((150, 84, 66), (128, 92, 80), (170, 120, 96), (112, 108, 108)),
    "plaster": ((206, 198, 180), (158, 178, 184), (188, 160, 138), (122, 136, 130)),
    "concrete": ((150, 152, 152), (128, 126, 122), (170, 166, 158)),
    "wood": ((168, 112, 66), (118, 76, 48), (196, 150, 98), (92, 70, 58)),
    "corrugated": ((96, 118, 132), (152, 156, 158), (136, 72, 58), (70, 96, 84)),
    "metal": ((140, 146, 152), (96, 104, 114)),
    "felt": ((60, 84, 72), (70, 74, 96), (96, 60, 60)),
}
GROUND_OF = {
    "sign": ("brick", "plaster", "concrete", "corrugated", "wood"),
    "plates": ("wood", "concrete", "corrugated", "metal", "plaster"),
    "table": ("plaster", "concrete", "wood", "felt", "brick"),
    "receipt": ("wood", "wood", "felt", "metal", "concrete"),
    "labels": ("wood", "corrugated", "plaster", "metal", "concrete"),
}
SHEET_OF = {"sign": "enamel", "plates": "enamel", "table": "paper", "receipt": "paper", "labels": "paper"}
CUTS_OF = {
    "sign": ("bold", "bold", "slanted", "stencil", "worn"),
    "plates": ("bold",),
    "table": ("bold", "slanted"),
    "receipt": ("bold", "dots"),
    "labels": ("bold", "stencil", "slanted", "worn"),
}


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """The colour at ``share`` of the way from the first to the second."""
    return tuple(round(a + (b - a) * share) for a, b in zip(first, second, strict=True))


def ink_on(colour: Colour) -> Colour:
    """Dark or light ink, whichever is read better."""
    light = 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]
    return (28, 28, 34) if light > 118 else (248, 248, 244)


def draw_sheet(layout: str, canvas: Canvas, box, base: Colour, ink: Colour, unit: float, number: int) -> None:
    """Draw the sheet of a layout in ``box`` (picture px) as body ``number``; ``unit`` is a glyph's width in px."""
    _DRAWN[layout](canvas, box, base, ink, unit, number)


def screw(canvas: Canvas, x: float, y: float, radius: float, turn: float = 0.6) -> None:
    """A screw head with its slot and a small shadow."""
    canvas.shadow(x + radius * 0.25, y + radius * 0.4, radius * 1.7, radius * 1.7, 0.5)
    canvas.ellipse(x, y, radius, radius, Grad((236, 238, 240), (112, 116, 122), "radial"))
    cos, sin = np.cos(turn) * radius * 0.7, np.sin(turn) * radius * 0.7
    canvas.line([(x - cos, y - sin), (x + cos, y + sin)], radius * 0.3, (70, 72, 78))


def _sheet_sign(canvas, box, base, ink, unit, number):
    """An enamel board with a lit edge, a border line in its ink and four screws."""
    left, top, right, bottom = box
    canvas.rounded(*box, unit * 0.3, Grad(tone(base, 0.3), tone(base, -0.35)), number)
    e = unit * 0.05
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.26, Grad(tone(base, 0.06), tone(base, -0.1)), number)
    e = unit * 0.13
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.2, ink, number)
    e = unit * 0.18
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.16, Grad(tone(base, 0.06), tone(base, -0.1)), number)
    for k, (x, y) in enumerate([(left, top), (right, top), (left, bottom), (right, bottom)]):
        inset = unit * 0.33
        screw(canvas, x + (inset if x == left else -inset), y + (inset if y == top else -inset), unit * 0.1, 0.5 + k)


def _sheet_plate(canvas, box, base, ink, unit, number):
    """A number plate: pressed rim, two screws."""
    left, top, right, bottom = box
    canvas.rounded(*box, unit * 0.2, Grad(tone(base, 0.4), tone(base, -0.4)), number)
    e = unit * 0.04
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.17, ink, number)
    e = unit * 0.085
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.14, Grad(tone(base, 0.08), tone(base, -0.08)), number)
    middle = (top + bottom) / 2
    for x in (left + unit * 0.185, right - unit * 0.185):
        screw(canvas, x, middle, unit * 0.065)


def _sheet_table(canvas, box, base, ink, unit, number):
    """A framed board with a paper face."""
    left, top, right, bottom = box
    frame = mix(ink, (120, 96, 70), 0.55)
    canvas.rounded(*box, unit * 0.12, Grad(tone(frame, 0.25), tone(frame, -0.3)), number)
    e = unit * 0.17
    canvas.rounded(left + e, top + e, right - e, bottom - e, 0, tone(frame, -0.5), number)
    e = unit * 0.2
    canvas.rounded(left + e, top + e, right - e, bottom - e, 0, Grad(tone(base, -0.05), base), number)


def _sheet_receipt(canvas, box, base, ink, unit, number):
    """Paper with a torn zigzag at both ends."""
    left, top, right, bottom = box
    teeth = max(6, round((right - left) / unit * 3))
    x = np.linspace(left, right, 2 * teeth + 1)
    saw = np.where(np.arange(len(x)) % 2, unit * 0.13, 0.0)
    outline = np.concatenate([np.stack([x, top + saw], 1), np.stack([x[::-1], bottom - saw[::-1]], 1)])
    canvas.polygon(outline, Grad(base, tone(base, -0.06)), number)


def _sheet_label(canvas, box, base, ink, unit, number):
    """A paper label with a coloured edge and a thumbtack."""
    left, top, right, bottom = box
    canvas.rounded(*box, unit * 0.1, tone(base, -0.12), number)
    e = unit * 0.03
    canvas.rounded(left + e, top + e, right - e, bottom - e, unit * 0.08, Grad(base, tone(base, -0.05)), number)
    canvas.rounded(left + e, top + e, left + unit * 0.16, bottom - e, unit * 0.05, mix(ink, base, 0.25), number)
    x, y = (left + right) / 2, top + unit * 0.1
    canvas.shadow(x + unit * 0.05, y + unit * 0.08, unit * 0.16, unit * 0.14, 0.5)
    canvas.ellipse(x, y, unit * 0.09, unit * 0.09, Grad((250, 120, 110), (150, 24, 24), "radial"))


_DRAWN = {
    "sign": _sheet_sign,
    "plates": _sheet_plate,
    "table": _sheet_table,
    "receipt": _sheet_receipt,
    "labels": _sheet_label,
}
