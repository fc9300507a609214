"""The folders of Spaces: what lies in them, that each starts under a Space's environment, and what a host's errors become."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import gradio as gr
import pytest
from gradio_client import Client, handle_file

from app.session import Session
from app.zero import HostError, LentEngine, host_error
from fovea_core import cli, space
from fovea_core.engine import Engine
from fovea_core.examples import load_examples
from fovea_core.request import Request
from fovea_core.settings import Shape, make_settings
from fovea_core.targets.base import TargetError
from fovea_core.targets.shelf import PHOTOS
from fovea_core.trace.laws import checked
from tests.test_registry import store
from tests.toys import ScriptDrafter, coin, reference, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT, HOST = Path(__file__).parents[1], Path(__file__).parent / "space_host"
QUESTION, TOKENS = "what is in the picture?", 12


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The three variants, written once."""
    made = {target: tmp_path_factory.mktemp(target) / "space" for target in space.TARGETS}
    for target, out in made.items():
        space.write_space(target, out)
    return made


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# What is written


def test_what_lies_in_the_folders(folders):
    """The page, its assets and weights; neither tests, training, scripts nor the command line; nothing of 10 MiB or more."""
    for target in ("cpu", "zerogpu"):
        found = names(folders[target])
        assert {"app.py", "README.md", "requirements.txt", "LICENSE", "app/page.css", "app/pages/draw.js"} <= found
        assert {"assets/player/player.js", "assets/builtin/drafter/drafter.safetensors"} <= found
        assert ("app/zero.py" in found) == (target == "zerogpu")
        rooms = {"/".join(name.split("/")[:2]) for name in found}
        assert not rooms & {"fovea_core/train", "fovea_core/cli.py", "fovea_core/space.py"}
        assert not {name.split("/")[0] for name in found} & {"tests", "scripts", "docs", ".git", ".venv"}
        assert not [name for name in found if name.endswith((".pyc", ".md")) and not name.startswith(("assets", "README"))]
        assert "fovea_core/bench/exact.py" not in found
    assert names(folders["static"]) == {"README.md", "index.html"}
    sizes = [path.stat().st_size for out in folders.values() for path in out.rglob("*") if path.is_file()]
    assert max(sizes) < space.MOST_BYTES


def test_front_matter(folders):
    """sdk and its version are the tested ones, the same as in the repository's own README; titles fit the hub's limits."""
    fronts = {}
    for target, out in folders.items():
        front = (out / "README.md").read_text("utf-8").split("---\n")[1]
        fronts[target] = dict(line.split(": ", 1) for line in front.splitlines())
        assert len(fronts[target]["short_description"]) <= 60 and fronts[target]["license"] == "apache-2.0"
    assert fronts["static"]["sdk"] == "static"
    own = dict(line.split(": ", 1) for line in (ROOT / "README.md").read_text("utf-8").split("---\n")[1].splitlines())
    tested = re.search(r"^gradio==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    for target, hardware in (("cpu", "cpu-basic"), ("zerogpu", "zero-a10g")):
        preloaded = {"preload_from_hub": f"[{PHOTOS}]"} if target == "cpu" else {}
        assert fronts[target] == {**own, "sdk_version": tested, "suggested_hardware": hardware, **preloaded}
    assert fronts["cpu"]["app_file"] == "app.py"


def test_requirements_are_what_the_modules_import(folders):
    """Every foreign module of the folder that is not optional comes with a listed package, in the tested version."""
    for target in ("cpu", "zerogpu"):
        lines = (folders[target] / "requirements.txt").read_text().splitlines()
        listed = {re.match(r"[\w.-]+", line)[0].lower() for line in lines}
        needed = set()
        for path in folders[target].rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    needed |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    needed.add(node.module.split(".")[0])
        needed -= sys.stdlib_module_names | {"app", "fovea_core"}
        needed -= {"starlette", "pillow_heif"}  # gradio brings the one, the other is used where it is there
        assert {space.DISTRIBUTIONS.get(name, name).lower() for name in needed} == listed
        assert all("==" in line for line in lines if not line.startswith(("torch", "spaces")))
    assert "torch>=2.8,<2.12" in lines and "spaces" in lines
    assert not {"typer", "tqdm", "rich"} & listed


def test_only_the_zerogpu_folder_imports_spaces_and_only_late(folders):
    """No module imports spaces at its top, the generator of app/zero.py is the one decorated thing."""
    for target in ("cpu", "zerogpu"):
        texts = {path.name: path.read_text("utf-8") for path in folders[target].rglob("*.py")}
        users = [name for name, text in texts.items() if re.search(r"^\s*(import spaces\b|from spaces\b)", text, re.MULTILINE)]
        assert users == (["zero.py"] if target == "zerogpu" else [])
    tree = ast.parse((ROOT / "app" / "zero.py").read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import)]
    assert "spaces" not in {alias.name for node in top for alias in node.names}


