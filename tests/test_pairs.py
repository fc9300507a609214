"""Pairs of one's own from disk: the two layouts, what is skipped and counted, what is refused and where."""

import json
from itertools import groupby

import numpy as np
import pytest

from fovea_core.settings import SettingsError
from fovea_core.train.pairs import read_pairs
from fovea_core.train.presets import PRESETS, pick_preset
from tests.toys import toy_picture


@pytest.fixture
def folder(tmp_path):
    """Six pictures, in a folder with one below it; one more outside."""
    place = tmp_path / "data"
    (place / "coco").mkdir(parents=True)
    for number in range(6):
        toy_picture(number).save(place / "coco" / f"{number}.png")
    toy_picture(9).save(tmp_path / "outside.png")
    return place


def put(path, value) -> None:
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")


def lines(folder, *rows) -> None:
    put(folder / "questions.jsonl", "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))


def asked(pairs) -> list[tuple[str, str]]:
    return [(request.image.name, request.question) for request in pairs.requests]


def entry(image=None, *turns, **more):
    """A LLaVA-style entry whose turns alternate between human and gpt."""
    said = [{"from": ("human", "gpt")[i % 2], "value": text} for i, text in enumerate(turns)]
    return {"id": "1", "conversations": said} | ({} if image is None else {"image": image}) | more


def test_a_folder_with_questions(folder):
    """Questions of a picture stand one after another; other keys are left alone; folder and file mean the same."""
    row = lambda number, question, **more: {"image": f"coco/{number}.png", "question": question, **more}  # noqa: E731
    lines(folder, row(1, "what?"), row(0, "who?", group="x"), "", row(1, "where?"))
    pairs = read_pairs(folder)
    assert asked(pairs) == [("1.png", "what?"), ("1.png", "where?"), ("0.png", "who?")] and pairs.skipped == {}
    assert asked(read_pairs(folder / "questions.jsonl")) == asked(pairs)
    lines(folder, row(1, "what?"), row(0, "who?"), row(1, "why?"))
    assert read_pairs(folder).digest != pairs.digest


def test_llava_style_json(folder):
    """mix665K's variants: marks before and behind, several turns, no picture, a number as id; every turn where that is said."""
    entries = [
        entry("coco/0.png", "<image>\nWhat is it?", "A ball.", "Which colour?", "Red."),
        entry(None, "Tell me a story.", "Once."),
        entry("coco/1.png", "Describe it.\n<image>", "A hat.", id=7, model=""),
        entry("coco/2.png", "<image>", "Nothing was asked."),
        entry("coco/none.png", "<image>\nAnd this?", "Gone."),
        entry(["coco/3.png"], "<image>\nOne of a list?", "Yes."),
        entry(["coco/3.png", "coco/4.png"], "<image><image>\nWhich of both?", "The first."),
        entry("coco/5.png", "<image>\n" + "x" * 3000, "Long."),
        {
            "image": "coco/4.png",
            "conversations": [{"from": "gpt", "value": "Hello."}, {"from": "human", "value": "Hi <image>?"}],
        },
    ]
    put(folder / "mix.json", entries)
    pairs = read_pairs(folder / "mix.json")
    assert asked(pairs) == [
        ("0.png", "What is it?"),
        ("1.png", "Describe it."),
        ("3.png", "One of a list?"),
        ("4.png", "Hi ?"),
    ]
    assert pairs.skipped == {
        "without a picture": 1,
        "with several pictures": 1,
        "whose question is empty or too long": 2,
        "whose picture is not there": 1,
    }
    every = read_pairs(folder / "mix.json", every_turn=True)
    assert asked(every)[:2] == [("0.png", "What is it?"), ("0.png", "Which colour?")] and len(every.requests) == 5
    put(folder.parent / "elsewhere.json", entries)
    assert asked(read_pairs(folder.parent / "elsewhere.json", folder)) == asked(pairs)


BAD_ENTRIES = [
    ("{}", "is no list"),
    ("[{", "is no JSON"),
    ("[" * 100_000, "is no JSON"),
    ("[]", "holds no pair"),
    ([3], "entry 1: it has no list"),
    ([entry("coco/0.png", "a?"), {"image": "coco/0.png"}], "entry 2: it has no list"),
    ([entry("coco/0.png", "a?"), {"conversations": "hello", "image": "coco/0.png"}], "entry 2: it has no list"),
    ([{"image": "coco/0.png", "conversations": [{"from": "human"}]}], "entry 1: a turn has no value"),
    ([{"image": "coco/0.png", "conversations": [{"from": "human", "value": 5}]}], "entry 1: a turn has no value"),
    ([{"image": "coco/0.png", "conversations": []}], "entry 1: nobody asks"),
    ([entry(7, "a?")], "entry 1: its image is no text"),
    ([entry("coco/0.png", "a?"), entry("../outside.png", "b?")], "entry 2: .*outside"),
    ([entry("coco/0.png", "a?"), entry("/etc/hosts", "b?")], "entry 2: .*outside"),
    ([entry("coco/0.png", "a?"), entry("coco/link.png", "b?")], "entry 2: .*outside"),
    ([entry("a\0b", "a?")], "entry 1: .*no path"),
    ([entry("x" * 5000, "a?")], "holds no pair .*1 whose picture is not there"),
    ([entry(None, "a?")], "holds no pair .*1 without a picture"),
]


@pytest.mark.parametrize(("content", "said"), BAD_ENTRIES)
def test_a_damaged_json_is_one_sentence(folder, content, said):
    (folder / "coco" / "link.png").symlink_to(folder.parent / "outside.png")
    put(folder / "bad.json", content)
    with pytest.raises(SettingsError, match=said) as caught:
        read_pairs(folder / "bad.json")
    assert "\n" not in str(caught.value) and "bad.json" in str(caught.value)


GOOD = {"image": "coco/0.png", "question": "what?"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD, "{"], "line 2: .*no JSON object"),
        ([GOOD, "", {"image": "coco/0.png"}], "line 3: .*lacks image or question"),
        ([{**GOOD, "question": " "}], "line 1: .*ask a question"),
        ([GOOD, {**GOOD, "image": "../outside.png"}], "line 2: .*outside"),
        ([""], "no rows"),
    ],
)
def test_a_damaged_list_is_one_sentence(folder, rows, said):
    lines(folder, *rows)
    with pytest.raises(SettingsError, match=said):
        read_pairs(folder)


