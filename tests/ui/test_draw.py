"""Draw a picture, change it, and ask again: the panel beside the upload in a real browser, on a toy target."""

from __future__ import annotations

import numpy as np
import pytest

from fovea_core.worksite import make_picture
from tests.toys import toy_picture
from tests.ui.test_page import Served, bring, open_tab, set_tokens, wait_status, words

SEED = "3"  # of a scene: two workers, the right one with helmet and letter; of a chart: six bars


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = Served(tmp_path_factory.mktemp("examples"))
    running.may_load.set()
    yield running
    running.close()


@pytest.fixture
def opened(served, new_page):
    served.drafter.delay_s = 0.0
    return open_tab(served, new_page)


def picture_at(page) -> str | None:
    return page.evaluate("document.querySelector('#fx-picture img')?.src ?? null")


def pixel(page, x: int, y: int) -> list[int]:
    """Red, green, blue of the shown picture."""
    return page.evaluate(
        """async ([x, y]) => {
          const image = document.querySelector('#fx-picture img');
          await image.decode();
          const canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
          const context = canvas.getContext('2d');
          context.drawImage(image, 0, 0);
          return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
        }""",
        [int(x), int(y)],
    )


def draw(page, kind: str, seed: str = SEED) -> None:
    """The picture of that kind and seed, in the two steps a person takes."""
    page.click(f"[data-kind={kind}]")
    wait_status(page, f"A drawn {kind}")
    page.wait_for_selector(".fx-draw-seed", state="visible")
    set_seed(page, seed)
    wait_status(page, f"A drawn {kind}, seed {seed}[.]")
    page.wait_for_function("(seed) => document.querySelector('.fx-draw-seed').value === seed", arg=seed)


def set_seed(page, seed: str) -> None:
    page.fill(".fx-draw-seed", seed)
    page.press(".fx-draw-seed", "Enter")


def choose(page, part: str) -> None:
    page.locator(".fx-draw-parts label", has_text=part).first.click()


def offered(page) -> list[str]:
    return page.locator("#fx-suggestions label").all_inner_texts()


def wait_new_picture(page, old: str | None) -> None:
    page.wait_for_function(
        "(old) => { const i = document.querySelector('#fx-picture img'); return i && i.complete && i.src !== old }", arg=old
    )


def test_make_the_hat_green(served, opened):
    """The visitor's way: draw, run, make the hat green, run the same question again on the new picture; then as drawn."""
    draw(opened, "scene")
    picture = make_picture("scene", int(SEED))
    blue = picture.rgb[..., 2].astype(int) - picture.rgb[..., 0]
    row, column = np.unravel_index(np.where(picture.mask("worker2_headwear"), blue, -999).argmax(), blue.shape)
    question = opened.locator("#fx-question textarea").input_value()
    opened.click("#fx-settings > button")
    set_tokens(opened, 6)
    opened.click("#fx-go")
    wait_status(opened, "^Done")
    first, before, cyan = offered(opened), picture_at(opened), pixel(opened, column, row)
    assert cyan == picture.rgb[row, column].tolist() and cyan[2] > cyan[0] + 30
    choose(opened, "right worker")
    opened.select_option("[data-key=headwear_colour]", "green")
    said = wait_status(opened, "^Changed")
    assert said == "Changed: right worker, colour of the headwear: green. Run asks about the new picture."
    wait_new_picture(opened, before)
    green = pixel(opened, column, row)
    assert green[1] > green[0] + 20 and green[1] > green[2] + 20 and words(opened) > 0
    opened.wait_for_function(
        "(old) => document.querySelectorAll('#fx-suggestions label')[0].innerText.trim() !== old", arg=first[0].strip()
    )
    assert "ZD" in offered(opened)[0] or "right" in offered(opened)[0]
    assert opened.locator("#fx-question textarea").input_value() == question
    opened.click("#fx-go")
    wait_status(opened, "^Done")
    assert opened.locator(".fv-question").text_content() == question
    changed = picture_at(opened)
    opened.click(".fx-draw-undo")
    wait_status(opened, "^As drawn")
    wait_new_picture(opened, changed)
    assert pixel(opened, column, row) == cyan
    opened.wait_for_function("document.querySelector('.fx-draw-undo').disabled")


def test_wrong_input_is_one_sentence_and_the_picture_stays(served, opened):
    """Refused text stays in its field to be mended; a good change beside it is drawn; another seed starts afresh."""
    draw(opened, "chart")
    before = picture_at(opened)
    for key, bad, said in (
        ("value", "many", "no whole number from 1 to 999"),
        ("value", "551", "'551' stands twice"),
        ("label", "a<b", "only letters A to Z and digits"),
        ("label", "ABCDEF", "1 to 2 characters"),
        ("label", "", "not 0"),
    ):
        opened.fill(f"[data-key={key}]", bad)
        opened.press(f"[data-key={key}]", "Tab")
        opened.wait_for_function("(said) => document.querySelector('.fx-draw-said').textContent.includes(said)", arg=said)
        assert opened.get_attribute(f"[data-key={key}]", "aria-invalid") == "true"
        assert opened.input_value(f"[data-key={key}]") == bad
    assert picture_at(opened) == before
    opened.select_option("[data-key=colour]", "red")
    wait_status(opened, "bar 1, colour of the bar: red")
    wait_new_picture(opened, before)
    set_seed(opened, "-1")
    opened.wait_for_function("document.querySelector('.fx-draw-said').textContent.includes('whole number from 0 to 8,999,999')")
    set_seed(opened, "12")
    wait_status(opened, "seed 12")
    opened.wait_for_function("document.querySelector('.fx-draw-said').textContent === ''")
    assert opened.get_attribute(".fx-draw-seed", "aria-invalid") == "false"
    assert "red" not in opened.locator("[data-key=colour] option").all_inner_texts() or opened.input_value("[data-key=colour]")


