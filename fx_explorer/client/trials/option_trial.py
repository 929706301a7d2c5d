"""The same program captured with other options, by a worker of its own, to be held against the capture that was made.

What is counted of a session is the caller's business (``look``): it is asked in a thread, of a session that is gone afterwards.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from fx_explorer.client.temporary_capture import temporary_capture
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionReader

TIMEOUT_S = 300.0

FoundT = TypeVar("FoundT")

Look = Callable[[SessionReader], FoundT]


@dataclass(frozen=True, slots=True)
class OptionTrial(Generic[FoundT]):
    settings: Mapping[str, object]
    """By full name."""
    outcome: Outcome
    before: FoundT
    after: FoundT
    took_s: float


async def try_options(
    request: CaptureRequest,
    settings: Mapping[str, object],
    before: FoundT | None,
    look: Look[FoundT],
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> OptionTrial[FoundT]:
    """``request`` is what was captured with, ``before`` what ``look`` found; None: the program is captured as it was, too.

    Raises SessionWriteError when there is no room for a session, and nothing for what the program does.
    """
    began = time.monotonic()
    held_against = before or (await _captured(changed_request(request, {}), look, python, timeout_s))[1]
    outcome, after = await _captured(changed_request(request, settings), look, python, timeout_s)
    return OptionTrial(settings, outcome, held_against, after, time.monotonic() - began)


def changed_request(request: CaptureRequest, settings: Mapping[str, object]) -> CaptureRequest:
    """Straight through, with these settings in place of the ones before."""
    return replace(request, session="", pause="", stay=False, settings={**request.settings, **settings})


async def _captured(request: CaptureRequest, look: Look[FoundT], python: str, timeout_s: float) -> tuple[Outcome, FoundT]:
    async with temporary_capture(request, python, timeout_s) as capture:
        outcome = await capture.wait()
        return outcome, await asyncio.to_thread(_looked_at, capture.session_path, look)


def _looked_at(path: Path, look: Look[FoundT]) -> FoundT:
    with SessionReader(path) as reader:
        return look(reader)
