"""Worksite's text pictures and charts: what they name is there, large enough, and asked without ambiguity."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter

import cv2
import numpy as np
import pytest
from PIL import Image

from fovea_core.worksite import make_picture, words
from fovea_core.worksite.codes import MIN_TOKENS, count_tokens
from fovea_core.worksite.export import write_world
from fovea_core.worksite.text import LAYOUTS

SEEDS = range(8_000, 8_030)
PICTURES = [(kind, seed) for kind in ("text", "chart") for seed in SEEDS]


@pytest.fixture(scope="module")
def drawn():
    """kind, seed -> picture at half size; enough for everything but exact pixels."""
    return {(kind, seed): make_picture(kind, seed, 0.5) for kind, seed in PICTURES}


def cells_of(mask: np.ndarray) -> float:
    """Area of a mask in cells of the 14 x 14 grid over the letterboxed picture."""
    return mask.sum() / (max(mask.shape) / 14) ** 2


def test_same_seed_same_picture_and_another_seed_another():
    """A picture is a function of kind and seed."""
    for kind in ("text", "chart"):
        one, again, other = make_picture(kind, 8_000), make_picture(kind, 8_000), make_picture(kind, 8_001)
        assert np.array_equal(one.rgb, again.rgb) and np.array_equal(one.layers, again.layers)
        assert one.questions == again.questions and one.things == again.things
        assert one.questions[0].answer != other.questions[0].answer


def test_spec_draws_the_picture_again_and_an_edit_changes_only_what_it_names():
    """spec is plain JSON, redraws to the same pixels, and one edited character changes one glyph box."""
    for kind in ("text", "chart"):
        picture = make_picture(kind, 8_002)
        spec = json.loads(json.dumps(picture.spec))
        again = make_picture(kind, 8_002, spec=spec)
        assert np.array_equal(picture.rgb, again.rgb) and picture.questions == again.questions
        edited = copy.deepcopy(spec)
        holder, key = (edited["rows"][0][0], "code") if kind == "text" else (edited["bars"][0], "label")
        old = holder[key]
        holder[key] = ("X" if old[0] != "X" else "Y") + old[1:]
        other = make_picture(kind, 8_002, spec=edited)
        changed = np.abs(picture.rgb.astype(int) - other.rgb).max(2) > 0
        mark = "row1-item1-char1" if kind == "text" else "bar1-label1"
        near = cv2.dilate(picture.mask(mark).astype(np.uint8), np.ones((5, 5)))  # a turned picture mixes pixels at the rim
        assert changed.any() and not changed[near == 0].any()
        assert holder[key] in other.questions[0].answer and old not in other.questions[0].answer.split(" ")


def test_sizes_and_both_scales_agree(drawn):
    """Long side 768 to 1280 px, aspect within 1:2; the half-size picture shows the same at half the size."""
    for picture in drawn.values():
        width, height = picture.spec["width_px"], picture.spec["height_px"]
        assert 768 <= max(width, height) <= 1280 and max(width, height) <= 2 * min(width, height)
    for kind in ("text", "chart"):
        full, half = make_picture(kind, 8_003), drawn[kind, 8_003]
        assert full.rgb.shape[:2] == (full.spec["height_px"], full.spec["width_px"]) == full.layers.shape[1:]
        small, other = (np.asarray(Image.fromarray(picture.rgb).resize((24, 24), Image.BOX), int) for picture in (full, half))
        assert np.abs(small - other).mean() < 5  # another picture differs by 30 and more
        for thing in full.things:
            ratio = full.mask(thing.name).sum() / half.mask(thing.name).sum()
            assert 3.2 < ratio < 4.8, thing


@pytest.mark.parametrize("kind", ["text", "chart"])
def test_everything_named_covers_two_cells(drawn, kind):
    """Each fact's mask has at least two cells, and a word's letters are 0.6 cells wide and 1.2 high."""
    for (this, seed), picture in drawn.items():
        if this != kind:
            continue
        nouns = {thing.name: thing.noun for thing in picture.things}
        for name in {fact.mask for question in picture.questions for fact in question.facts}:
            mask = picture.mask(name)
            assert cells_of(mask) >= 1.99, (kind, seed, name)
            if name.endswith("-word"):
                cell = max(mask.shape) / 14
                rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
                assert len(rows) >= 1.19 * cell and len(columns) >= 0.59 * cell * len(nouns[name])


def test_printed_values_are_large_enough(drawn):
    """The number above a bar: at least 0.6 cells a digit, 1.2 cells high, in the bar's own mask."""
    for (kind, _), picture in drawn.items():
        if kind != "chart":
            continue
        cell = max(picture.rgb.shape[:2]) / 14
        for number, bar in enumerate(picture.spec["bars"], start=1):
            mask = picture.mask(f"bar{number}")
            top = np.flatnonzero(mask.any(1))[0]
            head = mask[top : top + round(1.2 * cell)]
            assert head.any(0).sum() >= 0.59 * cell * len(str(bar["value"]))


