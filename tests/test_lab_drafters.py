"""The Lab's trained drafters wherever one can be chosen: offered where they lie, each exact, never announced where absent."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from app.api import Endpoints
from app.asking import DRAFTERS, make_ticket
from app.build import build_page
from app.models import LABELS, Models, budget_note, label_of, offered
from app.pages.models import ways_of
from app.pair import WAYS, drafter_of, make_pair, offered_ways, way_of
from app.session import Session
from fovea_core import cli
from fovea_core.decode.fovea import load_drafter
from fovea_core.decode.plain import decode_plain
from fovea_core.drafter.checkpoint import CONFIG_NAME, DrafterError, save_drafter
from fovea_core.engine import Engine, load_engine
from fovea_core.examples import load_examples
from fovea_core.fingerprint import fingerprint
from fovea_core.pictures import open_picture
from fovea_core.request import Request
from fovea_core.settings import make_settings
from fovea_core.targets import shelf
from fovea_core.targets.registry import load_target
from fovea_core.trace.codec import decode
from fovea_core.trace.events import CostTable, MemoryRead
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.train.lab import lab_recipe
from fovea_core.train.twin import Twin
from fovea_core.train.variants import ABLATIONS, ABSTRACT, RIVALS, ROWS

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = [shelf.LAB + name for name in shelf.LAB_ROWS]
#: What the runs of those that read the picture name as their policy.
SIGHTS = {"lab-fovea": "fovea", "lab-hawk": "cells", "lab-tiger": "routed-8", "lab-unilaspec": "watched-8"}
QUESTION, TOKENS = "What does the worker hold?", 8


@pytest.fixture
def rivals(tmp_path, monkeypatch):
    """assets/rivals in an empty folder of the test's own."""
    monkeypatch.setattr(shelf, "RIVALS", tmp_path)
    return tmp_path


def put(folder, name: str, owner: str | None = None) -> None:
    """The config of a drafter, for the embedded target or another ``owner``."""
    (folder / name).mkdir(parents=True)
    wanted = fingerprint(shelf.BUILTIN) if owner is None else owner
    (folder / name / CONFIG_NAME).write_text(json.dumps({"target_fingerprint": wanted}))


def test_names_are_those_of_the_labs_rows():
    """One table says what a person calls a row; of three it says that only the abstract is known."""
    assert list(shelf.LAB_ROWS) == [name for name in ROWS if name not in ABLATIONS]
    assert all(ROWS[name].label == label for name, label in shelf.LAB_ROWS.items())
    assert [name for name in RIVALS if RIVALS[name].known == ABSTRACT] == list(shelf.ABSTRACTS)
    assert label_of("lab-tiger") == "TIGER-style, built from the abstract (Lab's budget)"
    assert label_of("lab-fovea") == "FOVEA (Lab's budget)" and label_of("builtin") == LABELS["builtin"]
    assert not {*NAMES} & {*WAYS, *DRAFTERS}


def test_nothing_is_announced_where_nothing_lies(rivals):
    for folder in (rivals, rivals / "away"):
        shelf.RIVALS = folder  # the fixture puts it back
        assert offered() == DRAFTERS and shelf.lab_drafters() == {} and budget_note(offered()) is None
        assert offered_ways(offered()) == [(text, name) for name, (text, *_) in WAYS.items()]


def test_what_lies_there_is_offered_in_the_labs_order(rivals):
    """A folder without a config, one of another target and a damaged one are left out; an unknown name stands for itself."""
    for name in ("tiger", "prefix", "own-try", "fovea"):
        put(rivals, name)
    put(rivals, "hawk", "another target")
    (rivals / "dream").mkdir()
    (rivals / "eagle3").mkdir()
    (rivals / "eagle3" / CONFIG_NAME).write_text("{")
    here = ("lab-fovea", "lab-prefix", "lab-tiger", "lab-own-try")
    assert offered() == (*DRAFTERS, *here) and Models([]).offers("builtin") == offered()
    assert shelf.lab_drafters()["lab-own-try"] == "own-try (Lab's budget)"
    assert offered_ways(offered())[len(WAYS) :] == [(label_of(name), name) for name in here]
    assert Models([]).labelled("builtin")[-4:] == [(label_of(name), name) for name in here]


def test_the_note_says_what_to_hold_them_against(rivals):
    """FOVEA and its twin of the same budget, as far as they lie there."""
    put(rivals, "hawk")
    assert "small budget" in budget_note(offered()) and "hold" not in budget_note(offered())
    put(rivals, "fovea")
    assert "against 'FOVEA (Lab's budget)', not" in budget_note(offered())
    put(rivals, "blind")
    assert "'FOVEA (Lab's budget)' and 'drafter without memory (Lab's budget)'" in budget_note(offered())


