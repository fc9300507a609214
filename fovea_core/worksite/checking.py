"""Whether a spec of a drawn picture can be drawn: whoever wrote it, it is refused in one sentence or drawn in bounded time.

Every function here raises ValueError with a sentence that says where the trouble is; none changes what it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fovea_core.worksite.layout import SKINS
from fovea_core.worksite.lettering import CUTS
from fovea_core.worksite.scenery import SCENERIES
from fovea_core.worksite.surface import MATERIALS
from fovea_core.worksite.words import CODE_CHARS, COLOURS, HEADWEAR, OBJECTS, TOOLS

#: Smallest and largest side of a picture in px.
SIDE_PX = (64, 2048)
MAX_CODE = 8
#: A thing's number is one byte.
MAX_THINGS = 254
#: Codes on plates and badges of a scene have a size of their own for each of these lengths.
PLATE = (1, 3)
ROWS = ("back", "middle", "front")


def shown(value: object) -> str:
    """A value as a sentence may quote it, never long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def table(value: object, where: str) -> Mapping:
    """The value, if it is a table of properties; ``where`` names it."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {shown(value)}, but must be a table of properties.")
    return value


def take(holder: object, key: str, where: str) -> Any:
    """The value under ``key`` of the table ``holder``."""
    if key not in table(holder, where):
        raise ValueError(f"{where} lacks {key!r}.")
    return holder[key]


def listed(holder: object, key: str, least: int, most: int, where: str) -> list:
    """The list under ``key``, of a length that is allowed."""
    value = take(holder, key, where)
    if not isinstance(value, list | tuple) or not least <= len(value) <= most:
        size = f"has {len(value)}" if isinstance(value, list | tuple) else f"is {shown(value)}"
        raise ValueError(f"{key} of {where} {size}: {least} to {most} are possible.")
    return list(value)


def number(holder: object, key: str, low: float, high: float, where: str, whole: bool = False) -> float:
    """The number between two bounds under ``key``."""
    value = take(holder, key, where)
    sort = int if whole else int | float
    if not isinstance(value, sort) or isinstance(value, bool) or not low <= value <= high:  # NaN neither
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{key} {shown(value)} of {where} is not possible: {kind} from {low:g} to {high:g}.")
    return value


def one_of(holder: object, key: str, choices: Collection[str], where: str) -> str:
    """The word under ``key``, one of ``choices``."""
    value = take(holder, key, where)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{key} {shown(value)} of {where} is not one of {', '.join(choices)}.")
    return value


def code(holder: object, key: str, least: int, most: int, where: str) -> str:
    """The code under ``key``: capital letters and digits."""
    value = take(holder, key, where)
    if not isinstance(value, str) or not set(value) <= set(CODE_CHARS):
        raise ValueError(f"{key} {shown(value)} of {where} may hold capital letters and digits only.")
    if not least <= len(value) <= most:
        raise ValueError(f"{key} of {where} has {len(value)} characters: {least} to {most} are possible.")
    return value


def numbers(holder: object, key: str, count: int, low: float, high: float, where: str) -> None:
    """A list of ``count`` numbers under ``key``, such as a colour."""
    for i, value in enumerate(listed(holder, key, count, count, where)):
        number({key: value}, key, low, high, f"{where} (place {i + 1})")


def check_scene(spec: dict) -> None:
    """A scene of one to four workers and one to nine objects (layout.random_spec)."""
    scene = "the scene"
    for side in listed(spec, "size", 2, 2, scene):
        number({"size": side}, "size", *SIDE_PX, scene, whole=True)
    one_of(spec, "background", SCENERIES, scene)
    for n, worker in enumerate(listed(spec, "workers", 1, 4, scene), 1):
        where = f"worker {n}"
        for key, choices in (
            ("jumpsuit", COLOURS),
            ("headwear", HEADWEAR),
            ("headwear_colour", COLOURS),
            ("tool", TOOLS),
            ("tool_colour", COLOURS),
        ):
            one_of(worker, key, choices, where)
        code(worker, "badge", *PLATE, where)
        if take(worker, "letter", where) is not None:
            code(worker, "letter", 1, 1, where)
        for key, low, high in (("x", -0.5, 1.5), ("top", -0.5, 1.5), ("unit", 0.05, 1.5), ("feet", 0.1, 2)):
            number(worker, key, low, high, where)
        if worker["feet"] <= worker["top"]:
            raise ValueError(f"{where} has feet above the head.")
        number(worker, "skin", 0, len(SKINS) - 1, where, whole=True)
        take(worker, "left_handed", where)
    for n, item in enumerate(listed(spec, "objects", 1, 9, scene), 1):
        where = f"object {n}"
        one_of(item, "noun", OBJECTS, where)
        one_of(item, "colour", COLOURS, where)
        code(item, "plate", *PLATE, where)
        for key, low, high in (("x", -0.5, 1.5), ("base", -0.5, 2), ("size", 0.02, 1.5)):
            number(item, key, low, high, where)
        one_of(item, "row", ROWS, where)


def check_frame(spec: dict, where: str) -> dict:
    """Size and light of a text picture or chart; returns its style."""
    for side in ("width_px", "height_px"):
        number(spec, side, *SIDE_PX, where, whole=True)
    style, look = take(spec, "style", where), f"the style of {where}"
    numbers(style, "light", 3, -2, 2, look)
    numbers(style, "tint", 3, 0, 2, look)
    for key, high in (("blind", 1), ("slant", 3)):
        if key in style:
            number(style, key, 0, high, look)
    number(style, "margin", 0, 3, look)
    return style


def check_text_style(style: dict) -> None:
    """What signs.draw_text reads of a style."""
    look = "the style of the picture"
    one_of(style, "ground", MATERIALS, look)
    one_of(style, "cut", CUTS, look)
    one_of(style, "align", ("left", "middle", "ends"), look)
    for key in ("ground_rgb", "board_rgb", "ink_rgb"):
        numbers(style, key, 3, 0, 255, look)
    number(style, "aspect", 0.5, 4, look)
    if "tilt" in style:
        number(style, "tilt", -10, 10, look)


def check_chart_style(style: dict) -> None:
    """What bars.draw_chart reads of a style."""
    look = "the style of the chart"
    for key in ("wall", "material"):
        one_of(style, key, MATERIALS, look)
    one_of(style, "shape", ("block", "round", "pillar"), look)
    for key in ("wall_rgb", "face_rgb", "ink_rgb"):
        numbers(style, key, 3, 0, 255, look)
    number(style, "grid_lines", 0, 20, look, whole=True)
    take(style, "frame", look)
    for key, low, high in (("column", 0.5, 14), ("bar_width", 0.4, 14), ("plot", 1, 14)):
        number(style, key, low, high, look)
