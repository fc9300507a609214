"""The parts of decoding one by one: sampler, verification, trimming and choosing drafts, cost table."""

from __future__ import annotations

import itertools
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fovea_core.decode import cost as cost_module
from fovea_core.decode.choose import Chooser, verify_costs
from fovea_core.decode.cost import SIZES, cost_table, measure
from fovea_core.decode.loop import _news, decode
from fovea_core.decode.plain import decode_plain, plain_steps
from fovea_core.decode.sampling import choose, draw, uniform, warped
from fovea_core.decode.tree import Draft, Read, chain, keep_nodes, root_only
from fovea_core.decode.verify import verify
from fovea_core.settings import Shape, make_settings
from fovea_core.trace.events import CostTable
from fovea_core.trace.laws import checked
from tests.toys import ScriptDrafter, coin, oracle, sibling, toy_picture, toy_target, wrong

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
#: Critical values of chi-square for p = 1e-4 by degrees of freedom.
CHI_SQUARE = {1: 15.14, 2: 18.42, 3: 21.11, 4: 23.51, 5: 25.74, 19: 51.94}


@pytest.fixture(scope="module")
def target():
    return toy_target()


# The sampler

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, 0.5])


def by_hand(temperature: float, top_p: float) -> list[float]:
    """Softmax at a temperature, then tokens in falling order until their mass reaches top_p; plain Python."""
    weights = [np.exp(x / temperature) for x in LOGITS.tolist()]
    masses = [w / sum(weights) for w in weights]
    kept, total = set(), 0.0
    for token in sorted(range(6), key=lambda t: (-masses[t], t)):
        if total >= top_p:
            break
        kept.add(token)
        total += masses[token]
    return [mass / total if token in kept else 0.0 for token, mass in enumerate(masses)]


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_chi_square_of_the_sampler(temperature, top_p):
    """100,000 draws from six hand-made logits fit the hand-made distribution (p > 1e-4); impossible tokens never come."""
    expected = np.array(by_hand(temperature, top_p))
    ours = warped(LOGITS, temperature, top_p)
    assert ours.numpy() == pytest.approx(expected, abs=1e-12)
    numbers = torch.rand(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    counts = np.bincount(draw(ours, numbers).numpy(), minlength=6)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    wanted = 100_000 * expected[possible]
    statistic = ((counts[possible] - wanted) ** 2 / wanted).sum()
    assert possible.sum() == 1 or statistic < CHI_SQUARE[int(possible.sum()) - 1]


def test_chi_square_can_fail():
    """The same test refuses a sampler that ignores the temperature."""
    numbers = torch.rand(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    counts = np.bincount(draw(warped(LOGITS, 1.0, 1.0), numbers).numpy(), minlength=6)
    wanted = 100_000 * np.array(by_hand(1.1, 1.0))
    assert ((counts - wanted) ** 2 / wanted).sum() > CHI_SQUARE[5]


def test_uniform_numbers():
    """One number per (seed, position), in [0, 1), flat over positions, unrelated between seeds."""
    numbers = np.array([[uniform(seed, position) for position in range(4000)] for seed in (0, 1, 2**31 - 1)])
    assert uniform(1, 7) == uniform(1, 7) == numbers[1, 7] and len(np.unique(numbers)) == 12_000
    for row in numbers:
        counts = np.histogram(row, 20, (0, 1))[0]
        assert counts.sum() == 4000 and ((counts - 200) ** 2 / 200).sum() < CHI_SQUARE[19]
    assert abs(np.corrcoef(numbers)[0, 1]) < 0.07


def test_edges_of_the_sampler():
    """Tiny temperatures are argmax, the largest number below 1 gives a possible token, top_p next to 0 keeps the best."""
    assert warped(LOGITS, 1e-300, 1.0).tolist() == [1, 0, 0, 0, 0, 0] == warped(LOGITS, 1.0, 1e-9).tolist()
    top = torch.tensor([np.nextafter(1, 0), 0.0], dtype=torch.float64)
    assert draw(warped(LOGITS, 1.0, 0.6), top).tolist() == [1, 0]
    assert draw(torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64), top).tolist() == [2, 2]
    assert choose(LOGITS, make_settings(), 3) == 0
    half = torch.tensor([3.0, 3.0, 1.0], dtype=torch.float16)
    assert warped(half, 1.0, 0.4).tolist() == [1, 0, 0]  # of equals the lower id stays


@pytest.mark.parametrize("heat", [dict(temperature=0.3), dict(temperature=1.0, top_p=0.9), dict(temperature=2.0)])
def test_sampled_ids_equal_plain_sampling(target, heat):
    """One seed gives the ids of plain sampling, for drafts equal to, disjoint from and near the target, widths 1 and 3."""
    picture = toy_picture()
    for seed in (0, 7):
        settings_ = make_settings(max_new_tokens=16, seed=seed, **heat)
        plain = decode_plain(target, picture, QUESTION, settings_)
        for script, shape in itertools.product((oracle, wrong, coin(0.6), sibling(2)), ((4, 1, 5), (3, 3, 10))):
            tree = Shape(depth=shape[0], width=shape[1], nodes=shape[2])
            drafter = ScriptDrafter("script", script, plain.ids, target.vocab_size, seed)
            events = list(checked(decode(target, drafter, picture, QUESTION, settings_.model_copy(update={"tree": tree}))))
            assert (events[-1].ids, events[-1].reason) == (plain.ids, plain.reason)
            if script is oracle and len(plain.ids) > 6:
                assert events[-1].tau > 2.5
    other = decode_plain(target, picture, QUESTION, make_settings(max_new_tokens=16, seed=1, **heat))
    assert other.ids != plain.ids


def test_plain_sampling_follows_the_warped_distribution(target):
    """First tokens over 3,000 seeds have the warped distribution of the prompt's logits, grouped into its ten best and rest."""
    logits = target.prefill(toy_picture(), QUESTION).logits
    expected = warped(logits, 1.0, 0.9)
    counts = torch.zeros(target.vocab_size)
    for seed in range(3000):
        counts[choose(logits, make_settings(temperature=1.0, top_p=0.9, seed=seed), 0)] += 1
    order = expected.argsort(descending=True)
    groups = [order[:16], *order[16:].chunk(4)]
    seen, wanted = (torch.tensor([float(x[g].sum()) for g in groups]) for x in (counts, expected * 3000))
    wanted, seen = wanted[wanted > 0], seen[wanted > 0]
    assert float(((seen - wanted) ** 2 / wanted).sum()) < CHI_SQUARE[len(wanted) - 1]
    step = next(plain_steps(target, toy_picture(), QUESTION, make_settings(temperature=1.0, top_p=0.9, seed=3)))
    assert step[0] == choose(logits, make_settings(temperature=1.0, top_p=0.9, seed=3), 0)


# Verification


def logits_for(targets: list[int], size: int = 12) -> torch.Tensor:
    """(n, V) logits whose argmax in row i is targets[i]."""
    rows = torch.arange(size).flip(0).float().repeat(len(targets), 1) / size
    rows[torch.arange(len(targets)), torch.tensor(targets)] = 5.0
    return rows


def by_walking(tokens, parents, targets, limit, eos):
    """Brute-force twin of verify: emitted tokens and whether there is a bonus, by following the target's tokens."""
    node, path, emitted = 0, [], []
    while True:
        emitted.append(targets[node])
        matches = [i for i in range(1, len(tokens)) if parents[i] == node and tokens[i] == targets[node]]
        if not matches:
            return path, emitted, targets[node]
        node = matches[0]
        path.append(node)
        if targets[parents[node]] in eos or len(emitted) == limit:
            return path, emitted, None


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_verify_against_walking(data):
    """Random trees, targets, limits and EOS: same path, emitted and bonus; every node has exactly one verdict."""
    size = data.draw(st.integers(1, 9))
    tokens = [data.draw(st.integers(0, 2)) for _ in range(size)]
    parents = [-1] + [data.draw(st.integers(0, node - 1)) for node in range(1, size)]
    targets = [data.draw(st.integers(0, 2)) for _ in range(size)]
    limit, eos = data.draw(st.integers(1, 4)), frozenset(data.draw(st.sets(st.integers(0, 2), max_size=1)))
    depths = [0] * size
    for node in range(1, size):
        depths[node] = depths[parents[node]] + 1
    draft = Draft(torch.tensor(tokens), torch.tensor(parents), torch.tensor(depths))
    verdict = verify(draft, logits_for(targets), make_settings(), 0, limit, eos)
    assert (verdict.accepted, verdict.emitted, verdict.bonus) == by_walking(tokens, parents, targets, limit, eos)
    rejected = [item.node for item in verdict.rejected]
    assert sorted([*verdict.accepted, *rejected, *verdict.unverified]) == list(range(1, size))
    assert len(verdict.emitted) == len(verdict.accepted) + (verdict.bonus is not None) <= limit
    for item in verdict.rejected:
        assert parents[item.node] in verdict.path and item.target_token == targets[parents[item.node]] != tokens[item.node]
    assert not any(t in eos for t in verdict.emitted[:-1])


def test_limit_ends_a_round_without_a_bonus():
    """Past the budget: an accepted node fills it, its children are unverified, no bonus; one more and there is one."""
    draft = chain(9, [1, 2, 3])
    verdict = verify(draft, logits_for([1, 2, 3, 4]), make_settings(), 0, 2, frozenset())
    assert (verdict.accepted, verdict.unverified, verdict.bonus, verdict.emitted) == ([1, 2], [3], None, [1, 2])
    verdict = verify(draft, logits_for([1, 2, 3, 4]), make_settings(), 0, 4, frozenset())
    assert (verdict.accepted, verdict.unverified, verdict.bonus) == ([1, 2, 3], [], 4)


def test_measured_values():
    """Near miss and wild guess look different: rank and log-probabilities of the raw softmax."""
    logits = torch.tensor([[3.0, 2.0, 0.0, 1.0]])
    draft = Draft(torch.tensor([0, 1, 2]), torch.tensor([-1, 0, 0]), torch.tensor([0, 1, 1]))
    verdict = verify(draft, torch.cat([logits] * 3), make_settings(temperature=0.0), 0, 9, frozenset())
    logs = logits[0].log_softmax(0).tolist()
    assert [(i.node, i.target_token, i.rank) for i in verdict.rejected] == [(1, 0, 1), (2, 0, 3)]
    assert [i.logp for i in verdict.rejected] == pytest.approx([logs[1], logs[2]])
    assert [i.target_logp for i in verdict.rejected] == pytest.approx([logs[0]] * 2)


# Trees


def drawn_tree(rng, size: int) -> Draft:
    parents = [-1] + [int(rng.integers(0, node)) for node in range(1, size)]
    depths = [0] * size
    for node in range(1, size):
        depths[node] = depths[parents[node]] + 1
    logp = torch.from_numpy(np.log(rng.uniform(0.05, 1, size))).float()
    logp[0] = 0
    reads = tuple(
        Read(node, depths[node], torch.tensor([1]), torch.tensor([0.5]), 0.5, 1, 0.5) for node in {max(p, 0) for p in parents}
    )
    return Draft(torch.arange(size), torch.tensor(parents), torch.tensor(depths), logp, reads, pruned=3)


def test_keep_nodes():
    """Kept nodes keep token, depth and place under their parent; reads follow their node; the rest counts as pruned."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        draft = drawn_tree(rng, 9)
        wanted = {node for node in range(1, 9) if rng.random() < 0.5}
        kept = sorted(node for node in wanted if all(up in wanted for up in above(draft, node)))
        small = keep_nodes(draft, kept)
        assert small.tokens.tolist() == [0, *kept] and small.pruned == 3 + 8 - len(kept)
        for index, node in enumerate(kept, start=1):
            assert int(small.tokens[small.parents[index]]) == int(draft.parents[node])
            assert small.depths[index] == draft.depths[node] and small.logp[index] == draft.logp[node]
        asked = {int(draft.parents[node]) for node in kept}
        assert sorted(int(small.tokens[read.node]) for read in small.reads) == sorted(asked) or len(kept) == 8
    with pytest.raises(ValueError, match="without its parent"):
        keep_nodes(chain(0, [1, 2]), [2])


def above(draft: Draft, node: int) -> list[int]:
    parent = int(draft.parents[node])
    return [] if parent <= 0 else [parent, *above(draft, parent)]


# Choosing by cost

TABLE = CostTable(tokens=[1, 2, 4, 8, 16, 40], verify_ms=[5.6, 5.8, 6.2, 7.0, 13.0, 16.5], level_ms=1.0)


def verify_ms(table: CostTable, count: int) -> float:
    return float(verify_costs(table, np.array([count]))[0])


def test_cost_between_and_beyond_the_table():
    assert verify_ms(TABLE, 8) == 7.0 and verify_ms(TABLE, 12) == pytest.approx(10.0)
    assert verify_ms(TABLE, 64) == pytest.approx(16.5 + 24 * 3.5 / 24)
    bumpy = CostTable(tokens=[1, 2, 4], verify_ms=[5.0, 4.0, 6.0], level_ms=0.0)
    assert verify_ms(bumpy, 2) == 5.0  # more nodes never cost less
    assert verify_ms(CostTable(tokens=[1], verify_ms=[0.0], level_ms=0.0), 9) > 0


def test_trim_against_all_subtrees():
    """What trim keeps has the largest expected tokens / cost of all subsets closed under parents."""
    rng, table = np.random.default_rng(2), TABLE.model_copy(update={"round_ms": 0.8})
    for _ in range(25):
        draft, chooser = drawn_tree(rng, 8), Chooser(table, 8)
        masses = {node: float(draft.logp[[node, *above(draft, node)]].sum().exp()) for node in range(1, 8)}
        sunk, best = table.round_ms + int(draft.depths.max()) * table.level_ms, -1.0
        for size in range(8):
            for kept in itertools.combinations(range(1, 8), size):
                if all(up in kept for node in kept for up in above(draft, node)):
                    best = max(best, (1 + sum(masses[node] for node in kept)) / (sunk + verify_ms(TABLE, 1 + size)))
        trimmed = chooser.trim(draft, Shape(depth=int(draft.depths.max()), width=4, nodes=40))
        kept = trimmed.tokens.tolist()[1:]
        rate = (1 + sum(masses[node] for node in kept)) / (sunk + verify_ms(TABLE, trimmed.size))
        assert rate == pytest.approx(best, rel=1e-6)


def play(chooser: Chooser, rates: list[float], rounds: int, seed: int = 0) -> list[int]:
    """Rounds of an honest chain drafter whose level i is right with probability rates[i]; the depths that were chosen."""
    rng, depths = np.random.default_rng(seed), []
    for _ in range(rounds):
        shape = chooser.shape(8)
        depth = shape.depth if shape else 0
        depths.append(depth)
        logp = torch.tensor([0.0, *np.log(rates[:depth])], dtype=torch.float32)
        draft = chain(0, [1] * depth)
        draft = Draft(draft.tokens, draft.parents, draft.depths, logp)
        sent = chooser.trim(draft, shape) if depth else draft
        right = 0
        while right < sent.size - 1 and rng.random() < rates[right]:
            right += 1
        targets = [1 if i < right else 2 for i in range(sent.size)]
        chooser.learn(sent, verify(sent, logits_for(targets), make_settings(), 0, 99, frozenset()))
    return depths


def best_depth(rates: list[float]) -> int:
    """Depth with the largest expected tokens / ms of a chain, by hand."""
    rate = [
        (1 + sum(np.prod(rates[: i + 1]) for i in range(depth))) / (depth * TABLE.level_ms + verify_ms(TABLE, 1 + depth))
        for depth in range(9)
    ]
    return int(np.argmax(rate))


@pytest.mark.parametrize("rates, slack", [([0.95] * 8, 1), ([0.8] * 8, 1), ([0.9, 0.9, 0.05] + [0.05] * 5, 1), ([0.02] * 8, 0)])
def test_depth_settles_near_the_best(rates, slack):
    """Running acceptance steers the number of levels to where tokens per ms are largest."""
    depths = play(Chooser(TABLE, 8), rates, 200)
    assert abs(float(np.median(depths[60:])) - best_depth(rates)) <= slack


def grow(shape: Shape, spread: list[float]) -> Draft:
    """An honest drafter whose every node has children of these probabilities, tokens 1, 2, ...; the best nodes of the shape."""
    nodes, frontier = [(0.0, 0, -1, 0, 0.0)], [0]  # cumulative, token, parent, depth, own
    for depth in range(1, shape.depth + 1):
        made = []
        for parent in frontier:
            for token, p in enumerate(spread[: shape.width], start=1):
                made.append(len(nodes))
                nodes.append((nodes[parent][0] + np.log(p), token, parent, depth, np.log(p)))
        frontier = sorted(made, key=lambda node: -nodes[node][0])[: shape.width]
    kept = sorted(sorted(range(len(nodes)), key=lambda node: (-nodes[node][0], node))[: shape.nodes])
    place = {node: index for index, node in enumerate(kept)}
    tokens, parents, depths, logp = zip(*((nodes[k][1], place.get(nodes[k][2], -1), *nodes[k][3:]) for k in kept))
    return Draft(torch.tensor(tokens), torch.tensor(parents), torch.tensor(depths), torch.tensor(logp))


def widths(table: CostTable, spread: list[float]) -> list[int]:
    """Widths chosen over 150 rounds of that drafter, 0 where nothing was drafted."""
    chooser, rng, chosen = Chooser(table, 6), np.random.default_rng(4), []
    for _ in range(150):
        shape = chooser.shape(6)
        chosen.append(shape.width if shape else 0)
        draft = chooser.trim(grow(shape, spread), shape) if shape else root_only(0)
        targets = (1 + rng.choice(len(spread) + 1, size=draft.size, p=[*spread, 1 - sum(spread)])).tolist()
        chooser.learn(draft, verify(draft, logits_for(targets), make_settings(), 0, 99, frozenset()))
    return chosen


def test_chain_for_a_sure_drafter_and_tree_for_one_in_doubt():
    """At one price, sure drafts are asked for as chains and doubtful ones as trees; where trees are dear, chains again."""
    table = TABLE.model_copy(update={"level_ms": 1.0, "chain_level_ms": 0.6})
    sure, doubt = [0.96, 0.01, 0.01, 0.01], [0.42, 0.22, 0.18, 0.12]
    assert widths(table, sure)[50:].count(1) > 75
    assert widths(table, doubt)[50:].count(4) > 75
    assert widths(table.model_copy(update={"level_ms": 6.0}), doubt)[50:].count(1) > 75


def test_drafting_that_never_pays_is_left_and_tried_again():
    """Useless drafts on a dear drafter: most rounds go without, but it is tried again now and then."""
    dear = CostTable(tokens=[1, 8, 40], verify_ms=[5.0, 7.0, 16.0], level_ms=3.0)
    depths = play(Chooser(dear, 8), [0.01] * 8, 200)
    assert depths.count(0) > 120 and max(depths[100:]) > 0
    free = CostTable(tokens=[1, 8, 40], verify_ms=[5.0, 40.0, 300.0], level_ms=3.0)
    assert Chooser(free, 8).shape(8) is None and Chooser(TABLE, 8).shape(0) is None


def test_what_a_round_costs_beside_its_levels_can_make_drafting_not_pay():
    """Three levels of a useful drafter pay, until a drafted round costs so much more that plain steps are faster."""
    rates = [0.6, 0.4, 0.3] + [0.05] * 5
    assert np.median(play(Chooser(TABLE, 8), rates, 120)[60:]) >= 1
    dear = TABLE.model_copy(update={"round_ms": 9.0})
    assert play(Chooser(dear, 8), rates, 200)[60:].count(0) > 90


def test_a_forward_never_costs_more_than_a_larger_one():
    assert cost_module.falling([12.1, 10.5, 11.0, 10.8, 14.0]) == [10.5, 10.5, 10.8, 10.8, 14.0]


def test_what_is_known_of_a_drafter_decides_its_first_draft():
    """A sure drafter is asked for a long chain at once, a doubtful one for less; later both are judged by what was seen."""
    assert Chooser(TABLE, 8, 0.97).shape(8) == Shape(depth=7, width=1, nodes=8)
    assert Chooser(TABLE, 8, 0.05).shape(8).depth < Chooser(TABLE, 8).shape(8).depth < 7
    rates = [0.6, 0.4, 0.3] + [0.05] * 5
    assert abs(np.median(play(Chooser(TABLE, 8, 0.97), rates, 200)[60:]) - best_depth(rates)) <= 1


def test_decoding_asks_a_drafter_what_to_expect_of_it():
    target, first = toy_target(), {}
    truth = decode_plain(target, toy_picture(), "what?", make_settings(max_new_tokens=9)).ids
    for guess in (0.02, None, 0.97):
        asked = []

        def script(run, shape, asked=asked):
            asked.append(shape)
            return oracle(run, shape)

        drafter = ScriptDrafter("script", script, truth, target.vocab_size)
        drafter.bears_out = guess
        list(decode(target, drafter, toy_picture(), "what?", make_settings(max_new_tokens=9), cost=TABLE))
        first[guess] = asked[0].depth
    assert first[0.02] < first[None] < first[0.97]


def test_chooser_takes_drafts_without_probabilities_and_empty_ones():
    chooser = Chooser(TABLE, 8)
    assert chooser.trim(root_only(3), Shape(depth=4, width=1, nodes=5)).size == 1
    trimmed = chooser.trim(chain(0, [1, 2, 3]), Shape(depth=3, width=1, nodes=4))
    assert 1 <= trimmed.size <= 4 and trimmed.logp is None
    chooser.learn(root_only(3), verify(root_only(3), logits_for([1]), make_settings(), 0, 9, frozenset()))


@pytest.fixture
def quiet(monkeypatch):
    """The machine says that nothing else runs."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))


def test_measure_and_keep(target, tmp_path, monkeypatch, quiet):
    """The table has a positive cost for every size, is read back from disk, and measured anew when the file is damaged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cost_module, "TIME_LIMIT_S", 0.1)
    drafter = ScriptDrafter("oracle", oracle, [7] * 50, target.vocab_size)
    table = measure(target, drafter)
    assert tuple(table.tokens) == SIZES and min(table.verify_ms) > 0 and table.level_ms > 0 and table.chain_level_ms > 0
    assert measure(target, None).level_ms == 0
    assert cost_table(target, drafter) is not None and not list(tmp_path.rglob("*.json"))  # no fingerprint, no file
    named, marked = toy_target(), ScriptDrafter("oracle", oracle, [7] * 50, target.vocab_size)
    named.fingerprint, marked.fingerprint = "one", "two"
    first = cost_table(named, marked)
    (path,) = tmp_path.rglob("*.json")
    assert cost_table(named, marked) == first
    marked.fingerprint = "three"
    cost_table(named, marked)
    assert len(list(tmp_path.rglob("*.json"))) == 2
    marked.fingerprint = "two"
    empty = b'{"tokens": [], "verify_ms": [], "level_ms": 1.0}'
    for damaged in (b"{", b"", b"\xff\xfe", empty, b'{"tokens": [1, 2], "verify_ms": [1.0], "level_ms": 1.0}'):
        path.write_bytes(damaged)
        again = cost_table(named, marked)
        assert again.tokens == first.tokens and CostTable.model_validate_json(path.read_text()) == again


def test_a_busy_machine_keeps_no_table(tmp_path, monkeypatch):
    """Measured under load: used once, not written. A system that does not tell its load keeps what it measures."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured = CostTable(tokens=[1], verify_ms=[1.0], level_ms=0.0)
    monkeypatch.setattr(cost_module, "measure", lambda target, drafter: measured)
    named = toy_target()
    named.fingerprint = "one"
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    assert cost_table(named, None) == measured and not list(tmp_path.rglob("cost-*"))
    monkeypatch.setattr(os, "getloadavg", lambda: (2.9, 9.0, 9.0))
    cost_table(named, None)
    (path,) = tmp_path.rglob("cost-*")
    path.unlink()
    monkeypatch.delattr(os, "getloadavg")
    cost_table(named, None)
    assert path.is_file()


@pytest.mark.parametrize("limit", [2, 9])
def test_news_stand_at_their_own_positions(limit):
    """Root at 20, a chain of two accepted: the emitted tokens are at 21, 22 and, where there is room for a bonus, 23."""
    verdict = verify(chain(5, [1, 2]), logits_for([1, 2, 3]), make_settings(), 0, limit, frozenset())
    run = SimpleNamespace(next_position=20 + len(verdict.path))  # the path has been committed
    tokens, states, positions = _news(run, verdict, torch.arange(3.0)[:, None])
    assert tokens.tolist() == [1, 2, 3][:limit] and positions.tolist() == [21, 22, 23][:limit]
    assert states[:, 0].tolist() == [0.0, 1.0, 2.0][:limit]


def test_measure_near_the_context_end():
    """A context shorter than the largest size: measured as far as it goes."""
    small = toy_target(context=40)
    table = measure(small, ScriptDrafter("oracle", oracle, [7] * 50, small.vocab_size))
    assert 1 <= len(table.tokens) < len(SIZES) and table.tokens[-1] < 40
