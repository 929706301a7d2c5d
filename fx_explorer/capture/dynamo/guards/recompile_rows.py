"""Recompiles as rows: the guard that failed in torch's words, and what it looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx_explorer.capture.dynamo.guards.recompiles import count_failed
from fx_explorer.capture.recording.hook_notes import FailedGuard, GuardedValue
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Recompile
from fx_explorer.torch_texts.recompile_reason import parse_reason


def add_recompiles(recording: Recording, name: str, payload: Callable[[], Any]) -> None:
    """Add rows for what the hook noted (recompiles.py). Without it, add rows for what torch
    reports: a text or a list of texts, given by ``payload``.
    """
    noted = recording.failed_guards.pop(name, None)
    if noted is None:
        noted = {}
        reasons = payload()
        for reason in reasons if isinstance(reasons, list) else [reasons]:
            count_failed(noted, str(reason), GuardedValue)
    for failed in noted.values():
        _add(recording, name, failed)


def _add(recording: Recording, name: str, found: FailedGuard) -> None:
    """Add the row of a text ``0/0: CHECK  # CODE  # FILE:LINE in FUNCTION``, perhaps with the user
    stack below (torch/_dynamo/guards.py).
    """
    value, reason = found.value, parse_reason(found.reason)
    sources = recording.sources
    user = sources.user_frame(reason.frames)
    file, line = (user.file, user.line) if user else (sources.complete(reason.file), reason.line)
    compilation = recording.compilation_id(name)
    row = Recompile(
        0,
        compilation,
        reason.of,
        found.reason,
        reason.guard,
        file,
        line,
        value.source,
        value.old,
        value.new,
        found.times,
    )
    recording.writer.add(row)
