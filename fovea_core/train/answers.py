"""Many greedy answers of a target at once, with the states a drafter learns from."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from fovea_core.drafter.rival import LOOKED, grid_cells, pool_cells
from fovea_core.memory.rivals import vote
from fovea_core.targets.base import join_taps
from fovea_core.targets.looking import look_layers


@dataclass(frozen=True)
class ArtifactRequest:
    """One question about one picture.

    pixels: (size, size, 3) uint8, letterboxed as the target wants it; valid: (N,) bool; prompt_ids: the whole prompt, image
    placeholders included (targets: Target.prompt). Questions of one picture should follow each other: it is then read once.
    answer: tokens that are read instead of the target's own greedy answer, several times cheaper; what the target would say
    behind each of them is in its states all the same.
    """

    pixels: np.ndarray
    valid: np.ndarray
    prompt_ids: list[int]
    answer: list[int] | None = None


class BatchCache:
    """Keys and values of a batch: per layer (rows, kv_heads, slots, head_dim); ``used`` slots are filled."""

    def __init__(self, layers: int) -> None:
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.used = 0

    def update(self, keys: Tensor, values: Tensor, layer: int, *_, **__) -> tuple[Tensor, Tensor]:
        """Called by a decoder layer of transformers 5.24: store behind the used slots, return all of them."""
        end = self.used + keys.shape[2]
        if self.keys[layer] is None:
            self.keys[layer], self.values[layer] = keys, values
        else:
            self.keys[layer][:, :, self.used : end] = keys
            self.values[layer][:, :, self.used : end] = values
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def rows(self, index: Tensor, extra: int | None = None) -> None:
        """Keep the rows ``index`` (may repeat them); with ``extra`` the store is given that many free slots."""
        for store in (self.keys, self.values):
            for layer, old in enumerate(store):
                slots = old.shape[2] if extra is None else self.used + extra
                new = old.new_empty(index.shape[0], old.shape[1], slots, old.shape[3])
                new[:, :, : self.used] = old[:, :, : self.used].index_select(0, index)
                store[layer] = new


class BatchTarget:
    """A LLaVA target's own modules run over many rows at once, with what the artifacts need beside its tokens; ``views``: what
    rivals need, too."""

    def __init__(self, target, dtype: torch.dtype = torch.float32, views: bool = False) -> None:
        model = target.model if target.embedding.dtype == dtype else copy.deepcopy(target.model).to(dtype)
        self.model, self.lm, self.taps = model, model.model.language_model, target.backbone.taps
        self.image, self.device, self.dtype = target.image, target.device, dtype
        self.eos = torch.tensor(sorted(target.eos_ids), device=target.device)
        self.image_token_id, self.context = target.image_token_id, target.context
        self.layers = self.lm.layers
        self.watched = look_layers(len(self.layers)) if views else ()
        self.entered: list[Tensor] = []  # of the last forward: states (rows, n, d) that entered the watched layers
        self.numbers = grid_cells(target.image.cells, target.image.cells).to(self.device)
        # States 1 .. max(1, floor(0.4 L) - 2); state i is the input of layer i.
        self.candidates = range(1, max(1, int(0.4 * len(self.layers)) - 2) + 1)

    def features(self, pixels: np.ndarray) -> Tensor:
        """(P, size, size, 3) uint8 pictures to (P, N, d) image tokens after the projector."""
        scaled = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        scaled = ((scaled - self.image.mean) / self.image.std).to(self.device, self.dtype)
        return torch.stack(list(self.model.model.get_image_features(pixel_values=scaled).pooler_output))

    def say(self, hidden: Tensor) -> Tensor:
        """(..., d or more) states to (...) likeliest tokens."""
        return self.model.lm_head(hidden[..., : self.lm.config.hidden_size]).argmax(-1)

    def embed(self, ids: Tensor) -> Tensor:
        """(...) token ids to (..., d)."""
        return self.lm.embed_tokens(ids)

    def forward(
        self, x: Tensor, positions: Tensor, mask: Tensor | None, cache: BatchCache, mid: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(rows, n, d) embedded tokens at (rows, n) positions to states as in Target.forward, taps behind them; fills the
        cache.

        mask: additive (rows, 1, n, slots) or None for causal into an empty cache. ``mid``: also h~^T (rows, n, d), the
        candidate state whose layer's attention has the least entropy (averaged over heads), chosen per token.
        """
        rope = self.lm.rotary_emb(x, positions)
        best = least = None
        tapped, self.entered = [], []
        for number, layer in enumerate(self.layers):
            entering = x
            if number in self.taps:
                tapped.append(x)
            if number in self.watched:
                self.entered.append(x)
            x = layer(x, attention_mask=mask, cache=cache, position_embeddings=rope)
            if mid and number in self.candidates:
                entropy = self._entropy(layer, entering, rope, mask, cache.keys[number][:, :, : cache.used + x.shape[1]])
                if best is None:
                    best, least = entering, entropy
                else:
                    best = torch.where((entropy < least)[..., None], entering, best)
                    least = torch.minimum(entropy, least)
        cache.used += x.shape[1]
        return join_taps(self.lm.norm(x), tapped), best

    def _entropy(self, layer, entering: Tensor, rope, mask: Tensor | None, keys: Tensor) -> Tensor:
        """(rows, n): attention entropy of n queries per row, averaged over heads, recomputed from q and the cached keys."""
        scores = self._scores(layer, entering, rope, keys)
        if mask is not None:
            scores = scores + mask[:, :, None]
        p = torch.softmax(scores, -1)
        return -torch.special.xlogy(p, p).sum(-1).mean((1, 2))

    def _scores(self, layer, entering: Tensor, rope, keys: Tensor) -> Tensor:
        """(rows, kv_heads, group, n, slots): what a layer's attention asks at (rows, n, d) states over cached keys."""
        attention = layer.self_attn
        q = attention.q_proj(layer.input_layernorm(entering)).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
        q = apply_rotary_pos_emb(q, q, *rope)[0]  # (rows, heads, n, head_dim)
        grouped = q.unflatten(1, (keys.shape[1], -1))  # (rows, kv_heads, group, n, head_dim)
        return (grouped @ keys[:, :, None].transpose(3, 4)).float() * attention.scaling

    def masses(self, cache: BatchCache, start: int, is_image: Tensor, valid: Tensor) -> Tensor:
        """(rows, n, watched, N): where the watched layers looked in the last forward, whose first token stood at ``start``:
        each layer's softmax over the valid image tokens (rows, N), the mean of its heads."""
        positions = torch.arange(start, start + self.entered[0].shape[1], device=self.device)[None]
        rope, slots = self.lm.rotary_emb(self.entered[0], positions), is_image.nonzero()[:, 0]
        looks = []
        for number, entering in zip(self.watched, self.entered):
            scores = self._scores(self.layers[number], entering, rope, cache.keys[number][:, :, slots])
            looks.append(scores.masked_fill(~valid[:, None, None, None], -torch.inf).softmax(-1).mean((1, 2)))
        return torch.stack(looks, 2)


