"""A drawn picture as files: picture.png, qa.json and one mask a thing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from fovea_core.worksite.base import Picture, Question


def write_world(kind: str, seed: int, out_dir: str | Path) -> Picture:
    """Draw the picture and write ``picture.png``, ``qa.json`` and ``masks/<thing>.png`` (white where visible) into ``out_dir``.

    Returns the picture. Raises ValueError for an unknown kind and OSError when ``out_dir`` cannot be written.
    """
    from fovea_core.worksite import make_picture

    picture = make_picture(kind, seed)
    out_dir = Path(out_dir)
    (out_dir / "masks").mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture.rgb).save(out_dir / "picture.png")
    for thing in picture.things:
        mask = picture.mask(thing.name).astype(np.uint8) * 255
        Image.fromarray(mask).save(out_dir / "masks" / mask_file(thing.name))
    questions = [question_json(question) for question in picture.questions]
    (out_dir / "qa.json").write_text(json.dumps(questions, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return picture


def mask_file(name: str) -> str:
    """File name of a thing's mask."""
    return f"{name}.png"


def question_json(question: Question) -> dict:
    """A question as qa.json has it; ``mask`` is the file below the out folder."""
    return {
        "question": question.question,
        "answer": question.answer,
        "type": question.type,
        "facts": [
            {
                "text": fact.text,
                "start": fact.start,
                "end": fact.end,
                "class": fact.cls,
                "mask": f"masks/{mask_file(fact.mask)}",
            }
            for fact in question.facts
        ],
    }
