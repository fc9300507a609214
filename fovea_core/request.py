"""What a person asks for, checked before any model work; page, command line and recorder share it."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from fovea_core.settings import MAX_QUESTION_CHARS, RunSettings, SettingsError


@dataclass(frozen=True)
class Request:
    """An RGB picture, a question, settings, and a drafter's name: builtin, blind, none, lookup, trie, a folder or a hub id."""

    image: Image.Image
    question: str
    settings: RunSettings
    drafter: str = "builtin"


def checked_question(question: str | None) -> str:
    """The question, if there is one to ask. Raises SettingsError."""
    question = question or ""
    if not any(character.isprintable() and not character.isspace() for character in question):
        raise SettingsError("Please ask a question about the picture.")
    if len(question) > MAX_QUESTION_CHARS:
        raise SettingsError(f"This question has {len(question):,} characters; {MAX_QUESTION_CHARS:,} are the most.")
    return question
