"""What the page costs a reader: started as ``app.py`` in a process of its own, watched from a headless Chromium.

Keys: ``event_p50_ms``, ``event_p95_ms``: from the moment the engine decided an event to the frame that was painted after the
player took its line, live runs of the embedded model; ``bytes_per_round``: of a live run's stream with the example's own tree,
the picture and the wait for the model left out; ``scrub_ms``: script and forced layout of one scrub step of a 500-token trace,
median; ``export_kb``: a standalone page of 100 steps without its picture; ``gallery_visible_s``: from the start of the process
to a gallery on screen.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fovea_core.page import standalone_html
from fovea_core.settings import SettingsError
from fovea_core.trace.codec import Header, encode_header
from fovea_core.trace.events import AnyEvent, Finished, RoundVerified
from fovea_core.trace.laws import checked
from fovea_core.trace.record import Trace, read

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "assets" / "traces" / "blue-hose.jsonl"
#: What the page must keep to.
WANTED = {"event_p95_ms": 100, "bytes_per_round": 4_000, "scrub_ms": 16, "export_kb": 150, "gallery_visible_s": 5}
RUNS, SCRUB_STEPS, SCRUB_TOKENS, EXPORT_STEPS = 5, 100, 500, 100
START_S, RUN_S = 120, 240
_DOT = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
# Stands in the page before its own scripts: keeps the messages of the answer's stream.
_LISTEN = """
window.watched = { lines: [], messages: [] };
const ask = window.fetch;
window.fetch = async (...given) => {
  const answer = await ask(...given);
  if (String(given[0]?.url ?? given[0]).includes("queue/data")) (async () => {
    const reader = answer.clone().body.getReader(), text = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = (rest + text.decode(value, { stream: true })).split("\\n\\n");
      rest = messages.pop();
      window.watched.messages.push(...messages);
    }
  })();
  return answer;
};
"""
# Once the player is there: notes when each of its lines was painted.
_WATCH = """
() => {
  const add = FOVEA.Run.prototype.add;
  FOVEA.Run.prototype.add = function (line) {
    add.call(this, line);
    const number = this.events - 1;
    if (number >= 0) requestAnimationFrame(() => requestAnimationFrame(() => {
      window.watched.lines.push([number, performance.timeOrigin + performance.now()]);
    }));
  };
}
"""
_SCRUB = """
([first, last]) => {
  const player = FOVEA.page, times = [];
  for (let step = first; step <= last; step += 1) {
    const began = performance.now();
    player.goto(step);
    FOVEA.drawPlayer(player);
    document.body.getBoundingClientRect();
    times.push(performance.now() - began);
  }
  return times;
}
"""


def bench_page(
    runs: int = RUNS,
    scrub_steps: int = SCRUB_STEPS,
    say: Callable[[str], None] = lambda text: None,
    prices: Path | None = None,
) -> dict[str, Any]:
    """All figures of the page on this machine. Raises SettingsError where no browser is there or the page does not start.

    prices: a result of bench builtin whose prices choose the trees of an example that names none, so that the bytes of two
    machines can be compared.
    """
    trace = read(EXAMPLE)
    with _browser() as browser, tempfile.TemporaryDirectory() as folder:
        say("Starting the page …")
        log = Path(folder) / "events.jsonl"
        began = time.perf_counter()
        with _served(log, prices) as url:
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.add_init_script(_LISTEN)
            page.goto(url)
            page.locator(".fx-examples button img").first.wait_for()
            gallery_s = time.perf_counter() - began
            say(f"{runs} live runs …")
            delays, sizes = _live(page, log, runs)
        say("Scrubbing …")
        scrub_ms = _scrub(browser, Path(folder), trace, scrub_steps)
    cuts = statistics.quantiles(delays, n=20, method="inclusive")
    return {
        "event_p50_ms": statistics.median(delays),
        "event_p95_ms": cuts[18],
        "bytes_per_round": statistics.fmean(sizes),
        "scrub_ms": scrub_ms,
        "export_kb": len(_export(recorded(), EXPORT_STEPS).encode("utf-8")) / 1000,
        "gallery_visible_s": gallery_s,
        "events": len(delays),
        "wanted": WANTED,
    }


@contextlib.contextmanager
def _browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SettingsError(
            "bench page drives a browser: install playwright with pip install -r requirements-dev.txt."
        ) from None
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SettingsError("bench page drives a browser: install Chromium (Debian's package 'chromium').")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        running = playwright.chromium.launch(executable_path=found, args=arguments)
        try:
            yield running
        finally:
            running.close()


@contextlib.contextmanager
def _served(log: Path, prices: Path | None) -> Iterator[str]:
    """The page in a process of its own, which notes in ``log`` when each event was decided; yields its address."""
    command = [sys.executable, str(ROOT / "app.py"), "--offline", "--event-log", str(log)]
    command += ["--prices", str(prices.absolute())] if prices else []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            until = time.monotonic() + START_S
            for line in process.stdout:
                if "http://" in line:
                    url = line[line.index("http://") :].split()[0]
                    break
                if time.monotonic() > until:
                    raise SettingsError(f"The page did not start within {START_S} s.")
            else:
                raise SettingsError("The page did not start; run app.py by hand to see why.")
            urllib.request.urlopen(url, timeout=30).close()
            yield url
        finally:
            process.terminate()
            process.stdout.close()


def _live(page, log: Path, runs: int) -> tuple[list[float], list[float]]:
    """Delay of every event in ms, and bytes a round of every run. The example's own question, asked anew."""
    page.locator(".fx-examples button").first.click()
    page.locator(".fv-answer .fv-word").first.wait_for()
    page.locator(".fv-transport >> text=real time").click()  # what is decided is shown, not kept for a slower pace
    page.evaluate(_WATCH)
    delays, sizes = [], []
    for _ in range(runs):
        page.evaluate("window.watched.lines = []; window.watched.messages = []")
        seen = len(_events(log))
        page.click("#fx-go")
        page.wait_for_function(
            "window.watched.messages.some((message) => message.includes('process_completed') && message.includes('Done:'))",
            timeout=RUN_S * 1000,
        )
        page.wait_for_timeout(200)
        decided = {number: at for number, kind, at in _events(log)[seen:] if kind != "compared"}
        shown = dict(page.evaluate("window.watched.lines"))
        delays += [shown[number] - at for number, at in decided.items()]
        rounds = sum(kind == "round_verified" for _, kind, _ in _events(log)[seen:])
        sizes.append(_bytes_of_rounds(page.evaluate("window.watched.messages")) / rounds)
    return delays, sizes


