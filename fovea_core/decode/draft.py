"""What a drafter has to do: one protocol for trained, lookup and scripted drafters."""

from __future__ import annotations

from typing import Protocol

import torch

from fovea_core.decode.looks import wanted as looks_wanted
from fovea_core.decode.tree import Draft
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target
from fovea_core.targets.looking import look_layers
from fovea_core.trace.events import Shape


class DraftRun(Protocol):
    """A drafter at work on one request.

    Optional: ``sketch(shape) -> Sketch | None``, the draft of ``propose`` before the host has read it; None = the root alone.
    """

    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """Take newly committed tokens.

        tokens: (m,) int64; states: (m, d) the target states that *predicted* them (state of the position before each);
        positions: (m,) int64, the target's position ids of the tokens themselves, the image's gap included.
        The first call brings the text of the prompt (image tokens and the very first token left out) and the first tokens of
        the answer. Rounds that do not draft bring nothing, so one call may span several rounds.
        """

    def propose(self, shape: Shape) -> Draft:
        """Draft the tree below the last committed token: at most shape.nodes nodes including it, none deeper than shape.depth.

        Calling it again without extend gives the same draft.
        """


class Drafter(Protocol):
    """A drafter that is loaded and can start runs.

    Optional: ``max_depth`` (int), most levels a cost-chosen shape may ask for (default cost.DEPTH); ``bears_out`` (float or
    None), how often one of its levels is accepted, as far as is known before it drafts; ``sight(settings) ->
    (policy, depth_limit)``, what its memory, or a reader of its own (trace.reads), does under these settings (default 'none',
    -1: it reads nothing of the picture);
    ``watches(settings) -> bool``, whether its run asks where the target looks (default: it does not).
    """

    id: str
    fingerprint: str

    def start(self, run, settings: RunSettings) -> DraftRun:
        """Begin one request behind a targets.base.TargetRun that is prefilled; builds the visual memory where there is one.

        Under load the run may have gone on by then (decode.batch); the first ``extend`` still brings all of its text.
        """


def watched(target: Target, drafter: Drafter | None, settings: RunSettings) -> tuple[int, ...]:
    """Layers of the target that a run has to watch (Target.prefill): none unless somebody asks where it looks."""
    asked = getattr(drafter, "watches", None)
    return look_layers(len(target.backbone.layers)) if looks_wanted(settings) or (asked and asked(settings)) else ()


def sight(drafter: Drafter | None, settings: RunSettings) -> tuple[str, int]:
    """Policy in force and deepest state that reads by it; ('none', -1) for a drafter that reads nothing of the picture."""
    asked = getattr(drafter, "sight", None)
    return asked(settings) if asked else ("none", -1)
