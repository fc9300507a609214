"""Several models on one page: what may be chosen, how one takes the place of another, what is left when that fails."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest
import torch

from app.handlers import Handlers
from app.loaded import BUILTIN
from app.models import EMBEDDED, Models
from app.pages.models import Choosing, panel_value
from app.session import CHANGED, Session
from app.ticket import Ticket
from app.waits import expected, note_answer
from fovea_core.bench import first_look as first_look_module
from fovea_core.bench.first_look import stamp_path
from fovea_core.drafter.checkpoint import CONFIG_NAME
from fovea_core.engine import Engine
from fovea_core.fingerprint import fingerprint
from fovea_core.pictures import data_url
from fovea_core.request import Request
from fovea_core.settings import SettingsError, make_settings
from fovea_core.shortage import ADVICE
from fovea_core.targets import loading, registry, shelf
from fovea_core.trace.codec import Header
from tests.test_app import QUESTION, TOKENS, right, ticket
from tests.test_registry import copied, store
from tests.toys import toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

ME = SimpleNamespace(session_hash="me")
NOTICE = "drawn pictures only"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two tiny checkpoints of one family and one of another, by name."""
    place = tmp_path_factory.mktemp("models")
    return {
        name: str(store(family, place / name, seed))
        for name, family, seed in (("large", "qwen", 0), ("small", "qwen", 1), ("other", "smolvlm", 0))
    }


