"""What a word of an answer loses where the state that scored it may not look at the entries it chose, or at random others."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fovea_core.bench.score import place_facts
from fovea_core.bench.scoring import run_once
from fovea_core.bench.workloads import MAPS, TREES, Case
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.decode.redraft import states_along
from fovea_core.settings import RunSettings
from fovea_core.targets.base import News, Target
from fovea_core.trace.events import Shape
from fovea_core.worksite.base import Fact, Question

#: Random sets of other entries that each word's second drop is the mean of.
DRAWS = 16


@dataclass(frozen=True)
class Drop:
    """A word's log-probability as drafted, and how far (nats) it falls without the chosen and without random other entries.

    ``change``: mean size of what the random draws did, whichever way they went.
    """

    logp: float
    chosen: float
    random: float
    change: float


@dataclass(frozen=True)
class Word:
    """A word that the answer states at its place. ``cls``: of the fact, None where the word states none.

    entries: chosen entries of the read that scored its first token, 0 where it was not drafted from a read; drop: None there
    and where the read chose more than half of the valid entries, so that there are not as many others.
    """

    seed: int
    kind: str
    cls: str | None
    entries: int
    drop: Drop | None


def other_words(question: Question) -> Question:
    """The question with the words of its answer that belong to no fact, punctuation included, in the place of its facts."""
    blanked = list(question.answer)
    for fact in question.facts:
        blanked[fact.start : fact.end] = " " * (fact.end - fact.start)
    found = re.finditer(r"\S+", "".join(blanked))
    return dataclasses.replace(question, facts=tuple(Fact(m[0], m.start(), m.end(), "", "") for m in found))


@torch.inference_mode()
def scoring_states(run: FoveaRun, news: News, first: int, wanted: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The (m, d) states, uncorrected, that scored the answer's tokens at m ``wanted`` places.

    run: just started; news: text of prompt and answer, the answer's first token at ``first``; wanted: (position in the answer,
    depth of the state), roots in rising order. Up to its root a state stands on the target's states, behind it on the drafter's
    own along the accepted path, as when it was drafted.
    """
    known, out = 0, []
    for position, depth in wanted:
        end = first + position - depth  # behind the root
        run.extend(*(part[known:end] for part in news))
        known = end
        out.append(states_along(run, news[0][end : end + depth])[-1:])
    return torch.cat(out)


def random_others(chosen: torch.Tensor, draws: int, seed: int) -> torch.Tensor:
    """(draws, m, n) bool: per draw and state as many entries outside the (m, n) ``chosen`` ones as were chosen.

    Where fewer are left, all of them and some chosen ones.
    """
    keys = torch.rand((draws, *chosen.shape), generator=torch.Generator().manual_seed(seed)).to(chosen.device)
    ranks = keys.masked_fill(chosen, 2.0).argsort(-1).argsort(-1)
    return ranks < chosen.sum(-1, keepdim=True)


@torch.inference_mode()
def measure_drops(
    run: FoveaRun, states: torch.Tensor, depths: torch.Tensor, tokens: torch.Tensor, draws: int, seed: int
) -> list[tuple[int, Drop | None]]:
    """Per state its chosen entries and what the log-probability of its token loses without them (see Word for None).

    states: (m, d); depths, tokens: (m,) int64. All states share the run's memory; a lost entry is masked like padding.
    """
    depths, tokens = depths.to(states.device), tokens.to(states.device)
    scores = run.memory.scores(states, depths)  # (m, n)

    def look(lost: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(m,) log-probabilities and (m, n) chosen entries with the (m, n) ``lost`` ones invalid."""
        left = run.policy.choose(scores.masked_fill(lost, -math.inf), (~lost).sum(-1))
        corrected = run.memory.correct(states, left.weights)[0]
        ranks = torch.arange(lost.shape[-1], device=lost.device)
        taken = torch.zeros_like(lost).scatter(-1, left.order, ranks < left.count.unsqueeze(-1))
        logp = torch.log_softmax(run.folded.logits(corrected), -1)
        return logp.gather(-1, tokens.unsqueeze(-1))[:, 0].double(), taken

    as_is, chosen = look(torch.zeros_like(scores, dtype=torch.bool))
    counts = chosen.sum(-1)
    enough = counts <= scores.shape[-1] // 2
    chosen = chosen & enough.unsqueeze(-1)  # a state with too few others loses nothing, so that none is left without an entry
    without = as_is - look(chosen)[0]
    others = torch.stack([as_is - look(lost)[0] for lost in random_others(chosen, draws, seed)])  # (draws, m)
    rows = torch.stack((as_is, without, others.mean(0), others.abs().mean(0)), 1).tolist()
    return [(k, Drop(*row) if fits else None) for k, row, fits in zip(counts.tolist(), rows, enough.tolist(), strict=True)]


def measure_case(
    target: Target, drafter: FoveaDrafter, case: Case, budget: int = 256, shape: Shape = TREES[MAPS], draws: int = DRAWS
) -> list[Word]:
    """All words of a case's long reference that the drafter's run on ``shape`` states, facts first."""
    settings = RunSettings(max_new_tokens=budget, tree=shape, detail="nodes")
    said = run_once(target, drafter, case.image, case.long.question, settings, None).summary
    stated = [(placed.fact.cls, placed.first) for placed in place_facts(case.long, said.tokens)]
    stated += [(None, placed.first) for placed in place_facts(other_words(case.long), said.tokens)]
    drafted = sorted({first for _, first in stated if said.tokens[first].read is not None})
    found: dict[int, tuple[int, Drop | None]] = {}
    if drafted:
        whole = target.prefill(case.image, case.long.question, said.ids[:-1])
        run, news = drafter.start(whole, settings), whole.text_prompt()
        depths = [said.tokens[position].read.depth for position in drafted]
        states = scoring_states(run, news, len(news[0]) - len(said.ids) + 1, list(zip(drafted, depths, strict=True)))
        tokens = torch.tensor([said.ids[position] for position in drafted])
        drops = measure_drops(run, states, torch.tensor(depths), tokens, draws, case.seed)
        found = dict(zip(drafted, drops, strict=True))
    return [Word(case.seed, case.kind, cls, *found.get(first, (0, None))) for cls, first in stated]
