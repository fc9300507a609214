"""How a text picture looks: where every character goes (``plan``), and the drawing of boards, plates, paper and labels.

A plan is made in glyph widths, then scaled so that picture and spec agree. The long side of a picture is 14 cells of the
target's grid; a plan is taken only where every glyph box covers at least two of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import cv2
import numpy as np

from fovea_core.worksite.base import Thing
from fovea_core.worksite.canvas import Canvas, Colour, Grad, tone
from fovea_core.worksite.lettering import write
from fovea_core.worksite.surface import Light, Shade, finish
from fovea_core.worksite.words import COLOURS

CELLS = 14  # cells along the long side of a picture
MIN_CELLS = 2.12  # a glyph box in cells, with room for rounding
WORD_HIGH = 1.06  # height of a word in glyph widths
WORD_LETTER = 0.56  # width of a word's letter in glyph widths

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


def item_name(row: int, column: int) -> str:
    """Name of an item by its place, counted from 0; its parts add ``-char1``, ``-word`` or ``-plate``."""
    return f"row{row + 1}-item{column + 1}"


@dataclass
class Plan:
    """Places in glyph widths: size of the picture, sheets (place or None, box) and texts (name, text, class, box)."""

    width: float
    height: float
    sheets: list = field(default_factory=list)
    texts: list = field(default_factory=list)
    rules: list = field(default_factory=list)  # lines of a table: two points each

    def legible(self, aspect: float) -> bool:
        """Whether a glyph box covers two cells, and a word's letters (if any) are 0.6 cells wide and 1.2 high."""
        unit = CELLS / max(self.width, self.height)
        has_word = any(cls == "word" for _, _, cls, _ in self.texts)
        return aspect * unit**2 >= MIN_CELLS and (not has_word or unit * WORD_HIGH >= 1.23)

    def code(self, code: str, name: str, x: float, y: float, aspect: float) -> float:
        """Place a code at its left top corner; returns its right end."""
        for c, character in enumerate(code):
            cls = "digit" if character.isdigit() else "letter"
            self.texts.append((f"{name}-char{c + 1}", character, cls, (x + c, y, x + c + 1, y + aspect)))
        return x + len(code)

    def word(self, item: dict, name: str, x: float, y: float, height: float) -> float:
        """Place a word at its left top corner; returns its right end."""
        shown = item["word"].upper() if item.get("upper") else item["word"]
        right = x + WORD_LETTER * len(shown)
        self.texts.append((f"{name}-word", shown, "word", (x, y, right, y + height)))
        return right


# --- plans ---------------------------------------------------------------------------------------------------------


def _item_width(item: dict) -> float:
    return len(item["code"]) if "code" in item else WORD_LETTER * len(item["word"])


def _plan_lines(rows: list, aspect: float, margin: float, align: str, pads: tuple[float, float], lead: float) -> Plan:
    """Rows of codes and words on one sheet; ``align`` left, middle, or ends (first item left, last right)."""
    gap, (side, top) = 0.5, pads
    widths = [sum(map(_item_width, row)) + gap * (len(row) - 1) for row in rows]
    inner = max(widths)
    plan = Plan(inner + 2 * (side + margin), len(rows) * aspect + (len(rows) - 1) * lead + 2 * (top + margin))
    plan.sheets.append((None, (margin, margin, plan.width - margin, plan.height - margin)))
    for r, row in enumerate(rows):
        spare = inner - widths[r]
        x = margin + side + (spare / 2 if align == "middle" else 0)
        y = margin + top + r * (aspect + lead)
        between = gap + (spare / max(1, len(row) - 1) if align == "ends" else 0)
        for i, item in enumerate(row):
            name = item_name(r, i)
            if "word" in item:
                high = WORD_HIGH
                x = plan.word(item, name, x, y + (aspect - high) / 2, high) + between
            else:
                x = plan.code(item["code"], name, x, y, aspect) + between
    return plan


def _plan_sign(rows, aspect, margin, style):
    return _plan_lines(rows, aspect, margin, style["align"], (0.5, 0.5), 0.26)


def _plan_receipt(rows, aspect, margin, style):
    return _plan_lines(rows, aspect, margin, "ends", (0.45, 0.45), 0.2)


