"""Scores of an answer: every one against a twin that spells it out, or by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fovea_core.bench import score
from fovea_core.trace.fold import fold
from fovea_core.worksite.base import Answer, Fact, Question
from tests.test_strip import spoken

SHORT_TEXT = st.text("abc", max_size=6)


def slow_distance(one: str, other: str) -> int:
    """Edit distance by recursion over the last characters."""
    if not one or not other:
        return len(one) + len(other)
    if one[-1] == other[-1]:
        return slow_distance(one[:-1], other[:-1])
    ways = (one[:-1], other), (one, other[:-1]), (one[:-1], other[:-1])
    return 1 + min(slow_distance(*way) for way in ways)


@settings(max_examples=80, deadline=None)
@given(SHORT_TEXT, SHORT_TEXT)
def test_edit_distance_and_alignment(reference, answer):
    """The table equals the recursion; the alignment is monotone, joins equal items and costs exactly the distance."""
    distance = slow_distance(reference, answer)
    assert score.edit_distance(reference, answer) == distance
    places = score.align(reference, answer)
    pairs = [(i, j) for i, j in enumerate(places) if j >= 0]
    assert all(reference[i] == answer[j] for i, j in pairs)
    cost, i, j = 0, -1, -1
    for next_i, next_j in [*pairs, (len(reference), len(answer))]:
        assert next_i > i and next_j > j
        cost += max(next_i - i - 1, next_j - j - 1)
        i, j = next_i, next_j
    assert cost == distance


@settings(max_examples=60, deadline=None)
@given(SHORT_TEXT, SHORT_TEXT)
def test_common_subsequence(reference, answer):
    """Against trying every subsequence."""

    def inside(part) -> bool:
        rest = iter(answer)
        return all(item in rest for item in part)

    parts = (c for n in range(len(reference), -1, -1) for c in itertools.combinations(reference, n))
    assert score.common_subsequence(reference, answer) == next(len(part) for part in parts if inside(part))


def worker_answer() -> Question:
    answer = Answer().fact("orange", "jumpsuit", "w1_jumpsuit").say(" ").fact("jumpsuit", "jumpsuit", "w1_jumpsuit").say(" ")
    answer.code("K7Q", ["k1", "k2", "k3"]).say(" ").fact("red", "headwear", "w1_headwear").say(" ")
    return answer.fact("hard hat", "headwear", "w1_headwear").say("; ").fact("478", "bar", "bar1").ask("Describe it.")


def placed(question: Question, pieces: list[str]) -> list[tuple[str, int, int]]:
    tokens = fold(spoken([(piece, None) for piece in pieces])).tokens
    return [(p.fact.text, p.first, p.last) for p in score.place_facts(question, tokens)]


def test_facts_are_placed_where_the_answer_states_them():
    right = ["orange", " jumpsuit", " K", "7", "Q", " red", " hard", " hat", ";", " 4", "7", "8"]
    assert placed(worker_answer(), right) == [
        ("orange", 0, 0),
        ("jumpsuit", 1, 1),
        ("K", 2, 2),
        ("7", 3, 3),
        ("Q", 4, 4),
        ("red", 5, 5),
        ("hard hat", 6, 7),
        ("478", 9, 11),
    ]


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({0: "teal"}, {"orange"}),  # a wrong colour
        ({5: " bored"}, {"red"}),  # inside another word
        ({5: " redder"}, {"red"}),
        ({3: "9"}, {"7"}),  # one wrong character of a code, its neighbours stay
        ({10: "1"}, {"478"}),  # a number is one fact
        ({6: " hardy"}, {"hard hat"}),
    ],
)
def test_a_fact_that_is_not_said_is_not_placed(changed, lost):
    pieces = ["orange", " jumpsuit", " K", "7", "Q", " red", " hard", " hat", ";", " 4", "7", "8"]
    found = [text for text, _, _ in placed(worker_answer(), [changed.get(i, piece) for i, piece in enumerate(pieces)])]
    assert [fact.text for fact in worker_answer().facts if fact.text not in found] == sorted(lost)


def test_facts_of_an_answer_with_letters_of_several_bytes():
    """Offsets are of characters, tokens hold bytes."""
    question = Answer().say("é… ").fact("red", "object", "o1").ask("?")
    assert placed(question, ["é…", " red"]) == [("red", 1, 1)]


def test_accuracies_by_hand():
    question = worker_answer()
    assert score.attribute_score(question, question.answer) == (5, 5)  # orange jumpsuit red hard hat
    assert score.attribute_score(question, "orange K7Q hard red jumpsuit") == (2, 5)  # 'orange ... hard' in order
    assert score.values_of(question) == [(16, 19), (34, 37)]
    assert score.value_score(question, question.answer) == (2, 2)
    assert score.value_score(question, question.answer.replace("K7Q", "K7QX")) == (1, 2)  # longer is not exact
    assert score.value_score(question, question.answer.replace("478", "473")) == (1, 2)
    assert score.character_score(question, question.answer.replace("red", "rod")) == (36, 37)
    assert score.character_score(question, "zzz" * 40) == (0, 37)
    assert score.short_score(Question("?", "K7Q", "short"), " K7Q\n") == (1, 1)
    assert score.short_score(Question("?", "K7Q", "short"), "K7") == (0, 1)


def test_fact_is_a_value_where_it_holds_a_digit():
    assert score.is_value(Fact("K", 0, 1, "letter", "m")) and score.is_value(Fact("478", 0, 3, "bar", "m"))
    assert not score.is_value(Fact("orange", 0, 6, "bar", "m"))
