"""Whether a target is what it should be on this machine: a few quick checks against transformers itself, and what it costs.

Tests on tiny random models prove the code; they cannot prove that a published checkpoint, its processor and this machine's
kernels are what the code expects. These checks do, in half a minute after loading, and leave a report.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import psutil
import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict

from fovea_core.bench.machine import machine, versions
from fovea_core.decode.cost import device_name
from fovea_core.decode.draft import Drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain, first_difference, plain_steps
from fovea_core.settings import RunSettings, Shape
from fovea_core.targets.base import Target
from fovea_core.targets.geometry import from_run_lengths
from fovea_core.targets.probe import capability
from fovea_core.trace.events import Finished, Tile

QUESTION = "What is in this picture?"
#: Pictures of several shapes, width and height in px.
SIZES = ((480, 320), (200, 610), (28, 28))
TOKENS = 32
#: Tokens of the answer whose time is estimated.
ANSWER = 60
#: Bright cells are tried for this long at most, this many of each view.
CELLS_S, CELLS = 10.0, 5
#: A further picture is read or answered only where the one before took no longer: the doctor is to be done in half a minute.
PATIENCE_S = 4.0
#: The tree a round is timed with.
TREE = Shape(depth=3, width=3, nodes=12)


class Check(BaseModel):
    """One line of a report. passed: None for what was only measured; detail: the figures, one line for a person; ms: times by
    name, where the check took some."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    passed: bool | None
    detail: str
    ms: dict[str, float] = {}


