"""Words on a drawing, in the faces that come with OpenCV: the same on every machine, Latin, Greek, Cyrillic, Hebrew, Chinese,
Japanese and Korean among them. What cannot be seen becomes a sign, what has no glyph a box."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import cv2
import numpy as np

Colour = tuple[int, int, int]

INK: Colour = (28, 27, 25)
SOFT: Colour = (102, 99, 93)
GHOST: Colour = (195, 192, 185)
WARNING: Colour = (168, 74, 0)
_REGULAR, _BOLD = 400, 620
_MISSING = "□"
# Controls, zero-width and direction marks: invisible, so they are shown as a sign (assets/player/dom.js has the same list).
_HIDDEN = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00a0\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
# A face keeps a state of its own, and OpenCV lets other threads run while it draws.
_LOCK = threading.Lock()


def label(text: str, most: int = 40) -> str:
    """A word in one line: trimmed, signs instead of what cannot be seen, at most ``most`` characters."""
    trimmed = text.strip()
    signs = [_sign(c) if _HIDDEN.match(c) or not trimmed else c for c in (trimmed or text)[: most + 1]]
    return "".join(signs[: most - 1]) + "…" if len(signs) > most else "".join(signs)


def _sign(character: str) -> str:
    return "_" if character in " \u00a0" else f"U+{ord(character):04X}"


def write(rgb: np.ndarray, text: str, left: float, base: float, size: int, colour: Colour = INK, *, bold: bool = False) -> None:
    """Draw one line of text in place; its base line at ``base``, ``size`` px high. What lies outside is cut off."""
    _put(rgb, _drawable(text), (round(left), round(base)), colour, size, bold)


def width_px(text: str, size: int, *, bold: bool = False) -> int:
    """How far ``write`` moves on."""
    return _put(np.zeros((1, 1, 3), np.uint8), _drawable(text), (0, 0), INK, size, bold)


def fitted(text: str, size: int, width: float, *, bold: bool = False, least: float = 0.8) -> tuple[str, int]:
    """The text and a size at which it is at most ``width`` px wide: first smaller, to ``least`` of the size, then cut off."""
    for smaller in range(size, max(1, round(size * least)) - 1, -1):
        if width_px(text, smaller, bold=bold) <= width:
            return text, smaller
    while len(text) > 1 and width_px(text.rstrip("…") + "…", smaller, bold=bold) > width:
        text = text.rstrip("…")[:-1]
    return text.rstrip("…") + "…", smaller


def wrapped(text: str, size: int, width: float) -> list[str]:
    """The text in lines of at most ``width`` px, broken between words; a longer word has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and width_px(f"{lines[-1]} {word}", size, bold=True) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _put(rgb: np.ndarray, text: str, origin: tuple[int, int], colour: Colour, size: int, bold: bool) -> int:
    with _LOCK:
        (right, _), _ = cv2.putText(rgb, text, origin, colour, _face(), size, _BOLD if bold else _REGULAR)
    return right - origin[0]


@lru_cache(maxsize=1)
def _face() -> cv2.FontFace:
    return cv2.FontFace("sans")


@lru_cache(maxsize=4096)
def _drawable(text: str) -> str:
    """One line that the face can draw: no half of a surrogate pair (OpenCV ends the process at one), no line break, boxes for
    what has no glyph, and words that run from right to left turned round, for the face writes from left to right."""
    whole = text.encode("utf-16", "replace").decode("utf-16", "replace")
    shown = "".join(c if c == " " or _has_glyph(c) else _MISSING for c in _HIDDEN.sub(" ", whole))
    return re.sub("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+", lambda run: _turned(run[0]), shown)


def _turned(run: str) -> str:
    """Characters in opposite order, marks kept behind what they stand on."""
    clusters: list[str] = []
    for character in run:
        if clusters and unicodedata.combining(character):
            clusters[-1] += character
        else:
            clusters.append(character)
    return "".join(reversed(clusters))


@lru_cache(maxsize=4096)
def _has_glyph(character: str) -> bool:
    """False where the face would draw a question mark that is not meant."""
    if character == "?":
        return True
    return not np.array_equal(_stamp(character), _stamp("?"))


def _stamp(character: str) -> np.ndarray:
    image = np.zeros((40, 40, 3), np.uint8)
    _put(image, character, (4, 30), (255, 255, 255), 24, False)
    return image
