"""The gallery, links and saved files in a real browser: from a file with every request blocked, and on the live page."""

from __future__ import annotations

import io
import json

import pytest
from PIL import Image

from app.build import build_page, launch_page
from app.session import Session
from fovea_core.examples import load_examples
from fovea_core.gallery import gallery_html, write_gallery
from fovea_core.trace.record import read
from tests.sample_traces import HOSTILE, sample_lines
from tests.test_gallery import make_examples
from tests.ui.test_page import open_tab, served, wait_idle, wait_status  # noqa: F401 (served is a fixture)
from tests.ui.test_player import END, settle

pytestmark = pytest.mark.browser
WHERE = "() => [FOVEA.page.name ?? null, FOVEA.page.at, FOVEA.page.pinned, FOVEA.page.view]"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Address of a written gallery of the committed examples."""
    index, _ = write_gallery(tmp_path_factory.mktemp("gallery"), load_examples())
    return index.as_uri()


def shown(page, name: str) -> None:
    page.wait_for_function("(name) => FOVEA.page?.name === name && FOVEA.page.run.finished", arg=name)
    settle(page)


def fragment(page, text: str) -> None:
    """The address comes to rest at #text."""
    page.wait_for_function("(text) => location.hash === text", arg=f"#{text}" if text else "")


def test_cards_open_runs_and_the_address_leads_back(new_page, shelf):
    """From file://: twelve cards; a run opens; back and forward go between runs, never through its steps."""
    page = new_page()
    page.goto(shelf)
    page.wait_for_selector(".fg-card")
    examples = load_examples()
    assert page.locator(".fg-card strong").all_text_contents() == [example.title for example in examples]
    assert page.locator(".fg-kind").count() == 3
    page.evaluate("document.querySelectorAll('.fg-card img').forEach((e) => (e.loading = 'eager'))")
    page.wait_for_function("[...document.querySelectorAll('.fg-card img')].every((e) => e.naturalWidth > 0)")
    before = page.evaluate("history.length")
    page.click(".fg-card >> nth=1")
    shown(page, examples[1].name)
    assert page.is_hidden(".fg-shelf") and page.evaluate("FOVEA.page.playing")
    assert page.title().startswith(examples[1].title)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    step = page.evaluate("FOVEA.page.at")
    fragment(page, f"run={examples[1].name}&step={step}")
    page.click("text=next ›")
    shown(page, examples[2].name)
    assert page.evaluate("history.length") == before + 2
    page.go_back()
    shown(page, examples[1].name)
    assert page.evaluate("FOVEA.page.at") == step
    page.go_back()
    page.wait_for_selector(".fg-card")
    assert page.is_hidden(".fg-run")
    page.go_forward()
    shown(page, examples[1].name)
    page.click("text=← All runs")
    page.wait_for_selector(".fg-card")
    assert page.evaluate("FOVEA.page.run.header") is None


def test_every_committed_run_replays(new_page, shelf):
    """The whole answer of each, whatever it says, equals the trace's; the picture is drawn; all within one page."""
    page = new_page()
    page.goto(shelf)
    for example in load_examples():
        page.evaluate("(name) => { location.hash = `run=${name}&step=1`; }", example.name)
        shown(page, example.name)
        page.wait_for_function("FOVEA.page.stage.ready && FOVEA.page.stage.drawn")
        finished = next(event for event in read(example.trace).events if event.kind == "finished")
        assert page.evaluate("FOVEA.page.run.words.map((word) => word.token)") == finished.ids
        assert page.evaluate("FOVEA.page.at") == 1 and page.is_hidden(".fv-note")


def test_hostile_titles_and_questions_stay_text(new_page, tmp_path):
    index = tmp_path / "index.html"
    examples = make_examples(tmp_path, [HOSTILE])
    examples[0].trace.write_text("\n".join(sample_lines("hostile")) + "\n")
    index.write_text(gallery_html(examples), "utf-8")
    page = new_page()
    page.goto(index.as_uri())
    page.wait_for_selector(".fg-card")
    assert page.locator(".fg-card strong").text_content() == HOSTILE
    assert page.locator(".fg-card q").text_content() == json.loads(sample_lines("hostile")[1])["question"]
    page.click(".fg-card")
    shown(page, "run-0")
    assert page.title().startswith(HOSTILE.split("  ")[0]) and page.locator(".fg-name").text_content() == HOSTILE
    assert page.locator(".fg img").count() == 2 and page.evaluate("window.hacked") is None


