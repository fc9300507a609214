"""Drafter room and its tree: the folded step against the plain modules, growth against a slow twin."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.memory.build import VisualMemory
from fovea_core.memory.correct import read
from fovea_core.memory.select import make_policy, peak_of
from fovea_core.settings import RunSettings
from fovea_core.trace.events import Shape
from tests.toys import captured

VOCAB, SIZE = 37, 32
CONFIG = DrafterConfig(
    hidden_size=SIZE, vocab_size=VOCAB, heads=4, kv_heads=2, head_dim=8, intermediate_size=40, correction_width=24,
    k_min=2, k_max=6, depth_limit=3, depth_rows=5, target_fingerprint="f00d",
)  # fmt: skip


def make_drafter(seed: int = 0, **changes) -> Drafter:
    """A drafter with weights large enough that everything matters: token, state, position, picture, depth."""
    torch.manual_seed(seed)
    drafter = Drafter(CONFIG.model_copy(update=changes))
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return drafter.attach(torch.randn(VOCAB, SIZE), torch.randn(VOCAB, SIZE) * 0.5).requires_grad_(False)


@dataclass
class Picture:
    """What a target run gives the drafter."""

    features: torch.Tensor
    valid: torch.Tensor

    def seen(self, layer: int) -> torch.Tensor:
        assert layer == 0
        return self.features


def make_picture(seed: int = 0) -> Picture:
    draw = torch.Generator().manual_seed(seed)
    valid = torch.rand(20, generator=draw) < 0.7
    valid[3] = True
    return Picture(torch.randn(20, SIZE, generator=draw), valid)


def make_text(seed: int = 0, count: int = 9):
    """Tokens, the target states that predicted them, and positions with the gap of a picture."""
    draw = torch.Generator().manual_seed(seed + 100)
    positions = torch.cat((torch.arange(3), torch.arange(count - 3) + 25))
    return torch.randint(VOCAB, (count,), generator=draw), torch.randn(count, SIZE, generator=draw), positions


def started(drafter: Drafter, picture: Picture, text, **options):
    run = FoveaDrafter(drafter).start(picture, RunSettings(**options))
    run.extend(*text)
    return run


class SlowTwin:
    """Log-probabilities behind a path, the whole sequence recomputed with the plain modules and full causal attention."""

    def __init__(self, drafter: Drafter, picture: Picture, text, policy: str = "fovea", limit: int = 3) -> None:
        self.drafter, self.text, self.limit = drafter, text, limit
        self.memory = VisualMemory.build(picture.features, picture.valid, drafter.memory) if drafter.memory else None
        self.policy = make_policy(policy, drafter.config.bounds)

    def states(self, path: list[int]) -> torch.Tensor:
        """(len(path) + 1, d): states h before the final norm of the root and of each drafted token of ``path``."""
        tokens, states, positions = self.text
        for step in range(len(path) + 1):
            h = self._body(tokens, states, positions)
            if step < len(path):
                tokens = torch.cat((tokens, torch.tensor(path[step : step + 1])))
                states = torch.cat((states, self.drafter.norm(h[-1:])))
                positions = torch.cat((positions, positions[-1:] + 1))
        return h[-len(path) - 1 :]

    def _body(self, tokens, states, positions):
        x = self.drafter.fuse(tokens, states)
        rope = self.drafter.rope(positions)
        later = torch.full((len(tokens), len(tokens)), -math.inf).triu(1)
        for block in self.drafter.blocks:
            q, k, v = block.project(x, rope)
            context = torch.nn.functional.scaled_dot_product_attention(
                *(part.transpose(0, 1)[None] for part in (q, k, v)), attn_mask=later, enable_gqa=True
            )
            x = block.finish(x, context[0].transpose(0, 1))
        return x

    def logp(self, path: list[int]) -> torch.Tensor:
        h = self.states(path)[-1:]
        if self.memory is not None and self.policy.reads and len(path) <= self.limit:
            h = read(h, len(path), self.memory, self.policy, self.drafter.correction)[0]
        return torch.log_softmax(self.drafter.logits(self.drafter.norm(h)), -1)[0]

    def look(self, path: list[int]):
        return read(self.states(path)[-1:], len(path), self.memory, self.policy, self.drafter.correction)

    def tree(self, depth: int, width: int, nodes: int) -> set[tuple[int, ...]]:
        """The paths of an EAGLE-2 draft tree, by brute force over dictionaries."""
        scores, frontier = {}, [()]
        total = {(): 0.0}
        for _ in range(depth):
            level = {}
            for path in frontier:
                best = self.logp(list(path)).topk(width)
                for token, value in zip(best.indices.tolist(), best.values.tolist()):
                    level[(*path, token)] = total[path] + value
            scores |= level
            total |= level
            frontier = sorted(level, key=level.get, reverse=True)[:width]
        order = sorted(scores, key=lambda path: (-scores[path], len(path)))
        return set(order[: nodes - 1])


def paths(draft) -> list[tuple[int, ...]]:
    found = [()]
    for token, parent in zip(draft.tokens.tolist()[1:], draft.parents.tolist()[1:]):
        found.append((*found[parent], token))
    return found


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6), depth=st.integers(1, 5), width=st.integers(1, 4), nodes=st.integers(2, 30),
    policy=st.sampled_from(["fovea", "topk-2", "dense", "none"]), kv_heads=st.sampled_from([1, 2, 4]),
)  # fmt: skip
@torch.no_grad()
def test_tree_equals_the_slow_twin(seed, depth, width, nodes, policy, kv_heads):
    """Same nodes and log-probabilities as recomputing every path alone with full attention; closed; parents first."""
    drafter = make_drafter(seed, kv_heads=kv_heads)
    picture, text = make_picture(seed), make_text(seed)
    draft = started(drafter, picture, text, policy=policy).propose(Shape(depth=depth, width=width, nodes=nodes))
    twin = SlowTwin(drafter, picture, text, policy)
    assert set(paths(draft)[1:]) == twin.tree(depth, width, nodes)
    assert (draft.parents[1:] < torch.arange(1, draft.size)).all() and draft.parents[0] == -1
    assert torch.equal(draft.depths[1:], draft.depths[draft.parents[1:]] + 1)
    assert draft.size <= nodes and draft.tokens[0] == text[0][-1]
    for node, path in enumerate(paths(draft)[1:], start=1):
        expected = twin.logp(list(path[:-1]))[path[-1]]
        torch.testing.assert_close(draft.logp[node], expected, atol=2e-4, rtol=1e-4)


@torch.no_grad()
def test_pruned_counts_every_candidate():
    """k children of the root, k x k of every further level; what is not sent is pruned."""
    run = started(make_drafter(), make_picture(), make_text())
    draft = run.propose(Shape(depth=4, width=3, nodes=12))
    assert draft.size == 12 and draft.pruned == 3 + 3 * 9 - 11


@torch.no_grad()
def test_reads_belong_to_the_states_that_score():
    """Every node with children at a depth within the limit has one read, equal to the slow twin's; nobody else has."""
    drafter, picture, text = make_drafter(), make_picture(), make_text()
    draft = started(drafter, picture, text, depth_limit=2).propose(Shape(depth=5, width=3, nodes=20))
    twin, path = SlowTwin(drafter, picture, text, limit=2), paths(draft)
    scoring = {parent for parent in draft.parents.tolist()[1:] if draft.depths[parent] <= 2}
    assert sorted(read.node for read in draft.reads) == sorted(scoring)
    assert max(read.depth for read in draft.reads) == 2
    for note in draft.reads:
        _, chosen, gate, shift = twin.look(list(path[note.node]))
        count = int(chosen.count)
        assert note.entries.tolist() == chosen.order[0, :count].tolist()
        assert note.k_raw == int(chosen.k_raw) and note.depth == len(path[note.node])
        torch.testing.assert_close(note.masses, chosen.masses[0, :count], atol=1e-4, rtol=1e-3)
        assert note.captured == pytest.approx(captured(chosen).item(), abs=1e-4)
        assert note.gate == pytest.approx(gate.item(), abs=1e-4)
        assert note.correction_norm == pytest.approx(shift.norm().item(), rel=1e-3)
        assert note.peak == pytest.approx(peak_of(chosen.masses, twin.memory.n_valid).item(), abs=1e-3)
        assert picture.valid[note.entries].all()


