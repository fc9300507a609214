"""What decoding tests run on: bench.toy's tiny random LLaVA, and drafters that follow a script.

``reference`` is the independent reference: no cache, no code of ours but the prompt, the whole model run anew for every token.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence

import torch
from PIL import Image

from fovea_core.bench.toy import (
    ANSWER,
    ASK,
    BOS,
    CELLS,
    EOS,
    IMAGE,
    PAD,
    PATCH,
    SPECIALS,
    WIDTH,
    toy_drafter,
    toy_model,
    toy_picture,
    toy_target,
    toy_tokenizer,
)
from fovea_core.decode.tree import Draft, chain
from fovea_core.settings import RunSettings
from fovea_core.targets.llava import LlavaTarget
from fovea_core.targets.pieces import Pieces
from fovea_core.trace.events import Shape

__all__ = [
    "ANSWER",
    "ASK",
    "BOS",
    "CELLS",
    "EOS",
    "IMAGE",
    "PAD",
    "PATCH",
    "SPECIALS",
    "WIDTH",
    "toy_drafter",
    "toy_model",
    "toy_picture",
    "toy_target",
    "toy_tokenizer",
]


def ending_with(target: LlavaTarget, *tokens: int) -> LlavaTarget:
    """The same target with other EOS ids: declare a token that it really produces, and it ends inside an answer."""
    other = copy.copy(target)
    other.eos_ids = frozenset(tokens)
    other.pieces = Pieces(target.tokenizer, other.eos_ids)
    return other


@torch.no_grad()
def reference(target: LlavaTarget, image: Image.Image, question: str, count: int) -> tuple[list[int], torch.Tensor]:
    """Greedy ids (EOS included where one comes) and raw logits (len(ids), V): the whole model anew for every token."""
    prompt = target.prompt(image, question)
    embed = target.model.get_input_embeddings()
    first, last = prompt.spans[0]
    ids, rows = [], []
    while len(ids) < count and not (ids and ids[-1] in target.eos_ids):
        embedded = embed(torch.tensor([[*prompt.ids, *ids]])).clone()
        embedded[0, first:last] = prompt.features
        states = target.model.model.language_model(inputs_embeds=embedded, use_cache=False).last_hidden_state
        rows.append(target.model.lm_head(states[0, -1]))
        ids.append(int(rows[-1].argmax()))
    return ids, torch.stack(rows)


# Drafters that follow a script. ``truth`` is the whole right answer; the script sees how much of it is committed.

Script = Callable[["ScriptRun", Shape], Draft]


class ScriptDrafter:
    """A decode.draft.Drafter that knows the right answer and drafts by ``script``."""

    fingerprint = ""

    def __init__(self, id: str, script: Script, truth: Sequence[int], vocab_size: int, seed: int = 0) -> None:
        self.id, self.script, self.truth, self.vocab_size, self.seed = id, script, list(truth), vocab_size, seed

    def start(self, run, settings: RunSettings) -> ScriptRun:
        return ScriptRun(self, run.answer_position)


class ScriptRun:
    """``answer`` holds the committed tokens; ``calls`` what extend was given, for tests of the protocol."""

    def __init__(self, drafter: ScriptDrafter, start: int) -> None:
        self.drafter, self.answer, self.calls = drafter, [], []
        self.start = start  # position of the answer's first token
        self.random = random.Random(drafter.seed)

    def extend(self, tokens, states, positions) -> None:
        assert tokens.shape[0] == states.shape[0] == positions.shape[0]
        self.calls.append((tokens, states, positions))
        self.answer += [token for token, position in zip(tokens.tolist(), positions.tolist()) if position >= self.start]

    def propose(self, shape: Shape) -> Draft:
        return self.drafter.script(self, shape)

    def ahead(self, count: int) -> list[int]:
        """The next right tokens; where the answer is over, or was another one, token 7."""
        rest = self.drafter.truth[len(self.answer) :][:count]
        return rest + [7] * (count - len(rest))

    def wrong(self, token: int) -> int:
        """Some other token."""
        return (token + 1 + self.random.randrange(self.drafter.vocab_size - 1)) % self.drafter.vocab_size


def levels(shape: Shape) -> int:
    return min(shape.depth, shape.nodes - 1)


def oracle(run: ScriptRun, shape: Shape) -> Draft:
    """Always right."""
    return chain(run.answer[-1], run.ahead(levels(shape)))


def wrong(run: ScriptRun, shape: Shape) -> Draft:
    """Never right."""
    return chain(run.answer[-1], [run.wrong(token) for token in run.ahead(levels(shape))])


def coin(p: float) -> Script:
    """Each token right with probability p."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        right = run.ahead(levels(shape))
        return chain(run.answer[-1], [t if run.random.random() < p else run.wrong(t) for t in right])

    return script


def until(k: int) -> Script:
    """The first k tokens right, then wrong."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        right = run.ahead(levels(shape))
        return chain(run.answer[-1], [t if i < k else run.wrong(t) for i, t in enumerate(right)])

    return script


def eos_at(k: int) -> Script:
    """Right tokens, but EOS at depth k, whatever the target says."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        right = run.ahead(levels(shape))
        return chain(run.answer[-1], [EOS if i == k - 1 else t for i, t in enumerate(right)])

    return script


def empty(run: ScriptRun, shape: Shape) -> Draft:
    """Drafts nothing."""
    return chain(run.answer[-1], [])


def sibling(place: int, copies: int = 1) -> Script:
    """A tree of shape.width children per right node in which the right token is child ``place`` (from 0), ``copies`` times."""

    def script(run: ScriptRun, shape: Shape) -> Draft:
        tokens, parents, depths, parent = [run.answer[-1]], [-1], [0], 0
        for depth, right in enumerate(run.ahead(levels(shape)), start=1):
            at = min(place, shape.width - 1)
            row = [run.wrong(right) for _ in range(shape.width)]
            row[at : at + copies] = [right] * len(row[at : at + copies])
            if len(tokens) + len(row) > shape.nodes:
                break
            first = len(tokens)
            tokens += row
            parents += [parent] * len(row)
            depths += [depth] * len(row)
            parent = first + at
        size = len(tokens)
        return Draft(torch.tensor(tokens), torch.tensor(parents), torch.tensor(depths), torch.zeros(size))

    return script


def dup(run: ScriptRun, shape: Shape) -> Draft:
    """Every right token twice among its siblings; only the first copy has children."""
    return sibling(0, copies=2)(run, shape)


def captured(chosen) -> torch.Tensor:
    """(..., n): mass of the entries that a memory.select.Selection chose, on the full softmax."""
    ranks = torch.arange(chosen.masses.shape[-1])
    return torch.where(ranks < chosen.count.unsqueeze(-1), chosen.masses, 0).sum(-1)
