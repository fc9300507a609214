"""Settings of a run: frozen, typed, strict. An unknown key or a value out of range is an error before any model work."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fovea_core.trace.events import Shape

#: The paper's tree (FOVEA section 4): six levels, six children, forty nodes in one target forward (root included).
PAPER_SHAPE = Shape(depth=6, width=6, nodes=40)
MAX_NEW_TOKENS = 2_048
MAX_QUESTION_CHARS = 2_000


#: What the memory may do in a run (memory.select, memory.controls, memory.rivals) in a few words; K is the number of entries.
POLICY_KINDS = {
    "fovea": "the entries that a state needs for most of its mass",
    "topk-K": "its K best",
    "dense": "all entries",
    "none": "no memory",
    "random-K": "control: K at random",
    "static-K": "control: the first state's K for the whole answer",
    "agnostic-K": "control: K for no state at all",
    "state-K": "control: K without the depth row",
    "tiger-K": "stand-in for TIGER: K once a round",
    "unilaspec-K": "stand-in for Uni-LaSpec: K where the target looked",
    "hawk": "stand-in for HAWK: cells chosen once a picture",
    "foveated": "stand-in for Foveated Reasoner: one box until it no longer serves",
}
POLICY = re.compile(r"fovea|dense|none|hawk|foveated|(?:topk|random|static|agnostic|state|tiger|unilaspec)-[1-9]\d{0,3}")
POLICIES = ", ".join(POLICY_KINDS)


class SettingsError(ValueError):
    """One sentence for a person: which setting is wrong and what is allowed."""


class RunSettings(BaseModel):
    """Everything that decides a run besides picture, question and models.

    ``tree``: None lets the measured cost table choose each round.
    ``policy``: what the memory does, one of POLICIES.
    ``depth_limit``: deepest state that reads the memory; None takes the drafter checkpoint's own.
    ``detail``: ``nodes`` records reads and nodes, ``rounds`` only the rounds (used for timing).
    ``looks``: record where the target looked, too; needs ``nodes``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_NEW_TOKENS, strict=True)] = 256
    temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] = 0
    tree: Shape | None = None
    policy: Annotated[str, Field(max_length=40)] = "fovea"
    depth_limit: Annotated[int, Field(ge=-1, le=64, strict=True)] | None = None
    detail: Literal["nodes", "rounds"] = "nodes"
    looks: bool = False

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if not POLICY.fullmatch(value):
            raise ValueError(f"must be {POLICIES} (for example topk-16)")
        return value


def make_settings(**values) -> RunSettings:
    """Validate ``values``. Raises SettingsError with one sentence that names the first wrong setting."""
    try:
        return RunSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        given = repr(first.get("input"))[:60]
        raise SettingsError(f"{name} {given} is not possible: {first['msg'].removeprefix('Value error, ')}.") from None


def parse_tree(text: str | None) -> Shape | None:
    """``"D,k,B"`` to a Shape, ``"auto"`` or None to None. Raises SettingsError."""
    if text is None or text.strip() == "auto":
        return None
    parts = text.split(",")
    if len(parts) != 3 or not all(re.fullmatch(r"\s*\d{1,4}\s*", part) for part in parts):
        raise SettingsError(f"tree {text[:40]!r} is not possible: write levels,children,nodes such as 6,6,40, or auto.")
    depth, width, nodes = (int(part) for part in parts)
    try:
        return Shape(depth=depth, width=width, nodes=nodes)
    except ValidationError:
        raise SettingsError(
            f"tree {text[:40]!r} is not possible: levels and children 1 to 64, nodes 2 to 512 (the root counts)."
        ) from None
