"""From events to what a person asks of a run: text, tokens with the read that scored each, counts, tau, timings.

A fold takes any prefix of a trace: a stopped or broken run is summed up as far as it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from fovea_core.trace import events as ev


@dataclass(frozen=True)
class Token:
    """One token of the answer. ``how``: the target's first token, an accepted node, or a bonus token.

    ``raw``: its bytes (one token need not complete a character). ``read``: the retrieval of its parent's state, which
    scored it; None for first and bonus tokens and for words drafted without a look. ``look``: where the target looked as it
    said this token, where that was recorded.
    """

    position: int
    token: int
    raw: bytes
    how: Literal["first", "accepted", "bonus"]
    round: int | None = None
    node: int | None = None
    read: ev.MemoryRead | None = None
    look: ev.MemoryRead | None = None


@dataclass(frozen=True)
class Word:
    """Neighbouring tokens [first, last] that make one word of the answer, surrounding space removed from ``text``."""

    text: str
    first: int
    last: int


@dataclass(frozen=True)
class Summary:
    """What one trace amounts to. Times in ms; ``tau`` (bonus included) is None where no round was verified.

    ``text`` is the decoded answer of the finished run, or the joined pieces of a run that did not finish; ``reason`` is
    None then. ``drafted`` = accepted + rejected + unverified.
    """

    started: ev.RunStarted | None
    prefill: ev.PrefillDone | None
    text: str
    tokens: tuple[Token, ...]
    rounds: int
    accepted: int
    rejected: int
    unverified: int
    pruned: int
    prefill_ms: float
    draft_ms: float
    select_ms: float
    verify_ms: float
    reason: str | None
    total_ms: float | None
    compared: ev.Compared | None
    verdicts: tuple[ev.RoundVerified, ...] = ()

    @property
    def ids(self) -> list[int]:
        """Token ids of the answer."""
        return [token.token for token in self.tokens]

    @property
    def drafted(self) -> int:
        """Nodes sent to the target in all rounds."""
        return self.accepted + self.rejected + self.unverified

    @property
    def tau(self) -> float | None:
        """Mean acceptance length: tokens emitted by rounds / rounds, the bonus token counted."""
        return (len(self.tokens) - 1) / self.rounds if self.rounds else None

    @property
    def outside(self) -> bool | None:
        """Whether the picture lies outside the target's world; None where nothing checked it, or before prefill."""
        return self.prefill.outside if self.prefill else None

    def words(self) -> list[Word]:
        """The answer cut at white space; tokens of white space only, and those without text such as EOS, belong to no word."""
        words: list[Word] = []
        open_word: list[Token] = []

        def close() -> None:
            text = b"".join(token.raw for token in open_word).decode("utf-8", "replace").strip()
            if text:
                words.append(Word(text, open_word[0].position, open_word[-1].position))
            open_word.clear()

        for token in self.tokens:
            if token.raw[:1].isspace() or (open_word and open_word[-1].raw[-1:].isspace()):
                close()
            if token.raw.strip():
                open_word.append(token)
        close()
        return words


