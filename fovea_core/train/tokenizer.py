"""The embedded target's tokenizer: byte-level BPE in which every word of the drawn world is one token.

Any Unicode text encodes (256 byte tokens, no unknown token). Single capitals and digits never merge, so each character of a
code is one token and prose is never spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from fovea_core.worksite import words

SPECIALS = ("<pad>", "<bos>", "<eos>", "<image>", "<ask>", "<answer>")
PAD, BOS, EOS, IMAGE, ASK, ANSWER = range(len(SPECIALS))
#: Capitalised words, plain words, single capitals, single digits, runs of blanks, single other characters.
PIECES = r" ?[A-Z][a-z]+| ?[a-z]+| ?[A-Z]| ?[0-9]|\s+| ?[^\sA-Za-z0-9]"
_REPEATS = 400


def world_words(questions: Iterable[str]) -> list[str]:
    """All words of the drawn world, sorted: colours, nouns, sign words, and the words of ``questions``."""
    found = set()
    nouns = (words.JUMPSUITS, words.HEADWEAR, words.TOOLS, words.OBJECTS, words.SIGN_WORDS, words.COLOURS)
    for phrase in [*(p for group in nouns for p in group), *questions]:
        found.update(re.findall(r"[A-Z]?[a-z]+", phrase))
    return sorted(found)


def train_tokenizer(questions: Iterable[str], prose: Iterable[str], size: int = 2000) -> Tokenizer:
    """At most ``size`` entries: ``questions`` give the words of the world (one token each), ``prose`` fills the rest."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    world = world_words(questions)
    characters = [f" {c}" for c in words.CODE_CHARS]
    corpus = [" ".join(["", *world]), " ".join(world), *world, *characters] * _REPEATS
    tokenizer.train_from_iterator([*corpus, *prose], trainer)
    tokenizer.encode_special_tokens = True
    missing = [w for w in world for form in (w, f" {w}") if len(tokenizer.encode(form).ids) != 1]
    if missing:
        raise ValueError(f"vocabulary of {size} is too small: {missing[:5]} take more than one token")
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """A saved tokenizer that reads typed control tokens as ordinary text."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer
