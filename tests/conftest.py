"""What every test runs under: two threads, no network but loopback, and for browser tests one headless Chromium.

A browser test asks for the fixture ``page``. Without a Chromium it fails (it is never skipped silently);
BROWSER_TESTS=0 leaves browser tests out on purpose.
"""

from __future__ import annotations

import os
import shutil
import socket

# Before torch or numpy are imported anywhere: they read these once.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import pytest

LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Chromium resolves nothing but this machine, so a page that asks for anything else shows it.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)


class NetworkBlocked(OSError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True, scope="session")
def only_loopback():
    """Connections and look-ups that leave the loopback range raise NetworkBlocked, in every test."""
    connect, connect_ex, resolve = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(host) -> None:
        if host is None:
            return
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name not in LOCAL_HOSTS and not name.startswith("127."):
            raise NetworkBlocked(f"a test tried to reach {name}")

    def guarded(original):
        def call(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6):
                check(address[0])
            return original(self, address)

        return call

    def guarded_resolve(host, *args, **kwargs):
        check(host)
        return resolve(host, *args, **kwargs)

    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", guarded(connect))
    patch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
    patch.setattr(socket, "getaddrinfo", guarded_resolve)
    yield
    patch.undo()


def pytest_collection_modifyitems(config, items) -> None:
    """Everything under tests/ui drives a browser; BROWSER_TESTS=0 is the only way not to run it."""
    chosen, left_out = [], []
    for item in items:
        if "ui" in item.path.parts:
            item.add_marker(pytest.mark.browser)
        leave = os.environ.get("BROWSER_TESTS") == "0" and item.get_closest_marker("browser")
        (left_out if leave else chosen).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


@pytest.fixture(scope="session")
def chromium():
    """One headless Chromium for all browser tests; each test opens its own context."""
    from playwright.sync_api import sync_playwright

    named = os.environ.get("CHROMIUM")
    path = named or next((found for found in map(shutil.which, CHROMIUM_NAMES) if found), None)
    if not path:
        pytest.fail("no Chromium found: run scripts/chromium.sh, or set BROWSER_TESTS=0 to leave browser tests out")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A fresh browser page, 1280 x 900. The test fails when the page threw an error or asked for a host elsewhere."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = context.new_page()
    errors, elsewhere = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def note(request) -> None:
        host = request.url.split("/")[2].split(":")[0] if request.url.startswith(("http", "ws")) else ""
        if host not in LOCAL_HOSTS:
            elsewhere.append(request.url)

    page.on("request", note)
    yield page
    context.close()
    assert not errors, f"the page threw: {errors}"
    assert not elsewhere, f"the page asked other hosts: {elsewhere}"
