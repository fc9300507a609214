"""Bar charts: every bar has a colour, a value, a label code and a badge; questions ask for them in many orders.

``spec`` is the whole content as plain JSON::

    {"width_px": 1120, "height_px": 960, "style": {...}, "title": "4K9W",
     "bars": [{"colour": "red", "label": "K7", "value": 478, "badge": "QX"}, ...]}

No colour, and no label, badge or value, is there twice. Redrawing with an edited spec changes that property alone.
"""

from __future__ import annotations

import numpy as np

from fovea_core.worksite.bars import chart_size, choose_chart_style, draw_chart, least_share
from fovea_core.worksite.base import Answer, Picture, Question
from fovea_core.worksite.checking import MAX_CODE, check_chart_style, check_frame, code, listed, number, one_of
from fovea_core.worksite.codes import random_code
from fovea_core.worksite.words import COLOURS
from fovea_core.worksite.writing import draw_long_px, long_questions, make_written, some_short

#: Bars -> (label length, badge length, title length, shortest value in digits): each gives at least 40 answer tokens.
SHAPES = {
    3: ((4, 3, 5, 3), (4, 4, 4, 3)),
    4: ((3, 3, 0, 3), (3, 2, 4, 3), (3, 3, 3, 2)),
    5: ((2, 2, 0, 3), (2, 2, 3, 2)),
    6: ((2, 1, 0, 2), (2, 1, 0, 3), (2, 1, 0, 3)),
}
FIELDS = ("colour", "label", "value", "badge")


def make_chart(seed: int, scale: float = 2.0, spec: dict | None = None) -> Picture:
    """A bar chart, the same for the same seed and spec. ``scale`` is the canvas's supersampling (0.5: half size).

    Raises ValueError when ``spec`` has no bar or one with an unknown colour, a character outside words.CODE_CHARS, a value
    below 1, or something that another bar has too.
    """
    steps = {"random": random_chart, "check": check_spec, "draw": draw_chart, "ask": chart_questions}
    return make_written("chart", seed, scale, spec, **steps)