def test_a_link_to_no_run_shows_the_cards_and_one_sentence(new_page, shelf):
    page = new_page()
    for link in ("run=nope", "run=nope&step=2", "step=2", "run=%3Cimg%20src=x%3E", "run=../x"):
        page.goto("about:blank")
        page.goto(f"{shelf}#{link}")
        page.wait_for_selector(".fg-note")
        assert "not in this gallery" in page.inner_text(".fg-note") and page.is_visible(".fg-card >> nth=0"), link
    page.click(".fg-card >> nth=0")
    shown(page, load_examples()[0].name)
    assert page.is_hidden(".fg-note")


def test_a_damaged_run_inside_a_gallery_is_one_sentence(new_page, tmp_path, monkeypatch):
    """A page is a stranger's too: what is unpacked is checked like a dropped file, and the cards stay."""
    examples = make_examples(tmp_path, ["A worker", "Another"])
    page, index = new_page(), tmp_path / "index.html"
    whole = type(read(examples[0].trace)).lines
    monkeypatch.setattr("fovea_core.trace.record.Trace.lines", lambda trace: ['{"kind": "exec"}', *whole(trace)[1:]])
    index.write_text(gallery_html(examples), "utf-8")
    page.goto(index.as_uri())
    page.click(".fg-card >> nth=1")
    page.wait_for_selector(".fg-note")
    assert "is damaged" in page.inner_text(".fg-note") and page.is_visible(".fg-card >> nth=0")


# ---- links in an exported page ----


def nodes(page):
    """[a rejected node and its step, a word with a read]."""
    return page.evaluate(
        """() => {
          const { run } = FOVEA.page, all = run.rounds.flatMap((round) => [...round.nodes.values()]);
          const node = all.find((node) => node.status === "rejected");
          return [node.round.step, node.id, run.words.filter((word) => run.readOf(word)).pop().index];
        }"""
    )


def test_an_exported_page_goes_where_a_link_points(show):
    """Step, node, word and view; written back as they were read; nothing is added to the history."""
    page = show(sample_lines("scene"), **END)
    step, node, word = nodes(page)
    at = page.evaluate("(i) => FOVEA.page.run.words[i].step", word)
    length = page.evaluate("history.length")
    cases = {
        f"step={step}&node={node}": [None, step, f"n:{step}:{node}", "word"],
        f"step={at}&word={word}": [None, at, f"w:{word}", "word"],
        "step=2&view=step": [None, 2, None, "step"],
        "step=3&view=answer": [None, 3, None, "answer"],
        "step=0": [None, 0, None, "word"],
    }
    for link, where in cases.items():
        page.goto("about:blank")
        show(sample_lines("scene"), page=page)
        page.goto(page.url.split("#")[0] + f"#{link}")
        page.wait_for_function("(where) => JSON.stringify((" + WHERE + ")()) === JSON.stringify(where)", arg=where)
        page.goto("about:blank")
        page.go_back()
        page.wait_for_function(
            "(where) => window.FOVEA?.page && JSON.stringify((" + WHERE + ")()) === JSON.stringify(where)", arg=where
        )
        fragment(page, link)
    assert page.is_hidden(".fv-note") and length >= 1


def test_a_bad_link_is_one_sentence_and_moves_nothing(show):
    page = show(sample_lines("scene"), **END)
    bad = ("step=99999", "step=-1", "step=x", "step=1&node=4000", "word=8000", "view=<b>", "step=0&node=1", "step=1e1")
    for link in bad:
        where = page.evaluate(WHERE)
        page.evaluate("(link) => { location.hash = link; }", link)
        page.wait_for_function("() => !document.querySelector('.fv-note').hidden")
        assert page.inner_text(".fv-note") == "This link does not fit the run that is shown, so it was not followed.", link
        assert page.evaluate(WHERE) == where, link
        step = 1 + bad.index(link) % 2
        page.evaluate("(step) => { location.hash = `step=${step}`; }", step)
        page.wait_for_function("(at) => FOVEA.page.at === at && document.querySelector('.fv-note').hidden", arg=step)


