"""Which questions look something up, and how bench questions counts them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fovea_core.bench.questions as bench
from fovea_core.bench.workloads import draw_case
from fovea_core.train.data import Sample, draw
from fovea_core.train.learner import TargetRecipe
from fovea_core.train.packing import pick_questions
from fovea_core.worksite import KINDS, make_picture
from fovea_core.worksite.naming import looks_up, template
from fovea_core.worksite.suggesting import questions_of
from tests.toys import toy_target


def test_names_are_replaced_by_what_they_are():
    assert template("What is the value of the teal bar?") == "What is the value of the COLOUR bar?"
    assert template("Which code is right of K7?") == "Which code is right of CODE?"
    assert template("What is in row 3, column 1?") == "What is in row N, column N?"
    assert template("What colour is the dog?") == "What colour is the OBJECT?"
    assert looks_up("Which code is on the fuel label?") and not looks_up("What is the first code in row 2?")


def test_short_questions_fall_into_few_templates_and_both_sorts():
    """No name is left in a template, whatever was drawn; a question without a name asks for a place or a number."""
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for seed in range(9_700_000, 9_700_045):
        picture = make_picture(KINDS[seed % 3], seed, scale=0.25)
        for question in questions_of(picture.kind, picture.spec)[1]:
            seen[looks_up(question.question)].add(template(question.question))
    assert 15 < len(seen[True]) < 40 and 15 < len(seen[False]) < 40 and not seen[True] & seen[False]
    assert all("COLOUR" in text or "OBJECT" in text or "CODE" in text or "WORD" in text for text in seen[True])


def test_a_share_of_the_pictures_is_only_looked_up():
    seed = 9_700_004
    sample = Sample("chart", *draw(seed, scale=0.25))
    short = {q for q, _, t in sample.questions if t == "short"}
    assert short == {q.question for q in questions_of("chart", make_picture("chart", seed, scale=0.25).spec)[1]}
    rng = np.random.default_rng(0)
    always, never = (TargetRecipe(lookup_share=share) for share in (1.0, 0.0))
    looked = pick_questions(sample, always, rng)
    assert {q for q, _ in looked} == {q for q in short if looks_up(q)}
    assert not all(looks_up(q) for q, _ in pick_questions(sample, never, rng))
    alone = replace(sample, questions=[q for q in sample.questions if not looks_up(q[0])])
    assert pick_questions(alone, always, rng)  # a picture without such a question is taken as any other


@pytest.mark.parametrize("right", [True, False])
def test_answers_are_counted_by_question(monkeypatch, right):
    """A target that is always right, or always wrong: all of a picture's short questions are asked once, and a long one."""
    seeds, answers, count = range(9_700_000, 9_700_003), [], 0
    for seed in seeds:
        case = draw_case(seed, 0.25)
        shorts = [q for q in case.picture.questions if q.type == "short"]
        answers += [(q.question, q.answer) for q in (*shorts, case.long)]
        count += len(shorts)
    waiting = iter(answers)

    def answer(target, image, question, settings):
        asked, said = next(waiting)
        assert asked == question
        return SimpleNamespace(text=said if right else "?")

    monkeypatch.setattr(bench, "decode_plain", answer)
    result = bench.ask_all(toy_target(), seeds, scale=0.25)
    rows = [row for kind in result["sorts"].values() for row in kind.values()]
    assert sum(asked for _, asked in rows) == count and next(waiting, None) is None
    assert sum(hits for hits, _ in rows) == (count if right else 0)
    for scores in result["long"].values():
        assert set(scores) == set(bench.LONG) and scores["characters"][1] > 40
        assert all(hits == (asked if right else 0) for hits, asked in scores.values())
    for kind, asked in result["kinds"].items():
        assert set(result["sorts"][kind]) == {bench.LOOKUP, bench.PLACE}
        assert sum(count for _, count in asked.values()) == sum(count for _, count in result["sorts"][kind].values())
