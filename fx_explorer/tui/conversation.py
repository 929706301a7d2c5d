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
import time
from bisect import insort
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.worker import WorkType

from fx_explorer.tui.failures import notifies_user, survive

PATIENCE_S = 1.0
"""Seconds to wait for a dialog. Opening takes less; a search in another thread must not freeze the
screen for longer.
"""

HOLD_S = 10.0
"""Seconds for which keys are held for the first dialog of a conversation: the first fix loads a
parser of Python, which takes seconds where two cores are busy.
"""

KEY_S = 0.25
"""Seconds after which a key that was sent to a dialog counts as processed."""

NEVER_HELD = {"ctrl+c", "ctrl+q"}
"""Keys that end the app."""

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


class HeldKeys:
    """HeldKeys keeps the keys of an app that were typed for a dialog that is not open yet, and
    those behind a key that a dialog has not processed.
    """

    def __init__(self) -> None:
        self._keys: list[events.Key] = []
        self._conversation: _Conversation | None = None
        self._until_s = 0.0
        self._under_way: events.Key | None = None

    def begin(self, conversation: _Conversation, seconds: float) -> None:
        """Hold keys for the next dialog of a conversation, for at most so many seconds."""
        self._conversation = conversation
        self._until_s = time.monotonic() + seconds

    def end(self, conversation: _Conversation) -> None:
        """Hold no keys for a conversation any longer: its dialog is open, or it needs none."""
        if self._conversation is conversation:
            self._conversation = None

    def expire(self, conversation: _Conversation) -> None:
        """End it if its time is up and it has not begun again."""
        if time.monotonic() >= self._until_s:
            self.end(conversation)

    def takes(self, key: events.Key) -> bool:
        """Return whether this key is held, and hold it in the order of typing."""
        is_opening = self._conversation is not None and time.monotonic() < self._until_s
        is_released = self._conversation is None and bool(self._keys)
        is_behind_another = self._under_way is not None or is_released
        is_new = not key.is_forwarded  # others were typed before those that are held
        is_held = is_opening or (is_behind_another and is_new)
        if key.key in NEVER_HELD or not is_held:
            return False
        copy = events.Key(key.key, key.character)
        copy.time = key.time
        insort(self._keys, copy, key=lambda held: held.time)
        return True

    def next_released(self) -> events.Key | None:
        """Return the next key that waits for nothing any longer, and forget it."""
        if self._conversation is None and self._under_way is None and self._keys:
            return self._keys.pop(0)
        return None

    def follow(self, key: events.Key, target: MessagePump, app: App[Any]) -> None:
        """Hold what is typed behind ``key``, which has just been sent to a widget of a dialog,
        until the widget and all above it have processed the key and their messages about it.
        """
        self._under_way = key

        def arrive() -> None:
            if self._under_way is key:
                self._under_way = None
                app.post_message(KeysReleased())

        def climb(node: MessagePump, rounds: int) -> None:
            above = node._parent
            if node is not app and above is not None:
                above.call_later(climb, above, rounds)
            elif rounds > 1:
                target.call_later(climb, target, rounds - 1)
            else:
                arrive()

        target.call_later(climb, target, 2)
        app.set_timer(KEY_S, arrive)  # a widget that is removed processes nothing any more


class KeysReleased(Message):
    """Posted to the app when it may deliver held keys."""


_held: WeakKeyDictionary[App[Any], HeldKeys] = WeakKeyDictionary()


def held_keys(app: App[Any]) -> HeldKeys:
    """Return the keys that an app holds for a dialog."""
    return _held.setdefault(app, HeldKeys())


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
                app.notify(
                    f"One thing at a time: fx-explorer is about to {_opening[app].description}."
                )
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
