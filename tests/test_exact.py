"""Exactness: speculative ids are the plain ones, over pairwise combinations for every family, and ``bench exact``."""

from __future__ import annotations

import io
import itertools
import json
import random

import pytest
from rich.console import Console

from fovea_core import cli
from fovea_core.bench import exact
from fovea_core.bench.report import print_exact
from fovea_core.bench.tiny import tiny
from fovea_core.bench.toy import toy_rival
from fovea_core.decode import loop
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import SettingsError, Shape, make_settings
from fovea_core.trace import events as ev
from fovea_core.trace.laws import checked
from fovea_core.train.lab import lab_recipe
from fovea_core.train.recipe import config_for
from fovea_core.train.variants import RIVALS
from tests.toys import ScriptDrafter, coin, oracle, reference, sibling, toy_drafter, toy_picture, toy_target, wrong

pytestmark = pytest.mark.usefixtures("one_thread")

SCRIPTS = {"coin": coin(0.6), "second child": sibling(1), "third child": sibling(2)}
CHOICES = {
    "question": (*exact.QUESTIONS[:4], "<|im_end|>\n<|im_start|>system\n</s>[INST]"),
    "drafter": ("fovea", "told", *SCRIPTS),
    "policy": exact.POLICIES,
    "tree": ((1, 1, 2), (4, 1, 5), (1, 4, 5), (3, 3, 10), (5, 3, 8)),
    "size": exact.SIZES,
    "temperature": (0.0, 0.9),
}
ROWS_A_FAMILY, LENGTH = 200, 14
#: What of a config makes a rival.
SETTINGS = ("kind", "context", "kept", "source", "entries", "layers", "gated", "parallel", "sighted", "taps")
#: Family -> the tiny random models that share its rows.
FAMILIES = {family: [kind for kind in kinds if kind != "builtin"] for family, kinds in exact.FAMILIES.items()}


def pairwise(choices: dict, seed: int = 0) -> list[dict]:
    """Combinations in which every two values of different settings meet at least once: greedy, seeded."""
    names, rng = list(choices), random.Random(seed)
    pair = lambda row: {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(names, 2)}  # noqa: E731
    left = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in choices[a] for y in choices[b]}
    rows = []
    while left:
        (a, x), (b, y) = min(left, key=repr)
        tries = [{n: rng.choice(choices[n]) for n in names} | {a: x, b: y} for _ in range(40)]
        rows.append(max(tries, key=lambda row: len(pair(row) & left)))
        left -= pair(rows[-1])
    return rows


def test_pairs_all_meet():
    """The rows of one model cover every pair of values, and are far fewer than the product."""
    rows = pairwise(CHOICES)
    for a, b in itertools.combinations(CHOICES, 2):
        met = {(row[a], row[b]) for row in rows}
        assert met == set(itertools.product(CHOICES[a], CHOICES[b]))
    assert len(rows) <= ROWS_A_FAMILY // 2


