"""This module makes the rows of graph breaks out of three sources: torch's report, its list of
breaks, and Dynamo's state while it broke.

Dynamo knows while it writes a report what the report does not say: through which calls the break
was reached, where in its line it is, in which module. torch's list of graph breaks
(``torch/_dynamo/graph_break_registry.json``) has what a report itself leaves out. Its texts are
templates, some with placeholders for what only the report knows; those are not used.
"""

from __future__ import annotations

import functools
import json
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Frame, GraphBreak, Notice
from fx_explorer.torch_texts.reports import BreakReport, parse_break


class Extent(NamedTuple):
    """A stretch of source from ``column`` of a line to ``end_column`` of ``end_line``, both in it,
    in characters from 1; 0 where not known.
    """

    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class BreakContext:
    """What Dynamo knows while it writes a graph break record."""

    chain: tuple[Frame, ...] = ()
    """The function that Python called, and what was inlined into it down to the break."""
    extents: dict[tuple[str, int], Extent] = field(default_factory=dict)
    """The extents, by file and line."""
    module: str = ""
    """Path of the module that was being called."""

    def extent(self, file: str, line: int) -> Extent:
        return self.extents.get((file, line), Extent())


# The default is frozen.
breaking: ContextVar[BreakContext] = ContextVar(
    "breaking",
    default=BreakContext(),  # noqa: B039
)


def breaking_now() -> BreakContext:
    """Return what Dynamo knows of the break it is recording, for whoever reads the record. It is
    empty outside of a record, and in a torch release that does not tell.
    """
    return breaking.get()


# torch's list of graph breaks.


_PLACEHOLDER = ("{", "_explanation", '"')


class RegistryEntry(NamedTuple):
    registry_id: str
    explanation: str
    hints: tuple[str, ...]


def completed(report: BreakReport) -> BreakReport:
    """Return ``report`` with id, explanation and hints from the registry where it has none of its
    own.
    """
    if report.registry_id and report.explanation and report.hints:
        return report
    entry = entry_of(report.registry_id, report.reason)
    return replace(
        report,
        registry_id=report.registry_id or entry.registry_id,
        explanation=report.explanation or entry.explanation,
        hints=report.hints or entry.hints,
    )


def entry_of(registry_id: str, reason: str = "") -> RegistryEntry:
    """Return what the registry says about an id, or else about a reason in its own words; empty
    when it knows neither.
    """
    registry = _registry()
    known = registry_id or _id_of_reason(registry, reason)
    forms = registry.get(known)
    if not forms:
        return RegistryEntry("", "", ())
    explanations = [form["Explanation"] for form in forms if _is_plain(form["Explanation"])]
    hints = [tuple(hint for hint in form["Hints"] if _is_plain(hint)) for form in forms]
    return RegistryEntry(known, next(iter(explanations), ""), next(filter(None, hints), ()))


def _id_of_reason(registry: dict[str, list[dict[str, Any]]], reason: str) -> str:
    for registry_id, forms in registry.items():
        if any(form["Gb_type"] == reason for form in forms):
            return registry_id
    return ""


def _is_plain(text: str) -> bool:
    return bool(text) and not any(mark in text for mark in _PLACEHOLDER)


@functools.cache
def _registry() -> dict[str, list[dict[str, Any]]]:
    path = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text()))


# Graph breaks as rows.


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
    file, line = report.file, report.line
    user = recording.sources.user_frame(report.frames)
    if user and recording.sources.is_torch(report.file):
        file, line = user.file, user.line
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
