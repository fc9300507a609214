"""A target with its drafters, loaded once and used by page and command line alike: one request in, events out."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from PIL import Image

from fovea_core.bench.doctor import Health
from fovea_core.bench.first_look import first_look
from fovea_core.decode.cost import busy, cost_table
from fovea_core.decode.draft import Drafter
from fovea_core.decode.fovea import load_drafter
from fovea_core.decode.lookup import LookupDrafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import compare, judge, measure_plain
from fovea_core.decode.redraft import Redraft, RedraftError, redraft
from fovea_core.decode.sibling import SiblingDrafter
from fovea_core.decode.trie import TrieDrafter
from fovea_core.request import Request
from fovea_core.targets.base import Target
from fovea_core.targets.registry import Step, fetch_drafter, is_target, load_target, pick_device, unheard
from fovea_core.targets.shelf import HUB_ID, drafter_folder, is_drafter, lab_drafters
from fovea_core.trace.events import AnyEvent, Compared, CostTable, Finished, RunStarted

#: Names of drafters that are no folder: the trained one, its twin without a memory, nothing (plain steps), prompt lookup, trie.
DRAFTERS = ("builtin", "blind", "none", "lookup", "trie")
#: Those that need no weights.
_COPYING = {"lookup": LookupDrafter, "trie": TrieDrafter}
REPEATS = 3
#: Answers slower than this are compared once instead of REPEATS times.
SLOW_MS = 4_000


class Engine:
    """A loaded target and its drafters by name. ``lock`` is held by whoever runs it: one request at a time.

    ``health``: what the doctor says of a published checkpoint on this machine; None where nobody asked it. ``prices``: what
    drafting costs, for every drafter, instead of what is measured here.
    """

    def __init__(
        self,
        target: Target,
        load: Callable[[str], Drafter | None],
        health: Health | None = None,
        prices: CostTable | None = None,
    ) -> None:
        self.target, self._load, self.health, self.prices = target, load, health, prices
        self.lock = threading.Lock()
        self._drafters: dict[str, Drafter | None] = {}
        self._costs: dict[str, CostTable] = {}
        self._unsure: set[str] = set()  # whose table was measured while others used the machine

    def drafter(self, name: str) -> Drafter | None:
        """The drafter of that name, loaded at first use; None stands for plain steps. Raises ValueError with a sentence."""
        if name not in self._drafters:
            self._drafters[name] = self._load(name)
        return self._drafters[name]

    def run(self, request: Request, stop: Callable[[], bool] | None = None) -> Iterator[AnyEvent]:
        """The events of a request as they are decided. Raises TargetError where the prompt leaves no room for an answer."""
        drafter, settings = self.drafter(request.drafter), request.settings
        cost = self.cost(request.drafter) if drafter is not None and settings.tree is None else None
        yield from decode(self.target, drafter, request.image, request.question, settings, cost=cost, stop=stop)

    def cost(self, drafter: str) -> CostTable:
        """The measured cost table of this pair on this machine: measured once a process, and once more, when it is asked for on
        a quiet machine, where the first was measured on a busy one. Or ``prices``."""
        if self.prices is not None:
            return self.prices
        if drafter not in self._costs or (drafter in self._unsure and not busy()):
            (self._unsure.add if busy() else self._unsure.discard)(drafter)
            self._costs[drafter] = cost_table(self.target, self.drafter(drafter))
        return self._costs[drafter]

    def compare(
        self, request: Request, finished: Finished, stop: Callable[[], bool] | None = None, repeats: int = REPEATS
    ) -> Compared | None:
        """Measure a finished request against plain decoding, both without recording details; None where ``stop`` said so.

        The speculative time is the median of runs of its own, not the recorded run, which pays for its recording.
        """
        repeats = 1 if finished.total_ms > SLOW_MS else repeats
        times = self._times([(request, finished)], stop, repeats)
        if times is None:
            return None
        timed = finished.model_copy(update={"total_ms": times[0]})
        return compare(
            self.target, request.image, request.question, request.settings, timed, finished.n + 1, repeats=repeats, stop=stop
        )

    def compare_pair(
        self,
        pair: Sequence[tuple[Request, Finished]],
        stop: Callable[[], bool] | None = None,
        repeats: int = REPEATS,
    ) -> list[Compared] | None:
        """The same for finished requests that ask one question of one picture and differ in drafter, policy or tree only.

        They take turns, so that a machine that grows slower does so for both, and share one measurement of plain decoding.
        """
        repeats = 1 if max(finished.total_ms for _, finished in pair) > SLOW_MS else repeats
        times = self._times(pair, stop, repeats)
        request = pair[0][0]
        asked = (self.target, request.image, request.question, request.settings)
        plain = None if times is None else measure_plain(*asked, repeats, stop)
        if plain is None:
            return None
        timed = [finished.model_copy(update={"total_ms": ms}) for (_, finished), ms in zip(pair, times)]
        return [judge(*asked, finished, finished.n + 1, plain) for finished in timed]

    def _times(
        self, runs: Sequence[tuple[Request, Finished]], stop: Callable[[], bool] | None, repeats: int
    ) -> list[float] | None:
        """Median ms of ``repeats`` runs of each finished request without details, in turns; None where ``stop`` said so."""
        times: list[list[float]] = [[] for _ in runs]
        for _ in range(repeats):
            for (request, finished), measured in zip(runs, times):
                budget = len(finished.ids) if finished.reason == "stopped" else request.settings.max_new_tokens
                settings = request.settings.model_copy(update={"detail": "rounds", "max_new_tokens": budget})
                again = Request(request.image, request.question, settings, request.drafter)
                last = [event for event in self.run(again, stop) if isinstance(event, Finished)]
                if stop is not None and stop():
                    return None
                measured.append(last[0].total_ms)
        return [statistics.median(measured) for measured in times]

    def redraft(
        self,
        recorded: Sequence[AnyEvent],
        image: Image.Image,
        round: int,
        lost: Sequence[int],
        stop: Callable[[], bool] | None = None,
    ) -> Redraft | None:
        """Draft round ``round`` of a recorded run again without the entries ``lost``, see decode.redraft.

        None where ``stop`` said so. Raises RedraftError, and TargetError where the run's prompt leaves no room for an answer.
        """
        started = next((event for event in recorded if isinstance(event, RunStarted)), None)
        name = started.drafter.id if started is not None and started.drafter is not None else "none"
        if name not in (*DRAFTERS, *lab_drafters()):  # a trace may be a stranger's, and names of drafters may be folders
            raise RedraftError(f"The drafter {name[:60]!r} of this run is not one that is loaded here.")
        return redraft(self.target, self.drafter(name), image, recorded, round, lost, stop)


def load_engine(
    target: str = "builtin",
    device: str = "auto",
    look: bool = True,
    say: Callable[[str], None] = lambda text: None,
    dtype: str = "auto",
    local: bool = False,
    step: Step = unheard,
) -> Engine:
    """Load a target by name on cpu, cuda or auto. Raises TargetError or SettingsError with one sentence.

    ``look``: a published checkpoint is examined at its first load on this machine; ``say`` hears of it before. dtype, local,
    step: see registry.load_target; they hold for drafters, too: a sibling, or a trained one by its hub id, which is fetched
    where need be unless ``local``. ``step`` may raise to end the loading.
    """
    loaded = load_target(target, pick_device(device), dtype, local, step)
    health = first_look(loaded, say, step) if look else None
    return Engine(loaded, lambda name: _drafter(name, loaded, dtype, local), health)


def _drafter(name: str, target: Target, dtype: str, local: bool) -> Drafter | None:
    if name == "none":
        return None
    if name in _COPYING:
        return _COPYING[name]()
    if not is_drafter(name) and is_target(name, local):
        return SiblingDrafter(load_target(name, target.device, dtype, local, role="drafter"), target)
    if HUB_ID.fullmatch(name) and not Path(name).expanduser().is_dir():
        return load_drafter(drafter_folder(name) if local else fetch_drafter(name, target.fingerprint), target)
    return load_drafter(name, target)
