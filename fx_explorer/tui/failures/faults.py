"""Faults of fx-explorer's own that the app survives: told at once, and printed with their
tracebacks when it ends.
"""

from __future__ import annotations

import traceback
from typing import Any
from weakref import WeakKeyDictionary

from textual.app import App

_faults: WeakKeyDictionary[App[Any], list[str]] = WeakKeyDictionary()

TELL_S = 20


def survive(app: App[Any], error: Exception, doing: str) -> None:
    """Tell that something could not be done, and go on: one broken dialog must not take a capture
    with it.
    """
    _faults.setdefault(app, []).append("".join(traceback.format_exception(error)))
    problem = f"fx-explorer failed to {doing}: {type(error).__name__}: {error}"
    words = f"{problem}. The traceback is printed when you quit; please report it."
    app.notify(words, title="a fault of fx-explorer", severity="error", timeout=TELL_S)


def faults_of(app: App[Any]) -> list[str]:
    """Return the tracebacks of what was survived, oldest first."""
    return _faults.get(app, [])
