"""Scenes: deterministic, everything named is visible, answers say only what the picture shows and nothing is ambiguous."""

from __future__ import annotations

import copy
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from fovea_core.worksite import objects, scene, tools
from fovea_core.worksite.asking import questions_of
from fovea_core.worksite.canvas import Canvas
from fovea_core.worksite.codes import count_tokens
from fovea_core.worksite.layout import NEAREST, example_spec, tokens
from fovea_core.worksite.scene import make_scene
from fovea_core.worksite.words import CODE_CHARS, COLOURS, FACT_CLASSES, HEADWEAR, OBJECTS, TOOLS

SEEDS = range(40, 64)


@pytest.fixture(scope="module")
def pictures():
    """Small drawings (scale 0.5) of a few seeds and of the example."""
    return [make_scene(seed, 0.5) for seed in SEEDS] + [make_scene(0, 0.5, example_spec())]


def same(a, b) -> bool:
    return (
        np.array_equal(a.rgb, b.rgb)
        and np.array_equal(a.layers, b.layers)
        and (a.things, a.questions, a.spec) == (b.things, b.questions, b.spec)
    )


def test_same_seed_same_picture_and_other_seed_another():
    assert same(make_scene(41, 0.5), make_scene(41, 0.5))
    assert make_scene(41, 0.5).spec != make_scene(42, 0.5).spec


def test_spec_gives_the_same_answers_and_survives_json(pictures):
    """spec -> picture -> spec changes neither things nor answers; an edit changes exactly what it says."""
    import json

    first = pictures[0]
    again = make_scene(first.seed, 0.5, json.loads(json.dumps(first.spec)))
    assert same(first, again)
    edited = copy.deepcopy(first.spec)
    old = edited["objects"][0]["colour"]
    edited["objects"][0]["colour"] = next(c for c in COLOURS if c != old)
    changed = make_scene(first.seed, 0.5, edited)
    assert np.array_equal(changed.layers, first.layers)
    differs = np.any(changed.rgb != first.rgb, axis=2)
    body = first.layers[0] == [t.name for t in first.things].index("object1_body") + 1
    assert differs[body].mean() > 0.1 and differs[~body].mean() < 0.01
    assert changed.questions[0].answer != first.questions[0].answer


def test_scales_show_the_same_things():
    small, full = make_scene(47, 0.5), make_scene(47, 2.0)
    assert (small.spec, small.things, small.questions) == (full.spec, full.things, full.questions)
    height, width = full.rgb.shape[:2]
    assert [width, height] == full.spec["size"] and 768 <= max(width, height) <= 1280
    assert 0.5 <= width / height <= 2
    assert small.rgb.shape == (round(height / 2), round(width / 2), 3)
    for thing in full.things:
        a, b = small.mask(thing.name).mean(), full.mask(thing.name).mean()
        assert a == pytest.approx(b, rel=0.12), thing


def test_everything_named_covers_two_cells_and_has_its_own_name(pictures):
    for picture in pictures:
        cell = (max(picture.rgb.shape) / 14) ** 2
        assert len({t.name for t in picture.things}) == len(picture.things)
        assert all(re.fullmatch(r"[a-z0-9_]+", t.name) for t in picture.things)
        for thing in picture.things:
            assert thing.cls in FACT_CLASSES
            assert picture.mask(thing.name).sum() >= 2 * cell, (picture.seed, thing)


def test_marks_are_read_where_their_mask_is(pictures):
    """Inside a character's mask there is strong contrast: ink on a light ground."""
    for picture in pictures[:8]:
        grey = picture.rgb.mean(axis=2)
        for thing in picture.things:
            if thing.layer == 1:
                inside = grey[picture.mask(thing.name)]
                assert np.percentile(inside, 95) - np.percentile(inside, 5) > 50, (picture.seed, thing)


def test_facts_are_where_they_say(pictures):
    for picture in pictures:
        things = {t.name: t for t in picture.things}
        for question in picture.questions:
            end = 0
            for fact in question.facts:
                assert question.answer[fact.start : fact.end] == fact.text and fact.start >= end
                end = fact.end
                thing = things[fact.mask]
                assert fact.text in (thing.noun, thing.colour) and fact.cls == thing.cls
            rest = question.answer
            for fact in reversed(question.facts):
                rest = rest[: fact.start] + rest[fact.end :]
            if question.facts:
                assert not rest.strip(" ;"), "every word of an answer is a fact"