def test_refusals(tmp_path, capsys):
    """Another target, a person's own folder, a file too large: one sentence, exit code 2, nothing lost."""
    assert cli.main(["space", "--target", "gpu", "--out", str(tmp_path / "x")]) == 2
    assert "target 'gpu' is not possible" in capsys.readouterr().err
    own = tmp_path / "own"
    own.mkdir()
    (own / "diary.txt").write_text("mine")
    for target in space.TARGETS[:2]:
        assert cli.main(["space", "--target", target, "--out", str(own)]) == 2
        assert "would be lost" in capsys.readouterr().err
    assert names(own) == {"diary.txt"}


def small_checkout(folder: Path) -> Path:
    """A checkout of a page with a module and its import, one style, and a weight."""
    texts = {
        "app.py": "from app.build import x\n",
        "app/__init__.py": "",
        "app/build.py": "def x():\n    from fovea_core import used\n    import numpy, PIL.Image, os\n",
        "app/page.css": "p {}",
        "app/unused.py": "import torch\n",
        "fovea_core/__init__.py": "",
        "fovea_core/used.py": "import fovea_core.train_not\n",
        "fovea_core/train/lost.txt": "x",
        "assets/w.safetensors": "x",
        "assets/__pycache__/x.pyc": "x",
        "LICENSE": "yes",
        "requirements.txt": "# why\nnumpy>=2\npillow\ntorch>=2.8\n",
        "constraints.txt": "numpy==2.1\npillow==11.0\ntorch==2.9\ngradio==6.31.0\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_modules_are_followed_and_an_earlier_space_is_replaced(tmp_path):
    """Imports inside functions count, what nothing imports stays out; a module that is gone goes from an earlier folder."""
    root, out = small_checkout(tmp_path / "root"), tmp_path / "out"
    space.write_space("cpu", out, root)
    kept = {"app.py", "app/__init__.py", "app/build.py", "app/page.css", "fovea_core/__init__.py", "fovea_core/used.py"}
    made = kept | {"assets/w.safetensors", "LICENSE", "README.md", "requirements.txt"}
    assert names(out) == made
    assert (out / "requirements.txt").read_text().splitlines() == ["numpy==2.1", "pillow==11.0"]
    (root / "app" / "build.py").write_text("")
    (out / ".git").mkdir()
    (out / ".git" / "config").write_text("theirs")
    space.write_space("cpu", out, root)
    assert names(out) == made - {"fovea_core/used.py", "fovea_core/__init__.py"} | {".git/config"}
    (root / "assets" / "w.safetensors").write_bytes(bytes(10 * 2**20))
    with pytest.raises(space.SpaceError, match=r"w.safetensors has 10.0 MiB: store it in shards"):
        space.write_space("cpu", out, root)


def test_command_prints_the_upload(tmp_path, capsys):
    out = tmp_path / "a space"
    assert cli.main(["space", "--target", "static", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == f"hf upload YOUR-NAME/fovea-explorer '{out}' . --repo-type space" and "2 files" in said.err


# Started as a Space starts it


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Running:
    """One variant's page in a process of its own, in a copy of its folder, under what a Space sets."""

    def __init__(self, folder: Path, work: Path, **environment: str) -> None:
        self.folder, self.log = work / "home", work / "log"
        shutil.copytree(folder, self.folder)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/"
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "OMP_NUM_THREADS") if name in os.environ}
        own = {
            "SYSTEM": "spaces",
            "SPACE_ID": "somebody/fovea-explorer",
            "SPACE_AUTHOR_NAME": "somebody",
            "SPACE_REPO_NAME": "fovea-explorer",
            "SPACE_TITLE": "FOVEA Explorer",
            "SPACE_HOST": "somebody-fovea-explorer.hf.space",
            "GRADIO_SERVER_NAME": "0.0.0.0",
            "GRADIO_SERVER_PORT": str(port),
            "GRADIO_ALLOW_FLAGGING": "never",
            "HOME": str(work),
            "HF_HUB_OFFLINE": "1",
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "app.py"], cwd=self.folder, env=kept | own | environment, stdout=log, stderr=log
            )

    def page(self, within_s: float = 200) -> str:
        """The page as soon as it is there."""
        until = time.monotonic() + within_s
        while True:
            try:
                return urllib.request.urlopen(self.url, timeout=5).read().decode()
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()[-2000:]
                time.sleep(0.2)

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def start(folders, tmp_path):
    running = []

    def begin(target: str, **environment: str) -> Running:
        running.append(Running(folders[target], tmp_path / str(len(running)), **environment))
        return running[-1]

    (tmp_path / "0").mkdir()
    yield begin
    for one in running:
        one.close()


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory) -> Path:
    """A hub cache as the host fills it: a tiny model of the family under the id of the one for photographs."""
    cache = tmp_path_factory.mktemp("hub")
    place = cache / f"models--{PHOTOS.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    store("idefics3", place / "snapshots" / ("0" * 40))
    return cache


