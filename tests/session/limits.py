"""This module has the requirements that fuzzing checks everywhere: an end in time, and no text that
could control a terminal.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

LONGEST_S = 20
"""Most seconds of the processor; a longer run counts as hanging."""

LONGEST_WAIT_S = 300
"""Seconds of the clock, for what waits and does nothing. A busy machine makes others wait, too."""

UNSHOWN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]"


class HungError(BaseException):
    """HungError is not an Exception, so that our code does not catch it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def hung(*_: object) -> None:
        raise HungError

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, LONGEST_S),
        (signal.SIGALRM, signal.ITIMER_REAL, LONGEST_WAIT_S),
    )
    before = [(number, signal.signal(number, hung)) for number, _, _ in timers]
    for _, timer, limit_s in timers:
        signal.setitimer(timer, limit_s)
    try:
        yield
    finally:
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)
