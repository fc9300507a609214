"""Run control as two people see it: a place in the queue, and a turn that comes when the engine is done."""

from __future__ import annotations

from tests.ui.test_page import ask, open_tab, served, wait_status  # noqa: F401 (fixture)


def test_a_second_tab_waits_sees_its_place_and_does_not_wait_for_the_animation(served, new_page, tmp_path):  # noqa: F811
    """The first answer still plays at one round a second when the second one is already there."""
    served.may_load.set()
    served.drafter.delay_s = 0.25
    first, second = open_tab(served, new_page), open_tab(served, new_page)
    first.click(".fx-examples button >> nth=0")
    first.click(".fv-transport >> text=1/s")
    ask(first, tmp_path, tokens=24, question="first question?")
    wait_status(first, "^Answering")
    ask(second, tmp_path, tokens=5, question="second question?")
    assert "1 before you" in wait_status(second, "before you")
    served.drafter.delay_s = 0.0
    wait_status(first, "^Done: 24 tokens")
    wait_status(second, "^Done: 5 tokens")
    bar = first.locator(".fv input[type=range]").first
    assert int(bar.input_value()) < int(bar.get_attribute("max"))
    assert second.locator(".fv-question").text_content() == "second question?"
