"""Trained rivals at work (drafter.rival): the same body, draft tree and verification as FOVEA's, another context."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch

from fovea_core.decode.fovea import SPECULATIVE
from fovea_core.decode.fovea_run import FoveaRun, Grown
from fovea_core.decode.rival_reads import Cells, Taken, look_at_entries
from fovea_core.decode.sketch import Sketch
from fovea_core.drafter.rival import LOOKED, Given, RivalDrafter, View, grid_cells, pool_cells
from fovea_core.drafter.step import FoldedDrafter
from fovea_core.memory.rivals import vote
from fovea_core.memory.select import make_policy
from fovea_core.settings import RunSettings
from fovea_core.targets.base import TargetRun
from fovea_core.targets.looking import Looking
from fovea_core.thin import Matrix
from fovea_core.trace.events import Shape, Tile
from fovea_core.trace.reads import CELLS, ROUTED, WATCHED

#: What a rival's run names as its policy, by the source that it reads; one without such a source reads nothing of the picture.
SIGHTS = {"routed": f"{ROUTED}-{{}}", "watched": f"{WATCHED}-{{}}", "cells": CELLS}
#: The deepest state that a draft may have: every state of a rival reads, however deep.
DEEPEST = 63


class TrainedRival:
    """A rival loaded for one target (decode.draft.Drafter). It has no visual memory; what a reader of its own reads of the
    picture is told as the reads of its states (decode.rival_reads)."""

    def __init__(self, drafter: RivalDrafter, id: str, fingerprint: str = "") -> None:
        self.drafter, self.id, self.fingerprint = drafter.eval().requires_grad_(False), id, fingerprint
        self.config = drafter.config
        self.max_depth = max(1, self.config.depth_rows - 1)
        self.folded = FoldedDrafter(drafter)
        self.reading = Reading(drafter) if drafter.reader is not None else None

    def sight(self, settings: RunSettings) -> tuple[str, int]:
        """How it reads the picture (trace.reads), whatever the settings say of a memory; ('none', -1) where it does not."""
        name = SIGHTS.get(self.config.source)
        return (name.format(self.config.entries), DEEPEST) if name else ("none", -1)

    def watches(self, settings: RunSettings) -> bool:
        """Whether it asks where the target looks."""
        return self.config.watches

    @torch.inference_mode()
    def start(self, run: TargetRun, settings: RunSettings) -> RivalRun:
        """See Drafter.start. Raises ValueError where the run does not watch what this rival asks."""
        kind = ParallelRun if self.config.parallel else RivalRun
        return kind(self, run, settings.max_new_tokens + SPECULATIVE, settings.detail == "nodes")


class Reading:
    """A rival's reader as decoding multiplies by it."""

    @torch.no_grad()
    def __init__(self, drafter: RivalDrafter) -> None:
        reader = self.reader = drafter.reader
        self.query, self.out = Matrix(reader.query.weight), Matrix(reader.out.weight)
        self.heads, self.head_dim = reader.heads, reader.head_dim

    def __call__(self, states: torch.Tensor, given: Given) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Reader.forward for (n, d) states of one picture; given: keys and values (1, heads, L, head_dim).

        Beside it the weights (heads, n, L) and the gates (n, 1), None where the reader has none.
        """
        normed = self.reader.norm(states)
        q = self.query(normed).view(-1, self.heads, self.head_dim).transpose(0, 1)  # (heads, n, head_dim)
        scores = q @ given.keys[0].transpose(-1, -2) * self.head_dim**-0.5
        weights = torch.softmax(scores if given.bias is None else scores + given.bias, -1)
        found = self.out((weights @ given.values[0]).transpose(0, 1).reshape(states.shape[0], -1))
        gates = None if self.reader.gate is None else torch.sigmoid(self.reader.gate(normed))
        return states + (found if gates is None else gates * found), weights, gates


def view_of(run: TargetRun, looking: Looking | None) -> View:
    """What a prefilled run shows a rival: a View of one picture, without looks at answer tokens and states of text."""
    slots = torch.cat([torch.arange(*span) for span in run.spans])
    features, valid = run.features.float()[None], run.valid[None]
    view = View(features=features, valid=valid, at=run.positions[slots].to(features.device)[None])
    if looking is None:
        return view
    numbers = cell_numbers(run.tiles, valid.shape[1]).to(valid.device)
    cells, present = pool_cells(looking.visual_states().float()[None], valid, numbers)
    attended = looking.masses(len(run.prompt_ids) - 1).mean(0)[None]
    return View(features, valid, view.at, attended, cells, present)


def cell_numbers(tiles: list[Tile], count: int) -> torch.Tensor:
    """(count,) int64: the 2 x 2 cell of each entry, tile by tile; -1 for an entry that lies in no tile."""
    numbers = torch.full((count,), -1)
    for tile in tiles:
        made = grid_cells(tile.rows, tile.columns, int(numbers.max()) + 1)
        numbers[tile.first : tile.first + len(made)] = made
    return numbers


class RivalRun(FoveaRun):
    """One request. A run that has gone on before it starts (under load) shows the same: all of it is the prompt's."""

    def __init__(self, rival: TrainedRival, run: TargetRun, ahead: int, record: bool) -> None:
        self.sees = rival.config.source in SIGHTS  # whether it reads the picture
        super().__init__(rival.folded, None, make_policy("none", rival.config.bounds), -1, record and self.sees, ahead)
        self.rival, self.drafter, self.reading = rival, rival.drafter, rival.reading
        source = rival.config.source
        self.looking = Looking(run, exact=source != "watched") if rival.config.watches else None  # int8 keys are Uni-LaSpec's
        self.view = view_of(run, self.looking)
        empty = self.view.features[:, :0]
        if source == "states":  # grows with the text
            wide = empty.new_zeros(1, 0, empty.shape[-1] * (1 + len(rival.config.taps)))
            self.view = replace(self.view, states=wide, base=torch.zeros(1, 0, dtype=torch.int64))
        if source == "watched":
            self.view = replace(self.view, looked=torch.zeros(1, 1, LOOKED, dtype=torch.int64))
        self.given = self.drafter.given(self.view)
        self.here = self.given  # for the round: what is read in it
        self.chosen: torch.Tensor | None = None  # (L,) entries of the picture that are read in it, None for all cells
        self.cells = Cells(cell_numbers(run.tiles, len(run.valid)).to(run.valid.device), run.valid) if self.record else None
        self.n_valid = int(run.valid.sum())
        self.most = min(rival.config.entries, self.n_valid)
        self.first: Taken | None = None  # what the root read
        self.last: Taken | None = None  # what the states of the last level read
        self.settle_ms = 0.0  # what it took to choose for the round, and to read for its root
        self.begun = False

    @torch.inference_mode()
    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """See FoveaRun.extend."""
        if tokens.shape[0] == 0:
            return
        if not self.begun:
            self.begun = True
            self._begin(int(positions.max()))
        super().extend(tokens, states, positions)
        if self.reading is not None:
            started = time.perf_counter()
            self._settle(states)
            self.root = self._read(self.root)
            self.settle_ms = (time.perf_counter() - started) * 1e3 if self.sees else 0.0
            if self.record:
                self.first = replace(self.last, ms=self.settle_ms)

    def _read(self, states: torch.Tensor) -> torch.Tensor:
        """(n, d) outputs of the last block, with what they read; notes it where reads are recorded."""
        if self.reading is None:
            return states
        started = time.perf_counter()
        states, weights, gates = self.reading(states, self.here)
        spent = (time.perf_counter() - started) * 1e3
        if self.sees:
            self.select_ms += spent
        if self.record:
            self.last = Taken(weights.mean(0), gates, spent / len(states), self.chosen)
        return states

    def sketch(self, shape: Shape) -> Sketch | None:
        """See FoveaRun.sketch; what the round's choice took counts as selecting."""
        made = super().sketch(shape)
        return made and replace(made, select_ms=made.select_ms + self.settle_ms)

    def score(self, states: torch.Tensor, depth: int, nodes: torch.Tensor) -> torch.Tensor:
        """See FoveaRun.score: what a rival read is in the states already."""
        self._note(depth, nodes, self.last if depth else self.first)
        return super().score(states, depth, nodes)

    def _note(self, depth: int, nodes: torch.Tensor, taken: Taken | None) -> None:
        """What the states of (n,) ``nodes`` read, for the trace; nothing where reads are not recorded."""
        if taken is None:
            return
        at_cells = taken.entries is None
        self.looks.append(
            self.cells.look(taken, depth, nodes) if at_cells else look_at_entries(taken, self.n_valid, depth, nodes)
        )

    def _begin(self, highest: int) -> None:
        """Image items in front of all text, where there are any."""
        if self.given.ahead is not None:
            self.folded.cover(max(highest, int(self.given.ahead_at.max())) + 128)
            super()._append(self.given.ahead[0], self.given.ahead_at[0])

    def _append(self, x: torch.Tensor, positions: torch.Tensor) -> None:
        """See FoveaRun._append; the picture's global vector is in every text item."""
        super()._append(x if self.given.added is None else x + self.given.added[0], positions)

    def _settle(self, states: torch.Tensor) -> None:
        """What this round reads; ``states`` (m, d or more) of the target at the newly committed tokens."""
        given, source = self.given, self.rival.config.source
        if source == "states":
            wanted = states[:, : self.drafter.reader.norm_source.normalized_shape[0]].to(self.folded.table)
            keys, values = self.drafter.reader.remember(wanted[None])
            keys, values = (torch.cat(pair, 2) for pair in ((given.keys, keys), (given.values, values)))
            self.here = self.given = replace(given, keys=keys, values=values, bias=None)
        elif source == "routed":
            logp = self.drafter.router(self.root[None], given.asked, given.valid)[0, 0]
            best = logp.topk(self.most)
            self.here = self._only(best.indices, best.values[None])
        elif source == "watched":
            ranks = vote(self.looking.masses()).masked_fill(~given.valid[0], -torch.inf)
            self.here = self._only(ranks.topk(self.most).indices, None)
        else:
            self.here = replace(given, bias=given.bias[0])

    def _only(self, entries: torch.Tensor, bias: torch.Tensor | None) -> Given:
        """A round in which the (L,) ``entries`` alone are read."""
        self.chosen = entries
        keys, values = (part.index_select(2, entries) for part in (self.given.keys, self.given.values))
        return Given(keys=keys, values=values, bias=bias)

    def _level(self, tokens: torch.Tensor, normed: torch.Tensor, depth: int, mask: torch.Tensor | None) -> torch.Tensor:
        """See FoveaRun._level."""
        x = self.folded.fuse_own(tokens, normed)
        x = x if self.given.added is None else x + self.given.added[0]
        return self._read(self.body.forward(x, self._turn(depth), mask))


