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
from fovea_core.worksite.canvas import Canvas
from fovea_core.worksite.lettering import write
from fovea_core.worksite.sheets import BOARDS, CUTS_OF, GROUND_OF, GROUNDS, PAPERS, SHEET_OF, draw_sheet, ink_on, mix
from fovea_core.worksite.surface import Shade, finish, light_of, random_light
from fovea_core.worksite.words import COLOURS

CELLS = 14  # cells along the long side of a picture
MIN_CELLS = 2.12  # a glyph box in cells, with room for rounding
WORD_HIGH = 1.06  # height of a word in glyph widths
WORD_LETTER = 0.56  # width of a word's letter in glyph widths


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
    faces = BOARDS if layout == "sign" else PAPERS
    board, ink = faces[rng.integers(len(faces))]
    style = {
        "ground": ground,
        "ground_rgb": list(GROUNDS[ground][rng.integers(len(GROUNDS[ground]))]),
        "board_rgb": list(board),
        "ink_rgb": list(ink),
        "cut": str(rng.choice(CUTS_OF[layout])),
        "align": str(rng.choice(["left", "middle", "ends"])),
        **random_light(rng),
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
        draw_sheet(layout, canvas, sheet, base, inks[place], unit, number)
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
    rgb, layers = finish(canvas, style["ground"], materials, shades, light_of(style), rng, style.get("tilt", 0.0))
    return rgb, layers, things
