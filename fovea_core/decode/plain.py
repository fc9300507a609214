"""Plain decoding: one target token per forward, on the same modules and cache as verification. The reference of everything."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from fovea_core.decode.sampling import choose
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import Compared, Finished

#: What every page and report says about the reference.
DEFINITION = (
    "Plain decoding takes the argmax of the target's raw logits, or a seeded draw after temperature and top-p; "
    "of a checkpoint's generation defaults only its EOS ids are used."
)


@dataclass(frozen=True)
class PlainResult:
    """``ids`` with the EOS that ended them, if one did; ``reason`` eos, length or stopped; ``ms`` with prefill."""

    ids: list[int]
    reason: str
    text: str
    ms: float
    prefill_ms: float


def answer_limit(run: TargetRun, settings: RunSettings) -> int:
    """How many tokens an answer may have: the budget, or what the context leaves behind the prompt. At least 1."""
    return min(settings.max_new_tokens, run.target.context - len(run.prompt_ids))


def plain_steps(target: Target, image: Image.Image, question: str, settings: RunSettings) -> Iterator[tuple[int, Tensor]]:
    """Yield (token, raw logits (V,) it was chosen from) until EOS or the limit."""
    run = target.prefill(image, question)
    limit, logits = answer_limit(run, settings), run.logits
    single, parent, depth = torch.zeros(1, dtype=torch.int64), torch.tensor([-1]), torch.tensor([0])
    for position in range(limit):
        token = choose(logits, settings, position)
        yield token, logits
        if token in target.eos_ids or position == limit - 1:
            return
        single = single.new_tensor([token])
        logits = run.forward_tree(single, parent, depth)[0][0]
        run.commit([0])


def decode_plain(
    target: Target, image: Image.Image, question: str, settings: RunSettings, stop: Callable[[], bool] | None = None
) -> PlainResult:
    """Decode one request plainly. ``stop`` is asked before every token. Raises TargetError (see Target.prefill)."""
    started = time.perf_counter()
    ids: list[int] = []
    prefill_ms, reason = 0.0, "length"
    for token, _ in plain_steps(target, image, question, settings):
        if not ids:
            prefill_ms = _ms_since(started)
        ids.append(token)
        if token in target.eos_ids:
            reason = "eos"
        elif stop is not None and stop():
            reason = "stopped"
            break
    ms = _ms_since(started)  # the text is for the reader, no part of decoding
    return PlainResult(ids, reason, target.pieces.decode(ids), ms, prefill_ms)


def compare(
    target: Target,
    image: Image.Image,
    question: str,
    settings: RunSettings,
    finished: Finished,
    n: int,
    repeats: int = 3,
    stop: Callable[[], bool] | None = None,
) -> Compared | None:
    """Measure plain decoding of a finished request: one warm-up, then the median of ``repeats`` runs; event number ``n``.

    A run that was stopped is compared over the tokens it has. Returns None where ``stop`` said so before the end.
    """
    if finished.reason == "stopped":
        settings = settings.model_copy(update={"max_new_tokens": len(finished.ids)})
    results = measure_plain(target, image, question, settings, repeats, stop)
    return None if results is None else judge(target, image, question, settings, finished, n, results)


def measure_plain(
    target: Target,
    image: Image.Image,
    question: str,
    settings: RunSettings,
    repeats: int = 3,
    stop: Callable[[], bool] | None = None,
) -> list[PlainResult] | None:
    """``repeats`` plain runs after a warm-up; None where ``stop`` said so before the end."""
    results = []
    for _ in range(1 + repeats):
        results.append(decode_plain(target, image, question, settings, stop))
        if stop is not None and stop():
            return None
    return results[1:]


def judge(
    target: Target,
    image: Image.Image,
    question: str,
    settings: RunSettings,
    finished: Finished,
    n: int,
    results: list[PlainResult],
) -> Compared:
    """A finished run against measured plain runs of the same request. ``gap`` is by how much the target's raw logits prefer
    the plain token at the first difference."""
    plain, measured = results[-1], [result.ms for result in results]
    median = statistics.median(measured)
    difference, gap = first_difference(plain.ids, finished.ids), None
    if difference is not None and difference < min(len(plain.ids), len(finished.ids)):
        gap = _gap(target, image, question, settings, difference, finished.ids[difference])
    return Compared(
        n=n,
        plain_ms=measured,
        plain_median_ms=median,
        speculative_ms=finished.total_ms,
        speedup=median / finished.total_ms if finished.total_ms > 0 else 0.0,
        same_ids=difference is None,
        first_difference=difference,
        gap=gap,
    )


def first_difference(one: list[int], other: list[int]) -> int | None:
    """First position at which two answers differ, the shorter one's end included; None where they are equal."""
    if one == other:
        return None
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _gap(target: Target, image: Image.Image, question: str, settings: RunSettings, position: int, other: int) -> float:
    for index, (token, logits) in enumerate(plain_steps(target, image, question, settings)):
        if index == position:
            return float(logits[token].double() - logits[other].double())
    raise ValueError(f"plain decoding has no token {position}")


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
