"""Load-adaptive verification: the draft that earns most when several requests share a target forward.

What one more node costs depends on how many rows the forward has already: under load a tree becomes a chain, a shorter chain,
and nothing at last. One request alone is the case of decode.choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
import torch

from fovea_core.decode.choose import Chooser, Worth, verify_costs
from fovea_core.decode.cost import NODES, SIZES, draft_works, falling, grey_run, typical_ms
from fovea_core.decode.draft import Drafter
from fovea_core.decode.tree import Draft
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.targets.together import Together
from fovea_core.trace.events import CostTable, Shape

#: Requests at once for which a forward is measured; between them its cost is interpolated.
LOADS = (1, 2, 4, 8)
#: Most rows of a measured forward.
MOST_ROWS = 96
#: Tokens whose reading is part of a round's price (decode.cost), and of a long reading that is measured.
READ, LONG = 2, 18
#: So long forwards and drafting are measured, unless they are slow.
TIME_LIMIT_S = 4.0


@dataclass(frozen=True)
class LoadCost:
    """Measured cost: a table of decode.cost by rows of the target's forward for each number of requests in it, the smallest
    first; its drafting is what each of so many requests pays where they draft together. ``start_ms``: making a request's
    drafter, its visual memory included, before its first draft; ``read_ms``: each token that it reads beyond the usual READ."""

    tables: dict[int, CostTable]
    start_ms: float = 0.0
    read_ms: float = 0.0

    def of(self, load: int, rows: np.ndarray) -> np.ndarray:
        """Cost in ms of a target forward over each of ``rows`` with ``load`` requests in it.

        Between measured loads it is interpolated at the same number of rows; beyond the last one that counts.
        """
        return self._between(load, lambda table: verify_costs(table, rows))

    def drafting(self, load: int, width: int) -> tuple[float, float]:
        """What a round of drafting, and a level of it, costs each of ``load`` requests, in ms; between loads as above."""
        chain = lambda table: table.level_ms if table.chain_level_ms is None else table.chain_level_ms  # noqa: E731
        level_ms = self._between(load, chain if width == 1 else lambda table: table.level_ms)
        return self._between(load, lambda table: table.round_ms), level_ms

    def _between(self, load: int, price: Callable[[CostTable], np.ndarray | float]):
        loads = list(self.tables)
        above = next((known for known in loads if known >= load), loads[-1])
        below = next((known for known in reversed(loads) if known <= load), loads[0])
        high = price(self.tables[above])
        if above == below:
            return high
        low, share = price(self.tables[below]), (load - below) / (above - below)
        return low + share * (high - low)


class LoadChooser(Chooser):
    """Chooses the draft of all requests of a round: one shape for all, since they share what was seen of the drafter, and of
    the drafted nodes those that earn their rows, from whichever request they come."""

    def __init__(self, cost: LoadCost, levels: int, guess: float | None = None) -> None:
        super().__init__(next(iter(cost.tables.values())), levels, guess)
        self.cost = cost
        self._by_load: dict[int, list[float]] = {}

    def costs(self, load: int) -> list[float]:
        """See Chooser.costs."""
        if load not in self._by_load:
            self._by_load[load] = self.cost.of(load, np.arange(load * (NODES + self.levels) + 1)).tolist()
        return self._by_load[load]

    def drafting(self, kind: Worth, load: int) -> tuple[float, float]:
        """See Chooser.drafting."""
        return self.cost.drafting(load, kind.width)

    def trim_all(self, drafts: list[Draft], shapes: list[Shape | None]) -> list[Draft]:
        """Of the drafts asked for as ``shapes``, one a request, the nodes that maximise expected tokens / expected cost of the
        round, closed under parents. A request without a shape was not drafted for and has its root only."""
        load, estimates = len(drafts), [self.estimates(draft) for draft in drafts]
        below = np.concatenate([estimate[1:] for estimate in estimates])
        owner = np.repeat(np.arange(load), [draft.size - 1 for draft in drafts])
        node = np.concatenate([np.arange(1, draft.size) for draft in drafts])
        order = np.lexsort((node, -below))
        tokens = load + np.concatenate([[0.0], np.cumsum(below[order])])  # by number of nodes below the roots
        asked = [shape for shape in shapes if shape]
        prices = [self.cost.drafting(len(asked), shape.width) for shape in asked]
        spent = sum(round_ms + level_ms * shape.depth for (round_ms, level_ms), shape in zip(prices, asked))
        taken = order[: int(np.argmax(tokens / (spent + np.array(self.costs(load)[load : load + len(tokens)]))))]
        return [
            draft
            if shape is None
            else self.keep(draft, shape, sorted(node[taken[owner[taken] == number]].tolist()), estimates[number])
            for number, (draft, shape) in enumerate(zip(drafts, shapes, strict=True))
        ]

    def learn_all(self, drafts: list[Draft], paths: list[list[int]]) -> None:
        """Take a round's outcome into account: what was sent of every request, and the accepted path below its root."""
        for draft, accepted in zip(drafts, paths, strict=True):
            self.learn_path(draft, accepted)


