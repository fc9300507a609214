"""A smaller model of the family as drafter: exact, with a tree whose nodes are scored as if each path stood alone."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer

from fovea_core.decode import sibling as sibling_module
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.sibling import SiblingDrafter
from fovea_core.drafter.checkpoint import DrafterError
from fovea_core.settings import Shape, make_settings
from fovea_core.trace import events as ev
from fovea_core.trace.laws import checked
from tests.families import tiny, tokenizer_of
from tests.toys import reference, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
TREES = ((1, 1, 2), (4, 1, 5), (1, 4, 5), (3, 3, 10), (5, 3, 8))


def near(family: str, noise: float = 0.02):
    """A sibling: the target's weights with some noise, so that it is right often and wrong often; another embedding size would
    do as well."""
    sibling = tiny(family)
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in sibling.model.parameters():
            if weight.dim() > 1:
                weight.add_(torch.randn_like(weight) * noise)
    sibling.id = "sibling"
    return sibling


def run(target, drafter, picture, settings, question=QUESTION):
    events = list(checked(decode(target, drafter, picture, question, settings)))
    return events[-1], events


def shaped(depth, width, nodes) -> Shape:
    return Shape(depth=depth, width=width, nodes=nodes)


@pytest.mark.parametrize("family", ["mistral", "qwen", "smolvlm"])
def test_ids_are_the_plain_ones(family):
    """Trees of five shapes, greedy and sampled, several pictures: plain ids; some drafts are accepted, some are not."""
    target = tiny(family)
    drafter, accepted, drafted = SiblingDrafter(near(family), target), 0, 0
    for number, tree in enumerate(TREES):
        for temperature in (0.0, 0.8):
            settings = make_settings(max_new_tokens=20, temperature=temperature, seed=number, tree=shaped(*tree))
            picture = toy_picture(number, 30 + 20 * number, 90 - 12 * number)
            finished, _ = run(target, drafter, picture, settings)
            assert finished.ids == decode_plain(target, picture, QUESTION, settings).ids
            accepted, drafted = accepted + finished.accepted, drafted + finished.drafted
    assert 0 < accepted < drafted


@pytest.mark.parametrize("family", ["vicuna", "qwen", "smolvlm"])
def test_a_twin_is_always_right(family):
    """A sibling with the target's own weights and a chain: every round accepts all of it, so positions and cache are the
    target's own at every depth, round after round."""
    target = tiny(family)
    finished, events = run(
        target, SiblingDrafter(tiny(family), target), toy_picture(), make_settings(max_new_tokens=43, tree=shaped(5, 1, 6))
    )
    rounds = [len(event.emitted) for event in events if isinstance(event, ev.RoundVerified)]
    assert rounds == [6] * 7 and len(finished.ids) == 43


def test_probabilities_of_nodes_are_those_of_their_paths():
    """Brute force: log-probability of every node = its parent's path prefilled as an answer; the kept nodes are the best."""
    target, sibling = tiny("qwen"), near("qwen")
    drafter = SiblingDrafter(sibling, target)
    draft_run = drafter.start(target.prefill(toy_picture(), QUESTION), make_settings())
    start = target.prefill(toy_picture(), QUESTION).next_position
    draft_run.extend(torch.tensor([9, 10, 11]), torch.zeros(3, 1), start + torch.arange(3))
    draft = draft_run.propose(shaped(3, 3, 12))
    again = draft_run.propose(shaped(3, 3, 12))
    assert torch.equal(draft.tokens, again.tokens) and draft.size == 12 and int(draft.depths.max()) == 3
    paths = {0: [9, 10, 11]}
    for node in range(1, draft.size):
        parent = int(draft.parents[node])
        logits = sibling.prefill(toy_picture(), QUESTION, paths[parent]).logits
        paths[node] = [*paths[parent], int(draft.tokens[node])]
        logp = (logits + drafter.unknown).log_softmax(-1)  # over the words that both know
        assert float(draft.logp[node]) == pytest.approx(float(logp[draft.tokens[node]]), abs=1e-4)
    assert len({tuple(path) for path in paths.values()}) == draft.size
    best = sibling.prefill(toy_picture(), QUESTION, [9, 10, 11]).logits.topk(3).indices.tolist()
    assert [int(draft.tokens[node]) for node in range(1, draft.size) if draft.parents[node] == 0] == best


