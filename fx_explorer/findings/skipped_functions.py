"""Functions that Dynamo skipped: they run in eager mode, with the functions that call them in one
frame. Those that a graph break left out are told with the break.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.findings.finding import Finding
from fx_explorer.instruments.recompiles.causes import reached_limit
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import raised_compilations
from fx_explorer.session.reader import answered_once


def skipped_compilations(reader: SessionReader) -> list[model.Compilation]:
    """Return the compilations of functions that Dynamo skipped, without an error of the compiler's
    and not for the recompile limit.
    """
    raised = {compilation.id for compilation in raised_compilations(reader)}
    return [
        compilation
        for compilation in first_variants(reader)
        if compilation.status == "skipped"
        and compilation.id not in raised
        and not reached_limit(compilation)
    ]


def last_break(reader: SessionReader, compilation: model.Compilation) -> tuple[str, int]:
    """Return (file, line) of the last break of a compilation; ("", 0) without one. Where Dynamo
    skipped the function, that break is the reason.
    """
    hits = [hit for hit in reader.rows(model.GraphBreak, compilation=compilation.id) if hit.file]
    return (hits[-1].file, hits[-1].line) if hits else ("", 0)


@answered_once
def functions_left_out(reader: SessionReader) -> Mapping[tuple[str, int], Sequence[str]]:
    """Return (file, line) of a break → the functions that were skipped for it, each once."""
    functions: dict[tuple[str, int], list[str]] = defaultdict(list)
    for compilation in skipped_compilations(reader):
        where = last_break(reader, compilation)
        function = plain_function(compilation.function)
        if compilation.file:
            function = f"{function} ({in_file(compilation.file, compilation.line)})"
        if where[0] and function not in functions[where]:
            functions[where].append(function)
    return functions


def skipped_function(reader: SessionReader, compilation: model.Compilation) -> Finding:
    """Return that a function was skipped, for a reason that is no break."""
    return Finding(
        kind="skipped function",
        text=f"{plain_function(compilation.function)} was not compiled; it runs in eager mode.",
        urgency="not compiled",
        severity="notice",
        place=place_of_path(reader, compilation.file, compilation.line),
        view="graphs",
        evidence=(compilation.error,) if compilation.error else (),
    )
