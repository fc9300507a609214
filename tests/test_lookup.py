"""Prompt lookup and the trie: both copy what followed the same words earlier, never an image placeholder."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fovea_core.decode.lookup import COPIED, LONGEST, LookupDrafter, LookupRun
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.trie import MOST, NEXT, TrieDrafter, TrieRun
from fovea_core.settings import Shape, make_settings
from fovea_core.trace.events import CostTable, NodeDrafted
from fovea_core.trace.laws import checked
from tests.toys import reference, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

IMAGE = 3
WIDE = Shape(depth=64, width=1, nodes=65)


def by_searching(tokens: list[int], most: int) -> list[int]:
    """Brute-force twin: for n = 3, 2, 1 the latest earlier place of the last n tokens, then what follows it."""
    for size in range(min(LONGEST, len(tokens)), 0, -1):
        last = tokens[-size:]
        if IMAGE in last:
            continue
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == last and tokens[start + size] != IMAGE:
                copied = []
                for token in tokens[start + size :][:most]:
                    if token == IMAGE:
                        break
                    copied.append(token)
                return copied
    return []


def told(tokens: list[int], chunks: int = 1, kind: type = LookupRun) -> LookupRun | TrieRun:
    run = kind(IMAGE)
    all_tokens, places = torch.tensor(tokens), torch.arange(len(tokens)) + 4
    for part, where in zip(all_tokens.chunk(chunks), places.chunk(chunks)):
        run.extend(part, torch.zeros(len(part), 2), where)
    return run


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_lookup_equals_searching(tokens, chunks, depth):
    """For any text, told in any portions: a chain of the tokens that the search finds, at most 10 and within the shape."""
    draft = told(tokens, chunks).propose(Shape(depth=depth, width=1, nodes=65))
    assert draft.tokens.tolist() == [tokens[-1], *by_searching(tokens, min(COPIED, depth))]
    assert draft.parents.tolist() == list(range(-1, draft.size - 1)) and draft.depths.tolist() == list(range(draft.size))


def test_a_gap_is_never_bridged():
    """Words before and behind the picture are no neighbours, though no image token stands between them in what is told."""
    run = LookupRun(IMAGE)
    run.extend(torch.tensor([7, 8, 9]), torch.zeros(3, 2), torch.tensor([1, 2, 50]))
    run.extend(torch.tensor([8]), torch.zeros(1, 2), torch.tensor([51]))
    assert run.propose(WIDE).size == 1  # 9 stood behind the gap, not behind 8


def test_an_image_placeholder_may_be_the_last_token():
    """A target may say its own placeholder: the draft's root is that token, nothing is copied behind it, and text goes on."""
    run = told([7, 8, IMAGE])
    assert run.propose(WIDE).tokens.tolist() == [IMAGE]
    run.extend(torch.tensor([7]), torch.zeros(1, 2), torch.tensor([7]))
    assert run.propose(WIDE).tokens.tolist() == [7, 8]


def test_the_longest_run_wins():
    assert told([1, 2, 7, 4, 9, 7, 5, 1, 2, 7]).propose(WIDE).tokens.tolist()[1:5] == [4, 9, 7, 5]
    assert told([1, 2]).propose(WIDE).size == 1


def by_counting(tokens: list[int], shape: Shape) -> list[tuple[tuple[int, ...], float]]:
    """Brute-force twin of the trie: for n = 3, 2, 1 the last n tokens wherever they stand with something behind them, and every
    continuation of at most so many tokens that 13 stand together; how often each follows, and its share among its siblings."""
    for size in range(min(LONGEST, len(tokens)), 0, -1):
        last, counts, ends = tokens[-size:], defaultdict(int), {}
        if IMAGE in last:
            continue
        for start in range(len(tokens) - size):
            if tokens[start : start + size] == last:
                behind = tokens[start + size :][: NEXT + 1 - size]
                behind = behind[: behind.index(IMAGE)] if IMAGE in behind else behind
                for length in range(1, len(behind) + 1):
                    counts[tuple(behind[:length])] += 1
                    ends[tuple(behind[:length])] = start
        if not counts:
            continue
        siblings, kept = defaultdict(list), {()}
        for path in counts:
            siblings[path[:-1]].append(path)
        chosen = []
        for path in sorted(counts, key=lambda path: (-counts[path], len(path), -ends[path])):
            brothers = sorted(siblings[path[:-1]], key=lambda other: (-counts[other], -ends[other]))
            fits = path in brothers[: shape.width] and path[:-1] in kept and len(path) <= shape.depth
            if fits and len(chosen) < min(MOST, shape.nodes - 1):
                kept.add(path)
                chosen.append((path, counts[path] / sum(counts[other] for other in brothers)))
        return chosen
    return []


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=60) | st.lists(st.integers(0, 1), min_size=30, max_size=90),
    st.integers(1, 4),
    st.builds(Shape, depth=st.integers(1, 14), width=st.integers(1, 6), nodes=st.integers(2, 80)),
)
@settings(max_examples=300, deadline=None)
def test_the_trie_equals_counting(tokens, chunks, shape):
    """For any text, told in any portions, and any shape: the nodes that counting finds, in its order, parents before children,
    each with its share among what followed its parent."""
    run = told(tokens, chunks, TrieRun)
    draft = run.propose(shape)
    paths = [()]
    for token, parent in zip(draft.tokens.tolist()[1:], draft.parents.tolist()[1:], strict=True):
        paths.append((*paths[parent], token))
    wanted = by_counting(tokens, shape)
    assert paths[1:] == [path for path, _ in wanted] and draft.depths.tolist() == [len(path) for path in paths]
    assert draft.tokens[0] == tokens[-1] and draft.logp.exp().tolist()[1:] == pytest.approx([share for _, share in wanted])
    again = run.propose(shape)
    assert torch.equal(again.tokens, draft.tokens) and torch.equal(again.parents, draft.parents)


