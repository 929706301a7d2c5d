"""Adds a profile of torch.profiler to a session: the trace is read, joined, and its rows are
written. The same file is kept once.

How a trace is joined is ``instruments/profile/``, its format ``readers/kineto_reading.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fx_explorer.instruments.profile.compiled_graphs import compiled_graphs
from fx_explorer.instruments.profile.join import Joined, join
from fx_explorer.readers.kineto_reading import read_trace
from fx_explorer.session import SessionReader, SessionWriter


def joined_profile(
    session: Path, trace: Path, tell: Callable[[int], None] = lambda read: None
) -> Joined:
    """Read a trace, and join it to the session. Raises ProfileError for a file that is no trace,
    SessionError for a session that cannot be read.
    """
    found = read_trace(trace, tell)
    with SessionReader(session) as reader, reader.snapshot():
        return join(found, compiled_graphs(reader), trace.name)


def add_profile(session: Path, joined: Joined) -> None:
    """Write a profile into the session, in place of the same one. Raises SessionWriteError."""
    with SessionWriter(session) as writer, writer.transaction():
        writer.remove_profiles(joined.profile.digest)
        number = writer.add(joined.profile)
        for rows in (joined.times, joined.others, joined.gaps):
            writer.add_all(replace(row, profile=number) for row in rows)
