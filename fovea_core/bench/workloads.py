"""What a bench asks: the fixed workload over drawn pictures, a seed a picture."""

from __future__ import annotations

import re
from dataclasses import dataclass

from PIL import Image

from fovea_core.settings import PAPER_SHAPE, SettingsError
from fovea_core.trace.events import Shape
from fovea_core.worksite import make_picture
from fovea_core.worksite.base import Picture, Question
from fovea_core.worksite.scene import make_worker_scene
from fovea_core.worksite.words import KINDS

#: Default seeds of ``bench builtin``, from the validation range; 10,000,000 and above are reserved for the last judgement.
BUILTIN_SEEDS = range(9_500_000, 9_500_060)
#: Trees of the workload; None is chosen each round from the measured cost. Maps and pointing come from the run on MAPS.
TREES: dict[str, Shape | None] = {"chain": Shape(depth=6, width=1, nodes=7), "paper": PAPER_SHAPE, "fast": None}
MAPS = "paper"
TIMED_PICTURES = 6
STRIP_SCENES = 20
#: The strip of a worker scene has to show all of these.
WORKER_CLASSES = ("jumpsuit", "headwear", "tool")
SHORT_QUESTIONS = 2


@dataclass(frozen=True)
class Case:
    """One picture with the questions put to it."""

    seed: int
    picture: Picture
    long: Question
    shorts: tuple[Question, ...]

    @property
    def kind(self) -> str:
        """scene, text or chart."""
        return self.picture.kind

    @property
    def image(self) -> Image.Image:
        """The picture as every target takes it."""
        return Image.fromarray(self.picture.rgb)


def draw_case(seed: int, scale: float | None = None) -> Case:
    """The case of a seed: kind KINDS[seed mod 3], the long question number seed // 3 of the picture's long ones (counted
    round), and two short ones from there on. ``scale``: supersampling of the drawing, None for that of the demos.
    """
    kind = KINDS[seed % len(KINDS)]
    picture = make_picture(kind, seed) if scale is None else make_picture(kind, seed, scale=scale)
    turn = seed // len(KINDS)
    longs = [question for question in picture.questions if question.type == "long"]
    shorts = [question for question in picture.questions if question.type == "short"]
    chosen = tuple(shorts[(turn + i) % len(shorts)] for i in range(min(SHORT_QUESTIONS, len(shorts))))
    return Case(seed, picture, longs[turn % len(longs)], chosen)


def draw_worker_case(seed: int, scale: float | None = None) -> Case:
    """Variant ``seed`` of the worker scene, and the question that has its worker described."""
    picture = make_worker_scene(seed) if scale is None else make_worker_scene(seed, scale)
    return Case(seed, picture, next(question for question in picture.questions if question.type == "worker"), ())


def timed_seeds(seeds: range, most: int | None = None) -> list[int]:
    """The first ``most`` seeds of each kind, TIMED_PICTURES if not given."""
    most = TIMED_PICTURES if most is None else most
    return [seed for kind in range(len(KINDS)) for seed in [s for s in seeds if s % len(KINDS) == kind][:most]]


def strip_seeds(seeds: range) -> set[int]:
    """The first STRIP_SCENES seeds of scenes: the automatic strips of as many worker scenes are scored with them."""
    return set([seed for seed in seeds if KINDS[seed % len(KINDS)] == "scene"][:STRIP_SCENES])


def parse_seeds(text: str) -> range:
    """``"A:B"`` to the half-open range. Raises SettingsError unless 0 <= A < B and there are at most 100,000 seeds."""
    match = re.fullmatch(r"\s*(\d{1,9}):(\d{1,9})\s*", text)
    seeds = range(int(match[1]), int(match[2])) if match else range(0)
    if not 0 < len(seeds) <= 100_000:
        raise SettingsError(
            f"seeds {text[:40]!r} are not possible: write first:end, end not included, such as 9500000:9500060."
        )
    return seeds
