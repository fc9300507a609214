"""Editing a drawn picture: every offered change can be made and undone, changes that thing alone, and brings its questions."""

from __future__ import annotations

import copy
import json
import random
import time

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fovea_core.worksite import KINDS, make_picture
from fovea_core.worksite.editing import change, find
from fovea_core.worksite.parts import LETTERED, MAX_VALUE, parts_of
from fovea_core.worksite.suggesting import MOST, carried, questions_of, stated_at, suggestions
from fovea_core.worksite.words import CODE_CHARS

SMALL = 0.25
SEEDS = range(310, 322)


@pytest.fixture(scope="module")
def specs():
    """(kind, seed) -> spec; text seeds show every layout."""
    found = {(kind, seed): make_picture(kind, seed, SMALL).spec for kind in KINDS for seed in SEEDS}
    layouts = {spec["layout"] for (kind, _), spec in found.items() if kind == "text"}
    assert layouts == {"sign", "plates", "table", "receipt", "labels"}
    return found


def another(kind: str, spec: dict, part: str, found, rng: random.Random) -> tuple[str | None, dict]:
    """An allowed value that is not the present one, and the spec with it (None and the same where there is none). A code keeps
    its length; one that something else has already is no such value, as in a test of its own."""
    for _ in range(20):
        if found.choices:
            value = rng.choice([choice for choice in found.choices if choice != found.value] or [None])
        elif found.sort == "number":
            value = str(rng.randint(found.least, MAX_VALUE))
        else:
            value = "".join(rng.choices(CODE_CHARS, k=len(found.value) or found.most))
        if value is None:
            break
        try:
            new = change(kind, spec, part, found.key, value)
        except ValueError as error:
            assert "two items have the same" in str(error) or "stands twice" in str(error)
            continue
        if value != found.value:
            return value, new
    return None, spec


def properties(kind: str, spec: dict) -> dict[tuple[str, str], str]:
    return {(part.key, found.key): found.value for part in parts_of(kind, spec) for found in part.properties}


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_can_be_changed_alone_and_back(specs, kind):
    """change gives exactly the wanted value, leaves its argument and all other values as they are, and undoes itself."""
    rng, made = random.Random(1), 0
    for (this, _), spec in specs.items():
        if this != kind:
            continue
        before, text = properties(kind, spec), json.dumps(spec)
        for part, key in before:
            _, found = find(kind, spec, part, key)
            value, new = another(kind, spec, part, found, rng)
            if value is None:
                continue
            after = properties(kind, new)
            assert json.dumps(spec) == text and after[part, key] == value
            differing = {place for place in before.keys() & after.keys() if before[place] != after[place]}
            assert differing == {(part, key)} and before.keys() - after.keys() <= {(part, "letter")}
            assert change(kind, new, part, key, found.value, drawn=spec) == spec, (part, key)
            made += 1
    assert made > 100


@pytest.mark.parametrize("kind", KINDS)
def test_every_offered_choice_is_drawn(specs, kind):
    """Each choice of each list (one part of a sort stands for its like) gives a picture that shows it."""
    rng, drawn = random.Random(2), 0
    for (this, seed), spec in specs.items():
        if this != kind:
            continue
        for part in rng.sample(parts_of(kind, spec), 2):
            for found in part.properties:
                for choice in rng.sample(found.choices, min(4, len(found.choices))):
                    new = change(kind, spec, part.key, found.key, choice)
                    picture = make_picture(kind, seed, SMALL, new)
                    drawn += 1
                    if found.mark:
                        names = [t.name for t in picture.things if found.mark in (t.name, t.name[: len(found.mark)])]
                        assert any(picture.mask(name).any() for name in names), (part, found)
    assert drawn >= 20


def grown(masks: list[np.ndarray]) -> np.ndarray:
    """The masks with a rim: soft edges and shadows fall on it."""
    rim = max(masks[0].shape) // 14
    return cv2.dilate(np.any(masks, axis=0).astype(np.uint8), np.ones((rim, rim), np.uint8)).astype(bool)


def shows(picture, mark: str) -> list[np.ndarray]:
    names = [t.name for t in picture.things]
    return [picture.mask(name) for name in names if name == mark or (mark[-1] not in "0123456789" and name.startswith(mark))]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_in_the_picture_moves(specs, kind):
    """Pixels away from the changed thing stay as they are: for every colour, every code of the same length, every other value
    of a bar below the highest. (A tool or headwear of another shape, or a word, is away from nothing it did not cover.)"""
    rng, compared = random.Random(3), 0
    for (this, seed), spec in specs.items():
        if this != kind or seed % 2:
            continue
        first = make_picture(kind, seed, SMALL * 2, spec)
        for part in rng.sample([p for p in parts_of(kind, spec) if p.properties[0].mark], 3):
            for found in part.properties:
                value, new = another(kind, spec, part.key, found, rng)
                if found.sort == "number":
                    highest = max(bar["value"] for bar in spec["bars"])
                    there = {str(bar[name]) for bar in spec["bars"] for name in ("value", "label", "badge")}
                    if found.value == str(highest):
                        continue
                    value = next(str(n) for n in range(highest - 1, 0, -1) if str(n) not in there)
                    new = change(kind, spec, part.key, found.key, value)
                if value is None or not found.mark or not found.value:
                    continue
                second = make_picture(kind, seed, SMALL * 2, new)
                away = ~grown(shows(first, found.mark) + shows(second, found.mark))
                if kind == "chart" and found.mark == part.key:
                    away &= ~grown([first.layers[0] == 2 + int(part.key[3:]) - 1])
                differs = np.any(first.rgb != second.rgb, axis=2)
                assert differs[away].mean() < 0.002, (seed, part.key, found.key, found.value, value)
                assert differs.any()
                compared += 1
    assert compared > 15


