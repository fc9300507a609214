"""What the server gives, takes and keeps: no address is fetched, no file leaves that was not meant to, nothing piles up.

The page cases of the project's list of faults, and where each is tried:
hostile text in answer, question, token and trace: tests/ui/test_player.py, test_page.py, test_trace_files.py (exports too);
hostile file names: here and in test_api.py; Stop, closed tabs, errors, 20 times: test_app.py, test_run_control.py, test_api.py;
two clients: test_app.py, test_page.py, test_api.py; 200 tokens a second: test_run_control.py; 1,000 tokens, seen
or in a hidden tab: tests/ui/test_player_keys.py; API called directly:
test_api.py; loopback only: every browser test (tests/ui/conftest.py fails it on any other request) and the policy here.
"""

from __future__ import annotations

import gc
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import psutil
import pytest
import torch
from gradio.route_utils import delete_files_created_by_app
from PIL import Image

from app.charts import plotly_js
from app.guard import CLEANED_EVERY_S, KEPT_S, MAX_BODY_BYTES, POLICY
from app.session import MOST_KEPT
from app.ticket import Ticket
from fovea_core.examples import ASSETS, load_examples
from tests.sample_traces import sample_lines
from tests.served import Served, at_full_speed, served_client, served_page, toy_file, upload  # noqa: F401 (fixtures)
from tests.test_app import QUESTION, ticket

ROOT = ASSETS.parent


def ask(served: Served, path: str, data: bytes | None = None, **headers: str) -> tuple[int, dict, bytes]:
    """Status, headers (names in small letters) and body of one request."""
    try:
        answer = urllib.request.urlopen(urllib.request.Request(served.url.rstrip("/") + path, data, headers), timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()


def secret(tmp_path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("not for you")
    return path


@pytest.mark.parametrize("root", ["/gradio_api/file=", "/gradio_api/file/", "/static/", "/assets/", "/svelte/", "/file="])
def test_no_file_is_served_that_was_not_meant_to_be(served, tmp_path, root):
    """Absolute, climbing, encoded, of the repository or the system: nothing but an error."""
    wanted = [secret(tmp_path), ROOT / "app.py", ROOT / "assets/builtin/README.md", ASSETS / "examples/examples.json"]
    wanted = [str(path) for path in [*wanted, Path("/etc/passwd"), Path("/proc/self/environ")]]
    climbing = ["../" * depth + "etc/passwd" for depth in (1, 3, 8)] + ["app.py", ".git/config", "./app.py", "//etc/passwd"]
    for path in wanted + climbing:
        for spelled in (
            path,
            urllib.parse.quote(path, safe=""),
            urllib.parse.quote(urllib.parse.quote(path, safe=""), safe=""),
        ):
            status, _, body = ask(served, root + spelled)
            assert status >= 400, f"{root}{spelled}: {status}"
            assert b"root:" not in body and b"not for you" not in body and b"import" not in body


def test_the_pictures_of_the_gallery_are_served(served):
    for example in load_examples():
        status, headers, body = ask(served, f"/gradio_api/file={example.picture}")
        assert status == 200 and body == example.picture.read_bytes() and headers["content-type"].startswith("image/")


def test_the_page_tells_nothing_about_the_machine(served):
    """Neither paths nor names of the machine stand in the page or its configuration, but for where plotly is fetched."""
    for path in ("/", "/config", "/gradio_api/info", "/openapi.json"):
        body = ask(served, path)[2].decode().replace(str(plotly_js()), "")
        for told in (str(ROOT), str(Path.home()), os.uname().nodename):
            assert len(told) < 6 or told not in body, f"{path} tells {told}"


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=http://127.0.0.1:1/x",
        "/gradio_api/file=HTTPS://example.org/x",
        "/gradio_api/file/http://127.0.0.1:1/x",
        "/gradio_api/file/%20Https://example.org/x",
        "/gradio_api/process_recording",
        "/gradio_api/proxy=https://a.hf.space/x",
        "/gradio_api/deep_link?session_hash=a",
        "/gradio_api/run-history/records",
        "/gradio_api/runs",
        "/monitoring/summary",
        "/gradio_api/dev/reload",
    ],
)
def test_what_the_page_does_not_need_is_closed(served, path):
    assert ask(served, path)[0] == 404


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/x.png", " https://example.org/a.png", "FILE:///etc/passwd", "ftp://a/b"]
)
@pytest.mark.parametrize("route", ["/gradio_api/call/explain", "/gradio_api/queue/join", "/gradio_api/run/explain"])
def test_no_address_is_fetched_for_a_client(served, monkeypatch, address, route):
    """A file at an address is refused before Gradio sees it, on every way in, however deep it lies."""
    fetched = []
    monkeypatch.setattr("gradio.processing_utils.async_ssrf_protected_download", lambda *a, **k: fetched.append(a))
    file = {"path": address, "meta": {"_type": "gradio.FileData"}}
    for value in (file, [file], {"a": [{"b": file}]}):
        body = json.dumps({"data": [value, "what?"], "fn_index": 0, "session_hash": "s"}).encode()
        status, _, said = ask(served, route, body, **{"Content-Type": "application/json"})
        assert status == 400 and b"not fetched" in said
    assert not fetched


