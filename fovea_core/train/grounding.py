"""Where the target looks: three extra losses of its attention, from the masks we own.

A question that names its thing by what is seen of it ('the value of the teal bar') has to find it first. Left to the answers
alone the target never learnt to (docs/LOG.md): nothing rewards a word for finding its thing until everything behind that works
too. So each step is taught where to look, in heads of three layers: a word of such a question at the cells it names (the first
layer, one head each for nouns, colours and marks); a token of its answer at these words; and a token that is about to state a
fact, in any answer, at the thing that shows it. The masks teach the target only; drafters never see them.
"""

from __future__ import annotations

import re

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from fovea_core.train.labels import COLOURS, MARKS, NOUNS

#: A cell's three labels in their order; the head of the same number learns to find them.
CLASSES = (NOUNS, COLOURS, MARKS)


def name_table(tokenizer: Tokenizer) -> Tensor:
    """(3, V, most classes + 1) bool: which labels (1 + index of the class, 0 = none) a token is a name or part of a name of."""
    table = torch.zeros(len(CLASSES), tokenizer.get_vocab_size(), max(map(len, CLASSES)) + 1, dtype=torch.bool)
    for part, classes in enumerate(CLASSES):
        for number, name in enumerate(classes, start=1):
            if name == "other":
                continue
            for word in re.findall(r"\w+", name):
                for form in (word, f" {word}"):
                    ids = tokenizer.encode(form).ids
                    if len(ids) == 1:
                        table[part, ids[0], number] = True
    return table


def naming_words(tokens: Tensor, asking: Tensor, table: Tensor) -> Tensor:
    """(B, T) bool: words of questions that name something; tokens (B, T) int64, asking (B, T) bool, table: ``name_table``."""
    return asking & table.any(-1).any(0)[tokens]


def grounding_loss(
    language: nn.Module,
    inputs: Tensor,
    positions: Tensor,
    mask: Tensor,
    tokens: Tensor,
    asking: Tensor,
    labels: Tensor,
    table: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mean of -log(attention mass on the cells a word names) over naming words, and the mean mass itself; zeros without any.

    language: the language model (its layer 0 is taught); inputs (B, S, d) its embeddings, the image's N behind the first;
    positions (B, S); mask (B, 1, S, S) additive; tokens (B, T) int64 the text at the end; asking (B, T) bool, words of
    questions that name something; labels (B, 3 or more, rows, columns) int64; table: ``name_table``.
    """
    heads = language.config.num_attention_heads
    scores = _scores(language, 0, [part % heads for part in range(len(CLASSES))], inputs, positions, mask, tokens.shape[1])
    losses = []
    for part in range(len(CLASSES)):
        label = labels[:, part].flatten(1)  # (B, N)
        named = table[part][tokens].gather(2, label[:, None].expand(-1, tokens.shape[1], -1))  # (B, T, N)
        losses.append(_miss(scores[:, part], named & asking[:, :, None]))
    return _mean(torch.cat(losses))


def link_loss(
    language: nn.Module,
    place: tuple[int, int],
    states: Tensor,
    positions: Tensor,
    mask: Tensor,
    naming: Tensor,
    answering: Tensor,
    segment: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mean of -log(attention mass on the words that name something) over the tokens of such answers, and the mean mass.

    place: the layer and its head that are taught; states (B, S, d) what enters that layer; naming, answering (B, T) bool: the
    words of questions that name something, the tokens behind which an answer goes on; segment (B, T) int64.
    """
    scores = _scores(language, place[0], [place[1]], states, positions, mask, segment.shape[1])[:, 0]
    wanted = (segment[:, :, None] == segment[:, None]) & naming[:, None] & answering[:, :, None]  # (B, T, T)
    return _mean(_miss(scores, wanted, scores.shape[-1] - segment.shape[1]))


def look_loss(
    language: nn.Module,
    place: tuple[int, int],
    states: Tensor,
    positions: Tensor,
    mask: Tensor,
    shown: Tensor,
    things: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mean of -log(attention mass on the thing that shows a fact) over the tokens that say one next, and the mean mass.

    place: the layer and its head that are taught; states (B, S, d) what enters that layer; positions, mask as above; shown (B,
    T) int64: number of the thing that shows what the token behind this one states, 0 for none; things (B, 3, rows, columns)
    int64: numbers of the things on each cell (train/labels.py, main_things).
    """
    scores = _scores(language, place[0], [place[1]], states, positions, mask, shown.shape[1])[:, 0]
    wanted = (things.flatten(2)[:, :, None] == shown[:, None, :, None]).any(1)  # (B, T, N)
    return _mean(_miss(scores, wanted & (shown > 0)[:, :, None]))


def _scores(
    language: nn.Module, number: int, heads: list[int], states: Tensor, positions: Tensor, mask: Tensor, text: int
) -> Tensor:
    """(B, heads, T, S) masked attention scores of the last ``text`` tokens in some heads of a layer that ``states`` enter."""
    layer = language.layers[number]
    size = layer.self_attn.head_dim
    rows = torch.cat([torch.arange(head * size, (head + 1) * size, device=states.device) for head in heads])
    states = layer.input_layernorm(states)
    weights = [projection.weight[rows] for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)]
    queries, keys = (F.linear(states, weight).unflatten(-1, (len(heads), size)).transpose(1, 2) for weight in weights)
    queries, keys = apply_rotary_pos_emb(queries, keys, *language.rotary_emb(states, positions))
    return (queries[:, :, -text:] @ keys.transpose(-1, -2)).float() * size**-0.5 + mask[:, :, -text:]


def _miss(scores: Tensor, wanted: Tensor, first: int = 1) -> Tensor:
    """(M,) -log(mass on what is ``wanted``) of the tokens that want any; scores (B, T, S), wanted (B, T, N) of the N positions
    from ``first`` on (the image's behind the first)."""
    found = wanted.any(-1)
    score = scores[found]
    there = score[:, first : first + wanted.shape[-1]].masked_fill(~wanted[found], -torch.inf)
    return torch.logsumexp(score, -1) - torch.logsumexp(there, -1)


def _mean(loss: Tensor) -> tuple[Tensor, Tensor]:
    return loss.sum() / max(1, loss.numel()), torch.exp(-loss.detach()).sum() / max(1, loss.numel())
