"""A real headless Chromium for the page's tests. Whatever leaves the machine fails the test, as does any script error."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.pages.learn import learn_head, lesson_value
from app.player import player_head
from fovea_core.examples import load_examples
from fovea_core.lesson import lesson_examples
from fovea_core.page import standalone_html

CHROMIUM = Path("/usr/bin/chromium")
#: What would leave the machine goes to a proxy that nobody runs. Interception by playwright would do so as well, but pass each
#: of a page's eighty files through this process, and without the browser's cache.
NOWHERE = "--proxy-server=http://127.0.0.1:9"
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb", NOWHERE]
LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1:", "http://localhost:")


def pytest_collection_modifyitems(items):
    """A browser test that fails is tried twice more: on a busy machine Chromium and server may both be starved for seconds."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))


def pytest_terminal_summary(terminalreporter):
    """Also what failed before a test was tried again: the last try may fail of what the first one left behind."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"tried again: {report.nodeid}")
        terminalreporter.line(report.longreprtext)


@pytest.fixture(scope="session")
def browser():
    """One Chromium for the whole session."""
    from playwright.sync_api import sync_playwright

    if not CHROMIUM.exists():
        pytest.fail(
            f"{CHROMIUM} is missing: install Debian's package 'chromium', or leave these tests out with -m 'not browser'"
        )
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield running
        running.close()


def watch(context, outside: list[str]):
    """Note in ``outside`` the address of what the context's pages ask for that is not on this machine; returns the listener."""

    def note(asked) -> None:
        if not asked.url.startswith(LOCAL):
            outside.append(asked.url)

    context.on("request", note)
    return note


@pytest.fixture(scope="module")
def common(browser):
    """The context that a test's first page is opened in, if it asks for none of its own. What a module's first page fetched and
    compiled the others need not, which halves what opening the app costs; they share no state, since the app keeps its own by
    the tab. Two tabs of one test stand in contexts of their own: of two tabs of one, the browser may rest the one behind."""
    context = browser.new_context(accept_downloads=True)
    yield context
    context.close()


@pytest.fixture
def new_page(browser, common):
    """``new_page(width=1280, height=900, **context)`` opens a page of its own; the test fails at its end if a page asked for
    anything that is not on this machine, or if one of its scripts failed (console errors count, unless ``console=False``)."""
    contexts, pages, outside, errors = [], [], [], []
    note = watch(common, outside)

    def open_page(width: int = 1280, height: int = 900, console: bool = True, **options):
        media = {name: options.pop(name) for name in ("color_scheme", "reduced_motion") if name in options}
        context = common
        if options or pages:
            context = browser.new_context(accept_downloads=True, **options)
            contexts.append(context)
            watch(context, outside)
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(30_000)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(**media)
        page.on("pageerror", lambda error: errors.append(str(error)))
        if console:
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        return page

    yield open_page
    for page in pages:
        if not page.is_closed():
            page.evaluate("1")  # what the page has reported until now has arrived
    found = list(errors)  # a page that is closed cuts off its own streams, and its scripts say so
    for context in contexts:
        context.close()
    for page in common.pages:
        page.close()
    common.remove_listener("request", note)
    assert not outside, f"requests that leave the machine: {outside[:5]}"
    assert not found, f"errors in the page: {found[:5]}"


@pytest.fixture
def show(new_page, tmp_path):
    """``show(lines, at=...)`` opens the standalone page of a trace and waits until it is drawn."""

    def open_trace(lines, page=None, **options):
        page = page or new_page()
        file = tmp_path / "trace.html"
        file.write_text(standalone_html(lines, autoplay=options.pop("autoplay", False), **options), "utf-8")
        page.goto(file.as_uri())
        # The page unpacks itself after it has loaded; an empty one draws nothing.
        drawn = "FOVEA.page.stage.ready && FOVEA.page.stage.drawn" if lines else "true"
        page.wait_for_function(f"() => window.FOVEA?.page && {drawn}")
        return page

    return open_trace


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A page that holds the scripts of player and lesson, and nothing else."""
    page = tmp_path_factory.mktemp("learn") / "learn.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><body>{player_head()}{learn_head()}<div id=learn></div></body>", "utf-8"
    )
    return page.as_uri()


@pytest.fixture
def teach(bare, new_page):
    """``teach(lines, without=[], page=None, **page options)``: the lesson on these lines, drawn."""

    def open_lesson(lines, without=(), page=None, **options):
        page = page or new_page(**options)
        page.goto(bare)
        value = {"runs": [{"title": "A run"}], "index": 0, "lines": list(lines), "without": list(without), "trouble": ""}
        page.evaluate(
            "(value) => { const root = document.getElementById('learn');"
            " window.learn = FOVEA.createLearn(root, { pick: (i) => (window.picked = i) }); learn.set(value) }",
            value,
        )
        page.wait_for_function("learn.stage.ready || !learn.run")
        return page

    return open_lesson


@pytest.fixture(scope="module")
def lesson():
    """The first lesson of the repository: (lines, without)."""
    value = lesson_value(lesson_examples(load_examples()), 0)
    assert value["without"], "run make traces"
    return value["lines"], value["without"]
