"""Trained rivals: in training they are given what decoding gives them, the unroll equals their drafts, and whatever they draft
the ids are plain decoding's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fovea_core.bench.exact import Told
from fovea_core.decode.cost import measure
from fovea_core.decode.fovea import FoveaDrafter, load_drafter
from fovea_core.decode.load import measure_load
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.rival import TrainedRival, cell_numbers
from fovea_core.drafter.checkpoint import DrafterError, read_drafter, save_drafter
from fovea_core.drafter.rival import LOOKED, RivalConfig, RivalDrafter, grid_cells, pool_cells
from fovea_core.memory.rivals import vote
from fovea_core.settings import RunSettings, Shape
from fovea_core.targets.looking import Looking
from fovea_core.train.recipe import DrafterRecipe
from fovea_core.train.samples import collate, load_samples
from fovea_core.train.twin import Twin
from fovea_core.train.unroll import supervised, unroll
from fovea_core.train.variants import RIVALS
from tests.rival_toys import given_answers, tapped_target, viewed_artifacts
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPE = DrafterRecipe(steps=6, batch=4, unroll=4, blocks=1, k_min=2, k_max=8, lr=3e-3, warmup=0.2)
TREES = (Shape(depth=4, width=3, nodes=12), Shape(depth=5, width=1, nodes=6))


@pytest.fixture(scope="module")
def target():
    return tapped_target()


@pytest.fixture(scope="module")
def answers(target):
    return given_answers(target)


@pytest.fixture(scope="module")
def artifacts(target, tmp_path_factory):
    return viewed_artifacts(target, tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def batch(artifacts):
    return collate(load_samples(artifacts)[0])


def loose(name: str, target, recipe=RECIPE) -> Twin:
    """A row in training whose weights are far from their start, so that every part shows."""
    twin = Twin(name, target, recipe, variant=RIVALS[name])
    torch.manual_seed(12)
    with torch.no_grad():
        for parameter in twin.drafter.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.12)
    return twin


def loaded(drafter):
    return TrainedRival(drafter, "rival") if isinstance(drafter, RivalDrafter) else FoveaDrafter(drafter)


@torch.inference_mode()
def test_views_are_what_a_run_shows(target, answers, batch):
    """Positions, pooled states, the look at the prompt's end and the entries of each later look, as the run itself has them."""
    layers = (1, 2)
    for row, (picture, question, answer) in enumerate(answers):
        run = target.prefill(toy_picture(picture), question, answer, watch=layers)
        looking, view = Looking(run, exact=True), batch.view
        start = len(run.prompt_ids) - len(answer)
        assert view.at[row].tolist() == list(range(*run.spans[0]))
        torch.testing.assert_close(view.attended[row], looking.masses(start - 1).mean(0), atol=1e-3, rtol=1e-2)
        cells, present = pool_cells(looking.visual_states(), run.valid, cell_numbers(run.tiles, len(run.valid)))
        torch.testing.assert_close(view.cells[row], cells, atol=2e-2, rtol=1e-2)
        assert torch.equal(view.present[row], present)
        for base in range(len(answer) - 1):
            ranks = vote(looking.masses(start - 1 + base)).masked_fill(~run.valid, -torch.inf)
            # Ranks may tie up to rounding, so that another entry of the same rank is as good.
            best, mine = ranks.topk(LOOKED).values, ranks[view.looked[row, base]]
            torch.testing.assert_close(mine, best, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", list(RIVALS))
@torch.inference_mode()
def test_unroll_equals_decoding(target, answers, batch, name):
    """States of every step of every base equal those of a draft run that committed the text up to the base and drafted the same
    path: what stands in the context, what is read, and what goes on to the children."""
    twin, steps, checked = loose(name, target), 4, 0
    drafter = twin.drafter
    how = twin.how(batch, twin.policy(5), None)
    states, _ = unroll(drafter, batch, steps, how.given, how.settle, how.feed)
    mask, rival = supervised(batch, steps), loaded(drafter)
    for b, (picture, question, answer) in enumerate(answers):
        whole = target.prefill(toy_picture(picture), question, answer)
        tokens, hidden, positions = whole.text_prompt()
        assert tokens.tolist() == batch.tokens[b, : len(tokens)].tolist()
        for a in range(int(batch.real[b].sum())):
            at = int(batch.base[b, a]) + 1
            said = answer[: a + 1]
            # The look of a round is that of the token that predicted its root, here the last of the run's prompt.
            read = said[:-1] if twin.variant.rival.get("source") == "watched" else []
            run = target.prefill(toy_picture(picture), question, read, watch=(1, 2))
            made = rival.start(run, RunSettings(detail="rounds"))
            made.extend(tokens[:at], hidden[:at], positions[:at])
            if twin.variant.rival.get("parallel"):
                levels = int(mask[b, :, a].sum())
                wanted = torch.log_softmax(drafter.logits(drafter.norm(states[b, :levels, a])), -1)
                torch.testing.assert_close(made._positions(levels), wanted, atol=5e-3, rtol=1e-3)
                checked += levels
                continue
            state = made.root
            for s in range(steps):
                if not mask[b, s, a]:
                    break
                if s:
                    state = made._level(tokens[at + s - 1 : at + s], made.folded.normed(state), s, None)
                # The artifacts are float16.
                torch.testing.assert_close(states[b, s, a], state[0], atol=3e-2, rtol=1e-2)
                checked += 1
    assert checked > 30


@pytest.mark.parametrize("name", list(RIVALS))
def test_lossless(target, name):
    """Greedy and sampled ids are plain decoding's for a tree and a chain, although many drafted tokens are accepted."""
    rival, accepted = loaded(loose(name, target).drafter), 0
    for number, tree in enumerate(TREES):
        for temperature in (0.0, 0.8):
            settings = RunSettings(max_new_tokens=12, tree=tree, temperature=temperature, seed=number)
            image = toy_picture(number + 3, 90, 50)
            plain = decode_plain(target, image, "a hat?", settings).ids
            *_, finished = decode(target, Told(rival, plain, number, share=0.8), image, "a hat?", settings)
            assert finished.ids == plain
            accepted += finished.accepted
    assert accepted > 8


@pytest.mark.parametrize("name", list(RIVALS))
def test_its_price_can_be_measured_and_the_tree_that_pays_is_lossless(target, name):
    """Also of those that ask where the target looks, or for its states at the picture: what is measured has to watch, too."""
    rival = loaded(loose(name, target).drafter)
    table, settings = measure(target, rival), RunSettings(max_new_tokens=12)
    assert table.level_ms > 0 and table.chain_level_ms > 0 and table.round_ms > 0
    plain = decode_plain(target, toy_picture(3), "a hat?", settings).ids
    *_, finished = decode(target, rival, toy_picture(3), "a hat?", settings, cost=table)
    assert finished.ids == plain
    assert measure_load(target, rival, (1, 2)).tables[2].level_ms > 0


@pytest.mark.parametrize("name", ["prefix", "hawk", "unilaspec"])
def test_a_draft_asked_for_twice_is_the_same(target, name):
    run = target.prefill(toy_picture(1), "hat?", watch=(1, 2))
    made = loaded(loose(name, target).drafter).start(run, RunSettings())
    made.extend(*run.first_news(int(run.logits.argmax())))
    one, two = made.propose(TREES[0]), made.propose(TREES[0])
    assert torch.equal(one.tokens, two.tokens) and torch.equal(one.parents, two.parents)
    assert torch.equal(one.logp, two.logp) and one.size == 12


@torch.no_grad()
def test_image_tokens_kept(target, batch):
    """In training as many as the drawn share says, valid ones in the order of the picture; else those looked at most."""
    for name, share in (("prefix", torch.tensor([0.3, 1.0, 0.25, 0.6, 0.9, 0.5])), ("dream", None)):
        drafter = loose(name, target).drafter
        given = drafter.given(batch.view, share, torch.Generator().manual_seed(3))
        for row in range(6):
            count = max(1, int(int(batch.valid[row].sum()) * (0.75 if share is None else float(share[row])) + 1e-4))
            at = given.ahead_at[row][given.ahead_ok[row]].tolist()
            assert len(at) == count and at == sorted(set(at))
            entries = [position - 1 for position in at]
            assert bool(batch.valid[row][entries].all())
            if share is None:
                looked = batch.view.attended[row].masked_fill(~batch.valid[row], -1)
                assert looked[entries].min() >= looked.sort(descending=True).values[count - 1]
            torch.testing.assert_close(given.ahead[row, :count], drafter.see(batch.features[row, entries]))


def test_cells_by_hand():
    """2 x 2 cells of a grid with an odd side; means over valid entries only, an empty cell is absent."""
    assert grid_cells(3, 3).tolist() == [0, 0, 1, 0, 0, 1, 2, 2, 3]
    valid = torch.ones(9, dtype=torch.bool)
    valid[[1, 8]] = False
    states = torch.arange(18.0).reshape(1, 9, 2)
    cells, present = pool_cells(states, valid, grid_cells(3, 3))
    assert present.tolist() == [True, True, True, False]
    assert cells[0, 0].tolist() == pytest.approx([14 / 3, 17 / 3]) and cells[0, 3].tolist() == [0, 0]


@torch.no_grad()
def test_a_router_reads_its_entries_only(target, batch):
    """With eight chosen the others may be anything; with all of them read, they matter."""
    drafter, roots = loose("tiger", target).drafter, torch.randn(6, 2, target.hidden_size)
    given = drafter.given(batch.view)
    for every in (False, True):
        settled = drafter.settle(roots, given, every)
        kept = (settled.bias > -torch.inf).sum(-1)
        assert (kept == (batch.valid.sum(-1, keepdim=True) if every else 8)).all()
        noise = torch.where((settled.bias[:, :1] == -torch.inf).transpose(1, 2)[:, None], 9.0, 0.0)
        changed = replace(settled, values=settled.values + noise)
        same = torch.equal(drafter.look(roots, settled)[:, 0], drafter.look(roots, changed)[:, 0])
        assert same and (every or noise.any())


def test_saved_and_refused(target, tmp_path):
    """A folder with a kind is a rival's; another target's, an unknown setting or a missing tensor is one sentence."""
    for name in RIVALS:
        drafter = loose(name, target).drafter
        folder = save_drafter(tmp_path / name, drafter, torch.float32)
        back = load_drafter(folder, target)
        assert type(back) is type(loaded(drafter)) and back.id == name and back.config == drafter.config
        assert all(torch.equal(a, b) for a, b in zip(back.drafter.state_dict().values(), drafter.state_dict().values()))
    stranger = save_drafter(
        tmp_path / "stranger",
        RivalDrafter(read_drafter(tmp_path / "hawk").config.model_copy(update={"target_fingerprint": "0" * 64})),
    )
    with pytest.raises(DrafterError, match="belongs to another target"):
        load_drafter(stranger, target)
    config = tmp_path / "hawk" / "fovea_drafter.json"
    config.write_text(config.read_text().replace('"cells"', '"everything"'))
    with pytest.raises(DrafterError, match="wrong config: source"):
        load_drafter(tmp_path / "hawk", target)
    with pytest.raises(ValueError, match="layers are mixed for cells"):
        RivalConfig(**loose("tiger", target).drafter.config.model_dump() | {"layers": 2})
