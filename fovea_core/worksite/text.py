"""Pictures of writing: signs, number plates, tables, receipts and shelf labels, with questions about what they say.

Most of what such a picture shows are codes whose characters are drawn uniformly from words.CODE_CHARS, so that nothing but
sight tells the next one. ``spec`` is the whole content as plain JSON::

    {"layout": "sign", "width_px": 1120, "height_px": 960, "style": {...}, "rows": [[{"code": "K7Q2"}, {"code": "B9X"}], ...]}

An item of a row has a ``code``, a ``word`` (answered in lower case, drawn in capitals where ``upper``) or both, and a
``colour`` where it is a number plate. Redrawing with an edited spec changes that property alone.
"""

from __future__ import annotations

import numpy as np

from fovea_core.worksite.base import Answer, Picture, Question
from fovea_core.worksite.checking import MAX_CODE, MAX_THINGS, check_frame, check_text_style, code, listed, one_of, table, take
from fovea_core.worksite.codes import MIN_TOKENS, count_tokens, random_code
from fovea_core.worksite.signs import choose_style, draw_text, item_name, picture_size
from fovea_core.worksite.words import COLOURS, SIGN_WORDS
from fovea_core.worksite.writing import draw_long_px, long_questions, make_written, some_short

#: Layouts and how often they are drawn: those with characters alone are the majority.
LAYOUTS = {"sign": 0.32, "plates": 0.2, "table": 0.22, "receipt": 0.13, "labels": 0.13}
#: Layouts in which `;` closes an item (a plate, a label); elsewhere it closes a row.
ITEMWISE = ("plates", "labels")


def make_text(seed: int, scale: float = 2.0, spec: dict | None = None) -> Picture:
    """A picture of writing, the same for the same seed and spec. ``scale`` is the canvas's supersampling (0.5: half size).

    Raises ValueError when ``spec`` names an unknown layout, word or colour, a character outside words.CODE_CHARS, or shows
    the same code, word or plate colour twice (its questions would be ambiguous).
    """
    steps = {"random": random_text, "check": check_spec, "draw": draw_text, "ask": text_questions}
    return make_written("text", seed, scale, spec, **steps)


def random_text(rng: np.random.Generator) -> dict:
    """A random spec whose reading has at least 40 tokens."""
    layout = str(rng.choice(list(LAYOUTS), p=list(LAYOUTS.values())))
    while True:
        rows = _ROWS[layout](rng)
        codes = [item["code"] for row in rows for item in row if "code" in item]
        enough = count_tokens(_read(layout, rows, _forward).text) >= MIN_TOKENS
        style = choose_style(layout, rows, rng) if enough and len(set(codes)) == len(codes) else None
        if style:
            break
    width, height = picture_size(layout, rows, style, draw_long_px(rng))
    return {"layout": layout, "width_px": width, "height_px": height, "style": style, "rows": rows}


def check_spec(spec: dict) -> None:
    layout = one_of(spec, "layout", LAYOUTS, "the picture")
    rows = listed(spec, "rows", 1, 12, "the picture")
    for r, row in enumerate(rows, 1):
        listed({"items": row}, "items", 1, 8, f"row {r}")
        _check_row(layout, row, f"row {r}")
    if layout in ("table", "plates", "labels") and len({len(row) for row in rows}) > 1:
        raise ValueError(f"a picture of layout {layout} needs as many items in every row.")
    items = [item for row in rows for item in row]
    for key in ("code", "word", "colour"):
        values = [item[key] for item in items if key in item]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ValueError(f"two items have the same {key}: {twice}.")
    if sum(2 + len(item.get("code", "")) for item in items) > MAX_THINGS:
        raise ValueError("this picture would show more characters than can be told apart.")
    check_text_style(check_frame(spec, "the picture"))


def _check_row(layout: str, row: list, where: str) -> None:
    """Each item shows what its layout draws and its questions ask for."""
    needed = {"plates": ("code", "colour"), "labels": ("code", "word"), "table": ("code",)}.get(layout, ())
    for i, item in enumerate(row, 1):
        name = f"{where}, item {i}"
        for key in needed:
            take(item, key, name)
        if table(item, name).get("colour") is not None:
            one_of(item, "colour", COLOURS, name)
        if "word" in item:
            one_of(item, "word", SIGN_WORDS, name)
        if "code" in item or "word" not in item:
            code(item, "code", 1, MAX_CODE, name)
        if "word" in item and "code" in item and layout != "labels":
            raise ValueError(f"{name} shows a word or a code, not both.")
    if not any("code" in item for item in row) or ("word" in row[0] and layout == "receipt" and "code" not in row[1]):
        raise ValueError(f"{where} needs a code, in a receipt right after its word.")