def _plan_table(rows, aspect, margin, style):
    """Cells with lines between; all codes of a column are as long."""
    pad, lead = 0.22, 0.16
    wide = [max(len(row[i]["code"]) for row in rows if i < len(row)) + 2 * pad for i in range(max(map(len, rows)))]
    high = aspect + 2 * lead
    frame = 0.22
    left = top = margin + frame
    plan = Plan(sum(wide) + 2 * left, high * len(rows) + 2 * top)
    plan.sheets.append((None, (margin, margin, plan.width - margin, plan.height - margin)))
    for r, row in enumerate(rows):
        for i, item in enumerate(row):
            x = left + sum(wide[:i]) + (wide[i] - len(item["code"])) / 2
            plan.code(item["code"], item_name(r, i), x, top + r * high + lead, aspect)
        if r:
            plan.rules.append(((left, top + r * high), (plan.width - left, top + r * high)))
    for i in range(1, len(wide)):
        x = left + sum(wide[:i])
        plan.rules.append(((x, top), (x, plan.height - top)))
    return plan


def _plan_grid(rows, aspect, margin, style, above: float, pad: tuple[float, float], gap: float) -> Plan:
    """Items as sheets of their own in a grid; ``above`` is the height of a word over the code (0: no word)."""
    inner = max(max(len(item["code"]), WORD_LETTER * len(item.get("word", ""))) for row in rows for item in row)
    wide, high = inner + 2 * pad[0], aspect + above + 2 * pad[1]
    columns = max(map(len, rows))
    plan = Plan(columns * (wide + gap) - gap + 2 * margin, len(rows) * (high + gap) - gap + 2 * margin)
    for r, row in enumerate(rows):
        for i, item in enumerate(row):
            x, y = margin + i * (wide + gap), margin + r * (high + gap)
            plan.sheets.append(((r, i), (x, y, x + wide, y + high)))
            middle = x + wide / 2
            if above and "word" in item:
                plan.word(item, item_name(r, i), middle - WORD_LETTER * len(item["word"]) / 2, y + pad[1], above - 0.08)
            plan.code(item["code"], item_name(r, i), middle - len(item["code"]) / 2, y + pad[1] + above, aspect)
    return plan


def _plan_plates(rows, aspect, margin, style):
    return _plan_grid(rows, aspect, margin, style, 0.0, (0.3, 0.18), 0.2)


def _plan_labels(rows, aspect, margin, style):
    return _plan_grid(rows, aspect, margin, style, WORD_HIGH + 0.08, (0.25, 0.2), 0.22)


_PLANS = {
    "sign": _plan_sign,
    "plates": _plan_plates,
    "table": _plan_table,
    "receipt": _plan_receipt,
    "labels": _plan_labels,
}


def choose_style(layout: str, rows: list, rng: np.random.Generator) -> dict | None:
    """A random look: colours, materials, light, and proportions that give every glyph its two cells (None: there are none)."""
    ground = str(rng.choice(GROUND_OF[layout]))
    board, ink = (BOARDS if layout in ("sign",) else PAPERS)[rng.integers(len(BOARDS if layout == "sign" else PAPERS))]
    style = {
        "ground": ground,
        "ground_rgb": list(GROUNDS[ground][rng.integers(len(GROUNDS[ground]))]),
        "board_rgb": list(board),
        "ink_rgb": list(ink),
        "cut": str(rng.choice(CUTS_OF[layout])),
        "align": str(rng.choice(["left", "middle", "ends"])),
        "light": [
            round(float(rng.uniform(0, 1)), 2),
            round(float(rng.uniform(-0.1, 0.5)), 2),
            round(float(rng.uniform(0.2, 0.5)), 2),
        ],
        "tint": [round(float(v), 3) for v in (1 + rng.uniform(-0.04, 0.05), 1.0, 1 + rng.uniform(-0.08, 0.05))],
    }
    lean = rng.normal(0, 0.8)
    for aspect in sorted(rng.uniform(1.0, 2.0, 12), key=lambda a: abs(a - 1.3)):
        for margin in sorted(rng.uniform(0.2, 1.1, 4), reverse=True):
            style |= {"margin": round(float(margin), 2), "aspect": round(float(aspect), 2)}
            plan = plan_text(layout, rows, style)
            reach = math.degrees(style["margin"] / max(plan.width, plan.height) * 2)  # keeps the sheet inside
            style["tilt"] = round(float(np.clip(lean, -reach, reach)), 2)
            if plan.legible(style["aspect"]) and max(plan.width, plan.height) <= 1.95 * min(plan.width, plan.height):
                return style
    return None


