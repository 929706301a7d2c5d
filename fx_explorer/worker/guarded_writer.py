"""The worker's session writer: remembers the first write that failed, and writes nothing in forked children."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fx_explorer.errors import SessionWriteError
from fx_explorer.model import Failure
from fx_explorer.session import SessionWriter
from fx_explorer.session.schema import TABLES


class GuardedWriter(SessionWriter):
    """A full disk must not stop the user's program: the recorder stops recording, and ``failure`` says why at the end."""

    def __init__(self, path: str | Path) -> None:
        self.failure: SessionWriteError | None = None
        self._owner = os.getpid()
        super().__init__(path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if os.getpid() != self._owner:
            # SQLite connections must not be used across a fork (sqlite.org/howtocorrupt.html, "carrying an open database").
            raise SessionWriteError("what a forked child compiles is not recorded")
        try:
            with super().transaction():
                yield
        except SessionWriteError as error:
            self.failure = self.failure or error
            raise

    def set_meta(self, key: str, value: object) -> None:
        """As ever, but a failed write shows in ``failure`` only: meta is written outside the recorder's own safety net."""
        with contextlib.suppress(SessionWriteError):
            super().set_meta(key, value)

    def try_failure(self, row: Failure, text: str) -> None:
        """Add a Failure with its whole text; a failed write shows in ``failure``."""
        with contextlib.suppress(SessionWriteError), self.transaction():
            self.add(replace(row, text=self.text(text)))

    def count(self, row_type: type) -> int:
        """How many rows of this type there are."""
        return int(self._db.execute(f"SELECT count(*) FROM {TABLES[row_type]}").fetchone()[0])

    def close(self) -> None:
        with contextlib.suppress(SessionWriteError):
            super().close()