# --- content -------------------------------------------------------------------------------------------------------


def _split(rng: np.random.Generator, total: int, parts: int) -> list[int]:
    """``total`` characters in ``parts`` codes of at least 2 each."""
    extra = rng.multinomial(total - 2 * parts, [1 / parts] * parts)
    return [2 + int(n) for n in extra]


def _sign_rows(rng: np.random.Generator) -> list:
    count, total = [(4, 10), (5, 8), (5, 9), (6, 7)][rng.integers(4)]
    rows = []
    for _ in range(count):
        parts = int(rng.choice([2, 3], p=[0.6, 0.4]))
        rows.append([{"code": random_code(rng, n)} for n in _split(rng, total, parts)])
    return rows


def _table_rows(rng: np.random.Generator) -> list:
    columns, count, length = [(4, 5, 2), (3, 5, 3), (2, 5, 4), (2, 6, 4)][rng.integers(4)]
    return [[{"code": random_code(rng, length)} for _ in range(columns)] for _ in range(count)]


def _plate_rows(rng: np.random.Generator) -> list:
    count, columns, length = [(4, 2, 5), (5, 2, 4)][rng.integers(2)]
    colours = rng.choice(list(COLOURS), size=columns * count, replace=False).tolist()
    return [[{"code": random_code(rng, length), "colour": colours.pop()} for _ in range(columns)] for _ in range(count)]


def _receipt_rows(rng: np.random.Generator) -> list:
    words = rng.choice(SIGN_WORDS, size=6, replace=False).tolist()
    upper = bool(rng.random() < 0.5)
    rows = []
    for _ in range(6):
        if rng.random() < 0.6:
            rows.append([{"word": words.pop(), "upper": upper}, {"code": random_code(rng, int(rng.integers(4, 6)))}])
        else:
            rows.append([{"code": random_code(rng, n)} for n in _split(rng, 7, 2)])
    return rows


def _label_rows(rng: np.random.Generator) -> list:
    columns, count, length = [(2, 3, 5), (3, 3, 3)][rng.integers(2)]
    fitting = [word for word in SIGN_WORDS if len(word) <= length + 2]
    words = rng.choice(fitting, size=columns * count, replace=False).tolist()
    upper = bool(rng.random() < 0.5)
    return [
        [{"word": words.pop(), "upper": upper, "code": random_code(rng, length)} for _ in range(columns)] for _ in range(count)
    ]


_ROWS = {
    "sign": _sign_rows,
    "plates": _plate_rows,
    "table": _table_rows,
    "receipt": _receipt_rows,
    "labels": _label_rows,
}


# --- questions -----------------------------------------------------------------------------------------------------


def _forward(rows: list) -> list:
    """Item places in reading order: one list of (row, column) for each row."""
    return [[(r, i) for i in range(len(row))] for r, row in enumerate(rows)]


def _orders(spec: dict) -> dict[str, list]:
    """Question -> the places it asks for, in its order, one list for each row (or column)."""
    rows = _forward(spec["rows"])
    orders = {
        "Read everything.": rows,
        "Read the rows from bottom to top.": rows[::-1],
        "Read every row from right to left.": [row[::-1] for row in rows],
        "Read the rows from bottom to top, each from right to left.": [row[::-1] for row in rows[::-1]],
    }
    if spec["layout"] in ("table", "plates", "labels"):
        orders["Read the columns from left to right."] = [list(column) for column in zip(*rows, strict=True)]
    return orders


def say_item(answer: Answer, item: dict, place: tuple[int, int], fields: tuple[str, ...] = ("word", "code")) -> Answer:
    """Append what one item shows: the ``fields`` it has, in that order, a space between them."""
    name = item_name(*place)
    shown = [field for field in fields if field in item]
    for field in shown:
        if field != shown[0]:
            answer.say(" ")
        if field == "code":
            answer.code(item["code"], [f"{name}-char{c + 1}" for c in range(len(item["code"]))])
        else:
            part, cls = ("word", "word") if field == "word" else ("plate", "object")
            answer.fact(item[field], cls, f"{name}-{part}")
    return answer


def _read(layout: str, rows: list, order, fields: tuple[str, ...] = ("word", "code")) -> Answer:
    """The answer that reads ``rows`` in ``order`` (lists of places, or a function of rows that gives them)."""
    groups = order(rows) if callable(order) else order
    answer = Answer()
    close = "; " if layout in ITEMWISE else " "
    for g, group in enumerate(groups):
        answer.say("; " if g else "")
        for n, (r, i) in enumerate(group):
            say_item(answer.say(close if n else ""), rows[r][i], (r, i), fields)
    return answer


