"""Erase and redraft: what a round would have drafted had its drafter been unable to look at some of the picture.

The recorded run is repeated by ``decode.loop`` itself, from the picture on and with the cost table it was recorded with, so the
state in which the round was drafted is the recorded one; then, for this round alone, some entries of the visual memory are
invalid. The target is asked as always, so the emitted tokens are its own and stay a part of the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise

import torch
from PIL import Image

from fovea_core.decode.draft import Drafter, sight
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.decode.loop import decode
from fovea_core.decode.report import picture_sha256
from fovea_core.decode.sketch import Sketch
from fovea_core.decode.tree import Draft
from fovea_core.settings import RunSettings, make_settings
from fovea_core.targets.base import Target
from fovea_core.trace.events import (
    AnyEvent,
    Finished,
    MemoryRead,
    NodeDrafted,
    PrefillDone,
    RoundVerified,
    RunStarted,
    Shape,
)
from fovea_core.trace.laws import valid_entries
from fovea_core.trace.reads import own_reader

#: What of a recorded run decides a redraft: its start, its first token and what every round emitted. Reads and nodes do not.
NEEDED = (RunStarted, PrefillDone, RoundVerified)


class RedraftError(ValueError):
    """One sentence for a person: why this round cannot be drafted again here."""


@dataclass(frozen=True)
class Change:
    """A token that the round emitted: the log-probability its drafter gave it, and gives it without the erased entries.

    Along the answer's own path, whether or not the tree holds the token.
    """

    token: int
    old: float
    new: float


@dataclass(frozen=True)
class Redraft:
    """Round ``round`` (counted from 0) as drafted with all entries and without the ``lost`` ones: its events, reads included.

    words: the recorded round's emitted tokens, as deep as it was drafted.
    """

    round: int
    lost: tuple[int, ...]
    old: tuple[AnyEvent, ...]
    new: tuple[AnyEvent, ...]
    words: tuple[Change, ...]


@torch.inference_mode()
def states_along(run: FoveaRun, tokens: torch.Tensor) -> torch.Tensor:
    """The (m + 1, d) states, uncorrected, of the root and of (m,) ``tokens`` drafted one below the other; depths 0 to m.

    Behind the root a state stands on the drafter's own, as when it drafts. The run's committed text stays as it is.
    """
    folded, body = run.folded, run.body
    tokens = tokens.to(folded.table.device)
    body.drop_speculative()
    body.reserve(tokens.shape[0])
    folded.cover(run.position + tokens.shape[0])
    states = [run.root]
    for depth in range(1, tokens.shape[0] + 1):
        x = folded.fuse_own(tokens[depth - 1 : depth], folded.normed(states[-1]))
        states.append(body.forward(x, folded.turns[run.position + depth : run.position + depth + 1], None))
    return torch.cat(states)


@torch.inference_mode()
def erase(run: FoveaRun, lost: Sequence[int]) -> None:
    """Make the entries ``lost`` of a run's memory invalid; with none left the run scores as one without a memory."""
    if not lost:
        return
    gone = torch.tensor(list(lost), device=run.memory.entries.device)
    if bool(torch.isin(run.memory.entries, gone).all()):
        run.depth_limit = -1
    else:
        run.memory = run.memory.without(gone)


class _Erasing:
    """A drafter whose run loses the ``lost`` entries at ``reach``, and scores the round's tokens again for ``along``."""

    def __init__(self, drafter: Drafter, lost: Sequence[int]) -> None:
        self._drafter, self._lost = drafter, lost
        self._run: FoveaRun | None = None
        self._shape: Shape | None = None

    def __getattr__(self, name: str):
        return getattr(self._drafter, name)

    def start(self, run, settings: RunSettings) -> _Erasing:
        self._run = self._drafter.start(run, settings)
        return self

    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        self._run.extend(tokens, states, positions)

    def propose(self, shape: Shape) -> Draft:
        self._shape = shape
        return self._run.propose(shape)

    def sketch(self, shape: Shape) -> Sketch:
        self._shape = shape
        return self._run.sketch(shape)

    def reach(self) -> None:
        """The round to be drafted anew comes next."""
        self._shape = None
        erase(self._run, self._lost)

    @torch.inference_mode()
    def along(self, emitted: Sequence[int]) -> list[float]:
        """Log-probabilities of the ``emitted`` tokens, each below the ones before it, as deep as this round drafted."""
        if self._shape is None:
            return []
        tokens = torch.tensor(emitted[: self._shape.depth])
        states = states_along(self._run, tokens[:-1])
        self._run.looks = []
        rows = [self._run.score(states[i : i + 1], i, torch.zeros(1, dtype=torch.int64))[0] for i in range(len(tokens))]
        return [min(0.0, float(row[token])) for row, token in zip(rows, tokens.tolist(), strict=True)]


