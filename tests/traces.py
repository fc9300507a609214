"""Traces that keep the laws, made up by hypothesis; no model takes part."""

from __future__ import annotations

import base64
import io
import string

from hypothesis import strategies as st
from PIL import Image

from fovea_core.trace import events as ev
from fovea_core.trace.codec import Header, pack_entries, pack_masses

MS = st.floats(0, 1e6)
PIECES = st.one_of(st.text(max_size=6), st.sampled_from([" red", "\n", "<img src=x onerror=alert(1)>", "${1+1}", "\u2028"]))


def header(size: tuple[int, int] = (32, 24), form: str = "png") -> Header:
    """A header with a small real picture."""
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 120, 30)).save(buffer, form)
    return Header(f"data:image/{form};base64,{base64.b64encode(buffer.getvalue()).decode()}")


def started(**changes) -> ev.RunStarted:
    """A first event; ``changes`` replaces fields."""
    values = {
        "n": 0,
        "question": "What does the worker hold?",
        "target": ev.ModelName(id="toy", fingerprint="00"),
        "drafter": ev.ModelName(id="scripted"),
        "policy": "fovea",
        "settings": {"detail": "nodes", "temperature": 0.0},
        "seed": 0,
        "shape": ev.Shape(depth=3, width=3, nodes=10),
        "max_shape": None,
        "depth_limit": 2,
        "cost": None,
        "device": "cpu",
        "versions": {"python": "3.11"},
        "picture_width_px": 32,
        "picture_height_px": 24,
        "picture_sha256": "ab" * 32,
    }
    return ev.RunStarted(**{**values, **changes})


def prefill(n: int = 1, **changes) -> ev.PrefillDone:
    """A second event over a 4 x 4 grid whose last row is padding."""
    tile = ev.Tile(rows=4, columns=4, box=(0, 0, 1, 4 / 3), view="tile", first=0, valid=[12, 4])
    values = {"n": n, "prompt_tokens": 30, "image_spans": [(3, 19)], "tiles": [tile], "token": 5, "text": "The"}
    return ev.PrefillDone(**{**values, "prefill_ms": 12.5, "remember_ms": 0.5, **changes})


@st.composite
def reads(draw, round: int, node: int, depth: int) -> ev.MemoryRead:
    """A read of up to 12 valid entries by one state; its number is set later."""
    entries = draw(st.lists(st.integers(0, 11), min_size=1, max_size=12, unique=True))
    parts = sorted(draw(st.lists(st.floats(0.01, 1), min_size=len(entries), max_size=len(entries))), reverse=True)
    captured = draw(st.floats(0.1, 1))
    masses = [captured * part / sum(parts) for part in parts]
    return ev.MemoryRead(
        n=0,
        round=round,
        node=node,
        depth=depth,
        entries=pack_entries(entries),
        masses=pack_masses(masses),
        top_mass=masses[0],
        captured=captured,
        k_raw=len(entries),
        gate=draw(st.none() | st.floats(0, 1)),
        correction_norm=draw(st.none() | MS),
        peak=draw(st.floats(0, 1)),
        ms=draw(MS),
    )


@st.composite
def rounds(draw, number: int) -> list[ev.AnyEvent]:
    """One round: a random tree with some reads, and a verdict that keeps the laws."""
    size = draw(st.integers(0, 7))
    parents = [draw(st.integers(0, node)) for node in range(size)]
    depths = [0]
    found: list[ev.AnyEvent] = []
    for node, parent in enumerate(parents, start=1):
        depths.append(depths[parent] + 1)
        half = draw(st.booleans())
        found.append(
            ev.NodeDrafted(
                n=0,
                round=number,
                node=node,
                parent=parent,
                depth=depths[node],
                token=draw(st.integers(0, 4000)),
                text="" if half else draw(PIECES),
                bytes=draw(st.binary(min_size=1, max_size=3)).hex() if half else None,
                logp=draw(st.none() | st.floats(-50, 0)),
            )
        )
    for node in draw(st.lists(st.integers(0, size), unique=True, max_size=4)):
        found.append(draw(reads(number, node, depths[node])))
    path: list[int] = []
    while children := [node for node, parent in enumerate(parents, 1) if parent == (path[-1] if path else 0)]:
        if not draw(st.booleans()):
            break
        path.append(draw(st.sampled_from(children)))
    bonus = draw(st.integers(0, 4000)) if not path or draw(st.booleans()) else None
    on_path = {0, *path} if bonus is not None else {0, *path[:-1]}
    others = [node for node in range(1, size + 1) if node not in path]
    judged = [node for node in others if parents[node - 1] in on_path]
    tokens = {event.node: event.token for event in found if isinstance(event, ev.NodeDrafted)}
    found.append(
        ev.RoundVerified(
            n=0,
            round=number,
            accepted=path,
            rejected=[
                ev.Rejected(node=node, target_token=7, target_text="x", target_logp=-0.1, logp=-2.5, rank=3) for node in judged
            ],
            unverified=[node for node in others if node not in judged],
            bonus=bonus,
            bonus_text=None if bonus is None else draw(PIECES),
            emitted=[tokens[node] for node in path] + ([] if bonus is None else [bonus]),
            pruned=draw(st.integers(0, 100)),
            draft_ms=draw(MS),
            select_ms=draw(MS),
            verify_ms=draw(MS),
        )
    )
    return found


def numbered(events: list[ev.AnyEvent]) -> list[ev.AnyEvent]:
    """The same events with running numbers."""
    return [event.model_copy(update={"n": n}) for n, event in enumerate(events)]


@st.composite
def traces(draw, max_rounds: int = 4) -> list[ev.AnyEvent]:
    """A whole trace: start, prefill, rounds, finished, sometimes compared."""
    events: list[ev.AnyEvent] = [started(question=draw(st.text(string.printable, max_size=20))), prefill()]
    for number in range(draw(st.integers(0, max_rounds))):
        events += draw(rounds(number))
    verdicts = [event for event in events if isinstance(event, ev.RoundVerified)]
    ids = [5] + [token for verdict in verdicts for token in verdict.emitted]
    accepted = sum(len(verdict.accepted) for verdict in verdicts)
    drafted = accepted + sum(len(verdict.rejected) + len(verdict.unverified) for verdict in verdicts)
    times = {f"{name}_ms": draw(MS) for name in ("total", "prefill", "draft", "select", "verify")}
    tau = (len(ids) - 1) / len(verdicts) if verdicts else None
    text = draw(st.text(max_size=20))
    events.append(
        ev.Finished(
            n=0, reason="length", ids=ids, text=text, rounds=len(verdicts), drafted=drafted, accepted=accepted, tau=tau, **times
        )
    )
    if draw(st.booleans()):
        events.append(
            ev.Compared(n=0, plain_ms=[4.0, 6.0], plain_median_ms=5.0, speculative_ms=4.0, speedup=1.25, same_ids=True)
        )
    return numbered(events)
