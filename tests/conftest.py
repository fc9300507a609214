"""What every test runs under: two threads, or one where tests run side by side, and no network but loopback.

Tests under tests/ui drive a real Chromium (tests/ui/conftest.py). Without one they fail, never skipped silently;
BROWSER_TESTS=0 leaves them out on purpose.
"""

from __future__ import annotations

import os
import socket

# Before torch or numpy are imported anywhere: they read these once.
os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import pytest

LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")


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


@pytest.fixture(scope="module")
def one_thread():
    """For tests of toy modules: too small for two threads to help, which only wait for each other on a busy machine."""
    import torch  # here: most of the page's tests run without it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
