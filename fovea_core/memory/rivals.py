"""Stand-ins for three rivals' ways to choose: at inference only, on FOVEA's own memory, readout and correction.

The rivals are known here from abstracts and short notes, and each trains a drafter around its choice. What stands here is the
choice alone, with numbers of our own where theirs are not known, and each class says which; no figure of theirs can be
expected of it. For one picture at a time: states (n, d), scores (n, N).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from fovea_core.memory.controls import Control
from fovea_core.memory.select import Around, Selection

#: Entries that each layer votes for.
BALLOT = 16
#: HAWK's stand-in keeps this share of the cells.
SHARE = 0.5
#: Foveated Reasoner's stand-in: side of the coarse map, mass its box has to hold, most entries read inside it.
SIDE, BOX_MASS, MOST = 8, 0.6, 64
#: It looks anew where the box in force holds less than this mass.
TRIGGER = 0.4


def vote(masses: torch.Tensor) -> torch.Tensor:
    """(..., layers, N) masses to (..., N) ranks: votes first (each layer for its BALLOT largest), then summed mass."""
    ballots = masses.topk(min(BALLOT, masses.shape[-1]), -1).indices
    votes = torch.zeros_like(masses).scatter(-1, ballots, 1.0).sum(-2)
    return votes + masses.sum(-2) / (masses.shape[-2] + 1)  # a layer's masses sum to 1, so the second part stays below a vote


class UniLaSpec(Control):
    """Stand-in for Uni-LaSpec (arXiv 2611.01617): the K entries on which the target itself looked when it predicted the root.

    Known: the target's attention query at the accepted tip, in a few layers, against int8 copies of its visual keys; layers
    vote and 8 entries are kept, for every state of the draft, so a choice is one round old. Ours: which layers, 16 votes each,
    mean over heads. Not here: its block drafter, trained with gated cross-attention over these entries.
    """

    watches = True

    def start(self, memory, around: Around | None = None) -> None:
        """A run begins."""
        self.around, self.ranks = _needed(around, self.name), None

    def round(self, tip: torch.Tensor) -> None:
        """A round begins: the target has looked again."""
        self.ranks = None

    def _wanted(self, states, depth, memory, scores):
        if self.ranks is None:
            self.ranks = vote(self.around.looked()).to(scores)
        return self.ranks[memory.entries]


class Hawk(Control):
    """Stand-in for HAWK (arXiv 2610.00623): cells chosen once a picture from the target's own visual states; dense over them.

    Known: target visual states of several layers are mixed, cells are chosen and pooled, the drafter reads the pooled cells.
    Ours: the two watched layers that are least alike, mixed half and half (its mix is learned); cells of about 2 x 2 entries;
    the half of them that differs most from the picture's mean. Not here: its drafter, trained past its own proposals.
    """

    watches = True

    def start(self, memory, around: Around | None = None) -> None:
        """A run begins: choose the cells."""
        around, entries = _needed(around, self.name), memory.entries
        side = max(1, round(len(entries) ** 0.5 / 2))
        self.cells = F.one_hot(cell_numbers(around.places()[entries.cpu()], side), side * side).T.float().to(entries.device)
        mixed = mix(around.visual_states()[:, entries].float())  # (n, d)
        sizes = self.cells.sum(-1)  # (cells,) entries of each
        pooled = self.cells @ mixed / sizes.clamp_min(1)[:, None]
        salience = torch.linalg.vector_norm(pooled - mixed.mean(0), dim=-1).masked_fill(sizes == 0, -math.inf)
        count = max(1, math.ceil(int((sizes > 0).sum()) * SHARE))
        self.chosen = torch.zeros_like(sizes, dtype=torch.bool)
        self.chosen[salience.topk(count).indices] = True

    def select(self, states: torch.Tensor, depth: int | torch.Tensor, memory) -> Selection:
        """See Policy.select. A cell's key and value are the means of its entries', so its score is the mean of theirs, and its
        weight lies evenly on them."""
        scores = memory.scores(states, depth)
        live = ~scores.isneginf()
        kept = live & (self.chosen.float() @ self.cells > 0)
        kept = torch.where(kept.any(-1, keepdim=True), kept, live)
        sizes = kept.float() @ self.cells.T  # (n, cells)
        pooled = scores.masked_fill(~kept, 0).float() @ self.cells.T / sizes.clamp_min(1)
        shares = pooled.masked_fill(sizes == 0, -math.inf).softmax(-1) / sizes.clamp_min(1)
        selection = self.choose_within(scores, kept, memory.n_valid)
        weights = (shares @ self.cells).masked_fill(~kept, 0).to(scores.dtype)
        return Selection(weights, selection.order, selection.masses, selection.count, selection.k_raw)


class Foveated(Control):
    """Stand-in for Foveated Reasoner (arXiv 2604.21079): one box of the picture is read finely until a look at another is due.

    Known: a coarse map of the picture, and a trigger on uncertainty or visual mass that fetches fine entries of one region.
    Ours: the smallest box of an 8 x 8 map that holds 60 % of the state's mass, its 64 best entries, kept for all states until
    one has less than 40 % of its mass inside. Not here: the trigger on the draft's entropy, which would score every state
    twice, and a model trained to ask.
    """

    def start(self, memory, around: Around | None = None) -> None:
        """A run begins, without a box."""
        numbers = cell_numbers(_needed(around, self.name).places()[memory.entries.cpu()], SIDE)
        cells = F.one_hot(numbers, SIDE * SIDE).float()
        self.cells, self.boxes = cells.to(memory.entries.device), boxes(SIDE).to(memory.entries.device)
        self.inside = self.cells @ self.boxes.T > 0  # (n, boxes): which entries lie in each
        self.force: torch.Tensor | None = None  # (n,) entries in force
        self.settled = self.force  # at the begin of the round

    def round(self, tip: torch.Tensor) -> None:
        """A round begins with the box that the last one left."""
        self.settled = self.force

    def select(self, states: torch.Tensor, depth: int | torch.Tensor, memory) -> Selection:
        """See Policy.select."""
        scores = memory.scores(states, depth)
        masses = scores.softmax(-1)
        fresh = self.fresh(scores, masses)
        if not isinstance(depth, torch.Tensor) and depth == 0:  # a draft made twice in a round is the same twice
            self.force = self.settled
        if self.force is None:
            self.force = fresh[0]
        due = (masses * self.force).sum(-1) < TRIGGER  # (n,)
        kept = torch.where(due[:, None], fresh, self.force)
        self.force = torch.where(due.any(), kept[due.int().argmax()], self.force)
        return self.choose_within(scores, kept & ~scores.isneginf(), memory.n_valid)

    def fresh(self, scores: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
        """(n, N) bool: the best entries of each state's own box. Boxes stand in rising order of size."""
        held = masses.float() @ self.cells @ self.boxes.T  # (n, boxes)
        box = (held >= BOX_MASS - 1e-6).int().argmax(-1)  # the first that holds enough; the whole picture always does
        within = scores.masked_fill(~self.inside.T[box], -math.inf)
        best = within.topk(min(MOST, within.shape[-1]), -1)
        return torch.zeros_like(within, dtype=torch.bool).scatter(-1, best.indices, ~best.values.isneginf())