class Health(BaseModel):
    """What the doctor found: who was looked at, where, and every check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    fingerprint: str
    drafter: str | None
    device: str
    dtype: str
    versions: dict[str, str]
    machine: dict[str, str | int | float | None]
    checks: list[Check]

    @property
    def failed(self) -> list[Check]:
        """The checks that did not pass."""
        return [check for check in self.checks if check.passed is False]

    @property
    def answer_s(self) -> float | None:
        """Seconds that an answer of ANSWER plain tokens should take here, None where no time was taken."""
        times = next((check.ms for check in self.checks if check.ms), None)
        return None if times is None else (times["prefill"] + ANSWER * times["token"]) / 1e3

    @property
    def sentence(self) -> str:
        """One line for page and terminal."""
        if not self.failed:
            return f"{self.target}: checked on this machine."
        return f"{self.target} failed a check on this machine: " + "; ".join(f"{c.name}: {c.detail}" for c in self.failed)


def examine(
    target: Target, drafter: Drafter | None = None, say: Callable[[Check], None] = lambda check: None, seed: int = 0
) -> Health:
    """Run all checks, ``say`` each as it is done. A check that raises has failed, with its reason; the others go on."""
    rng, endless = np.random.default_rng(seed), copy.copy(target)
    endless.eos_ids = frozenset()  # an answer to noise may be over at once; ids are compared beyond that
    pictures = [noise(rng, *size) for size in SIZES]
    found: list[Check] = []
    for name, check in _checks(endless, drafter, pictures, rng):
        ms: dict[str, float] = {}
        try:
            passed, detail, *times = check()
            ms = times[0] if times else ms
        except Exception as error:  # whatever goes wrong is what the doctor was asked for
            passed, detail = False, " ".join(f"{type(error).__name__}: {error}".split())[:300]
        found.append(Check(name=name, passed=passed, detail=detail, ms=ms))
        say(found[-1])
    return Health(
        target=target.id,
        fingerprint=target.fingerprint,
        drafter=drafter.id if drafter else None,
        device=device_name(target.device),
        dtype=_name(target.embedding.dtype),
        versions=versions(),
        machine={name: value for name, value in machine().items() if name != "device"},
        checks=found,
    )


Found = tuple[bool | None, str]
Timed = tuple[bool | None, str, dict[str, float]]


def _checks(
    target: Target, drafter: Drafter | None, pictures: list[Image.Image], rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], Found]]]:
    yield "placeholders, features and boxes are one number", partial(_counts, target, pictures)
    yield "a tree gives what each path gives", partial(_tree, target)
    yield f"plain ids are those of generate() for {TOKENS} tokens", partial(_generate, target, pictures[:2])
    yield "a bright cell lands in its box", partial(_cells, target, pictures[0], rng)
    yield "time", partial(_time, target, pictures[0])
    if drafter is not None:
        yield "ids with the drafter are the plain ones", partial(_drafted, target, drafter, pictures[:2])
    yield "memory", partial(_memory, target)


def noise(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """A picture of dim random values with a few bright blocks, so that there is something to say about it."""
    pixels = rng.integers(40, 110, (height, width, 3), dtype=np.uint8)
    for _ in range(4):
        y, x = int(rng.integers(0, max(1, height // 2))), int(rng.integers(0, max(1, width // 2)))
        pixels[y : y + height // 4, x : x + width // 4] = rng.integers(0, 255, 3)
    return Image.fromarray(pixels)


def _counts(target: Target, pictures: list[Image.Image]) -> Found:
    """Each picture through processor and tower: placeholders = rows of features = validity, every valid entry in one tile."""
    told = []
    for picture in _in_time(pictures):
        prompt = target.prompt(picture, QUESTION)
        placeholders, rows = sum(b - a for a, b in prompt.spans), prompt.features.shape[0]
        boxed = np.zeros(rows, int)
        for tile in prompt.tiles:
            boxed[tile.first : tile.first + tile.rows * tile.columns] += from_run_lengths(tile.valid)
        told.append(f"{picture.width}x{picture.height} px: {rows}")
        if not (placeholders == rows == prompt.ids.count(target.image_token_id) == len(prompt.valid)):
            return False, f"{told[-1]} features, {placeholders} placeholders, {len(prompt.valid)} entries"
        if not np.array_equal(boxed, prompt.valid.cpu().numpy().astype(int)):
            return False, f"{told[-1]} features, {int(boxed.sum())} boxes for {int(prompt.valid.sum())} valid entries"
    return True, ", ".join(told)


def _tree(target: Target) -> Found:
    found = capability(target)
    blurred = f"a wrong mask {found.blurred:.3g}, a block against single tokens {found.block:.3g}"
    return found.holds, f"{found.attention}, {_name(found.dtype)}: off by {found.error:.3g} ({blurred})"


def _generate(target: Target, pictures: list[Image.Image]) -> Found:
    """Plain decoding against transformers' own loop, with no EOS to end either."""
    told: list[str] = []
    for picture in _in_time(pictures):
        ours = decode_plain(target, picture, QUESTION, RunSettings(max_new_tokens=TOKENS)).ids
        same, words = _alike(target, picture, ours, target.generate(picture, QUESTION, TOKENS))
        if not same:
            return False, words
        told.append(words)
    return True, ", ".join(told)


def _alike(target: Target, picture: Image.Image, plain: list[int], other: list[int]) -> Found:
    """Whether two greedy answers are one. In half precision two ways to compute may part at a tie; that is no difference."""
    place = first_difference(plain, other)
    if place is None:
        return True, f"{len(plain)} the same"
    if place >= min(len(plain), len(other)):
        return False, f"{len(plain)} tokens against {len(other)}"
    steps = plain_steps(target, picture, QUESTION, RunSettings(max_new_tokens=place + 1))
    logits = [row for _, row in steps][place]
    gap = float(logits[plain[place]].double() - logits[other[place]].double())
    digit = torch.finfo(logits.dtype).eps * float(logits.abs().max())
    if logits.dtype == torch.float32 or gap > 4 * digit:
        return False, f"they differ at token {place + 1}, by {gap:.3g} in logits"
    return True, f"{place} the same, then a tie ({gap:.2g})"


def _in_time(pictures: list[Image.Image]) -> Iterator[Image.Image]:
    """The pictures, until one took longer than PATIENCE_S."""
    for picture in pictures:
        began = time.perf_counter()
        yield picture
        if time.perf_counter() - began > PATIENCE_S:
            return


