"""The trajectory strip: its rule against a brute-force twin, and the cases the rule names."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from fovea_core.trace import events as ev
from fovea_core.trace.codec import pack_entries, pack_masses
from fovea_core.trace.fold import fold
from fovea_core.trace.strip import is_name, jaccard_distance, trajectory_strip
from tests.traces import prefill, started


def spoken(pieces: list[tuple[str, tuple[list[int], float] | None]], **prefilled) -> list[ev.AnyEvent]:
    """A trace that says the first piece at prefill and each other one as the accepted node of a round of its own.

    A piece is (text, (entries, peak) of the read that scored it, or None where it was drafted without a look).
    """
    events: list[ev.AnyEvent] = [started(), prefill(text=pieces[0][0], **prefilled)]
    for number, (text, look) in enumerate(pieces[1:]):
        if look is not None:
            entries, peak = look
            masses = [0.8 / len(entries)] * len(entries)
            events.append(
                ev.MemoryRead(
                    n=len(events),
                    round=number,
                    node=0,
                    depth=0,
                    entries=pack_entries(entries),
                    masses=pack_masses(masses),
                    top_mass=masses[0],
                    captured=0.8,
                    k_raw=len(entries),
                    peak=peak,
                    ms=0,
                )
            )
        events.append(ev.NodeDrafted(n=len(events), round=number, node=1, parent=0, depth=1, token=9, text=text))
        times = {"draft_ms": 0, "select_ms": 0, "verify_ms": 0}
        events.append(
            ev.RoundVerified(
                n=len(events),
                round=number,
                accepted=[1],
                rejected=[],
                unverified=[],
                bonus=None,
                emitted=[9],
                pruned=0,
                **times,
            )
        )
    return events


def strip_of(pieces, **options) -> list[str]:
    return [word.word.text for word in trajectory_strip(fold(spoken(pieces)), **options)]


def test_sharpest_first_then_sharp_and_elsewhere_in_answer_order():
    """'blue' is sharp but reads what 'orange' read, so 'hat' is taken before it; the answer's order is kept."""
    pieces = [
        ("The", None),
        (" hat", ([7, 8], 0.5)),
        (" orange", ([1, 2], 0.9)),
        (" blue", ([1, 2, 3], 0.8)),  # distance 1/3 to 'orange': value 0.27
        (" seen", None),
    ]
    assert strip_of(pieces, most=2) == ["hat", "orange"]
    assert strip_of(pieces) == ["hat", "orange", "blue"]


def test_ends_below_the_least_value_but_never_without_its_first_word():
    flat = [("The", None), (" hat", ([7, 8], 0.2)), (" orange", ([1, 2], 0.24))]
    assert strip_of(flat) == ["orange"]
    assert strip_of([("The", None), (" one", ([1], 0.9)), (" two", ([1], 0.9))]) == ["one"]  # same entries: distance 0
    assert strip_of([("The", None), (" a", None)]) == []


def test_a_word_of_several_tokens_shows_its_sharpest_read():
    pieces = [("x", None), (" K", ([1], 0.3)), ("7", ([2], 0.7)), ("Q", None)]
    (word,) = trajectory_strip(fold(spoken(pieces)))
    assert (word.word.text, word.token.position, word.entries, word.round, word.captured) == ("K7Q", 2, (2,), 1, 0.8)


def test_an_end_of_sequence_belongs_to_no_word():
    """EOS has no text; its read, however sharp, is not the read of the word before it."""
    pieces = [("The", None), (" hat", ([7, 8], 0.5)), ("", ([1], 1.0))]
    (word,) = trajectory_strip(fold(spoken(pieces)))
    assert (word.word.text, word.word.first, word.word.last, word.entries, word.peak) == ("hat", 1, 1, (7, 8), 0.5)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 11), min_size=1, max_size=6), st.integers(0, 20), st.booleans()), max_size=9))
def test_rule_against_a_loop_written_from_its_words(words):
    """Twin: all pairs spelled out, peaks compared one by one, first among names, then among codes."""
    texts = [f"word{'abcdefghi'[i]}" if name else f"K{i}" for i, (_, _, name) in enumerate(words)]
    pieces = [("The", None)] + [(f" {text}", (sorted(e), p / 20)) for text, (e, p, _) in zip(texts, words)]
    taken: list[int] = []
    for names in (True, False):
        while len(taken) < 5:
            best, best_value = None, -1.0
            for i, (entries, peak, name) in enumerate(words):
                if i in taken or name is not names:
                    continue
                nearest = 1.0
                for j in taken:
                    both = sum(entry in words[j][0] for entry in entries)
                    either = len(entries) + len(words[j][0]) - both
                    nearest = min(nearest, 1 - both / either)
                if peak / 20 * nearest > best_value:
                    best, best_value = i, peak / 20 * nearest
            if best is None or (taken and best_value < 0.25):
                break
            taken.append(best)
    assert strip_of(pieces) == [texts[i] for i in sorted(taken)]


def test_names_are_told_from_codes_numbers_and_marks():
    assert all(map(is_name, ("hat", "hose;", "Straße", "l'eau")))
    assert not any(map(is_name, ("K7Q", "GATE", "42", "ab", ";", "B2b4", "")))


def test_jaccard_distance():
    assert jaccard_distance({1, 2}, {3}) == 1 and jaccard_distance({1}, {1}) == 0 == jaccard_distance(set(), set())
    assert math.isclose(jaccard_distance({1, 2, 3}, {3, 4}), 3 / 4)
