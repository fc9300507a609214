"""The static Space in a real browser, from its folder: it opens, and a recorded run plays."""

from __future__ import annotations

import pytest

from fovea_core.examples import load_examples
from fovea_core.space import write_space
from tests.ui.test_gallery import shown

pytestmark = pytest.mark.browser


def test_the_static_space_opens(new_page, tmp_path):
    """Its index.html shows a card for every recorded example, and one opens; nothing is asked for from anywhere."""
    write_space("static", tmp_path / "space")
    page, examples = new_page(), [example for example in load_examples() if example.recorded]
    page.goto((tmp_path / "space" / "index.html").as_uri())
    page.wait_for_function("(count) => document.querySelectorAll('.fg-card').length === count", arg=len(examples))
    page.goto((tmp_path / "space" / "index.html").as_uri() + f"#run={examples[0].name}")
    shown(page, examples[0].name)