def cell_numbers(places: torch.Tensor, side: int) -> torch.Tensor:
    """(n, 2) places in fractions of the picture to (n,) int64 cells of a side x side map; beyond an edge the nearest cell."""
    columns, rows = (places * side).long().clamp(0, side - 1).unbind(-1)
    return rows * side + columns


def boxes(side: int) -> torch.Tensor:
    """(boxes, side^2) float32: every rectangle of cells of a side x side map, smallest area first."""
    spans = [(first, last) for first in range(side) for last in range(first, side)]
    marks = torch.zeros(len(spans), side)
    for row, (first, last) in enumerate(spans):
        marks[row, first : last + 1] = 1
    made = (marks[:, None, :, None] * marks[None, :, None, :]).flatten(2).flatten(0, 1)
    return made[made.sum(-1).sort(stable=True).indices]


def mix(states: torch.Tensor) -> torch.Tensor:
    """(layers, n, d) to (n, d): the mean of the two layers that are least alike, each to a mean square of 1.

    Alike: mean cosine of two layers' states at the same entry, each less its layer's mean.
    """
    normed = F.rms_norm(states, states.shape[-1:])
    apart = F.normalize(normed - normed.mean(1, keepdim=True), dim=-1)
    alike = torch.einsum("and,bnd->ab", apart, apart) / states.shape[1]
    alike.fill_diagonal_(math.inf)
    pair = alike.argmin().item()
    chosen = sorted({pair // len(states), pair % len(states)})
    return normed[chosen].mean(0)


def _needed(around: Around | None, name: str) -> Around:
    if around is None:
        raise ValueError(f"the policy {name} has to be started with what lies around the memory")
    return around


RIVALS: dict[str, type[Control]] = {"unilaspec": UniLaSpec, "hawk": Hawk, "foveated": Foveated}
