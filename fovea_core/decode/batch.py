"""Several requests decoded in lock-step: a round is one target forward for all of them, and everybody's next tokens.

Every answer has the ids of its single run: the forward keeps requests apart, and verification alone decides what is emitted.
Without a drafter it is plain decoding of several requests at once, the reference of everything here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from PIL import Image
from torch import Tensor

from fovea_core.decode.abreast import Drafts
from fovea_core.decode.draft import Drafter, DraftRun, watched
from fovea_core.decode.load import READ, LoadChooser
from fovea_core.decode.plain import answer_limit
from fovea_core.decode.propose import check
from fovea_core.decode.sampling import choose
from fovea_core.decode.tree import Draft, root_only
from fovea_core.decode.verify import walk
from fovea_core.settings import RunSettings, Shape
from fovea_core.targets.base import News, Target, TargetRun
from fovea_core.targets.together import Together

#: Most requests that are answered at once.
MOST = 8


@dataclass(eq=False)
class Lane:
    """One request at work: ``ids`` so far, at most ``limit``; ``reason`` eos or length once it is over; ``rounds`` it took part
    in. ``told``: how many ids the drafter knows, ``states``: those that predicted the others, in pieces; ``draft_run`` once it
    drafts."""

    run: TargetRun
    settings: RunSettings
    limit: int
    ids: list[int]
    states: list[Tensor]
    reason: str | None = None
    rounds: int = 0
    told: int = 0
    draft_run: DraftRun | None = None

    @property
    def untold(self) -> int:
        """How many tokens the drafter would have to read before a draft; the prompt's images are not among them."""
        prompt = len(self.run.prompt_ids) - 1 - sum(last - first for first, last in self.run.spans)
        return len(self.ids) - self.told + (prompt if self.told == 0 else 0)

    @property
    def room(self) -> int:
        """How many tokens the answer may still get."""
        return self.limit - len(self.ids)

    def token(self, logits: Tensor, ahead: int = 0) -> int:
        """The target's token ``ahead`` places behind the next one, from (V,) raw logits."""
        return choose(logits, self.settings, len(self.ids) + ahead)

    def take(self, emitted: list[int], eos_ids: frozenset[int]) -> None:
        """Tokens of a round."""
        self.ids += emitted
        self.reason = "eos" if self.ids[-1] in eos_ids else "length" if self.room == 0 else None

    def news(self) -> News:
        """What the drafter was not told yet (decode.draft.DraftRun.extend)."""
        tokens, states = torch.tensor(self.ids[self.told :]), torch.cat(self.states)
        positions = self.run.answer_position + torch.arange(self.told, len(self.ids))
        if self.told == 0:
            parts = zip(self.run.text_prompt(), (tokens, states, positions))
            tokens, states, positions = (torch.cat(pair) for pair in parts)
        self.told, self.states = len(self.ids), []
        return tokens, states, positions


