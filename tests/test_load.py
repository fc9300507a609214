"""Choosing drafts under load: the cost of a forward by requests and rows, the best nodes of all drafts, shapes that shrink."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from fovea_core.decode.batch import Lockstep
from fovea_core.decode.choose import Chooser, verify_costs
from fovea_core.decode.load import LOADS, LoadChooser, LoadCost, measure_load
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.tree import Draft, root_only
from fovea_core.settings import Shape, make_settings
from fovea_core.trace.events import CostTable
from tests.test_batch import QUESTIONS, Scripts
from tests.toys import coin, oracle, sibling, toy_drafter, toy_picture, toy_target, wrong

pytestmark = pytest.mark.usefixtures("one_thread")


def table(load: int) -> CostTable:
    """A machine on which rows are free up to six and dear behind; a request more costs a little by itself."""
    rows = [load * size for size in (1, 2, 4, 8, 16)]
    return CostTable(tokens=rows, verify_ms=[5 + 0.2 * load + max(0, n - 6) * 0.6 for n in rows], level_ms=0.5, round_ms=0.5)


COST = LoadCost({load: table(load) for load in (1, 2, 4, 8)})


def drawn_tree(rng, size: int) -> Draft:
    """A random tree with random probabilities that fall along its paths."""
    parents, depths = [-1], [0]
    for node in range(1, size):
        parents.append(int(rng.integers(node)))
        depths.append(depths[parents[-1]] + 1)
    logp = np.log(np.concatenate([[1.0], rng.uniform(0.05, 0.95, size - 1)]))
    columns = (list(range(size)), parents, depths)
    return Draft(*(torch.tensor(column) for column in columns), torch.tensor(logp, dtype=torch.float32))


def test_cost_by_requests_and_rows():
    """At a measured load its own table; between two at the same rows, by share; beyond the last the last."""
    rows = np.array([3, 8, 11, 30, 200])
    for load in (1, 2, 4, 8):
        assert np.array_equal(COST.of(load, rows), verify_costs(COST.tables[load], rows))
    between = (COST.of(4, rows) * 3 + COST.of(8, rows)) / 4
    assert COST.of(5, rows) == pytest.approx(between) and np.array_equal(COST.of(11, rows), COST.of(8, rows))


def test_drafting_together_is_priced_by_how_many_draft():
    """Each request's share at a measured load is that table's, between two by share; a draft that is dear alone is worth its
    price where the others pay for it, too."""
    shares = {1: (0.6, 1.0, 4.0), 4: (0.2, 0.4, 1.0)}
    names = ("round_ms", "chain_level_ms", "level_ms")
    cost = LoadCost({n: table(n).model_copy(update=dict(zip(names, shares[n], strict=True))) for n in shares})
    assert cost.drafting(1, 1) == (0.6, 1.0) and cost.drafting(1, 4) == (0.6, 4.0)
    assert cost.drafting(4, 1) == cost.drafting(9, 1) == (0.2, 0.4)
    assert cost.drafting(2, 4) == pytest.approx((0.6 - 0.4 / 3, 3.0))
    dear = {n: mine.model_copy(update={"level_ms": 9.0, "chain_level_ms": 9.0}) for n, mine in cost.tables.items()}
    assert LoadChooser(cost, 6).shape(6, 4) is not None and LoadChooser(LoadCost(dear), 6).shape(6, 4) is None
    assert LoadChooser(LoadCost(dear | {4: cost.tables[4]}), 6).shape(6, 4) is not None


def test_trim_against_all_subsets():
    """What is kept of several drafts has the largest expected tokens / cost of all subsets closed under parents; a request that
    was not drafted for keeps its root and costs no drafting."""
    rng = np.random.default_rng(5)
    for turn in range(15):
        drafts = [drawn_tree(rng, 6), drawn_tree(rng, 5), root_only(3)]
        shapes = [Shape(depth=5, width=4, nodes=9), Shape(depth=4, width=4, nodes=9), None]
        chooser = LoadChooser(COST, 6)
        spent = 9 * 0.5 + 2 * 0.5
        values = [chooser.estimates(draft) for draft in drafts]
        nodes = [(i, node) for i, draft in enumerate(drafts) for node in range(1, draft.size)]
        best = 0.0
        for flags in itertools.product((False, True), repeat=len(nodes)):
            kept = {pair for pair, flag in zip(nodes, flags) if flag}
            up = ((i, int(drafts[i].parents[node])) for i, node in kept)
            if all(parent == 0 or (i, parent) in kept for i, parent in up):
                worth = 3 + sum(values[i][node] for i, node in kept)
                best = max(best, worth / (spent + float(chooser.costs(3)[3 + len(kept)])))
        sent = chooser.trim_all(drafts, shapes)
        worth = 3 + sum(chooser_values(draft, value, sent[i]) for i, (draft, value) in enumerate(zip(drafts, values)))
        rate = worth / (spent + float(chooser.costs(3)[sum(draft.size for draft in sent)]))
        assert rate == pytest.approx(best, rel=1e-9), turn
        assert sent[2].size == 1


def chooser_values(draft: Draft, values: np.ndarray, sent: Draft) -> float:
    """Sum of the estimates of the nodes that were sent; a node's token is its number."""
    return sum(values[token] for token in sent.tokens.tolist() if token and draft.size > 1)


