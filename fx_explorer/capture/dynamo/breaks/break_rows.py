"""Graph breaks as rows: torch's report, and what was read off Dynamo while it broke."""

from __future__ import annotations

from dataclasses import replace

from fx_explorer.capture.dynamo.breaks.break_context import breaking_now
from fx_explorer.capture.dynamo.breaks.break_registry import completed
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import GraphBreak, Notice
from fx_explorer.torch_texts.reports import parse_break

_NOT_RESUMED = "; torch cannot resume there: the rest of the function runs in eager mode"


def add_break(recording: Recording, name: str, payload: str) -> None:
    """Add a row for a graph break; ``payload`` is torch's report. What makes Dynamo give up a frame
    may have been reported before: then both are one break.
    """
    report = completed(parse_break(payload))
    causes = recording.of(name).break_causes
    cause = f"{report.registry_id or report.reason} {report.file}:{report.line}"
    if report.is_given_up and cause in causes:
        return
    causes.add(cause)
    code = report.frames[-1].code if report.frames else ""
    user = recording.sources.user_frame(report.frames)
    file, line = (
        (user.file, user.line)
        if user and recording.sources.is_torch(report.file)
        else (report.file, report.line)
    )
    recording.of(name).has_broken = True
    breaking = breaking_now()
    row = GraphBreak(
        0,
        recording.compilation_id(name),
        report.registry_id,
        report.reason,
        report.explanation,
        report.hints,
        file,
        line,
        user.code if user else code,
        stack=recording.sources.stack(report.frames),
        text=recording.writer.text(payload),
        **breaking.extent(file, line)._asdict(),
        chain=recording.sources.stack(breaking.chain),
        module=breaking.module,
        skips_rest=report.skips_rest,
    )
    row = replace(row, id=recording.writer.add(row))
    recording.of(name).skipping = row if row.skips_rest else None
    recording.notify(
        Notice(
            "note",
            text=f"graph break at {file}:{line}: {report.reason}{_NOT_RESUMED * row.skips_rest}",
            stage="dynamo",
            compilation=name,
        )
    )