def test_cache_after_many_rounds():
    """What the sibling keeps after 12 rounds of drafting = a fresh prefill of the answer so far: nothing speculative stays."""
    target, sibling = tiny("smolvlm"), near("smolvlm")
    drafter, runs = SiblingDrafter(sibling, target), []
    start = drafter.start
    drafter.start = lambda *a: runs.append(start(*a)) or runs[-1]
    settings = make_settings(max_new_tokens=30, tree=shaped(3, 2, 7))
    finished, _ = run(target, drafter, toy_picture(), settings)
    kept = runs[0].run
    said = kept.cache.committed - len(kept.prompt_ids)
    fresh = sibling.prefill(toy_picture(), QUESTION, finished.ids[:said])
    assert said > 20
    torch.testing.assert_close(kept.cache.committed_values(), fresh.cache.committed_values(), atol=1e-3, rtol=1e-4)


def test_words_are_matched_by_name():
    """A sibling that numbers its special tokens differently: ids go there and back by name, and the answer stays exact."""
    target, sibling = tiny("smolvlm"), tiny("smolvlm", seed=0)
    state = json.loads(tokenizer_of("smolvlm").backend_tokenizer.to_str())
    marks = state["added_tokens"]
    one, two = marks[2], marks[5]
    one["content"], two["content"] = two["content"], one["content"]
    sibling.tokenizer = Tokenizer.from_str(json.dumps(state))
    drafter = SiblingDrafter(sibling, target)
    assert int(drafter.to_own[one["id"]]) == two["id"] and int(drafter.to_target[two["id"]]) == one["id"]
    assert int(drafter.to_own[20]) == 20
    settings = make_settings(max_new_tokens=24, tree=shaped(3, 3, 10))
    finished, _ = run(target, drafter, toy_picture(), settings)
    assert finished.ids == decode_plain(target, toy_picture(), QUESTION, settings).ids


def test_a_word_the_sibling_does_not_know_ends_its_drafts():
    """The target's head is larger than its vocabulary: an id without a name is nothing the sibling can read. It drafts no more,
    and the answer is still plain decoding's."""
    target = tiny("qwen")
    drafter = SiblingDrafter(near("qwen"), target)
    nameless = target.vocab_size - 1
    assert target.tokenizer.id_to_token(nameless) is None and int(drafter.to_own[nameless]) == -1
    base_run = target.prefill(toy_picture(), QUESTION)
    draft_run = drafter.start(base_run, make_settings())
    draft_run.extend(torch.tensor([9]), torch.zeros(1, 1), torch.tensor([base_run.next_position]))
    assert draft_run.propose(shaped(2, 2, 5)).size == 5
    draft_run.extend(torch.tensor([nameless]), torch.zeros(1, 1), torch.tensor([base_run.next_position + 1]))
    draft = draft_run.propose(shaped(2, 2, 5))
    assert draft.size == 1 and int(draft.tokens[0]) == nameless


def test_end_of_the_siblings_context():
    """A sibling with a shorter context drafts until it is full, then no more; the target goes on alone, exactly."""
    target = tiny("mistral")
    length = len(target.prompt(toy_picture(), QUESTION).ids)
    sibling = tiny("mistral", context=length + 12)
    settings = make_settings(max_new_tokens=40, tree=shaped(3, 2, 7))
    finished, events = run(target, SiblingDrafter(sibling, target), toy_picture(), settings)
    assert finished.ids == decode_plain(target, toy_picture(), QUESTION, settings).ids
    rounds = [event for event in events if isinstance(event, ev.RoundVerified)]
    assert rounds[0].accepted and not rounds[-1].accepted and len(rounds[-1].emitted) == 1


def test_another_vocabulary_is_refused():
    """A model of another family is no sibling: one sentence with the count of shared words."""
    with pytest.raises(DrafterError, match="no sibling of tiny-vicuna"):
        SiblingDrafter(tiny("qwen"), tiny("vicuna"))


def test_the_embedded_family_has_siblings_too():
    """Nothing about a sibling belongs to the hub: two toy LLaVAs do as well."""
    target, sibling = toy_target(), toy_target(1)
    settings = make_settings(max_new_tokens=20, tree=shaped(3, 3, 10))
    finished, _ = run(target, SiblingDrafter(sibling, target), toy_picture(), settings)
    assert finished.ids == reference(target, toy_picture(), QUESTION, 20)[0]


def test_the_shared_share_of_words_decides(monkeypatch):
    """The least share is a bound: at all words a sibling of the same tokenizer is used, above that none is."""
    target = tiny("qwen")
    monkeypatch.setattr(sibling_module, "LEAST_SHARED", 1.0)
    SiblingDrafter(tiny("qwen", 1), target)
    monkeypatch.setattr(sibling_module, "LEAST_SHARED", 1.01)
    with pytest.raises(ValueError, match="no sibling"):
        SiblingDrafter(tiny("qwen", 1), target)
