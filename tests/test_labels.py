"""What the tower is taught of each cell (train/labels.py)."""

import numpy as np
import pytest

from fovea_core.targets.geometry import letterbox
from fovea_core.train.labels import (
    BESIDE_SHARE,
    COLOURS,
    LABEL_SHARE,
    LABELS,
    MARKS,
    NOUNS,
    SIZES,
    cell_labels,
    main_things,
    shown_facts,
    shows_words,
)
from fovea_core.worksite import make_picture
from fovea_core.worksite.base import Picture, Thing


def test_pictures_with_sign_words_are_told_from_their_cells():
    """The spec says it, too: of all pictures of writing those that have a word."""
    found = []
    for seed in range(1, 90, 3):
        picture = make_picture("text", seed, scale=0.5)
        labels = cell_labels(picture, main_things(picture, letterbox(picture.rgb, 224)[1], 14))
        found.append((bool(shows_words(labels[None])[0]), any("word" in item for row in picture.spec["rows"] for item in row)))
    assert all(told == written for told, written in found) and {told for told, _ in found} == {True, False}


def test_cell_labels_match_a_pixel_count():
    """Brute-force twin: per cell, count the pixels of each thing of the letterboxed layers."""
    layers = np.zeros((2, 200, 400), np.uint8)
    layers[0, 20:120, 40:200], layers[1, 50:90, 60:110], layers[0, 100:200, 300:400] = 1, 2, 3
    things = (Thing("a", "object", "barrel", "red"), Thing("b", "letter", "K", layer=1), Thing("c", "bar", "bar", "blue"))
    rgb = np.zeros((200, 400, 3), np.uint8)
    _, place = letterbox(rgb, 224)
    picture = Picture("text", 0, rgb, layers, things, ())
    labels = cell_labels(picture, main_things(picture, place, 14))
    want = {1: (NOUNS.index("barrel"), "red"), 3: (NOUNS.index("bar"), "blue")}
    for row in range(14):
        for column in range(14):
            top, left = (row * 16 - place.top) * 200 / place.height, (column * 16 - place.left) * 400 / place.width
            box = np.s_[max(0, round(top)) : max(0, round(top + 16 * 200 / place.height)), round(left) : round(left + 400 / 14)]
            for layer in (0, 1):
                cell = layers[layer][box]
                counts = np.bincount(cell.ravel(), minlength=4)[1:] / (16 * 200 / place.height * 400 / 14)
                if abs(counts.max() - LABEL_SHARE) < 0.05:
                    continue
                number = counts.argmax() + 1 if counts.max() > LABEL_SHARE else 0
                if layer == 1:
                    assert labels[2, row, column] == (1 + MARKS.index("K") if number else 0)
                else:
                    noun, colour = want.get(number, (-1, None))
                    assert labels[0, row, column] == noun + 1
                    assert labels[1, row, column] == (1 + COLOURS.index(colour) if colour else 0)


def labels_of(kind: str, seed: int) -> tuple[Picture, dict[str, np.ndarray], np.ndarray]:
    """A drawn picture, its labels by name, and (2, height, width) int: row and column of the cell of each pixel."""
    picture = make_picture(kind, seed, scale=0.5)
    _, place = letterbox(picture.rgb, 224)
    height, width = picture.rgb.shape[:2]
    row = ((np.arange(height) + 0.5) * place.height / height + place.top) // 16
    column = ((np.arange(width) + 0.5) * place.width / width + place.left) // 16
    where = np.stack(np.broadcast_arrays(row[:, None], column[None, :])).astype(int)
    return picture, dict(zip(LABELS, cell_labels(picture, main_things(picture, place, 14)), strict=True)), where


def share(mask: np.ndarray, where: np.ndarray) -> np.ndarray:
    """(14, 14): the share of each cell's pixels that lie in the mask."""
    seen, all_of = np.zeros((14, 14)), np.zeros((14, 14))
    np.add.at(seen, tuple(where), mask)
    np.add.at(all_of, tuple(where), 1)
    return seen / np.maximum(all_of, 256 / 4)


