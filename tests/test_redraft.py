"""Erase and redraft: the state is the recorded one, what is erased is not read, the answer stays plain decoding's."""

from __future__ import annotations

import random

import pytest
import torch

from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.decode.redraft import RedraftError, redraft
from fovea_core.engine import Engine
from fovea_core.memory.correct import FoldedMemory
from fovea_core.memory.select import Bounds, make_policy
from fovea_core.request import Request
from fovea_core.settings import RunSettings
from fovea_core.trace.codec import unpack_entries
from fovea_core.trace.events import CostTable, MemoryRead, NodeDrafted, RoundVerified, Shape
from fovea_core.trace.laws import valid_entries
from tests.toys import ScriptDrafter, oracle, toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION, TOKENS = "red?", 24
TREE = Shape(depth=3, width=8, nodes=60)
COST = CostTable(tokens=[1, 64], verify_ms=[1.0, 1.4], level_ms=0.02)


@pytest.fixture(scope="module")
def target():
    target = toy_target(3, cells=6)  # 36 entries, 24 of them valid for the pictures here
    target.eos_ids = frozenset()
    return target


@pytest.fixture(scope="module")
def drafter(target):
    """Random weights, and a head for the answer's own tokens only, so that it is right now and then; reads 2 to 5 entries."""
    inner = toy_drafter(target, 1, k_min=2, k_max=5).drafter
    said = decode_plain(target, toy_picture(), QUESTION, RunSettings(max_new_tokens=TOKENS)).ids
    head = torch.zeros_like(inner.head)
    head[said] = target.head[said]
    return FoveaDrafter(inner.attach(target.embedding, head), "builtin")


def settings_of(tree: Shape | None = TREE, **options) -> RunSettings:
    return RunSettings(max_new_tokens=TOKENS, tree=tree, **options)


def record(target, drafter, settings: RunSettings, picture=None) -> list:
    return list(decode(target, drafter, picture or toy_picture(), QUESTION, settings, cost=COST))


def rounds_of(events) -> list[list]:
    """Per round its reads, nodes and verdict."""
    found: list[list] = [[]]
    for event in events:
        if isinstance(event, MemoryRead | NodeDrafted | RoundVerified):
            found[-1].append(event)
        if isinstance(event, RoundVerified):
            found.append([])
    return found[:-1]


def some(rounds: list[list]) -> list[tuple[int, list]]:
    """(number, events) of the first two rounds, of every fourth, and of the last one."""
    return [(n, events) for n, events in enumerate(rounds) if n < 2 or n % 4 == 0 or n == len(rounds) - 1]


def without_times(events) -> list:
    """Events as plain values, but for their milliseconds."""
    return [{name: value for name, value in event.model_dump().items() if not name.endswith("ms")} for event in events]


def begins_at(ids: list[int], rounds: list[list], number: int, emitted: list[int]) -> bool:
    """Whether ``emitted`` goes on with the answer ``ids`` where round ``number`` begins."""
    said = 1 + sum(len(events[-1].emitted) for events in rounds[:number])
    return ids[said : said + len(emitted)] == emitted


def reads_of(events) -> list[list[int]]:
    return [unpack_entries(event.entries) for event in events if isinstance(event, MemoryRead)]


def verdict_of(events) -> RoundVerified:
    return events[-1]


@pytest.mark.parametrize("settings", [settings_of(), settings_of(None), settings_of(None, temperature=0.8, seed=5)])
def test_a_run_of_a_gpu_is_repeated_as_one(target, drafter, settings):
    """Its host read each round once, so drafts that cost chose were sent whole; on a CPU they would be trimmed."""
    recorded = list(decode(target, drafter, toy_picture(), QUESTION, settings, cost=COST, early=False))
    recorded = [event.model_copy(update={"device": "Some GPU"}) if event.n == 0 else event for event in recorded]
    for number, events in some(rounds_of(recorded)):
        found = redraft(target, drafter, toy_picture(), recorded, number, [])
        assert without_times(found.old) == without_times(found.new) == without_times(events)
        assert all(word.old == word.new for word in found.words)


@pytest.mark.parametrize(
    "settings",
    [
        settings_of(),
        settings_of(None),
        settings_of(temperature=0.8, top_p=0.9, seed=5),
        settings_of(Shape(depth=3, width=1, nodes=4), policy="random-3"),
    ],
)
def test_with_nothing_erased_every_round_is_the_recorded_one(target, drafter, settings):
    """Tokens, parents, log-probabilities, reads, verdict and running numbers, whatever chose the tree; both times."""
    recorded = record(target, drafter, settings)
    rounds = rounds_of(recorded)
    greedy = settings.temperature == 0 and settings.policy == "fovea"
    assert len(rounds) > 3 and (not greedy or any(verdict_of(events).accepted for events in rounds))
    for number, events in some(rounds):
        found = redraft(target, drafter, toy_picture(), recorded, number, [])
        assert without_times(found.old) == without_times(found.new) == without_times(events)
        assert all(word.old == word.new for word in found.words)


