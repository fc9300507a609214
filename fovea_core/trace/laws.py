"""The laws that every trace keeps, checked event by event; a decoder's tests and a stranger's file use the same ones.

Order: run_started, prefill_done, then rounds of reads and nodes that each end in round_verified, finished, compared.
Per round: accepted + rejected + unverified = the nodes; the accepted ones are a path from the root; rejected ones hang on
it; emitted = accepted tokens + bonus if any. Reads name valid entries, each once, in falling order of mass. All emitted
tokens behind the first one = the ids of ``finished``. A trace may stop after any event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from fovea_core.trace import events as ev
from fovea_core.trace.codec import TraceError, unpack_entries, unpack_masses

#: Reported sums and ratios are rounded by the decoder; they must agree this far.
SLACK = 2e-3


class _Node(NamedTuple):
    parent: int
    depth: int
    token: int


def checked(events: Iterable[ev.AnyEvent]) -> Iterator[ev.AnyEvent]:
    """Pass events through; raises TraceError at the first one that breaks a law."""
    laws = Laws()
    for event in events:
        laws.see(event)
        yield event


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise TraceError(sentence)


def _check_hex(text: str | None) -> None:
    try:
        bytes.fromhex(text or "")
    except ValueError:
        raise TraceError("the bytes of a token are not hexadecimal") from None


class Laws:
    """What must be remembered of a trace to judge its next event."""

    def __init__(self) -> None:
        self.count = 0
        self.stage = "start"  # then 'prefill', 'rounds', 'finished', 'compared'
        self.detail = True
        self.valid_entries: set[int] = set()
        self.ids: list[int] = []
        self.rounds = self.drafted = self.accepted = 0
        self.last_round: int | None = None
        self._open_round()

    def see(self, event: ev.AnyEvent) -> None:
        """Judge the next event. Raises TraceError."""
        _require(event.n == self.count, f"event {self.count} carries the number {event.n}")
        _require(self.count < ev.MAX_EVENTS, f"a trace has at most {ev.MAX_EVENTS:,} events")
        self.count += 1
        getattr(self, f"_{event.kind}")(event)

    def _open_round(self) -> None:
        self.round: int | None = None
        self.nodes: dict[int, _Node] = {0: _Node(-1, 0, -1)}
        self.reads: list[ev.MemoryRead] = []

    def _run_started(self, event: ev.RunStarted) -> None:
        _require(self.stage == "start", "a trace begins once, with its first event")
        _require(len(event.settings) <= 100 and len(event.versions) <= 100, "a run has at most 100 settings")
        numbers = [value for value in event.settings.values() if isinstance(value, float)]
        _require(all(map(math.isfinite, numbers)), "a setting of the run is not a finite number")
        if event.cost is not None:
            _require(len(event.cost.tokens) == len(event.cost.verify_ms), "the cost table's columns differ in length")
        self.detail = event.settings.get("detail") != "rounds"
        self.stage = "prefill"

    def _prefill_done(self, event: ev.PrefillDone) -> None:
        _require(self.stage == "prefill", "prefill follows the start of the run, once")
        seen: set[int] = set()
        for tile in event.tiles:
            size = tile.rows * tile.columns
            left, top, right, bottom = tile.box
            _require(tile.first + size <= ev.MAX_ENTRIES, f"a memory has at most {ev.MAX_ENTRIES:,} entries")
            _require(sum(tile.valid) == size, "a tile's validity does not cover its grid")
            _require(left < right and top < bottom, "a tile has no area")
            places = set(range(tile.first, tile.first + size))
            _require(not places & seen, "two tiles claim the same entry")
            seen |= places
            self.valid_entries |= set(valid_entries(tile))
        spans = event.image_spans
        _require(all(first < last <= event.prompt_tokens for first, last in spans), "an image span leaves the prompt")
        _check_hex(event.bytes)
        self.ids = [event.token]
        self.stage = "rounds"

    def _in_round(self, number: int) -> None:
        _require(self.stage == "rounds", "a round lies between prefill and the end of the run")
        following = (0, 1) if self.last_round is None else (self.last_round + 1,)
        expected = following if self.round is None else (self.round,)
        _require(number in expected, f"round {number} does not follow the one before")
        self.round = number

    def _memory_read(self, event: ev.MemoryRead) -> None:
        self._in_round(event.round)
        entries, masses = unpack_entries(event.entries), unpack_masses(event.masses)
        _require(len(entries) == len(masses), "a read has more entries than masses, or fewer")
        _require(len(set(entries)) == len(entries), "a read names an entry twice")
        _require(self.valid_entries.issuperset(entries), "a read names an entry that lies on no valid cell")
        _require(all(a >= b for a, b in pairwise(masses)), "the masses of a read do not fall")
        if entries:
            _require(masses[0] == 255, "the first mass of a read is its largest, 255")
            _require(event.top_mass <= event.captured + SLACK, "a read's largest mass exceeds all it captured")
            _require(event.captured <= event.top_mass * len(entries) + SLACK, "a read captured more than its entries hold")
        self.reads.append(event)

    def _node_drafted(self, event: ev.NodeDrafted) -> None:
        self._in_round(event.round)
        _require(event.node not in self.nodes, f"node {event.node} is drafted twice in a round")
        _require(event.parent in self.nodes, f"node {event.node} stands before its parent")
        _require(event.depth == self.nodes[event.parent].depth + 1, f"node {event.node} is not one below its parent")
        _check_hex(event.bytes)
        self.nodes[event.node] = _Node(event.parent, event.depth, event.token)

    def _round_verified(self, event: ev.RoundVerified) -> None:
        self._in_round(event.round)
        path, bonus = event.accepted, [] if event.bonus is None else [event.bonus]
        judged = [*path, *(item.node for item in event.rejected), *event.unverified]
        _require(len(set(judged)) == len(judged) and 0 not in judged, "a node has two verdicts, or the root has one")
        _require(len(event.emitted) == len(path) + len(bonus), "emitted differs from accepted and bonus")
        _require(len(event.emitted) > 0, "a round emitted nothing")
        _require(not bonus or event.emitted[-1] == bonus[0], "the bonus token is not the last one emitted")
        _check_hex(event.bonus_bytes)
        if self.detail or len(self.nodes) > 1:  # a run of rounds only has no nodes, unless a stranger wrote some
            self._check_tree(event, judged)
        self.ids += event.emitted
        _require(len(self.ids) <= ev.MAX_TOKENS, f"an answer has at most {ev.MAX_TOKENS:,} tokens")
        self.rounds, self.drafted, self.accepted = self.rounds + 1, self.drafted + len(judged), self.accepted + len(path)
        self.last_round = event.round
        self._open_round()

    def _check_tree(self, event: ev.RoundVerified, judged: list[int]) -> None:
        nodes, path = self.nodes, event.accepted
        _require(set(judged) == set(nodes) - {0}, "accepted, rejected and unverified are not the round's nodes")
        for node, parent in zip(path, [0, *path]):
            _require(nodes[node].parent == parent, "the accepted nodes are no path from the root")
        _require([nodes[node].token for node in path] == event.emitted[: len(path)], "emitted tokens are not the accepted ones")
        on_path = {0, *path}
        for item in event.rejected:
            _require(nodes[item.node].parent in on_path, f"node {item.node} was judged though its parent was not accepted")
        for read in self.reads:
            _require(read.node in nodes and nodes[read.node].depth == read.depth, "a read belongs to no node of its round")

    def _finished(self, event: ev.Finished) -> None:
        _require(self.stage == "rounds", "a run finishes once, after prefill")
        _require(len(self.nodes) == 1 and not self.reads, "a run finishes after a whole round")
        _require(event.ids == self.ids, "the finished ids are not the tokens of the rounds")
        _require(event.rounds == self.rounds, "the finished count of rounds is wrong")
        _require(event.drafted == self.drafted and event.accepted == self.accepted, "the finished counts of nodes are wrong")
        tau = (len(self.ids) - 1) / self.rounds if self.rounds else None
        _require((event.tau is None) == (tau is None), "tau is given exactly where there are rounds")
        _require(tau is None or abs(event.tau - tau) <= SLACK, "tau is not emitted tokens / rounds")
        self.stage = "finished"

    def _compared(self, event: ev.Compared) -> None:
        _require(self.stage == "finished", "a comparison follows the finished run, once")
        _require(not (event.same_ids and event.first_difference is not None), "equal texts have no first difference")
        self.stage = "compared"


def valid_entries(tile: ev.Tile) -> Iterator[int]:
    """Numbers of a tile's valid entries, rising."""
    place, valid = tile.first, True
    for run in tile.valid:
        if valid:
            yield from range(place, place + run)
        place, valid = place + run, not valid