@dataclass(frozen=True)
class Looks:
    """What a rival may be given of one answer (artifacts): at (N,); attended (N,); looked (A, LOOKED); cells (1, layers, C, d)
    and present (1, C) with the first answer of a picture, (0, ...) with the others."""

    at: Tensor
    attended: Tensor
    looked: Tensor
    cells: Tensor
    present: Tensor


@dataclass
class Answered:
    """One request's outcome, T text items of which the last A + 1 are the answer.

    tokens (T); states (T, d or more, see Target.tap): the state that predicted each token; positions (T,); mid (A, d): h~^T of
    the answer tokens that were fed; prompt: text items before the answer; looks: with views.
    """

    tokens: list[int]
    states: Tensor
    positions: Tensor
    mid: Tensor
    prompt: int
    looks: Looks | None = None


@torch.inference_mode()
def answer_batch(
    target: BatchTarget, requests: list[ArtifactRequest], max_new_tokens: int
) -> tuple[list[Answered], Tensor, list[int]]:
    """Greedy answers of a batch, or its given answers read; the first request decides for all. Returns the samples in order,
    features (P, N, d) and each sample's picture row.

    The part of the prompt up to the image's end is the same token ids in all requests and is read once per picture.
    Raises ValueError where prompts disagree before the end of the image, or leave no room in the context, or where looks are
    wanted of answers that are not given.
    """
    if target.watched and not requests[0].answer:
        raise ValueError("where the target looks is noted of given answers only")
    pictures, owner = distinct_pictures(requests)
    prefix = _prefix(requests, target.image_token_id)
    start, device = len(prefix), target.device
    features = target.features(np.stack([p.pixels for p in pictures]))  # (P, N, d)
    embedded = target.embed(torch.tensor(prefix, device=device)).repeat(len(pictures), 1, 1)  # (P, start, d)
    is_image = torch.tensor(prefix, device=device) == target.image_token_id
    embedded[:, is_image] = features
    cache = BatchCache(len(target.layers))
    before, _ = target.forward(embedded, torch.arange(start, device=device)[None], None, cache)
    entered = [states[:, is_image] for states in target.entered]  # (P, N, d) of each watched layer

    # The rest of each prompt, padded on the right; padded slots stay in the cache and are masked from then on.
    rest = [request.prompt_ids[start:] for request in requests]
    sizes = torch.tensor([len(ids) for ids in rest], device=device)
    longest = int(sizes.max())
    if start + longest + max_new_tokens > target.context:
        raise ValueError(f"{start + longest} prompt and {max_new_tokens} answer tokens exceed the context {target.context}")
    cache.rows(torch.tensor(owner, device=device), longest + max_new_tokens)
    if requests[0].answer:
        answers = [request.answer[:max_new_tokens] for request in requests]
        asked, states, mids = _read_answers(target, cache, rest, answers)
    else:
        asked, _ = _read_on(target, cache, rest)
        answers, states, mids = _decode(target, cache, asked, sizes, start, max_new_tokens)

    done = []
    keep = (~is_image).nonzero()[:, 0][1:].tolist()  # text before the image's end but the very first token
    for row, request in enumerate(requests):
        whole = torch.cat((before[owner[row]], asked[row][: len(rest[row])], states[row]))  # (positions fed, d)
        prompt = len(request.prompt_ids)
        places = torch.tensor([*keep, *range(max(1, start), prompt + len(answers[row]))], device=device)
        tokens = [*request.prompt_ids, *answers[row]]
        done.append(
            Answered([tokens[i] for i in places.tolist()], whole[places - 1], places, mids[row], len(keep) + prompt - start)
        )
    if target.watched:
        valid = torch.from_numpy(np.stack([np.asarray(p.valid, bool).reshape(-1) for p in pictures])).to(device)  # (P, N)
        masses = target.masses(cache, start, is_image, valid[owner])  # (rows, n, watched, N)
        cells, present = pool_cells(torch.stack(entered, 1), valid, target.numbers)
        at = is_image.nonzero()[:, 0]
        for row, (sample, picture) in enumerate(zip(done, owner)):
            asked, fed = len(rest[row]) - 1, sample.mid.shape[0]  # the prompt's last token predicts the answer's first
            ranks = vote(masses[row, asked : asked + fed]).masked_fill_(~valid[picture], -torch.inf)
            own = slice(picture, picture + 1) if row == 0 or owner[row - 1] != picture else slice(0, 0)
            sample.looks = Looks(
                at=at,
                attended=masses[row, asked].mean(0),
                looked=ranks.topk(min(LOOKED, ranks.shape[-1]), -1).indices,
                cells=cells[own],
                present=present[own],
            )
    return done, features, owner


def _read_on(target: BatchTarget, cache: BatchCache, ids: list[list[int]], mid: bool = False) -> tuple[Tensor, Tensor | None]:
    """States (rows, longest, d) of each row's ``ids`` behind what the cache holds, and h~^T; rows are padded on the right."""
    longest, start, device = max(map(len, ids)), cache.used, target.device
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids], device=device)
    causal = torch.full((longest, longest), float("-inf"), device=device).triu_(1)
    mask = torch.cat((causal.new_zeros(longest, start), causal), 1).to(target.dtype)[None, None]
    positions = torch.arange(start, start + longest, device=device)[None]
    return target.forward(target.embed(padded), positions, mask, cache, mid=mid)


def _read_answers(
    target: BatchTarget, cache: BatchCache, prompts: list[list[int]], answers: list[list[int]]
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """One forward over prompts and given answers. Per row: states of the prompt, states of all answer tokens but the last,
    their h~^T."""
    hidden, mid = _read_on(target, cache, [ask + say[:-1] for ask, say in zip(prompts, answers)], mid=True)
    ends = [(len(ask), len(ask) + len(say) - 1) for ask, say in zip(prompts, answers)]
    return (
        [row[:first] for row, (first, _) in zip(hidden, ends)],
        [row[first:last] for row, (first, last) in zip(hidden, ends)],
        [row[first:last] for row, (first, last) in zip(mid, ends)],
    )


def _decode(
    target: BatchTarget, cache: BatchCache, asked: Tensor, sizes: Tensor, start: int, max_new_tokens: int
) -> tuple[list[list[int]], list[Tensor], list[Tensor]]:
    """Greedy tokens of every row, the states of the tokens that were fed, and their h~^T. Finished rows leave the batch."""
    rows, longest = asked.shape[:2]
    device = asked.device
    index = torch.arange(rows, device=device)
    tip = asked[index, sizes - 1]  # (rows, d): state of the last prompt token
    tokens = target.say(tip)
    slots = torch.arange(start + longest + max_new_tokens, device=device)
    hidden_slots = (slots >= (start + sizes)[:, None]) & (slots < start + longest)  # (rows, slots): padding of the prompt
    masks = torch.zeros(rows, 1, 1, slots.shape[0], device=device, dtype=target.dtype)
    masks.masked_fill_(hidden_slots[:, None, None], float("-inf"))
    out = [(index, tokens, tip, tip)]  # per step: rows, token, state and h~^T of the token fed to get it (first: unused)
    positions = start + sizes
    for _ in range(max_new_tokens - 1):
        open_rows = ~torch.isin(tokens, target.eos)
        left = int(open_rows.sum())
        if left == 0:
            break
        if left <= 0.75 * index.shape[0]:
            kept = open_rows.nonzero()[:, 0]
            cache.rows(kept)
            index, tokens, positions, masks = (part[kept] for part in (index, tokens, positions, masks))
        x = target.embed(tokens)[:, None]
        hidden, mid = target.forward(x, positions[:, None], masks[..., : cache.used + 1], cache, mid=True)
        tokens = target.say(hidden[:, 0])
        positions = positions + 1
        out.append((index, tokens, hidden[:, 0], mid[:, 0]))
    return _gather(out, rows, target.eos)


def _gather(out, rows: int, eos: Tensor) -> tuple[list[list[int]], list[Tensor], list[Tensor]]:
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
    empty = out[0][2][:0]
    return answers, [torch.stack(s) if s else empty for s in states], [torch.stack(m) if m else empty for m in mids]


def distinct_pictures(requests: list[ArtifactRequest]) -> tuple[list[ArtifactRequest], list[int]]:
    """The different pictures of a batch (equal neighbours are one) and the picture of each request."""
    pictures, owner = [], []
    for request in requests:
        same = pictures and (request.pixels is pictures[-1].pixels or np.array_equal(request.pixels, pictures[-1].pixels))
        if not same:
            pictures.append(request)
        owner.append(len(pictures) - 1)
    return pictures, owner


def _prefix(requests: list[ArtifactRequest], image_token_id: int) -> list[int]:
    """The prompt up to the end of the image, which all requests must share."""
    first = requests[0].prompt_ids
    if image_token_id not in first:
        raise ValueError("a prompt has no image placeholders")
    end = len(first) - first[::-1].index(image_token_id)
    for request in requests:
        if request.prompt_ids[:end] != first[:end] or image_token_id in request.prompt_ids[end:]:
            raise ValueError("prompts of one batch differ before the end of the image")
        if len(request.prompt_ids) == end:
            raise ValueError("a prompt ends with the image")
    return first[:end]
