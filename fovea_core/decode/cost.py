"""What a forward costs here, and the draft that earns most tokens per second at that price (method.md section 7)."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import ValidationError

from fovea_core.decode.draft import Drafter
from fovea_core.decode.tree import Draft, keep_nodes
from fovea_core.decode.verify import Verdict
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.trace.events import CostTable, Shape

#: Sizes of a target forward that are measured; between them cost is interpolated.
SIZES = (1, 2, 4, 8, 16, 24, 40, 64)
#: The most generous tree a cost-chosen round may grow; what is sent to the target is cut from it.
WIDTH, NODES, DEPTH = 4, 40, 8
TIME_LIMIT_S = 1.2


@torch.inference_mode()
def measure(target: Target, drafter: Drafter | None) -> CostTable:
    """Time target forwards over ``SIZES`` nodes and one drafted level, on a grey picture; about two seconds at most for a small
    model. Each figure is the best of several interleaved repeats: what else runs on the machine only ever adds.
    """
    run = target.prefill(Image.new("RGB", (96, 64), (128, 128, 128)), "?")
    room = target.context - run.next_position
    sizes = [size for size in SIZES if size < room] or [1]
    works = [partial(_forward, run, size) for size in sizes]
    depth = 0
    if drafter is not None:
        depth = max(1, min(4, max_depth(drafter), room - 2))
        draft_run = drafter.start(run, RunSettings(detail="rounds"))
        draft_run.extend(*run.first_news(int(run.logits.argmax())))
        works.append(partial(draft_run.propose, Shape(depth=depth, width=WIDTH, nodes=NODES)))
    best = _best_ms(works)
    return CostTable(tokens=sizes, verify_ms=best[: len(sizes)], level_ms=best[-1] / depth if depth else 0.0)


def _forward(run: TargetRun, size: int) -> None:
    chain = torch.arange(size)
    run.forward_tree(chain % run.target.vocab_size, chain - 1, chain)[0].argmax(-1).tolist()
    run.commit([])


def _best_ms(works: list[Callable[[], object]]) -> list[float]:
    """Best time of each of ``works`` in ms: two to ten rounds over all of them after a warm-up, until time is up."""
    best = [math.inf] * len(works)
    for work in works:
        work()
    began = time.perf_counter()
    for repeat in range(10):
        if repeat >= 2 and time.perf_counter() - began > TIME_LIMIT_S:
            break
        for index, work in enumerate(works):
            started = time.perf_counter()
            work()
            best[index] = min(best[index], (time.perf_counter() - started) * 1e3)
    return best


def cost_table(target: Target, drafter: Drafter | None) -> CostTable:
    """The table of this pair on this machine: measured once, then read from the user's cache folder.

    Kept by fingerprints, device, threads and torch version; models without fingerprint are measured each time.
    """
    marks = [target.fingerprint, drafter.fingerprint if drafter else "none"]
    if not all(marks):
        return measure(target, drafter)
    key = json.dumps([1, *marks, device_name(target.device), torch.get_num_threads(), torch.__version__])
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = base / "fovea-explorer" / f"cost-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    try:
        return CostTable.model_validate_json(path.read_text())
    except (OSError, ValidationError):
        table = measure(target, drafter)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(table.model_dump_json())
        fresh.replace(path)
    except OSError:
        pass  # a folder that cannot be written costs a measurement next time, nothing else
    return table


def max_depth(drafter: Drafter) -> int:
    """How many levels a drafter may be asked for when cost decides."""
    return getattr(drafter, "max_depth", DEPTH)


def device_name(device: torch.device) -> str:
    """``cpu`` with its thread count, or the accelerator's product name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


