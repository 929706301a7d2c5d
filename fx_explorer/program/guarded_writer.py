"""This module has ``GuardedWriter``, the session writer of the worker: it remembers the first write
that failed, and writes a separate session in a forked child.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from os import getpid  # as it is before the program can put something else in its place
from pathlib import Path

from fx_explorer.errors import SessionWriteError
from fx_explorer.model import Failure
from fx_explorer.program.children import (
    describe_process,
    new_session,
)
from fx_explorer.session import SessionWriter


class GuardedWriter(SessionWriter):
    """A writer that stops at the first failed write, so that a full disk does not stop the user's
    program. ``failure`` then has the reason.
    """

    def __init__(self, path: str | Path, children: Path | None = None) -> None:
        """``children`` is the directory for the sessions of forked processes. Without it they are
        not stored.
        """
        self.failure: SessionWriteError | None = None
        self.children = children
        super().__init__(path, beside_program=True)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write as usual, but never again after a write that failed.

        Trying again would mean waiting again, for a lock or a disk, with each artefact of a program
        that compiles thousands.
        """
        if getpid() != self._owner:
            self._move_to_child()
        if self.failure:
            raise self.failure
        try:
            with super().transaction():
                yield
        except SessionWriteError as error:
            self.failure = self.failure or error
            raise

    def _move_to_child(self) -> None:
        """Begin a separate session in a forked child, at its first row: most children never write
        one.

        SQLite connections must not be used across a fork, nor closed (sqlite.org/howtocorrupt.html,
        "carrying an open database").
        """
        if self.children is None:
            raise SessionWriteError("what a forked child compiles is not recorded")
        self._abandon()
        self.failure = None
        super().__init__(new_session(self.children), beside_program=True)
        describe_process(self, "forked")

    def set_meta(self, key: str, value: object) -> None:
        """Write as usual, but only record a failed write in ``failure``: meta is written outside
        the recorder's error handling.
        """
        with contextlib.suppress(SessionWriteError):
            super().set_meta(key, value)

    def try_failure(self, row: Failure, text: str) -> None:
        """Add a Failure with its whole text. A failed write shows in ``failure``."""
        with contextlib.suppress(SessionWriteError), self.transaction():
            self.add(replace(row, text=self.text(text)))

    def close(self) -> None:
        with contextlib.suppress(SessionWriteError):
            super().close()