def test_one_request_is_the_single_chooser():
    """Alone, shapes and trimmed drafts are those of decode.choose with the same table."""
    rng, one, many = np.random.default_rng(6), Chooser(table(1), 6), LoadChooser(COST, 6)
    for _ in range(30):
        levels = int(rng.integers(1, 9))
        shape = one.shape(levels)
        assert many.shape(levels, 1) == shape
        if shape is not None:
            draft = drawn_tree(rng, 7)
            clipped = shape.model_copy(update={"depth": max(shape.depth, int(draft.depths.max()))})
            if clipped.depth > 6:
                continue
            mine, (theirs,) = one.trim(draft, clipped), many.trim_all([draft], [clipped])
            assert torch.equal(mine.tokens, theirs.tokens) and torch.equal(mine.parents, theirs.parents)
            right = [node for node in range(1, mine.size) if rng.random() < 0.5][:2]
            one.learn_path(mine, right)
            many.learn_all([theirs], [right])


def sent_nodes(load: int, rate: float) -> float:
    """Mean nodes below the root a request and round, late in a long run of an honest chain drafter under ``load``."""
    rng, chooser, nodes = np.random.default_rng(load), LoadChooser(COST, 8), []
    for turn in range(120):
        shape = chooser.shape(8, load)
        if shape is None:
            nodes.append(0)
            continue
        size = shape.depth + 1
        logp = torch.tensor([0.0, *[float(np.log(rate))] * shape.depth], dtype=torch.float32)
        chain = torch.arange(size)
        sent = chooser.trim_all([Draft(chain, chain - 1, chain, logp)] * load, [shape] * load)
        paths = [list(range(1, int(min(draft.size, rng.geometric(1 - rate))))) for draft in sent]
        chooser.learn_all(sent, paths)
        if turn >= 60:
            nodes.append(float(np.mean([draft.size - 1 for draft in sent])))
    return float(np.mean(nodes))


def test_drafts_shrink_under_load():
    """The same drafter sends long chains alone, shorter ones beside others, nothing where every row is dear."""
    nodes = [sent_nodes(load, 0.8) for load in (1, 2, 4, 8)]
    assert nodes[0] > 3 and nodes == sorted(nodes, reverse=True) and nodes[3] < 0.5
    assert sent_nodes(1, 0.02) < 0.5


