"""What the two kinds of pictures that show writing (text, chart) share: how a picture comes about, which questions stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from fovea_core.worksite.base import Answer, Picture, Question
from fovea_core.worksite.codes import MIN_TOKENS, count_tokens
from fovea_core.worksite.words import KINDS


def make_written(
    kind: str, seed: int, scale: float, spec: dict | None, *, random: Callable, check: Callable, draw: Callable, ask: Callable
) -> Picture:
    """The picture of ``seed``, or of ``spec`` where there is one.

    random(rng) -> spec; check(spec) raises ValueError; draw(spec, rng, scale) -> rgb, layers, things; ask(spec, rng) ->
    questions. Each has random numbers of its own, so that an edited spec changes nothing else.
    """
    stream = KINDS.index(kind)
    spec = random(np.random.default_rng((stream, seed))) if spec is None else spec
    check(spec)
    rgb, layers, things = draw(spec, np.random.default_rng((stream, seed, 1)), scale)
    questions = ask(spec, np.random.default_rng((stream, seed, 2)))
    return Picture(kind, seed, rgb, layers, tuple(things), tuple(questions), spec)


def draw_long_px(rng: np.random.Generator) -> int:
    """A picture's longer side: 768 to 1120 px in steps of 8."""
    return int(rng.integers(96, 141)) * 8


def long_questions(asked: Iterable[tuple[str, Answer]]) -> list[Question]:
    """The questions whose answer has at least MIN_TOKENS; of those with the same answer the first."""
    kept: dict[str, Question] = {}
    for question, answer in asked:
        if answer.text not in kept and count_tokens(answer.text) >= MIN_TOKENS:
            kept[answer.text] = answer.ask(question)
    return list(kept.values())


def some_short(asked: list[Question], rng: np.random.Generator) -> list[Question]:
    """Six to eight of the short questions (or all, where there are fewer), in their order."""
    chosen = rng.permutation(len(asked))[: int(rng.integers(6, 9))]
    return [asked[k] for k in sorted(chosen)]
