"""One capture more: started, waited for, looked at, and gone."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from fx_explorer.client.capture import Capture
from fx_explorer.client.temporary_capture import temporary_capture
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionReader

TIMEOUT_S = 300.0

FoundT = TypeVar("FoundT")

Look = Callable[[SessionReader], FoundT]
"""What is wanted of the new session. It is asked in a thread, of a session that is gone
afterwards.
"""

Told = Callable[[str], object]
"""Hears what the worker is doing."""


Attend = Callable[[Capture], Awaitable[Outcome]]
"""What is done while the worker captures, to its end; gives how it ended."""


@dataclass(frozen=True, slots=True)
class TrialWorker:
    """The interpreter that trials run in, and how long they may take."""

    python: str = sys.executable
    """The path of the interpreter."""
    timeout_s: float | None = None
    """The limit for one trial; None for the limit of each kind of trial."""


HERE = TrialWorker()
"""The interpreter that fx-explorer itself runs in, with the limit of each kind of trial."""


def say_nothing(*said: object) -> None:
    """Take what is said and drop it, for callers that do not want to hear."""


@dataclass(frozen=True, slots=True)
class Recapture(Generic[FoundT]):
    """The result of capturing again."""

    outcome: Outcome
    found: FoundT
    took_s: float

    @property
    def is_whole(self) -> bool:
        """Return whether the program came to its end."""
        return self.outcome.kind == "finished"


def straight_through(request: CaptureRequest, **changes: Any) -> CaptureRequest:
    """Return ``request`` without a pause and without what is recorded on demand only, then with
    ``changes``, fields of a CaptureRequest.
    """
    plain = replace(
        request,
        session="",
        pause="",
        stay=False,
        measure_breaks=False,
        ledger=False,
        workspaces=False,
        record_bytecode=False,
        front_ends=(),
    )
    return replace(plain, **changes)


async def to_its_end(capture: Capture, tell: Told = say_nothing) -> Outcome:
    """Wait for a capture, and tell what the worker is doing meanwhile."""
    async for notice in capture.notices():
        if notice.kind == "worker":
            tell(notice.text)
    return await capture.wait()


async def recapture(
    request: CaptureRequest,
    worker: TrialWorker,
    look: Look[FoundT],
    *,
    attend: Attend = to_its_end,
    limit_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> Recapture[FoundT]:
    """Capture the program once more, look at the session, and remove it.

    ``limit_s`` is for a worker without one of its own; ``environment`` is added to the worker's.

    Raises SessionWriteError when there is no room for a session, and nothing for what the user's
    program does. Whoever is cancelled while waiting ends the worker.
    """
    began = time.monotonic()
    async with temporary_capture(
        request, worker.python, worker.timeout_s or limit_s, environment
    ) as capture:
        outcome = await attend(capture)
        found = await asyncio.to_thread(_looked_at, capture.session_path, look)
    return Recapture(outcome, found, time.monotonic() - began)


def _looked_at(path: Path, look: Look[FoundT]) -> FoundT:
    with SessionReader(path) as reader:
        return look(reader)