def random_chart(rng: np.random.Generator) -> dict:
    """A random spec whose list of bars has at least 40 tokens."""
    count = int(rng.integers(3, 7))
    label, badge, title, digits = SHAPES[count][rng.integers(len(SHAPES[count]))]
    style = choose_chart_style(count, label, badge, bool(title), rng)
    colours = rng.choice(list(COLOURS), size=count, replace=False).tolist()
    top = int(rng.integers(60, 100) if digits == 2 else rng.integers(250, 1000))
    floor = least_share(style, badge)
    while True:
        values = np.append(rng.integers(np.ceil(floor * top), top, size=count - 1), top)
        values = np.maximum(rng.permutation(values), 10 ** (digits - 1))
        if np.diff(np.sort(values)).min() >= max(1, top // 60):
            break
    taken = {str(v) for v in values}
    labels, badges = _distinct(rng, count, label, taken), _distinct(rng, count, badge, taken)
    bars = [
        {"colour": c, "label": lab, "value": int(v), "badge": b}
        for c, lab, v, b in zip(colours, labels, values, badges, strict=True)
    ]
    width, height = chart_size(style, draw_long_px(rng))
    return {
        "width_px": width,
        "height_px": height,
        "style": style,
        "title": random_code(rng, title),
        "bars": bars,
    }


def _distinct(rng: np.random.Generator, count: int, length: int, taken: set[str]) -> list[str]:
    """Codes that are not in ``taken``; they are taken from then on."""
    codes: list[str] = []
    while len(codes) < count:
        code = random_code(rng, length)
        if code not in taken:
            taken.add(code)
            codes.append(code)
    return codes


def check_spec(spec: dict) -> None:
    bars = listed(spec, "bars", 1, len(COLOURS), "the chart")
    for b, bar in enumerate(bars, 1):
        where = f"bar {b}"
        one_of(bar, "colour", COLOURS, where)
        code(bar, "label", 1, MAX_CODE, where)
        code(bar, "badge", 0, MAX_CODE, where)
        number(bar, "value", 1, 9999, where, whole=True)
    if "title" in spec:
        code(spec, "title", 0, MAX_CODE, "the chart")
    check_chart_style(check_frame(spec, "the chart"))
    if len({bar["colour"] for bar in bars}) < len(bars):
        raise ValueError("two bars have the same colour.")
    shown = [str(bar[key]) for key in ("label", "value", "badge") for bar in bars if bar[key]]
    twice = next((text for text in shown if shown.count(text) > 1), None)
    if twice:
        raise ValueError(f"{twice!r} stands twice in the chart: labels, values and badges must differ.")


# --- questions -----------------------------------------------------------------------------------------------------


def say_field(answer: Answer, spec: dict, bar: int, field: str) -> Answer:
    """Append one property of the bar with that index, with its mask."""
    value, name = spec["bars"][bar][field], f"bar{bar + 1}"
    if field in ("label", "badge"):
        return answer.code(value, [f"{name}-{field}{c + 1}" for c in range(len(value))])
    return answer.fact(str(value), "bar", name)


def _list(spec: dict, order, fields=FIELDS) -> Answer:
    answer = Answer()
    title = spec.get("title", "")
    if title:
        answer.code(title, [f"title{c + 1}" for c in range(len(title))]).say("; ")
    for n, bar in enumerate(order):
        answer.say("; " if n else "")
        for k, field in enumerate(fields):
            say_field(answer.say(" " if k else ""), spec, bar, field)
    return answer


def every_question(spec: dict) -> tuple[list[Question], list[Question]]:
    """The long questions that this chart allows, each in another order, and all short ones."""
    bars = spec["bars"]
    across = list(range(len(bars)))
    rising = sorted(across, key=lambda b: bars[b]["value"])
    what = "the title and the bars" if spec.get("title") else "the bars"
    each = "Give the title, then " if spec.get("title") else "Give "
    asked = [
        (f"List {what} from left to right.", across, FIELDS),
        (f"List {what} from right to left.", across[::-1], FIELDS),
        (f"List {what} from the highest value to the lowest.", rising[::-1], FIELDS),
        (f"List {what} from the lowest value to the highest.", rising, FIELDS),
        (
            f"{each}value, label, badge and colour of each bar from left to right.",
            across,
            ("value", "label", "badge", "colour"),
        ),
        (
            f"{each}badge, value, label and colour of each bar from right to left.",
            across[::-1],
            ("badge", "value", "label", "colour"),
        ),
    ]
    long = long_questions((question, _list(spec, order, fields)) for question, order, fields in asked)
    return long, _short(spec, rising)


def chart_questions(spec: dict, rng: np.random.Generator) -> list[Question]:
    """Every long question and six to eight short ones."""
    long, short = every_question(spec)
    return long + some_short(short, rng)


def _short(spec: dict, rising: list[int]) -> list[Question]:
    bars = spec["bars"]

    def ask(question: str, bar: int, field: str) -> Question:
        return say_field(Answer(), spec, bar, field).ask(question, "short")

    asked = [Answer().say(str(len(bars))).ask("How many bars are there?", "short")]
    if spec.get("title"):
        title = Answer().code(spec["title"], [f"title{c + 1}" for c in range(len(spec["title"]))])
        asked.append(title.ask("What is the title?", "short"))
    for which, bar in (("highest", rising[-1]), ("lowest", rising[0])):
        asked.append(ask(f"What is the label of the {which} bar?", bar, "label"))
        asked.append(ask(f"Which colour has the {which} bar?", bar, "colour"))
    for b, bar in enumerate(bars):
        for field in ("value", "label", "badge"):
            asked.append(ask(f"What is the {field} of the {bar['colour']} bar?", b, field))
        asked.append(ask(f"Which colour has the bar {bar['label']}?", b, "colour"))
        asked.append(ask(f"What is the value of the bar labelled {bar['label']}?", b, "value"))
        if b + 1 < len(bars):
            asked.append(ask(f"Which colour has the bar right of {bar['label']}?", b + 1, "colour"))
    return asked