def _events(log: Path) -> list[list]:
    """[number, kind, wall clock in ms] of every event so far."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def _bytes_of_rounds(messages: list[str]) -> int:
    """Bytes of the messages from the run's first event to its last, and of the one that closes the stream: the picture and the
    wait for a model, which is as long as the machine is slow, are no round's."""
    sizes = [len(message.encode("utf-8")) + 2 for message in messages]
    started = next(place for place, message in enumerate(messages) if '\\"kind\\":\\"run_started\\"' in message)
    finished = next(place for place, message in enumerate(messages) if '\\"kind\\":\\"finished\\"' in message)
    closing = next(place for place, m in enumerate(messages) if "process_completed" in m and "Done:" in m)
    return sum(sizes[started : finished + 1]) + sizes[closing]


def _scrub(browser, folder: Path, trace: Trace, steps: int) -> float:
    """Median ms of one scrub step, forwards through the middle of a 500-token answer."""
    long = lengthened(trace, tokens=SCRUB_TOKENS)
    file = folder / "long.html"
    file.write_text(standalone_html([encode_header(long.header), *long.lines()], autoplay=False, at="end"), "utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(file.as_uri())
    page.wait_for_function("() => window.FOVEA?.page && FOVEA.page.stage.ready && FOVEA.page.stage.drawn")
    count = sum(isinstance(event, RoundVerified) for event in long.events)
    first = max(1, (count - steps) // 2)
    return statistics.median(page.evaluate(_SCRUB, [first, min(count, first + steps - 1)]))


def recorded() -> list[Trace]:
    """The runs of the gallery."""
    return [read(path) for path in sorted(EXAMPLE.parent.glob("*.jsonl"))]


def _export(traces: Sequence[Trace], steps: int) -> str:
    """The standalone page of ``steps`` rounds, with a picture of one pixel. The rounds of several runs, since those of one over
    and over pack the better the fewer they are."""
    long = lengthened(*traces, rounds=steps)
    return standalone_html([encode_header(Header(_DOT)), *long.lines()])


def lengthened(trace: Trace, *more: Trace, rounds: int | None = None, tokens: int | None = None) -> Trace:
    """A lawful trace with the rounds of ``trace`` and ``more``, over and over, until there are ``rounds`` or ``tokens``."""
    opening = [event for event in trace.events if event.kind in ("run_started", "prefill_done")]
    bodies: list[list[AnyEvent]] = [[]]
    for event in (event for each in (trace, *more) for event in each.events):
        if event.kind in ("memory_read", "node_drafted", "round_verified"):
            bodies[-1].append(event)
            if event.kind == "round_verified":
                bodies.append([])
    last = next(event for event in trace.events if isinstance(event, Finished))
    bodies.pop()
    events, ids, drafted, accepted, number = list(opening), [opening[1].token], 0, 0, 0
    while number < rounds if rounds is not None else len(ids) < tokens:
        for event in bodies[number % len(bodies)]:
            events.append(event.model_copy(update={"n": len(events), "round": number}))
        verdict = events[-1]
        ids += verdict.emitted
        accepted += len(verdict.accepted)
        drafted += len(verdict.accepted) + len(verdict.rejected) + len(verdict.unverified)
        number += 1
    totals = {"ids": ids, "rounds": number, "drafted": drafted, "accepted": accepted, "tau": (len(ids) - 1) / number}
    events.append(last.model_copy(update={"n": len(events), "text": " ".join([last.text] * 2), **totals}))
    return Trace(trace.header, tuple(checked(events)))
