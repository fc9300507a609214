"""Words that see what they name: an extra loss of the target's first layer.

A question that names its thing by what is seen of it ('the value of the teal bar') has to find it first. Left to the answers
alone the target never learnt to (docs/LOG.md): nothing rewards a word for finding its thing until everything behind that works
too. Here the words of such questions are taught where to look: in the first layer one head each for nouns, colours and marks
puts its attention on the cells labelled so. The cells' labels are those of the dense loss; drafters never see either.
"""

from __future__ import annotations

import re

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from fovea_core.train.data import COLOURS, MARKS, NOUNS

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
    questions that name something; labels (B, 3, rows, columns) int64; table: ``name_table``.
    """
    layer, head_dim = language.layers[0], language.layers[0].self_attn.head_dim
    text, cells = tokens.shape[1], labels[0, 0].numel()
    parts = len(CLASSES)
    states = layer.input_layernorm(inputs)
    rows = [projection.weight[: parts * head_dim] for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)]
    queries, keys = (F.linear(states, weight).unflatten(-1, (parts, head_dim)).transpose(1, 2) for weight in rows)
    queries, keys = apply_rotary_pos_emb(queries, keys, *language.rotary_emb(states, positions))
    scores = (queries[:, :, -text:] @ keys.transpose(-1, -2)).float() * head_dim**-0.5 + mask[:, :, -text:]  # (B, 3, T, S)
    losses, masses = [], []
    for part in range(parts):
        label = labels[:, part].flatten(1)  # (B, N)
        named = table[part][tokens]  # (B, T, classes)
        named = named.gather(2, label[:, None].expand(-1, text, -1))  # (B, T, N)
        named &= asking[:, :, None]
        found = named.any(-1)
        score = scores[:, part][found]
        wanted = score[:, 1 : 1 + cells].masked_fill(~named[found], -torch.inf)
        losses.append(torch.logsumexp(score, -1) - torch.logsumexp(wanted, -1))
    loss = torch.cat(losses)
    masses = torch.exp(-loss.detach())
    return loss.sum() / max(1, loss.numel()), masses.sum() / max(1, loss.numel())
