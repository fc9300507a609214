"""The doctor: a sound target passes, every kind of fault fails its own line, what passed is not examined again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from fovea_core.bench import first_look as first_look_module
from fovea_core.bench.doctor import QUESTION, TOKENS, Check, Health, _alike, examine
from fovea_core.bench.first_look import first_look, stamp_path
from fovea_core.cli import main
from fovea_core.decode.lookup import LookupDrafter
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.sibling import SiblingDrafter
from fovea_core.settings import make_settings
from fovea_core.targets import base
from fovea_core.targets.geometry import Layout
from tests.families import noise, tiny, tokenizer_of
from tests.toys import toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

COUNTS, TREE, GENERATE, CELLS = "placeholders", "a tree", "plain ids", "a bright cell"


def failures(health: Health) -> list[str]:
    return [check.name for check in health.failed]


def only(health: Health, name: str) -> bool:
    return len(health.failed) == 1 and health.failed[0].name.startswith(name)


@pytest.mark.parametrize("family", ["vicuna", "qwen", "smolvlm", "embedded"])
def test_a_sound_target_passes(family):
    """All checks, on every family: whole answers are compared though the target would end them, and a drafter is exact."""
    target = toy_target(cells=6) if family == "embedded" else tiny(family, spread=0.15)
    heard: list[Check] = []
    health = examine(target, LookupDrafter(), heard.append)
    assert not health.failed and heard == health.checks and health.sentence == f"{target.id}: checked on this machine."
    names = {check.name: check for check in health.checks}
    assert len(names) == 7 and names["time"].passed is names["memory"].passed is None
    assert set(names["time"].ms) == {"prefill", "token", "tree"} and not any(
        check.ms for check in health.checks if check.name != "time"
    )
    assert health.answer_s == pytest.approx((names["time"].ms["prefill"] + 60 * names["time"].ms["token"]) / 1e3)
    assert names[f"plain ids are those of generate() for {TOKENS} tokens"].detail == "32 the same, 32 the same"
    assert target.eos_ids, "the doctor keeps what it changes to itself"


def test_a_wrong_count_is_found(monkeypatch):
    """A layout that disagrees with the tower: the line says so, and so does every later one that needs a prompt."""
    target = tiny("qwen")
    right = target.layout

    def more(width, height):
        layout = right(width, height)
        return Layout(layout.text, [layout.entries + 1], layout.tiles, np.ones(layout.entries + 1, bool))

    monkeypatch.setattr(target, "layout", more)
    health = examine(target)
    assert failures(health)[0].startswith(COUNTS) and "otherwise than expected" in health.failed[0].detail


def test_boxes_that_miss_an_entry_are_found(monkeypatch):
    """Tiles that leave one valid entry without a box."""
    target = tiny("qwen", spread=0.15)
    right = target.layout

    def fewer(width, height):
        layout = right(width, height)
        tile = layout.tiles[0]
        shorter = tile.model_copy(update={"valid": [tile.rows * tile.columns - 1, 1]})
        return Layout(layout.text, layout.counts, [shorter], layout.valid)

    monkeypatch.setattr(target, "layout", fewer)
    health = examine(target)
    assert only(health, COUNTS) and "boxes for" in health.failed[0].detail


def test_a_wrong_mask_is_found(monkeypatch):
    right = base.tree_mask
    monkeypatch.setattr(base, "tree_mask", lambda *a: torch.zeros_like(right(*a)))
    assert only(examine(tiny("vicuna", spread=0.15)), TREE)


def test_wrong_positions_are_found(monkeypatch):
    """Positions on one axis, as a library that is not told about the picture takes them: the ids part from generate()'s."""
    target = tiny("qwen")
    monkeypatch.setattr(target, "positions", lambda layout, spans, length: None)
    health = examine(target)
    assert only(health, GENERATE) and "they differ at token" in health.failed[0].detail


def test_a_turned_picture_is_found(monkeypatch):
    """Boxes whose rows and columns are swapped: no bright cell is where they say."""
    target = tiny("qwen", spread=0.15)
    right = target.layout

    def turned(width, height):
        layout = right(width, height)
        tile = layout.tiles[0]
        swapped = tile.model_copy(update={"rows": tile.columns, "columns": tile.rows})
        return Layout(layout.text, layout.counts, [swapped], layout.valid)

    monkeypatch.setattr(target, "layout", turned)
    monkeypatch.setattr(target, "positions", lambda layout, spans, length: right_positions(layout, spans, length))

    def right_positions(layout, spans, length):
        tile = layout.tiles[0]
        straight = tile.model_copy(update={"rows": tile.columns, "columns": tile.rows})
        return type(target).positions(target, Layout(layout.text, layout.counts, [straight], layout.valid), spans, length)

    assert only(examine(target), CELLS)


