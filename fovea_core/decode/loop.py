"""Speculative decoding as a stream of events: prefill, then rounds of draft, verify, commit until the answer ends.

Read this page first. Every step is one call; whatever a step does lies behind that call. The tokens are those of plain
decoding for every drafter, tree and policy: verification alone decides what is emitted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from PIL import Image

from fovea_core.decode.choose import Chooser
from fovea_core.decode.cost import bears_out, cost_table, max_depth
from fovea_core.decode.draft import Drafter, watched
from fovea_core.decode.looks import Looks
from fovea_core.decode.plain import answer_limit
from fovea_core.decode.propose import Proposer
from fovea_core.decode.report import Report
from fovea_core.decode.sampling import choose
from fovea_core.decode.verify import Reader, Verdict, verify
from fovea_core.settings import RunSettings
from fovea_core.targets.base import News, Target, TargetRun
from fovea_core.trace.events import CostTable, Event


class Watch:
    """A clock of the engine's own time: it stands still while events are in the reader's hands."""

    def __init__(self) -> None:
        self._since, self._away = time.perf_counter(), 0.0

    def ms(self) -> float:
        """Milliseconds of engine time so far."""
        return (time.perf_counter() - self._since - self._away) * 1e3

    def aside(self, work: Callable):
        """What ``work`` returns; its time, spent for the reader only, does not count."""
        began = time.perf_counter()
        result = work()
        self._away += time.perf_counter() - began
        return result

    def hand_over(self, events: list[Event]) -> Iterator[Event]:
        """Yield ``events``; the time until the reader asks for more does not count."""
        for event in events:
            left = time.perf_counter()
            yield event
            self._away += time.perf_counter() - left


def decode(
    target: Target,
    drafter: Drafter | None,
    image: Image.Image,
    question: str,
    settings: RunSettings,
    *,
    cost: CostTable | None = None,
    stop: Callable[[], bool] | None = None,
    early: bool | None = None,
) -> Iterator[Event]:
    """Answer ``question`` about ``image``; yield the events of the run (trace.events), each as soon as it is decided.

    ``drafter`` None makes every round one plain step. ``cost``: the table from which shapes are chosen where
    ``settings.tree`` is None; measured on first use if not given. ``stop`` is asked once a round; when it says so the run
    ends as 'stopped' with what it has. Closing the generator frees the run's cache. Raises TargetError where the prompt
    leaves no room for an answer.

    ``early``: whether a draft is read, and told, before the target checks it (default: where the target lies on a CPU). On
    another device each read makes the host wait: without it a round is read once, at its end, and told then, in the same
    events, and a draft that cost chose is sent whole instead of trimmed; its ``draft_ms`` is then what the host took to ask for
    the draft, and ``verify_ms`` has the rest.
    """
    early = target.device.type == "cpu" if early is None else early
    if cost is None and settings.tree is None and drafter is not None:
        cost = cost_table(target, drafter)
    chooses = cost is not None and settings.tree is None and drafter is not None
    chooser = Chooser(cost, max_depth(drafter), bears_out(drafter)) if chooses else None
    report = Report(target, drafter, settings)
    yield report.started(image, question, chooser)
    watch = Watch()

    # 1 prefill: the target reads picture and question; its first token is committed
    run = target.prefill(image, question, watch=watched(target, drafter, settings))
    root = choose(run.logits, settings, 0)
    prefill_ms = watch.ms()
    # 2 remember: the drafter builds its visual memory, once
    proposer = Proposer(drafter.start(run, settings) if drafter else None, settings.tree, chooser, target.vocab_size, early)
    proposer.tell(run.first_news(root))
    looks = Looks(run, settings)
    report.emit([root])
    remember_ms = watch.ms() - prefill_ms
    yield from watch.hand_over([report.prefilled(run, root, prefill_ms, remember_ms, watch.aside(run.outside))])

    limit = answer_limit(run, settings)
    reader = None if early else Reader(settings, limit, target.device)
    while (reason := _end(target, report.ids, limit, stop)) is None:
        # 3 draft: the drafter learns what was committed and proposes a tree below the root
        began = watch.ms()
        draft = proposer.propose(root, limit - len(report.ids))
        drafted = watch.ms()
        if early:
            yield from watch.hand_over(report.drafted(draft))
        # 4 verify: one target forward over the tree; its own tokens decide
        resumed = watch.ms()
        logits, hidden = run.forward_tree(*draft.tree)
        draft, found = reader.read(draft, logits, len(report.ids)) if reader else (draft, None)
        verdict = verify(draft, logits, settings, len(report.ids), limit - len(report.ids), target.eos_ids, found)
        # 5 commit: the accepted path stays in the cache, everything else goes
        run.commit(verdict.path)
        root = verdict.emitted[-1]
        proposer.tell(_news(run, verdict, hidden))
        proposer.learn(draft, verdict)
        # 6 report
        checked = watch.ms()
        told = [] if early else report.drafted(draft)
        report.emit(verdict.emitted)
        verified = report.verified(draft, verdict, drafted - began, checked - resumed, watch.aside(partial(looks.of, verdict)))
        yield from watch.hand_over([*told, *verified])
    yield from watch.hand_over([report.finished(reason, watch.ms(), prefill_ms)])


def _news(run: TargetRun, verdict: Verdict, hidden: torch.Tensor) -> News:
    """A round's emitted tokens, each with the state of the node that predicted it; the last one is the new root."""
    count, first = len(verdict.emitted), run.next_position - len(verdict.path) + 1  # the path, root included, is committed
    positions = torch.arange(first, first + count)
    return torch.tensor(verdict.emitted), hidden[verdict.path[:count]], positions


def _end(target: Target, ids: list[int], limit: int, stop: Callable[[], bool] | None) -> str | None:
    """Why the run is over, None where it goes on."""
    if ids[-1] in target.eos_ids:
        return "eos"
    if len(ids) >= limit:
        return "length"
    return "stopped" if stop is not None and stop() else None