@torch.no_grad()
def test_recording_changes_nothing():
    """detail rounds and nodes draft the same tree; rounds keeps no reads."""
    drafter, picture, text, shape = make_drafter(), make_picture(), make_text(), Shape(depth=4, width=3, nodes=15)
    loud, quiet = (started(drafter, picture, text, detail=detail).propose(shape) for detail in ("nodes", "rounds"))
    assert torch.equal(loud.tokens, quiet.tokens) and torch.equal(loud.logp, quiet.logp)
    assert loud.reads and not quiet.reads


@torch.no_grad()
def test_rounds_continue_from_the_committed_text():
    """After drafts and commits of several sizes a run drafts what a fresh run over the whole text drafts."""
    drafter, picture = make_drafter(), make_picture()
    tokens, states, positions = make_text(count=30)
    run, at = started(drafter, picture, (tokens[:7], states[:7], positions[:7])), 7
    for step in (1, 3, 1, 5, 2):
        run.propose(Shape(depth=3, width=3, nodes=9))
        run.propose(Shape(depth=4, width=1, nodes=5))
        run.extend(*(part[at : at + step] for part in (tokens, states, positions)))
        at += step
        fresh = started(drafter, picture, (tokens[:at], states[:at], positions[:at]))
        for shape in (Shape(depth=3, width=3, nodes=9), Shape(depth=4, width=1, nodes=5)):
            a, b = run.propose(shape), fresh.propose(shape)
            assert torch.equal(a.tokens, b.tokens) and torch.equal(a.parents, b.parents)
            torch.testing.assert_close(a.logp, b.logp, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_proposing_twice_gives_the_same_draft():
    run = started(make_drafter(), make_picture(), make_text())
    shape = Shape(depth=4, width=3, nodes=15)
    first, second = run.propose(shape), run.propose(shape)
    assert torch.equal(first.tokens, second.tokens) and torch.equal(first.logp, second.logp)


@torch.no_grad()
def test_a_long_answer_outgrows_the_first_cache():
    """More text than the preallocated slots: the cache grows and nothing changes."""
    drafter, picture, (tokens, states, positions) = make_drafter(), make_picture(), make_text(count=700)
    run = started(drafter, picture, (tokens[:500], states[:500], positions[:500]))
    run.extend(tokens[500:], states[500:], positions[500:])
    got = run.propose(Shape(depth=2, width=1, nodes=3))
    twin = SlowTwin(drafter, picture, (tokens, states, positions))
    expected = twin.logp([])
    assert got.tokens[1] == expected.argmax()
    torch.testing.assert_close(got.logp[1], expected.max(), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_cache_is_the_same_with_and_without_correction():
    """Trap 2: along one token path the drafter's keys and values are bit-identical, whether or not the states read."""
    drafter, picture, text = make_drafter(), make_picture(), make_text()
    caches, scores = [], []
    for policy in ("fovea", "none"):
        run = started(drafter, picture, text, policy=policy)
        state = run.root
        for depth, token in enumerate((5, 9, 30), start=1):
            scores.append(run.score(state, depth - 1, torch.tensor([0])))
            state = run.body.forward(
                run.folded.fuse_own(torch.tensor([token]), run.folded.normed(state)), run._turn(depth), None
            )
        caches.append([cache[:, :, : run.body.used].clone() for cache in run.body.caches])
    assert all(torch.equal(a, b) for a, b in zip(*caches))
    assert not torch.allclose(scores[0], scores[3])  # the correction did something


@torch.no_grad()
def test_untrained_correction_is_the_plain_drafter():
    """Init: f's last layer is zero, so a fresh drafter scores the same with policy fovea and none."""
    torch.manual_seed(1)
    drafter = Drafter(CONFIG).attach(torch.randn(VOCAB, SIZE), torch.randn(VOCAB, SIZE))
    picture, text, shape = make_picture(), make_text(), Shape(depth=4, width=3, nodes=12)
    drafts = [started(drafter, picture, text, policy=policy).propose(shape) for policy in ("fovea", "none")]
    assert torch.equal(drafts[0].tokens, drafts[1].tokens) and torch.equal(drafts[0].logp, drafts[1].logp)
    assert drafts[0].reads and not drafts[1].reads


@torch.no_grad()
def test_depth_limits_and_sight():
    """The checkpoint's limit is the default, a setting replaces it, no row of E_dep beyond the last is ever asked for."""
    loaded = FoveaDrafter(make_drafter())
    assert loaded.sight(RunSettings()) == ("fovea", 3)
    assert loaded.sight(RunSettings(depth_limit=1)) == ("fovea", 1)
    assert loaded.sight(RunSettings(depth_limit=60)) == ("fovea", 4)
    assert loaded.sight(RunSettings(policy="none")) == ("none", -1)
    assert FoveaDrafter(make_drafter(sighted=False)).sight(RunSettings()) == ("none", -1)
    run = loaded.start(make_picture(), RunSettings(depth_limit=60))
    run.extend(*make_text())
    assert run.propose(Shape(depth=9, width=2, nodes=60)).depths.max() == 9


@torch.no_grad()
def test_a_reach_goes_on_with_the_row_of_the_deepest_state_that_reads():
    """Loaded, it is a drafter of more levels: its tree is the slow twin's with that row for every deeper state."""
    changes = {"depth_limit": 2, "depth_rows": 4}
    slow = make_drafter(3, **changes)
    slow.memory.depth.data = torch.stack([slow.memory.depth[min(level, 2)] for level in range(7)])
    loaded, text = FoveaDrafter(make_drafter(3, **changes, reach=6, bears_out=0.9)), make_text(3)
    assert loaded.max_depth == 6 and loaded.bears_out == 0.9 and loaded.sight(RunSettings()) == ("fovea", 5)
    assert loaded.sight(RunSettings(depth_limit=1)) == ("fovea", 1)
    run = loaded.start(make_picture(3), RunSettings())
    run.extend(*text)
    twin = SlowTwin(slow, make_picture(3), text, limit=5)
    for shape in (Shape(depth=6, width=1, nodes=7), Shape(depth=6, width=2, nodes=20)):
        draft = run.propose(shape)
        assert set(paths(draft)[1:]) == twin.tree(shape.depth, shape.width, shape.nodes)
        assert max(read.depth for read in draft.reads) == 5
    shorter = FoveaDrafter(make_drafter(3, **changes)).start(make_picture(3), RunSettings())
    shorter.extend(*text)
    assert max(read.depth for read in shorter.propose(shape).reads) == 2  # without a reach nothing reads below
    blind = FoveaDrafter(make_drafter(sighted=False, reach=9))
    assert blind.max_depth == 9 and blind.sight(RunSettings()) == ("none", -1)
    with pytest.raises(ValueError, match="reach"):
        DrafterConfig(**{**CONFIG.model_dump(), "reach": 3})


@torch.no_grad()
def test_blind_twin_never_looks():
    """No memory modules, no reads, and the picture makes no difference."""
    blind = make_drafter(sighted=False)
    assert not [name for name in blind.state_dict() if "memory" in name or "correction" in name]
    text, shape = make_text(), Shape(depth=3, width=2, nodes=8)
    drafts = [started(blind, make_picture(seed), text).propose(shape) for seed in (0, 1)]
    assert torch.equal(drafts[0].logp, drafts[1].logp) and not drafts[0].reads
    seeing = [started(make_drafter(), make_picture(seed), text).propose(shape) for seed in (0, 1)]
    assert not torch.equal(seeing[0].logp, seeing[1].logp)
