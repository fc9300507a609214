"""The events of one run, in the order a decoder yields them.

A trace is the only language between engine, page, command line, recorder and bench. Events are frozen pydantic models
with plain values (no tensors), told apart by ``kind``; every event has a running number ``n`` counted from 0. This
module imports neither torch nor numpy nor transformers, so that a recorded run can be replayed without any of them.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

SCHEMA_VERSION = 1

#: Limits of a trace file; it may be a stranger's, so nothing is shown before these hold.
MAX_EVENTS = 400_000
MAX_LINE_BYTES = 400_000
MAX_TOKENS = 8_192
MAX_ENTRIES = 65_535

#: What page, terminal and exports say before the answer of a run whose picture lies outside its target's world.
OUTSIDE = "This model only knows drawn Worksite pictures; what it says about this one means nothing."

Count = Annotated[int, Field(ge=0, le=100_000_000)]
NodeId = Annotated[int, Field(ge=0, le=4_096)]
TokenId = Annotated[int, Field(ge=0, le=4_000_000)]
Millis = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Mass = Annotated[float, Field(ge=0, le=1.000001, allow_inf_nan=False)]
LogProb = Annotated[float, Field(le=1e-6, ge=-1e30, allow_inf_nan=False)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Piece = Annotated[str, Field(max_length=2_000)]
Packed = Annotated[str, Field(max_length=MAX_ENTRIES * 4, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Event(_Frozen):
    """Base of all events; ``n`` is the running number within the trace."""

    n: Count


class ModelName(_Frozen):
    """Which model took part: its name and the fingerprint of its files (trace-wide definition in targets.registry)."""

    id: Annotated[str, Field(max_length=500)]
    fingerprint: Annotated[str, Field(max_length=100)] = ""


class Shape(_Frozen):
    """Draft tree shape: ``depth`` drafted levels D, ``width`` children k, ``nodes`` B in one target forward, root included."""

    depth: Annotated[int, Field(ge=1, le=64)]
    width: Annotated[int, Field(ge=1, le=64)]
    nodes: Annotated[int, Field(ge=2, le=512)]


class CostTable(_Frozen):
    """Measured cost on this machine: ``verify_ms[i]`` for a target forward over ``tokens[i]``; ``level_ms`` per drafted level.

    ``chain_level_ms``: per level of a draft of width 1; None = the same as ``level_ms``. ``round_ms``: what drafting costs a
    round beside its levels, the drafter's reading of the tokens committed since.
    """

    tokens: Annotated[list[Count], Field(max_length=64)]
    verify_ms: Annotated[list[Millis], Field(max_length=64)]
    level_ms: Millis
    chain_level_ms: Millis | None = None
    round_ms: Millis = 0.0


class RunStarted(Event):
    """First event. ``shape`` None means chosen each round from ``cost`` (the starting shape is then ``max_shape``)."""

    kind: Literal["run_started"] = "run_started"
    schema_version: Literal[1] = 1
    question: Annotated[str, Field(max_length=20_000)]
    target: ModelName
    drafter: ModelName | None
    policy: Annotated[str, Field(max_length=100)]
    settings: dict[str, str | int | float | bool | None]
    seed: Count
    shape: Shape | None
    max_shape: Shape | None
    depth_limit: Annotated[int, Field(ge=-1, le=64)]
    cost: CostTable | None
    device: Annotated[str, Field(max_length=200)]
    versions: dict[str, Annotated[str, Field(max_length=100)]]
    picture_width_px: Annotated[int, Field(ge=1, le=1_000_000)]
    picture_height_px: Annotated[int, Field(ge=1, le=1_000_000)]
    picture_sha256: Annotated[str, Field(max_length=64)]
    notes: list[Annotated[str, Field(max_length=500)]] = []


class Tile(_Frozen):
    """A grid of entries over a box of the original picture.

    ``box`` = (left, top, right, bottom) in fractions of the picture; it may reach outside 0..1 where the grid covers
    padding. Entry ``first + row * columns + column`` covers cell (row, column). ``valid`` holds run lengths that start
    with a run of *valid* entries (0 where the first entry is padding) and alternate.
    """

    rows: Annotated[int, Field(ge=1, le=4_096)]
    columns: Annotated[int, Field(ge=1, le=4_096)]
    box: tuple[Real, Real, Real, Real]
    view: Literal["tile", "global"]
    first: Count
    valid: Annotated[list[Count], Field(max_length=MAX_ENTRIES)]


class PrefillDone(Event):
    """The target has read the prompt; its first token is committed.

    ``outside``: the picture lies outside what the target was trained on (OUTSIDE says what that means); None = not checked.
    """

    kind: Literal["prefill_done"] = "prefill_done"
    prompt_tokens: Count
    image_spans: list[tuple[Count, Count]]
    tiles: list[Tile]
    token: TokenId
    text: Piece
    bytes: Annotated[str, Field(max_length=4_000)] | None = None
    prefill_ms: Millis
    remember_ms: Millis
    outside: bool | None = None


class MemoryRead(Event):
    """What the state of ``node`` retrieved before scoring its children (node 0 = root, which reads and is never drafted).

    ``source`` target: where the target looked on the picture as it said what follows ``node``, its attention's mean over some
    layers; no part of the drafting. It stands behind the round's nodes and has no gate.

    ``entries``: base64 of little-endian uint16 indices in falling order of mass; ``masses``: base64 of one byte each,
    255 x mass / top_mass rounded. Mass is measured on the softmax over all valid entries (FOVEA eq 5);
    ``captured`` = mass of the chosen ones; ``k_raw`` = entries needed before clipping to the bounds (eq 6).

    In a run whose policy is that of a drafter's own reader (trace.reads) masses are shares of what that reader read, the mean
    over its heads; it corrects nothing, and has a gate or none.
    """

    kind: Literal["memory_read"] = "memory_read"
    round: Count
    node: NodeId
    depth: Annotated[int, Field(ge=0, le=64)]
    source: Literal["drafter", "target"] = "drafter"
    serves: Literal["node", "round", "run"] = "node"
    entries: Packed
    masses: Packed
    top_mass: Mass
    captured: Mass
    k_raw: Count
    gate: Mass | None = None
    correction_norm: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    peak: Annotated[float, Field(ge=-1e-6, le=1.000001, allow_inf_nan=False)]
    ms: Millis


class NodeDrafted(Event):
    """A node that was sent to the target. ``bytes`` (hex) where the token completes no character of its own."""

    kind: Literal["node_drafted"] = "node_drafted"
    round: Count
    node: Annotated[int, Field(ge=1, le=4_096)]
    parent: NodeId
    depth: Annotated[int, Field(ge=1, le=64)]
    token: TokenId
    text: Piece
    bytes: Annotated[str, Field(max_length=4_000)] | None = None
    logp: LogProb | None = None


class Rejected(_Frozen):
    """A judged node that differs from the target's token there: log-probabilities of both, rank (0 = best) of the drafted."""

    node: Annotated[int, Field(ge=1, le=4_096)]
    target_token: TokenId
    target_text: Piece
    target_logp: LogProb
    logp: LogProb
    rank: Count


