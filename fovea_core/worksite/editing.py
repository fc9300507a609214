"""Changing one property of a drawn picture by hand, and what a person is told where that cannot be."""

from __future__ import annotations

import copy

from fovea_core.worksite import chart, text
from fovea_core.worksite.checking import shown
from fovea_core.worksite.parts import LETTERED, Part, Property, parts_of, sheets_of
from fovea_core.worksite.signs import item_name
from fovea_core.worksite.words import CODE_CHARS


def find(kind: str, spec: dict, part: str, key: str) -> tuple[Part, Property]:
    """The property ``key`` of ``part``. Raises ValueError where the picture has none."""
    for candidate in parts_of(kind, spec):
        for found in candidate.properties:
            if (candidate.key, found.key) == (part, key):
                return candidate, found
    raise ValueError("This picture has no such property.")


def change(kind: str, spec: dict, part: str, key: str, value: str, drawn: dict | None = None) -> dict:
    """A new spec with one property set to the text ``value``. Raises ValueError with a sentence for a person.

    ``drawn`` is the spec as it was drawn first: a hat gets the letter back that a cap could not carry.
    """
    _, found = find(kind, spec, part, key)
    value = _checked(found, value)
    new = copy.deepcopy(spec)
    {"scene": _set_scene, "text": _set_text, "chart": _set_chart}[kind](new, part, key, value, drawn or spec)
    if kind == "text":
        text.check_spec(new)
    elif kind == "chart":
        chart.check_spec(new)
    return new


def _checked(found: Property, value: str) -> str:
    """The value as the spec will hold it: one of the choices, a code in capitals, or digits."""
    if not isinstance(value, str):
        raise ValueError(f"{found.label}: {shown(value)} is not a text.")
    if found.choices:
        if value not in found.choices:
            raise ValueError(f"{found.label}: {shown(value)} is not possible here. Choose one from the list.")
        return value
    value = value.strip()
    if found.sort == "number":
        if not (value.isascii() and value.isdigit() and len(value) <= 9 and found.least <= int(value) <= found.most):
            raise ValueError(f"{found.label}: {shown(value)} is no whole number from {found.least} to {found.most}.")
        return str(int(value))
    if not (value.isascii() and set(value.upper()) <= set(CODE_CHARS)):  # not ASCII: some would become two capitals
        raise ValueError(f"{found.label}: only letters A to Z and digits can be drawn, not {shown(value)}.")
    if not found.least <= len(value) <= found.most:
        span = str(found.most) if found.least == found.most else f"{found.least} to {found.most}"
        fit = f"{span} character{'' if found.most == 1 else 's'}"
        raise ValueError(f"{found.label}: {fit} can be drawn here, not {len(value)}.")
    return value.upper()


def _place(part: str) -> tuple[str, int]:
    """'worker2' as the list it is in and its index."""
    name = part.rstrip("0123456789")
    return f"{name}s", int(part[len(name) :] or 0) - 1


def _set_scene(spec: dict, part: str, key: str, value: str, drawn: dict) -> None:
    if part == "place":
        spec[key] = value
        return
    group, index = _place(part)
    holder = spec[group][index]
    holder[key] = value or None
    if key == "headwear":
        kept = holder["letter"] or drawn[group][index]["letter"]
        holder["letter"] = kept if value in LETTERED else None


def _set_text(spec: dict, part: str, key: str, value: str, drawn: dict) -> None:
    if key == "sheet":
        spec["style"]["board_rgb"], spec["style"]["ink_rgb"] = map(list, sheets_of(spec)[value])
        return
    for r, row in enumerate(spec["rows"]):
        for i, item in enumerate(row):
            name, _, field = key.rpartition("-")
            if name == item_name(r, i):
                item[field] = value


def _set_chart(spec: dict, part: str, key: str, value: str, drawn: dict) -> None:
    if key == "sheet":
        face, ink, material = sheets_of(spec)[value]
        spec["style"] |= {"face_rgb": list(face), "ink_rgb": list(ink), "material": material}
    elif part == "chart":
        spec[key] = value
    else:
        spec["bars"][_place(part)[1]][key] = int(value) if key == "value" else value
