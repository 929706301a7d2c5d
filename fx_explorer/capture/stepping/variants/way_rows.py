"""How the ways of a compilation stand in the session: one row each, kept up to date as they begin, end or are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fx_explorer.capture.recording import stages
from fx_explorer.capture.recording.boundary import Key
from fx_explorer.capture.recording.error_lines import one_line
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variants.ways import KeptSegment, Way
from fx_explorer.model import Command, Compilation, Gate


class WayRows:
    """The rows of one capture's ways. A first way is the row of its compilation, which Dynamo's own records change too."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def add_branch(self, kept: KeptSegment, origin: Way, gate: Gate, command: Command, replays: frozenset[Key]) -> Compilation:
        row = replace(
            kept.ways[0].row,
            id=0,
            name=f"{kept.name}~{len(kept.ways)}",
            status="running",
            error="",
            branch_of=origin.row.name,
            branch_from=gate,
            changes=command.changes.to_json(),
            in_use=False,
            saved_s=kept.traced_s + origin.shared_s(replays),
            start_s=self._recording.elapsed(),
            duration_s=0.0,
            missing_stages=None,
        )
        return replace(row, id=self._recording.writer.add(row))

    def change(self, way: Way, **changes: Any) -> None:
        if way.row.branch_of:
            way.row = replace(way.row, **{"duration_s": round(way.spent_s(), 6), **changes})
            self._recording.writer.update(way.row)
        else:
            self._recording.change_compilation(way.row.name, **changes)
            way.row = self._recording.row(way.row.name)

    def leave(self, way: Way, why: str) -> None:
        self.change(way, status="left", error=why)

    def replace_first(self, kept: KeptSegment) -> None:
        """The user took another way before the first one had begun."""
        first = kept.ways[0]
        first.is_finished = True
        self.leave(first, "the user took another way")
        self.change(first, missing_stages=stages.missing(self._recording, kept.name, "left"))

    def fail(self, way: Way, error: Exception) -> None:
        message = one_line(f"{type(error).__name__}: {error}")
        self.change(way, status="failed", error=message)
        self._recording.add_failure("compiler", self._recording.stage, error, message)

    def finish(self, way: Way) -> None:
        """It was compiled to its end. A first way may have been so after Dynamo had ended its row."""
        way.is_finished = True
        if not way.row.branch_of:
            self.add_time(way)
        elif way.row.status == "running":
            self.change(way, status="ok", saved_s=way.row.saved_s + way.spared_s)

    def add_time(self, way: Way) -> None:
        """A first way was compiled further, after Dynamo had ended its row."""
        row = self._recording.row(way.row.name)
        missing = stages.missing(self._recording, row.name, row.status)
        self.change(way, duration_s=row.duration_s + way.spent_now_s(), missing_stages=missing)

    def use(self, kept: KeptSegment, way: Way) -> None:
        """The program takes ``way``."""
        for other in kept.ways:
            if other.row.in_use != (other is way):
                self.change(other, in_use=other is way)

    def set_aside(self, kept: KeptSegment, aside: str) -> None:
        """This attempt is called ``aside`` from now on: so are the ways that set out from it."""
        for way in kept.ways[1:]:
            names = {field: getattr(way.row, field).replace(kept.name, aside, 1) for field in ("name", "branch_of")}
            self.change(way, **names, status="restarted" if way.row.status == "running" else way.row.status)