class ParallelRun(RivalRun):
    """A request whose drafted positions come out of one pass: the tree's levels are those of independent positions, and what
    one of them read is what all nodes of its depth read."""

    @torch.inference_mode()
    def sketch(self, shape: Shape) -> Sketch | None:
        """See FoveaRun.sketch; no deeper than it was trained for."""
        return super().sketch(shape.model_copy(update={"depth": min(shape.depth, self.rival.max_depth)}))

    def _positions(self, levels: int) -> torch.Tensor:
        """(levels, V) log-probabilities of the next ``levels`` tokens."""
        states, count = self.root, levels - 1
        if count:
            x = self.folded.from_own(self.folded.normed(self.root)) + self.drafter.blank[:count]
            later = torch.full((count, count), -math.inf, device=x.device, dtype=x.dtype).triu_(1)
            mask = torch.cat((later.new_zeros(count, self.body.stable), later), 1)
            turn = self.folded.turns[self.position + 1 : self.position + levels]
            states = torch.cat((self.root, self._read(self.body.forward(x, turn, mask))))
        return torch.log_softmax(self.folded.logits(states), -1, dtype=torch.float32)

    def _note_level(self, depth: int, nodes: torch.Tensor) -> None:
        """The read behind ``_positions`` that serves the (n,) ``nodes`` of a depth."""
        if self.record:
            self._note(depth, nodes, self.last.row(depth - 1, len(nodes)) if depth else self.first)

    def _chain(self, levels: int) -> Grown:
        """See FoveaRun._chain."""
        best = self._positions(levels).max(-1)
        numbers = torch.arange(levels, device=best.values.device)
        for depth in range(levels):
            self._note_level(depth, numbers[depth : depth + 1])
        return Grown(best.indices, best.values, best.values.cumsum(0), numbers, 1)

    def _grow(self, levels: int, width: int) -> Grown:
        """See FoveaRun._grow: each of the ``width`` best nodes of a level gets its position's ``width`` best tokens."""
        best = self._positions(levels).topk(width)  # (levels, k)
        device = best.values.device
        tokens, logps, scores = [best.indices[0]], [best.values[0]], [best.values[0]]
        parents = [torch.zeros(width, dtype=torch.int64, device=device)]
        total, numbers, made = best.values[0], torch.arange(1, width + 1, device=device), width
        self._note_level(0, parents[0][:1])
        for level in range(1, levels):
            self._note_level(level, numbers)
            sums = (total[:, None] + best.values[level]).view(-1)  # (k k,)
            tokens.append(best.indices[level].repeat(width))
            logps.append(best.values[level].repeat(width))
            scores.append(sums)
            parents.append(numbers.repeat_interleave(width))
            total, chosen = sums.topk(width)
            numbers, made = chosen + (made + 1), made + sums.shape[0]
        return Grown(torch.cat(tokens), torch.cat(logps), torch.cat(scores), torch.cat(parents), width)