def test_quick_changes_all_arrive(served, opened):
    """Changes made faster than a picture is drawn: the last of every field is what is drawn in the end."""
    draw(opened, "scene")
    choose(opened, "left worker")
    opened.focus("[data-key=jumpsuit]")
    for _ in range(6):
        opened.keyboard.press("ArrowDown")
    wanted = opened.input_value("[data-key=jumpsuit]")
    opened.select_option("[data-key=tool]", "rake")
    opened.fill("[data-key=badge]", "")
    opened.type("[data-key=badge]", "k7q", delay=30)
    opened.select_option("[data-key=headwear_colour]", "pink")
    choose(opened, "right worker")
    opened.select_option("[data-key=headwear]", "cap")
    opened.wait_for_selector("[data-key=letter]", state="detached")
    opened.wait_for_timeout(300)
    choose(opened, "left worker")
    got = {key: opened.input_value(f"[data-key={key}]") for key in ("jumpsuit", "tool", "badge", "headwear_colour")}
    assert got == {"jumpsuit": wanted, "tool": "rake", "badge": "K7Q", "headwear_colour": "pink"}


def test_keyboard_alone(served, opened):
    """Every control is reached by Tab and worked by keys; focus stays where it was while pictures come and go."""
    opened.focus("[data-kind=text]")
    opened.keyboard.press("Enter")
    wait_status(opened, "A drawn text")
    opened.wait_for_selector(".fx-draw-parts input")
    opened.focus("[data-kind=chart]")
    opened.keyboard.press("Space")
    wait_status(opened, "A drawn chart")
    opened.wait_for_selector("[data-key=value]")
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.tagName") == "SUMMARY"
    opened.keyboard.press("Tab")
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate("document.activeElement.value") == "bar2"
    opened.keyboard.press("Tab")
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.dataset.key") == "value"
    opened.keyboard.press("Control+a")
    opened.keyboard.type("999")
    wait_status(opened, "bar 2, value: 999")
    opened.wait_for_function("!document.querySelector('.fx-draw-undo').disabled")
    assert opened.evaluate("document.activeElement.dataset.key") == "value"


def test_the_panel_opens_on_an_example_and_goes_with_another_picture(served, opened, tmp_path):
    """An example of ours can be changed too, folded away at first; a picture brought in has nothing to change."""
    opened.click(".fx-examples button >> nth=0")
    wait_status(opened, "recorded run")
    opened.wait_for_selector(".fx-draw-edit", state="visible")
    assert not opened.evaluate("document.querySelector('.fx-draw-edit').open")
    bring(opened, tmp_path)
    wait_status(opened, "60 × 40 px")
    opened.wait_for_selector(".fx-draw-edit", state="hidden")
    draw(opened, "text")
    path = tmp_path / "worksite-text-3.png"
    toy_picture(0).save(path)
    opened.click("#fx-picture button[aria-label='Clear'], #fx-picture button[aria-label='Remove Image']")
    opened.wait_for_selector(".fx-draw-edit", state="hidden")
    draw(opened, "text")
    opened.click("#fx-picture button[aria-label='Clear'], #fx-picture button[aria-label='Remove Image']")
    opened.set_input_files("#fx-picture input[type=file]", str(path))
    wait_status(opened, "60 × 40 px")
    opened.wait_for_selector(".fx-draw-edit", state="hidden")


def test_run_stays_in_the_window_of_a_tablet(served, new_page):
    """What a drawn picture unfolds stands beside it, so that Run can be pressed without scrolling."""
    page = open_tab(served, new_page, 768)
    page.click("[data-kind=scene]")
    wait_status(page, "A drawn scene")
    page.wait_for_selector("[data-key=jumpsuit]")
    picture, panel, go = (page.locator(f"#{name}").bounding_box() for name in ("fx-picture", "fx-draw", "fx-go"))
    assert panel["x"] >= picture["x"] + picture["width"] and abs(panel["y"] - picture["y"]) < 8
    assert go["y"] + go["height"] < 1000
    assert page.evaluate("document.documentElement.scrollWidth") <= 768


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1440, "dark")])
def test_it_fits(served, new_page, width, scheme):
    """No part reaches beyond its column; whatever can be touched is large enough."""
    page = open_tab(served, new_page, width, color_scheme=scheme)
    for kind in ("scene", "text", "chart"):
        page.click(f"[data-kind={kind}]")
        wait_status(page, f"A drawn {kind}")
        page.wait_for_function("(kind) => document.querySelector(`[data-kind=${kind}]`).ariaPressed === 'true'", arg=kind)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside, small = page.evaluate(
            """() => {
              const panel = document.querySelector('.fx-draw').getBoundingClientRect();
              const all = [...document.querySelectorAll('.fx-draw :is(button, select, input, .fx-draw-parts label)')];
              const boxes = all.map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()]);
              return [
                boxes.filter(([, box]) => box.right > panel.right + 1 || box.left < panel.left - 1).map(([name]) => name),
                boxes.filter(([, box]) => box.height < 30).map(([name]) => name),
              ];
            }"""
        )
        assert not outside and not small