def redraft(
    target: Target,
    drafter: Drafter | None,
    image: Image.Image,
    recorded: Sequence[AnyEvent],
    round: int,
    lost: Sequence[int],
    stop: Callable[[], bool] | None = None,
) -> Redraft | None:
    """Draft round ``round`` (counted from 0) of a ``recorded`` run again, as it was and without the entries ``lost``.

    Nothing is changed in the models, nor in the run: its answer is the target's own and cannot change.

    ``recorded``: the run's events, of which NEEDED are read; ``stop`` is asked once a round, and None is returned where it says
    so. Raises RedraftError for a run of another target, drafter or picture, one that comes out otherwise here, a round or an
    entry that it does not have, and a drafter without a visual memory.
    """
    started, first, rounds = _parts(recorded)
    _check_models(target, drafter, image, started)
    settings = recorded_run_settings(started)
    if not 0 <= round < len(rounds):
        raise RedraftError(f"There is no step {round + 1}: this run has {len(rounds)} finished steps.")
    policy, deepest = sight(drafter, settings)
    if deepest < 0 or own_reader(policy):
        raise RedraftError("The drafter of this run reads no visual memory, so there is nothing to erase.")
    wanted = [first, *(verdict.emitted for verdict in rounds[: round + 1])]
    lost = tuple(sorted(set(lost)))
    early = started.device.startswith("cpu")  # elsewhere a draft that cost chose was sent whole (decode.loop)
    found = []
    for erased in ((), lost):
        without = _Erasing(drafter, erased)
        again = decode(target, without, image, started.question, settings, cost=started.cost, stop=stop, early=early)
        with closing(again) as events:
            once = _once(without, events, wanted, lost)
        if once is None:
            return None
        found.append(once)
    (old, before), (new, after) = found
    words = tuple(Change(*values) for values in zip(rounds[round].emitted, before, after))
    return Redraft(round, lost, old, new, words)


def _once(drafter: _Erasing, events: Iterator[AnyEvent], wanted: list, lost: Sequence[int]):
    """Follow a repeated run's ``events`` to its last ``wanted`` round, which is drafted without the drafter's lost entries.

    wanted: the first token, then each round's emitted tokens. Returns that round's events and the log-probabilities of its
    recorded tokens; None where the run was stopped before.
    """
    last, done, made = len(wanted) - 1, 0, []
    for event in events:
        if isinstance(event, PrefillDone):
            _check_entries(event, lost)
            _check_same(event.token == wanted[0], 0)
        elif isinstance(event, RoundVerified):
            done += 1
            # From one state two drafts may be accepted to other depths; the tokens are the target's, so one begins the other.
            together = min(len(event.emitted), len(wanted[done])) if done == last else None
            _check_same(event.emitted[:together] == wanted[done][:together], done)
            if done == last:
                return (*made, event), drafter.along(wanted[last])
        elif isinstance(event, MemoryRead | NodeDrafted) and done == last - 1:
            made.append(event)
        elif isinstance(event, Finished):
            _check_same(event.reason == "stopped", done + 1)
        if isinstance(event, PrefillDone | RoundVerified) and done == last - 1:
            drafter.reach()
    return None


def _check_same(holds: bool, step: int) -> None:
    if not holds:
        raise RedraftError(
            f"This recording comes out otherwise here at step {step}: it was changed, or made on a machine that rounds "
            "differently; run the question again and redraft that run."
        )


def _check_entries(prefilled: PrefillDone, lost: Sequence[int]) -> None:
    """Raise RedraftError for an entry that the picture does not have, or that is padding."""
    valid = {entry for tile in prefilled.tiles for entry in valid_entries(tile)}
    for entry in lost:
        if entry not in valid:
            raise RedraftError(f"Entry {entry} cannot be erased: this picture has no such valid entry.")


def _parts(recorded: Sequence[AnyEvent]) -> tuple[RunStarted, int, list[RoundVerified]]:
    started = next((event for event in recorded if isinstance(event, RunStarted)), None)
    first = next((event.token for event in recorded if isinstance(event, PrefillDone)), None)
    if started is None or first is None:
        raise RedraftError("Nothing of this run was drafted yet.")
    return started, first, [event for event in recorded if isinstance(event, RoundVerified)]


def _check_models(target: Target, drafter: Drafter | None, image: Image.Image, started: RunStarted) -> None:
    if started.target.fingerprint != target.fingerprint:
        raise RedraftError(
            f"This run was made by another target, {started.target.id[:60]}; the one loaded here is {target.id}."
        )
    if drafter is None or started.drafter is None:
        raise RedraftError("This run had no drafter, so there is nothing to draft again.")
    if started.drafter.fingerprint != drafter.fingerprint:
        raise RedraftError(
            f"This run was made with another version of the drafter {started.drafter.id[:60]} than the one here."
        )
    if picture_sha256(image) != started.picture_sha256:
        raise RedraftError("This is not the picture of the run.")


def recorded_run_settings(started: RunStarted) -> RunSettings:
    """The settings of a recorded run, reads and nodes recorded. Raises RedraftError where they are not possible."""
    cost = started.cost
    if started.shape is None and (cost is None or not _usable(cost.tokens, [*cost.verify_ms, cost.level_ms, cost.round_ms])):
        raise RedraftError("The cost table of this run is damaged, so its steps cannot be repeated.")
    values = {name: value for name, value in started.settings.items() if name not in ("tree", "detail", "looks")}
    try:
        return make_settings(**values, tree=started.shape, detail="nodes")
    except (ValueError, TypeError) as error:
        raise RedraftError(f"The settings of this run cannot be repeated: {error}") from None


def _usable(tokens: list[int], costs: list[float]) -> bool:
    """Whether a chooser can work with a table: sizes that rise from 1 on, finite prices."""
    rising = bool(tokens) and tokens[0] >= 1 and all(a < b for a, b in pairwise(tokens))
    return rising and len(costs) == len(tokens) + 2 and all(math.isfinite(cost) and cost < 1e9 for cost in costs)
