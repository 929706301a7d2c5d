"""This module makes a session of a profile of torch.profiler that lies alone: where the time went
by kernel and operator, how much of it is compiled, and when the GPU was idle.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer import __version__
from fx_explorer.instruments.profile.join import add_profile, join
from fx_explorer.model import Outcome
from fx_explorer.readers.kineto_reading import read_trace
from fx_explorer.session import SessionWriter


def read_profile_alone(file: Path, session: Path) -> None:
    """Write the session of a profile. Raises ProfileError for a file that is none."""
    trace = read_trace(file)
    joined = join(trace, [], file.name, is_alone=True)
    with SessionWriter(session, checks_rows=True) as writer, writer.transaction():
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("environment", {})
        target = {
            "name": file.name,
            "kind": "log",
            "file": str(file.absolute()),
            "object": "",
            "train": False,
            "parameters": 0,
        }
        writer.set_meta("target", target)
        writer.set_meta("skipped_records", trace.skipped)
        writer.set_meta("build", True)
        kinds = {"event": trace.events}
        log = {"format": "profile", "records": trace.events, "kinds": kinds, "unknown": {}}
        writer.set_meta("log", log)
        writer.set_meta("outcome", Outcome("finished").to_json())
    add_profile(session, joined)
