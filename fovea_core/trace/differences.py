"""What sets two runs of one request apart: figures, and how far the entries behind the same token agree."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.fold import Summary, summary_json
from fovea_core.trace.strip import jaccard_distance

#: Figures of summary_json whose difference says something.
FIGURES = ("tau", "rounds", "drafted", "accepted", "speculative_ms", "speedup")


def differences(a: Summary, b: Summary) -> dict[str, Any]:
    """The figures of FIGURES and ``entries`` as b - a, None where one run lacks them; then what the answers share.

    entries: mean number of entries behind a token; same_ids: the answers are the same tokens; first_difference: position of
    the first token that differs, from 0, None where there is none; overlap: mean over positions of shared / all entries of
    the two reads that scored the same token, None where no position has both; positions: how many had.
    """
    ours, theirs = summary_json(a) | {"entries": mean_entries(a)}, summary_json(b) | {"entries": mean_entries(b)}
    found: dict[str, Any] = {name: _minus(theirs[name], ours[name]) for name in (*FIGURES, "entries")}
    pairs = list(zip(a.ids, b.ids))
    first = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
    if first is None and len(a.ids) != len(b.ids):
        first = len(pairs)
    shared = overlaps(a, b)
    return found | {
        "same_ids": first is None,
        "first_difference": first,
        "overlap": fmean(shared.values()) if shared else None,
        "positions": len(shared),
    }


def overlaps(a: Summary, b: Summary) -> dict[int, float]:
    """Position -> shared / all entries, where both runs drafted the same token with a look; up to the first difference."""
    found = {}
    for one, other in zip(a.tokens, b.tokens):
        if one.token != other.token:
            break
        if one.read is not None and other.read is not None:
            sets = [set(unpack_entries(token.read.entries)) for token in (one, other)]
            found[one.position] = 1.0 - jaccard_distance(*sets)
    return found


def mean_entries(summary: Summary) -> float | None:
    """Mean number of entries of the reads that scored the answer's tokens; None where none was drafted with a look."""
    sizes = [len(unpack_entries(token.read.entries)) for token in summary.tokens if token.read is not None]
    return fmean(sizes) if sizes else None


def _minus(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier
