"""The draft that earns most tokens per second at the measured price: a tree, a chain or none, chosen anew each round.

Load-adaptive verification: the value of one more node depends on what the machine charges for it.
No clock is read here, so a rerun with the same cost table, on a device of the same kind, has the same rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fovea_core.decode.cost import NODES, WIDTH
from fovea_core.decode.tree import Draft, keep_nodes
from fovea_core.decode.verify import Verdict
from fovea_core.trace.events import CostTable, Shape

#: Memory of what was seen: per round that saw it, and per round that did not (so that what was given up is tried again).
DECAY, FORGET = 0.9, 0.98
#: Weight of a guess, in rounds.
PRIOR = 1.0
#: Drafting must promise so many times the plain rate: prices and hopes are both uncertain.
MARGIN = 1.04
#: Guess before anything was seen: how often a chain's level is accepted where the one above it is. Of the others a tree with
#: its further children saves this share.
CHAIN_GUESS, SAVED = 0.7, 0.4


class Worth:
    """What the levels of one kind of draft were worth lately: by depth, rounds, tokens hoped for, nodes sent.

    Plain numbers here and below: there are a handful of levels and nodes a round, for which an array costs more than it saves.
    """

    def __init__(self, width: int, level_ms: float, levels: int, guess: float) -> None:
        self.width, self.level_ms, self.guess = width, level_ms, guess
        self.grown, self.gain, self.sent = ([0.0] * (levels + 1) for _ in range(3))

    def note(self, levels: int, depths: Sequence[int], estimates: Sequence[float]) -> None:
        """A draft of ``levels`` levels was grown; nodes at ``depths`` with acceptance ``estimates`` were worth it."""
        grown, gain, sent = self.grown, self.gain, self.sent
        for depth in range(len(grown)):
            seen = depth <= levels
            fade = DECAY if seen else FORGET
            grown[depth] = grown[depth] * fade + seen
            gain[depth] *= fade
            sent[depth] *= fade
        for depth, estimate in zip(depths, estimates, strict=True):
            gain[depth] += estimate
            sent[depth] += 1

    def forget(self) -> None:
        """A round went by without a draft of this kind."""
        for sums in (self.grown, self.gain, self.sent):
            sums[:] = [FORGET * value for value in sums]

    def expected(self, levels: int) -> tuple[list[float], list[float]]:
        """Tokens a round emits and nodes it sends with 0 .. ``levels`` levels, levels + 1 of each.

        A level that was never grown is expected to fare like the one above it.
        """
        tokens, nodes = [1.0], [1.0]
        above, rate, sent = 1.0, self.guess, 1.0 if self.width == 1 else 2.0
        for depth in range(1, levels + 1):
            weight = self.grown[depth] + PRIOR
            gain = (self.gain[depth] + PRIOR * above * rate) / weight
            sent = (self.sent[depth] + PRIOR * sent) / weight
            rate, above = min(1.0, gain / above) if above > 0 else 0.0, gain
            tokens.append(tokens[-1] + gain)
            nodes.append(nodes[-1] + sent)
        return tokens, nodes


class Chooser:
    """Chooses each round's draft from the cost table and from how earlier drafts of this run fared.

    Before drafting, ``shape`` picks chain or tree and the number of levels by what these were worth so far. After drafting,
    ``trim`` keeps the nodes with the largest estimated acceptance: cumulative draft probability times what that has been
    worth at that depth. Both maximise expected tokens / expected cost. ``guess``: how often a level of a chain is
    accepted where the one above it is, before anything was seen of it.

    ``whole``: drafts are sent as they were grown, since the host would have to read one to trim it; ``sent`` then takes the
    place of ``trim``, once the round is read.
    """

    whole = False

    def __init__(self, table: CostTable, levels: int, guess: float | None = None) -> None:
        self.table, self.levels = table, max(1, levels)
        guess = CHAIN_GUESS if guess is None else guess
        self.max_shape = Shape(depth=self.levels, width=WIDTH, nodes=NODES)
        chain_ms = table.level_ms if table.chain_level_ms is None else table.chain_level_ms
        self.chain = Worth(1, chain_ms, self.levels, guess)
        self.tree = Worth(WIDTH, table.level_ms, self.levels, guess + SAVED * (1 - guess))
        self._costs = verify_costs(table, np.arange(NODES + self.levels + 1)).tolist()
        self._seen, self._hoped = [0.0] * (self.levels + 1), [0.0] * (self.levels + 1)  # path got here | probability sent

    def costs(self, load: int) -> list[float]:
        """Cost in ms of a target forward by its number of rows, 0 .. as many as there may be, with ``load`` requests in it."""
        return self._costs

    def drafting(self, kind: Worth, load: int) -> tuple[float, float]:
        """What a round of drafting, and a level of it, costs each of ``load`` requests, in ms."""
        return self.table.round_ms, kind.level_ms

    def shape(self, levels: int, load: int = 1, owed_ms: float = 0.0) -> Shape | None:
        """The shape to draft with at most ``levels`` levels in each of ``load`` requests; None where drafting does not pay this
        round. ``owed_ms``: what has to be done once before a draft, in all requests; it is spread over the tokens that they may
        still get, ``levels`` and one each."""
        room, levels, costs = levels + 1, min(levels, self.levels), self.costs(load)
        best, best_rate = None, MARGIN * load / costs[load]
        for kind in (self.chain, self.tree):
            tokens, nodes = kind.expected(levels)
            round_ms, level_ms = self.drafting(kind, load)
            for depth in range(1, levels + 1):
                drafting = load * (round_ms + depth * level_ms)
                rows = _candidates(kind.width, depth) if self.whole else nodes[depth]
                spent = drafting + _between(costs, load * rows) + owed_ms * tokens[depth] / room
                rate = load * tokens[depth] / spent
                if rate > best_rate:
                    best, best_rate = (kind, depth), rate
        for kind in (self.chain, self.tree):
            if best is None or (kind is not best[0] and best[0] is self.chain):
                kind.forget()
        if best is None:
            return None
        kind, depth = best
        return Shape(depth=depth, width=kind.width, nodes=depth + 1 if kind.width == 1 else NODES)

    def trim(self, draft: Draft, shape: Shape) -> Draft:
        """Keep the part of a draft asked for as ``shape`` that is worth its place in the target's forward, closed under
        parents; remember what each level was worth."""
        kind = self.chain if shape.width == 1 else self.tree
        estimate = self.estimates(draft)
        order = sorted(range(1, draft.size), key=lambda node: -estimate[node])  # of equal ones the first, so parents first
        tokens, spent = 1.0, self.table.round_ms + shape.depth * kind.level_ms
        best, count = tokens / (spent + self._costs[1]), 0
        for sent, node in enumerate(order, start=1):
            tokens += estimate[node]
            if (rate := tokens / (spent + self._costs[1 + sent])) > best:
                best, count = rate, sent
        return self.keep(draft, shape, sorted(order[:count]), estimate)

    def sent(self, draft: Draft, shape: Shape) -> None:
        """A draft asked for as ``shape`` was sent whole; remember what each level was worth."""
        self.keep(draft, shape, list(range(1, draft.size)), self.estimates(draft))

    def keep(self, draft: Draft, shape: Shape, kept: list[int], estimate: list[float]) -> Draft:
        """The nodes ``kept``, rising, of a draft with acceptance ``estimate`` of all; remember what each level was worth."""
        kind, depths = self.chain if shape.width == 1 else self.tree, draft.depths.tolist()
        kind.note(shape.depth, [depths[node] for node in kept], [estimate[node] for node in kept])
        if kind is self.tree:
            sent = set(kept)
            path = [node for node in _best_path(draft, estimate) if node in sent]
            self.chain.note(shape.depth, [depths[node] for node in path], [estimate[node] for node in path])
        return keep_nodes(draft, kept)

    def learn(self, draft: Draft, verdict: Verdict) -> None:
        """Take a round's outcome into account; ``draft`` is what was sent."""
        self.learn_path(draft, verdict.accepted)

    def learn_path(self, draft: Draft, accepted: list[int]) -> None:
        """See ``learn``; ``accepted``: the nodes of ``draft`` on the accepted path."""
        depths, seen, hoped = draft.depths.tolist(), self._seen, self._hoped
        deepest = max(depths)
        for depth in range(self.levels + 1):
            fade = DECAY if depth <= deepest else FORGET
            seen[depth] = seen[depth] * fade + (depth <= min(len(accepted), deepest))
            hoped[depth] *= fade
        for depth, hope in zip(depths, cumulative(draft), strict=True):
            hoped[depth] += hope

    def estimates(self, draft: Draft) -> list[float]:
        """Estimated probability that each node is accepted; never above its parent's."""
        worth = [(seen + PRIOR) / (hoped + PRIOR) for seen, hoped in zip(self._seen, self._hoped)]
        parents, depths = draft.parents.tolist(), draft.depths.tolist()
        estimate = [1.0]
        for parent, depth, hope in zip(parents[1:], depths[1:], cumulative(draft)[1:]):
            estimate.append(min(hope * worth[depth], estimate[parent]))
        return estimate


