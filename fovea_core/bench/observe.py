"""What a policy chooses, looked over while it chooses: for untimed runs only."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

import torch

from fovea_core.decode.draft import Drafter
from fovea_core.decode.rival import RivalRun
from fovea_core.decode.sketch import Sketch
from fovea_core.decode.tree import Draft
from fovea_core.memory.select import Policy, Selection
from fovea_core.settings import RunSettings, Shape


@dataclass
class Choices:
    """A number for every state that read, in the order of reading. overlap: share of its K entries that are among the K of
    largest mass; jaccard: similarity of its set to that of the state before it (the first state has none before it)."""

    overlap: list[float] = field(default_factory=list)
    jaccard: list[float] = field(default_factory=list)
    last: set[int] | None = None

    def add(self, chosen: Selection) -> None:
        """Take the (n, N) choice of n states."""
        counts = chosen.count[:, None]
        best = chosen.masses.sort(dim=-1, descending=True, stable=True).indices  # places in the order; the first K hold most
        ranks = torch.arange(best.shape[-1], device=best.device)
        both = ((best < counts) & (ranks < counts)).sum(-1)
        self.overlap += (both / chosen.count).tolist()
        self.follow(chosen.order.tolist(), chosen.count.tolist())

    def follow(self, orders: list[list[int]], counts: list[int]) -> None:
        """Take what states read: of each the first so many of its order."""
        for order, count in zip(orders, counts, strict=True):
            mine = set(order[:count])
            if self.last is not None:
                self.jaccard.append(len(mine & self.last) / len(mine | self.last))
            self.last = mine

    def means(self) -> tuple[float | None, float | None]:
        """Mean overlap and mean similarity; None without a state, or without a second one."""
        return tuple(fmean(values) if values else None for values in (self.overlap, self.jaccard))


class Observed:
    """A drafter (decode.draft.Drafter) whose runs note what their policy chooses in ``choices``, anew for each run."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter, self.choices = drafter, Choices()

    def __getattr__(self, name: str):
        return getattr(self._drafter, name)

    @torch.inference_mode()
    def start(self, run, settings: RunSettings):
        """See Drafter.start."""
        made, self.choices = self._drafter.start(run, settings), Choices()
        if hasattr(made, "policy") and made.policy.reads:
            made.policy = _Observer(made.policy, self.choices)
        return _Followed(made, self.choices) if isinstance(made, RivalRun) and made.record else made


class _Followed:
    """A rival's run that tells ``choices`` what each of its states read, as it is told to the trace; there is no larger set
    that it would be a part of, and so no overlap. A state that serves several nodes of a draft counts once."""

    def __init__(self, run: RivalRun, choices: Choices) -> None:
        self._run, self._choices = run, choices

    def __getattr__(self, name: str):
        return getattr(self._run, name)

    def propose(self, shape: Shape) -> Draft:
        """See decode.draft.DraftRun.propose."""
        return self._follow(self._run.propose(shape))

    def sketch(self, shape: Shape) -> Sketch | None:
        """See decode.draft.DraftRun."""
        return self._follow(self._run.sketch(shape))

    def _follow(self, made):
        for look in self._run.looks:
            states = 1 if self._run.rival.config.parallel else len(look.order)
            self._choices.follow(look.order[:states].tolist(), look.count[:states].int().tolist())
        return made


class _Observer:
    """A policy that tells ``choices`` what it selects."""

    def __init__(self, policy: Policy, choices: Choices) -> None:
        self._policy, self._choices = policy, choices

    def __getattr__(self, name: str):
        return getattr(self._policy, name)

    def select(self, states, depth, memory) -> Selection:
        """See Policy.select."""
        chosen = self._policy.select(states, depth, memory)
        self._choices.add(chosen)
        return chosen
