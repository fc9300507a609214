"""Text of single tokens, so that the pieces shown so far always join to the decoded answer.

A byte-level token may begin or end inside a character. ``text`` of a piece is what became readable with this token; ``hex``
holds the token's own bytes wherever they are not exactly that text: all bytes of an answer, taken one after the other and
decoded, give its text at every moment, with U+FFFD for a character that is not finished.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass

from tokenizers import Tokenizer

_utf8 = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True)
class Tail:
    """What a path of tokens leaves open: unfinished bytes, and whether there was any token."""

    open: bytes = b""
    begun: bool = False


@dataclass(frozen=True)
class Piece:
    """What became readable with a token; ``hex`` = the token's bytes where they differ from that text, else None."""

    text: str
    hex: str | None
    tail: Tail


class Pieces:
    """Pieces and whole texts of one tokenizer; ``eos_ids`` end an answer and are no part of its text.

    Control tokens inside an answer are shown by their names. Raises ValueError for a tokenizer whose decoder is neither
    byte-level nor SentencePiece with byte fallback.
    """

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_ids = eos_ids
        decoder = json.loads(tokenizer.to_str())["decoder"] or {}
        kinds = {step["type"] for step in decoder.get("decoders", [decoder]) if "type" in step}
        if "ByteLevel" in kinds:
            self._raw, self._advance = _byte_level, self._advance_bytes
        elif "ByteFallback" in kinds:
            self._raw, self._advance = _sentencepiece, self._advance_words
        else:
            raise ValueError("this tokenizer's decoder is neither byte-level nor SentencePiece with byte fallback")
        self._known: dict[int, bytes | tuple[int]] = {}

    def decode(self, ids: list[int]) -> str:
        """The answer's text: all tokens, control tokens by name, without the EOS that closes it."""
        if ids and ids[-1] in self.eos_ids:
            ids = ids[:-1]
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def after(self, tail: Tail, token: int) -> Piece:
        """The piece of ``token`` behind a path that left ``tail``. An EOS has no text."""
        if token in self.eos_ids:
            return Piece("", None, tail)
        raw = self._known.get(token)
        if raw is None:
            name = self.tokenizer.id_to_token(token)
            raw = self._known[token] = b"" if name is None else self._raw(name)
        return self._advance(tail, raw)

    def _advance_bytes(self, tail: Tail, raw: bytes) -> Piece:
        decoder = _utf8("replace")
        text = decoder.decode(tail.open + raw)
        return _piece(text, raw, Tail(decoder.getstate()[0], True))

    def _advance_words(self, tail: Tail, raw: bytes | tuple[int]) -> Piece:
        """Byte tokens wait until their run ends: the decoder judges a run as a whole, one U+FFFD a byte if it is no UTF-8."""
        if isinstance(raw, tuple):
            return _piece("", bytes(raw), Tail(tail.open + bytes(raw), tail.begun))
        text = self._run(tail.open) + raw.decode("utf-8")
        if not tail.begun:  # the decoder drops a space in front of the whole text, whatever token it came from
            text, raw = text.removeprefix(" "), raw if tail.open else raw.removeprefix(b" ")
        return _piece(text, raw, Tail(b"", True))

    @staticmethod
    def _run(run: bytes) -> str:
        try:
            return run.decode("utf-8")
        except UnicodeDecodeError:
            return "\ufffd" * len(run)


def _piece(text: str, raw: bytes, tail: Tail) -> Piece:
    return Piece(text, None if text.encode() == raw else raw.hex(), tail)


def _byte_alphabet() -> dict[str, int]:
    """Character to byte in byte-level vocabularies: printable Latin-1 stands for itself, the other bytes follow from U+0100."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _byte_level(name: str) -> bytes:
    if all(character in _ALPHABET for character in name):
        return bytes(_ALPHABET[character] for character in name)
    return name.encode()


def _sentencepiece(name: str) -> bytes | tuple[int]:
    """A byte token as a tuple of its byte, any other as the bytes of its text."""
    if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
        try:
            return (int(name[3:5], 16),)
        except ValueError:
            pass
    return name.replace("\u2581", " ").encode()
