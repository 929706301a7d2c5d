"""Recompiles as rows: the guard that failed in torch's words, and what it looked at."""

from __future__ import annotations

import re

from fx_explorer.capture.hook_notes import GuardedValue
from fx_explorer.capture.recording import Recording
from fx_explorer.capture.sources import parse_stack
from fx_explorer.model import Recompile

_USER_LINE = re.compile(r"#\s(?P<code>.*?)\s+#\s(?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)\s*(?:\(.*\))?$")


def add_recompile(recording: Recording, name: str, reason: str) -> None:
    """``0/0: CHECK  # CODE  # FILE:LINE in FUNCTION``, perhaps with the user stack below (torch/_dynamo/guards.py)."""
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
    found = recording.guarded_values.pop((name, of), GuardedValue())
    recording.writer.add(Recompile(0, compilation, of, reason, guard, file, line, found.source, found.old, found.new))