@torch.inference_mode()
def measure_load(target: Target, drafter: Drafter, loads: tuple[int, ...] = LOADS) -> LoadCost:
    """Time target forwards with 1 to 8 requests in them over up to MOST_ROWS rows, and the drafter's work, on a grey picture;
    about five seconds for a small model. Measured in turns, see decode.cost.typical_ms."""
    works, keys, drafting = [], [], []
    for load in loads:
        together = Together(target)
        for _ in range(load):
            together.join(grey_run(target))
        room = target.context - together.runs[0].next_position
        for size in [size for size in SIZES if size < room and size * load <= max(MOST_ROWS, load)] or [1]:
            works.append(partial(_forward, together, size))
            keys.append((load, size))
        depth, mine = draft_works([grey_run(target, drafter) for _ in range(load)], drafter)
        drafting += mine
    timed = [(forward, drafting[-1] if size > 1 else forward) for forward, (_, size) in zip(works, keys)]
    begin = _begin_works(grey_run(target, drafter), drafter)
    timed += [(work, works[-1]) for work in (*drafting, *begin)]
    *measured, start_ms, long_ms = typical_ms(timed, works[0], TIME_LIMIT_S)
    forwards_ms, drafting_ms = measured[: len(works)], iter(measured[len(works) :])
    tables = {}
    for load in loads:
        round_ms, tree_ms, chain_ms = (next(drafting_ms) / load for _ in range(3))
        mine = [(load * size, ms) for (other, size), ms in zip(keys, forwards_ms) if other == load]
        tables[load] = CostTable(
            tokens=[rows for rows, _ in mine],
            verify_ms=falling([ms for _, ms in mine]),
            level_ms=tree_ms / depth,
            chain_level_ms=chain_ms / depth,
            round_ms=round_ms,
        )
    first = tables[loads[0]].round_ms
    return LoadCost(tables, start_ms, max(0.0, long_ms - first) / (LONG - READ))


def _begin_works(run: TargetRun, drafter: Drafter) -> tuple[Callable[[], object], Callable[[], object]]:
    """Making a request's drafter behind a prefilled run, and reading LONG committed tokens."""
    settings = RunSettings(detail="rounds")
    draft_run, places = drafter.start(run, settings), count(run.next_position + 1, LONG)
    draft_run.extend(*run.first_news(int(run.logits.argmax())))
    tokens, states = torch.ones(LONG, dtype=torch.int64), run.hidden[-1:].expand(LONG, -1)
    read = lambda: draft_run.extend(tokens, states, torch.arange(LONG) + next(places))  # noqa: E731
    return partial(drafter.start, run, settings), read


def _forward(together: Together, size: int) -> None:
    chain, vocab = torch.arange(size), together.target.vocab_size
    together.forward_trees([(chain % vocab, chain - 1, chain)] * len(together.runs))[0].argmax(-1).tolist()
    for run in together.runs:
        run.commit([])
