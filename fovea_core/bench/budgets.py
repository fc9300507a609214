"""``bench fig2``: how much of the picture a state needs (the paper's figures 1 and 2), and how far the focus moves.

From one fixed prefix a tree is drafted and verified once under each ratio r of the entries. The preferred budget B of a state
is the smallest r whose accepted path is as long as the longest. **Where this differs from the paper**: there the ratio is of
the image tokens in the context of a drafter that was trained with some of them missing; here it is of the visual memory's
entries, every one of which is read (the policy 'dense' on what is left, no memory at r = 0), and the drafter was trained with
all of them. Ranked alike: by the attention of the target's last layer, the mean over heads and over the queries so far, which
are the text tokens behind the picture. Greedy verification needs no forward here: behind an accepted path the target says what
it said in its plain answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import torch

from fovea_core.bench.machine import Sitting
from fovea_core.bench.timing import RESAMPLES, bootstrap_interval
from fovea_core.bench.workloads import MAPS, TREES, Case, draw_case
from fovea_core.decode.fovea import FoveaDrafter, load_drafter
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.tree import Draft
from fovea_core.decode.verify import walk
from fovea_core.memory.correct import FoldedMemory
from fovea_core.memory.select import make_policy
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.targets.looking import Looking
from fovea_core.targets.registry import load_target
from fovea_core.trace.strip import jaccard_distance
from fovea_core.worksite.words import KINDS

#: Default seeds, those of ``bench table7``.
SEEDS = range(9_500_000, 9_500_030)
RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: The two ratios that are held against each other: too little and too much.
SMALL, LARGE = 0.25, 0.75
#: Entries of a root's focus, and the place in an answer (0 first round, 1 last) from which a round is late (paper, figure 2).
FOCUS, LATE = 16, 0.6
SUPPLY = ("under", "over", "matched")


@dataclass(frozen=True)
class State:
    """One round's root: its place in the answer, accepted nodes under each of RATIOS, and the Jaccard distance of its focus to
    that of the round before (None in the first)."""

    place: float
    accepted: tuple[int, ...]
    moved: float | None

    @property
    def budget(self) -> float:
        """B: the smallest ratio with the longest accepted path."""
        return RATIOS[self.accepted.index(max(self.accepted))]

    @property
    def supply(self) -> str:
        """SMALL against LARGE: 'under' where less accepts less, 'over' where it accepts more, 'matched' where both are even."""
        small, large = (self.accepted[RATIOS.index(ratio)] for ratio in (SMALL, LARGE))
        return "under" if small < large else "over" if small > large else "matched"


def accepted(draft: Draft, truth: list[int], eos_ids: frozenset[int]) -> int:
    """Length of the path of ``draft`` that the target accepts, whose tokens behind the root are ``truth`` (at least one)."""
    tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
    return len(walk(tokens, parents, lambda node, depth: truth[depth], len(truth), eos_ids)[0])


def ranked(run: TargetRun, looking: Looking, memory: FoldedMemory, roots: Sequence[int]) -> list[torch.Tensor]:
    """For the prompt token at each of ``roots`` the (n,) valid entries as the memory numbers them (places in
    ``memory.entries``), best first: by the last layer's mass, mean over the text tokens between picture and root."""
    first = run.spans[-1][1]
    masses = torch.stack([looking.masses(at)[-1] for at in range(first, max(roots))])  # (queries, N)
    so_far = masses.cumsum(0)[:, memory.entries.to(masses.device)]  # a sum ranks as its mean does
    return [so_far[root - first - 1].sort(descending=True, stable=True).indices for root in roots]


@torch.inference_mode()
def states_of(target: Target, drafter: FoveaDrafter, case: Case, budget: int = 256) -> list[State]:
    """Every round of FOVEA's own run on the paper's tree, drafted anew under each ratio; none for an answer of one token."""
    asked = RunSettings(max_new_tokens=budget, detail="rounds")
    ids = decode_plain(target, case.image, case.long.question, asked).ids
    if len(ids) < 2:
        return []
    layers = (len(target.backbone.layers) - 1,)
    run = target.prefill(case.image, case.long.question, ids[:-1], watch=layers)
    news, first = run.text_prompt(), len(run.prompt_ids) - len(ids) + 1  # number of the answer's first token in the prompt
    begin = len(news[0]) - len(ids) + 1  # and in the text
    made = drafter.start(run, asked)
    memory, limit = made.memory, made.depth_limit
    orders = ranked(run, Looking(run, exact=True), memory, range(first, first + len(ids) - 1))
    policies = {name: make_policy(name, drafter.config.bounds) for name in ("fovea", "dense")}
    rounds, at, known = [], 0, 0
    while at < len(ids) - 1:
        made.extend(*(part[known : begin + at + 1] for part in news))
        known, truth = begin + at + 1, ids[at + 1 :]
        focus = set(memory.scores(made.root, 0)[0].topk(min(FOCUS, len(memory.entries))).indices.tolist())

        def under(name: str, left: FoldedMemory | None, truth: list[int] = truth) -> int:
            made.policy, made.memory, made.depth_limit = policies[name], left, limit if left is not None else -1
            return accepted(made.propose(TREES[MAPS]), truth, target.eos_ids)

        lengths = tuple(under("dense", _kept(memory, orders[at], ratio)) for ratio in RATIOS)
        rounds.append((lengths, focus))
        at += under("fovea", memory) + 1
    last = max(1, len(rounds) - 1)
    moved = [None, *(jaccard_distance(one, other) for (_, one), (_, other) in pairwise(rounds))]
    return [State(i / last, lengths, moved[i]) for i, (lengths, _) in enumerate(rounds)]