def test_fragments_of_others_and_a_damaged_trace_are_left_alone(show):
    page = show(sample_lines("scene"), **END)
    page.evaluate("() => { location.hash = 'chapter-2'; }")
    page.wait_for_timeout(600)
    assert page.is_hidden(".fv-note")
    future = ['{"format": "fovea-trace", "version": 9}', "{}"]
    page.evaluate("(lines) => { try { FOVEA.page.load(lines); } catch (error) { FOVEA.page.trouble(error.message); } }", future)
    assert page.inner_text(".fv-note").startswith("This trace was written by a newer explorer (version 9,")


def test_scrubbing_leaves_one_entry_in_the_history_and_copy_gives_the_link(show, new_page):
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    show(sample_lines("long"), page=page, **END)
    length = page.evaluate("history.length")
    page.evaluate("() => FOVEA.page.root.focus()")
    page.keyboard.press("Home")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    fragment(page, "step=30")
    assert page.evaluate("history.length") == length
    page.click("text=Copy link")
    page.wait_for_function("() => document.querySelector('.fv-told').textContent === 'The link is copied.'")
    assert page.evaluate("navigator.clipboard.readText()") == page.url and page.url.endswith("#step=30")


# ---- files that the browser makes by itself ----


def test_the_pages_own_pictures(show):
    """The step as a picture: wider than the map, with the answer below, larger where more was said."""
    page = show(sample_lines("scene"), **END)

    def saved(button):
        with page.expect_download() as download:
            page.click(f"text={button}")
        return Image.open(io.BytesIO(download.value.path().read_bytes())).convert("RGB")

    last = saved("Save step (PNG)")
    page.evaluate("() => FOVEA.page.goto(1)")
    settle(page)
    first = saved("Save step (PNG)")
    assert first.width == last.width == 1064 and last.height > first.height and first.getpixel((2, 2)) == (255, 255, 255)
    assert len(set(first.crop((32, 84, 1032, 500)).resize((50, 20)).tobytes())) > 100, "the picture stands in it"
    page.evaluate("() => FOVEA.page.goto(0)")
    settle(page)
    assert saved("Save step (PNG)").height <= first.height
    assert page.locator("text=Save GIF").count() == 0 and page.locator("text=Save page").count() == 0


# ---- the live page ----


@pytest.fixture
def live(served, new_page):  # noqa: F811
    served.drafter.delay_s = 0.0
    return served


def test_a_link_opens_an_example_on_the_live_page(live, new_page):
    """Before any model is loaded; then another by the address; then one that is not there, which changes nothing."""
    page = new_page(1440, 1000)
    page.goto(live.url + "#run=1&step=2")
    page.wait_for_function("() => document.querySelector('.fv-count')?.textContent.startsWith('step 2 ')")
    question = page.locator("#fx-question textarea").input_value()
    page.wait_for_function("(q) => document.querySelector('.fv-question').textContent === q", arg=question)
    page.wait_for_selector(".fx-draw-edit", state="visible")  # its picture is a drawn one
    page.evaluate("() => { location.hash = 'run=0&step=3&view=answer'; }")
    page.wait_for_function("() => document.querySelector('.fv-count').textContent.startsWith('step 3 ')")
    assert page.get_attribute(".fv-segments [data-value='answer']", "aria-pressed") == "true"
    fragment(page, "run=0&step=3&view=answer")
    page.evaluate("() => { location.hash = 'run=nope'; }")
    assert wait_status(page, "This link") == "This link names a run that is not among the recorded examples."
    assert page.locator(".fv-count").text_content().startswith("step 3 ")
    fragment(page, "run=0&step=3&view=answer")


