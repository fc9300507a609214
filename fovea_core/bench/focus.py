"""``bench focus``: how often what a policy reads lies on the thing that is named next, by class of fact.

The same states are put to every policy: behind each token of the target's own answer, with all text before it committed, the
drafter's root state reads under each policy in turn. What it reads before the first token of a fact is judged on the fact's
mask. Beside them stands the target's own look: its attention masses in the watched layers as it says that token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch

from fovea_core.bench.machine import Sitting
from fovea_core.bench.pointing import EntryMap
from fovea_core.bench.policies import CONTROLS, FULL
from fovea_core.bench.score import place_facts
from fovea_core.bench.scoring import run_once
from fovea_core.bench.timing import RESAMPLES, change_interval, ratio
from fovea_core.bench.workloads import Case, draw_case
from fovea_core.decode.fovea import FoveaDrafter, load_drafter
from fovea_core.memory.select import make_policy
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.targets.geometry import centres
from fovea_core.targets.looking import Looking, look_layers
from fovea_core.targets.registry import load_target
from fovea_core.worksite.words import KINDS

#: Default seeds, those of ``bench table7``.
FOCUS_SEEDS = range(9_500_000, 9_500_030)
#: Name of the row for the target's own look.
TARGET = "the target itself"
POLICIES = tuple(name for name, row in CONTROLS.items() if not row.blind and name != "none")


@dataclass(frozen=True)
class Seen:
    """What was read before one fact: its class; whether the top entry lies on the thing; the share of the read's weight inside
    the mask over the mask's share of the picture's area, 1 for a read that knows nothing, None for an empty mask."""

    cls: str
    hit: bool
    ratio: float | None


class _Along:
    """A memory.select.Around that moves along a known answer: ``at`` is the prompt token that predicted the root."""

    def __init__(self, run: TargetRun, looking: Looking) -> None:
        self.run, self.looking, self.at = run, looking, -1

    def places(self) -> torch.Tensor:
        return torch.from_numpy(centres(self.run.tiles, len(self.run.valid)))

    def looked(self) -> torch.Tensor:
        return self.looking.masses(self.at)

    def visual_states(self) -> torch.Tensor:
        return self.looking.visual_states()


@torch.inference_mode()
def look_over(
    target: Target, drafter: FoveaDrafter, case: Case, policies: Sequence[str], budget: int = 256
) -> dict[str, list[Seen]]:
    """What every policy, and the target, read before each fact that the answer states behind its first token: name to facts."""
    settings = RunSettings(max_new_tokens=budget, detail="rounds")
    said = run_once(target, None, case.image, case.long.question, settings, None).summary
    facts = {placed.first: placed.fact for placed in place_facts(case.long, said.tokens) if placed.first > 0}
    found: dict[str, list[Seen]] = {name: [] for name in (*policies, TARGET)}
    if not facts:
        return found
    layers = look_layers(len(target.backbone.layers))
    run = target.prefill(case.image, case.long.question, said.ids[:-1], watch=layers)
    first = len(run.prompt_ids) - len(said.ids) + 1  # number of the answer's first token in the prompt
    looking = Looking(run)
    roots, memory = root_states(drafter, run, first)
    height, width = case.picture.rgb.shape[:2]
    places = EntryMap(run.tiles, width, height)

    def judge(name: str, fact, entries: torch.Tensor, weights: torch.Tensor) -> None:
        """entries (K,), the top one first; weights (K,)."""
        mask, entries = case.picture.mask(fact.mask), entries.cpu().numpy()
        share = places.ratio(entries, weights.double().cpu().numpy(), mask) if mask.any() else None
        found[name].append(Seen(fact.cls, places.hit(int(entries[0]), mask), share))

    for name in policies:
        policy, around = make_policy(name, drafter.config.bounds), _Along(run, looking)
        policy.start(memory, around)
        for word, root in roots:  # every token is a root in turn, so that policies with a past have one
            around.at = first + word - 2
            policy.round(run.hidden[around.at])
            chosen = policy.select(root, 0, memory)
            if word in facts:
                order = chosen.order[0, : int(chosen.count)]
                judge(name, facts[word], memory.entries[order], chosen.weights[0, order])
    for word, fact in sorted(facts.items()):
        masses = looking.masses(first + word - 1).mean(0)
        order = masses.argsort(descending=True)
        judge(TARGET, fact, order, masses[order])
    return found


def root_states(drafter: FoveaDrafter, run: TargetRun, first: int) -> tuple[list[tuple[int, torch.Tensor]], object]:
    """(number of the answer's token, (1, d) root state that scores it) for every one but the first, and the folded memory.

    run: prefilled with the answer less its last token, which begins at prompt token ``first``.
    """
    tokens, states, positions = run.text_prompt()
    draft, said = drafter.start(run, RunSettings(detail="rounds")), len(run.prompt_ids) - first
    roots, begin = [], 0
    for word in range(1, said + 1):
        end = len(tokens) - said + word
        draft.extend(tokens[begin:end], states[begin:end], positions[begin:end])
        roots.append((word, draft.root))
        begin = end
    return roots, draft.memory


def figures(name: str, groups: Sequence[Sequence[dict[str, list[Seen]]]], cls: str | None = None) -> dict:
    """What a policy comes to over ``groups`` of pictures (a kind each), facts of all classes or of one.

    facts; pointing: share of facts whose top entry lies on the thing, the mean of the groups' shares; its change against FOVEA
    with the paired 95 % interval, pictures drawn again with replacement inside each group; ratio: median over facts. None
    where there is no fact.
    """
    mine = [[_of(picture[name], cls) for picture in group] for group in groups]
    full = [[_of(picture[FULL], cls) for picture in group] for group in groups]
    counts = [
        [(sum(s.hit for s in a), len(a), sum(s.hit for s in b), len(b)) for a, b in zip(x, y)] for x, y in zip(mine, full)
    ]
    shares, theirs = ([ratio([row[i : i + 2] for row in group]) for group in counts] for i in (0, 2))
    own, reference = ([share for share in part if share is not None] for part in (shares, theirs))
    ratios = [seen.ratio for group in mine for picture in group for seen in picture if seen.ratio is not None]
    return {
        "facts": sum(len(picture) for group in mine for picture in group),
        "pointing": fmean(own) if own else None,
        "pointing_change": fmean(own) - fmean(reference) if own and reference else None,
        "pointing_interval": change_interval(counts),
        "ratio": median(ratios) if ratios else None,
    }


def _of(seen: Sequence[Seen], cls: str | None) -> list[Seen]:
    return [one for one in seen if cls is None or one.cls == cls]


def bench_focus(seeds: range = FOCUS_SEEDS, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """``focus`` of the embedded model. Raises TargetError or DrafterError where the weights are missing."""
    target = load_target("builtin")
    return focus(target, load_drafter("builtin", target), seeds, progress)


def focus(
    target: Target,
    drafter: FoveaDrafter,
    seeds: range,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    policies: Sequence[str] = POLICIES,
    budget: int = 256,
    scale: float | None = None,
) -> dict:
    """Every policy and the target itself on the long question of every seed's picture, as plain values for JSON. Untimed.

    {rows: {name: {overall, scene, text, chart, classes: {class: ...}}}, each ``figures``, workload, models, machine, versions}.
    """
    sitting = Sitting()
    seen: dict[str, list[dict[str, list[Seen]]]] = {kind: [] for kind in KINDS}
    for done, seed in enumerate(seeds, start=1):
        case = draw_case(seed, scale)
        seen[case.kind].append(look_over(target, drafter, case, policies, budget))
        if progress is not None:
            progress(done, len(seeds), f"{case.kind} {seed}")
    every = [seen[kind] for kind in KINDS]
    pictures = [picture for group in every for picture in group]
    classes = sorted({fact.cls for picture in pictures for fact in picture[TARGET]})
    return {
        "rows": {
            name: {
                "overall": figures(name, every),
                **{kind: figures(name, [seen[kind]]) for kind in KINDS},
                "classes": {cls: figures(name, [pictures], cls) for cls in classes},
            }
            for name in (*policies, TARGET)
        },
        "workload": {
            "name": "focus",
            "seeds": f"{seeds.start}:{seeds.stop}",
            "max_new_tokens": budget,
            "resamples": RESAMPLES,
            "layers": look_layers(len(target.backbone.layers)),
        },
        "models": {name: {"id": m.id, "fingerprint": m.fingerprint} for name, m in (("target", target), ("drafter", drafter))},
        **sitting.told(),
    }
