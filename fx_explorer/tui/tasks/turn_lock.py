"""Changes of what is on screen, one after the other: keys, clicks and conversations may all ask for
one at the same time.

A change mounts widgets and waits for them. Another one that began meanwhile would find widgets that
are not mounted yet.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from textual.message_pump import MessagePump


class TurnLock:
    """A lock that the task which holds it may take once more, since one change is made of
    others.
    """

    def __init__(self, screen: MessagePump) -> None:
        self._screen = screen
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None
        self._depth = 0

    @property
    def can_change(self) -> bool:
        """Return whether the screen is still there: the app may be leaving it."""
        return self._screen.is_attached

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if self._holder is not task:
            await self._lock.acquire()
            self._holder = task
        self._depth += 1

    async def __aexit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None
            self._lock.release()


class _Shower(Protocol):
    @property
    def turn(self) -> TurnLock: ...


ShowerT = TypeVar("ShowerT", bound=_Shower)
Arguments = ParamSpec("Arguments")
Change = Callable[Concatenate[ShowerT, Arguments], Coroutine[object, object, None]]


def in_turn(method: Change[ShowerT, Arguments]) -> Change[ShowerT, Arguments]:
    """Let a method of a screen, or of a controller of it, change it only when no other task is
    about to, and not any more when the app is leaving it.
    """

    @functools.wraps(method)
    async def change(self: ShowerT, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        async with self.turn:
            if self.turn.can_change:
                await method(self, *args, **kwargs)

    return change
