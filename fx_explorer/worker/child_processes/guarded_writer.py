"""The worker's session writer: remembers the first write that failed, and writes a session of its own in a forked child."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from os import getpid  # as it is before the program can put something else in its place
from pathlib import Path

from fx_explorer.errors import SessionWriteError
from fx_explorer.model import Failure
from fx_explorer.session import SessionWriter
from fx_explorer.session.descriptors import high_numbers
from fx_explorer.worker.child_processes.children import describe_process, new_session


class GuardedWriter(SessionWriter):
    """A full disk must not stop the user's program: the recorder stops recording, and ``failure`` says why at the end."""

    def __init__(self, path: str | Path, children: Path | None = None) -> None:
        """``children``: where processes that are forked write theirs; without it nothing of them is kept."""
        self.failure: SessionWriteError | None = None
        self.children = children
        with high_numbers():
            super().__init__(path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write as ever; but a write that failed is the last one.

        To try again would be to wait again, for a lock or a disk, with each artefact of a program
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
        """SQLite connections must not be used across a fork, nor closed (sqlite.org/howtocorrupt.html, "carrying an open
        database"). The child's own file is made when the first row comes: most children never write one."""
        if self.children is None:
            raise SessionWriteError("what a forked child compiles is not recorded")
        self._abandon()
        self.failure = None
        with high_numbers():
            super().__init__(new_session(self.children))
        describe_process(self, "forked")

    def set_meta(self, key: str, value: object) -> None:
        """Write as ever, but show a failed write in ``failure`` only: meta is written outside the
        recorder's own safety net."""
        with contextlib.suppress(SessionWriteError):
            super().set_meta(key, value)

    def try_failure(self, row: Failure, text: str) -> None:
        """Add a Failure with its whole text; a failed write shows in ``failure``."""
        with contextlib.suppress(SessionWriteError), self.transaction():
            self.add(replace(row, text=self.text(text)))

    def close(self) -> None:
        with contextlib.suppress(SessionWriteError):
            super().close()
