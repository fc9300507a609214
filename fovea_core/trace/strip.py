"""The automatic trajectory strip: up to five words of an answer whose retrieved entries are sharp and unlike each other."""

from __future__ import annotations

from dataclasses import dataclass

from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.fold import Summary, Token, Word

#: The strip ends with this many words, or where peak x distance falls below this value.
MOST_WORDS = 5
LEAST_VALUE = 0.25


@dataclass(frozen=True)
class StripWord:
    """A word of the strip and the token of it whose read is shown: the one with the highest peak.

    entries: retrieved entries in falling order of mass; peak: 1 - entropy / log(valid entries); round counts from 0.
    """

    word: Word
    token: Token
    entries: tuple[int, ...]
    peak: float
    round: int
    captured: float


def jaccard_distance(one: set[int], other: set[int]) -> float:
    """1 - shared / all entries; 0 for two empty sets."""
    return 1.0 - len(one & other) / len(one | other) if one | other else 0.0


def is_name(text: str) -> bool:
    """Whether a word names something: at least three letters, no digit, not all capitals."""
    letters = sum(sign.isalpha() for sign in text)
    return letters >= 3 and text != text.upper() and not any(sign.isdecimal() for sign in text)


def trajectory_strip(summary: Summary, most: int = MOST_WORDS, least: float = LEAST_VALUE) -> list[StripWord]:
    """The words of the strip in answer order.

    The word of highest peak is taken first; then, again and again, the one with the largest peak x smallest Jaccard
    distance to those taken, until ``most`` are taken or that value falls below ``least``. Of equals the earlier word is
    taken. Names go first: codes, numbers and marks are looked up sharply, one character after the other, and would fill the
    strip alone; they take what room is left. Words drafted without a look, and bonus words, have no read and cannot be in it.
    """
    read = [word for word in map(lambda w: looked(w, summary), summary.words()) if word is not None]
    taken: list[StripWord] = []
    sets = {word.word: set(word.entries) for word in read}

    def value(word: StripWord) -> float:
        return word.peak * min((jaccard_distance(sets[word.word], sets[t.word]) for t in taken), default=1.0)

    for left in ([word for word in read if is_name(word.word.text) is wanted] for wanted in (True, False)):
        while left and len(taken) < most:
            best = max(left, key=value)  # max keeps the first of equals
            if taken and value(best) < least:
                break
            taken.append(best)
            left.remove(best)
    return sorted(taken, key=lambda word: word.word.first)


def looked(word: Word, summary: Summary) -> StripWord | None:
    """The word with its sharpest read; None where no token of it was drafted with a look."""
    tokens = [token for token in summary.tokens[word.first : word.last + 1] if token.read is not None]
    if not tokens:
        return None
    token = max(tokens, key=lambda token: token.read.peak)
    read = token.read
    return StripWord(word, token, tuple(unpack_entries(read.entries)), read.peak, read.round, read.captured)