class Lockstep:
    """Requests that are answered together. ``shape``: what everybody drafts each round; else ``chooser`` decides; with neither,
    or without a drafter, decoding is plain. Raises TargetError where the target cannot serve several requests."""

    def __init__(
        self, target: Target, drafter: Drafter | None = None, shape: Shape | None = None, chooser: LoadChooser | None = None
    ) -> None:
        self.target, self.drafter, self.shape, self.chooser = target, drafter, shape, chooser
        self.together, self.drafts, self.lanes = Together(target), Drafts(), []

    @torch.inference_mode()
    def join(self, run: TargetRun, settings: RunSettings) -> Lane:
        """A prefilled request; it takes part from the next round on, unless its first token ends it."""
        first = choose(run.logits, settings, 0)
        lane = Lane(run, settings, answer_limit(run, settings), [], [run.hidden[-1:]])
        lane.take([first], self.target.eos_ids)
        if lane.reason is None:
            self.together.join(run)
            self.lanes.append(lane)
        return lane

    @torch.inference_mode()
    def round(self) -> list[Lane]:
        """One round of everybody who is here, at least one; the lanes that ended leave and are returned."""
        drafts = self._draft()
        if drafts is None:
            self._step()
        else:
            self._verify(drafts)
        for lane in self.lanes:
            lane.rounds += 1
        ended = [lane for lane in self.lanes if lane.reason is not None]
        for lane in ended:
            place = self.lanes.index(lane)
            self.together.leave(place)
            last = self.lanes.pop()
            if place < len(self.lanes):
                self.lanes[place] = last
        return ended

    def _draft(self) -> list[Draft] | None:
        """Everybody's draft; None where nobody drafts."""
        levels = max(lane.room for lane in self.lanes) - 1
        shape = self.shape
        if self.drafter is None or levels < 1:
            return None
        if shape is None:
            shape = self.chooser.shape(levels, len(self.lanes), self._owed_ms()) if self.chooser else None
        if shape is None:
            return None
        shapes = [_within(shape, lane.room - 1) for lane in self.lanes]
        drafts = self._propose(shapes)
        return self.chooser.trim_all(drafts, shapes) if self.chooser else drafts

    def _owed_ms(self) -> float:
        """What drafting has to catch up with first: drafters that do not run yet, and what they were not told."""
        cost = self.chooser.cost
        begin = sum(lane.draft_run is None for lane in self.lanes) * cost.start_ms
        return begin + sum(max(0, lane.untold - READ) for lane in self.lanes) * cost.read_ms

    def _propose(self, shapes: list[Shape | None]) -> list[Draft]:
        """Everybody's draft; the root alone where there is no shape."""
        drafting = [(lane, shape) for lane, shape in zip(self.lanes, shapes, strict=True) if shape]
        for lane, _ in drafting:
            if lane.draft_run is None:  # nobody is told what is read here
                lane.draft_run = self.drafter.start(lane.run, lane.settings.model_copy(update={"detail": "rounds"}))
        runs = [lane.draft_run for lane, _ in drafting]
        if runs:
            self.drafts.extend(runs, [lane.news() for lane, _ in drafting])
        made = dict(zip(map(id, runs), self.drafts.propose(runs, [shape for _, shape in drafting])))
        for lane, shape in drafting:
            check(made[id(lane.draft_run)], shape, lane.ids[-1], self.target.vocab_size)
        return [made[id(lane.draft_run)] if shape else root_only(lane.ids[-1]) for lane, shape in zip(self.lanes, shapes)]

    def _step(self) -> None:
        """A plain step of everybody."""
        logits, hidden = self.together.forward_roots([lane.ids[-1] for lane in self.lanes])
        greedy = logits.argmax(-1).tolist()
        for row, lane in enumerate(self.lanes):
            lane.run.commit((0,))
            lane.take([greedy[row] if lane.settings.temperature == 0 else lane.token(logits[row])], self.target.eos_ids)
            if self.drafter is not None:
                lane.states.append(hidden[row : row + 1])

    def _verify(self, drafts: list[Draft]) -> None:
        """One forward over all drafts; everybody's walk along the target's own tokens."""
        logits, hidden = self.together.forward_trees([(draft.tokens, draft.parents, draft.depths) for draft in drafts])
        greedy, first, paths = logits.argmax(-1).tolist(), 0, []
        for lane, draft in zip(self.lanes, drafts):
            rows = slice(first, first + draft.size)
            token_at = _greedy(greedy[rows]) if lane.settings.temperature == 0 else _drawn(lane, logits[rows])
            accepted, _, _, emitted = walk(
                draft.tokens.tolist(), draft.parents.tolist(), token_at, lane.room, self.target.eos_ids
            )
            lane.run.commit([0, *accepted])
            lane.states.append(hidden[rows][[0, *accepted][: len(emitted)]])
            lane.take(emitted, self.target.eos_ids)
            paths.append(accepted)
            first += draft.size
        if self.chooser:
            self.chooser.learn_all(drafts, paths)


def _within(shape: Shape, levels: int) -> Shape | None:
    """A shape with at most so many levels; None without any."""
    return shape.model_copy(update={"depth": min(shape.depth, levels)}) if levels > 0 else None


def _greedy(tokens: list[int]) -> Callable[[int, int], int]:
    return lambda node, depth: tokens[node]


def _drawn(lane: Lane, logits: Tensor) -> Callable[[int, int], int]:
    return lambda node, depth: lane.token(logits[node], depth)


@dataclass(frozen=True)
class Asked:
    """A request of a trace of arrivals: what is asked, and when it comes, in ms from the start."""

    image: Image.Image
    question: str
    settings: RunSettings = field(default_factory=RunSettings)
    arrives_ms: float = 0.0


@dataclass(frozen=True)
class Answered:
    """Request ``number`` of a trace: its ids, why they end, and when they were complete, in ms from the start."""

    number: int
    ids: list[int]
    reason: str
    ended_ms: float


class Clock:
    """Wall time from its making on."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def ms(self) -> float:
        """Milliseconds so far."""
        return (time.perf_counter() - self._since) * 1e3

    def wait(self, until_ms: float) -> None:
        """Let time pass until then."""
        time.sleep(max(0.0, until_ms - self.ms()) / 1e3)


def serve(lockstep: Lockstep, requests: Sequence[Asked], clock: Clock | None = None, most: int = MOST) -> Iterator[Answered]:
    """Answer ``requests`` as they arrive, at most ``most`` at once, first come first served; yield each as it ends.

    A request is prefilled when it is let in; the others wait for that. Raises TargetError (see Target.prefill).
    """
    clock = clock or Clock()
    waiting = sorted(range(len(requests)), key=lambda number: requests[number].arrives_ms)
    at_work: list[tuple[int, Lane]] = []
    while waiting or at_work:
        if not at_work:
            clock.wait(requests[waiting[0]].arrives_ms)
        while waiting and len(at_work) < most and (not at_work or requests[waiting[0]].arrives_ms <= clock.ms()):
            number = waiting.pop(0)
            asked = requests[number]
            watch = watched(lockstep.target, lockstep.drafter, asked.settings)
            run = lockstep.target.prefill(asked.image, asked.question, watch=watch)
            at_work.append((number, lockstep.join(run, asked.settings)))
        if lockstep.lanes:
            lockstep.round()
        for number, lane in at_work:
            if lane.reason is not None:
                yield Answered(number, lane.ids, lane.reason, clock.ms())
        at_work = [(number, lane) for number, lane in at_work if lane.reason is None]
