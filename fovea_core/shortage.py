"""What to do when a device has no memory left: one sentence for a person, and everything let go that can be.

torch says it in several ways, and an error's own frames hold the very tensors that were too many.
"""

from __future__ import annotations

import gc
import re
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
ADVICE = (
    "The memory of the device ran out; what came before is kept. Use a smaller picture, a shorter answer or a smaller draft "
    "tree, or load a smaller model."
)
#: What CUDA, its libraries and torch's CPU allocator say; only the first has an error class of its own.
_SAID = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED")


class ShortageError(ValueError):
    """One sentence for a person: the memory ran out, and what to do."""


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that there was no memory for a tensor: torch.OutOfMemoryError, MemoryError, or an allocator's
    RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and _SAID.search(str(error)) is not None


def emptied(error: Exception) -> Exception:
    """The error itself, after all frames that it and those behind it hold were emptied of their tensors."""
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error


def eased(error: Exception) -> Exception:
    """The error to tell a person: itself, or a ShortageError in the place of an emptied one."""
    if not is_shortage(error):
        return error
    emptied(error)
    return ShortageError(ADVICE)


def spared(work: Callable[[], T]) -> T:
    """What ``work()`` gives. Where it had no memory, everything is let go and ShortageError raised; other errors pass."""
    try:
        return work()
    except Exception as error:
        trouble = eased(error)
    if isinstance(trouble, ShortageError):  # only here, where nothing refers to the error any more
        let_go()
    raise trouble


def let_go() -> None:
    """Collect what nothing refers to and hand the allocator's unused memory back to the device."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
