"""What of a drawn picture can be changed by hand: its parts, their properties, and what each may be.

A *part* is what a person would point at (the left worker, the barrel, row 3, the red bar); a *property* is one thing about it.
Values are text, as a field of a page shows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fovea_core.worksite.bars import FACES
from fovea_core.worksite.checking import MAX_CODE, PLATE
from fovea_core.worksite.scenery import SCENERIES
from fovea_core.worksite.sheets import BOARDS, PAPERS
from fovea_core.worksite.signs import CELLS, MIN_CELLS, WORD_HIGH, item_name, plan_text
from fovea_core.worksite.text import ITEMWISE
from fovea_core.worksite.words import COLOURS, HEADWEAR, OBJECTS, SIGN_WORDS, TOOLS

#: Headwear that may carry a letter.
LETTERED = ("hard hat", "helmet")
MAX_VALUE = 999
MAX_TITLE = 5
#: Names for the colours of boards, paper and the boards of charts, which no question asks about.
SHEETS = {
    "sign": dict(
        zip(("green", "blue", "yellow", "white", "brown", "black", "red", "orange", "cream", "gray"), BOARDS, strict=True)
    ),
    "paper": dict(zip(("white", "cream", "pale blue", "pale pink", "pale green"), PAPERS, strict=True)),
    "chart": dict(zip(("white", "cream", "pale blue", "dark green", "dark blue", "pale green", "sand"), FACES, strict=True)),
}
_WORD_CELLS = 1.23  # the height of a word, as signs.Plan.legible wants it


@dataclass(frozen=True)
class Property:
    """One thing that can be changed. ``key`` is unique in its part; properties of one ``row`` belong side by side.

    ``sort``: colour or choice (one of ``choices``), code (``least`` to ``most`` capital letters and digits) or number (whole,
    from ``least`` to ``most``). ``value`` is what the picture shows. ``mark``: how the names of the things that show it begin
    (base.Thing), and ``said``: how an answer says it, where it is said in one word or number.
    """

    key: str
    row: str
    label: str
    sort: str
    value: str
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    mark: str = ""
    said: str | None = None


@dataclass(frozen=True)
class Part:
    """Something one can point at; ``colour`` is a key of words.COLOURS where it has one."""

    key: str
    label: str
    colour: str | None
    properties: tuple[Property, ...]


def parts_of(kind: str, spec: dict) -> tuple[Part, ...]:
    """All parts of a picture in reading order. ``spec`` must be one that can be drawn."""
    return tuple({"scene": _scene, "text": _text, "chart": _chart}[kind](spec))


def _code(key: str, row: str, label: str, value: str, limits: tuple[int, int], mark: str) -> Property:
    return Property(key, row, label, "code", value, (), *limits, mark=mark)


def _word(key: str, row: str, label: str, value: str, choices: tuple[str, ...], mark: str, sort: str = "choice") -> Property:
    return Property(key, row, label, sort, value, tuple(choices), mark=mark, said=value)


# --- scenes --------------------------------------------------------------------------------------------------------


def _scene(spec: dict) -> Iterator[Part]:
    """Workers, then objects, each from left to right, then the place."""
    workers = sorted(enumerate(spec["workers"], 1), key=lambda entry: entry[1]["x"])
    sides = {1: ("worker",), 2: ("left worker", "right worker"), 3: ("left worker", "middle worker", "right worker")}
    names = sides.get(len(workers)) or tuple(f"worker {n}" for n in range(1, len(workers) + 1))
    for name, (n, worker) in zip(names, workers, strict=True):
        yield Part(f"worker{n}", name, worker["jumpsuit"], tuple(_worker(f"worker{n}", worker)))
    objects = sorted(enumerate(spec["objects"], 1), key=lambda entry: entry[1]["x"])
    count, seen = Counter(item["noun"] for _, item in objects), Counter()
    for n, item in objects:
        noun = item["noun"]
        seen[noun] += 1
        name = noun if count[noun] == 1 else f"{noun} {seen[noun]}"
        properties = (
            _word("colour", "Object", "Colour of the object", item["colour"], tuple(COLOURS), f"object{n}_body", "colour"),
            _word("noun", "Object", "Object", noun, OBJECTS, f"object{n}_body"),
            _code("plate", "Plate", "Plate", item["plate"], PLATE, f"object{n}_plate_"),
        )
        yield Part(f"object{n}", name, item["colour"], properties)
    yield Part("place", "place", None, (_word("background", "Place", "Place", spec["background"], SCENERIES, ""),))


def _worker(name: str, worker: dict) -> Iterator[Property]:
    colours = tuple(COLOURS)
    yield _word("jumpsuit", "Jumpsuit", "Colour of the jumpsuit", worker["jumpsuit"], colours, f"{name}_jumpsuit", "colour")
    hat, tool = f"{name}_headwear", f"{name}_tool"
    yield _word("headwear_colour", "Headwear", "Colour of the headwear", worker["headwear_colour"], colours, hat, "colour")
    yield _word("headwear", "Headwear", "Headwear", worker["headwear"], HEADWEAR, hat)
    if worker["headwear"] in LETTERED:
        yield _code("letter", "Headwear", "Letter on the headwear", worker["letter"] or "", (0, 1), f"{name}_letter_")
    yield _word("tool_colour", "Tool", "Colour of the tool", worker["tool_colour"], colours, tool, "colour")
    yield _word("tool", "Tool", "Tool", worker["tool"], TOOLS, tool)
    yield _code("badge", "Badge", "Badge", worker["badge"], PLATE, f"{name}_badge_")


# --- writing -------------------------------------------------------------------------------------------------------


def _text(spec: dict) -> Iterator[Part]:
    """Plates and labels one by one, other layouts row by row, then the board or paper."""
    single = spec["layout"] in ITEMWISE
    noun = {"plates": "plate", "labels": "label"}.get(spec["layout"], "row")
    fits = _fitting(spec)
    number = 0
    for r, row in enumerate(spec["rows"]):
        found = [list(_item(spec, fits, r, i, len(row) == 1 or single)) for i in range(len(row))]
        for i in range(len(row) if single else 0):
            number += 1
            yield Part(f"{noun}{number}", f"{noun} {number}", row[i].get("colour"), tuple(found[i]))
        if not single:
            yield Part(f"row{r + 1}", f"row {r + 1}", None, tuple(property for item in found for property in item))
    if spec["layout"] != "plates":
        yield Part("sheet", "board" if spec["layout"] == "sign" else "paper", None, (_sheet(spec, "board_rgb"),))


def _item(spec: dict, fits: Callable[[int, int, str, str], bool], r: int, i: int, alone: bool) -> Iterator[Property]:
    """The properties of the item at row ``r``, place ``i``; its keys name that place."""
    item, name = spec["rows"][r][i], item_name(r, i)
    place = "" if alone else f" {i + 1}"
    others = [other for row in spec["rows"] for other in row if other is not item]
    if "colour" in item:
        free = tuple(colour for colour in COLOURS if colour not in [other.get("colour") for other in others])
        yield _word(f"{name}-colour", "Colour", "Colour of the plate", item["colour"], free, f"{name}-plate", "colour")
    if "word" in item:
        taken = [other.get("word") for other in others]
        free = tuple(word for word in SIGN_WORDS if word not in taken and (word == item["word"] or fits(r, i, "word", word)))
        yield _word(f"{name}-word", "Word" if alone else "Shows", "Word", item["word"], free, f"{name}-word")
    if "code" in item:
        most = len(item["code"])
        while most < MAX_CODE and fits(r, i, "code", "M" * (most + 1)):
            most += 1
        row = "Code" if alone else "Shows"
        yield _code(f"{name}-code", row, f"Code{place}", item["code"], (1, most), f"{name}-char")


def _fitting(spec: dict) -> Callable[[int, int, str, str], bool]:
    """A function (row, place, key, value) that says whether everything stays legible with that value in that place."""
    rows, style, known = spec["rows"], spec["style"], {}
    width, height = spec["width_px"], spec["height_px"]
    worded = any("word" in item for row in rows for item in row)

    def fits(r: int, i: int, key: str, value: str) -> bool:
        asked = (r, i, key, len(value))
        if asked not in known:
            changed = [list(row) for row in rows]
            changed[r][i] = changed[r][i] | {key: value}
            plan = plan_text(spec["layout"], changed, style)
            unit = min(width / plan.width, height / plan.height) / max(width, height) * CELLS
            legible = style["aspect"] * unit**2 >= 0.99 * MIN_CELLS  # sides are rounded to pixels
            known[asked] = legible and (not worded or unit * WORD_HIGH >= 0.99 * _WORD_CELLS)
        return known[asked]

    return fits


def sheets_of(spec: dict) -> dict[str, tuple]:
    """The colours that board or paper of this picture may have, by name."""
    return SHEETS["chart" if "bars" in spec else "sign" if spec["layout"] == "sign" else "paper"]


def _sheet(spec: dict, key: str) -> Property:
    faces = sheets_of(spec)
    row = "Paper" if faces is SHEETS["paper"] else "Board"
    now = next((name for name, face in faces.items() if list(face[0]) == list(spec["style"][key])), "")
    return Property("sheet", row, f"Colour of the {row.lower()}", "choice", now, tuple(faces))


# --- charts --------------------------------------------------------------------------------------------------------


def _chart(spec: dict) -> Iterator[Part]:
    """Bars from left to right, then title and board."""
    bars = spec["bars"]
    longest = {key: max(len(bar[key]) for bar in bars) for key in ("label", "badge")}
    for b, bar in enumerate(bars, 1):
        taken = [other["colour"] for other in bars if other is not bar]
        free = tuple(colour for colour in COLOURS if colour not in taken)
        properties = (
            _word("colour", "Colour", "Colour of the bar", bar["colour"], free, f"bar{b}", "colour"),
            Property("value", "Value", "Value", "number", str(bar["value"]), (), 1, MAX_VALUE, f"bar{b}", str(bar["value"])),
            _code("label", "Label", "Label", bar["label"], (1, longest["label"]), f"bar{b}-label"),
            _code("badge", "Badge", "Badge", bar["badge"], (1, max(1, longest["badge"])), f"bar{b}-badge"),
        )
        yield Part(f"bar{b}", f"bar {b}", bar["colour"], properties)
    title = _code("title", "Title", "Title", spec.get("title", ""), (0, MAX_TITLE), "title")
    yield Part("chart", "board", None, (title, _sheet(spec, "face_rgb")))
