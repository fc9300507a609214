"""A drafter for a target of one's own: answers of every family against single runs, resuming, overfitting, the command."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from fovea_core.cli import main
from fovea_core.decode.fovea import load_drafter
from fovea_core.decode.plain import decode_plain
from fovea_core.drafter.checkpoint import DrafterError
from fovea_core.pictures import open_picture
from fovea_core.settings import RunSettings, SettingsError
from fovea_core.targets.registry import load_target
from fovea_core.train import artifacts as making
from fovea_core.train import plan as planning
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import PictureRequest
from fovea_core.train.drafter import DrafterTrainer
from fovea_core.train.loss import LossWeights
from fovea_core.train.plan import Plan
from fovea_core.train.recipe import DrafterRecipe
from fovea_core.train.samples import collate, load_samples
from fovea_core.train.scalars import Scalars
from fovea_core.train.twin import Twin, truth_of
from fovea_core.train.variants import TWINS
from tests.families import tiny, tokenizer_of
from tests.toys import toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTIONS = ("what is it?", "a red ball", "the worker wears an orange hat", "left of the green box", "hat?")
#: Sizes that give the families different numbers of image tokens.
SIZES = ((60, 40), (90, 30), (40, 60))
FAMILIES = ("qwen", "smolvlm", "vicuna", "toy")
QUIET = {"log": lambda line: None}


def make_target(family: str, seed: int = 3):
    target = toy_target(seed) if family == "toy" else tiny(family, seed)
    target.fingerprint = f"{family}-{seed}"
    return target


@pytest.fixture(scope="module")
def requests(tmp_path_factory) -> list[PictureRequest]:
    """Two questions each about six pictures of three sizes; behind the seventh a file that is no picture."""
    folder = tmp_path_factory.mktemp("pictures")
    made = []
    for number in range(6):
        path = folder / f"{number}.png"
        toy_picture(number, *SIZES[number % 3]).save(path)
        made += [PictureRequest(path, QUESTIONS[number % 5]), PictureRequest(path, QUESTIONS[(number + 2) % 5])]
    (folder / "bad.png").write_bytes(b"no picture")
    return [*made[:7], PictureRequest(folder / "bad.png", "what?"), *made[7:]]


@pytest.mark.parametrize("family", FAMILIES)
def test_artifacts_equal_single_runs(family, requests, tmp_path):
    """Answers of batches of different pictures are plain decoding's; states, positions, features and h~^T those of one forward
    over prompt and answer. The file that is no picture is left out and told, and its number stays free."""
    target, said = make_target(family), []
    folder = make_artifacts(target, requests, tmp_path, shard=6, batch=4, max_new_tokens=9, log=said.append)
    assert [line for line in said if "request 7 (bad.png)" in line]
    numbers = [n for path in sorted(folder.glob("part-*")) for n in load_file(path)["numbers"].tolist()]
    assert numbers == [*range(7), *range(8, 13)]
    samples = {sample.number: sample for part in load_samples(folder, held={2, 3})[:2] for sample in part}
    assert len(samples) > 8
    lengths = {sample.features.shape[0] for sample in samples.values()}
    assert len(lengths) > 1 or family == "toy"
    for number, sample in samples.items():
        image, question = open_picture(requests[number].image).rgb, requests[number].question
        answer = sample.tokens[sample.prompt :].tolist()
        assert answer == decode_plain(target, image, question, RunSettings(max_new_tokens=9)).ids
        run = target.prefill(image, question, answer=answer[:-1], watch=(1,))
        start = len(run.prompt_ids) - len(answer) + 1
        tokens, states, positions = run.text_prompt()
        assert sample.tokens[:-1].tolist() == tokens.tolist()
        assert sample.positions[:-1].tolist() == positions.tolist() and sample.positions[-1] == positions[-1] + 1
        torch.testing.assert_close(sample.states[:-1].float(), states, atol=2e-2, rtol=2e-3)
        torch.testing.assert_close(sample.states[-1].float(), run.hidden[-1], atol=2e-2, rtol=2e-3)
        torch.testing.assert_close(sample.features.float(), run.features, atol=2e-2, rtol=2e-3)
        assert torch.equal(sample.valid, run.valid)
        torch.testing.assert_close(sample.mid.float(), run.entered[0, start:], atol=2e-2, rtol=2e-3)  # 3 layers: only state 1


@pytest.mark.parametrize("family", ["qwen", "smolvlm"])
def test_a_killed_run_goes_on_at_the_next_shard(family, requests, tmp_path, monkeypatch):
    """Killed in its second shard, it answers nothing twice and ends with the bits of a straight run; another set is refused."""
    target, how = make_target(family), {"shard": 5, "batch": 3, "max_new_tokens": 6, "about": {"data": "a"}, **QUIET}
    straight = make_artifacts(target, requests, tmp_path / "straight", **how)
    real, seen = making.answer_shard, []

    def killed(worker, wanted, batch, most, first):
        seen.append(first)
        if first and len(seen) == 2:
            raise KeyboardInterrupt
        return real(worker, wanted, batch, most, first)

    monkeypatch.setattr(making, "answer_shard", killed)
    with pytest.raises(KeyboardInterrupt):
        make_artifacts(target, requests, tmp_path / "killed", **how)
    resumed = make_artifacts(target, requests, tmp_path / "killed", **how)
    assert seen == [0, 5, 5, 10]
    for path in straight.glob("*.safetensors"):
        ours, theirs = load_file(resumed / path.name), load_file(path)
        assert ours.keys() == theirs.keys() and all(torch.equal(part, theirs[name]) for name, part in ours.items())
    with pytest.raises(ValueError, match="other settings"):
        make_artifacts(target, requests, tmp_path / "killed", **{**how, "about": {"data": "b"}})
    with pytest.raises(ValueError, match="another target"):
        make_artifacts(make_target(family, 4), requests, tmp_path / "killed", **how)


RECIPE = DrafterRecipe(
    steps=40,
    batch=4,
    unroll=3,
    k_min=2,
    k_max=8,
    lr=6e-3,
    warmup=0.1,
    schedule="constant",
    optimizer="adamw",
    single_share=0.0,
    dense_share=0.2,
    loss=LossWeights(relative=False),
)


@pytest.fixture(scope="module")
def four(requests, tmp_path_factory):
    """Targets with artifacts of four requests, by family."""
    made = {}
    for family in ("qwen", "smolvlm", "toy"):
        target = make_target(family)
        folder = make_artifacts(target, requests[:4], tmp_path_factory.mktemp(family), max_new_tokens=10, **QUIET)
        made[family] = target, folder
    return made


@pytest.mark.parametrize(
    ("family", "ways"), [("qwen", {}), ("smolvlm", {"autocast": True}), ("toy", {"accumulate": 2, "batch": 2})]
)
def test_overfits_four_samples(four, tmp_path, family, ways):
    """The loss falls to a third and the twins draft their four answers: in float32, in bfloat16, and in two batches a step."""
    target, folder = four[family]
    trainer = DrafterTrainer(target, folder, tmp_path, "both", replace(RECIPE, **ways), held=())
    first = trainer.advance()
    while trainer.step < RECIPE.steps:
        last = trainer.advance()
    for name in TWINS:
        assert last[name]["total"] < 0.35 * first[name]["total"]
        assert min(last[name]["accuracy"]) > 0.9 > max(first[name]["accuracy"])


def test_resumed_training_equals_a_straight_run(four, tmp_path):
    """With accumulated batches, across a checkpoint: bit for bit the weights of a straight run."""
    target, folder = four["qwen"]
    recipe = replace(RECIPE, steps=4, batch=2, accumulate=2)
    straight = DrafterTrainer(target, folder, tmp_path / "straight", "both", recipe, held=())
    half = DrafterTrainer(target, folder, tmp_path / "half", "both", recipe, held=())
    for _ in range(4):
        straight.advance()
    for _ in range(2):
        half.advance()
    half.save()
    resumed = DrafterTrainer(target, folder, tmp_path / "half", "both", recipe, held=())
    assert resumed.step == 2
    for _ in range(2):
        resumed.advance()
    for ours, theirs in zip(resumed.twins, straight.twins):
        assert all(torch.equal(part, theirs.drafter.state_dict()[name]) for name, part in ours.drafter.state_dict().items())


def test_accumulated_gradients_are_the_mean_of_the_batches(four):
    """Two batches of a step leave half of each one's own gradient."""
    target, folder = four["qwen"]
    samples = load_samples(folder, ())[0]
    batches = [collate(samples[:1]), collate(samples[1:3])]
    grads = []
    for chosen, share in ((batches[:1], 1.0), (batches[1:], 1.0), (batches, 0.5)):
        twin = Twin("drafter", target, RECIPE)
        twin.begin(0)
        for batch in chosen:
            twin.learn(batch, truth_of(batch, twin.drafter.head, 3), 0, share)
        grads.append(twin.drafter.fc.weight.grad)
    torch.testing.assert_close(grads[2], (grads[0] + grads[1]) / 2, atol=1e-6, rtol=1e-4)
    assert not torch.allclose(grads[0], grads[1], atol=1e-4)