@pytest.mark.parametrize("target", ["cpu", "zerogpu"])
def test_each_variant_starts_and_answers(start, target, preloaded):
    """The page comes, made of the folder's own files, and the embedded model answers; on ZeroGPU in the host's process, on a
    CPU with the model for photographs beside it."""
    own = {"cpu": {"HF_HUB_CACHE": str(preloaded)}, "zerogpu": {"PYTHONPATH": str(HOST)}}
    running = start(target, **own[target])
    assert "FOVEA explorer" in running.page()
    client, example = Client(running.url, verbose=False), load_examples()[0]
    panels = [part["props"]["value"] for part in client.config["components"] if part["props"].get("elem_id") == "fx-model"]
    offered = [(model["name"], model["here"]) for panel in panels for model in panel["models"]]
    assert offered == ([("builtin", True), (PHOTOS, True)] if target == "cpu" else [])
    lines = client.predict(
        handle_file(str(example.picture)), example.question, tree="chain", max_new_tokens=8, compare=False, api_name="/explain"
    )
    assert '"finished"' in lines[-1]
    client.close()
    log = running.log.read_text()
    # On a Space, Gradio watches for changed files by means of the host's own package, and says where that is missing.
    assert log.count("Traceback") == log.count("is required to run hot-reloading in Spaces"), log


# The lent engine on a toy target


