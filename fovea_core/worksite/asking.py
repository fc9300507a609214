"""Questions about a scene, each with the one answer that picture and question determine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fovea_core.worksite.base import Answer, Question
from fovea_core.worksite.codes import MIN_TOKENS, count_tokens

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
#: Behind or in front: the one middle line within SURE, no other within NEAR (fractions of the long side).
SURE, NEAR = 0.13, 0.26


@dataclass(frozen=True)
class Item:
    """A worker or an object of a spec with its running number among its kind, from 1 in the order of the spec."""

    kind: str
    number: int
    spec: dict

    @property
    def x(self) -> float:
        return self.spec["x"]

    def thing(self, part: str) -> str:
        """Name of one of its things: 'worker1_tool', 'object2_plate_3'."""
        return f"{self.kind}{self.number}_{part}"

    def code(self, answer: Answer, key: str, part: str) -> Answer:
        """Append the code under ``key`` character by character."""
        text = self.spec[key]
        return answer.code(text, [self.thing(f"{part}_{i}") for i in range(1, len(text) + 1)])


def items_of(spec: dict) -> list[Item]:
    """Workers, then objects."""
    workers = [Item("worker", i, w) for i, w in enumerate(spec["workers"], 1)]
    return workers + [Item("object", i, o) for i, o in enumerate(spec["objects"], 1)]


def every_question(spec: dict) -> tuple[list[Question], list[Question]]:
    """All questions with a long answer, those about one worker last, and all short ones."""
    items = sorted(items_of(spec), key=lambda item: item.x)
    return [*_long_enough(items), *_about_workers(items)], _short(items)


def questions_of(spec: dict, rng: np.random.Generator) -> tuple[Question, ...]:
    """Long questions in shuffled order, up to eight short ones, then those about one worker."""
    items = sorted(items_of(spec), key=lambda item: item.x)
    long, short = _long_enough(items), _short(items)
    long = [long[i] for i in rng.permutation(len(long))]
    return (*long, *[short[i] for i in rng.permutation(len(short))[:8]], *_about_workers(items))


def _about_workers(items: list[Item]) -> list[Question]:
    """The only worker described, or the first and the last."""
    workers = [item for item in items if item.kind == "worker"]
    if len(workers) == 1:
        return [_list([(workers, "full")]).ask("Describe the worker.", "worker")]
    ends = ((workers[0], "left"), (workers[-1], "right"))
    return [_list([([item], "full")]).ask(f"Describe the worker on the {side}.", "worker") for item, side in ends]


def _say_item(answer: Answer, item: Item, style: str) -> None:
    """Styles: 'full' (suit, badge, headwear, tool), 'head' (headwear first), 'codes', 'names'."""
    parts = _worker_parts(item) if item.kind == "worker" else _object_parts(item)
    keys = {
        "full": ("suit", "badge", "hat", "letter", "tool", "name", "plate"),
        "head": ("hat", "letter", "suit", "badge", "tool", "plate", "name"),
        "codes": ("badge", "letter", "plate"),
        "names": ("suit", "hat", "tool", "name"),
    }[style]
    first = True
    for key in keys:
        if key in parts:
            if not first:
                answer.say(" ")
            parts[key](answer)
            first = False


def _worker_parts(item: Item) -> dict:
    s = item.spec

    def pair(colour: str, noun: str, cls: str):
        mask = item.thing(cls)
        return lambda a: a.fact(colour, cls, mask).say(" ").fact(noun, cls, mask)

    parts = {
        "suit": pair(s["jumpsuit"], "jumpsuit", "jumpsuit"),
        "badge": lambda a: item.code(a, "badge", "badge"),
        "hat": pair(s["headwear_colour"], s["headwear"], "headwear"),
        "tool": pair(s["tool_colour"], s["tool"], "tool"),
    }
    if s["letter"]:
        parts["letter"] = lambda a: item.code(a, "letter", "letter")
    return parts


def _object_parts(item: Item) -> dict:
    s, mask = item.spec, item.thing("body")
    return {
        "name": lambda a: a.fact(s["colour"], "object", mask).say(" ").fact(s["noun"], "object", mask),
        "plate": lambda a: item.code(a, "plate", "plate"),
    }


def _list(parts: list[tuple[list[Item], str]]) -> Answer:
    """Say groups of items, each group in one style, with '; ' between items."""
    answer = Answer()
    for items, style in parts:
        for item in items:
            if answer.text:
                answer.say("; ")
            _say_item(answer, item, style)
    return answer


def _long_enough(items: list[Item]) -> list[Question]:
    return [q for q in _long(items) if count_tokens(q.answer) >= MIN_TOKENS]


def _long(items: list[Item]) -> list[Question]:
    back = items[::-1]
    workers, objects = ([i for i in items if i.kind == kind] for kind in ("worker", "object"))
    return [
        _list([(items, "full")]).ask("Describe everything from left to right."),
        _list([(back, "full")]).ask("Describe everything from right to left."),
        _list([(items, "head")]).ask("Describe everything from left to right, headwear and plates first."),
        _list([(back, "head")]).ask("Describe everything from right to left, headwear and plates first."),
        _list([(workers, "full"), (objects, "full")]).ask("List the workers from left to right, then the objects."),
        _list([(objects[::-1], "full"), (workers[::-1], "full")]).ask("List the objects from right to left, then the workers."),
        _list([(objects, "full"), (workers, "head")]).ask(
            "List the objects from left to right, then the workers, headwear first."
        ),
        _list([(items, "codes"), (back, "names")]).ask(
            "Read the codes from left to right, then name everything from right to left."
        ),
        _list([(back, "codes"), (items, "names")]).ask(
            "Read the codes from right to left, then name everything from left to right."
        ),
        _list([(items, "codes")]).ask("Read the codes from left to right."),
        _list([(back, "codes")]).ask("Read the codes from right to left."),
    ]


def _short(items: list[Item]) -> list[Question]:
    workers, objects = ([i for i in items if i.kind == kind] for kind in ("worker", "object"))
    out = []

    def ask(question: str, say) -> None:
        answer = Answer()
        say(answer)
        out.append(answer.ask(question, "short"))

    ask("How many workers are there?", lambda a: a.say(NUMBERS[len(workers)]))
    ask("How many objects are there?", lambda a: a.say(NUMBERS[len(objects)]))
    _short_objects(objects, ask)
    _short_workers(workers, ask)
    _short_order(items, ask)
    return out


def _short_objects(objects: list[Item], ask) -> None:
    nouns = Counter(i.spec["noun"] for i in objects)
    plates = Counter(i.spec["plate"] for i in objects)
    for item in objects:
        s, mask = item.spec, item.thing("body")
        name = f"{s['colour']} {s['noun']}"
        if nouns[s["noun"]] == 1:
            ask(f"What colour is the {s['noun']}?", lambda a, s=s, m=mask: a.fact(s["colour"], "object", m))
            ask(f"Which code is on the {s['noun']}?", lambda a, i=item: i.code(a, "plate", "plate"))
        elif sum(i.spec["noun"] == s["noun"] and i.spec["colour"] == s["colour"] for i in objects) == 1:
            ask(f"Which code is on the {name}?", lambda a, i=item: i.code(a, "plate", "plate"))
        if plates[s["plate"]] == 1:
            ask(f"Which object has the plate {s['plate']}?", _object_parts(item)["name"])


def _short_workers(workers: list[Item], ask) -> None:
    badges = Counter(i.spec["badge"] for i in workers)
    for item in workers:
        parts = _worker_parts(item)
        if badges[item.spec["badge"]] == 1:
            who = f"the worker with badge {item.spec['badge']}"
            ask(f"Which tool does {who} hold?", parts["tool"])
            ask(f"Which headwear does {who} wear?", parts["hat"])
    if len(workers) == 1:
        parts = _worker_parts(workers[0])
        ask("What does the worker hold?", parts["tool"])
        ask("What does the worker wear on the head?", parts["hat"])
        ask("Which code is on the badge?", parts["badge"])
        return
    for item, side in ((workers[0], "left"), (workers[-1], "right")):
        parts = _worker_parts(item)
        ask(f"What does the worker on the {side} hold?", parts["tool"])
        ask(f"What does the worker on the {side} wear on the head?", parts["hat"])
        ask(f"Which code is on the badge of the worker on the {side}?", parts["badge"])


def _short_order(items: list[Item], ask) -> None:
    """The object next to the left or right among the objects, leftmost and rightmost."""
    objects = [i for i in items if i.kind == "object"]
    nouns = Counter(i.spec["noun"] for i in objects)
    for a, b in pairwise(objects):
        if nouns[a.spec["noun"]] == 1:
            ask(f"What is the next object to the right of the {a.spec['noun']}?", _object_parts(b)["name"])
        if nouns[b.spec["noun"]] == 1:
            ask(f"What is the next object to the left of the {b.spec['noun']}?", _object_parts(a)["name"])
    _short_behind(items, ask)
    ask("What is the leftmost object?", _object_parts(objects[0])["name"])
    ask("What is the rightmost object?", _object_parts(objects[-1])["name"])


def _short_behind(items: list[Item], ask) -> None:
    """Who stands behind an object and what stands before a worker, where the middle lines leave no doubt."""
    workers = [i for i in items if i.kind == "worker"]
    before = [i for i in items if i.spec.get("row") in ("middle", "front")]
    nouns = Counter(i.spec["noun"] for i in items if i.kind == "object")
    badges = Counter(i.spec["badge"] for i in workers)
    for item in before:
        near = [w for w in workers if abs(w.x - item.x) < NEAR]
        sure = len(near) == 1 and abs(near[0].x - item.x) < SURE
        if sure and nouns[item.spec["noun"]] == 1:
            ask(f"Which badge does the worker behind the {item.spec['noun']} wear?", _worker_parts(near[0])["badge"])
    for worker in workers:
        near = [i for i in before if abs(worker.x - i.x) < NEAR]
        if len(near) == 1 and abs(near[0].x - worker.x) < SURE and badges[worker.spec["badge"]] == 1:
            ask(f"What is in front of the worker with badge {worker.spec['badge']}?", _object_parts(near[0])["name"])
