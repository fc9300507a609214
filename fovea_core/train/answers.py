"""Many greedy answers of a target at once, with the states a drafter learns from.

Pictures differ in how many tokens they take, so rows of a batch do: what lies before the end of the picture, and the question
behind it, are padded on the right to the longest, and padded slots are masked from then on. For two rows, the picture of the
first one token longer, the question of the second one:

    slots   0 1 2 | 3 4 | 5 6 ..
    row 0   p p p | q . | answer
    row 1   p p . | q q | answer
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fovea_core.targets.backbone import seen_at
from fovea_core.targets.base import Prompt
from fovea_core.train.asked import Asked
from fovea_core.train.views import Looks, check_viewed, note_looks
from fovea_core.train.worker import BatchCache, BatchTarget

#: Prompt tokens that pass the language model in one forward, where pictures are small.
TOKENS = 16_384


@dataclass
class Answered:
    """One request's outcome, T text items of which the last A + 1 are the answer.

    tokens (T); states (T, d or more, see Target.tap): the state that predicted each token; positions (T,); mid (A, d): h~^T of
    the answer tokens that were fed; prompt: text items before the answer; looks: with views; seen: by kept layer (N, d), the
    picture as it enters it (targets.backbone.seen_at).
    """

    tokens: list[int]
    states: Tensor
    positions: Tensor
    mid: Tensor
    prompt: int
    looks: Looks | None = None
    seen: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rows:
    """The layout of a batch. starts: prompt tokens of each row up to the picture's end; rest: those behind it; behind (rows,):
    position id of the first of them; start, longest: slots that the longest of each take."""

    starts: list[int]
    rest: list[list[int]]
    behind: Tensor

    @property
    def start(self) -> int:
        return max(self.starts)

    @property
    def longest(self) -> int:
        return max(map(len, self.rest))

    def padding(self, slots: int) -> Tensor:
        """(rows, slots) bool: slots that belong to no token of their row."""
        device = self.behind.device
        slot, starts = torch.arange(slots, device=device), torch.tensor(self.starts, device=device)[:, None]
        sizes = torch.tensor(list(map(len, self.rest)), device=device)[:, None]
        first, second = self.start, self.start + self.longest
        return ((slot >= starts) & (slot < first)) | ((slot >= first + sizes) & (slot < second))


@torch.inference_mode()
def answer_batch(target: BatchTarget, asked: list[Asked], max_new_tokens: int) -> list[Answered]:
    """Greedy answers of a batch, or its given answers read; the first request decides for all. Returns them in order.

    Raises ValueError where a prompt has no picture, ends with it, or differs from another of its picture before the end of it,
    or where views cannot be made of the batch.
    """
    if target.watched:
        check_viewed(asked)
    rows = _layout(asked, target)
    before, cache, entered = _read_pictures(target, asked, rows, rows.longest + max_new_tokens)
    if asked[0].answer:
        answers = [one.answer[:max_new_tokens] for one in asked]
        read, states, mids = _read_answers(target, cache, rows, answers)
    else:
        read, _ = _read_on(target, cache, rows, rows.rest)
        answers, states, mids = _decode(target, cache, read, rows, max_new_tokens)
    looks: list[Looks | None] = [None] * len(asked)
    if target.watched:  # the prompt's last token predicts the answer's first
        spoken = [(len(ids) - 1, len(mid)) for ids, mid in zip(rows.rest, mids)]
        looks = note_looks(target, cache, asked, entered, rows.behind, spoken)
    seen = {picture: {layer: seen_at(at[layer]) for layer in target.kept} for picture, at in entered.items()}
    done = []
    for row, one in enumerate(asked):
        ids, start = one.prompt.ids, rows.starts[row]
        keep = [i for i in range(1, start) if ids[i] != target.image_token_id]  # text before the image's end but the very first
        whole = torch.cat((before[one.picture], read[row][: len(ids) - start], states[row]))  # (tokens fed, d)
        places = torch.tensor([*keep, *range(max(1, start), len(ids) + len(answers[row]))], device=target.device)
        tokens = [*ids, *answers[row]]
        positions = _positions(one.prompt, len(tokens)).to(target.device)[places]
        prompt = len(keep) + len(ids) - max(1, start)
        said = [tokens[i] for i in places.tolist()]
        done.append(Answered(said, whole[places - 1], positions, mids[row], prompt, looks[row], seen[one.picture]))
    return done


def _layout(asked: list[Asked], target: BatchTarget) -> _Rows:
    starts, prefixes = [], {}
    for one in asked:
        ids = one.prompt.ids
        if target.image_token_id not in ids:
            raise ValueError("a prompt has no image placeholders")
        start = len(ids) - ids[::-1].index(target.image_token_id)
        if len(ids) == start:
            raise ValueError("a prompt ends with the image")
        if prefixes.setdefault(one.picture, ids[:start]) != ids[:start]:
            raise ValueError("prompts of one picture differ before the end of the image")
        starts.append(start)
    rest = [one.prompt.ids[start:] for one, start in zip(asked, starts)]
    behind = [int(_positions(one.prompt, start + 1)[start]) for one, start in zip(asked, starts)]
    return _Rows(starts, rest, torch.tensor(behind, device=target.device))


def _positions(prompt: Prompt, count: int) -> Tensor:
    """(count,) position ids of a prompt and the answer behind it; of image tokens on three axes: the first."""
    if prompt.positions is None:
        return torch.arange(count)
    behind = int(prompt.positions.max()) + 1 + torch.arange(max(0, count - len(prompt.ids)))
    return torch.cat([prompt.positions[0].cpu(), behind])[:count]


def _read_pictures(
    target: BatchTarget, asked: list[Asked], rows: _Rows, ahead: int
) -> tuple[dict[int, Tensor], BatchCache, dict[int, dict[int, Tensor]]]:
    """Every prompt up to the end of its picture, once a picture: states (start, d) by picture, a cache with a row for each
    request and room for ``ahead`` tokens more, and by picture what entered each watched or kept layer at it (N, d)."""
    before, cache, entered = {}, BatchCache(len(target.layers)), {}
    first = {one.picture: row for row, one in reversed(list(enumerate(asked)))}  # a row that asks about each picture
    for group in _alike(first, rows.starts):
        start, prompts = rows.starts[first[group[0]]], [asked[first[picture]].prompt for picture in group]
        ids = torch.tensor([prompt.ids[:start] for prompt in prompts], device=target.device)
        x = target.embed(ids)  # (pictures, start, d)
        for row, prompt in enumerate(prompts):
            x[row, ids[row] == target.image_token_id] = prompt.features.to(x.dtype)
        if prompts[0].positions is None:
            positions = torch.arange(start, device=target.device)[None]
        else:
            positions = torch.stack([prompt.positions[:, :start] for prompt in prompts], 1).to(target.device)
        own = BatchCache(len(target.layers))
        states, _ = target.forward(x, positions, None, own)
        before |= dict(zip(group, states))
        for row, picture in enumerate(group):
            at = ids[row] == target.image_token_id
            entered[picture] = {layer: rows_in[row][at] for layer, rows_in in target.entered.items()}
        taken = [(group.index(one.picture), row) for row, one in enumerate(asked) if one.picture in group]
        sources, places = map(list, zip(*taken))
        cache.place(own, sources, places, len(asked), rows.start, rows.start + ahead)
    return before, cache, entered


def _alike(first: dict[int, int], starts: list[int]) -> Iterator[list[int]]:
    """Pictures with as many tokens as each other, at most TOKENS at a time."""
    for start in sorted({starts[row] for row in first.values()}):
        alike, most = [picture for picture, row in first.items() if starts[row] == start], max(1, TOKENS // start)
        for at in range(0, len(alike), most):
            yield sorted(alike)[at : at + most]


def _read_on(
    target: BatchTarget, cache: BatchCache, rows: _Rows, ids: list[list[int]], mid: bool = False
) -> tuple[Tensor, Tensor | None]:
    """States (rows, longest, d) of each row's ``ids`` behind what the cache holds, and h~^T; rows are padded on the right."""
    longest, start, device = max(map(len, ids)), cache.used, target.device
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids], device=device)
    mask = torch.zeros(1, 1, longest, start + longest, device=device, dtype=target.dtype)
    mask[..., start:] = torch.full((longest, longest), float("-inf"), device=device).triu_(1)
    if len(set(rows.starts)) > 1:
        mask = mask.repeat(len(ids), 1, 1, 1)
        mask[..., :start].masked_fill_(rows.padding(start)[:, None, None], float("-inf"))
    positions = rows.behind[:, None] + torch.arange(longest, device=device)
    return target.forward(target.embed(padded), positions, mask, cache, mid=mid)


