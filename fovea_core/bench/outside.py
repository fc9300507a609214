"""``calibrate-outside``: make the outside check of a target (targets.outside) and measure it.

Three sets of Worksite pictures, all kinds in turn: references, pictures that set the threshold, and fresh ones that count
false alarms. Drawn at half the supersampling of the demos: what a target sees of them is the same (a test holds it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fovea_core.bench.strangers import FAMILIES, photographs
from fovea_core.settings import SettingsError
from fovea_core.targets.base import Target
from fovea_core.targets.outside import OutsideCheck, fit_check, picture_summary
from fovea_core.worksite import KINDS, make_picture

#: Validation seeds that calibration may use, those of ``bench builtin`` left out.
SEEDS = range(9_000_000, 9_500_000)
REFERENCES, THRESHOLD, FRESH = 240, 210, 150
STRANGERS = 20  # of every drawn family
SCALE = 0.5  # supersampling of the drawing
#: ``show`` takes what is being done, one line a part.
Show = Callable[[str], None]


def calibrate(
    target: Target,
    show: Show = lambda text: None,
    *,
    counts: tuple[int, int, int] = (REFERENCES, THRESHOLD, FRESH),
    strangers: int = STRANGERS,
    photos: Path | None = None,
) -> OutsideCheck:
    """A check for ``target`` with what it was measured at: ``false_alarms`` {share, pictures}, ``detected`` {family: the same}.

    counts: Worksite pictures as references, for the threshold and as fresh ones; strangers: pictures of every drawn family;
    photos: a folder of further photographs. Raises SettingsError for a target without a fingerprint or impossible counts.
    """
    if not target.fingerprint:
        raise SettingsError("A target without a fingerprint gets no outside check: save it as a folder first.")
    if min(counts) < len(KINDS) or sum(counts) > len(SEEDS) or strangers < 1:
        raise SettingsError(f"{counts} and {strangers} pictures are not possible: at least one of every kind in each set.")
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        parts, first = [], SEEDS.start
        for count, what in zip(counts, ("as references", "for the threshold", "for false alarms")):
            show(f"{count} Worksite pictures {what}")
            parts.append(_summaries(target, (_worksite(seed) for seed in range(first, first + count))))
            first += count
        check = fit_check(parts[0], parts[1], target.fingerprint)
        measured = {"false_alarms": _rate(check, parts[2]), "detected": {}}
        for family in FAMILIES:
            rng = np.random.default_rng(len(measured["detected"]))
            drawn = _summaries(target, (family(rng) for _ in range(strangers)))
            measured["detected"][family.__name__] = _rate(check, drawn)
            show(f"{family.__name__}: {_percent(measured['detected'][family.__name__])}")
        if shipped := photographs(photos):
            measured["detected"]["photograph"] = _rate(check, _summaries(target, shipped))
            show(f"photographs: {_percent(measured['detected']['photograph'])}")
        show(f"false alarms: {_percent(measured['false_alarms'])}")
    finally:
        cv2.setNumThreads(threads)
    return replace(check, measured=measured)


def _worksite(seed: int) -> np.ndarray:
    return make_picture(KINDS[seed % len(KINDS)], seed, scale=SCALE).rgb


@torch.inference_mode()
def _summaries(target: Target, pictures: Iterable[np.ndarray]) -> Tensor:
    """(n, 2d) summaries of (h, w, 3) uint8 pictures; the language model is not run."""
    prompts = (target.prompt(Image.fromarray(rgb), "") for rgb in pictures)
    return torch.stack([picture_summary(prompt.features, prompt.valid) for prompt in prompts])


def _rate(check: OutsideCheck, summaries: Tensor) -> dict[str, float | int]:
    """Share of pictures that the check calls outside, how many there were, and their distances over the threshold."""
    ratios = check.distances(summaries) / check.threshold
    return {
        "share": float((ratios > 1).double().mean()),
        "pictures": len(ratios),
        "least": float(ratios.min()),
        "median": float(ratios.median()),
        "most": float(ratios.max()),
    }


def _percent(rate: dict) -> str:
    share, between = f"{100 * rate['share']:.1f} % of {rate['pictures']} outside", f"{rate['least']:.2f} to {rate['most']:.2f}"
    return f"{share}, distance / threshold {between}"
