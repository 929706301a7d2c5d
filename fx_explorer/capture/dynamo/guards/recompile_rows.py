"""Recompiles as rows: the guard that failed in torch's words, and what it looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fx_explorer.capture.dynamo.guards.recompiles import count_failed
from fx_explorer.capture.recording.hook_notes import FailedGuard, GuardedValue
from fx_explorer.capture.recording.rows.sources import parse_stack
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Recompile

_USER_LINE = re.compile(r"#\s(?P<code>.*?)\s+#\s(?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)\s*(?:\(.*\))?$")


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
    reason, value = found.reason, found.value
    of, _, failed = reason.partition(": ")
    first, _, below = failed.partition("\n")
    where = _USER_LINE.search(first)
    guard = first[: where.start()].strip() if where else first.strip()
    sources = recording.sources
    user = sources.user_frame(parse_stack(below))
    compilation = recording.compilation_id(name)
    if user:
        file, line = user.file, user.line
    else:
        file, line = (sources.complete(where["file"]), int(where["line"])) if where else ("", 0)
    row = Recompile(0, compilation, of, reason, guard, file, line, value.source, value.old, value.new, found.times)
    recording.writer.add(row)