def test_long_answers_are_long_dense_and_hard_to_guess(pictures):
    """At most a quarter of the facts from classes of fewer than 12 values, at least half from classes of 26 or more."""
    kinds = Counter()
    for picture in pictures:
        long = [q for q in picture.questions if q.type == "long"]
        assert len(long) >= 3 and len({q.answer for q in long}) >= 4
        assert [q.type for q in picture.questions] == sorted(q.type for q in picture.questions)
        for question in long:
            size = count_tokens(question.answer)
            assert 40 <= size <= 90
            assert len(question.facts) / size >= 0.5
            for fact in question.facts:
                few = fact.text in HEADWEAR or fact.text == "jumpsuit"
                kinds["few" if few else "many" if fact.text in CODE_CHARS or fact.text in OBJECTS else "middle"] += 1
                kinds["character"] += fact.text in CODE_CHARS
    total = kinds["few"] + kinds["many"] + kinds["middle"]
    assert kinds["few"] / total <= 0.25 and kinds["many"] / total >= 0.5 and kinds["character"] / total >= 0.42


def test_short_questions_are_short_and_asked_once(pictures):
    for picture in pictures:
        short = [q for q in picture.questions if q.type == "short"]
        assert 4 <= len(short) <= 8
        assert len({q.question for q in picture.questions}) == len(picture.questions)
        assert all(1 <= count_tokens(q.answer) <= 6 for q in short)


def described(spec: dict) -> list[dict]:
    """Brute-force view: everything in the picture from left to right."""
    return sorted([*spec["workers"], *spec["objects"]], key=lambda item: item["x"])


def test_order_is_never_in_doubt(pictures):
    for picture in pictures:
        xs = [item["x"] for item in described(picture.spec)]
        assert min(np.diff(xs)) >= NEAREST - 1e-9


def test_answers_by_brute_force(pictures):
    """Each short question is answered anew from the spec by trying every figure; exactly one answer must fit."""
    asked = Counter()
    for picture in pictures:
        for question in picture.questions:
            if question.type == "short":
                kind, fits = solve(question.question, picture.spec)
                asked[kind] += 1
                assert fits == {question.answer}, (picture.seed, question)
    assert len(asked) >= 9, asked


def solve(question: str, spec: dict) -> tuple[str, set[str]]:
    """The kind of question and every answer that fits some reading of it."""
    workers = sorted(spec["workers"], key=lambda w: w["x"])
    things = sorted(spec["objects"], key=lambda o: o["x"])
    tool, hat = (lambda w: f"{w['tool_colour']} {w['tool']}"), (lambda w: f"{w['headwear_colour']} {w['headwear']}")
    name, count = (lambda o: f"{o['colour']} {o['noun']}"), ("no", "one", "two", "three", "four", "five")
    near = lambda a, b: abs(a["x"] - b["x"]) < 0.26  # noqa: E731
    before = [o for o in things if o["row"] != "back"]
    sided = {"left": workers[:1], "right": workers[-1:]}
    cases = [
        (r"How many (workers|objects) are there", lambda m: [count[len(spec[m])]]),
        (r"What colour is the (\w+)", lambda m: [o["colour"] for o in things if o["noun"] == m]),
        (r"Which code is on the (?!badge)(\w+)\?", lambda m: [o["plate"] for o in things if o["noun"] == m]),
        (r"Which code is on the (\w+ \w+)\?", lambda m: [o["plate"] for o in things if name(o) == m]),
        (r"Which object has the plate (\w+)", lambda m: [name(o) for o in things if o["plate"] == m]),
        (r"Which tool does the worker with badge (\w+)", lambda m: [tool(w) for w in workers if w["badge"] == m]),
        (r"Which headwear does the worker with badge (\w+)", lambda m: [hat(w) for w in workers if w["badge"] == m]),
        (r"What does the worker on the (\w+) hold", lambda m: [tool(w) for w in sided[m]]),
        (r"What does the worker on the (\w+) wear", lambda m: [hat(w) for w in sided[m]]),
        (r"What does the worker (hold)", lambda m: [tool(w) for w in workers]),
        (r"What does the worker (wear)", lambda m: [hat(w) for w in workers]),
        (r"Which code is on the badge of the worker on the (\w+)", lambda m: [w["badge"] for w in sided[m]]),
        (r"Which code is on the (badge)\?", lambda m: [w["badge"] for w in workers]),
        (r"to the right of the (\w+)", lambda m: [name(b) for a, b in pairwise(things) if a["noun"] == m]),
        (r"to the left of the (\w+)", lambda m: [name(a) for a, b in pairwise(things) if b["noun"] == m]),
        (r"What is the (leftmost) object", lambda m: [name(things[0])]),
        (r"What is the (rightmost) object", lambda m: [name(things[-1])]),
        (r"worker behind the (\w+)", lambda m: [w["badge"] for o in before if o["noun"] == m for w in workers if near(w, o)]),
        (
            r"in front of the worker with badge (\w+)",
            lambda m: [name(o) for w in workers if w["badge"] == m for o in before if near(w, o)],
        ),
    ]
    for pattern, answers in cases:
        found = re.search(pattern, question)
        if found:
            return pattern, set(answers(found.group(1)))
    raise AssertionError(question)