@pytest.mark.parametrize("seed", [9_450_000, 9_450_003, 9_450_006])
def test_what_stands_on_an_object_knows_its_object(seed):
    """Wherever a plate's character surely fills a cell, the cell knows noun, colour and both numbers of the plate's object."""
    picture, labels, where = labels_of("scene", seed)
    everyone = sorted(picture.spec["workers"] + picture.spec["objects"], key=lambda item: item["x"])
    objects = sorted(picture.spec["objects"], key=lambda item: item["x"])
    for n, item in enumerate(picture.spec["objects"], start=1):
        for i, character in enumerate(item["plate"], start=1):
            sure = (share(picture.mask(f"object{n}_plate_{i}"), where) > 0.55).nonzero()
            want = {"mark": 1 + MARKS.index(character), "owner_noun": 1 + NOUNS.index(item["noun"]), "place": i}
            want |= {"owner_colour": 1 + COLOURS.index(item["colour"]), "order": 1 + everyone.index(item)}
            want |= {"rank": 1 + objects.index(item)}
            for name, value in want.items():
                assert (labels[name][sure] == value).all(), (name, character)


@pytest.mark.parametrize("seed", [9_450_002, 9_450_005, 9_450_008])
def test_a_number_knows_its_bar_and_every_digit_is_somewhere(seed):
    """The cells of a value know colour, number and rank of its bar; three digits on two cells all stand in some label."""
    picture, labels, where = labels_of("chart", seed)
    values = sorted((bar["value"] for bar in picture.spec["bars"]), reverse=True)
    for n, bar in enumerate(picture.spec["bars"], start=1):
        for i, digit in enumerate(str(bar["value"]), start=1):
            part = share(picture.mask(f"bar{n}-value{i}"), where)
            sure = (part > 0.55).nonzero()
            assert (labels["owner_colour"][sure] == 1 + COLOURS.index(bar["colour"])).all()
            assert (labels["order"][sure] == n).all() and (labels["rank"][sure] == 1 + values.index(bar["value"])).all()
            there = (part > BESIDE_SHARE).nonzero()
            here = [labels[name][there] == 1 + MARKS.index(digit) for name in ("mark", "beside")]
            assert np.logical_or(*here).any(), (bar, digit)


def test_a_row_and_a_place_in_it_are_numbered_from_above_and_from_the_left():
    picture, labels, where = labels_of("text", 9_450_001)
    for thing in picture.things:
        if thing.name.startswith("row") and "char" in thing.name:
            row, item, character = (int("".join(filter(str.isdigit, part))) for part in thing.name.split("-"))
            sure = (share(picture.mask(thing.name), where) > 0.55).nonzero()
            for name, value in (("order", row), ("rank", item), ("place", character)):
                assert (labels[name][sure] == value).all()


@pytest.mark.parametrize(("kind", "seed"), [("scene", 9_450_000), ("text", 9_450_007), ("chart", 9_450_002)])
def test_labels_fit_their_classes(kind, seed):
    _, labels, _ = labels_of(kind, seed)
    assert all(labels[name].max() < size for name, size in zip(LABELS, SIZES, strict=True))


def test_every_fact_is_shown_by_the_thing_that_its_mask_names():
    """A bar's value counts as its digits, each shown by its own mark; all other facts as they are."""
    for kind, seed in (("scene", 9_450_000), ("text", 9_450_004), ("chart", 9_450_002)):
        picture = make_picture(kind, seed, scale=0.5)
        for question in picture.questions:
            shown = shown_facts(picture, question)
            assert "".join(question.answer[a:b] for a, b, _ in shown) == "".join(f.text for f in question.facts)
            for start, end, number in shown:
                fact = next(f for f in question.facts if f.start <= start and end <= f.end)
                thing = picture.things[number - 1]
                if (start, end) == (fact.start, fact.end) and fact.text != thing.noun:
                    assert thing.name == fact.mask
                elif fact.cls == "bar":
                    assert thing.noun == question.answer[start:end] and thing.name.startswith(f"{fact.mask}-value")