def verify_costs(table: CostTable, counts: np.ndarray) -> np.ndarray:
    """Cost in ms of one target forward over each of ``counts`` nodes: interpolated, never falling, positive; beyond the table
    at the slope of its end."""
    sizes, costs = np.array(table.tokens, float), np.maximum(np.maximum.accumulate(table.verify_ms), 1e-9)
    slope = (costs[-1] - costs[-2]) / (sizes[-1] - sizes[-2]) if len(sizes) > 1 else 0.0
    return np.interp(counts, sizes, costs) + np.maximum(counts - sizes[-1], 0) * slope


def cumulative(draft: Draft) -> list[float]:
    """Probability of each node's path under the drafter; one without probabilities claims CHAIN_GUESS per level."""
    if draft.logp is None:
        return [CHAIN_GUESS**depth for depth in draft.depths.tolist()]
    total = draft.logp.tolist()
    for node, parent in enumerate(draft.parents.tolist()):
        if parent >= 0:
            total[node] += total[parent]
    return [math.exp(logp) for logp in total]


def _candidates(width: int, depth: int) -> int:
    """Rows of a forward over all that is grown in ``depth`` levels, the root's included: at most NODES where it branches."""
    return depth + 1 if width == 1 else min(NODES, 1 + width + (depth - 1) * width * width)


def _between(costs: list[float], rows: float) -> float:
    """The cost of a forward over a number of rows that need not be whole, the last one's beyond the end."""
    below = min(int(rows), len(costs) - 1)
    above = min(below + 1, len(costs) - 1)
    return costs[below] + (rows - below) * (costs[above] - costs[below])


def _best_path(draft: Draft, estimate: list[float]) -> list[int]:
    """Nodes met by going from the root to the best child again and again: what a chain would have been."""
    best: dict[int, int] = {}  # by parent, the first of its best children
    for node, parent in enumerate(draft.parents.tolist()):
        if parent >= 0 and (parent not in best or estimate[node] > estimate[best[parent]]):
            best[parent] = node
    path, node = [], 0
    while node in best:
        node = best[node]
        path.append(node)
    return path