def test_the_trie_prefers_what_followed_more_often():
    """Behind '7': 4 twice (then 5 and 6 once each), 9 once; the newest token itself is no continuation."""
    draft = told([7, 4, 5, 7, 9, 7, 4, 6, 8, 7], kind=TrieRun).propose(Shape(depth=2, width=2, nodes=6))
    assert draft.tokens.tolist() == [7, 4, 9, 6, 7, 5]
    assert draft.parents.tolist() == [-1, 0, 0, 1, 2, 1]
    assert draft.logp.tolist()[1:3] == pytest.approx([math.log(2 / 3), math.log(1 / 3)])


def test_no_run_of_the_trie_goes_on_over_a_picture():
    """Words before and behind the picture are no neighbours, and a placeholder is neither followed nor drafted."""
    run = TrieRun(IMAGE)
    run.extend(torch.tensor([7, 8, 9]), torch.zeros(3, 2), torch.tensor([1, 2, 50]))
    run.extend(torch.tensor([8]), torch.zeros(1, 2), torch.tensor([51]))
    assert run.propose(WIDE).size == 1  # 9 stood behind the gap, not behind 8
    run.extend(torch.tensor([IMAGE]), torch.zeros(1, 2), torch.tensor([52]))
    assert run.propose(WIDE).tokens.tolist() == [IMAGE]
    run.extend(torch.tensor([9]), torch.zeros(1, 2), torch.tensor([53]))
    assert run.propose(WIDE).tokens.tolist() == [9, 8]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("tree", [Shape(depth=12, width=6, nodes=65), Shape(depth=2, width=3, nodes=3), None])
def test_decoding_with_the_trie_is_plain(tree, temperature):
    """Lossless, greedy and sampled, on fixed trees and on those that pay; on a target that repeats itself some are accepted."""
    target, picture, question = toy_target(spread=0.12), toy_picture(), "a red ball, a red ball"
    table = CostTable(tokens=[1, 8, 64], verify_ms=[2.0, 2.5, 6.0], level_ms=0.0)
    wanted = make_settings(max_new_tokens=60, tree=tree, temperature=temperature)
    events = list(checked(decode(target, TrieDrafter(), picture, question, wanted, cost=table)))
    ids = (
        reference(target, picture, question, 60)[0] if temperature == 0 else decode_plain(target, picture, question, wanted).ids
    )
    assert events[-1].ids == ids
    assert events[-1].accepted > 0 or temperature > 0
    assert events[0].policy == "none" and events[0].depth_limit == -1


@pytest.mark.parametrize("tree", [Shape(depth=10, width=1, nodes=11), Shape(depth=2, width=3, nodes=3), None])
def test_decoding_with_lookup_is_plain(tree):
    """Lossless, and on a target that repeats itself some drafts are accepted."""
    target, picture = toy_target(spread=0.12), toy_picture()
    ids, _ = reference(target, picture, "a red ball, a red ball", 60)
    table = CostTable(tokens=[1, 8, 64], verify_ms=[2.0, 2.5, 6.0], level_ms=0.0)
    wanted = make_settings(max_new_tokens=60, tree=tree)
    events = list(checked(decode(target, LookupDrafter(), picture, "a red ball, a red ball", wanted, cost=table)))
    assert events[-1].ids == ids and events[-1].accepted > 0
    assert events[0].policy == "none" and events[0].depth_limit == -1
    assert all(event.logp is None for event in events if isinstance(event, NodeDrafted))
