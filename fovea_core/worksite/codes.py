"""Codes of random characters and the length of an answer, the same in all kinds of pictures."""

from __future__ import annotations

import re

import numpy as np

from fovea_core.worksite.words import CODE_CHARS

#: A long answer has at least this many tokens (words, characters of codes, digits and ';' count one each).
MIN_TOKENS = 40


def random_code(rng: np.random.Generator, length: int) -> str:
    """``length`` characters, each drawn uniformly from words.CODE_CHARS."""
    return "".join(CODE_CHARS[k] for k in rng.integers(len(CODE_CHARS), size=length))


def count_tokens(answer: str) -> int:
    """Tokens of an answer: a lower-case word, a capital letter, a digit and ';' are one each; spaces belong to what follows."""
    return len(re.findall(r"[a-z]+|[^a-z\s]", answer))
