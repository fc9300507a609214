"""The README's pictures, photographed from the recorded examples in headless Chromium: ``make screenshots``.

The page is the real one on a port of its own; its model is never loaded. The same traces give the same pictures, up to the
fonts of the machine.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from fovea_core.examples import load_examples
from fovea_core.trace.fold import fold
from fovea_core.trace.record import read
from fovea_core.trace.strip import is_name, trajectory_strip

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb", "--hide-scrollbars"]
EXAMPLE = "blue-hose"


def telling_word() -> int:
    """Position of the name with the sharpest read in the example's strip: what the pictures show."""
    (example,) = (example for example in load_examples() if example.name == EXAMPLE)
    strip = trajectory_strip(fold(read(example.trace).events))
    return max([word for word in strip if is_name(word.word.text)] or strip, key=lambda word: word.peak).token.position


def explain(page: Page, word: int) -> None:
    """The whole answer known, one word of it pinned."""
    page.wait_for_selector(".fv-answer .fv-word")
    page.click("text=Skip to end")
    page.wait_for_selector(".fv-card")
    page.evaluate("(hash) => { location.hash = hash; }", f"run={EXAMPLE}&word={word}")
    page.wait_for_selector(f".fv-answer .fv-pinned[data-word='{word}']")
    page.wait_for_function("document.querySelector('#fx-picture img')?.complete")


def narrow(page: Page, word: int) -> None:
    """The same on a narrow page, where the player stands below the input, which is left out of the picture."""
    explain(page, word)
    page.evaluate("document.querySelector('#fx-input').style.display = 'none'")


def shoot(browser: Browser, url: str, name: str, size: tuple[int, int], scheme: str, ready: Callable[[Page], None]) -> None:
    """Write docs/``name`` from the page at ``url`` once ``ready`` has been done on it."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce", locale="en-GB"
    )
    page = context.new_page()
    page.goto(url)
    ready(page)
    page.mouse.move(size[0] - 1, 1)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(1_000)  # the page around the player fades in
    place = ROOT / "docs" / name
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(place, optimize=True)
    print(f"{place.relative_to(ROOT)}: {place.stat().st_size / 1000:,.0f} kB")
    context.close()


def main() -> None:
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    from app.build import build_page, launch_page
    from app.session import Session

    session = Session(lambda: None)  # never started
    blocks = build_page(session)
    _, url, _ = launch_page(blocks, "127.0.0.1", None, quiet=True)
    word, page_url = telling_word(), f"{url}#run={EXAMPLE}"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            shoot(browser, page_url, "explain.png", (1440, 1180), "light", lambda page: explain(page, word))
            shoot(browser, page_url, "explain-dark.png", (1440, 1180), "dark", lambda page: explain(page, word))
            shoot(browser, page_url, "narrow.png", (390, 1180), "light", lambda page: narrow(page, word))
            browser.close()
    finally:
        blocks.close(verbose=False)
        session.close()


if __name__ == "__main__":
    main()