@pytest.mark.parametrize(
    ("tree", "policy"),
    [(TREE, "fovea"), (None, "fovea"), (TREE, "static-4"), (TREE, "tiger-3"), (Shape(depth=4, width=1, nodes=5), "dense")],
)
def test_what_is_erased_is_not_read_and_the_answer_stays(target, drafter, tree, policy):
    """What a round fetched, taken away: no read of the new draft names it, and its tokens go on with plain decoding's."""
    recorded = record(target, drafter, settings_of(tree, policy=policy))
    plain = decode_plain(target, toy_picture(), QUESTION, RunSettings(max_new_tokens=TOKENS)).ids
    rounds, differs = rounds_of(recorded), 0
    for number, events in some(rounds):
        fetched = {entry for read in reads_of(events) for entry in read}
        lost = sorted(fetched)[: 2 * len(fetched) // 3]
        found = redraft(target, drafter, toy_picture(), recorded, number, lost)
        assert found.lost == tuple(lost) and without_times(found.old) == without_times(events)
        assert not any(set(read) & set(lost) for read in reads_of(found.new))
        assert begins_at(plain, rounds, number, verdict_of(found.new).emitted)
        differs += without_times(found.new) != without_times(events)
    assert differs  # the entries do matter to this drafter


def test_log_probabilities_are_those_of_the_trees(target, drafter):
    """Where the tree holds a word that the round emitted, its log-probability is the node's; in both trees."""
    recorded, seen = record(target, drafter, settings_of()), 0
    for number, events in some(rounds_of(recorded)):
        lost = sorted({entry for read in reads_of(events) for entry in read})[:9]
        found = redraft(target, drafter, toy_picture(), recorded, number, lost)
        assert [word.token for word in found.words] == verdict_of(events).emitted[: len(found.words)]
        for draft, value in ((found.old, lambda word: word.old), (found.new, lambda word: word.new)):
            nodes = {event.node: event for event in draft if isinstance(event, NodeDrafted)}
            for word, node in zip(found.words, verdict_of(draft).accepted):
                assert nodes[node].token == word.token and value(word) == pytest.approx(nodes[node].logp, abs=2e-4)
                seen += 1
    assert seen > 4


def test_a_memory_without_some_entries_equals_one_built_without_them(target, drafter):
    """The twin: the folded memory made anew from fewer valid entries; scores, correction, entry numbers."""
    run = target.prefill(toy_picture(), QUESTION)
    lost = torch.tensor([7, 8, 20])
    whole = FoldedMemory(drafter.drafter.remember(run.features, run.valid), drafter.correction)
    keep = run.valid & ~torch.isin(torch.arange(36), lost)
    twin = FoldedMemory(drafter.drafter.remember(run.features, keep), drafter.correction)
    less, states = whole.without(lost), torch.randn(4, 48, generator=torch.Generator().manual_seed(0))
    left = torch.isin(less.entries, twin.entries)
    assert int(less.n_valid) == int(twin.n_valid) == int(left.sum()) == int(run.valid.sum()) - 3
    for asked in (lambda m: m.scores(states, 1), lambda m: m.partial_scores(states, None), lambda m: m.partial_scores(None, 1)):
        assert torch.allclose(asked(less)[:, left], asked(twin), atol=1e-5) and asked(less)[:, ~left].isneginf().all()
        assert asked(whole).isfinite().all()  # the memory it came from is as it was
    policy = make_policy("fovea", Bounds(2, 9, 0.8))
    one, other = policy.select(states, 1, less), policy.select(states, 1, twin)
    assert torch.equal(one.count, other.count) and torch.allclose(one.weights[:, left], other.weights, atol=1e-5)
    for here, there in zip(less.correct(states, one.weights), twin.correct(states, other.weights), strict=True):
        assert torch.allclose(here, there, atol=1e-5)
    with pytest.raises(ValueError, match="without a valid entry"):
        whole.without(whole.entries)


def test_all_entries_erased_is_no_memory(target, drafter):
    """No read, and the draft of the same state by the same drafter under the policy 'none'."""
    recorded = record(target, drafter, settings_of())
    valid = [entry for tile in recorded[1].tiles for entry in valid_entries(tile)]
    blank = rounds_of(record(target, drafter, settings_of(policy="none")))[0]
    found = redraft(target, drafter, toy_picture(), recorded, 0, valid)
    assert not reads_of(found.new) and reads_of(found.old)
    assert without_times(found.new) == [event | {"n": event["n"]} for event in without_times(blank)]


def test_random_erasing_never_changes_the_answer(target, drafter):
    recorded = record(target, drafter, settings_of(temperature=0.7, seed=3))
    ids, dice = recorded[-1].ids, random.Random(0)
    valid = [entry for tile in recorded[1].tiles for entry in valid_entries(tile)]
    for number, _ in some(rounds_of(recorded)):
        lost = dice.sample(valid, dice.randrange(1, len(valid)))
        found = redraft(target, drafter, toy_picture(), recorded, number, lost)
        assert begins_at(ids, rounds_of(recorded), number, verdict_of(found.new).emitted)


def changed(events: list, place: int, **values) -> list:
    return [*events[:place], events[place].model_copy(update=values), *events[place + 1 :]]


def test_bad_requests_are_one_sentence(target, drafter):
    recorded = record(target, drafter, settings_of())
    third = [i for i, event in enumerate(recorded) if isinstance(event, RoundVerified)][2]
    padding = next(entry for entry in range(36) if not target.prefill(toy_picture(), QUESTION).valid[entry])
    name = recorded[0].target.model_copy(update={"fingerprint": "f00"})
    other = recorded[0].drafter.model_copy(update={"fingerprint": "f00"})
    wide = CostTable(tokens=[4, 2], verify_ms=[1.0, 1.0], level_ms=0.1)
    for sentence, arguments in {
        "no step 100": (recorded, 99, []),
        "no step 0": (recorded, -1, []),
        "Entry 36 cannot": (recorded, 0, [8, 36]),
        "Entry -1 cannot": (recorded, 0, [-1]),
        f"Entry {padding} cannot": (recorded, 0, [padding]),
        "another target": (changed(recorded, 0, target=name), 0, []),
        "another version of the drafter": (changed(recorded, 0, drafter=other), 0, []),
        "had no drafter": (changed(recorded, 0, drafter=None), 0, []),
        "comes out otherwise": (changed(recorded, third, emitted=[9, 9, 9]), 3, []),
        "at step 0": (changed(recorded, 1, token=9), 0, []),
        "cost table": (changed(recorded, 0, shape=None, cost=wide), 0, []),
        "settings of this run": (changed(recorded, 0, settings={"policy": "<b>"}), 0, []),
        "Nothing of this run": (recorded[:1], 0, []),
        "no visual memory": (record(target, drafter, settings_of(policy="none")), 0, []),
    }.items():
        with pytest.raises(RedraftError, match=sentence) as raised:
            redraft(target, drafter, toy_picture(), *arguments)
        assert str(raised.value).endswith(".") and "\n" not in str(raised.value)
    with pytest.raises(RedraftError, match="not the picture"):
        redraft(target, drafter, toy_picture(1), recorded, 0, [])
    script = ScriptDrafter("builtin", oracle, [], target.vocab_size)
    with pytest.raises(RedraftError, match="no visual memory"):
        redraft(target, script, toy_picture(), recorded, 0, [])


def test_a_stopped_redraft_is_none(target, drafter):
    recorded = record(target, drafter, settings_of())
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 2

    assert redraft(target, drafter, toy_picture(), recorded, 4, [], stop) is None
    assert len(asked) == 3


def test_the_engine_takes_the_run_s_own_drafter_and_no_folder(target, drafter):
    names = []
    engine = Engine(target, lambda name: names.append(name) or (None if name == "none" else drafter))
    recorded = record(target, drafter, settings_of())
    found = engine.redraft(recorded, toy_picture(), 1, [8])
    assert names == ["builtin"] and without_times(found.old) == without_times(rounds_of(recorded)[1])
    for id in ("../../etc", "none"):
        other = recorded[0].drafter.model_copy(update={"id": id})
        with pytest.raises(RedraftError):
            engine.redraft(changed(recorded, 0, drafter=other), toy_picture(), 1, [8])
    assert names == ["builtin", "none"]


def test_on_the_embedded_model():
    """A live run of the embedded pair on a drawn scene: rounds equal the recorded ones, erased entries are not read."""
    from PIL import Image

    from fovea_core.engine import load_engine
    from fovea_core.worksite import make_picture

    engine, drawn = load_engine("builtin", "cpu"), make_picture("scene", 12)
    image = Image.fromarray(drawn.rgb)
    request = Request(
        image, drawn.questions[0].question, RunSettings(max_new_tokens=24, tree=Shape(depth=5, width=4, nodes=24))
    )
    recorded = list(engine.run(request))
    rounds = rounds_of(recorded)
    for number in (0, len(rounds) // 2, len(rounds) - 1):
        fetched = sorted({entry for read in reads_of(rounds[number]) for entry in read})
        found = engine.redraft(recorded, image, number, fetched)
        assert without_times(found.old) == without_times(rounds[number])
        assert not any(set(read) & set(fetched) for read in reads_of(found.new))
        assert begins_at(recorded[-1].ids, rounds, number, verdict_of(found.new).emitted)