def test_a_file_of_the_server_is_no_upload(served, tmp_path):
    """A request that names a file of this machine as its picture, or as its trace, gets an error and no picture of it."""
    toy = tmp_path / "inside.png"
    Image.new("RGB", (8, 8)).save(toy)
    for path in (toy, Path("/etc/passwd"), ROOT / "assets/traces/blue-hose.jsonl"):
        file = {"path": str(path), "meta": {"_type": "gradio.FileData"}}
        for name, values in (("explain", [file, "what?", "none"]), ("render_filmstrip", [file])):
            body = json.dumps({"data": values}).encode()
            _, _, said = ask(served, f"/gradio_api/call/{name}", body, **{"Content-Type": "application/json"})
            stream = ask(served, f"/gradio_api/call/{name}/{json.loads(said)['event_id']}")[2].decode()
            assert "event: error" in stream and "event: complete" not in stream and "data:image" not in stream


def test_bodies_are_bounded_and_nesting_is_harmless(served):
    kind = {"Content-Type": "application/json"}
    assert ask(served, "/gradio_api/call/explain", b" " * (MAX_BODY_BYTES + 1), **kind)[0] == 413
    assert ask(served, "/gradio_api/call/explain", b"[" * 200_000, **kind)[0] == 400
    assert ask(served, "/gradio_api/call/explain", b"not json", **kind)[0] == 422
    assert ask(served, "/gradio_api/call/nothing", b'{"data": []}', **kind)[0] in (404, 500)
    assert ask(served, "/")[0] == 200


def test_headers(served):
    """No guessing of types; the document may ask this server only, and not be the base of others' addresses."""
    _, page, _ = ask(served, "/")
    assert page["content-security-policy"] == POLICY and "http" not in POLICY and "*" not in POLICY
    for path in ("/", "/config", "/theme.css", "/gradio_api/file=/etc/passwd"):
        _, headers, _ = ask(served, path)
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>.html", "../../../evil.html", "${7*7}{{7*7}}.svg", "a\x00b.html"]
)
def test_an_upload_of_any_name_is_a_download_at_most(served, name):
    """A document that was brought cannot run on this address: it comes back as an attachment, from inside its folder."""
    head = f'--b\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\nContent-Type: text/html\r\n\r\n'
    body = head.encode() + b"<script>alert(1)</script>\r\n--b--\r\n"
    status, _, said = ask(served, "/gradio_api/upload", body, **{"Content-Type": "multipart/form-data; boundary=b"})
    if status != 200:
        return  # a name that no file system takes
    path = Path(json.loads(said)[0])
    assert path.resolve().is_relative_to(Path(served.page.GRADIO_CACHE).resolve())
    status, headers, _ = ask(served, f"/gradio_api/file={urllib.parse.quote(str(path))}")
    assert status == 200 and headers["content-disposition"].startswith("attachment") and headers["x-content-type-options"]


