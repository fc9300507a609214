"""The Lab's queue on a toy target: objectives written out, the policy phase, resuming, what is exported and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch

from fovea_core import cli
from fovea_core.targets import registry
from fovea_core.targets.shelf import trained_in
from fovea_core.train import lab, reinforce
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.lab import export_rows, read_results, rows_for, train_rows
from fovea_core.train.loss import LossWeights, Truth
from fovea_core.train.prefix import accepted, prefix_weights
from fovea_core.train.recipe import DrafterRecipe, inner_layer
from fovea_core.train.reinforce import RoutedTwin, chosen_logp, divergence, policy_loss
from fovea_core.train.samples import collate, load_samples
from fovea_core.train.twin import Twin, truth_of
from fovea_core.train.variants import ABLATIONS, ABSTRACT, RIVALS, ROWS
from tests.families import tiny
from tests.rival_toys import tapped_target, viewed_artifacts
from tests.test_train_drafter import request_for

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPE = DrafterRecipe(
    steps=4, batch=3, unroll=3, blocks=1, k_min=2, k_max=8, single_share=0.3, loss=LossWeights(middle=0.0), lr=1e-3
)
quiet = lambda line: None  # noqa: E731


@pytest.fixture(scope="module")
def target():
    return tapped_target()


@pytest.fixture(scope="module")
def artifacts(target, tmp_path_factory):
    return viewed_artifacts(target, tmp_path_factory.mktemp("artifacts"))


def truth_for(rows: torch.Tensor, labels: torch.Tensor) -> Truth:
    """A Truth of which only rows and labels matter."""
    return Truth(rows, *[torch.empty(0)] * 4, labels, *[torch.empty(0)] * 3)


def test_prefix_weights_are_the_derivative_of_the_expected_prefix():
    """By autograd of sum_t a_1 ... a_t; past the answer the probability is zero; tiny weights are raised to the least."""
    torch.manual_seed(1)
    shape, size, vocabulary = (2, 4, 3), 6, 5
    rows = torch.arange(24)[torch.rand(24) > 0.15]
    scoring, head = torch.randn(len(rows), size), torch.randn(vocabulary, size)
    labels = torch.randint(vocabulary, (len(rows),))
    probabilities = torch.softmax(scoring @ head.t(), -1)[torch.arange(len(rows)), labels]
    table = torch.zeros(24).scatter(0, rows, probabilities).view(shape).requires_grad_()
    table.cumprod(1).sum().backward()
    wanted = table.grad.reshape(-1)[rows].clamp_min(0.05)
    torch.testing.assert_close(prefix_weights(scoring, head, truth_for(rows, labels), shape, least=0.05), wanted)


def test_accepted_by_hand():
    hits = torch.tensor([True, True, True, False, True, True])
    rows = torch.tensor([0, 1, 2, 3, 4, 5])  # (1 sample, 3 steps, 2 bases)
    assert accepted(hits, truth_for(rows, rows), (1, 3, 2)).tolist() == [[3.0, 1.0]]
    assert accepted(hits[[1, 2, 4]], truth_for(rows[[1, 2, 4]], rows), (1, 3, 2)).tolist() == [[0.0, 1.0]]


def test_chosen_logp_by_enumeration():
    """Drawing two of four without putting back, in order: by hand, and all orders together are certain."""
    p = torch.tensor([0.5, 0.3, 0.2, 0.0])
    total = 0.0
    for first, second in itertools.permutations(range(3), 2):
        expected = float(p[first]) * float(p[second]) / (1 - float(p[first]))
        got = float(chosen_logp(p.log(), torch.tensor([first, second])).exp())
        assert got == pytest.approx(expected, rel=1e-5)
        total += got
    assert total == pytest.approx(1, rel=1e-5)
    assert float(chosen_logp(p.log(), torch.tensor([0, 3]))) == pytest.approx(math.log(0.5))
    q = torch.tensor([0.25, 0.25, 0.5, 0.0])
    expected = sum(a * math.log(a / b) for a, b in zip((0.5, 0.3, 0.2), (0.25, 0.25, 0.5)))
    assert float(divergence(p.log(), q.log())) == pytest.approx(expected, rel=1e-5)


def test_the_policy_phase_moves_the_router_to_what_is_accepted(target, artifacts, monkeypatch):
    """The gradient is the router's alone, and steps along it make choices of a larger accepted prefix likelier. Here one entry
    decides: a draft that may read it is accepted whole."""
    twin = RoutedTwin(
        "tiger", target, replace(RECIPE, steps=40), variant=replace(RIVALS["tiger"], rival={"source": "routed", "entries": 1})
    )
    batch = collate(load_samples(artifacts)[0][:2])
    truth = truth_of(batch, twin.drafter.head, 2)
    good, drawn, roots = 2, [], []
    before = {name: part.clone() for name, part in twin.drafter.state_dict().items()}
    settle = type(twin.drafter).settle

    def noting(self, states, given, every=False, chosen=None):
        roots.append(states)
        drawn.append(None if chosen is None else chosen[..., 0])
        return settle(self, states, given, every, chosen)

    monkeypatch.setattr(type(twin.drafter), "settle", noting)
    monkeypatch.setattr(reinforce, "accepted", lambda hits, truth, shape: (drawn[-1] == good).float() * 3)
    monkeypatch.setattr(reinforce, "GROUPS", 12)
    twin.tuning.param_groups[0]["lr"] = 5e-3

    @torch.no_grad()
    def chance() -> float:
        given = twin.drafter.given(batch.view)
        return float(twin.drafter.router(roots[0], given.asked, batch.valid)[..., good].exp()[batch.real].mean())

    draws, found = torch.Generator().manual_seed(0), []
    for _ in range(6):
        loss, reward = policy_loss(twin.drafter, twin.anchor, batch, truth, 2, draws)
        found.append(chance())
        assert 0 <= reward <= 3
        twin.drafter.zero_grad(set_to_none=True)
        loss.backward()
        with_gradient = {name for name, p in twin.drafter.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
        assert with_gradient and all(name.startswith("router.") for name in with_gradient)
        twin.tuning.step()
    assert chance() > 1.5 * found[0]
    after = twin.drafter.state_dict()
    assert all(torch.equal(part, before[name]) for name, part in after.items() if not name.startswith("router."))


def test_ablations_leave_out_what_they_say(target, artifacts):
    batch = collate(load_samples(artifacts)[0][:3])
    full = LossWeights(middle=0.0)
    for name, (field, value) in {"no-hidden": ("hidden", 0), "no-kl": ("kl", 0), "no-margin": ("compete", 0)}.items():
        assert Twin(name, target, RECIPE, variant=ABLATIONS[name]).weights == replace(full, **{field: value})
    blunt, flat = (Twin(name, target, RECIPE, variant=ABLATIONS[name]) for name in ("no-gate", "no-depth"))
    for step in range(3):
        truth = truth_of(batch, target.head, RECIPE.levels(step))
        for twin in (blunt, flat):
            twin.begin(step)
            twin.learn(batch, truth, step)
            twin.finish()
    gate = blunt.drafter.correction(torch.randn(2, 5, target.hidden_size), torch.randn(2, 5, target.hidden_size))[1]
    assert bool((gate == 1).all()) and not bool(flat.drafter.memory.depth.any())
    assert bool(flat.drafter.memory.query.weight.grad.any()) and bool(blunt.drafter.correction.f[2].weight.any())
    layers = {name: Twin(name, target, RECIPE, variant=ROWS[name]).drafter.config.memory_layer for name in ROWS}
    assert {name for name, layer in layers.items() if layer} == {"deep", "deep-look"} and layers["deep"] == inner_layer(target)


def test_every_row_is_trained_once(target, artifacts, tmp_path):
    """A line and a drafter for each row at the same steps and samples; a second call does nothing; ablations stay."""
    rows = rows_for(target)
    assert list(rows) == list(ROWS) and {rows[name].known for name in ("hawk", "tiger", "unilaspec")} == {ABSTRACT}
    train_rows(tmp_path, target, artifacts, rows, RECIPE, log=quiet)
    lines = read_results(tmp_path / "results.jsonl")
    assert [line["name"] for line in lines] == list(ROWS)
    assert {(line["steps"], line["samples"], line["cut"]) for line in lines} == {(4, lines[0]["samples"], False)}
    assert all(line["held_chain"] >= 1 for line in lines if line["held_accuracy"])
    assert set(trained_in(tmp_path / "rivals")) == set(ROWS)
    before = (tmp_path / "results.jsonl").read_bytes()
    train_rows(tmp_path, target, artifacts, rows, RECIPE, log=quiet)
    assert (tmp_path / "results.jsonl").read_bytes() == before
    shipped = [name for name in ROWS if name not in ABLATIONS]
    export_rows(tmp_path / "rivals", tmp_path / "out", shipped)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(shipped)
    with pytest.raises(ValueError, match="another target or length"):
        train_rows(tmp_path, target, artifacts, rows, replace(RECIPE, steps=5), log=quiet)


def test_exports_weigh_no_more_than_allowed(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / "from" / name).mkdir(parents=True)
        (tmp_path / "from" / name / "w").write_bytes(b"0" * 700)
    monkeypatch.setattr(lab, "EXPORT_BYTES", 1000)
    with pytest.raises(ValueError, match="would weigh"):
        export_rows(tmp_path / "from", tmp_path / "out", ["a", "b"])
    assert not (tmp_path / "out").exists()
    export_rows(tmp_path / "from", tmp_path / "out", ["a"])
    with pytest.raises(ValueError, match="would weigh"):  # what is there already counts
        export_rows(tmp_path / "from", tmp_path / "out", ["b"])
    export_rows(tmp_path / "from", tmp_path / "out", ["a"])


@pytest.mark.parametrize("name", ["tiger", "prefix"])
def test_an_interrupted_row_goes_on_bit_for_bit(target, artifacts, tmp_path, name, monkeypatch):
    """Killed in the middle, also of the policy phase: the same weights as without; its seconds go on, too."""
    recipe = replace(RECIPE, steps=6)
    rows = {name: replace(rows_for(target)[name], reinforce=0.5 if name == "tiger" else 0.0)}
    train_rows(tmp_path / "straight", target, artifacts, rows, recipe, log=quiet)
    follow, stops = lab.follow, iter((3, 5, None))

    def killed(trainer, **options):
        stop = next(stops)
        if stop is None:
            return follow(trainer, **options)
        while trainer.step < stop:
            trainer.advance()
        trainer.save()
        raise KeyboardInterrupt

    monkeypatch.setattr(lab, "follow", killed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train_rows(tmp_path / "halting", target, artifacts, rows, recipe, log=quiet)
    train_rows(tmp_path / "halting", target, artifacts, rows, recipe, log=quiet)
    one, two = ((tmp_path / way / "rivals" / name / "drafter.safetensors").read_bytes() for way in ("straight", "halting"))
    assert one == two
    line = read_results(tmp_path / "straight" / "results.jsonl")[0]
    assert ("warm_chain" in line) == (name == "tiger")


def test_a_row_ends_when_its_time_is_up(target, artifacts, tmp_path):
    train_rows(tmp_path, target, artifacts, rows_for(target, ["blind"]), RECIPE, minutes=0.0, log=quiet)
    line = json.loads((tmp_path / "results.jsonl").read_text())
    assert line["cut"] and line["steps"] == 0 and line["steps_wanted"] == 4


def test_unknown_rows_are_refused(target):
    with pytest.raises(ValueError, match="no row 'medusa'"):
        rows_for(target, ["medusa"])


def test_views_that_cannot_be_made_are_refused(target, tmp_path):
    """One sentence, and nothing is left behind: of a target with other pictures, of answers not given, of image tokens that
    stand elsewhere, be it in one batch or in two of a shard."""
    with pytest.raises(ValueError, match="one grid of cells only"):
        make_artifacts(tiny("qwen"), [], tmp_path / "qwen", views=True, log=quiet)
    assert not (tmp_path / "qwen").exists()
    asked = replace(request_for(target, 0, "hat?"), answer=[9, 10, 11])
    later = replace(request_for(target, 1, "hat?"), answer=[9, 10, 11])
    later = replace(later, prompt_ids=[later.prompt_ids[0], *later.prompt_ids])
    for wrong, said in ((replace(asked, answer=None), "given answers only"), (later, "same places")):
        for batch in (2, 1):
            folder = tmp_path / f"{said[:4]}-{batch}"
            with pytest.raises(ValueError, match=said):
                make_artifacts(target, [asked, wrong], folder, batch=batch, views=True, log=quiet)
            assert not list(folder.glob("part-*"))


def test_batches_of_a_step_add_up(target, artifacts, monkeypatch):
    """A step of two batches: in the policy phase, too, the router moves once, by half of each one's gradient."""
    samples, grads, chance = load_samples(artifacts)[0], [], torch.Generator()
    rewards = lambda hits, truth, shape: torch.rand(shape[0], shape[2], generator=chance)  # noqa: E731
    monkeypatch.setattr(reinforce, "accepted", rewards)
    batches = [collate(samples[:2]), collate(samples[2:4])]
    for share, chosen in ((1.0, batches[:1]), (0.5, batches)):
        twin = RoutedTwin("tiger", target, RECIPE, variant=replace(RIVALS["tiger"], reinforce=1.0))
        start = {name: part.clone() for name, part in twin.drafter.state_dict().items()}
        chance.manual_seed(1)
        twin.begin(0)
        for batch in chosen:
            parts = twin.learn(batch, truth_of(batch, target.head, RECIPE.levels(0)), 0, share)
            assert not parts.total.requires_grad
            grads.append(twin.drafter.router.query.weight.grad.clone())
        twin.finish()
        moved = {name for name, part in twin.drafter.state_dict().items() if not torch.equal(part, start[name])}
        assert moved and all(name.startswith("router.") for name in moved)
    torch.testing.assert_close(grads[1], grads[0] / 2, atol=0, rtol=1e-3)
    assert (grads[2] - grads[1]).abs().max() > 0.1 * grads[1].abs().max() > 0


def test_the_commands_say_what_is_wrong(target, tmp_path, monkeypatch, capsys):
    """One sentence, before anything is drawn or loaded."""
    monkeypatch.setattr(registry, "load_target", lambda *arguments: target)
    assert cli.main(["train-lab", "--work", str(tmp_path / "w"), "--only", "blind, medusa"]) == 2
    assert "There is no row 'medusa': fovea, blind, eagle3" in capsys.readouterr().err and not (tmp_path / "w").exists()
    published = tiny("vicuna")
    monkeypatch.setattr(registry, "load_target", lambda *arguments: published)
    assert cli.main(["train-lab", "--work", str(tmp_path / "w")]) == 2
    assert "does not know drawn pictures" in capsys.readouterr().err and not (tmp_path / "w").exists()
    assert cli.main(["bench", "table2", "--rivals", str(tmp_path / "none")]) == 2
    assert "There is no folder" in capsys.readouterr().err