def _read_answers(
    target: BatchTarget, cache: BatchCache, rows: _Rows, answers: list[list[int]]
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """One forward over prompts and given answers. Per row: states of the prompt, states of all answer tokens but the last,
    their h~^T."""
    hidden, mid = _read_on(target, cache, rows, [ask + say[:-1] for ask, say in zip(rows.rest, answers)], mid=True)
    ends = [(len(ask), len(ask) + len(say) - 1) for ask, say in zip(rows.rest, answers)]
    return (
        [row[:first] for row, (first, _) in zip(hidden, ends)],
        [row[first:last] for row, (first, last) in zip(hidden, ends)],
        [row[first:last] for row, (first, last) in zip(mid, ends)],
    )


def _decode(
    target: BatchTarget, cache: BatchCache, read: Tensor, rows: _Rows, max_new_tokens: int
) -> tuple[list[list[int]], list[Tensor], list[Tensor]]:
    """Greedy tokens of every row, the states of the tokens that were fed, and their h~^T. Finished rows leave the batch."""
    count, device = read.shape[0], read.device
    index, sizes = torch.arange(count, device=device), torch.tensor(list(map(len, rows.rest)), device=device)
    tip = read[index, sizes - 1]  # (rows, d): state of the last prompt token
    tokens = target.say(tip)
    slots = rows.start + rows.longest + max_new_tokens
    masks = torch.zeros(count, 1, 1, slots, device=device, dtype=target.dtype)
    masks.masked_fill_(rows.padding(slots)[:, None, None], float("-inf"))
    out = [(index, tokens, tip, tip)]  # per step: rows, token, state and h~^T of the token fed to get it (first: unused)
    positions = rows.behind + sizes
    for _ in range(max_new_tokens - 1):
        open_rows = ~torch.isin(tokens, target.eos)
        left = int(open_rows.sum())
        if left == 0:
            break
        if left <= 0.75 * index.shape[0]:
            kept = open_rows.nonzero()[:, 0]
            cache.keep(kept)
            index, tokens, positions, masks = (part[kept] for part in (index, tokens, positions, masks))
        x = target.embed(tokens)[:, None]
        hidden, mid = target.forward(x, positions[:, None], masks[..., : cache.used + 1], cache, mid=True)
        tokens = target.say(hidden[:, 0])
        positions = positions + 1
        out.append((index, tokens, hidden[:, 0], mid[:, 0]))
    return _gather(out, count, target.eos, target.target.hidden_size)


def _gather(out, rows: int, eos: Tensor, size: int) -> tuple[list[list[int]], list[Tensor], list[Tensor]]:
    """Per row: its tokens up to EOS, the states of all but the last of them, and their h~^T."""
    ends = set(eos.tolist())
    answers: list[list[int]] = [[] for _ in range(rows)]
    states: list[list[Tensor]] = [[] for _ in range(rows)]
    mids: list[list[Tensor]] = [[] for _ in range(rows)]
    for step, (index, tokens, hidden, mid) in enumerate(out):
        for place, (row, token) in enumerate(zip(index.tolist(), tokens.tolist())):
            if answers[row] and answers[row][-1] in ends:
                continue
            answers[row].append(token)
            if step:
                states[row].append(hidden[place])
                mids[row].append(mid[place])
    empty, no_mid = out[0][2][:0], out[0][2][:0, :size]
    return answers, [torch.stack(s) if s else empty for s in states], [torch.stack(m) if m else no_mid for m in mids]