class RoundVerified(Event):
    """One round's verdict. ``accepted`` is the path in order; ``emitted`` = accepted tokens + bonus if any."""

    kind: Literal["round_verified"] = "round_verified"
    round: Count
    accepted: list[NodeId]
    rejected: list[Rejected]
    unverified: list[NodeId]
    bonus: TokenId | None
    bonus_text: Piece | None = None
    bonus_bytes: Annotated[str, Field(max_length=4_000)] | None = None
    emitted: list[TokenId]
    pruned: Count
    draft_ms: Millis
    select_ms: Millis
    verify_ms: Millis


class Finished(Event):
    """Last event of the run itself, once, on success. ``tau`` counts the bonus: emitted tokens of rounds / rounds."""

    kind: Literal["finished"] = "finished"
    reason: Literal["eos", "length", "stopped"]
    ids: Annotated[list[TokenId], Field(max_length=MAX_TOKENS)]
    text: Annotated[str, Field(max_length=200_000)]
    rounds: Count
    drafted: Count
    accepted: Count
    tau: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    total_ms: Millis
    prefill_ms: Millis
    draft_ms: Millis
    select_ms: Millis
    verify_ms: Millis


class Compared(Event):
    """Plain decoding of the same request on the same machine; at most once, only after ``Finished``."""

    kind: Literal["compared"] = "compared"
    plain_ms: Annotated[list[Millis], Field(max_length=100)]
    plain_median_ms: Millis
    speculative_ms: Millis
    speedup: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    same_ids: bool
    first_difference: Count | None = None
    gap: Real | None = None


AnyEvent = Annotated[
    Union[RunStarted, PrefillDone, MemoryRead, NodeDrafted, RoundVerified, Finished, Compared],
    Field(discriminator="kind"),
]
ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