@pytest.mark.parametrize("kind", KINDS)
def test_questions_about_the_changed_thing_come_first(specs, kind):
    """What is suggested fits the new picture; the first states the change; what was asked and fits is among them."""
    rng = random.Random(4)
    for (this, seed), spec in specs.items():
        if this != kind:
            continue
        long, short = questions_of(kind, spec)
        assert [q.question for q in make_picture(kind, seed, SMALL, spec).questions if q not in [*long, *short]] == []
        plain = suggestions(kind, spec)
        assert len(plain) == len(set(plain)) == MOST and plain[0] == long[0].question
        for part in parts_of(kind, spec):
            for found in part.properties:
                new = another(kind, spec, part.key, found, rng)[1]
                everything = {q.question: q for group in questions_of(kind, new) for q in group}
                asked = rng.choice(sorted(everything))
                offered = suggestions(kind, new, (part.key, found.key), asked)
                assert asked in offered and len(set(offered)) == len(offered) <= MOST and set(offered) <= set(everything)
                _, now = find(kind, new, part.key, found.key)
                if now.mark and now.value:
                    answer = everything[offered[0]]
                    assert stated_at(answer, now) is not None and now.value in answer.answer, (part, now)


def test_the_question_is_carried_to_the_edited_picture():
    """The same question where it fits, the renamed one where it names what was changed; a person's own words stay."""
    spec = make_picture("scene", 3, SMALL).spec
    part = next(p for p in parts_of("scene", spec) if p.label == "radio")
    new = change("scene", spec, part.key, "noun", "barrel")
    ask = "Describe everything from left to right."
    assert carried("scene", ask, spec, new) == ask
    assert carried("scene", "Which code is on the radio?", spec, new) == "Which code is on the barrel?"
    assert carried("scene", "What is nice about the radio?", spec, new) == "What is nice about the radio?"
    hat = change("scene", spec, "worker2", "headwear", "cap")
    assert hat["workers"][1]["letter"] is None and spec["workers"][1]["letter"]
    assert change("scene", hat, "worker2", "headwear", "hard hat", drawn=spec)["workers"][1]["letter"] == "Q"


def test_a_hat_that_carries_no_letter_offers_none(specs):
    for (kind, _), spec in specs.items():
        if kind == "scene":
            for worker in (part for part in parts_of(kind, spec) if part.key.startswith("worker")):
                values = {found.key: found.value for found in worker.properties}
                assert ("letter" in values) == (values["headwear"] in LETTERED)


@pytest.mark.parametrize(
    ("kind", "part", "key", "value", "said"),
    [
        ("scene", "worker1", "badge", "a<b", "only letters A to Z and digits"),
        ("scene", "worker1", "badge", "  ", "Badge: 1 to 3 characters can be drawn here, not 0."),
        ("scene", "worker1", "badge", "ABCD", "not 4"),
        ("scene", "worker1", "badge", "ß", "only letters A to Z"),
        ("scene", "worker1", "jumpsuit", "mauve", "Choose one from the list"),
        ("scene", "worker9", "badge", "A", "no such property"),
        ("scene", "worker1", "__class__", "A", "no such property"),
        ("text", "row1", "row1-item1-code", "x" * 10**6, "not 1000000"),
        ("text", "row1", "row1-item1-code", "U0I", "two items have the same code: U0I"),
        ("chart", "bar1", "value", "many", "no whole number from 1 to 999"),
        ("chart", "bar1", "value", "٣", "no whole number"),
        ("chart", "bar1", "value", "0", "no whole number"),
        ("chart", "bar1", "value", "9" * 10**5, "no whole number"),
        ("chart", "bar1", "value", "551", "'551' stands twice in the chart"),
        ("chart", "bar1", "colour", "cyan", "Choose one from the list"),
        ("chart", "bar1", "label", "", "Label: 1 to 2 characters"),
        ("chart", "bar1", "value", None, "is not a text"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(kind, part, key, value, said):
    spec = make_picture(kind, 3, SMALL).spec
    with pytest.raises(ValueError) as caught:
        change(kind, spec, part, key, value)
    assert said in str(caught.value) and len(str(caught.value)) < 200 and "\n" not in str(caught.value)


def test_lower_case_and_spaces_are_mended():
    spec = make_picture("scene", 3, SMALL).spec
    assert change("scene", spec, "worker1", "badge", " k7q ")["workers"][0]["badge"] == "K7Q"


ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        10**9,
        10**400,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "red",
        "<b>",
        "A" * 300,
        [],
        [[]],
        {},
        {"a": 1},
    ]
)


def places_of(value, path=()) -> list[tuple]:
    """Paths of everything in a spec."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[place for key, one in inner for place in places_of(one, (*path, key))]]


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_odd_spec_is_refused_in_a_sentence_or_drawn(specs, data):
    """Anything anywhere in a spec, or something missing: ValueError with a short sentence, or a picture, soon."""
    kind = data.draw(st.sampled_from(KINDS))
    seed = data.draw(st.sampled_from(sorted(SEEDS)))
    spec = copy.deepcopy(specs[kind, seed])
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(places_of(spec)))
        if not path:
            continue
        holder = spec
        for key in path[:-1]:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[path[-1]] = data.draw(ODD)
        else:
            del holder[path[-1]]
    before = time.monotonic()
    try:
        picture = make_picture(kind, seed, SMALL, spec)
        assert picture.rgb.size and picture.questions
        parts_of(kind, spec)
    except ValueError as error:
        assert 10 < len(str(error)) < 400 and "\n" not in str(error)
    assert time.monotonic() - before < 20
