"""What the maps of a run show: by its policy, the reads of FOVEA's visual memory or those of a drafter's own reader.

A trained rival (drafter.rival) has no visual memory. Where it reads the picture its run names how as its policy:
``routed-K``, K entries that its router chooses once a round; ``watched-K``, the K entries on which the target looked most as it
said the round's root; ``cells``, all of the target's states at the picture, pooled. The masses of such reads are its reader's
weights, which add up to 1 over what it may read and are no softmax over all entries: the two kinds do not compare.
"""

from __future__ import annotations

import re

#: The ways to read without a visual memory.
ROUTED, WATCHED, CELLS = "routed", "watched", "cells"
#: Of pooled cells a read tells those with most mass an entry, whole ones, until they hold this share of it, and no more entries
#: than this.
SHOWN, MOST_SHOWN = 0.8, 80
_OWN = re.compile(rf"({ROUTED}|{WATCHED})-[1-9]\d{{0,3}}|({CELLS})")


def own_reader(policy: str) -> str | None:
    """ROUTED, WATCHED or CELLS where a run with this policy read by a reader of its drafter's own, else None."""
    found = _OWN.fullmatch(policy)
    return found and (found[1] or found[2])


def mass_name(policy: str) -> str:
    """What a share that a read captured is a share of."""
    return "its reading" if own_reader(policy) else "mass"
