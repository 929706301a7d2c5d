"""Where a program violates a condition of a check: graph breaks, recompiles, and functions that run
in eager mode, each at its line; on request those of the user's own code alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, causes, limit_hits
from fx_explorer.overview.checks import CheckFinding
from fx_explorer.overview.child_processes import children, describe_finding
from fx_explorer.session import SessionReader, answered_once


def break_findings(reader: SessionReader, own: Path | None = None) -> Iterator[CheckFinding]:
    for graph_break in distinct_breaks(reader):
        if not is_own_break(reader, graph_break, own):
            continue
        if graph_break.count > 1:
            times = f" ({counted(graph_break.count, 'time')})"
        else:
            times = ""
        text = first_line(graph_break.description) + times
        yield CheckFinding(graph_break.file, graph_break.line, text, graph_break.registry_id)
    yield from _findings_of_children(reader, "break", own)


def is_own_break(reader: SessionReader, graph_break: DistinctBreak, own: Path | None) -> bool:
    """Return whether the innermost frame of the user's, among the calls that led to a break, is in
    a file below ``own``.
    """
    if own is None:
        return True
    users = _files_of_user(reader)
    for frame in reversed(graph_break.chain):
        if frame.file in users:
            return _is_below(frame.file, own)
    return _is_below(graph_break.file, own)


@answered_once
def _files_of_user(reader: SessionReader) -> frozenset[str]:
    return frozenset(file.path for file in reader.rows(model.SourceFile, is_user=True))


def is_in(finding: model.ChildFinding, own: Path | None) -> bool:
    return _is_file_of(own, finding.file)


def _is_file_of(own: Path | None, file: str) -> bool:
    return own is None or _is_below(file, own)


def _is_below(file: str, own: Path) -> bool:
    return bool(file) and Path(file).resolve().is_relative_to(own.resolve())


def _findings_of_children(
    reader: SessionReader, kind: model.FindingKind, own: Path | None
) -> Iterator[CheckFinding]:
    processes = children(reader)
    findings = processes.left if kind == "left" else processes.of(kind)
    for finding in findings:
        if not is_in(finding, own):
            continue
        if finding.count > 1:
            times = f" ({counted(finding.count, 'time')})"
        else:
            times = ""
        yield CheckFinding(finding.file, finding.line, describe_finding(finding) + times)


def recompile_findings(reader: SessionReader, own: Path | None = None) -> Iterator[CheckFinding]:
    for recompile in causes(reader):
        place = _place_of_recompile(reader, recompile, own)
        if place is None:
            continue
        function = f"{plain_function(recompile.function)} [{recompile.compilation}]"
        text = f"{function}: {first_line(recompile.description)}"
        yield CheckFinding(*place, text)
    yield from _findings_of_children(reader, "recompile", own)


def _place_of_recompile(
    reader: SessionReader, recompile: ExplainedRecompile, own: Path | None
) -> tuple[str, int] | None:
    """Return the line of a recompile: that of the guard; else, in the project's own code, the call
    that did not fit, or the function. A guard on an input may be asked for by a line of a library.
    """
    places = [(recompile.file, recompile.line), recompile.called_from]
    rows = reader.rows(model.Compilation, name=recompile.compilation)
    places += [(row.file, row.line) for row in rows]
    if own is None:
        return places[0]
    return next((place for place in places if _is_below(place[0], own)), None)


def left_findings(reader: SessionReader, own: Path | None = None) -> Iterator[CheckFinding]:
    """Yield the functions that run in eager mode, including those that failed to compile. Functions
    with nothing to compile are left out.
    """
    limits = {(hit.file, hit.line): hit.description for hit in limit_hits(reader)}
    left = distinct_fallbacks(reader)
    for fallback in left:
        if fallback.has_nothing_to_compile or not _is_file_of(own, fallback.file):
            continue
        why = first_line(fallback.description)
        text = f"{plain_function(fallback.function)} was not compiled: {why}"
        if fallback.kind == "limit":
            text = limits.get((fallback.file, fallback.line), text)
        yield CheckFinding(fallback.file, fallback.line, text)
    # The same function may be a row of both tables.
    lines_of_fallbacks = {(fallback.file, fallback.line) for fallback in left}
    seen: set[CheckFinding] = set()
    for row in first_variants(reader):
        if row.status not in ("skipped", "failed") or not _is_file_of(own, row.file):
            continue
        finding = _skipped(reader, row)
        if finding not in seen and (finding.file, finding.line) not in lines_of_fallbacks:
            seen.add(finding)
            yield finding
    yield from _findings_of_children(reader, "left", own)


def _skipped(reader: SessionReader, compilation: model.Compilation) -> CheckFinding:
    for hit in limit_hits(reader):
        if hit.compilation == compilation.name:
            return CheckFinding(hit.file, hit.line, hit.description)
    function = plain_function(compilation.function) or "a function"
    error = first_line(compilation.error)
    text = f"{function} [{compilation.name}] was not compiled: {error}"
    return CheckFinding(compilation.file, compilation.line, text.removesuffix(": "))