@pytest.fixture(scope="module")
def host():
    """The test host's decorator, imported past its check that torch comes later."""
    torch = sys.modules.pop("torch")
    try:
        spec = importlib.util.spec_from_file_location("spaces_double", HOST / "spaces.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.modules["torch"] = torch
    return module.GPU


@pytest.fixture(scope="module")
def engine():
    target = toy_target()
    target.eos_ids = frozenset()
    truth, _ = reference(target, toy_picture(0), QUESTION, TOKENS)
    drafters = {"script": ScriptDrafter("script", coin(0.6), truth, target.vocab_size), "none": None}
    return Engine(target, drafters.__getitem__)


def asked(drafter: str = "script", tokens: int = TOKENS) -> Request:
    settings = make_settings(max_new_tokens=tokens, tree=Shape(depth=3, width=1, nodes=4))
    return Request(toy_picture(0), QUESTION, settings, drafter)


def test_work_in_the_other_process_is_the_same(host, engine):
    """Events, comparison and errors as they are here; nothing else of the engine is asked for."""
    lent = LentEngine(engine, host)
    events, here = list(checked(lent.run(asked()))), list(engine.run(asked()))
    assert [event.kind for event in events] == [event.kind for event in here] and events[-1].ids == here[-1].ids
    compared = lent.compare(asked(), events[-1])
    assert compared.same_ids and len(compared.plain_ms) == 3
    pair = lent.compare_pair([(asked(), events[-1]), (asked("none"), events[-1])])
    assert [one.same_ids for one in pair] == [True, True]
    with pytest.raises(ValueError, match="is not one that is loaded here"):
        lent.redraft(events, toy_picture(0), 0, [])


def test_stop_reaches_the_other_process(host, engine):
    """A wish to stop ends the run there within a round, as stopped, with what it has; the next run is not stopped."""
    lent, seen = LentEngine(engine, host), []
    for event in lent.run(asked(tokens=400), lambda: len(seen) > 5):
        seen.append(event)
    assert seen[-1].kind == "finished" and seen[-1].reason == "stopped" and len(seen[-1].ids) < 400
    *_, last = lent.run(asked())
    assert last.reason == "length"


@pytest.mark.parametrize(
    ("temper", "sentence", "kept"),
    [("quota", "GPU quota is used up for now (You have exceeded", 0), ("abort", "was up before its end", 3)],
)
def test_the_session_keeps_what_came(host, engine, monkeypatch, temper, sentence, kept):
    """Quota used up or time over: the last update is trouble with one sentence, and holds the lines before it."""
    monkeypatch.setenv("FOVEA_TEST_HOST", temper)
    from app.ticket import Ticket
    from fovea_core.pictures import data_url
    from fovea_core.trace.codec import Header

    session = Session(lambda: LentEngine(engine, host))
    try:
        session.accept("me", Ticket(asked(), Header(data_url(toy_picture(0)))))
        *_, last = session.run("me")
        assert last.phase == "trouble" and sentence in last.trouble and last.trouble.endswith((".", "fit."))
        assert len(last.lines) == 1 + kept
        monkeypatch.delenv("FOVEA_TEST_HOST")
        session.accept("me", Ticket(asked(), Header(data_url(toy_picture(0))), compare=False))
        *_, last = session.run("me")
        assert last.phase == "done"
    finally:
        session.close()


def test_a_generator_that_is_closed_ends_the_work(host, engine):
    lent = LentEngine(engine, host)
    events = lent.run(asked(tokens=400))
    next(events)
    events.close()
    assert not multiprocessing_children()


def multiprocessing_children() -> list:
    import multiprocessing

    return multiprocessing.active_children()


@pytest.mark.parametrize(
    ("title", "message", "said"),
    [
        ("ZeroGPU quota exceeded", "Space app has reached its GPU limit. ", "quota is used up for now (Space app has reached"),
        ("ZeroGPU pending credits exceeded", "too many", "quota is used up"),
        ("ZeroGPU queue timeout", "No GPU was available after 60s", "no GPU free at the moment"),
        ("ZeroGPU client error", "No GPU was available", "no GPU free at the moment"),
        ("ZeroGPU worker error", "GPU task aborted", "up before its end"),
        ("ZeroGPU illegal duration", "larger than\nallowed", "ended this run (larger than allowed)"),
    ],
)
def test_sentences_for_the_hosts_errors(title, message, said):
    found = host_error(gr.Error(message, title=title))
    assert isinstance(found, HostError) and said in str(found) and "\n" not in str(found)
    assert host_error(TargetError("ours")) is None