def test_ways_of_compare(rivals):
    """Each is a way of its own, beside the stand-in of the same name; the dropdowns follow the model."""
    for name in shelf.LAB_ROWS:
        put(rivals, name)
    for name in NAMES:
        assert drafter_of(name, offered()) == (name, "fovea") and way_of(name, "fovea", offered()) == name
        assert way_of(name, "none", offered()) == name and way_of(name, "none", DRAFTERS) is None
    assert drafter_of("hawk", offered()) == ("builtin", "hawk")
    a, b = ways_of(Models([]).labelled("builtin"), True, True)
    assert [way for _, way in a["choices"]] == [*WAYS, *NAMES] and a["value"] == "fovea" and b["value"] == "blind"
    assert a["info"] == budget_note(offered())
    a, _ = ways_of([("lookup", "lookup"), ("none", "none")], False, False)
    assert a["info"] is None


def test_a_drafter_without_a_memory_has_no_policy_of_it():
    """As a way of Compare: of the committed ones FOVEA alone is run with FOVEA's policy; an unknown one may have a memory."""
    ways = {name: drafter_of(name, offered()) for name in NAMES}
    assert ways == {name: (name, "fovea" if name == "lab-fovea" else "none") for name in NAMES}
    assert all(way_of(*ways[name], offered()) == name for name in NAMES)
    assert shelf.remembers("lab-nothing-here") and shelf.remembers("builtin")