def test_what_is_owed_is_spread_over_the_answer():
    """With a debt the shape is that of the largest tokens / (cost + the tokens' share of the debt); where few tokens are left
    to carry it, nothing is drafted, and where many are, it is as if there were none."""
    for load, owed, levels in ((1, 3.0, 20), (2, 12.0, 9), (4, 40.0, 90), (8, 60.0, 30), (1, 0.0, 4)):
        chooser = LoadChooser(COST, 6)
        best, most = None, 1.04 * load / float(chooser.costs(load)[load])
        for kind in (chooser.chain, chooser.tree):
            tokens, nodes = kind.expected(min(levels, 6))
            for depth in range(1, min(levels, 6) + 1):
                verify = float(np.interp(load * nodes[depth], np.arange(len(chooser.costs(load))), chooser.costs(load)))
                drafting = load * (0.5 + 0.5 * depth)
                rate = load * tokens[depth] / (drafting + verify + owed * tokens[depth] / (levels + 1))
                if rate > most:
                    best, most = (kind.width, depth), rate
        shape = chooser.shape(levels, load, owed)
        assert (shape and (shape.width, shape.depth)) == best
    free = LoadChooser(COST, 6).shape(8, 2)
    assert free is not None and LoadChooser(COST, 6).shape(8, 2, 500.0) is None
    assert LoadChooser(COST, 6).shape(100_000, 2, 500.0).width == free.width


def test_a_drafter_that_is_dear_to_start_never_starts():
    """What a lane's drafter was not told is counted, prompt and answer without the image; where starting costs more than the
    answers can earn, decoding stays plain, and it drafts where starting is cheap."""
    target = toy_target(2)
    requests = [(toy_picture(i), QUESTIONS[i % 4], 20) for i in range(2)]
    truths = [decode_plain(target, *asked[:2], make_settings(max_new_tokens=20)).ids for asked in requests]
    for start_ms, starts in ((10_000.0, False), (0.0, True)):
        cost = LoadCost(COST.tables, start_ms, 0.1)
        lockstep = Lockstep(target, Scripts(oracle, requests, truths, target.vocab_size), chooser=LoadChooser(cost, 6))
        lanes = [lockstep.join(target.prefill(*asked[:2]), make_settings(max_new_tokens=20)) for asked in requests]
        assert [lane.untold for lane in lanes] == [len(lane.run.text_prompt()[0]) + 1 for lane in lanes]
        owed = 2 * start_ms + 0.1 * sum(lane.untold - 2 for lane in lanes)
        assert lockstep._owed_ms() == pytest.approx(owed)
        lockstep.round()
        assert [lane.untold == len(lane.ids) - lane.told and lane.told > 0 for lane in lanes] == [starts] * 2
        while lockstep.lanes:
            lockstep.round()
        assert [lane.ids for lane in lanes] == truths and [lane.draft_run is not None for lane in lanes] == [starts] * 2


@pytest.mark.parametrize("script", [oracle, wrong, coin(0.6), sibling(1)])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_chosen_drafts_keep_the_ids(count, script):
    """Under the chooser, too, every answer is that of its single plain run; a drafter that is never right is given up."""
    target = toy_target(2)
    requests = [(toy_picture(i), QUESTIONS[i % 4], 6 + (i * 11) % 23) for i in range(count)]
    truths = [decode_plain(target, *asked[:2], make_settings(max_new_tokens=asked[2])).ids for asked in requests]
    chooser = LoadChooser(COST, 6)
    lockstep = Lockstep(target, Scripts(script, requests, truths, target.vocab_size), chooser=chooser)
    lanes = [lockstep.join(target.prefill(*asked[:2]), make_settings(max_new_tokens=asked[2])) for asked in requests]
    while lockstep.lanes:
        lockstep.round()
    assert [lane.ids for lane in lanes] == truths
    if script is oracle and count == 1:
        assert lanes[0].rounds < len(truths[0]) - 1


def test_measured_cost_of_a_toy():
    """Every load has its own rows, from one a request on, and forwards that never get cheaper with more of them."""
    target = toy_target(0, context=128)
    cost = measure_load(target, toy_drafter(target))
    assert tuple(cost.tables) == LOADS
    for load, mine in cost.tables.items():
        assert mine.tokens[0] == load and all(rows % load == 0 for rows in mine.tokens) and mine.tokens[-1] <= 96
        assert mine.verify_ms == sorted(mine.verify_ms) and mine.verify_ms[0] > 0
        assert mine.level_ms > 0 and mine.chain_level_ms > 0 and mine.round_ms > 0
    assert cost.start_ms > 0 and cost.read_ms >= 0
