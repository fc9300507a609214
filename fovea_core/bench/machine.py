"""Where a bench ran, with what, and whether anything else ran beside it."""

from __future__ import annotations

import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil
import torch

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pillow", "opencv-python-headless", "pydantic")
#: Other processes' share of all cores' time from which on a timed bench says 'machine busy'.
BUSY_SHARE = 0.05


def machine() -> dict:
    """Processor, cores this process may use, threads of a forward, memory, system."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(terse=True),
        "device": "cpu",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def versions() -> dict[str, str]:
    """Python and the packages that decide a figure."""
    return {"python": sys.version.split()[0], **{name: version(name) for name in PACKAGES}}


class Sitting:
    """A measurement from its making on: ``told()`` at its end is when it ended, how long it took, where and with what."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def told(self) -> dict:
        """{date: UTC, to the minute; seconds; machine; versions}."""
        return {
            "date": datetime.now(UTC).isoformat(timespec="minutes"),
            "seconds": time.perf_counter() - self._began,
            "machine": machine(),
            "versions": versions(),
        }


class LoadWatch:
    """Watches from its making on how much processor time goes to others: ``others()`` is their share of all cores' time."""

    def __init__(self) -> None:
        self.load_average = list(os.getloadavg())
        self._idle, self._all, self._own = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        # Linux counts guest time inside user time as well; iowait is idle time.
        everything = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        return idle, everything, own.user + own.system + own.children_user + own.children_system

    def others(self) -> float:
        """Share 0..1 of all cores' time since the start that neither this process used nor stood idle."""
        idle, everything, own = (now - then for now, then in zip(self._now(), (self._idle, self._all, self._own), strict=True))
        return min(1.0, max(0.0, (everything - idle - own) / everything)) if everything > 0 else 0.0