def test_padded_pictures_change_nothing(four):
    """A sample's states read the same entries whether a larger picture stands in its batch or not."""
    target, folder = four["smolvlm"]
    samples = load_samples(folder, ())[0]
    small, large = min(samples, key=lambda s: s.features.shape[0]), max(samples, key=lambda s: s.features.shape[0])
    assert small.features.shape[0] < large.features.shape[0]
    drafter = Twin("drafter", target, RECIPE).drafter
    alone, both = collate([small]), collate([small, large])
    states = torch.randn(1, 5, target.hidden_size)
    read = [
        drafter.remember(b.features, b.valid).scores(states.expand(b.features.shape[0], -1, -1), 0)[0] for b in (alone, both)
    ]
    count = small.features.shape[0]
    torch.testing.assert_close(read[1][:, :count], read[0])
    assert torch.isinf(read[1][:, count:]).all()


# The command.


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two tiny checkpoints of one family as the hub has them."""
    folders = []
    for seed in (0, 1):
        folder, target = tmp_path_factory.mktemp(f"smolvlm-{seed}"), tiny("smolvlm", seed)
        for part in (target.model, tokenizer_of("smolvlm"), target.processor):
            part.save_pretrained(folder)
        folders.append(folder)
    return folders


@pytest.fixture
def data(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    rows = []
    for number in range(8):
        toy_picture(number, *SIZES[number % 3]).save(place / f"{number}.png")
        rows.append({"image": f"{number}.png", "question": QUESTIONS[number % 5]})
    (place / "questions.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"image": "gone.png", "question": "what?"}])))
    return place


def command(target, data, work, *more) -> int:
    options = ["--target", target, "--data", data, "--work", work, "--preset", "quick", "--epochs", "2", "--batch", "2"]
    return main(["train-drafter", *map(str, [*options, "--max-new-tokens", "8", *more])])


def test_the_command_from_pairs_to_drafters(stored, data, tmp_path, capsys, monkeypatch):
    """A dry run measures and leaves nothing but its log; the run writes both twins with cards; they decode for their target and
    are refused by another; a second call has nothing left to do and says the same."""
    work, export = tmp_path / "work", tmp_path / "export"
    monkeypatch.setattr(planning, "STEPS", 4)
    real, made = DrafterTrainer.advance, []
    monkeypatch.setattr(DrafterTrainer, "advance", lambda trainer: made.append(trainer.step) or real(trainer))
    assert command(stored[0], data, work, "--dry-run") == 0
    said = capsys.readouterr().err
    assert len(made) == 4 and "20 requests and 4 steps" in said
    assert all(word in said for word in ("answers ", "training ", "disk ", "memory "))
    assert "entries skipped whose picture is not there: 1" in said
    assert [path.name for path in work.iterdir()] == ["log.txt"]
    assert command(stored[0], data, work, "--export", export) == 0
    said = capsys.readouterr().err
    target = load_target(str(stored[0]))
    for name in TWINS:
        facts = load_drafter(export / name, target).config.provenance
        card = (export / name / "README.md").read_text()
        assert facts["tau"] >= 1 and facts["tau_requests"] == 4 and facts["same_ids"] == "4 of 4"
        assert facts["pairs"] == 8 and facts["skipped"] == 1 and facts["trained_steps"] == 4
        assert f"| tau, bonus counted | {facts['tau']} |" in card and target.fingerprint in card
        assert f"{name}: tau {facts['tau']:.3f}" in said
    with pytest.raises(DrafterError, match="another target"):
        load_drafter(export / "drafter", load_target(str(stored[1])))
    before = {path: path.read_bytes() for path in export.rglob("*.safetensors")}
    assert command(stored[0], data, work, "--export", export) == 0
    assert before == {path: path.read_bytes() for path in export.rglob("*.safetensors")}
    assert "for 0 requests" in capsys.readouterr().err
    assert command(stored[1], data, work) == 2
    assert "another target" in capsys.readouterr().err


def test_options_that_do_not_go_together(stored, data, tmp_path, capsys):
    for more, said in (
        (["--steps", "3"], "--steps and --data"),
        (["--preset", "best"], "no preset"),
        (["--pairs", "0"], "pairs 0"),
        (["--look", "0.3"], "--look and --data"),
        (["--blocks", "0"], "--blocks 0 is not possible"),
        (["--reach", "9"], "--reach and --data"),
        (["--reach", "5"], "--reach 5 is not possible"),
        (["--memory-layer", "-1"], "must not be negative"),
        (["--memory-layer", "9"], "has no layer 9"),
    ):
        assert command(stored[0], data, tmp_path, *more) == 2
        assert said in capsys.readouterr().err
    assert main(["train-drafter", "--work", str(tmp_path), "--dry-run"]) == 2
    assert "name --data" in capsys.readouterr().err
    assert main(["train-drafter", "--work", str(tmp_path), "--target", str(stored[0])]) == 2
    assert "does not know drawn pictures" in capsys.readouterr().err


def test_a_full_disk_is_said_before(tmp_path):
    plan = Plan(requests=9, rows=3, answers_s=60, steps=5, training_s=7200, disk=1, memory=10**9, device="x")
    plan.check(tmp_path)
    assert any("2.0 hours" in line for line in plan.lines)
    with pytest.raises(SettingsError, match="choose another --work"):
        replace(plan, disk=10**18).check(tmp_path)


def test_scalars_go_to_tensorboard_where_it_is(tmp_path, monkeypatch):
    """Numbers under the twin's name, lists a number each; without the package nothing is written."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    scalars = Scalars(tmp_path)
    scalars.add({"twin": "blind", "step": 3, "total": 1.5})
    scalars.close()
    assert not list(tmp_path.iterdir())
    written = []
    writer = SimpleNamespace(add_scalar=lambda *values: written.append(values), close=lambda: written.append("closed"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=lambda folder: writer))
    scalars = Scalars(tmp_path)
    scalars.add({"twin": "blind", "step": 3, "total": 1.5, "accuracy": [0.5, 0.25], "before": "x"})
    scalars.close()
    assert written == [("blind/total", 1.5, 3), ("blind/accuracy/1", 0.5, 3), ("blind/accuracy/2", 0.25, 3), "closed"]