@pytest.fixture(scope="module")
def stamps(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def places(tmp_path, stamps, monkeypatch):
    """Stamps that these tests share, since a look takes seconds, and a hub cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(stamps))
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(shelf, "RIVALS", tmp_path / "rivals")  # tests/test_lab_drafters.py has some


@pytest.fixture
def unseen(places, tmp_path, monkeypatch):
    """No model has been looked at."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def models(stored):
    return Models([stored["large"], stored["other"], "Qwen/Qwen2.5-VL-3B-Instruct"], [stored["small"]], "cpu")


@pytest.fixture
def session(models):
    """The embedded model's place is taken by a toy."""

    def load():
        target = toy_target()
        target.eos_ids = frozenset()
        return Engine(target, lambda name: None)

    made = Session(load, offers=models.offers)
    yield made
    made.close()


@pytest.fixture
def on(session, models):
    return Choosing(session, models, NOTICE)


def press(**data):
    return gr.EventData(None, data)


def choose(on, name: str, who=ME) -> list:
    """All values that choosing a model gives."""
    return list(on.choose(press(name=name), who))


def texts(values: list) -> list[str]:
    return [value[0]["text"] for value in values]


# What may be chosen


def test_cards_say_what_is_here_what_it_takes_and_what_to_do(models, stored, tmp_path):
    builtin, large, other, away = models.cards("cpu")
    assert builtin == {"name": BUILTIN, "title": EMBEDDED, "here": True, "about": [], "command": ""}
    assert large["title"] == "large" and large["here"]
    assert "of memory (weights 1 MB" in large["about"][0] and "free now" in large["about"][0]
    assert other["here"] and not away["here"] and away["title"] == "Qwen2.5-VL-3B-Instruct"
    place = tmp_path / "hub" / "models--Qwen--Qwen2.5-VL-3B-Instruct"
    assert away["about"][1] == f"The model Qwen/Qwen2.5-VL-3B-Instruct is not on this machine: it is not in {place}."
    assert away["command"] == "python -m fovea_core doctor --target Qwen/Qwen2.5-VL-3B-Instruct"
    assert "of weights." in models.cards(None)[1]["about"][0]


def test_drafters_are_offered_where_they_fit(models, stored, tmp_path):
    """The embedded model keeps its own; a sibling goes with its family, a trained drafter with its target, lookup with all."""
    assert models.offers(BUILTIN) == ("builtin", "blind", "lookup", "trie", "none") and models.trained(BUILTIN)
    assert models.offers(stored["large"]) == (stored["small"], "lookup", "trie", "none")
    assert models.labelled(stored["large"])[0] == ("small, its sibling", stored["small"])
    assert models.offers(stored["other"]) == ("lookup", "trie", "none") and not models.trained(stored["other"])
    (tmp_path / CONFIG_NAME).write_text(json.dumps({"target_fingerprint": fingerprint(stored["other"])}))
    both = Models([stored["large"], stored["other"]], [stored["small"], str(tmp_path)], "cpu")
    assert both.offers(stored["other"]) == (str(tmp_path), "lookup", "trie", "none") and both.trained(stored["other"])
    assert both.offers(stored["large"]) == (stored["small"], "lookup", "trie", "none")


def test_a_known_sibling_that_is_not_here_is_named_and_not_offered():
    seven = Models(["known"], [], "cpu")
    name = "Qwen/Qwen2.5-VL-7B-Instruct"
    assert len(seven.names) == 1 + len(shelf.known_targets()) and name in seven.names
    assert seven.offers(name) == ("lookup", "trie", "none")


def test_names_that_are_nothing_are_refused_at_the_start(tmp_path):
    with pytest.raises(SettingsError, match=str(tmp_path / "nowhere")):
        Models([str(tmp_path / "nowhere")])
    with pytest.raises(SettingsError, match="no hub id"):
        Models(["known"], ["a b"])


def test_two_that_end_alike_are_called_by_their_whole_names(stored, tmp_path):
    twin = str(copied_folder(stored["large"], tmp_path / "large"))
    models = Models([stored["large"], twin, stored["other"]])
    assert [models.title(name) for name in models.names] == [EMBEDDED, stored["large"], twin, "other"]


def copied_folder(folder, to):
    to.mkdir()
    return copied(Path(folder), to)


# One takes the place of another


def test_a_model_is_loaded_with_progress_checked_and_the_one_before_let_go(session, on, stored):
    """Phases in words, the doctor's first look with its report, what can be set for the model; nothing keeps the old one."""
    session.start().result()
    before = weakref.ref(session.engine.target.model)
    values = choose(on, stored["large"])
    assert all(text.startswith(("Next.", "large")) for text in texts(values[:-1])) and len(values) > 1
    panel, shown, drafter, policy, notice, looks, a, b = values[-1]
    gc.collect()
    assert before() is None
    assert session.model == shown == panel["current"] == stored["large"] and panel["state"] == "done"
    assert panel["health"]["ok"] and panel["health"]["text"] == "large: checked on this machine."
    assert json.loads(panel["health"]["report"])["fingerprint"] == fingerprint(stored["large"])
    assert drafter["value"] == stored["small"] and policy["visible"] is False and NOTICE not in notice
    assert looks["value"] is True  # without a memory there is no other map
    assert a["value"] == stored["small"] and b["value"] == "plain"
    back = choose(on, BUILTIN)[-1]
    assert session.model == BUILTIN and back[4] == NOTICE and back[3]["visible"] and back[0]["health"] is None
    assert back[5] == gr.skip() and [way["value"] for way in back[6:]] == ["fovea", "blind"]


def test_every_phase_is_told_in_words(unseen, models, stored):
    """From the configs over each tensor to the doctor's checks, in order; those told again only with another share."""
    said: list[str] = []
    models.load(stored["large"])(said.append)
    shares = [text for text in said if text.startswith("reading the weights, ")]
    assert len(shares) > 20 and shares[0].endswith(" 0 %") and shares == sorted(shares, key=lambda text: int(text.split()[-2]))
    phases = list(dict.fromkeys(text.split(",")[0].split(";")[0] for text in said))
    assert phases == [
        "reading configs and tokenizer",
        "reading the weights",
        "checking that it can check a draft tree",
        "checking it against transformers",
        "reading its drafter and measuring what a draft costs",
    ]
    assert sum("; done: " in text for text in said) == 6


def test_what_was_checked_before_is_not_checked_again(unseen, session, on, stored, monkeypatch):
    looks = []
    real = first_look_module.examine
    monkeypatch.setattr(first_look_module, "examine", lambda *a, **n: looks.append(1) or real(*a, **n))
    assert choose(on, stored["large"])[-1][0]["health"]["ok"] and stamp_path(session.engine.target).is_file()
    choose(on, BUILTIN)
    assert choose(on, stored["large"])[-1][0]["health"]["ok"] and len(looks) == 1


def test_a_failed_check_is_shown_and_the_model_answers_all_the_same(unseen, session, on, stored, monkeypatch):
    from fovea_core.targets.qwen2_5_vl import Qwen25VLTarget

    monkeypatch.setattr(Qwen25VLTarget, "generate", lambda *_: [1])
    panel = choose(on, stored["large"])[-1][0]
    assert not panel["health"]["ok"] and "failed a check on this machine: plain ids" in panel["health"]["text"]
    assert session.model == stored["large"] and session.ready


@pytest.mark.parametrize("loss", ["config.json", "model.safetensors"])
def test_a_missing_model_names_its_path_and_the_one_before_is_untouched(stored, loss, tmp_path):
    folder = copied_folder(stored["large"], tmp_path / "mine")
    models = Models([str(folder)], [], "cpu")
    target = toy_target()
    target.eos_ids = frozenset()
    engine = Engine(target, lambda name: None)
    session = Session(lambda: engine, offers=models.offers)
    session.start().result()
    (folder / loss).unlink()
    try:
        panel = choose(Choosing(session, models, NOTICE), str(folder))[-1][0]
        assert panel["state"] == "trouble" and str(folder) in panel["text"] and f"{loss} is missing" in panel["text"]
        assert panel["text"].endswith(f"{EMBEDDED} is loaded as before.") and session.engine is engine
        session.accept("me", ticket())
        assert list(session.run("me"))[-1].summary.ids == right(0, QUESTION, TOKENS)
    finally:
        session.close()


def test_a_model_that_breaks_while_loading_gives_way_to_the_one_before(session, on, stored, monkeypatch):
    """A fault that only the weights show, and no memory for them: one sentence, and the model before is loaded again."""
    session.start().result()
    first = session.engine

    def damaged(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    for error, said in ((damaged, ADVICE), (lambda *_, **__: 1 / 0, "Loading broke off (ZeroDivisionError)")):
        monkeypatch.setattr("fovea_core.targets.families.load_model", error)
        panel = choose(on, stored["large"])[-1][0]
        assert panel["state"] == "trouble" and panel["text"].startswith(said)
        assert panel["current"] == session.model == BUILTIN and session.ready and session.engine is not first
        session.accept("me", ticket())
        assert list(session.run("me"))[-1].phase == "done"


def test_a_model_too_large_for_the_cpu_is_refused_before_anything_is_let_go(session, on, stored, monkeypatch):
    session.start().result()
    engine = session.engine
    monkeypatch.setattr(shelf, "free_bytes", lambda kind: -(10**12))
    panel = choose(on, stored["large"])[-1][0]
    assert panel["state"] == "trouble" and "large takes about" in panel["text"] and "can be had here" in panel["text"]
    assert session.engine is engine


def test_cancelled_while_the_weights_are_read(session, on, stored, monkeypatch):
    """At the next tensor loading ends and the model before comes back; a cancelled wait never begins."""
    session.start().result()
    reached = threading.Event()
    real = loading._counted

    def slow(tensors, step):
        for tensor in real(tensors, step):
            reached.set()
            time.sleep(0.2)
            yield tensor

    monkeypatch.setattr(loading, "_counted", slow)
    asking = on.choose(press(name=stored["large"]), ME)
    said = []
    for values in asking:
        said.append(values[0]["text"])
        if "reading the weights" in said[-1]:
            on.cancel(ME)
    assert reached.is_set() and any("reading the weights, " in text for text in said)
    assert said[-1] == f"Cancelled; {EMBEDDED} is loaded." and session.model == BUILTIN
    session.accept("me", ticket())
    assert list(session.run("me"))[-1].phase == "done"
    gate = threading.Event()
    session._thread.submit(gate.wait)
    asking = on.choose(press(name=stored["large"]), ME)
    assert next(asking)[0]["text"] == "Next."
    on.cancel(ME)
    assert list(asking)[-1][0]["text"] == f"Cancelled; {EMBEDDED} is loaded." and session.model == BUILTIN
    gate.set()


def test_a_closed_tab_ends_a_load(session, on, stored):
    session.start().result()
    asking = on.choose(press(name=stored["large"]), ME)
    next(asking)
    asking.close()
    session.accept("me", ticket())
    assert list(session.run("me"))[-1].phase == "done" and session.model == BUILTIN and not session._line


def test_names_from_the_browser_are_no_paths(session, on, tmp_path, stored):
    """Whatever is not configured is no model, though it may be a folder with one."""
    for name in (stored["small"], "../../etc", None, ["x"], {}, 7):
        panel = choose(on, name)[-1][0]
        assert (panel["state"], panel["text"], session.model) == ("trouble", "There is no such model.", BUILTIN)


def test_a_run_that_a_change_overtook_says_so(session, on, stored):
    """A page set for another model is brought up to date; a run waiting behind a change is not answered by a stranger."""
    session.start().result()
    handlers = Handlers(session, [])
    gate = threading.Event()
    session._thread.submit(gate.wait)
    changing = on.choose(press(name=stored["large"]), SimpleNamespace(session_hash="other"))
    next(changing)
    behind = ticket()
    behind.target = BUILTIN
    session.accept("me", behind)
    running = session.run("me")
    assert next(running).ahead == 1
    gate.set()
    list(changing)
    last = list(running)[-1]
    assert (last.phase, last.trouble) == ("trouble", CHANGED)
    values = [None, "what?", "builtin", "fovea", "auto", 4, 0, 1, 0, False, False]
    assert handlers.accept(ME, *values, BUILTIN)["text"] == CHANGED
    assert on.follow(BUILTIN)[1] == stored["large"] and on.follow(stored["large"]) == [gr.skip()] * 8
    assert "bring a picture" in handlers.accept(ME, *values[:2], "lookup", *values[3:], stored["large"])["text"]


def test_a_loaded_model_answers_with_its_sibling(session, on, stored, tmp_path):
    """From the page's own values to the trace: exact, the sibling named as drafter; a drafter of another model is refused."""
    choose(on, stored["large"])
    picture = tmp_path / "p.png"
    toy_picture().save(picture)
    handlers, values = Handlers(session, []), ["fovea", "2,2,5", 6, 0, 1, 0, True, stored["large"]]
    refused = handlers.accept(ME, str(picture), "what is it?", "builtin", *values)
    assert refused["state"] == "trouble" and "not possible: choose one of" in refused["text"]
    assert handlers.accept(ME, str(picture), "what is it?", stored["small"], *values)["state"] == "busy"
    last = list(session.run("me"))[-1]
    assert last.phase == "done" and last.summary.compared.same_ids
    assert last.summary.started.drafter.id == "small" and last.summary.started.target.id == "large"


def test_what_answers_take_is_said_once_one_was_given(session, on, stored, models, tmp_path, monkeypatch):
    """Before the first there is what the check makes one expect; then those of this machine, whatever a file of them holds. A
    run that was stopped, or of the toy, is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    mine = fingerprint(stored["large"])
    assert expected(mine, "cpu") == "" and not any("answer" in line for line in models.cards("cpu")[1]["about"])
    session.accept("me", ticket())
    assert list(session.run("me"))[-1].phase == "done" and not (tmp_path / "own").exists()
    choose(on, stored["large"])
    answer_s = session.engine.health.answer_s
    assert (
        answer_s > 0
        and expected(mine, "cpu") == f"An answer of 60 tokens should take about {answer_s:.1f} s here, by its check."
    )
    request, shown = Request(toy_picture(), "what?", make_settings(max_new_tokens=5), "none"), Header(data_url(toy_picture()))
    for _ in range(2):
        session.accept("me", Ticket(request, shown, compare=False))
        last = list(session.run("me"))[-1]
        assert last.phase == "done"
    took = last.summary.total_ms / 1e3
    (kept,) = (tmp_path / "own").rglob("answers-*.json")
    assert json.loads(kept.read_text())[1] == pytest.approx(took, abs=1e-3) and expected(mine, "cuda") == ""
    assert "the median of the last 2." in models.cards("cpu")[1]["about"][1]
    kept.write_text(json.dumps([14.6] * 30))
    note_answer(session.engine.target, 1_000)
    assert json.loads(kept.read_text()) == [14.6] * 8 + [1.0]
    assert expected(mine, "cpu") == "An answer here took 15 s, the median of the last 9."
    next((tmp_path / "own").rglob("estimate-*.json")).unlink()
    for damage in ("[", "{}", '["x"]', "[null]", "7"):
        kept.write_text(damage)
        assert expected(mine, "cpu") == ""
    kept.write_text("[2.31]")
    assert expected(mine, "cpu") == "Its last answer here took 2.3 s."


def test_nothing_is_ever_fetched(session, on, monkeypatch, stored):
    """Neither a model nor a known sibling, though the network were there."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(registry, "fetch", lambda name: pytest.fail("fetched"))
    panel = choose(on, "Qwen/Qwen2.5-VL-3B-Instruct")[-1][0]
    assert panel["state"] == "trouble" and "models--Qwen--Qwen2.5-VL-3B-Instruct" in panel["text"]


def test_a_panel_before_anything_is_loaded(session, models):
    value = panel_value(session, models)
    assert value["current"] == BUILTIN and value["health"] is None and value["state"] == "idle"
