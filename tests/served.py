"""The page served on a toy target, for tests that talk to it without a browser. Importing a fixture makes it a module's own."""

from __future__ import annotations

import io
import json
import time
import urllib.request

import pytest
from gradio_client import Client, handle_file

from app.build import build_page, launch_page
from app.session import Session
from fovea_core.engine import Engine
from fovea_core.trace.events import CostTable
from tests.test_app import QUESTION, Slow, right
from tests.toys import ScriptDrafter, coin, toy_drafter, toy_picture, toy_target

TOKENS = 12


class Served:
    """The page on a toy target: 'builtin' reads a memory, 'lookup' is right half of the time and as slow as a test needs."""

    def __init__(self) -> None:
        self.target = toy_target()
        self.target.eos_ids = frozenset()
        truth = right(0, QUESTION, TOKENS)
        self.slow = Slow(ScriptDrafter("script", coin(0.6), truth, self.target.vocab_size))
        drafters = {"builtin": toy_drafter(self.target), "lookup": self.slow, "none": None}
        self.engine = Engine(self.target, drafters.__getitem__)
        self.engine.cost = lambda name: CostTable(tokens=[1, 64], verify_ms=[1.0, 1.0], level_ms=0.01)
        self.session = Session(lambda: self.engine)
        self.page = build_page(self.session, [])
        _, self.url, _ = launch_page(self.page, "127.0.0.1", None, quiet=True)
        self.session.start().result()

    def idle(self, within_s: float = 10) -> None:
        """Wait until nothing runs; a second more must see no further draft."""
        until = time.monotonic() + within_s
        while self.session._line or self.session._tickets:
            assert time.monotonic() < until, "a run goes on"
            time.sleep(0.02)


@pytest.fixture(scope="module", name="served")
def served_page(one_thread):
    running = Served()
    yield running
    running.page.close(verbose=False)
    running.session.close()


@pytest.fixture(scope="module", name="client")
def served_client(served):
    client = Client(served.url, verbose=False)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def at_full_speed(served):
    yield
    served.slow.delay_s = 0.0


@pytest.fixture(name="picture")
def toy_file(tmp_path):
    toy_picture(0).save(tmp_path / "toy.png")
    return handle_file(str(tmp_path / "toy.png"))


def upload(served) -> dict:
    """The toy picture, sent as a client without a library sends it; what an endpoint takes as a file."""
    buffer = io.BytesIO()
    toy_picture(0).save(buffer, "PNG")
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="toy.png"\r\nContent-Type: image/png\r\n\r\n'
    body, kind = head + buffer.getvalue() + b"\r\n--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"}
    sent = urllib.request.urlopen(urllib.request.Request(f"{served.url}gradio_api/upload", body, kind))
    return {"path": json.load(sent)[0], "meta": {"_type": "gradio.FileData"}}


def post(served, data: str) -> str:
    """Begin a call of /explain with ``data``, a JSON list; its event id."""
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{served.url}gradio_api/call/explain", f'{{"data": {data}}}'.encode(), kind)
    return json.load(urllib.request.urlopen(request))["event_id"]
