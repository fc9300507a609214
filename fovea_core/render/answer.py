"""The answer as running text with the page's marks: accepted one line below, the target's own word two, rejected struck out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import cv2
import numpy as np

from fovea_core.render.letters import GHOST, INK, WARNING, Colour, label, width_px, write
from fovea_core.render.maps import Maps, RenderError

#: Okabe-Ito, as on the page.
MARKS: dict[str, Colour] = {"accepted": (0, 114, 178), "bonus": (0, 158, 115), "first": (0, 158, 115), "rejected": (213, 94, 0)}
WASH: Colour = (233, 230, 247)


#: Longest answer that is laid out, as long as the longest text of a finished run.
MOST_CHARACTERS = 200_000


@dataclass(frozen=True)
class Piece:
    """Visible text of tokens [first, last], which share how they came and their step; ``text`` keeps its white space."""

    text: str
    first: int
    last: int
    how: str
    step: int


@dataclass(frozen=True)
class _Atom:
    """Part of a piece without white space, placed: line from 0, ``left`` and ``right`` px from the line's begin."""

    text: str
    piece: Piece
    line: int
    left: int
    right: int


def pieces_of(maps: Maps, tried: Sequence[int] = ()) -> list[Piece]:
    """The answer in pieces. A token that completes no character is joined to the next one. Before the own word that the
    target said in a step of ``tried`` stands what the drafter had preferred there. Raises RenderError for an endless answer."""
    rejected = {step: text for step in tried if (text := _favourite(maps, step))}
    pieces: list[Piece] = []
    raw, first = b"", 0
    for token in maps.summary.tokens:
        step = 0 if token.round is None else maps.step(token.round)
        if token.how == "bonus" and step in rejected:
            pieces.append(Piece(rejected[step], token.position, token.position, "rejected", step))
        first = token.position if not raw else first
        raw += token.raw
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if token.position < len(maps.summary.tokens) - 1 and error.reason == "unexpected end of data":
                continue  # wait for the rest of this character
            text = raw.decode("utf-8", "replace")
        pieces.append(Piece(text, first, token.position, token.how, step))
        raw = b""
    if sum(len(piece.text) for piece in pieces) > MOST_CHARACTERS:
        raise RenderError(f"This answer has more than {MOST_CHARACTERS:,} characters, too many to be drawn.")
    return pieces


def _favourite(maps: Maps, step: int) -> str | None:
    """The node the drafter thought best where the target said its own word instead; None where nothing was tried there."""
    verdict = maps.verdicts[step - 1]
    nodes = {node.node: node for node in maps.nodes if node.round == verdict.round}
    depth = len(verdict.accepted) + 1
    wrong = [nodes[item.node] for item in verdict.rejected if item.node in nodes and nodes[item.node].depth == depth]
    best = max(wrong, key=lambda node: -np.inf if node.logp is None else node.logp, default=None)
    return best.text if best else None


class Answer:
    """Pieces laid out in lines of ``width`` px with letters ``size`` px high."""

    def __init__(self, pieces: Sequence[Piece], width: int, size: int) -> None:
        self.size, self.pitch = size, round(size * 1.75)
        self._width, self._space = width, width_px(" ", size)
        self._line = self._x = 0
        self._atoms: list[_Atom] = []
        parts = [(part, piece) for piece in pieces for part in re.findall(r"\s+|\S+", piece.text)]
        for blank, group in groupby(parts, key=lambda part: part[0].isspace()):
            if blank:
                self._break_or_space("".join(part for part, _ in group))
            else:
                self._word([(label(part, len(part)), piece) for part, piece in group])
        self.lines = self._line + 1

    def _break_or_space(self, blank: str) -> None:
        if "\n" in blank:
            self._line, self._x = self._line + (self._x > 0), 0
        elif self._x:
            self._x += self._space

    def _word(self, parts: list[tuple[str, Piece]]) -> None:
        widths = [width_px(text, self.size) for text, _ in parts]
        if sum(widths) > self._width:  # no line holds it: broken between any two characters
            parts = [(character, piece) for text, piece in parts for character in text]
            widths = [width_px(character, self.size) for character, _ in parts]
        elif self._x + sum(widths) > self._width:
            self._line, self._x = self._line + 1, 0
        for (text, piece), wide in zip(parts, widths):
            if self._x and self._x + wide > self._width:
                self._line, self._x = self._line + 1, 0
            air = self.size // 8 if piece.how == "rejected" else 0  # it is no part of the word around it
            self._atoms.append(_Atom(text, piece, self._line, self._x + air, self._x + air + wide))
            self._x += wide + 2 * air

    def line_of(self, position: int) -> int:
        """The line on which the token at this position stands, or would."""
        return next((atom.line for atom in self._atoms if atom.piece.last >= position), self.lines - 1)

    def draw(
        self,
        sheet: np.ndarray,
        corner: tuple[int, int],
        lines: range,
        said: Callable[[Piece], bool],
        now: Callable[[Piece], bool],
    ) -> None:
        """Draw these lines in place, their upper left at ``corner`` px. ``said``: in ink, else ghostly; ``now``: on a wash."""
        x, y = corner
        unit = max(1, round(self.size / 14))
        for atom in self._atoms:
            if atom.line not in lines:
                continue
            left, right = x + atom.left, x + atom.right
            base = y + (atom.line - lines.start) * self.pitch + round(self.size * 1.15)
            shown, struck = said(atom.piece), atom.piece.how == "rejected"
            if now(atom.piece):
                top = base - self.size
                sheet[top : base + 6 * unit, left:right] = WASH
            ink = WARNING if struck else INK
            write(sheet, atom.text, left, base, self.size, ink if shown else GHOST)
            if shown:
                _mark(sheet, atom.piece.how, left, max(left + 1, right - unit), base, unit, self.size)


def _mark(sheet: np.ndarray, how: str, left: int, right: int, base: int, unit: int, size: int) -> None:
    low = base + round(size * 0.22)
    rows = {"accepted": [low], "rejected": [base - round(size * 0.27)]}.get(how, [low, low + 2 * unit])
    for row in rows:
        cv2.rectangle(sheet, (left, row), (right - 1, row + unit - 1), MARKS[how], cv2.FILLED)