@pytest.mark.parametrize("kind", ["text", "chart"])
def test_facts_stand_where_they_say_and_show_what_they_say(drawn, kind):
    """answer[start:end] is the fact's text, and the thing of its mask is that character, word or bar."""
    for (this, _), picture in drawn.items():
        if this != kind:
            continue
        things = {thing.name: thing for thing in picture.things}
        assert len(things) == len(picture.things) < 256
        assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in things)
        for question in picture.questions:
            for fact in question.facts:
                thing = things[fact.mask]
                assert question.answer[fact.start : fact.end] == fact.text
                assert fact.cls in words.FACT_CLASSES and fact.cls == thing.cls
                if thing.layer == 1:
                    assert fact.text == thing.noun
                elif fact.text in words.COLOURS:
                    assert fact.text == thing.colour
                else:
                    assert int(fact.text) == picture.spec["bars"][int(fact.mask[3:]) - 1]["value"]
            covered = {k for fact in question.facts for k in range(fact.start, fact.end)}
            if question.facts:  # a count states no place; everything else but spaces and ';' is a fact
                assert all(c in " ;" for k, c in enumerate(question.answer) if k not in covered), question


@pytest.mark.parametrize("kind", ["text", "chart"])
def test_long_answers_are_long_dense_and_hard_to_guess(drawn, kind):
    """At least three orders a picture, 40 tokens each; few facts from small classes, most from classes of 26 and more."""
    for (this, seed), picture in drawn.items():
        if this != kind:
            continue
        long = [question for question in picture.questions if question.type == "long"]
        assert len({question.answer for question in long}) >= 3
        for question in long:
            assert count_tokens(question.answer) >= MIN_TOKENS, (kind, seed, question)
            small = sum(fact.text in words.COLOURS for fact in question.facts)  # 14 values, the only class below 26
            assert small <= len(question.facts) / 2 and len(words.COLOURS) >= 12
            assert len(question.facts) / count_tokens(question.answer) >= 0.5


@pytest.mark.parametrize("kind", ["text", "chart"])
def test_short_questions(drawn, kind):
    """Four to eight of them, one to seven tokens, no question twice in a picture (so one answer each)."""
    for (this, _), picture in drawn.items():
        if this != kind:
            continue
        short = [question for question in picture.questions if question.type == "short"]
        assert 4 <= len(short) <= 8
        assert all(1 <= count_tokens(question.answer) <= 7 for question in short)
        asked = Counter(question.question for question in picture.questions)
        assert max(asked.values()) == 1


def test_nothing_asked_about_is_there_twice(drawn):
    """Codes, words, colours, labels, badges and values are unique where a question leans on them."""
    for (kind, _), picture in drawn.items():
        if kind == "chart":
            bars = picture.spec["bars"]
            assert len({bar["colour"] for bar in bars}) == len(bars)
            shown = [str(bar[key]) for key in ("label", "value", "badge") for bar in bars]
            assert len(set(shown)) == len(shown)
        else:
            items = [item for row in picture.spec["rows"] for item in row]
            for key in ("code", "word", "colour"):
                values = [item[key] for item in items if key in item]
                assert len(set(values)) == len(values)


def test_orders_are_what_the_questions_say():
    """A twin that reads the spec without the module's own order functions."""
    picture = make_picture("chart", 8_004, 0.5)
    bars = picture.spec["bars"]
    answers = {question.question: question.answer for question in picture.questions}
    title = picture.spec["title"]
    what = "the title and the bars" if title else "the bars"

    def listing(order):
        told = "; ".join(f"{bar['colour']} {bar['label']} {bar['value']} {bar['badge']}" for bar in order)
        return f"{title}; {told}" if title else told

    assert answers[f"List {what} from right to left."] == listing(reversed(bars))
    falling = sorted(bars, key=lambda bar: -bar["value"])
    assert answers[f"List {what} from the highest value to the lowest."] == listing(falling)
    table = next(p for p in (make_picture("text", s, 0.5) for s in SEEDS) if p.spec["layout"] == "table")
    rows = [[item["code"] for item in row] for row in table.spec["rows"]]
    answers = {question.question: question.answer for question in table.questions}
    assert answers["Read everything."] == "; ".join(" ".join(row) for row in rows)
    assert answers["Read the rows from bottom to top."] == "; ".join(" ".join(row) for row in rows[::-1])
    if "Read the columns from left to right." in answers:
        columns = "; ".join(" ".join(row[i] for row in rows) for i in range(len(rows[0])))
        assert answers["Read the columns from left to right."] == columns


def test_bars_are_as_high_as_their_values(drawn):
    """Bar height is proportional to the value, within a pixel or two of half-size drawing."""
    for (kind, seed), picture in drawn.items():
        if kind != "chart":
            continue
        bars = picture.spec["bars"]
        cell = max(picture.rgb.shape[:2]) / 14
        tops = [np.flatnonzero(picture.mask(f"bar{b + 1}").any(1))[0] for b in range(len(bars))]
        foot = max(np.flatnonzero(picture.mask(f"bar{b + 1}").any(1))[-1] for b in range(len(bars)))
        shares = np.array([bar["value"] for bar in bars]) / max(bar["value"] for bar in bars)
        heights = foot - (np.array(tops) + 1.42 * cell)
        assert np.abs(heights / heights.max() - shares).max() < 0.04, (kind, seed)


def test_every_layout_and_bar_count_comes_up():
    """Over some seeds all layouts and 3 to 6 bars are drawn, layouts of characters alone more often than the rest."""
    from fovea_core.worksite.chart import random_chart
    from fovea_core.worksite.text import random_text

    layouts = Counter(random_text(np.random.default_rng((1, s)))["layout"] for s in range(8_000, 8_120))
    assert set(layouts) == set(LAYOUTS)
    assert layouts["sign"] + layouts["plates"] + layouts["table"] > layouts["receipt"] + layouts["labels"]
    assert {len(random_chart(np.random.default_rng((2, s)))["bars"]) for s in range(8_000, 8_040)} == {3, 4, 5, 6}


def test_code_characters_are_uniform():
    """All 36 characters come up about equally often (chi-square far from its tail)."""
    from fovea_core.worksite.text import random_text

    seen = Counter()
    for seed in range(8_000, 8_150):
        spec = random_text(np.random.default_rng((1, seed)))
        seen.update(c for row in spec["rows"] for item in row for c in item.get("code", ""))
    counts = np.array([seen[c] for c in words.CODE_CHARS])
    expected = counts.sum() / 36
    assert ((counts - expected) ** 2 / expected).sum() < 35 + 5 * np.sqrt(70)


@pytest.mark.parametrize("kind", ["text", "chart"])
def test_export_writes_picture_questions_and_masks(tmp_path, kind):
    """picture.png, qa.json with the agreed keys, and one mask file a thing that equals its mask."""
    picture = write_world(kind, 8_005, tmp_path)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "picture.png")), picture.rgb)
    asked = json.loads((tmp_path / "qa.json").read_text(encoding="utf-8"))
    assert [q["question"] for q in asked] == [q.question for q in picture.questions]
    for question in asked:
        assert set(question) == {"question", "answer", "type", "facts"} and question["type"] in ("long", "short")
        for fact in question["facts"]:
            assert set(fact) == {"text", "start", "end", "class", "mask"}
            assert question["answer"][fact["start"] : fact["end"]] == fact["text"]
            assert (tmp_path / fact["mask"]).is_file()
    for thing in picture.things:
        mask = np.asarray(Image.open(tmp_path / "masks" / f"{thing.name}.png"))
        assert mask.dtype == np.uint8 and np.array_equal(mask == 255, picture.mask(thing.name))
        assert set(np.unique(mask)) <= {0, 255}


def test_wrong_kinds_and_specs_are_refused_in_a_sentence():
    """ValueError that names what is wrong."""
    with pytest.raises(ValueError, match="kind 'poem' is not possible"):
        make_picture("poem", 1)
    spec = make_picture("chart", 8_006, 0.5).spec
    twice = copy.deepcopy(spec)
    twice["bars"][1]["colour"] = twice["bars"][0]["colour"]
    with pytest.raises(ValueError, match="same colour"):
        make_picture("chart", 8_006, 0.5, twice)
    spec = copy.deepcopy(make_picture("text", 8_006, 0.5).spec)
    twice = copy.deepcopy(spec)
    twice["rows"][0][-1] |= {"code": twice["rows"][1][-1]["code"]}
    with pytest.raises(ValueError, match="same code"):
        make_picture("text", 8_006, 0.5, twice)
    spec["rows"][0][0]["code"] = "a<b"
    with pytest.raises(ValueError, match="capital letters and digits"):
        make_picture("text", 8_006, 0.5, spec)


@pytest.mark.parametrize("kind", ["text", "chart"])
def test_what_is_named_stands_out_from_what_it_lies_on(drawn, kind):
    """Ink against its sheet: within every glyph box some pixels differ clearly in brightness."""
    for (this, seed), picture in drawn.items():
        if this != kind:
            continue
        grey = picture.rgb.astype(float).mean(2)
        for thing in picture.things:
            if thing.layer == 1:
                inside = grey[picture.mask(thing.name)]
                spread = np.percentile(inside, 97) - np.percentile(inside, 3)
                assert spread > 55, (kind, seed, thing.name, spread)


def test_larger_edits_of_a_chart_still_fit():
    """A bar more, a title where there was none, a longer label: everything asked about stays inside the picture."""
    seed = next(s for s in SEEDS if not make_picture("chart", s, 0.5).spec["title"])
    spec = copy.deepcopy(make_picture("chart", seed, 0.5).spec)
    spec["title"] = "AB3"
    free = next(c for c in words.COLOURS if c not in [bar["colour"] for bar in spec["bars"]])
    spec["bars"].append(
        {"colour": free, "label": "ZZ9", "value": max(bar["value"] for bar in spec["bars"]) + 1, "badge": "Y0Y"}
    )
    picture = make_picture("chart", seed, 0.5, spec)
    for name in {fact.mask for question in picture.questions for fact in question.facts}:
        assert cells_of(picture.mask(name)) > 0.5, name
    assert picture.questions[0].answer.endswith("Y0Y") and picture.questions[0].answer.startswith("AB3; ")