@torch.inference_mode()
def _cells(target: Target, picture: Image.Image, rng: np.random.Generator) -> Found:
    """Paint one cell white and see which entry of its view changes most: within one cell of the painted one, mostly."""
    plain, began, tried, right = target.prompt(picture, "?"), time.perf_counter(), 0, 0
    size = plain.features.norm(dim=-1).clamp_min(1e-6)  # a few entries of a real tower are very long: changes count in shares
    views = {tile.view: tile for tile in plain.tiles}  # the last one of each kind
    for tile in views.values():
        valid = from_run_lengths(tile.valid).reshape(tile.rows, tile.columns)
        cells = np.argwhere(valid)
        for row, column in cells[rng.permutation(len(cells))[:CELLS]]:
            if tried and time.perf_counter() - began > CELLS_S:
                break
            changed = target.prompt(painted(picture, tile, row, column), "?").features - plain.features
            mine = (changed.norm(dim=-1) / size)[tile.first : tile.first + tile.rows * tile.columns]
            best = divmod(int(mine.argmax()), tile.columns)
            tried += 1
            right += max(abs(best[0] - int(row)), abs(best[1] - int(column))) <= 1
    return 3 * right >= 2 * tried > 0, f"{right} of {tried} cells"


def painted(picture: Image.Image, tile: Tile, row: int, column: int) -> Image.Image:
    """The picture with one cell of a tile white, as far as it lies on it."""
    left, top, right, bottom = tile.box
    wide, high = (right - left) / tile.columns, (bottom - top) / tile.rows
    edges = (left + column * wide, top + row * high, left + (column + 1) * wide, top + (row + 1) * high)
    sides = (picture.width, picture.height) * 2
    a, b, c, d = (int(min(max(round(edge * side), 0), side)) for edge, side in zip(edges, sides))
    copy = picture.copy()
    copy.paste((255, 255, 255), (a, b, max(c, a + 1), max(d, b + 1)))
    return copy


def _time(target: Target, picture: Image.Image) -> Timed:
    """Prefill, one plain step, one verification of a small tree: medians of five."""
    began = time.perf_counter()
    run = target.prefill(picture, QUESTION)
    int(run.logits.argmax())  # waits for the device
    prefill = (time.perf_counter() - began) * 1e3
    medians = []
    for size in (1, TREE.nodes):
        chain, times = torch.arange(size), []
        for _ in range(6):
            began = time.perf_counter()
            run.forward_tree(chain % target.vocab_size, chain - 1, chain)[0].argmax(-1).tolist()
            times.append((time.perf_counter() - began) * 1e3)
        medians.append(statistics.median(times[1:]))
    length = len(run.prompt_ids)
    said = f"prefill of {length} tokens {prefill:.0f} ms, one token {medians[0]:.1f} ms, {TREE.nodes} {medians[1]:.1f} ms"
    return None, said, {"prefill": prefill, "token": medians[0], "tree": medians[1]}


def _drafted(target: Target, drafter: Drafter, pictures: list[Image.Image]) -> Found:
    """Same ids as plain decoding, and what a round costs."""
    told: list[str] = []
    for picture in _in_time(pictures):
        plain = decode_plain(target, picture, QUESTION, RunSettings(max_new_tokens=TOKENS))
        settings = RunSettings(max_new_tokens=TOKENS, tree=TREE, detail="rounds")
        finished = next(e for e in decode(target, drafter, picture, QUESTION, settings) if isinstance(e, Finished))
        same, words = _alike(target, picture, plain.ids, finished.ids)
        if not same:
            return False, words
        each, alone = (finished.total_ms - finished.prefill_ms) / finished.rounds, (plain.ms - plain.prefill_ms) / (TOKENS - 1)
        told.append(f"{words}, tau {finished.tau:.2f}, {each:.1f} ms a round against {alone:.1f} ms a plain token")
    return True, ", ".join(told)


def _memory(target: Target) -> Found:
    if target.device.type == "cuda":
        return None, f"{torch.cuda.max_memory_allocated(target.device) / 2**30:.2f} GiB on the device at most"
    return None, f"{psutil.Process().memory_info().rss / 2**30:.2f} GiB of this process"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
