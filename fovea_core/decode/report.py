"""What happened, as events: the decoder's values in, frozen events of plain values out, with running numbers and text."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Sequence
from importlib import metadata

import numpy as np
import torch
from PIL import Image

from fovea_core.decode.choose import Chooser
from fovea_core.decode.cost import device_name
from fovea_core.decode.draft import Drafter, sight
from fovea_core.decode.plain import DEFINITION
from fovea_core.decode.tree import Draft, Read
from fovea_core.decode.verify import Verdict
from fovea_core.settings import RunSettings
from fovea_core.targets.base import Target, TargetRun
from fovea_core.targets.pieces import Piece, Tail
from fovea_core.trace import codec
from fovea_core.trace import events as ev


class Report:
    """Builds the events of one run and keeps what they add up to: ``ids`` so far and the totals of ``Finished``."""

    def __init__(self, target: Target, drafter: Drafter | None, settings: RunSettings) -> None:
        self.target, self.drafter, self.settings = target, drafter, settings
        self.ids: list[int] = []
        self.tail = Tail()  # of the text up to the root
        self.rounds = self.nodes = self.accepted = self._n = 0
        self.draft_ms = self.select_ms = self.verify_ms = 0.0
        self._pieces: list[Piece] = []  # of the current round's nodes

    def _number(self) -> int:
        self._n += 1
        return self._n - 1

    def emit(self, tokens: list[int]) -> None:
        """Note committed tokens; call before the event that reports them."""
        self.ids += tokens

    def started(self, image: Image.Image, question: str, chooser: Chooser | None) -> ev.RunStarted:
        """Who runs what, on which picture, at which price; everything a rerun needs."""
        settings, drafter = self.settings, self.drafter
        flat = settings.model_dump()
        if settings.tree is not None:
            flat["tree"] = f"{settings.tree.depth},{settings.tree.width},{settings.tree.nodes}"
        policy, depth_limit = sight(drafter, settings)
        return ev.RunStarted(
            n=self._number(),
            question=question,
            target=ev.ModelName(id=self.target.id, fingerprint=self.target.fingerprint),
            drafter=ev.ModelName(id=drafter.id, fingerprint=drafter.fingerprint) if drafter else None,
            policy=policy,
            settings=flat,
            seed=settings.seed,
            shape=settings.tree,
            max_shape=chooser.max_shape if chooser else None,
            depth_limit=depth_limit,
            cost=chooser.table if chooser else None,
            device=device_name(self.target.device),
            versions=versions(),
            picture_width_px=image.width,
            picture_height_px=image.height,
            picture_sha256=picture_sha256(image),
            notes=[DEFINITION],
        )

    def prefilled(
        self, run: TargetRun, token: int, prefill_ms: float, remember_ms: float, outside: bool | None
    ) -> ev.PrefillDone:
        """The prompt is read, ``token`` is the first of the answer; ``outside``: what the check of the picture said."""
        piece = self.target.pieces.after(self.tail, token)
        self.tail = piece.tail
        return ev.PrefillDone(
            n=self._number(),
            prompt_tokens=len(run.prompt_ids),
            image_spans=run.spans,
            tiles=run.tiles,
            token=token,
            text=piece.text,
            bytes=piece.hex,
            prefill_ms=_ms(prefill_ms),
            remember_ms=_ms(remember_ms),
            outside=outside,
        )

    def drafted(self, draft: Draft) -> list[ev.Event]:
        """Each read before the nodes it scored; nothing where only rounds are recorded."""
        if self.settings.detail == "rounds":
            return []
        self._pieces = [Piece("", None, self.tail)]
        tokens, parents, depths = draft.tokens.tolist(), draft.parents.tolist(), draft.depths.tolist()
        logp = draft.logp.tolist() if draft.logp is not None else None
        reads = {read.node: read for read in draft.reads}
        events: list[ev.Event] = [self._read(reads.pop(0))] if 0 in reads else []
        for node in range(1, draft.size):
            piece = self.target.pieces.after(self._pieces[parents[node]].tail, tokens[node])
            self._pieces.append(piece)
            events.append(
                ev.NodeDrafted(
                    n=self._number(),
                    round=self.rounds,
                    node=node,
                    parent=parents[node],
                    depth=depths[node],
                    token=tokens[node],
                    text=piece.text,
                    bytes=piece.hex,
                    logp=None if logp is None else _short(max(-1e30, min(0.0, logp[node]))),
                )
            )
            if node in reads:
                events.append(self._read(reads.pop(node)))
        return events

    def _read(self, read: Read) -> ev.MemoryRead:
        masses = read.masses.tolist()
        return ev.MemoryRead(
            n=self._number(),
            round=self.rounds,
            node=read.node,
            depth=read.depth,
            source=read.source,
            serves=read.serves,
            entries=codec.pack_entries(read.entries.tolist()),
            masses=codec.pack_masses(masses),
            top_mass=round(masses[0], 5) if masses else 0.0,
            captured=_short(read.captured),
            k_raw=read.k_raw,
            gate=_short(read.gate),
            correction_norm=None if read.correction_norm is None else round(read.correction_norm, 3),
            peak=_short(read.peak),
            ms=_ms(read.ms),
        )

    def verified(
        self, draft: Draft, verdict: Verdict, draft_ms: float, verify_ms: float, looks: Sequence[Read] = ()
    ) -> list[ev.Event]:
        """The target's ``looks`` at the picture and the round's verdict; ``draft_ms`` is the whole draft step, selection
        included, ``verify_ms`` forward to commit."""
        looked: list[ev.Event] = [self._read(read) for read in looks]
        tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
        tails = {0: self.tail}
        for node in verdict.accepted:
            tails[node] = self.target.pieces.after(tails[parents[node]], tokens[node]).tail
        at = verdict.path[-1]
        bonus = None if verdict.bonus is None else self.target.pieces.after(tails[at], verdict.bonus)
        self.tail = bonus.tail if bonus else tails[at]
        select_ms = min(draft.select_ms, draft_ms)
        event = ev.RoundVerified(
            n=self._number(),
            round=self.rounds,
            accepted=verdict.accepted,
            rejected=[
                ev.Rejected(
                    node=item.node,
                    target_token=item.target_token,
                    target_text=self.target.pieces.after(tails[parents[item.node]], item.target_token).text,
                    target_logp=_short(item.target_logp),
                    logp=_short(item.logp),
                    rank=item.rank,
                )
                for item in verdict.rejected
            ],
            unverified=verdict.unverified,
            bonus=verdict.bonus,
            bonus_text=bonus.text if bonus else None,
            bonus_bytes=bonus.hex if bonus else None,
            emitted=verdict.emitted,
            pruned=draft.pruned,
            draft_ms=_ms(draft_ms - select_ms),
            select_ms=_ms(select_ms),
            verify_ms=_ms(verify_ms),
        )
        self.rounds += 1
        self.nodes += draft.size - 1
        self.accepted += len(verdict.accepted)
        self.draft_ms += draft_ms - select_ms
        self.select_ms += select_ms
        self.verify_ms += verify_ms
        return [*looked, event]

    def finished(self, reason: str, total_ms: float, prefill_ms: float) -> ev.Finished:
        """The answer and the totals; tau = tokens emitted by rounds / rounds, None without a round."""
        return ev.Finished(
            n=self._number(),
            reason=reason,
            ids=self.ids,
            text=self.target.pieces.decode(self.ids),
            rounds=self.rounds,
            drafted=self.nodes,
            accepted=self.accepted,
            tau=(len(self.ids) - 1) / self.rounds if self.rounds else None,
            total_ms=_ms(total_ms),
            prefill_ms=_ms(prefill_ms),
            draft_ms=_ms(self.draft_ms),
            select_ms=_ms(self.select_ms),
            verify_ms=_ms(self.verify_ms),
        )


def _ms(value: float) -> float:
    """Microseconds are as fine as a time is told: events stay short on the wire."""
    return round(value, 3)


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def picture_sha256(image: Image.Image) -> str:
    """SHA-256 over width, height and RGB bytes, in hex: the same pixels give the same name whatever file they came from."""
    digest = hashlib.sha256(f"{image.width}x{image.height}\n".encode())
    digest.update((image if image.mode == "RGB" else image.convert("RGB")).tobytes())
    return digest.hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """What took part besides the models."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": metadata.version("transformers"),
        "numpy": np.__version__,
    }