def test_what_is_not_there(folder):
    with pytest.raises(SettingsError, match=r"no questions\.jsonl"):
        read_pairs(folder)
    with pytest.raises(SettingsError, match="no such file"):
        read_pairs(folder / "mix.json")
    lines(folder, GOOD)
    with pytest.raises(SettingsError, match="no folder of pictures"):
        read_pairs(folder, folder / "nowhere")
    lines(folder, {**GOOD, "image": "../outside.png"})
    assert asked(read_pairs(folder, anywhere=True)) == [("outside.png", "what?")]


def test_a_choice_depends_on_the_seed_only(folder):
    """At most as many as wanted, in the file's order, missing pictures not among them; other seeds choose others."""
    rows = [{"image": f"coco/{n % 7}.png", "question": f"question {n}?"} for n in range(40)]  # no picture 6
    lines(folder, *rows)
    whole = asked(read_pairs(folder))
    assert len(whole) == 40 - 5
    first, again, other = (read_pairs(folder, most=12, seed=seed) for seed in (0, 0, 1))
    assert asked(first) == asked(again) != asked(other) and len(first.requests) == 12
    names = [name for name, _ in groupby(name for name, _ in asked(first))]
    assert len(names) == len(set(names))  # a picture's questions stand together
    assert set(asked(first)) <= set(whole)


def test_no_picture_is_learnt_from_and_kept(folder):
    """Pictures are kept whole: every 40th of many, a quarter of few, none of one."""
    rows = [{"image": f"coco/{n % 6}.png", "question": f"question {n}?"} for n in range(18)]
    lines(folder, *rows)
    pairs = read_pairs(folder)
    held = pairs.held(40)
    kept = {pairs.requests[i].image for i in held}
    assert 0 < len(held) < 18 and not kept & {r.image for i, r in enumerate(pairs.requests) if i not in held}
    many = pairs.__class__(
        [type(r)(r.image.with_name(f"{n}.png"), "?") for n in range(200) for r in pairs.requests[:1]], {}, ""
    )
    assert many.held(40) == {39, 79, 119, 159, 199}
    lines(folder, rows[0], rows[6])
    assert read_pairs(folder).held(40) == set()


def test_presets_are_one_table():
    """Settings on the line change a preset's, its limit on pairs stands; steps follow from samples, epochs and batches."""
    quick = pick_preset("quick", pairs=9_999_999, batch=8, accumulate=3)
    assert quick.pairs == PRESETS["quick"].pairs == 2_000 and quick.recipe.accumulate == 3
    assert quick.with_steps(480).steps == 12 * 480 / 24
    paper = pick_preset("paper")
    assert paper.recipe.optimizer == "adamw" and paper.recipe.lr == 5e-5 and paper.recipe.clip == 0.5 and paper.epochs == 12
    assert np.isclose(paper.recipe.warmup, 0.1) and paper.recipe.loss.gamma == 1.0
    with pytest.raises(SettingsError, match="paper, quick"):
        pick_preset("best")
    with pytest.raises(SettingsError, match="epochs 0"):
        pick_preset("quick", epochs=0)
