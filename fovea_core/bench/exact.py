"""``bench exact``: speculative ids against plain ids, evenly over families and policies, on tiny random models in float32; and
over the Lab's rivals with random weights, on a tiny model of the embedded family.

Greedy answers are held against plain decoding and transformers' own ``generate()``, sampled ones against plain decoding with
the same seed. A random drafter is hardly ever right, so each draft is told a right token here and there: then nodes are
accepted at every depth, and what could go wrong behind an accepted path does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest

import torch
from PIL import Image

from fovea_core.bench.machine import machine, versions
from fovea_core.bench.tiny import tiny
from fovea_core.bench.toy import toy_drafter, toy_picture, toy_rival, toy_target
from fovea_core.bench.workloads import BUILTIN_SEEDS, draw_case
from fovea_core.decode.fovea import load_drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.tree import Draft
from fovea_core.drafter.rival import KINDS
from fovea_core.settings import RunSettings, SettingsError, Shape
from fovea_core.targets.base import Target, TargetRun
from fovea_core.targets.registry import load_target
from fovea_core.targets.shelf import LAB
from fovea_core.trace.laws import checked

#: Family -> what stands for it: tiny random models (bench.toy, bench.tiny), and the embedded model with its own drafter.
FAMILIES = {
    "llava": ("toy", "builtin"),
    "llava_next": ("vicuna", "mistral"),
    "qwen2_5_vl": ("qwen",),
    "smolvlm": ("smolvlm", "idefics3"),
}
POLICIES = (
    *("fovea", "topk-4", "dense", "none", "random-4", "static-4", "agnostic-4", "state-4", "tiger-4"),
    *("unilaspec-4", "hawk", "foveated"),
)
#: The family of the embedded model, and what stands for it where the rivals draft.
RIVAL_FAMILY, RIVAL_TOY = "llava", "toy"
RIVALS = {LAB + kind: kind for kind in KINDS}
TREES = ((6, 6, 40), (4, 1, 5), (1, 4, 5), (3, 3, 10), (5, 3, 8), (1, 1, 2))
SIZES = ((60, 40), (33, 91), (28, 28), (200, 30), (7, 90))
QUESTIONS = ("what is in the picture?", "a red ball  left of\n\n the box ", "é🙂 한글", "<image>", "")
LENGTH, LEAST_ANSWERS = 32, 4
#: How often a draft that misses the right token is told it.
TOLD = 0.6


class Told:
    """A decode.draft.Drafter around another that knows the right answer and puts its next token into a draft without it now
    and then, at every depth; reads, cache and shape of the draft are the other's own."""

    def __init__(self, drafter, truth: Sequence[int], seed: int, share: float = TOLD) -> None:
        self.drafter, self.truth, self.seed, self.share = drafter, list(truth), seed, share
        self.id, self.fingerprint, self.sight, self.watches = drafter.id, drafter.fingerprint, drafter.sight, drafter.watches

    def start(self, run: TargetRun, settings: RunSettings) -> ToldRun:
        """See decode.draft.Drafter.start."""
        return ToldRun(self, self.drafter.start(run, settings), run.next_position)


class ToldRun:
    """One request; ``start``: position id of the answer's first token."""

    def __init__(self, told: Told, run, start: int) -> None:
        self.told, self.run, self.start, self.said = told, run, start, 0
        self.random = random.Random(told.seed)

    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """See decode.draft.DraftRun.extend."""
        self.said += int((positions >= self.start).sum())
        self.run.extend(tokens, states, positions)

    def propose(self, shape: Shape) -> Draft:
        """See decode.draft.DraftRun.propose."""
        draft = self.run.propose(shape)
        tokens, parents, node = draft.tokens.tolist(), draft.parents.tolist(), 0
        for right in self.told.truth[self.said :]:
            children = [child for child, parent in enumerate(parents) if parent == node]
            if not children:
                break
            node = next((child for child in children if tokens[child] == right), -1)
            if node < 0:
                if self.random.random() >= self.told.share:
                    break
                node = self.random.choice(children)
                tokens[node] = right
        return replace(draft, tokens=torch.tensor(tokens))