class Chooser:
    """Chooses each round's draft from the cost table and from how earlier drafts of this run fared; no clock, so a rerun with
    the same table gives the same rounds.

    Before drafting, ``shape`` picks the number of levels by what levels were worth so far. After drafting, ``trim`` keeps the
    nodes with the largest estimated acceptance: cumulative draft probability times what that has been worth at that depth.
    Both maximise expected tokens / expected cost.
    """

    #: Memory of what was seen: per round that saw it, and per round that did not (so that what was given up is tried again).
    DECAY, FORGET = 0.9, 0.98
    #: Weight of a guess in rounds, and the guess: each level is accepted this often where the one above it is.
    PRIOR, FIRST_GUESS = 1.0, 0.7

    def __init__(self, table: CostTable, levels: int) -> None:
        self.table = table
        self.max_shape = Shape(depth=max(1, levels), width=WIDTH, nodes=NODES)
        size = self.max_shape.depth + 1
        self._grown, self._gain, self._sent = (np.zeros(size) for _ in range(3))  # by depth: rounds, tokens hoped for, nodes
        self._seen, self._hoped = np.zeros(size), np.zeros(size)  # by depth: path got here, draft probability sent

    def verify_ms(self, count: float) -> float:
        """Cost of one target forward over ``count`` nodes, interpolated; beyond the table at the slope of its end."""
        sizes, costs = np.array(self.table.tokens, float), np.maximum.accumulate(self.table.verify_ms)
        if count > sizes[-1] and len(sizes) > 1:
            return float(costs[-1] + (count - sizes[-1]) * (costs[-1] - costs[-2]) / (sizes[-1] - sizes[-2]))
        return float(np.interp(count, sizes, costs))

    def shape(self, levels: int) -> Shape | None:
        """The shape to draft with at most ``levels`` levels; None where drafting does not pay this round."""
        best, best_rate = 0, 1 / max(self.verify_ms(1), 1e-9)
        tokens, nodes, above, rate, sent = 1.0, 1.0, 1.0, self.FIRST_GUESS, 1.5
        for depth in range(1, min(levels, self.max_shape.depth) + 1):
            weight = self._grown[depth] + self.PRIOR  # a level that was never grown is expected to fare like the one above it
            gain = (self._gain[depth] + self.PRIOR * above * rate) / weight
            sent = (self._sent[depth] + self.PRIOR * sent) / weight
            rate, above = min(1.0, gain / above) if above > 0 else 0.0, gain
            tokens, nodes = tokens + gain, nodes + sent
            earned = tokens / (depth * self.table.level_ms + self.verify_ms(nodes))
            if earned > best_rate:
                best, best_rate = depth, earned
        if best == 0:
            for sums in (self._grown, self._gain, self._sent):
                sums *= self.FORGET
            return None
        return self.max_shape.model_copy(update={"depth": best})

    def trim(self, draft: Draft, levels: int) -> Draft:
        """Keep the part of a draft of ``levels`` asked levels that is worth its place in the target's forward, closed under
        parents; remember what each level was worth."""
        estimate = self._estimates(draft)
        order = np.lexsort((np.arange(1, draft.size), -estimate[1:])) + 1
        tokens = 1 + np.concatenate([[0.0], np.cumsum(estimate[order])])  # by number of nodes below the root
        costs = np.array([levels * self.table.level_ms + self.verify_ms(1 + count) for count in range(draft.size)])
        kept = order[: int(np.argmax(tokens / np.maximum(costs, 1e-9)))]
        depths, size = draft.depths.numpy()[kept], self._gain.shape[0]
        fade = np.where(np.arange(size) <= levels, self.DECAY, self.FORGET)
        self._grown = self._grown * fade + (np.arange(size) <= levels)
        self._gain = self._gain * fade + np.bincount(depths, weights=estimate[kept], minlength=size)
        self._sent = self._sent * fade + np.bincount(depths, minlength=size)
        return keep_nodes(draft, sorted(kept.tolist()))

    def learn(self, draft: Draft, verdict: Verdict) -> None:
        """Take a round's outcome into account; ``draft`` is what was sent."""
        depths, size = draft.depths.numpy(), self._seen.shape[0]
        fade = np.where(np.arange(size) <= depths.max(), self.DECAY, self.FORGET)
        reached = (np.arange(size) <= len(verdict.accepted)) & (np.arange(size) <= depths.max())
        self._seen = self._seen * fade + reached
        self._hoped = self._hoped * fade + np.bincount(depths, weights=_cumulative(draft), minlength=size)

    def _estimates(self, draft: Draft) -> np.ndarray:
        """(n,) estimated probability that each node is accepted; never above its parent's."""
        worth = (self._seen + self.PRIOR) / (self._hoped + self.PRIOR)
        estimate = _cumulative(draft) * worth[draft.depths.numpy()]
        estimate[0] = 1.0
        for node, parent in enumerate(draft.parents.tolist()):
            if parent >= 0:
                estimate[node] = min(estimate[node], estimate[parent])
        return estimate


def _cumulative(draft: Draft) -> np.ndarray:
    """(n,) probability of each node's path under the drafter; a drafter without probabilities claims FIRST_GUESS per level."""
    if draft.logp is None:
        return Chooser.FIRST_GUESS ** draft.depths.numpy().astype(float)
    total = draft.logp.double().numpy().copy()
    for node, parent in enumerate(draft.parents.tolist()):
        if parent >= 0:
            total[node] += total[parent]
    return np.exp(total)
