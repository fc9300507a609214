"""Training by several processes that `accelerate launch` starts: the same artifacts and the same drafters as by one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fovea_core.cli import main
from fovea_core.settings import SettingsError
from fovea_core.targets.registry import load_target
from fovea_core.train.crew import ALONE, Crew, form_crew
from fovea_core.train.recipe import DrafterRecipe
from tests.crew_work import HALF, RECIPE, RECIPES, work
from tests.families import tiny, tokenizer_of
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[1]
QUESTIONS = ("what is it?", "a red ball", "the worker wears an orange hat", "left of the green box", "hat?")
SIZES = ((60, 40), (90, 30), (40, 60))


def launch(module: str, *arguments: object) -> subprocess.CompletedProcess:
    """`accelerate launch` of two processes; on this CPU, since they ask for no other device."""
    how = {"num_processes": 2, "num_machines": 1, "mixed_precision": "no", "dynamo_backend": "no", "main_process_port": 0}
    options = ["--multi_gpu", *(f"--{name}={value}" for name, value in how.items())]
    command = [sys.executable, "-m", "accelerate.commands.launch", *options, "-m", module, *map(str, arguments)]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Eight questions about as many pictures; behind the fourth a file that is no picture."""
    place, rows = tmp_path_factory.mktemp("asked"), []
    for number in range(8):
        toy_picture(number, *SIZES[number % 3]).save(place / f"{number}.png")
        rows.append({"image": f"{number}.png", "question": QUESTIONS[number % 5]})
    (place / "bad.png").write_bytes(b"no picture")
    rows.insert(4, {"image": "bad.png", "question": "what?"})
    (place / "questions.json").write_text(json.dumps(rows))
    (place / "questions.jsonl").write_text("\n".join(json.dumps(row) for row in rows if row["image"] != "bad.png"))
    return place


@pytest.fixture(scope="module")
def both(folder) -> tuple[dict, list[dict]]:
    """What one process found, and what each of two did."""
    alone = work(folder, folder / "alone")
    ran = launch("tests.crew_work", folder)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return alone, [torch.load(folder / f"process-{number}.pt") for number in range(2)]