def test_a_tie_is_no_difference_in_half_precision():
    """Ids that part where both tokens are equally good pass in bfloat16 and fail in float32; a wide gap always fails."""
    target, picture = tiny("qwen", spread=0.15), noise(60, 40)
    ours = decode_plain(target, picture, QUESTION, make_settings(max_new_tokens=6)).ids
    second = int(target.prefill(picture, QUESTION, ours[:3]).logits.topk(2).indices[1])
    assert _alike(target, picture, ours, ours) == (True, "6 the same")
    assert _alike(target, picture, ours, [*ours[:3], second])[0] is False
    assert _alike(target, picture, ours, ours[:4]) == (False, "6 tokens against 4")
    target.model.to(torch.bfloat16)
    half = type(target)(target.model, tokenizer_of("qwen"), target.processor, id="half")
    half.eos_ids = frozenset()
    with torch.no_grad():  # two tokens whose rows of the head are the same are always a tie
        best = int(half.prefill(picture, QUESTION).logits.argmax())
        half.model.lm_head.weight[best + 1] = half.model.lm_head.weight[best]
    ours = decode_plain(half, picture, QUESTION, make_settings(max_new_tokens=2)).ids
    assert ours[0] == best
    assert _alike(half, picture, ours, [best + 1, 0]) == (True, "0 the same, then a tie (0)")
    worst = int(half.prefill(picture, QUESTION).logits.argmin())
    assert _alike(half, picture, ours, [worst, 0])[0] is False


def test_a_check_that_raises_has_failed(monkeypatch):
    """The reason becomes the line's detail; the others are still made."""
    target = tiny("mistral", spread=0.15)
    monkeypatch.setattr(target, "generate", lambda *_: 1 / 0)
    health = examine(target)
    assert only(health, GENERATE) and "ZeroDivisionError" in health.failed[0].detail and len(health.checks) == 6
    assert "failed a check on this machine: plain ids" in health.sentence


def test_a_sibling_is_examined_with_its_target():
    target = tiny("smolvlm", spread=0.15)
    health = examine(target, SiblingDrafter(tiny("smolvlm", 1), target))
    assert not health.failed and "tau" in health.checks[-2].detail and health.drafter == "tiny-smolvlm-1"


# The first load


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A tiny checkpoint in a folder, and a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "tiny-vl"
    target = tiny("qwen", spread=0.15)
    target.model.save_pretrained(folder)
    tokenizer_of("qwen").save_pretrained(folder)
    target.processor.save_pretrained(folder)
    target.fingerprint = "mark"
    return folder, target


def test_the_first_look_is_the_only_one(published, monkeypatch):
    """Passed: stamped, and read from there. Another fingerprint, a damaged stamp: looked at again."""
    _, target = published
    looks = []
    real = first_look_module.examine
    monkeypatch.setattr(first_look_module, "examine", lambda target, **n: looks.append(target.fingerprint) or real(target, **n))
    said: list[str] = []
    first = first_look(target, said.append)
    assert len(said) == 1 and "First load" in said[0]
    assert first == first_look(target, said.append) and len(said) == 1 and looks == ["mark"] and stamp_path(target).is_file()
    stamp_path(target).write_text("{")
    assert not first_look(target).failed and looks == ["mark"] * 2
    target.fingerprint = "other"
    first_look(target)
    assert looks == ["mark", "mark", "other"]


def test_a_failed_look_leaves_no_stamp(published, monkeypatch):
    _, target = published
    monkeypatch.setattr(target, "generate", lambda *_: [1])
    assert first_look(target).failed and not stamp_path(target).exists()


def test_own_models_need_no_look():
    """The embedded target, and models in memory without a mark."""
    assert first_look(toy_target()) is None and first_look(tiny("qwen")) is None


def test_command(published, tmp_path, capsys, monkeypatch):
    """doctor: lines on stderr, the report as a file, exit code 0, or 1 where a check failed; decode tells of its look."""
    folder, target = published
    report = tmp_path / "report.json"
    assert main(["doctor", "--target", str(folder), "--drafter", "lookup", "--device", "cpu", "--json", str(report)]) == 0
    said = capsys.readouterr()
    assert said.err.count("  ok  ") == 5 and "tiny-vl: checked on this machine." in said.err and said.out == ""
    assert Health.model_validate(json.loads(report.read_text())).target == "tiny-vl"
    assert f"{folder} takes about 3 MB of memory (weights 1 MB" in said.err and "are free here." in said.err.splitlines()[0]
    assert main(["doctor", "--target", str(folder), "--device", "cpu", "--dtype", "bfloat16", "--json", "-"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["dtype"] == "bfloat16"
    assert main(["doctor", "--target", str(folder), "--dtype", "int8"]) == 2
    assert "dtype 'int8' is not possible: use auto, float32, bfloat16, float16." in capsys.readouterr().err
    picture = tmp_path / "p.png"
    noise(50, 40).save(picture)
    asked = ["decode", "--target", str(folder), "--image", str(picture), "--question", "what?"]
    assert main([*asked, "--device", "cpu", "--max-new-tokens", "4", "--tree", "2,1,3", "--json"]) == 0
    said = capsys.readouterr()
    assert "tiny-vl: checked on this machine." in said.err and json.loads(said.out)["same_ids"]
    assert "First load of tiny-vl" not in said.err  # the doctor's own command has looked
    monkeypatch.setattr(type(target), "generate", lambda *_: [1])
    assert main(["doctor", "--target", str(folder), "--device", "cpu"]) == 1
    assert "FAILED  plain ids" in capsys.readouterr().err


def test_targets_command(capsys, tmp_path, monkeypatch):
    """The list needs no model: ids with their drafters."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert main(["targets"]) == 0
    said = capsys.readouterr().out
    assert "is not on this machine: it is not in " in said and "models--Qwen--Qwen2.5-VL-7B-Instruct" in said
    assert "Qwen/Qwen2.5-VL-7B-Instruct" in said and "drafters: Qwen/Qwen2.5-VL-3B-Instruct, lookup, trie, none" in said
