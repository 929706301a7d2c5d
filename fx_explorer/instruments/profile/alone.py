"""This module makes a session of a profile of torch.profiler that lies alone: where the time went
by kernel and operator, how much of it is compiled, and when the GPU was idle.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer.instruments.profile.join import add_profile, join
from fx_explorer.model import Outcome
from fx_explorer.readers.kineto_reading import read_trace
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.session import SessionWriter


def read_profile_alone(file: Path, session: Path) -> None:
    """Write the session of a profile. Raises ProfileError for a file that is none."""
    trace = read_trace(file)
    joined = join(trace, [], file.name, is_alone=True)
    with SessionWriter(session, checks_rows=True) as writer, writer.transaction():
        write_beginning(writer, file)
        writer.set_meta("skipped_records", trace.skipped)
        writer.set_meta("build", True)
        kinds = {"event": trace.events}
        log = {"format": "profile", "records": trace.events, "kinds": kinds, "unknown": {}}
        writer.set_meta("log", log)
        writer.set_meta("outcome", Outcome("finished").to_json())
    add_profile(session, joined)
