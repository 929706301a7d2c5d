"""No garbage is collected while something large is made in a thread: the collector would walk through all of it, again
and again, and each time no thread does anything for up to 130 ms.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Let no garbage be collected inside the block. What exists at its end is never looked at again. It
    goes when nobody holds it any more; only what holds itself in a circle stays until the app ends.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1


def _end() -> None:
    global _pauses
    with _lock:
        _pauses -= 1
        gc.freeze()
        if not _pauses and _was_on:
            gc.enable()