def plan_text(layout: str, rows: list, style: dict) -> Plan:
    """Where everything of a text picture goes."""
    return _PLANS[layout](rows, style["aspect"], style["margin"], style)


def picture_size(layout: str, rows: list, style: dict, long_px: int) -> tuple[int, int]:
    """Width and height in px of the picture that holds the plan, the long side ``long_px``."""
    plan = plan_text(layout, rows, style)
    unit = long_px / max(plan.width, plan.height)
    return round(plan.width * unit), round(plan.height * unit)


# --- drawing -------------------------------------------------------------------------------------------------------


def draw_text(spec: dict, rng: np.random.Generator, scale: float):
    """Draw a text spec: rgb, layers, things."""
    style, rows, layout = spec["style"], spec["rows"], spec["layout"]
    plan = plan_text(layout, rows, style)
    width, height = spec["width_px"], spec["height_px"]
    unit = min(width / plan.width, height / plan.height)
    dx, dy = (width - plan.width * unit) / 2, (height - plan.height * unit) / 2

    def px(box):
        return tuple(v * unit + (dy if k % 2 else dx) for k, v in enumerate(box))

    canvas = Canvas(width, height, scale)
    cv2.rectangle(canvas.rgb, (0, 0), canvas.rgb.shape[1::-1], style["ground_rgb"], -1)
    things, materials, shades = [], {}, []
    inks = {}
    for place, box in plan.sheets:
        item = rows[place[0]][place[1]] if place else {}
        colour = item.get("colour")
        name = f"{item_name(*place)}-plate" if place else "board"
        things.append(Thing(name, "object", "sign", colour, 0))
        number = len(things)
        materials[number] = SHEET_OF[layout]
        base = COLOURS[colour] if colour else tuple(style["board_rgb"])
        inks[place] = ink_on(base) if colour else tuple(style["ink_rgb"])
        sheet = px(box)
        drop = unit * (0.16 if layout in ("sign", "table") else 0.09)
        away = (0.5 - style["light"][0]) * 2 * drop
        left, top, right, bottom = sheet
        shades.append(Shade(0, (left + away, top + drop, right + away, bottom + drop * 1.4), drop * 1.5, 0.55))
        _SHEETS[layout](canvas, sheet, base, inks[place], unit, number)
    for a, b in plan.rules:
        ends = [px(a), px(b)]
        canvas.line(ends, unit * 0.05, mix(tuple(style["ink_rgb"]), tuple(style["board_rgb"]), 0.45))
    relief = unit * 0.035 if layout == "plates" else 0.0
    single = inks.get(None)
    for name, text, cls, box in plan.texts:
        noun = text.lower() if cls == "word" else text
        things.append(Thing(name, cls, noun, None, 1))
        place = tuple(int("".join(filter(str.isdigit, part))) - 1 for part in name.split("-")[:2])
        ink = single or inks[place]
        write(canvas, text, px(box), ink, len(things), cut=style["cut"], relief=relief, pad=0.05 if cls == "word" else 0.08)
    x, y, strength = style["light"]
    lamp = Light(x, y, strength, tuple(style["tint"]))
    rgb, layers = finish(canvas, style["ground"], materials, shades, lamp, rng, style.get("tilt", 0.0))
    return rgb, layers, things


def mix(first: Colour, second: Colour, share: float) -> Colour:
    return tuple(round(a + (b - a) * share) for a, b in zip(first, second, strict=True))


def ink_on(colour: Colour) -> Colour:
    """Dark or light ink, whichever is read better."""
    light = 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]
    return (28, 28, 34) if light > 118 else (248, 248, 244)


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


_SHEETS = {
    "sign": _sheet_sign,
    "plates": _sheet_plate,
    "table": _sheet_table,
    "receipt": _sheet_receipt,
    "labels": _sheet_label,
}
