"""Requests as a target reads them: a question about a picture file, or about a drawn picture whose pixels are ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fovea_core.pictures import open_picture
from fovea_core.targets.base import Prompt, TargetError


@dataclass(frozen=True)
class ArtifactRequest:
    """One question about a drawn picture, for a LlavaTarget.

    pixels: (size, size, 3) uint8, letterboxed as the target wants it; valid: (N,) bool; prompt_ids: the whole prompt, image
    placeholders included (targets: Target.prompt). Questions of one picture should follow each other: it is then read once.
    answer: tokens that are read instead of the target's own greedy answer, several times cheaper; what the target would say
    behind each of them is in its states all the same.
    """

    pixels: np.ndarray
    valid: np.ndarray
    prompt_ids: list[int]
    answer: list[int] | None = None

    def about(self, other: ArtifactRequest) -> bool:
        """Whether both ask about the same picture."""
        return self.pixels is other.pixels or np.array_equal(self.pixels, other.pixels)


@dataclass(frozen=True)
class PictureRequest:
    """One question about a picture file, for any target; the target says its own answer. See ArtifactRequest for the order."""

    image: Path
    question: str
    answer: list[int] | None = None

    def about(self, other: PictureRequest) -> bool:
        """Whether both ask about the same picture."""
        return self.image == other.image


AnyRequest = ArtifactRequest | PictureRequest


@dataclass(frozen=True)
class Asked:
    """A request that was read. number: of the request; picture: of its picture, from 0 among those read together; all prompts
    of a picture share their features."""

    number: int
    picture: int
    prompt: Prompt
    answer: list[int] | None = None


@torch.inference_mode()
def read_requests(
    target, requests: Sequence[AnyRequest], most: int | None = None, first: int = 0
) -> tuple[list[Asked], list[str]]:
    """What ``target`` (targets.base.Target) makes of requests, numbered from ``first`` on; each picture is encoded once.

    Requests that cannot be asked, or that leave no room for ``most`` answer tokens, are left out, each with
    a sentence that says why.
    """
    asked, troubles, pictures = [], [], 0
    for group, prompts in _read_groups(target, requests, first, troubles):
        kept = []
        for (number, request), prompt in zip(group, prompts):
            if most is not None and len(prompt.ids) + most > target.context:
                troubles.append(f"request {number}: {len(prompt.ids)} tokens leave no room for an answer of {most}.")
            else:
                kept.append(Asked(number, pictures, prompt, request.answer))
        asked += kept
        pictures += bool(kept)
    return asked, troubles


Group = list[tuple[int, AnyRequest]]


def _read_groups(target, requests: Sequence[AnyRequest], first: int, troubles: list[str]) -> list[tuple[Group, list[Prompt]]]:
    """Requests by picture with their prompts; a picture that cannot be read is left out and told in ``troubles``."""
    groups: list[Group] = []
    for number, request in enumerate(requests, first):
        if groups and groups[-1][0][1].about(request):
            groups[-1].append((number, request))
        else:
            groups.append([(number, request)])
    if groups and isinstance(groups[0][0][1], ArtifactRequest):
        return list(zip(groups, _drawn(target, groups)))
    read = []
    for group in groups:
        number, request = group[0]
        try:
            image = open_picture(request.image).rgb
            read.append((group, target.prompts(image, [one.question for _, one in group])))
        except (ValueError, OSError) as error:  # of the picture or of the prompt: both are sentences
            troubles.append(f"request {number} ({request.image.name}): {' '.join(str(error).split())[:200]}")
    return read


def _drawn(target, groups: list[Group]) -> list[list[Prompt]]:
    """Prompts of drawn pictures; all pass the tower together."""
    settings, pixels = target.image, np.stack([group[0][1].pixels for group in groups])
    scaled = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    scaled = ((scaled - settings.mean) / settings.std).to(target.device, target.embedding.dtype)
    features = target.model.model.get_image_features(pixel_values=scaled).pooler_output
    return [
        [_drawn_prompt(target.image_token_id, rows, request) for _, request in group] for rows, group in zip(features, groups)
    ]


def _drawn_prompt(image_token_id: int, features: Tensor, request: ArtifactRequest) -> Prompt:
    ids = request.prompt_ids
    if image_token_id not in ids:
        raise TargetError("a prompt has no image placeholders.")
    first = ids.index(image_token_id)
    valid = torch.from_numpy(np.asarray(request.valid, bool).reshape(-1)).to(features.device)
    return Prompt(ids, [(first, first + ids.count(image_token_id))], features, [], valid)