def test_each_process_answers_its_own_shards(folder, both):
    """No shard is made twice, and all hold the bits that one process writes; what one could not read, the main one tells."""
    alone, crew = both
    assert alone["made"] == [0, 3, 6] and [one["made"] for one in crew] == [[0, 6], [3]]
    for name in ("answers", "one"):
        ours, theirs = (sorted((folder / place / name).iterdir()) for place in ("alone", "crew"))
        assert [path.name for path in ours] == [path.name for path in theirs]
        for left, right in zip(ours, theirs):
            if left.suffix == ".safetensors":
                found, wanted = load_file(right), load_file(left)
                assert found.keys() == wanted.keys() and all(torch.equal(part, wanted[key]) for key, part in found.items())
            else:
                assert left.read_bytes() == right.read_bytes()
    assert [line for line in crew[0]["said"] if "request 4 (bad.png)" in line]


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_make_the_steps_of_one(both, name):
    """The same loss curve and weights at the same samples a step, within 1e-5; both processes hold the same bits."""
    alone, crew = both[0][name], [one[name] for one in both[1]]
    assert len(alone["curve"]) == RECIPE.steps
    for ours, theirs in zip(crew[0]["curve"], alone["curve"]):
        for twin, line in theirs.items():
            assert line["total"] > 0.1
            for key, value in line.items():
                assert ours[twin][key] == pytest.approx(value, abs=1e-5), key
    for key, part in alone["weights"].items():
        torch.testing.assert_close(crew[0]["weights"][key], part, atol=1e-5, rtol=0)
        assert torch.equal(crew[0]["weights"][key], crew[1]["weights"][key])
    assert crew[0]["curve"] == crew[1]["curve"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_crew_goes_on_where_it_was_ended(both, name):
    """Across a checkpoint that the main process wrote: bit for bit the weights of a straight run, in both."""
    assert 0 < HALF < RECIPE.steps
    for one in both[1]:
        assert all(torch.equal(part, one[name]["weights"][key]) for key, part in one[name]["resumed"].items())


def test_a_process_without_a_batch_takes_part(both):
    """One sample for two processes: the step is that of one, moments of the optimizer included."""
    for key, part in both[0]["lonely"].items():
        torch.testing.assert_close(both[1][1]["lonely"][key], part, atol=1e-5, rtol=0)


def test_only_the_main_process_logs_and_writes(folder, both):
    """Its log has a line a twin and step; the other one says nothing and names the same folders."""
    alone, (main_one, other) = both
    assert other["lines"] == [] and len(main_one["lines"]) == len(alone["lines"]) == 4
    assert (folder / "crew" / "whole" / "log.jsonl").read_text().splitlines() == main_one["lines"]
    assert main_one["folders"] == other["folders"] == ["drafter", "blind"]
    assert (folder / "crew" / "whole" / "drafter" / "fovea_drafter.json").is_file()


def test_the_command_in_two_processes(folder, tmp_path):
    """From pairs to drafters as by one process with the same samples a step; the log is one process's."""
    stored, target = tmp_path / "target", tiny("smolvlm", 0)
    for part in (target.model, tokenizer_of("smolvlm"), target.processor):
        part.save_pretrained(stored)
    options = ["train-drafter", "--target", stored, "--data", folder / "questions.jsonl", "--preset", "quick"]
    options += ["--epochs", 2, "--max-new-tokens", 8, "--no-autocast", "--rows", 4]
    ran = launch("fovea_core", *options, "--work", tmp_path / "two", "--batch", 2, "--export", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert main([*map(str, options), "--work", str(tmp_path / "one"), "--batch", "1", "--accumulate", "2"]) == 0
    ours, theirs = (torch.load(tmp_path / place / "drafters" / "last.pt") for place in ("two", "one"))
    assert ours["about"] == theirs["about"] and ours["step"] == theirs["step"] == 4
    for twin in ("drafter", "blind"):
        for key, part in theirs[twin]["model"].items():
            torch.testing.assert_close(ours[twin]["model"][key], part, atol=1e-5, rtol=0)
        assert (tmp_path / "out" / twin / "README.md").is_file()
    log = (tmp_path / "two" / "log.txt").read_text()
    assert log.count("8 pairs, 4 of them kept from training") == log.count("Shared by 2 processes") == 1
    assert log.count("drafter: tau") == log.count("blind: tau") == 1
    assert ran.stderr.count("The drafters are in") == 1
    assert load_target(str(stored)).fingerprint == theirs["about"]["target_fingerprint"]


def test_a_step_is_shared_in_equal_batches():
    """As many samples a step, as many batches in every process, none larger than the recipe's; else a sentence."""
    for batch, accumulate, processes, wanted in (
        (4, 4, 1, (4, 4)),
        (4, 4, 2, (4, 4)),
        (4, 4, 8, (2, 8)),
        (16, 1, 2, (8, 2)),
        (4, 3, 2, (3, 4)),
        (6, 1, 3, (2, 3)),
    ):
        fitted = DrafterRecipe(batch=batch, accumulate=accumulate).shared(processes)
        assert (fitted.batch, fitted.accumulate) == wanted
    with pytest.raises(SettingsError, match="multiple of 3"):
        DrafterRecipe(batch=16).shared(3)
    assert sorted(piece for number in range(3) for piece in range(10) if Crew(number, 3).does(piece)) == [*range(10)]
    assert all(ALONE.does(piece) for piece in range(10))


def test_several_processes_that_cannot_work_together(monkeypatch, tmp_path, capsys):
    """One sentence each: no accelerate, one GPU for all, more processes than GPUs, a command that one process does."""
    assert form_crew("cpu") == ALONE
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(SettingsError, match="2 processes needs the package accelerate, which is not here"):
        form_crew("cpu")
    with pytest.raises(SettingsError, match="cannot share cuda:1"):
        form_crew("cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SettingsError, match="2 processes here need a GPU each, and torch finds 1"):
        form_crew("cuda")
    for command in (["train-lab"], ["train-drafter"], ["train-target"]):
        assert main([*command, "--work", str(tmp_path / "work")]) == 2
        assert f"{command[0]}" in (said := capsys.readouterr().err) and "runs in one process, and 2 were started" in said
    assert not (tmp_path / "work").exists()


def test_without_accelerate_everything_else_runs():
    """The command line and a page are imported without it."""
    parts = "fovea_core.cli, fovea_core.engine, fovea_core.train.own, app.session"
    code = f"import sys; sys.modules['accelerate'] = None; import {parts}"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr[-2000:]
