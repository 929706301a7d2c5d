"""The time limit of a capture. It stands still while the worker waits for the user: that time is
not the program's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TimeLimit:
    """Calls ``on_end`` once ``limit_s`` seconds have passed in which nobody held it; never, with
    None.
    """

    def __init__(self, limit_s: float | None, on_end: Callable[[], object]) -> None:
        self._left_s = limit_s
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self) -> None:
        if self._left_s is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._left_s, self._on_end)

    def hold(self) -> None:
        if self._timer is not None:
            self._left_s = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer.cancel()
            self._timer = None
