"""This module has conversations, which ask the user something in a dialog between the key and the
action. A screen is changed by one of them at a time, and asks the app with a message.

Keys may come faster than a dialog opens: over ssh, several arrive at once. So the key that begins a
conversation is not done before its dialog is there, and what was typed after it goes into the
dialog. After ``PATIENCE_S`` the screen moves again, and keys are held until the dialog stands, or
the conversation ends without it; after ``HOLD_S`` new ones are for the screen. Between two dialogs
of a conversation, keys are held likewise. Until its dialog is there, no other conversation begins.

A change of the screen mounts widgets and waits for them. Another one that began meanwhile would
find widgets that are not mounted yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from textual.app import App
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.worker import WorkType

from fx_explorer.tui.failures import notifies_user, survive
from fx_explorer.tui.typed_keys import KeysReleased, held_keys

PATIENCE_S = 1.0
"""Seconds to wait for a dialog. Opening takes less; a search in another thread must not freeze the
screen for longer.
"""

HOLD_S = 10.0
"""Seconds for which keys are held for the first dialog of a conversation: the first fix loads a
parser of Python, which takes seconds where two cores are busy.
"""

AnswerT = TypeVar("AnswerT")


class Asker(Protocol):
    """A screen, or a controller of the app, that asks the user something."""

    @property
    def app(self) -> App[Any]: ...


AskerT = TypeVar("AskerT", bound=Asker)
Arguments = ParamSpec("Arguments")
Action = Callable[Concatenate[AskerT, Arguments], Coroutine[Any, Any, None]]


class _Conversation:
    """A conversation with the user that has begun and not ended."""

    def __init__(self, description: str) -> None:
        self.description = description
        self.has_opened = asyncio.Event()
        """Set when the first dialog is open, or when the conversation ends without one."""
        self.has_ended = False


_opening: WeakKeyDictionary[App[Any], _Conversation] = WeakKeyDictionary()
"""The conversation of each app whose dialog is not open yet."""

_current: ContextVar[_Conversation | None] = ContextVar("conversation", default=None)


def conversation(
    name: str, description: str
) -> Callable[[Action[AskerT, Arguments]], Action[AskerT, Arguments]]:
    """Turn an action of a controller or a screen into a conversation: it runs as a worker in the
    background, and may ``ask``.

    ``description`` completes the sentence "fx-explorer is about to …", which the user is told who
    begins another one too early.
    """

    def decorate(method: Action[AskerT, Arguments]) -> Action[AskerT, Arguments]:
        @functools.wraps(method)
        async def begin(
            asker: AskerT, /, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> None:
            app = asker.app
            node = (
                asker if isinstance(asker, DOMNode) else app
            )  # a conversation of a screen ends with it
            if app in _opening:
                app.notify(f"Wait a moment: fx-explorer is about to {_opening[app].description}.")
                return
            begun = _opening[app] = _Conversation(description)
            held_keys(app).begin(begun, HOLD_S)

            async def converse() -> None:
                _current.set(begun)
                try:
                    await method(asker, *args, **kwargs)
                except Exception as error:  # noqa: BLE001 - told, and printed at the end
                    if not notifies_user(
                        node, error
                    ):  # a session that cannot be read is no fault of fx-explorer's
                        survive(app, error, description)
                finally:
                    begun.has_ended = True
                    _has_opened(app, begun)

            work: WorkType[None] = converse
            node.run_worker(work, name=name, group="choose", description=description)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(begun.has_opened.wait(), PATIENCE_S)

        return begin

    return decorate


async def ask(app: App[Any], dialog: Screen[AnswerT]) -> AnswerT:
    """Show a dialog, and return the user's answer."""
    answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
    begun = _current.get()

    def answered(given: AnswerT | None) -> None:
        if begun and not begun.has_ended:
            _hold_for_next_dialog(app, begun)
        answer.set_result(cast(AnswerT, given))

    await app.push_screen(dialog, answered)
    if begun:
        _has_opened(app, begun)
    return await answer


def _hold_for_next_dialog(app: App[Any], begun: _Conversation) -> None:
    """Hold keys in case that the conversation asks again at once. Most answers end it."""
    held_keys(app).begin(begun, PATIENCE_S)

    def expire() -> None:
        held_keys(app).expire(begun)
        app.post_message(KeysReleased())

    app.set_timer(PATIENCE_S, expire)


def needs_no_dialog_soon(app: App[Any]) -> None:
    """Let keys through again, in a conversation that works for long before it asks."""
    begun = _current.get()
    if begun:
        _release_keys(app, begun)


def _release_keys(app: App[Any], begun: _Conversation) -> None:
    held_keys(app).end(begun)
    app.post_message(KeysReleased())


def _has_opened(app: App[Any], begun: _Conversation) -> None:
    begun.has_opened.set()
    if _opening.get(app) is begun:
        del _opening[app]
    _release_keys(app, begun)


class TurnLock:
    """A lock that the task holding it may take again, since one change consists of others."""

    def __init__(self, screen: MessagePump) -> None:
        self._screen = screen
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None
        self._depth = 0

    @property
    def can_change(self) -> bool:
        """Return whether the screen may still be changed: the app may be leaving it."""
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
Change = Callable[Concatenate[ShowerT, Arguments], Coroutine[object, object, None]]


def in_turn(method: Change[ShowerT, Arguments]) -> Change[ShowerT, Arguments]:
    """Make a method of a screen, or of a controller of it, wait until no other task changes the
    screen, and do nothing once the app is leaving it.
    """

    @functools.wraps(method)
    async def change(self: ShowerT, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        async with self.turn:
            if self.turn.can_change:
                await method(self, *args, **kwargs)

    return change


class DifferenceWanted(Message):
    """Posted to show the differences from the last capture, or of the user's files (OF_FILES)."""

    def __init__(self, aspect: str) -> None:
        super().__init__()
        self.aspect = aspect


class ViewShown(Message):
    """Posted when a view is requested, which may need a stage that lies ahead."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.view = view


class BelowWanted(Message):
    """Posted to show the levels below the configuration under the cursor."""


class CopyWanted(Message):
    """Asks to copy a text: the app knows the ways out of the terminal. Dialogs ask for it too."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
