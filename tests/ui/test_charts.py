"""Charts of a run in a real browser: drawn by the local plotly when looked at, numbers as folded, a click moves the player."""

from __future__ import annotations

import pytest

from fovea_core.trace.codec import decode, unpack_entries
from fovea_core.trace.fold import fold
from tests.sample_traces import sample_lines
from tests.ui.test_page import Served, ask, drop_trace, open_tab, wait_status

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = Served(tmp_path_factory.mktemp("examples"))
    yield running
    running.close()


def open_charts(page, example: int = 0) -> None:
    page.locator("#fx-examples .fx-open").nth(example).click()
    page.wait_for_selector("#fx-player .fv-answer .fv-word")
    page.click(".fg-box > summary")
    wait_drawn(page)


def wait_drawn(page) -> None:
    page.wait_for_function(
        """() => {
          const all = [...document.querySelectorAll('.fg-plot')];
          return all.length && all.every((plot) => plot.querySelector('.main-svg'));
        }"""
    )


def plotted(page, number: int) -> list[dict]:
    return page.evaluate(
        "(i) => document.querySelectorAll('.fg-plot')[i].data.map(({ name, x, y }) => ({ name, x: [...x], y: [...y] }))", number
    )


def player(page) -> tuple[int, str | None]:
    at, pinned = page.evaluate("(({ at, pinned }) => [at, pinned])(document.querySelector('#fx-player .fovea-player').player)")
    return at, pinned


def click_bar(page, plot: int, bar: int) -> None:
    mark = page.locator(".fg-plot").nth(plot).locator(".bars .point path").nth(bar)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(200)


def test_charts_show_the_fold_and_move_the_player(served, new_page):
    """Nothing is fetched before the panel is opened; then the numbers are the fold's, and bars lead to step and word."""
    page, asked = new_page(1440, 1000), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(served.url)
    page.locator("#fx-examples .fx-open").first.click()
    page.wait_for_selector("#fx-player .fv-answer .fv-word")
    assert not any("plotly" in url for url in asked)
    page.click(".fg-box > summary")
    wait_drawn(page)
    assert sum("plotly.min.js" in url for url in asked) == 1
    summary = fold(decode(line) for line in sample_lines(seed=7)[1:])
    kept, entries = plotted(page, 0), plotted(page, 1)
    assert kept[0]["y"] == [len(verdict.accepted) for verdict in summary.verdicts]
    reads = [token.read for token in summary.tokens]
    assert entries[0]["y"] == [None if read is None else len(unpack_entries(read.entries)) for read in reads]
    click_bar(page, 0, 2)
    assert player(page) == (3, None)
    word = next(i for i, read in enumerate(reads) if read and i > 8)
    click_bar(page, 1, word)
    assert player(page) == (summary.tokens[word].round + 1, f"w:{word}")
    page.click(".fg-box .fv-steps > summary")
    row = page.locator(".fg-box tbody tr").nth(word)
    assert row.locator("td").nth(1).text_content() == str(len(unpack_entries(reads[word].entries)))
    page.locator(".fg-box tbody tr").nth(1).locator("button").press("Enter")
    assert player(page)[1] == "w:1"


def test_charts_follow_what_the_player_shows(served, new_page, tmp_path):
    """Another example: other charts. A dropped trace: none, since they are made of runs that the page opened. A live run: none
    until it has ended."""
    page = open_tab(served, new_page)
    open_charts(page, 0)
    page.locator("#fx-examples .fx-open").nth(1).click()
    kept = [len(verdict.accepted) for verdict in fold(decode(line) for line in sample_lines(seed=8)[1:]).verdicts]
    page.wait_for_function(
        "(kept) => JSON.stringify([...(document.querySelector('.fg-plot')?.data?.[0].y ?? [])]) === JSON.stringify(kept)",
        arg=kept,
    )
    drop_trace(page)
    page.wait_for_function("document.querySelector('.fovea-charts').hidden")
    served.may_load.set()
    served.drafter.delay_s = 0.1
    ask(page, tmp_path, tokens=12)
    page.wait_for_selector(".fv-answer .fv-word")
    assert page.evaluate("document.querySelector('.fovea-charts').hidden")
    served.drafter.delay_s = 0.0
    wait_status(page, "^Done")
    wait_drawn(page)
    live = page.evaluate(
        "document.querySelector('#fx-player .fovea-player').player.run.rounds.map((r) => r.verdict.accepted.length)"
    )
    assert plotted(page, 0)[0]["y"] == live


@pytest.mark.parametrize("scheme,width", [("light", 1440), ("dark", 390)])
def test_charts_fit_and_take_the_pages_colours(served, new_page, scheme, width):
    """No plot is wider than its place, opened in a hidden tab too; ink is the player's; each says itself in words."""
    page = open_tab(served, new_page, width, color_scheme=scheme)
    page.locator("#fx-examples .fx-open").first.click()
    page.wait_for_selector("#fx-player .fv-answer .fv-word")
    page.get_by_role("tab", name="Compare").click()
    page.evaluate("document.querySelector('.fg-box').open = true")
    page.wait_for_timeout(500)
    page.get_by_role("tab", name="Explain").click()
    wait_drawn(page)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.locator(".fg-plot").evaluate_all(
        "(all) => all.map((plot) => [plot.clientWidth, plot.querySelector('.main-svg').getBoundingClientRect().width])"
    )
    assert all(place > 250 and abs(place - svg) <= 2 for place, svg in wide)
    accent = {"light": "#4a3aa7", "dark": "#a99cf5"}[scheme]
    assert page.evaluate("document.querySelectorAll('.fg-plot')[1].data[0].marker.color") == accent
    labels = page.locator(".fg-plot").evaluate_all("(all) => all.map((plot) => plot.getAttribute('aria-label'))")
    assert len(labels) == 4 and all(any(sign.isdigit() for sign in label) for label in labels)


def test_hostile_words_stay_text_in_charts(served, new_page, tmp_path):
    page = open_tab(served, new_page)
    path = tmp_path / "hostile.jsonl"
    path.write_text("\n".join(sample_lines("hostile")) + "\n")
    page.locator("#fx-input > input[type=file]").set_input_files(str(path))
    wait_status(page, "recorded run")
    page.click(".fg-box > summary")
    wait_drawn(page)
    page.click(".fg-box .fv-steps > summary")
    page.locator(".fg-plot").nth(1).hover()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None and page.locator(".fg img, .fg a, .fg script").count() == 0
    assert "<img" in "".join(page.locator(".fg-box tbody td:nth-of-type(1)").all_text_contents())
