"""The engine behind the page: loaded once in the background, one request at a time, its events as lines for the player.

Everything that touches the model runs on one thread of its own: torch's inference mode and thread pool belong to a thread,
while Gradio moves a generator between threads at every step.
"""

from __future__ import annotations

import contextvars
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from app.asking import DRAFTERS
from app.errands import Asked, Errand, ended, working
from app.loaded import CancelledError, Loaded
from app.news import HEARTBEAT_S, arrived
from app.ticket import ENDED, Ticket, Update
from app.widgets import next_order
from fovea_core.shortage import spared

if TYPE_CHECKING:
    from fovea_core.engine import Engine
    from fovea_core.trace.events import AnyEvent

#: At most this many updates a second reach the browser; what is decided between them travels together.
UPDATES_PER_SECOND = 25
#: Requests kept whose run nobody has begun yet; each holds a picture, so that more would be a way to fill the memory.
MOST_KEPT = 16
#: Clients remembered whose request was not kept, until they ask for it.
MOST_CROWDED = 256
TOO_MANY = "Too many requests came at once; please try again."
CHANGED = "Another model was loaded meanwhile, here or in another tab: look at what is set for it and press Run again."


class Session:
    """The one engine of this process and the queue in front of it.

    ``load`` makes the first engine; it is called once, by ``start`` or by the first request, on the engine's thread; ``change``
    puts another in its place. ``watch`` is told of every event there, as soon as it is decided. ``offers``: the drafters that
    go with a model, best first.
    """

    def __init__(
        self,
        load: Callable[[], Engine],
        watch: Callable[[AnyEvent], None] | None = None,
        offers: Callable[[str], Sequence[str]] = lambda model: DRAFTERS,
    ) -> None:
        self._model, self._watch, self._offers = Loaded(load), watch, offers
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._loading: Future[None] | None = None  # of the first load; it holds no engine, which could not be let go then
        self._guard = threading.Lock()
        self._tickets: dict[str, Ticket] = {}
        self._crowded: dict[str, None] = {}  # whose request had to go, the latest last
        self._errands: dict[str, Errand] = {}
        self._line: list[Ticket | Errand] = []

    def start(self) -> Future[None]:
        """Begin loading unless a model is there or on its way; the future ends when it is there, or says why there is none."""
        with self._guard:
            if self._loading is None or (self._loading.done() and not self.ready):
                self._loading = self._thread.submit(self._model.first)
            return self._loading

    @property
    def ready(self) -> bool:
        """True once a model is loaded."""
        return self._model.engine is not None

    @property
    def engine(self) -> Engine | None:
        """The loaded engine, to ask what it is; only the session's own thread runs it. None before it is there."""
        return self._model.engine

    @property
    def model(self) -> str:
        """The name of the model that is loaded or being loaded."""
        return self._model.name

    @property
    def drafters(self) -> Sequence[str]:
        """The drafters that go with that model, best first."""
        return self._offers(self.model)

    def _at_hand(self, loading: Future) -> Engine:
        """The engine, on its thread. Raises why there is none."""
        loading.result()
        self._model.first()  # where it could not be brought back after another one
        return self._model.engine

    def accept(self, who: str, ticket: Ticket) -> None:
        """Keep the request of client ``who`` until its turn comes; an earlier one of the same client is ended."""
        self.forget(who)
        with self._guard:
            idle = [other for other, kept in self._tickets.items() if not kept.claimed]
            for other in idle[: max(0, len(idle) - MOST_KEPT + 1)]:
                del self._tickets[other]
                self._crowded[other] = None
            self._crowded.pop(who, None)
            while len(self._crowded) > MOST_CROWDED:
                del self._crowded[next(iter(self._crowded))]
            self._tickets[who] = ticket

    def crowded(self, who: str) -> bool:
        """Whether the request of ``who`` had to go because too many came at once; it is said once."""
        with self._guard:
            return self._crowded.pop(who, True) is None

    def stop(self, who: str) -> bool:
        """Ask the run of ``who`` to end within one round, waiting in the queue or running; False where there is none."""
        ticket = self._tickets.get(who)
        if ticket is None:
            return False
        ticket.stop.set()
        return True

    def forget(self, who: str) -> None:
        """The client left or looks at something else: end its run, which shows nothing more."""
        with self._guard:
            ticket = self._tickets.pop(who, None)
        self.cancel(who)
        if ticket:
            ticket.gone = True
            ticket.stop.set()

    def ask(self, who: str, work: Callable[[Engine, Callable[[], bool]], object]) -> Iterator[Asked]:
        """Have the engine's thread do ``work(engine, stop)`` in its turn, behind whatever came before; an earlier errand of
        ``who`` is ended, a run of theirs is not. Yields where it is, at least once a heartbeat; the last one is done, stopped
        (also where ``work`` returned None because ``stop`` said so) or trouble. Closing the generator ends the errand."""
        errand = Errand()

        def run(loading: Future):
            engine = self._at_hand(loading)
            with engine.lock:
                errand.begun = True
                return None if errand.stop.is_set() else work(engine, errand.stop.is_set)

        yield from self._follow(who, errand, run)

    def change(
        self, who: str, name: str, check: Callable[[], object], load: Callable[[Callable[[str], None]], Engine]
    ) -> Iterator[Asked]:
        """Load another model in its turn and let go of the one before. ``check()`` raises what is known to be wrong while that
        is still there; ``load(step)`` makes the engine. Yields as ``ask`` does; whoever cancels gets the model before again."""
        errand = Errand()

        def run(loading: Future):
            errand.begun = True
            try:
                errand.say("looking what is there")
                check()
                if errand.stop.is_set():
                    return None
                self._model.change(name, load, errand.say, errand.stop.is_set)
            except CancelledError:
                return None
            return name

        yield from self._follow(who, errand, run)

    def _follow(self, who: str, errand: Errand, run: Callable[[Future], object]) -> Iterator[Asked]:
        """Have the engine's thread do ``run(loading)`` in its turn and say where it is, see ``ask``."""
        self.cancel(who)
        loading = self.start()
        with self._guard:
            self._errands[who] = errand
            self._line.append(errand)
        answer = self._thread.submit(_in_context(self._run_errand), errand, loading, run)
        try:
            while not answer.done():
                if errand.stop.is_set() and answer.cancel():
                    break
                waiting = Asked("waiting" if loading.done() else "loading", self._ahead(errand))
                yield working(errand) if errand.begun else waiting
                wait([answer], HEARTBEAT_S / 2)
            yield ended(answer)
        finally:
            errand.stop.set()
            if answer.cancel() or answer.cancelled():
                self._leave(errand)
            with self._guard:
                if self._errands.get(who) is errand:
                    del self._errands[who]

    def cancel(self, who: str) -> None:
        """End the errand of ``who``, if there is one; a run of theirs goes on."""
        with self._guard:
            errand = self._errands.get(who)
        if errand:
            errand.stop.set()

    def _run_errand(self, errand: Errand, loading: Future, run: Callable[[Future], object]):
        """On the engine's thread."""
        try:
            return spared(lambda: run(loading))
        finally:
            self._leave(errand)

    def run(self, who: str) -> Iterator[Update]:
        """Run the request accepted from ``who``; at most UPDATES_PER_SECOND updates, the last one with phase 'done',
        'stopped' or 'trouble'. Closing the generator stops the run within a round and frees the engine. A request runs once."""
        with self._guard:
            ticket = self._tickets.get(who)
            if ticket is None or ticket.claimed:
                return
            ticket.claimed = True
        news: queue.Queue = queue.Queue()
        loading = self.start()
        with self._guard:
            self._line.append(ticket)
        work = self._thread.submit(_in_context(self._work), ticket, loading, news)
        try:
            yield from self._updates(ticket, news, loading, work)
        finally:
            ticket.stop.set()
            if work.cancel():
                self._leave(ticket)
            with self._guard:
                if self._tickets.get(who) is ticket:
                    del self._tickets[who]

    def _updates(self, ticket: Ticket, news: queue.Queue, loading: Future, work: Future) -> Iterator[Update]:
        board = ticket.board()
        phase, trouble, last = ("waiting" if loading.done() else "loading"), None, 0.0
        began, lasting = time.monotonic(), (phase, board.step)
        yield board.update(phase, ahead=self._ahead(ticket), order=next_order())
        while phase not in ENDED:
            items = arrived(news, last + 1 / UPDATES_PER_SECOND)
            order = next_order()  # before asking: whoever forgets this run from here on shows something newer
            if ticket.gone:
                return
            if phase == "loading" and loading.done():
                phase = "waiting"
            if ticket.stop.is_set() and work.cancel():  # stopped before its turn came
                self._leave(ticket)
                phase = "stopped"
            for item in items:
                if isinstance(item, str):
                    phase = item
                elif isinstance(item, Exception):
                    phase, trouble = "trouble", sentence(item)
                else:
                    phase = board.take(item, phase)
            last = time.monotonic()
            if lasting != (phase, board.step):
                began, lasting = last, (phase, board.step)
            yield board.update(phase, trouble, self._ahead(ticket), order, last - began)

    def _ahead(self, ticket: Ticket | Errand) -> int:
        with self._guard:
            return self._line.index(ticket) if ticket in self._line else 0

    def _leave(self, ticket: Ticket | Errand) -> None:
        with self._guard:
            if ticket in self._line:
                self._line.remove(ticket)

    def _tell(self, news: queue.Queue, item) -> None:
        """On the engine's thread: pass on an event, a phase or (side, event)."""
        event = item[1] if isinstance(item, tuple) else item
        if self._watch and not isinstance(event, str):
            self._watch(event)
        news.put(item)

    def _work(self, ticket: Ticket, loading: Future, news: queue.Queue) -> None:
        """On the engine's thread: let one ticket work; its events, phases and errors go into ``news``."""
        try:
            if ticket.stop.is_set():
                news.put("stopped")
                return
            spared(lambda: self._serve(ticket, loading, news))
        except Exception as error:
            news.put(error)
        finally:
            self._leave(ticket)

    def _serve(self, ticket: Ticket, loading: Future, news: queue.Queue) -> None:
        engine = self._at_hand(loading)
        if ticket.target is not None and ticket.target != self.model:
            raise ValueError(CHANGED)
        ticket.work(engine, lambda item: self._tell(news, item))

    def close(self) -> None:
        """End all runs and the engine's thread."""
        for who in [*self._tickets, *self._errands]:
            self.forget(who)
        self._thread.shutdown(wait=True, cancel_futures=True)


def _in_context(work: Callable) -> Callable:
    """``work`` as the client who asks for it: a host that lends a GPU counts it on that client's share."""
    return functools.partial(contextvars.copy_context().run, work)


def sentence(error: Exception, what: str = "The run broke off") -> str:
    """One sentence for a person; errors of settings, pictures, traces and models say it themselves."""
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | OSError) and text:
        return text[:500]
    return f"{what} ({type(error).__name__}); what came before it is kept, and you can run again."