def test_long_answers_by_brute_force():
    """The plain description, written anew from the spec, from both sides."""

    def say(item: dict) -> str:
        if "noun" in item:
            return f"{item['colour']} {item['noun']} {item['plate']}"
        letter = f" {item['letter']}" if item["letter"] else ""
        head = f"{item['headwear_colour']} {item['headwear']}{letter}"
        return f"{item['jumpsuit']} jumpsuit {item['badge']} {head} {item['tool_colour']} {item['tool']}"

    for spec in (example_spec(), *(make_scene(seed, 0.5).spec for seed in (50, 51, 52))):
        answers = {q.question: q.answer for q in questions_of(spec, np.random.default_rng(0))}
        items = described(spec)
        assert answers["Describe everything from left to right."] == "; ".join(map(say, items))
        assert answers["Describe everything from right to left."] == "; ".join(map(say, items[::-1]))
        workers, others = [i for i in items if "badge" in i], [i for i in items if "noun" in i]
        assert answers["List the workers from left to right, then the objects."] == "; ".join(map(say, workers + others))
        back = [*others[::-1], *workers[::-1]]
        assert answers["List the objects from right to left, then the workers."] == "; ".join(map(say, back))
        assert count_tokens(answers["Describe everything from left to right."]) == tokens(spec)


def test_doubled_nouns_are_not_asked_about_by_noun():
    spec = example_spec()
    spec["objects"][1]["noun"] = spec["objects"][2]["noun"] = "barrel"
    seen = set()
    for seed in range(30):
        seen |= {q.question for q in questions_of(spec, np.random.default_rng(seed)) if q.type == "short"}
    assert "Which code is on the red barrel?" in seen
    assert not seen & {"What colour is the barrel?", "Which code is on the barrel?"}
    assert not any(q.endswith(" of the barrel?") for q in seen)


def test_layout_check_sees_a_hidden_thing():
    """The check that accepts layouts refuses a covered plate, a covered tool and a plate on a badge."""
    assert scene._visible(example_spec())
    for change in ({"x": 0.53, "base": 0.9}, {"x": 0.475, "base": 0.55}, {"x": 0.66, "base": 0.5}):
        spec = example_spec()
        spec["objects"][2].update(change)
        assert not scene._visible(spec), change


def test_every_figure_draws_itself_as_one_thing():
    assert set(objects.FIGURES) == set(OBJECTS) and set(tools.TOOLS) == set(TOOLS)
    spec = example_spec()
    shapes = set()
    for noun in OBJECTS:
        spec["objects"] = [{**example_spec()["objects"][2], "noun": noun}]
        picture = make_scene(0, 0.5, spec)
        shapes.add(picture.mask("object1_body").tobytes())
    spec = example_spec()
    for tool in TOOLS:
        spec["workers"][0]["tool"] = tool
        shapes.add(make_scene(0, 0.5, spec).mask("worker1_tool").tobytes())
    assert len(shapes) == len(OBJECTS) + len(TOOLS)


def test_canvas_stamps_the_visible_part():
    """Later bodies cover bodies and marks; thing 0 clears; None leaves the layers alone; ids_only stamps the same."""
    areas = []
    for ids_only in (False, True):
        canvas = Canvas(100, 80, 2.0, ids_only)
        canvas.rounded(10, 10, 50, 50, 0, (200, 0, 0), 1)
        canvas.glyph("A", (15, 15, 25, 35), (0, 0, 0), 2)
        canvas.rounded(20, 10, 60, 50, 0, (0, 200, 0), 3)
        canvas.rounded(50, 10, 60, 50, 0, (0, 0, 200), 0)
        canvas.rounded(0, 0, 100, 80, 0, (9, 9, 9))
        rgb, layers = canvas.finish()
        assert rgb.shape == (80, 100, 3) and layers.shape == (2, 80, 100)
        areas.append([np.sum(layers[0] == 1), np.sum(layers[1] == 2), np.sum(layers[0] == 3)])
    assert areas[0] == pytest.approx([400, 100, 1200], rel=0.06)
    assert areas[1] == pytest.approx(areas[0], rel=0.15)


def test_glyphs_that_look_alike_differ():
    """0 and O, 1 and I, 8 and B, 5 and S differ in at least 3 % of a box of 16 x 32 px."""

    def draw(character: str) -> np.ndarray:
        canvas = Canvas(16, 32, 2.0)
        canvas.glyph(character, (0, 0, 16, 32), (0, 0, 0))
        return canvas.finish()[0][..., 0].astype(float) / 255

    for pair in ("0O", "1I", "8B", "5S", "2Z", "QO", "0Q"):
        assert np.abs(draw(pair[0]) - draw(pair[1])).mean() > 0.03, pair
    assert len({draw(c).tobytes() for c in CODE_CHARS}) == 36
