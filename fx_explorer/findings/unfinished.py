"""A compilation in which the program was stopped: its first call takes so long that a time limit or
somebody ended it, or the process crashed. The lines that took the time are known so far.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import seconds
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.unrolled_loops import UNROLLED, remedies_of_loop
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compile_seconds

STOPPED = ("killed", "timed_out", "cancelled")
"""Outcomes of a program that did not end by itself."""

MOST_LINES = 3

LEAST_SHARE = 0.1
"""Share of the longest line's time that another line must have to be named."""


def find_unfinished(reader: SessionReader) -> Iterator[Finding]:
    """Yield the compilation that was under way when the program was stopped."""
    recorded = reader.meta("outcome")
    if not recorded or model.Outcome.from_json(recorded).kind not in STOPPED:
        return
    running = [row for row in variants_in_use(reader) if row.status == "running"]
    if running:
        yield _finding(reader, running[-1])


def _finding(reader: SessionReader, compilation: model.Compilation) -> Finding:
    lines = SourceLines(reader)
    took_s = compile_seconds(reader, compilation.id)
    so_far = f" ({seconds(took_s)} so far)" if took_s else ""
    slowest = _slowest_lines(reader, compilation)
    loop = _loop_of(lines, slowest)
    place = place_of_path(reader, compilation.file, compilation.line)
    if slowest:
        file, line, _ = slowest[0]
        place = place_of_path(reader, file, line) or place
    return Finding(
        kind="unfinished compilation",
        text=(
            f"The program was stopped while {plain_function(compilation.function)} was being "
            f"compiled{so_far}."
        ),
        urgency="failed",
        topic="run",
        place=place,
        view="time",
        evidence=tuple(_evidence(lines, slowest)),
        explanation=UNROLLED if loop else "",
        remedies=remedies_of_loop(is_while=isinstance(loop, ast.While)) if loop else (),
        cost=f"{seconds(took_s)} compiling" if took_s else "",
        cost_s=took_s,
    )


def _slowest_lines(
    reader: SessionReader, compilation: model.Compilation
) -> list[tuple[str, int, float]]:
    """Return (file, line, seconds) of the lines that took longest so far, the longest first."""
    by_line: dict[tuple[int, int], float] = defaultdict(float)
    for row in reader.rows(model.PhaseLine, compilation=compilation.id):
        by_line[row.file, row.line] += row.duration_s
    longest = sorted(by_line, key=lambda place: -by_line[place])[:MOST_LINES]
    slowest = []
    for file, line in longest:
        took_s = by_line[file, line]
        if took_s >= LEAST_SHARE * by_line[longest[0]]:
            slowest.append((reader.get(model.SourceFile, file).path, line, took_s))
    return slowest


def _evidence(lines: SourceLines, slowest: list[tuple[str, int, float]]) -> Iterator[str]:
    for number, (file, line, took_s) in enumerate(slowest):
        what = "Most of the time was spent on" if number == 0 else "Then"
        yield f"{what} {in_file(file, line)} ({seconds(took_s)}): {lines.code(file, line)}"


def _loop_of(
    lines: SourceLines, slowest: list[tuple[str, int, float]]
) -> ast.For | ast.While | None:
    """Return the loop around the user's line that took longest; None where there is none."""
    if not slowest:
        return None
    file, line, _ = slowest[0]
    return lines.loop_around(file, line) if lines.is_users(file) else None
