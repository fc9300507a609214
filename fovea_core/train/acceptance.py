"""How far a finished drafter gets: real speculative decoding of requests that were kept from its training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fovea_core.decode.fovea import load_drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.pictures import open_picture
from fovea_core.settings import RunSettings
from fovea_core.trace.events import RoundVerified
from fovea_core.train.asked import PictureRequest


@dataclass(frozen=True)
class Acceptance:
    """Of one drafter over ``requests`` answers: tokens that rounds emitted, rounds, answers with the ids of plain decoding."""

    requests: int
    tokens: int
    rounds: int
    same: int

    @property
    def tau(self) -> float:
        """Mean acceptance length, the bonus token counted; 0 where no round was needed."""
        return self.tokens / self.rounds if self.rounds else 0.0


def acceptance(
    target,
    folders: Sequence[Path],
    requests: Sequence[PictureRequest],
    settings: RunSettings,
    done: Callable[[int], None] = lambda number: None,
) -> list[Acceptance]:
    """Acceptance of the drafters in ``folders``, in their order; requests that cannot be asked are left out.

    ``done`` hears how many requests are behind us. Raises DrafterError where a drafter does not fit the target.
    """
    drafters = [load_drafter(folder, target) for folder in folders]
    counts = [[0, 0, 0] for _ in drafters]
    answered = 0
    for number, request in enumerate(requests, start=1):
        try:
            image = open_picture(request.image).rgb
            plain = decode_plain(target, image, request.question, settings).ids
        except (ValueError, OSError):  # the artifacts say why
            continue
        answered += 1
        for drafter, count in zip(drafters, counts):
            events = list(decode(target, drafter, image, request.question, settings))
            rounds = [event for event in events if isinstance(event, RoundVerified)]
            count[0] += sum(len(event.emitted) for event in rounds)
            count[1] += len(rounds)
            count[2] += events[-1].ids == plain
        done(number)
    return [Acceptance(answered, *count) for count in counts]
