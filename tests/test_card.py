"""Figures in README and model card come from the committed bench result of the committed weights."""

import json

import pytest

from fovea_core.bench import card


def test_readme_and_card_show_the_committed_result():
    for path, text in card.cards().items():
        assert path.read_text() == text, f"{path.name} is out of date: python -m fovea_core bench card"


def test_committed_result_is_of_the_committed_weights():
    from fovea_core.fingerprint import fingerprint

    folder = card.ROOT / "assets" / "builtin"
    found = {name: fingerprint(folder / name) for name in ("target", "drafter", "blind")}
    for result, names in ((card.RESULT, {"target", "drafter", "blind"}), (card.FAITHFUL_RESULT, {"target", "drafter"})):
        models = json.loads(result.read_text())["models"]
        assert {name: model["fingerprint"] for name, model in models.items()} == {name: found[name] for name in names}


def test_block_is_replaced_and_nothing_else():
    text = f"a\n{card.START}\nold\n{card.END}\nb\n"
    assert card.with_block(text, "new") == f"a\n{card.START}\nnew\n{card.END}\nb\n"
    with pytest.raises(ValueError, match="not marked"):
        card.with_block("a", "new")
