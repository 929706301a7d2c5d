"""A session that a test writes by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    """``written(write)`` → a reader of a new session that ``write(writer)`` filled."""
    readers: list[SessionReader] = []

    def make(write: Callable[[SessionWriter], object]) -> SessionReader:
        path = tmp_path / f"{len(readers)}.fxs"
        with SessionWriter(path) as writer:
            write(writer)
        readers.append(SessionReader(path))
        return readers[-1]

    yield make
    for opened in readers:
        opened.close()
