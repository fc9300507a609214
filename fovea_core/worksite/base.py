"""What a drawn picture is: pixels, the things on it with their true masks, and questions with facts.

A drawn thing lives in one of two id layers, so that a plate may lie on an object and both keep a mask:
``layers[0]`` holds bodies (jumpsuit, headwear, tool, object, bar, sign board), ``layers[1]`` holds marks (words and single
characters). A value v > 0 at a pixel means ``things[v - 1]`` is what one sees there; 0 is nothing. Later drawing covers
earlier drawing, so masks are of the *visible* part. The mask of a character is its glyph box, that of a word the box
around its letters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Thing:
    """One drawn thing. ``name`` is unique in its picture (also its mask's file name), ``noun`` what it is.

    cls: one of words.FACT_CLASSES; noun: 'jumpsuit', 'hose', 'barrel', 'bar', a sign word, or one code character;
    colour: a key of words.COLOURS or None; layer: 0 body, 1 mark.
    """

    name: str
    cls: str
    noun: str
    colour: str | None = None
    layer: int = 0


@dataclass(frozen=True)
class Fact:
    """A visual fact of an answer: ``answer[start:end] == text``; ``mask`` names the thing that shows it."""

    text: str
    start: int
    end: int
    cls: str
    mask: str


@dataclass(frozen=True)
class Question:
    """A question with its one right answer. ``type`` long (at least 40 answer tokens), short, or worker (one worker of a
    scene described)."""

    question: str
    answer: str
    type: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A drawn picture.

    rgb: (height, width, 3) uint8; layers: (2, height, width) uint8 of thing numbers (see module docstring).
    """

    kind: str
    seed: int
    rgb: np.ndarray
    layers: np.ndarray
    things: tuple[Thing, ...]
    questions: tuple[Question, ...]
    spec: dict = field(default_factory=dict)

    def mask(self, name: str) -> np.ndarray:
        """(height, width) bool: where the named thing is visible. Raises KeyError for an unknown name."""
        for number, thing in enumerate(self.things, start=1):
            if thing.name == name:
                return self.layers[thing.layer] == number
        raise KeyError(name)


class Answer:
    """Builds an answer and keeps the character offsets of its facts: ``Answer().fact('orange', 'jumpsuit', 'w1').say(' ')``."""

    def __init__(self) -> None:
        self.text = ""
        self.facts: list[Fact] = []

    def say(self, text: str) -> Answer:
        """Append words that state no visual fact."""
        self.text += text
        return self

    def fact(self, text: str, cls: str, mask: str) -> Answer:
        """Append ``text`` as a fact of class ``cls`` shown by the thing ``mask``."""
        self.facts.append(Fact(text, len(self.text), len(self.text) + len(text), cls, mask))
        self.text += text
        return self

    def code(self, characters: str, masks: list[str]) -> Answer:
        """Append a code: one fact per character, class letter or digit, each with its own mask."""
        for character, mask in zip(characters, masks, strict=True):
            self.fact(character, "digit" if character.isdigit() else "letter", mask)
        return self

    def ask(self, question: str, type: str = "long") -> Question:
        """Close the answer under a question."""
        return Question(question, self.text, type, tuple(self.facts))