def _kept(memory: FoldedMemory, order: torch.Tensor, ratio: float) -> FoldedMemory | None:
    """The memory with the best share of its entries; None where none is left."""
    count = int(ratio * len(order))
    return None if count == 0 else memory if count == len(order) else memory.without(memory.entries[order[count:]])


def figures(groups: Sequence[Sequence[Sequence[State]]]) -> dict:
    """What the states of ``groups`` (kinds) of pictures come to; every figure is the mean of the kinds' figures.

    states; budgets: by ratio the share of states that prefer it; supply: shares of SUPPLY; both with 95 % intervals, pictures
    drawn again with replacement; accepted: by ratio the accepted nodes a round; movement: Jaccard distance between the FOCUS
    best entries of neighbouring roots; lead: by how much the most preferred ratio leads before the second; more_under: share of
    under-supplied states less that of over-supplied ones. None where nothing was counted.
    """

    def share(wanted: Callable[[State], float | None]) -> tuple[float | None, tuple[float, float] | None]:
        """Mean over states of what is not None, and its interval."""
        pairs = []
        for group in groups:
            values = [[value for state in picture if (value := wanted(state)) is not None] for picture in group]
            pairs.append([(sum(some), len(some)) for some in values if some])
        means = [sum(a for a, _ in group) / sum(b for _, b in group) for group in pairs if group]
        return (fmean(means) if means else None), bootstrap_interval(pairs)

    out: dict = {"states": sum(len(picture) for group in groups for picture in group)}
    for name, parts, wanted in (
        ("budgets", RATIOS, lambda part: lambda state: float(state.budget == part)),
        ("supply", SUPPLY, lambda part: lambda state: float(state.supply == part)),
        ("accepted", RATIOS, lambda part: lambda state: state.accepted[RATIOS.index(part)]),
    ):
        found = {_key(part): share(wanted(part)) for part in parts}
        out[name] = {part: value for part, (value, _) in found.items()}
        out[f"{name}_interval"] = {part: ends for part, (_, ends) in found.items()}
    out["movement"], out["movement_interval"] = share(lambda state: state.moved)
    first, second = sorted(RATIOS, key=lambda part: -(out["budgets"][_key(part)] or 0))[:2]
    lead = share(lambda state: float(state.budget == first) - float(state.budget == second))
    out["lead"] = {"first": _key(first), "second": _key(second), "by": lead[0], "interval": lead[1]}
    more = share(lambda state: float(state.supply == "under") - float(state.supply == "over"))
    out["more_under"], out["more_under_interval"] = more
    return out


def _key(part: float | str) -> str:
    return part if isinstance(part, str) else f"{part:g}"


def parts(groups: Sequence[Sequence[Sequence[State]]]) -> dict:
    """``figures`` of all states, and of the early and the late ones."""
    early, late = (
        [[[state for state in picture if (state.place >= LATE) is wanted] for picture in group] for group in groups]
        for wanted in (False, True)
    )
    return {**figures(groups), "early": figures(early), "late": figures(late)}


def bench_fig2(seeds: range = SEEDS, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """``budgets`` of the embedded model. Raises TargetError or DrafterError where the weights are missing."""
    target = load_target("builtin")
    return budgets(target, load_drafter("builtin", target), seeds, progress)


def budgets(
    target: Target,
    drafter: FoveaDrafter,
    seeds: range,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    budget: int = 256,
    scale: float | None = None,
) -> dict:
    """Every round of the long answers of the seeds' pictures, as plain values for JSON. Untimed and deterministic.

    {overall, kinds: {scene, text, chart}: see ``parts``, workload, models, machine, ...}.
    """
    sitting = Sitting()
    found: dict[str, list[list[State]]] = {kind: [] for kind in KINDS}
    for done, seed in enumerate(seeds, start=1):
        case = draw_case(seed, scale)
        found[case.kind].append(states_of(target, drafter, case, budget))
        if progress is not None:
            progress(done, len(seeds), f"{case.kind} {seed}")
    return {
        "overall": parts(list(found.values())),
        "kinds": {kind: parts([found[kind]]) for kind in KINDS},
        "workload": {
            "name": "fig2",
            "seeds": f"{seeds.start}:{seeds.stop}",
            "max_new_tokens": budget,
            "resamples": RESAMPLES,
            "tree": TREES[MAPS].model_dump(),
            "ratios": list(RATIOS),
            "focus": FOCUS,
            "late": LATE,
        },
        "models": {name: {"id": m.id, "fingerprint": m.fingerprint} for name, m in (("target", target), ("drafter", drafter))},
        **sitting.told(),
    }