@pytest.mark.parametrize(("family", "kind"), [(family, kind) for family, kinds in FAMILIES.items() for kind in kinds])
def test_speculative_ids_are_the_plain_ones(family, kind):
    """200 seeded rows a family, shared by its models: the ids are those of plain decoding (greedy, or with the same seed) and,
    where greedy, of generate(); every trace is lawful, and drafts were accepted and rejected on the way."""
    target = toy_target() if kind == "toy" else tiny(kind)
    drafter, accepted, drafted = toy_drafter(target), 0, 0
    rows = itertools.chain.from_iterable(pairwise(CHOICES, seed) for seed in itertools.count())
    for number, row in enumerate(itertools.islice(rows, ROWS_A_FAMILY // len(FAMILIES[family]))):
        picture, question = toy_picture(number, *row["size"]), row["question"]
        settings = make_settings(
            max_new_tokens=LENGTH,
            temperature=row["temperature"],
            seed=number,
            policy=row["policy"],
            tree=Shape(**dict(zip(("depth", "width", "nodes"), row["tree"]))),
        )
        plain = decode_plain(target, picture, question, settings)
        used = drafter
        if row["drafter"] == "told":
            used = exact.Told(drafter, plain.ids, number)
        elif row["drafter"] in SCRIPTS:
            used = ScriptDrafter("script", SCRIPTS[row["drafter"]], plain.ids, target.vocab_size, number)
        *_, finished = checked(decode(target, used, picture, question, settings))
        assert isinstance(finished, ev.Finished) and finished.ids == plain.ids and finished.reason == plain.reason, row
        if not row["temperature"]:
            assert target.generate(picture, question, LENGTH) == plain.ids, row
        accepted, drafted = accepted + finished.accepted, drafted + finished.drafted
    assert 0 < accepted < drafted


# bench exact


@pytest.fixture
def small(monkeypatch):
    """Two families of one model each, two policies, no rivals: 4 cells."""
    monkeypatch.setattr(exact, "RIVALS", {})
    monkeypatch.setattr(exact, "FAMILIES", {"llava": ("toy",), "smolvlm": ("smolvlm",)})
    monkeypatch.setattr(exact, "POLICIES", ("fovea", "random-4"))


def test_tokens_are_spread_evenly(small):
    """As many tokens as asked for, as many for every cell (one more at most), greedy and sampled, none differing."""
    result = exact.bench_exact(131)
    assert result["tokens"] == 131 and result["ids_differing"] == 0 and result["differing"] == []
    cells = [cell for row in result["families"].values() for cell in row.values()]
    assert len(cells) == 4 and {cell["tokens"] for cell in cells} == {32, 33}
    assert all(0 < cell["sampled_tokens"] < cell["tokens"] and cell["answers"] >= 4 for cell in cells)
    assert all(0 < cell["accepted"] < cell["drafted"] and cell["rounds"] > 0 for cell in cells)
    json.dumps(result, allow_nan=False)


def test_a_wrong_verification_is_found(small, monkeypatch):
    """A verification that takes every token's neighbour for the target's own: differing ids are counted and listed."""
    right = loop.verify
    monkeypatch.setattr(loop, "verify", lambda draft, logits, *rest: right(draft, logits.roll(1, -1), *rest))
    result = exact.bench_exact(64)
    assert result["ids_differing"] > 10 and result["differing"][0]["family"] == "llava"


def test_generate_is_a_reference_too(small, monkeypatch):
    """Greedy answers that differ from generate() only are counted as well."""
    real = exact.toy_target

    def other():
        target = real()
        generate = target.generate
        target.generate = lambda *asked: [token + 1 for token in generate(*asked)]
        return target

    monkeypatch.setattr(exact, "toy_target", other)
    families = exact.bench_exact(64)["families"]
    llava = families["llava"]["fovea"]
    assert llava["ids_differing"] == llava["tokens"] - llava["sampled_tokens"] > 0
    assert families["smolvlm"]["fovea"]["ids_differing"] == 0


def test_differing_counts_positions():
    """Positions at which two answers differ; a longer one differs in its rest."""
    assert exact.differing([1, 2, 3], [1, 2, 3]) == 0
    assert exact.differing([1, 2, 3], [1, 5, 3]) == 1 and exact.differing([1, 2], [1, 2, 3, 4]) == 2


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_told_drafts(share):
    """Told at every miss, a chain is right all the way; never told, and where it is right already, it is the other's own."""
    target, question = toy_target(), "what is in the picture?"
    target.eos_ids = frozenset()
    truth, _ = reference(target, toy_picture(), question, 20)
    settings = make_settings(max_new_tokens=20, tree=Shape(depth=4, width=1, nodes=5))
    for script, told in ((wrong, share), (oracle, 1)):
        drafter = ScriptDrafter("script", script, truth, target.vocab_size)
        drafter.sight, drafter.watches = lambda settings: ("none", -1), lambda settings: False
        *_, finished = checked(decode(target, exact.Told(drafter, truth, 0, share), toy_picture(), question, settings))
        assert finished.ids == truth and finished.accepted == told * finished.drafted


def test_too_few_tokens():
    with pytest.raises(SettingsError, match="tokens 54 is not possible: at least 55"):
        exact.bench_exact(54)


@pytest.fixture
def rivals(monkeypatch):
    """One family and policy beside every rival: 8 cells."""
    monkeypatch.setattr(exact, "FAMILIES", {"llava": ("toy",)})
    monkeypatch.setattr(exact, "POLICIES", ("none",))


def test_every_rival_is_compared(rivals):
    """All that are trained, each with its own settings, greedy and sampled; accepted and rejected, none differing."""
    result = exact.bench_exact(8 * 16)
    rows = result["families"]["llava"]
    assert list(rows) == ["none", *(f"lab-{name}" for name in RIVALS)] and result["ids_differing"] == 0
    assert result["rivals"]["settings"] == {f"lab-{name}": variant.rival for name, variant in RIVALS.items()}
    assert all(row["tokens"] == 16 and 0 < row["sampled_tokens"] < 16 for row in rows.values())
    assert all(0 < row["accepted"] < row["drafted"] for row in rows.values())
    text = io.StringIO()
    print_exact(json.loads(json.dumps(result, allow_nan=False)), Console(file=text, width=120))
    assert all(name in text.getvalue() for name in rows) and "0 of 128 ids differ" in text.getvalue()


def test_a_rivals_wrong_verification_is_found(rivals, monkeypatch):
    """What goes wrong behind a rival's draft is counted as the rival's."""
    right = loop.verify
    monkeypatch.setattr(loop, "verify", lambda draft, logits, *rest: right(draft, logits.roll(1, -1), *rest))
    result = exact.bench_exact(8 * 8)
    assert all(row["ids_differing"] > 0 for row in result["families"]["llava"].values())
    assert {found["policy"] for found in result["differing"]} & exact.RIVALS.keys()


def test_random_rivals_are_what_is_trained():
    """The same settings and layers as those of the Lab's rows, on the same target."""
    for name, variant in RIVALS.items():
        target = toy_target()
        config = toy_rival(target, name).config
        wanted = config_for(target, lab_recipe(), variant, name)
        mine, theirs = ({key: getattr(made, key, None) for key in SETTINGS} for made in (config, wanted))
        assert mine == theirs and type(config) is type(wanted)


def test_command(small, capsys, monkeypatch, tmp_path):
    """The object goes to a file or stdout, the table to stderr; exit code 1 where ids differ, 2 where the number is wrong."""
    file = tmp_path / "exact.json"
    assert cli.main(["bench", "exact", "--tokens", "16", "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert result["tokens"] == 16 and set(result["families"]) == {"llava", "smolvlm"}
    assert "0 of 16 ids differ" in capsys.readouterr().err
    assert cli.main(["bench", "exact", "--tokens", "3"]) == 2
    assert "tokens 3 is not possible" in capsys.readouterr().err
    monkeypatch.setattr(exact, "differing", lambda one, other: len(one))
    assert cli.main(["bench", "exact", "--tokens", "16", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["ids_differing"] == 16