def test_run_again_live_opens_and_runs(live, new_page):
    """One press brings picture and question and streams a run; a live run has no link."""
    live.may_load.set()
    page = open_tab(live, new_page)
    assert page.locator("#fx-examples .fx-again").count() == 2
    page.click("[aria-label='Run again live: A second worker']")
    wait_status(page, "^Done|^Stopped")
    assert page.locator("#fx-question textarea").input_value().startswith("Describe the worker")
    page.wait_for_function("() => document.querySelectorAll('.fv-answer .fv-word').length > 0")
    page.locator("text=Skip to end").click(force=True)
    assert page.locator("text=Copy link").is_disabled() and "#" not in page.url


def test_files_from_the_live_page_open_again(live, new_page, tmp_path):
    """Page, strip, GIF, step and trace of an example whose strip was edited."""
    page = open_tab(live, new_page)
    page.click(".fx-open >> nth=0")
    page.wait_for_function("() => document.querySelector('.fv-pill')?.textContent === 'finished'")
    page.click("text=Skip to end")
    page.wait_for_selector(".fv-card >> nth=2")
    page.hover(".fv-cards > li >> nth=0")
    page.click(".fv-drop >> nth=0")
    words = page.locator(".fv-card-word").all_text_contents()
    saved = {}
    for button in ("Save trace (JSON)", "Save page (HTML)", "Save strip (PNG)", "Save GIF", "Save step (PNG)"):
        with page.expect_download(timeout=90_000) as download:
            page.click(f"text={button}")
        saved[button] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[button])
    assert read(saved["Save trace (JSON)"]).events and len(words) >= 2
    for button in ("Save strip (PNG)", "Save step (PNG)"):
        with Image.open(saved[button]) as image:
            assert [round(value) for value in image.info["dpi"]] == [300, 300]
    with Image.open(saved["Save GIF"]) as movie:
        assert movie.n_frames == len(words)
    again = new_page()
    again.goto(saved["Save page (HTML)"].as_uri())
    again.wait_for_selector(".fv-card")
    assert again.locator(".fv-card-word").all_text_contents() == words


def test_the_app_not_answering_is_one_sentence(live, new_page):
    page = new_page(console=False)
    page.goto(live.url)
    page.click(".fx-open >> nth=0")
    page.wait_for_function("() => document.querySelector('.fv-pill')?.textContent === 'finished'")
    page.route("**/component_server**", lambda route: route.abort())
    page.click("text=Save GIF")
    page.wait_for_function("() => document.querySelector('.fv-told.fv-failed')?.textContent.includes('did not answer')")
    assert page.locator("text=Save GIF").is_enabled() and page.is_visible(".fv-answer")


@pytest.mark.parametrize("width", [390, 1440])
def test_twelve_recorded_examples_without_any_model(new_page, width):
    """The page of the repository with an engine that never loads: all thumbnails, in groups, in little room; one opens."""
    session = Session(lambda: pytest.fail("the model was loaded"))
    blocks = build_page(session)
    _, url, _ = launch_page(blocks, "127.0.0.1", None, quiet=True)
    page = new_page(width, 1000)
    try:
        page.goto(url)
        page.wait_for_selector(".fx-open img")
        page.wait_for_function("[...document.querySelectorAll('#fx-examples .fx-open img')].every((e) => e.naturalWidth > 0)")
        assert page.locator("#fx-examples .fx-open").count() == page.locator("#fx-examples .fx-again").count() == 12
        assert page.locator("#fx-examples .fx-kind-name").all_text_contents() == ["Scenes", "Signs and receipts", "Charts"]
        assert page.locator("#fx-examples").bounding_box()["height"] < 340
        boxes = "[...document.querySelectorAll('#fx-examples .fx-example button')].map((e) => e.getBoundingClientRect())"
        sizes = page.evaluate(f"{boxes}.map((box) => Math.min(box.width, box.height))")
        assert min(sizes) >= 32 and page.evaluate("document.documentElement.scrollWidth") <= width
        page.hover(".fx-open >> nth=3")
        assert page.inner_text(".fx-about").startswith(load_examples()[3].title)
        page.click(".fx-open >> nth=3")
        page.wait_for_selector(".fv-answer .fv-word")
        assert page.locator(".fv-question").text_content() == load_examples()[3].question
        page.evaluate("1")  # what the page has reported until now has arrived
    finally:
        page.close()  # first: a page whose server goes away says so
        blocks.close(verbose=False)
        session.close()