@dataclass
class Count:
    """What was compared: answers, their tokens and those of sampled ones, how many differ from a reference, and how far
    drafting came: rounds, drafted and accepted nodes."""

    answers: int = 0
    tokens: int = 0
    sampled_tokens: int = 0
    ids_differing: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, other: Count) -> None:
        """Add another count to this one."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


def differing(one: Sequence[int], other: Sequence[int]) -> int:
    """At how many positions two answers differ; those that only one of them has count."""
    return sum(a != b for a, b in zip_longest(one, other))


def compare_exactly(target: Target, drafter, image: Image.Image, question: str, settings: RunSettings) -> Count:
    """One answer against its references: plain decoding and, where it is greedy, ``generate()``. An id counts once, whichever
    of them it differs from. The trace must be lawful (trace.laws)."""
    plain = decode_plain(target, image, question, settings).ids
    *_, finished = checked(decode(target, Told(drafter, plain, settings.seed), image, question, settings))
    wrong = differing(finished.ids, plain)
    if settings.temperature == 0:
        wrong = max(wrong, differing(finished.ids, target.generate(image, question, settings.max_new_tokens)))
    sampled = len(finished.ids) if settings.temperature else 0
    return Count(1, len(finished.ids), sampled, wrong, finished.rounds, finished.drafted, finished.accepted)


def bench_exact(tokens: int, progress: Callable[[int, int, str], None] | None = None) -> dict:
    """Compare ``tokens`` ids, as many for every family and policy and for every rival; plain values for JSON.

    {tokens, ids_differing, families: {family: {policy or rival: Count}}, differing: the first answers that differ, ...}; a
    rival's name begins with 'lab-'. Raises SettingsError where there are fewer tokens than that, and TargetError or
    DrafterError where the embedded weights are missing.
    """
    cells = [(family, policy) for family in FAMILIES for policy in (*POLICIES, *(RIVALS if family == RIVAL_FAMILY else ()))]
    if tokens < len(cells):
        said = "one for every family and policy and every rival"
        raise SettingsError(f"tokens {tokens} is not possible: at least {len(cells)}, {said}.")
    models = {kind: _load(kind) for kinds in FAMILIES.values() for kind in kinds} | _load_rivals()
    families: dict[str, dict[str, Count]] = {family: {} for family in FAMILIES}
    wrong: list[dict] = []
    for place, (family, policy) in enumerate(cells):
        share = tokens * (place + 1) // len(cells) - tokens * place // len(cells)
        count = families[family][policy] = Count()
        while count.tokens < share:
            number = count.answers
            kind = policy if policy in RIVALS else FAMILIES[family][number % len(FAMILIES[family])]
            length = min(LENGTH, -(-share // LEAST_ANSWERS), share - count.tokens)
            found = compare_exactly(*models[kind], *asked(kind, policy, number, length))
            count.add(found)
            if found.ids_differing:
                wrong.append({"family": family, "kind": kind, "policy": policy, "number": number, "length": length})
            if progress is not None:
                progress(tokens * place // len(cells) + count.tokens, tokens, f"{family} {policy}")
    return {
        "tokens": sum(count.tokens for row in families.values() for count in row.values()),
        "ids_differing": sum(count.ids_differing for row in families.values() for count in row.values()),
        "rivals": {"model": RIVAL_TOY, "settings": {name: KINDS[kind] for name, kind in RIVALS.items()}},
        "families": {family: {policy: asdict(count) for policy, count in row.items()} for family, row in families.items()},
        "models": {family: list(kinds) for family, kinds in FAMILIES.items()},
        "differing": wrong[:20],
        "machine": machine(),
        "versions": versions(),
    }


def asked(kind: str, policy: str, number: int, length: int) -> tuple[Image.Image, str, RunSettings]:
    """Picture, question and settings of answer ``number`` of a policy or rival: greedy and sampled ones take turns in pairs, so
    that every model of a family has both; tree, picture and question are drawn, the same for every policy."""
    sampled, draw = number // 2 % 2 == 1, random.Random(f"{RIVAL_TOY if kind in RIVALS else kind} {number}")
    depth, width, nodes = draw.choice(TREES)
    settings = RunSettings(
        max_new_tokens=length,
        temperature=draw.choice((0.7, 1.3)) if sampled else 0.0,
        top_p=draw.choice((1.0, 0.8)) if sampled else 1.0,
        seed=number,
        policy="none" if policy in RIVALS else policy,
        tree=Shape(depth=depth, width=width, nodes=nodes),
    )
    if kind == "builtin":
        case = draw_case(BUILTIN_SEEDS[number % len(BUILTIN_SEEDS)])
        return case.image, case.long.question, settings
    return toy_picture(number, *draw.choice(SIZES)), draw.choice(QUESTIONS), settings


def _load(kind: str):
    """A target and a drafter for it."""
    if kind == "builtin":
        target = load_target("builtin", torch.device("cpu"))
        return target, load_drafter("builtin", target)
    target = toy_target() if kind == "toy" else tiny(kind)
    return target, toy_drafter(target)


def _load_rivals() -> dict:
    """By name the tiny model and a rival with random weights for it; one model for all, tapped before any of them answers."""
    target = toy_target()
    return {name: (target, toy_rival(target, kind)) for name, kind in RIVALS.items()}