def every_question(spec: dict) -> tuple[list[Question], list[Question]]:
    """Every long question that this picture allows (at least three orders as drawn) and all short ones."""
    layout, rows = spec["layout"], spec["rows"]
    questions = long_questions((question, _read(layout, rows, order)) for question, order in _orders(spec).items())
    if layout == "plates":
        fields = ("colour", "code")
        down = _read(layout, rows, _forward, fields)
        up = _read(layout, rows, [row[::-1] for row in _forward(rows)[::-1]], fields)
        questions.append(down.ask("Give the colour and code of every plate from first to last."))
        questions.append(up.ask("Give the colour and code of every plate from last to first."))
    if layout == "labels":
        questions.append(_read(layout, rows, _forward, ("code", "word")).ask("Give the code and word of every label."))
    return questions, _SHORT[layout](rows) + _row_questions(layout, rows)


def text_questions(spec: dict, rng: np.random.Generator) -> list[Question]:
    """Every long question and four to eight short ones."""
    long, short = every_question(spec)
    return long + some_short(short, rng)


def _row_questions(layout: str, rows: list) -> list[Question]:
    """Short questions about a row, its first or its last code, and the number of rows."""
    asked = [Answer().say(str(len(rows))).ask("How many rows are there?", "short")]
    for r, row in enumerate(rows):
        whole = _read(layout, rows, [_forward(rows)[r]])
        if count_tokens(whole.text) <= 7:
            asked.append(whole.ask(f"What is in row {r + 1}?", "short"))
        coded = [i for i, item in enumerate(row) if "code" in item]
        for which, i in (("first", coded[0]), ("last", coded[-1])):
            if len(coded) > 1:
                answer = say_item(Answer(), row[i], (r, i), ("code",))
                asked.append(answer.ask(f"What is the {which} code in row {r + 1}?", "short"))
    return asked


def _sign_short(rows: list) -> list[Question]:
    """What stands right of a code."""
    return [
        say_item(Answer(), row[i + 1], (r, i + 1)).ask(f"Which code is right of {row[i]['code']}?", "short")
        for r, row in enumerate(rows)
        for i in range(len(row) - 1)
    ]


def _table_short(rows: list) -> list[Question]:
    """What stands below a code, and what is in a given cell."""
    below = [
        say_item(Answer(), rows[r + 1][i], (r + 1, i)).ask(f"Which code is below {item['code']}?", "short")
        for r, row in enumerate(rows[:-1])
        for i, item in enumerate(row)
    ]
    cells = [
        say_item(Answer(), item, (r, i)).ask(f"What is in row {r + 1}, column {i + 1}?", "short")
        for r, row in enumerate(rows)
        for i, item in enumerate(row)
    ]
    return below[::3] + cells[::3]


def _plate_short(rows: list) -> list[Question]:
    """Plate by colour and colour by plate; colours and codes are unique."""
    asked = []
    for r, row in enumerate(rows):
        for i, item in enumerate(row):
            asked.append(say_item(Answer(), item, (r, i), ("code",)).ask(f"What is on the {item['colour']} plate?", "short"))
            asked.append(say_item(Answer(), item, (r, i), ("colour",)).ask(f"Which colour is plate {item['code']}?", "short"))
    return asked


def _word_short(rows: list) -> list[Question]:
    """The word of a row (receipt), the code beside a word."""
    asked = []
    for r, row in enumerate(rows):
        if "word" in row[0]:
            asked.append(say_item(Answer(), row[0], (r, 0)).ask(f"Which word is in row {r + 1}?", "short"))
            asked.append(say_item(Answer(), row[1], (r, 1)).ask(f"Which code is beside {row[0]['word']}?", "short"))
    return asked


def _label_short(rows: list) -> list[Question]:
    """Word by code and code by word; both are unique."""
    asked = []
    for r, row in enumerate(rows):
        for i, item in enumerate(row):
            asked.append(say_item(Answer(), item, (r, i), ("word",)).ask(f"Which word is on label {item['code']}?", "short"))
            asked.append(
                say_item(Answer(), item, (r, i), ("code",)).ask(f"Which code is on the {item['word']} label?", "short")
            )
    return asked


_SHORT = {
    "sign": _sign_short,
    "plates": _plate_short,
    "table": _table_short,
    "receipt": _word_short,
    "labels": _label_short,
}
