"""What fuzzing holds everything to: an end in time, and no text that could steer a terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

LONGEST_S = 20
"""What takes longer hangs."""

UNSHOWN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]"


class HungError(BaseException):
    """No Exception: nothing of ours catches it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def hung(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