def test_uploads_and_exports_are_removed_and_the_page_says_when(served, client, tmp_path):
    """Gradio's own clean-up, run now for everything older than nothing, finds what was brought and what was made."""
    (tmp_path / "run.jsonl").write_text("\n".join(sample_lines()) + "\n")
    brought = upload(served)["path"]
    file = {"path": upload(served)["path"], "meta": {"_type": "gradio.FileData"}}
    client.predict(file, QUESTION, "none", max_new_tokens=2, compare=False, api_name="/explain")
    trace = tmp_path / "run.jsonl"
    made = client.predict(
        {"path": str(trace), "meta": {"_type": "gradio.FileData"}, "orig_name": "run.jsonl"}, api_name="/render_filmstrip"
    )
    kept = [path for files in served.page.temp_file_sets for path in files]
    strips = [path for path in kept if path.endswith("filmstrip.png")]
    assert brought in kept and strips and Path(made).read_bytes() == Path(strips[-1]).read_bytes()
    time.sleep(0.05)
    delete_files_created_by_app(served.page, 0)
    assert not [path for path in kept if Path(path).exists()]
    assert served.page.delete_cache == (CLEANED_EVERY_S, KEPT_S)
    assert f"after at most {(CLEANED_EVERY_S + KEPT_S) // 60} minutes" in ask(served, "/config")[2].decode()


def live() -> list[int]:
    """How many tickets, pictures and tensors there are."""
    gc.collect()
    kinds = [type(thing).__mro__ for thing in gc.get_objects()]
    return [sum(kind in kinds_of for kinds_of in kinds) for kind in (Ticket, Image.Image, torch.Tensor)]


def test_thirty_runs_leave_nothing_behind(served, client, picture):
    """One client, thirty answers: no ticket, picture or tensor more than after the fifth, and the process does not grow."""

    def run() -> None:
        client.predict(picture, QUESTION, "lookup", max_new_tokens=4, compare=False, api_name="/explain")

    for _ in range(5):
        run()
    counts, size = live(), psutil.Process().memory_info().rss
    for _ in range(25):
        run()
    served.idle()
    after = live()
    assert after[0] <= counts[0] + 1 and after[1] <= counts[1] + 2 and after[2] <= counts[2] + 20
    assert psutil.Process().memory_info().rss - size < 40e6
    assert not served.session._tickets and not served.session._line


def test_no_pictures_and_tensors_in_session_state(served, client, picture):
    """What Gradio remembers of clients is plain data, and of a bounded number of them."""
    client.predict(picture, QUESTION, "builtin", max_new_tokens=4, compare=False, api_name="/explain")
    holder = served.page.state_holder
    assert holder.capacity == 100 and holder.session_data
    for state in holder.session_data.values():
        assert not state.state_data
        waiting = [state.config_values]
        while waiting:
            item = waiting.pop()
            assert not isinstance(item, Image.Image | torch.Tensor)
            waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()


def test_requests_that_nobody_runs_do_not_pile_up(served):
    """A client that only ever asks, under ever new names, keeps a bounded number of pictures here."""
    for number in range(3 * MOST_KEPT):
        served.session.accept(f"hostile-{number}", ticket())
    assert len(served.session._tickets) == MOST_KEPT
    assert list(served.session.run("hostile-0")) == []
    assert list(served.session.run(f"hostile-{3 * MOST_KEPT - 1}"))[-1].phase == "trouble"  # no drafter 'script' here
    for who in list(served.session._tickets):
        served.session.forget(who)
