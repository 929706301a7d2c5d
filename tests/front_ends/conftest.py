"""These fixtures provide ``traced(target, …)``, which returns the session's record of each front
end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.capture.recorder import recording
from fx_explorer.instruments.front_ends.measure import keep, record_front_end
from fx_explorer.model import FRONT_ENDS, CaptureRequest, FrontEnd
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target
from fx_explorer.session import SessionReader, SessionWriter

Traced = Callable[..., dict[str, FrontEnd]]


@pytest.fixture
def opened() -> Iterator[list[SessionReader]]:
    """Return the sessions that ``traced`` has opened, the last one last."""
    readers: list[SessionReader] = []
    yield readers
    for reader in readers:
        reader.close()


@pytest.fixture
def traced(tmp_path: Path, opened: list[SessionReader]) -> Traced:
    """Have front ends trace a callable with these arguments, as the worker does when the program
    has run.
    """

    def trace(
        function: Any,
        *arguments: Any,
        only: tuple[str, ...] = FRONT_ENDS,
        limit_s: float = 60,
        before: Callable[[], object] = int,
        **named: Any,
    ) -> dict[str, FrontEnd]:
        path = tmp_path / f"{len(opened)}.fxs"
        request = CaptureRequest("test", str(path), front_end_limit_s=limit_s)
        kept = keep(Target("target", function, Arguments(arguments, named)), [])
        before()
        with (
            SessionWriter(path) as writer,
            recording(writer, request, lambda notice: None) as state,
        ):
            for one in only:
                record_front_end(state, request, one, kept)
        opened.append(SessionReader(path))
        return {row.name: row for row in opened[-1].rows(FrontEnd)}

    return trace
