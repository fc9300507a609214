"""Whether a picture lies outside the world a target was trained on, judged by its image tokens alone.

A picture is summed up by mean and standard deviation of every feature over its valid image tokens. Far from all reference
pictures of the target's own world in that space means outside (nearest-neighbour detection, Sun et al. 2022,
arXiv 2204.06507; the sums stand in for the paper's penultimate layer). References and threshold come from
``calibrate-outside``; they belong to one fingerprint, and a target without a check of its own says nothing.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

#: Share of calibration pictures below the threshold before ``HEADROOM``, which stands for what a few hundred do not show.
QUANTILE = 0.99
HEADROOM = 1.1
#: A feature's scale is at least this share of the median one: a feature that never moves must not decide alone.
LEAST_SCALE = 0.05
_EXACT = "donot_use_mm_for_euclid_dist"  # the faster way loses digits where pictures are alike
_TENSORS = ("mean", "scale", "references")
MAX_FILE_BYTES = 64_000_000


def picture_summary(features: Tensor, valid: Tensor) -> Tensor:
    """(N, d) image tokens, of which ``valid`` (N,) bool lie on the picture, to (2d,) float32 on the CPU: means, deviations."""
    seen = features[valid].float()  # (cells, d)
    return torch.cat([seen.mean(0), seen.std(0, correction=0)]).cpu()


@dataclass(frozen=True)
class OutsideCheck:
    """The reference pictures of one target's world, and how far from them is outside.

    fingerprint: of the target; mean, scale (2d,) float32: of the references before they were standardised; references
    (R, 2d) float16; threshold: largest distance that is inside; measured: what calibration found, plain numbers.
    """

    fingerprint: str
    mean: Tensor
    scale: Tensor
    references: Tensor
    threshold: float
    measured: dict = field(default_factory=dict)

    @torch.inference_mode()
    def distances(self, summaries: Tensor) -> Tensor:
        """(n, 2d) summaries to (n,) Euclidean distances to the nearest reference, all standardised."""
        places = (summaries - self.mean) / self.scale
        return torch.cdist(places, self.references.float(), compute_mode=_EXACT).amin(1)

    def outside(self, features: Tensor, valid: Tensor) -> bool:
        """True where the picture is none of the target's world; features that are no numbers are none either.

        Arguments as ``picture_summary`` takes them.
        """
        return not float(self.distances(picture_summary(features, valid)[None])[0]) <= self.threshold

    def save(self, path: str | Path) -> None:
        """Write the check as one safetensors file."""
        about = {"fingerprint": self.fingerprint, "threshold": repr(self.threshold), "measured": json.dumps(self.measured)}
        save_file({name: getattr(self, name).contiguous() for name in _TENSORS}, str(path), metadata=about)


def fit_check(references: Tensor, calibration: Tensor, fingerprint: str) -> OutsideCheck:
    """A check from summaries of pictures of the target's world: references (R, 2d), calibration (C, 2d), not the same pictures.

    The threshold is HEADROOM times the QUANTILE of the calibration pictures' distances.
    """
    mean, scale = references.mean(0), references.std(0, correction=0)
    scale = scale.clamp_min(LEAST_SCALE * float(scale.median())).clamp_min(torch.finfo(torch.float32).tiny)
    check = OutsideCheck(fingerprint, mean, scale, ((references - mean) / scale).half(), math.inf)
    return replace(check, threshold=HEADROOM * float(check.distances(calibration).quantile(QUANTILE)))


def check_path(folder: str | Path) -> Path:
    """Where the check of the target in ``folder`` lies: beside the folder, whose every tensor counts to its fingerprint."""
    folder = Path(folder).resolve()
    return folder.with_name(f"{folder.name}.outside.safetensors")


def load_check(folder: str | Path, fingerprint: str, hidden_size: int) -> OutsideCheck | None:
    """The check of the target in ``folder``; None where there is none, where it was made for other weights (another
    ``fingerprint``), or where it is damaged, which is a warning: an answer is worth more than its check."""
    path = check_path(folder)
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError("it is too large")
        with safe_open(str(path), "pt") as file:
            about = file.metadata() or {}
            if about["fingerprint"] != fingerprint:
                return None
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
        check = OutsideCheck(
            fingerprint, **tensors, threshold=float(about["threshold"]), measured=json.loads(about["measured"])
        )
        _require_sound(check, 2 * hidden_size)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        warnings.warn(f"{path.name} is damaged and not used ({str(error)[:100]}): run calibrate-outside.", stacklevel=2)
        return None
    return check


def _require_sound(check: OutsideCheck, width: int) -> None:
    """Raise ValueError unless all numbers of a check read from a file are possible."""
    if check.mean.shape != (width,) or check.scale.shape != (width,) or check.references.shape[1:] != (width,):
        raise ValueError(f"its tensors are not {width} wide")
    if len(check.references) == 0 or not (math.isfinite(check.threshold) and check.threshold > 0):
        raise ValueError("it has no threshold or no references")
    if not all(bool(tensor.isfinite().all()) for tensor in (check.mean, check.scale, check.references)):
        raise ValueError("not all its numbers are finite")
    if not bool((check.scale > 0).all()):
        raise ValueError("a scale is not positive")
    if not isinstance(check.measured, dict):
        raise ValueError("what was measured is no table")
