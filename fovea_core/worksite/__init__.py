"""The drawn world: pictures with true masks, questions and answers, the same for the same seed."""

from __future__ import annotations

from fovea_core.worksite.base import Answer, Fact, Picture, Question, Thing
from fovea_core.worksite.words import KINDS

__all__ = ["KINDS", "Answer", "Fact", "Picture", "Question", "Thing", "make_picture"]


def make_picture(kind: str, seed: int, scale: float = 2.0, spec: dict | None = None) -> Picture:
    """Draw a picture of ``kind`` scene, text or chart; ``spec`` is its content as plain JSON, random where None.

    Raises ValueError with one sentence for an unknown kind.
    """
    if kind == "scene":
        from fovea_core.worksite.scene import make_scene as make
    elif kind == "text":
        from fovea_core.worksite.text import make_text as make
    elif kind == "chart":
        from fovea_core.worksite.chart import make_chart as make
    else:
        raise ValueError(f"kind {kind!r} is not possible: choose {', '.join(KINDS)}.")
    return make(seed, scale, spec)
