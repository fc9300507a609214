"""What a question names of its picture: a question with such a name has to be looked up there, others ask for a place."""

from __future__ import annotations

import re

from fovea_core.worksite.words import COLOURS, OBJECTS, SIGN_WORDS

_NAMES = {
    "COLOUR": "|".join(COLOURS),
    "OBJECT": "|".join(OBJECTS),
    "WORD": "|".join(word for word in SIGN_WORDS if word not in OBJECTS),
    "CODE": "[A-Z0-9]{2,}",  # a row or a column is counted with one digit
}
_NAME = re.compile("|".join(rf"(?P<{kind}>\b(?:{words})\b)" for kind, words in _NAMES.items()))


def template(question: str) -> str:
    """The question with every name in it replaced by what it is, and numbers by N: 'What is the value of the COLOUR bar?'."""
    return re.sub(r"\b\d\b", "N", _NAME.sub(lambda found: found.lastgroup, question))


def looks_up(question: str) -> bool:
    """Whether the question names a thing of the picture by what is seen of it, so that it has to be found first."""
    return _NAME.search(question) is not None
