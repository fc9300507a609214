"""Freed memory stays with the process while training on CPU."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> bool:
    """Tell glibc's malloc never to hand freed memory back to the system; returns whether it could be told.

    A training step allocates and frees the same large tensors again and again. Where page faults are dear, as in small virtual
    machines, faulting them in anew took seven times as long as the step itself (docs/LOG.md).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**29))
    return all([mallopt(option, value) for option, value in settings])
