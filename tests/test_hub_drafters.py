"""Trained drafters by their hub id: found in the hub's cache, fetched by the command line only, refused for another target."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.models import Models
from fovea_core.cli import main
from fovea_core.decode.plain import decode_plain
from fovea_core.drafter.checkpoint import CONFIG_NAME, DrafterError, save_drafter, title
from fovea_core.engine import load_engine
from fovea_core.fingerprint import fingerprint
from fovea_core.request import Request
from fovea_core.settings import RunSettings
from fovea_core.targets import registry, shelf
from fovea_core.targets.errors import TargetError
from fovea_core.targets.registry import fetch_drafter, load_target
from fovea_core.trace.events import Shape
from fovea_core.train.recipe import DrafterRecipe
from fovea_core.train.twin import Twin
from tests.test_registry import store
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")

ID, COMMIT = "someone/eyes-for-it", "0" * 40
SETTINGS = RunSettings(max_new_tokens=8, tree=Shape(depth=2, width=2, nodes=5))


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> dict[str, Path]:
    """A tiny target, another one, and a drafter of the first."""
    place = tmp_path_factory.mktemp("stored")
    folders = {name: Path(store("smolvlm", place / name, seed)) for seed, name in enumerate(("mine", "other"))}
    target = load_target(str(folders["mine"]))
    recipe = DrafterRecipe(unroll=3, k_min=2, k_max=8)
    return folders | {"drafter": save_drafter(place / "drafter", Twin("drafter", target, recipe).drafter)}


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty hub cache; nothing may be fetched into it, and no model is looked at first."""
    from huggingface_hub import constants

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("fovea_core.engine.first_look", lambda *_: None)
    return tmp_path / "hub"


def keep(cache: Path, folder: Path, name: str = ID) -> Path:
    """Put a folder where the hub's cache has it: links to blobs below the commit."""
    place = cache / f"models--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / COMMIT
    for part in (snapshot, place / "refs", place / "blobs"):
        part.mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    for number, path in enumerate(folder.iterdir()):
        (place / "blobs" / str(number)).write_bytes(path.read_bytes())
        os.symlink(f"../../blobs/{number}", snapshot / path.name)
    return snapshot


@pytest.mark.parametrize("local", [False, True])
def test_it_drafts_by_its_id(stored, cache, local):
    """On command line and page, without network: named by its id in the trace, the ids those of plain decoding."""
    keep(cache, stored["drafter"])
    engine = load_engine(str(stored["mine"]), "cpu", local=local)
    events = list(engine.run(Request(toy_picture(), "what is it?", SETTINGS, ID)))
    assert events[0].drafter.id == ID and any(event.kind == "round_verified" for event in events)
    assert events[-1].ids == decode_plain(engine.target, toy_picture(), "what is it?", SETTINGS).ids
    assert engine.drafter(ID).fingerprint == fingerprint(stored["drafter"])


@pytest.mark.parametrize("local", [False, True])
def test_another_target_refuses_it(stored, cache, local):
    keep(cache, stored["drafter"])
    engine = load_engine(str(stored["other"]), "cpu", local=local)
    with pytest.raises(DrafterError, match=f"The drafter in {ID} belongs to another target"):
        engine.drafter(ID)


@pytest.mark.parametrize("local", [False, True])
def test_one_that_is_not_here_names_the_path(stored, cache, local, tmp_path, capsys):
    engine = load_engine(str(stored["mine"]), "cpu", local=local)
    with pytest.raises(TargetError, match=str(cache / "models--someone--eyes-for-it")) as told:
        engine.drafter(ID)
    assert ("HF_HUB_OFFLINE forbids to fetch it" in str(told.value)) is not local
    if not local:
        picture = tmp_path / "p.png"
        toy_picture().save(picture)
        question = ["--target", str(stored["mine"]), "--drafter", ID, "--question", "what?", "--device", "cpu"]
        assert main(["decode", "--image", str(picture), *question]) == 2
        assert "models--someone--eyes-for-it" in capsys.readouterr().err.replace("\n", "")


def test_a_fetch_begins_with_the_config(stored, cache, monkeypatch):
    """Of a drafter of another target nothing else is fetched; of one's own its weights, and no other file."""
    snapshot, fetched = keep(cache, stored["drafter"]), []
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda name, file: fetched.append(file) or str(snapshot / file))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **how: fetched.append(how) or str(snapshot))
    assert fetch_drafter(ID, fingerprint(stored["other"])) == snapshot and fetched == [CONFIG_NAME]
    assert fetch_drafter(ID, fingerprint(stored["mine"])) == snapshot
    assert fetched[2:] == [{"allow_patterns": [CONFIG_NAME, "drafter*.safetensors", "README.md"]}]


def test_the_page_offers_what_is_here_and_never_fetches(stored, cache, monkeypatch):
    """Where it fits, as trained for it; where it is not here, the panel says where was looked and what brings it."""
    monkeypatch.setattr(registry, "fetch_drafter", lambda *_: pytest.fail("fetched"))
    monkeypatch.setattr("fovea_core.engine.fetch_drafter", lambda *_: pytest.fail("fetched"))
    mine, other = str(stored["mine"]), str(stored["other"])
    models = Models([mine, other], [ID], "cpu")
    assert ID not in models.offers(mine) and not models.trained(mine)
    said = " ".join(models.cards(None)[1]["about"])
    assert str(cache / "models--someone--eyes-for-it") in said
    assert f"To fetch it: python -m fovea_core doctor --target {mine} --drafter {ID}" in said
    with pytest.raises(TargetError, match="someone--eyes"):
        load_engine(mine, "cpu", local=True).drafter(ID)
    keep(cache, stored["drafter"])
    assert models.offers(mine)[0] == ID and models.trained(mine) and ID not in models.offers(other)
    assert models.labelled(mine)[0] == ("eyes-for-it, trained for it", ID)
    assert not any("To fetch it" in line for line in models.cards(None)[1]["about"])
    models.load(mine)(lambda text: None)


def test_what_is_no_drafter_is_said(stored, cache, tmp_path):
    """A folder or a cached model without a drafter's config, and names that are neither."""
    keep(cache, stored["other"], "someone/a-model")
    for name, said in (
        (str(tmp_path), "fovea_drafter.json is missing"),
        ("someone/a-model", "fovea_drafter.json is missing"),
        (str(tmp_path / "nowhere"), "There is no folder"),
        ("a b", "There is no folder"),
    ):
        assert not shelf.is_drafter(name)
        with pytest.raises(TargetError, match=said):
            shelf.drafter_folder(name)
    assert title(Path("a/models--who--w--x/snapshots/1")) == "who/w--x" and title(Path("a/snapshots/1")) == "1"
