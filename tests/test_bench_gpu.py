"""``bench gpu``: whole at a toy's size on a CPU; the 7B shapes without weights. Times themselves are never tested."""

from __future__ import annotations

import json

import pytest
import torch

from fovea_core import cli
from fovea_core.bench import gpu, shapes
from fovea_core.bench.report import gpu_rows
from fovea_core.settings import PAPER_SHAPE
from fovea_core.targets.base import TargetRun

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def toy_sizes(monkeypatch):
    """A few repeats over 48 entries, text models of two layers."""
    for name, value in {"ENTRIES": 48, "GRID": (6, 8), "WARM_UPS": 0, "REPEATS": 2}.items():
        monkeypatch.setattr(gpu, name, value)
    for family, (name, large, little) in list(shapes.SHAPES.items()):
        tiny = little | {"vocab_size": 1_024, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
        monkeypatch.setitem(shapes.SHAPES, family, (name, large, tiny))


def test_the_command_on_a_cpu(capsys, tmp_path):
    """It says 'CPU, small shape', gives every figure for both families, and their speedups agree with their times."""
    file = tmp_path / "gpu.json"
    assert cli.main(["bench", "gpu", "--json", str(file)]) == 0
    result, said = json.loads(file.read_text()), capsys.readouterr().err
    assert result["shape"] == "CPU, small shape" and result["dtype"] == "float32" and "| CPU, small shape, float32 |" in said
    assert set(result["families"]) == {"llava_next", "qwen2_5_vl"} and result["tree"] == PAPER_SHAPE.model_dump()
    for figures in result["families"].values():
        for length in ("2.0", "3.0", "3.9", "4.5"):
            wanted = float(length) * figures["plain_ms"] / figures["round_ms"]
            assert figures["speedup"][length] == pytest.approx(wanted)
        assert figures["pays_from"] * figures["speedup"]["2.0"] == pytest.approx(2.0)
        assert figures["memory_gib"] > 0 and figures["drafter_gib"] > 0 and figures["peak_gib"] is None
    rows = gpu_rows(result)
    assert all(len(cells) == 2 for _, cells in rows) and rows[-1][0] == "speedup at length 4.5"


@pytest.mark.parametrize("family", gpu.FAMILIES)
def test_half_precision(family):
    """The whole measurement runs in bfloat16 as it does on a GPU, but for the device."""
    figures = gpu.measure_family(family, True, CPU, torch.bfloat16)
    assert all(figures[key] > 0 for key in ("plain_ms", "draft_ms", "select_ms", "verify_ms", "round_ms"))
    single = gpu.measure_family(family, True, CPU, torch.float32)
    assert figures["drafter_gib"] == pytest.approx(single["drafter_gib"] / 2)


@pytest.mark.parametrize("family", gpu.FAMILIES)
def test_every_repeat_reads_the_same(family):
    """Plain steps and rounds leave caches, root and draft as they were: the second round is the first one."""
    with torch.inference_mode():
        target = shapes.random_target(family, True, CPU, torch.float32)
        run = TargetRun(target, gpu.a_prompt(target))
        assert run.cache.committed == len(run.prompt_ids) == 48 + gpu.BEFORE + gpu.BEHIND and run.features.shape[0] == 48
        drafter = gpu.a_drafter(target)
        drafting = drafter.start(run, gpu.SETTINGS)
        drafting.extend(*run.first_news(7))
        rounds = gpu.Rounds(run, drafting)
        first, token = rounds.draft, gpu.plain_step(run)
        assert first.size == PAPER_SHAPE.nodes and [depth for _, depth in rounds.levels()] == [0, 1]
        assert len(rounds.chosen()[1][1]) == PAPER_SHAPE.width
        for _ in range(2):
            rounds.round()
            assert torch.equal(rounds.draft.tokens, first.tokens) and torch.equal(rounds.draft.parents, first.parents)
        assert gpu.plain_step(run) == token and run.cache.committed == len(run.prompt_ids)


def test_qwen_counts_on_three_axes():
    """The positions are those of a picture of that grid: text behind it counts on from the longer side."""
    target = shapes.random_target("qwen2_5_vl", True, CPU, torch.float32)
    positions = gpu.a_prompt(target).positions
    assert positions.shape == (3, 48 + gpu.BEFORE + gpu.BEHIND)
    assert positions[:, gpu.BEFORE].tolist() == [gpu.BEFORE] * 3
    assert positions[:, gpu.BEFORE + 47].tolist() == [gpu.BEFORE, gpu.BEFORE + 5, gpu.BEFORE + 7]
    assert positions[:, gpu.BEFORE + 48].tolist() == [gpu.BEFORE + 8] * 3


@pytest.mark.parametrize(("family", "billions"), [("llava_next", 6.74), ("qwen2_5_vl", 7.61)])
def test_the_large_shapes_are_those_of_7b_models(family, billions):
    """Parameters of the text model, head included, without making any: LLaMA-7B's 6.74 and Qwen2.5-7B's 7.61 billion."""
    target = shapes.random_target(family, False, torch.device("meta"), torch.bfloat16)
    text = gpu.count(target.model.model.language_model) + target.head.numel()
    assert text == pytest.approx(billions * 1e9, rel=0.005)
    assert target.head.dtype == torch.bfloat16