@dataclass
class Fold:
    """A running sum over events; ``add`` each one, take ``summary()`` at any time."""

    started: ev.RunStarted | None = None
    prefill: ev.PrefillDone | None = None
    finished: ev.Finished | None = None
    compared: ev.Compared | None = None
    tokens: list[Token] = field(default_factory=list)
    verdicts: list[ev.RoundVerified] = field(default_factory=list)
    _nodes: dict[int, ev.NodeDrafted] = field(default_factory=dict)
    _reads: dict[int, ev.MemoryRead] = field(default_factory=dict)
    _standing: dict[str, ev.MemoryRead] = field(default_factory=dict)
    _looks: dict[int, ev.MemoryRead] = field(default_factory=dict)

    def add(self, event: ev.AnyEvent) -> None:
        """Take the next event."""
        match event:
            case ev.RunStarted():
                self.started = event
            case ev.PrefillDone():
                self.prefill = event
                self.tokens.append(Token(0, event.token, _raw(event.text, event.bytes), "first"))
            case ev.NodeDrafted():
                self._nodes[event.node] = event
            case ev.MemoryRead(source="target"):
                self._looks[event.node] = event
            case ev.MemoryRead():
                self._reads[event.node] = event
                if event.serves != "node":
                    self._standing[event.serves] = event
            case ev.RoundVerified():
                self._verified(event)
            case ev.Finished():
                self.finished = event
            case ev.Compared():
                self.compared = event

    def _verified(self, event: ev.RoundVerified) -> None:
        for index, node in enumerate(event.accepted):
            drafted = self._nodes.get(node)
            raw = _raw(drafted.text, drafted.bytes) if drafted else b""
            read = self._read_of(drafted.parent) if drafted else None
            look = self._looks.get(drafted.parent) if drafted else None
            self.tokens.append(Token(len(self.tokens), event.emitted[index], raw, "accepted", event.round, node, read, look))
        if event.bonus is not None:
            raw = _raw(event.bonus_text or "", event.bonus_bytes)
            look = self._looks.get(event.accepted[-1] if event.accepted else 0)
            self.tokens.append(Token(len(self.tokens), event.bonus, raw, "bonus", event.round, look=look))
        self.verdicts.append(event)
        self._nodes, self._reads, self._looks = {}, {}, {}
        self._standing.pop("round", None)

    def _read_of(self, parent: int) -> ev.MemoryRead | None:
        """The read of a state: its own, else the one that serves this round, else the one that serves the run."""
        return self._reads.get(parent) or self._standing.get("round") or self._standing.get("run")

    def summary(self) -> Summary:
        """What the events so far amount to."""
        done = self.finished
        joined = b"".join(token.raw for token in self.tokens).decode("utf-8", "replace")
        return Summary(
            started=self.started,
            prefill=self.prefill,
            text=done.text if done else joined,
            tokens=tuple(self.tokens),
            rounds=len(self.verdicts),
            accepted=sum(len(verdict.accepted) for verdict in self.verdicts),
            rejected=sum(len(verdict.rejected) for verdict in self.verdicts),
            unverified=sum(len(verdict.unverified) for verdict in self.verdicts),
            pruned=sum(verdict.pruned for verdict in self.verdicts),
            prefill_ms=self.prefill.prefill_ms if self.prefill else 0.0,
            draft_ms=sum(verdict.draft_ms for verdict in self.verdicts),
            select_ms=sum(verdict.select_ms for verdict in self.verdicts),
            verify_ms=sum(verdict.verify_ms for verdict in self.verdicts),
            reason=done.reason if done else None,
            total_ms=done.total_ms if done else None,
            compared=self.compared,
            verdicts=tuple(self.verdicts),
        )


def fold(events: Iterable[ev.AnyEvent]) -> Summary:
    """Sum up a trace, whole or cut off after any event."""
    running = Fold()
    for event in events:
        running.add(event)
    return running.summary()


def summary_json(summary: Summary) -> dict[str, Any]:
    """A run as the command line prints it with ``--json`` and the API returns it; None where the run did not come that far."""
    compared, started = summary.compared, summary.started
    return {
        "text": summary.text,
        "token_ids": summary.ids,
        "same_ids": compared.same_ids if compared else None,
        "finish": summary.reason,
        "rounds": summary.rounds,
        "tau": summary.tau,
        "drafted": summary.drafted,
        "accepted": summary.accepted,
        "plain_ms": compared.plain_median_ms if compared else None,
        "speculative_ms": compared.speculative_ms if compared else summary.total_ms,
        "speedup": compared.speedup if compared else None,
        "policy": started.policy,
        "device": started.device,
        "outside": summary.outside,
    }


def _raw(text: str, hex_bytes: str | None) -> bytes:
    return bytes.fromhex(hex_bytes) if hex_bytes is not None else text.encode("utf-8")
