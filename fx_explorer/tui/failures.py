"""This module keeps errors from ending the app: unreadable parts of a session, and errors of our
own.

Each is shown once, in a message in the corner, and everything else stays on screen.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.notifications import Notification
from textual.timer import Timer

from fx_explorer.errors import FxExplorerError, SessionError
from fx_explorer.highlight import printable

if TYPE_CHECKING:
    from textual.widget import Widget

    from fx_explorer.session import SessionReader


Callback = Callable[..., Any]


class TellsUnreadable(MessagePump):
    """Mixed into widgets whose handlers read the session: Textual would end the app for an
    exception in a handler.
    """

    async def _dispatch_message(self, message: Message) -> None:
        try:
            await super()._dispatch_message(message)
        except Exception as error:
            if not notifies_user(self, error):
                raise

    def call_after_refresh(self, callback: Callback, *arguments: Any, **named: Any) -> bool:
        """Call ``callback`` after a refresh, guarded: Textual calls it outside any handler."""
        return super().call_after_refresh(self._guarded(callback), *arguments, **named)

    def set_timer(self, delay: float, callback: Callback | None = None, **named: Any) -> Timer:
        """Set a timer whose ``callback`` is guarded: Textual calls it outside any handler, too."""
        return super().set_timer(delay, callback and self._guarded(callback), **named)

    def _guarded(self, callback: Callback) -> Callback:
        @functools.wraps(callback)
        def guarded(*arguments: Any, **named: Any) -> object:
            try:
                return callback(*arguments, **named)
            except Exception as error:
                if not notifies_user(self, error):
                    raise
                return None

        return guarded


def notifies_user(pump: MessagePump, error: BaseException) -> bool:
    """Return whether the session caused the error, so that the user was told."""
    tell = getattr(pump.app, "report_unreadable", None)
    return bool(tell and tell(error))


@contextlib.contextmanager
def explained(widget: Widget) -> Iterator[None]:
    """Tell the user about errors inside the block if a session cannot be read (any more). The
    screen stays as it is.
    """
    try:
        yield
    except FxExplorerError as error:
        if not notifies_user(widget, error):
            widget.notify(
                printable(str(error)), title="the session cannot be read", severity="error"
            )


def why(reader: SessionReader | None, error: BaseException) -> SessionError | None:
    """Return the session's error that may have caused ``error``; None without one, or if it is not
    known.
    """
    inner = error if isinstance(error, SessionError) else getattr(error, "error", None) or error
    if isinstance(inner, SessionError):
        return inner
    if reader is None or not isinstance(inner, Exception):
        return None
    from fx_explorer.session.damage import (
        why_unreadable,  # looks through the whole file: only when something has failed
    )

    return why_unreadable(reader.path, inner)


# Faults of our own: shown at once, and printed with their tracebacks when the app ends.

_faults: WeakKeyDictionary[App[Any], list[str]] = WeakKeyDictionary()

TELL_S = 20


def survive(app: App[Any], error: Exception, doing: str) -> None:
    """Tell the user that an action failed, and continue: a broken dialog must not end a capture."""
    _faults.setdefault(app, []).append("".join(traceback.format_exception(error)))
    problem = f"fx-explorer failed to {doing}: {type(error).__name__}: {error}"
    words = f"{problem}. The traceback is printed when you quit; please report it."
    app.notify(words, title="a fault of fx-explorer", severity="error", timeout=TELL_S)


def faults_of(app: App[Any]) -> list[str]:
    """Return the tracebacks of errors that the app survived, oldest first."""
    return _faults.get(app, [])


SHORTEST_S = 0.05

CORNER_STYLE = """
ToastRack { margin-bottom: 3; }
Toast { padding: 0 1; }
ModalScreen { background: $background 20%; }
ModalScreen > * { border-title-color: $foreground; border-subtitle-color: $text-muted; }
"""
"""What is behind a dialog is dimmed only as far as it can still be read. Messages stand above the
footer's keys, which take two rows of a narrow terminal, and the line on the selection.
"""


class CornerMessage(Notification):
    """A notification whose timer never has a negative time.

    Textual asks whether a notification has expired, and a moment later how long it still has, for
    the timer that takes it away. Where it expires in between, as the second of two that were raised
    together does, that timer never ends and the app stands still (Textual 8.2, textual/timer.py).
    """

    @property
    def time_left(self) -> float:
        return max(SHORTEST_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        return super().time_left <= 0