def test_names_are_read_without_torch(rivals):
    """What is offered is known before the model library is."""
    put(rivals, "hawk")
    code = (
        "import sys, pathlib; from app.models import offered, label_of; from fovea_core.targets import shelf;"
        f"shelf.RIVALS = pathlib.Path({str(rivals)!r});"
        "assert [label_of(name) for name in offered()][-1].startswith('HAWK'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def boxes(session) -> dict[str, dict]:
    """The dropdowns of the whole page, by label."""
    components = build_page(session, []).get_config_file()["components"]
    return {part["props"]["label"]: part["props"] for part in components if part["type"] == "dropdown"}


def test_the_page_and_its_api_offer_them(rivals):
    """Explain by drafter, Compare by way, /models by name and label; without them no word of a budget."""
    session = Session(lambda: None, offers=offered)
    bare, none = boxes(session), Endpoints(session).models()
    assert bare["Drafter"].get("info") is None and bare["A"].get("info") is None and none["note"] is None
    assert [name for _, name in bare["Drafter"]["choices"]] == list(DRAFTERS) == none["drafters"]
    for name in ("fovea", "hawk"):
        put(rivals, name)
    some, said = boxes(session), Endpoints(session).models()
    own = [("FOVEA (Lab's budget)", "lab-fovea"), ("HAWK-style, built from the abstract (Lab's budget)", "lab-hawk")]
    assert [tuple(choice) for choice in some["Drafter"]["choices"][len(DRAFTERS) :]] == own
    assert all([tuple(choice) for choice in some[side]["choices"][len(WAYS) :]] == own for side in "AB")
    assert some["Drafter"]["info"] == some["A"]["info"] == said["note"] == budget_note(offered())
    assert said["drafters"][-2:] == ["lab-fovea", "lab-hawk"] and said["labels"]["lab-hawk"] == own[1][0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The embedded target, and an untrained drafter of each row for it, all parts of it far from their start."""
    folder, target = tmp_path_factory.mktemp("rivals"), load_target("builtin", torch.device("cpu"))
    torch.manual_seed(5)
    for name in shelf.LAB_ROWS:
        drafter = Twin(name, target, lab_recipe(4), variant=ROWS[name]).drafter
        with torch.no_grad():
            for parameter in drafter.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        save_drafter(folder / name, drafter)
    return SimpleNamespace(folder=folder, target=target)


@pytest.fixture
def session(trained, monkeypatch):
    """A session whose engine loads what lies in the folder, at a given price."""
    monkeypatch.setattr(shelf, "RIVALS", trained.folder)
    prices = CostTable(tokens=[1, 64], verify_ms=[1.0, 1.0], level_ms=0.01)
    load = lambda name: None if name == "none" else load_drafter(name, trained.target)  # noqa: E731
    made = Session(lambda: Engine(trained.target, load, prices=prices), offers=offered)
    yield made
    made.close()


SHARED = ("4,3,10", TOKENS, 0, 1, 0)


def events(lines: list[str]):
    return checked([decode(line) for line in lines[1:]])


def test_each_answers_as_plain_decoding(session, trained):
    """Through the page's own queue: named in the trace, the target's own ids, a lawful trace; FOVEA alone reads the memory, and
    those that read the picture otherwise say how and tell what they read."""
    picture = load_examples()[0].picture
    assert list(session.drafters) == [*DRAFTERS, *NAMES]
    ticket = make_ticket(str(picture), QUESTION, "none", "fovea", *SHARED, False, drafters=session.drafters)
    plain = decode_plain(trained.target, ticket.request.image, QUESTION, ticket.request.settings).ids
    for name in NAMES:
        session.accept("me", make_ticket(str(picture), QUESTION, name, "fovea", *SHARED, False, drafters=session.drafters))
        last = list(session.run("me"))[-1]
        assert last.phase == "done", last.trouble
        summary = fold(events(last.lines))
        assert summary.ids == plain and summary.started.drafter.id == name
        assert summary.started.policy == SIGHTS.get(name, "none")
        reads = [event for event in events(last.lines) if isinstance(event, MemoryRead)]
        assert bool(reads) == (name in SIGHTS)
        assert all((read.correction_norm is None) == (name != "lab-fovea") for read in reads)


def test_the_committed_ones_answer_with_the_tree_that_pays():
    """Each drafter of assets/rivals as a person would run it: its prices measured, a tree chosen, the target's own ids."""
    engine, picture = load_engine("builtin", "cpu"), load_examples()[0].picture
    settings = make_settings(max_new_tokens=10, detail="rounds")
    image = open_picture(picture).rgb
    plain = decode_plain(engine.target, image, QUESTION, settings).ids
    names = list(shelf.lab_drafters())
    assert names == NAMES
    for name in names:
        *_, finished = engine.run(Request(image, QUESTION, settings, name))
        assert finished.ids == plain, name


def test_two_of_them_as_a_and_b(session):
    """In Compare each is a way of its own; both are measured."""
    picture = str(load_examples()[0].picture)
    session.accept("me", make_pair(picture, QUESTION, "lab-fovea", "lab-hawk", *SHARED, drafters=session.drafters))
    last = list(session.run("me"))[-1]
    assert last.phase == "done", last.trouble
    a, b = (fold(events(lines)) for lines in last.lines)
    assert (a.started.drafter.id, b.started.drafter.id) == ("lab-fovea", "lab-hawk") and a.ids == b.ids
    assert a.compared.same_ids and b.compared.same_ids


def test_the_command_line_takes_their_names(trained, monkeypatch, tmp_path):
    """decode and run-set by the same names; what is not there is a sentence with the names that are."""
    monkeypatch.setattr(shelf, "RIVALS", trained.folder)
    picture = load_examples()[0].picture
    settings = ["--max-new-tokens", "4", "--tree", "3,2,6"]
    trace = tmp_path / "run.jsonl"
    asked = ["decode", "--image", str(picture), "--question", QUESTION, *settings]
    assert cli.main([*asked, "--drafter", "lab-blind", "--trace", str(trace)]) == 0
    started = fold(events(trace.read_text().splitlines())).started
    assert started.drafter.id == "lab-blind" and started.drafter.fingerprint == fingerprint(trained.folder / "blind")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"image": str(picture), "question": QUESTION}) + "\n")
    out = tmp_path / "out.csv"
    assert cli.main(["run-set", str(rows), "--drafter", "lab-tiger", "--anywhere", "--out", str(out), *settings]) == 0
    assert "lab-tiger" in out.read_text() and ",yes," in out.read_text()
    with pytest.raises(DrafterError, match="builtin, blind, lab-blind, lab-compressed"):
        load_drafter("hawk", trained.target)


def test_a_run_of_theirs_can_be_drafted_again(session, trained):
    """FOVEA's own, as with the shipped one; a rival looks at no entries, which is a sentence."""
    engine, image = session._model._load(lambda text: None), load_examples()[0].picture
    settings = make_settings(max_new_tokens=6, tree={"depth": 3, "width": 2, "nodes": 6})
    rgb = open_picture(image).rgb
    for name, possible in (("lab-fovea", True), ("lab-hawk", False)):
        run = list(engine.run(Request(rgb, QUESTION, settings, name)))
        if possible:
            assert engine.redraft(run, rgb, 0, [3, 4]).round == 0
        else:
            with pytest.raises(ValueError, match="reads no visual memory"):
                engine.redraft(run, rgb, 0, [3, 4])
