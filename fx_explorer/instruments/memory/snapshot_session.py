"""This module makes a session of a CUDA memory snapshot that lies alone: one document with what it
says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fx_explorer.instruments.memory.snapshot_figures import add_snapshot, snapshot_figures
from fx_explorer.instruments.memory.snapshot_report import snapshot_text
from fx_explorer.model import Artifact, Compilation, Outcome
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.session import SessionReader, SessionWriter

TITLE = "Memory held at the peak"

WIDTH = 100

NOT_IN_SNAPSHOT = "a memory snapshot has no graph"

STAGES = ("dynamo", "pre_grad", "joint", "forward", "backward", "post_grad", "schedule")


def read_snapshot_alone(file: Path, session: Path) -> None:
    """Write the session of a snapshot. Raises SessionError for a file that is none."""
    figures = snapshot_figures(file)
    SessionWriter(session, checks_rows=True).close()
    add_snapshot(session, figures)
    with SessionReader(session) as reader:
        text = snapshot_text(reader, figures, WIDTH)
    with SessionWriter(session, checks_rows=True) as writer, writer.transaction():
        write_beginning(writer, file)
        missing = dict.fromkeys(STAGES, NOT_IN_SNAPSHOT)
        compilation = Compilation(0, "snapshot", 0, 0, "", "", 0, status="ok")
        number = writer.add(replace(compilation, missing_stages=missing))
        lines = text.removesuffix("\n").count("\n") + 1
        document = writer.text(text)
        writer.add(
            Artifact(0, number, "listing", "output_code", "", TITLE, "text", document, lines)
        )
        writer.set_meta("skipped_records", 0)
        writer.set_meta("build", True)
        events = sum(device.events for device in figures.devices)
        kinds = {"event": events}
        log = {"format": "memory_snapshot", "records": events, "kinds": kinds, "unknown": {}}
        writer.set_meta("log", log)
        writer.set_meta("outcome", Outcome("finished").to_json())
