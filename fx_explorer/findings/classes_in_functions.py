"""A class that is defined inside a compiled function breaks the graph in several ways: at the
class itself, at its body, which Dynamo takes for a function of its own, and in what a decorator
such as ``dataclass`` runs. All go with the class.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from fx_explorer.findings.finding import Finding
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.breaks.break_owners import BreakInLibrary
from fx_explorer.instruments.breaks.grouped import DistinctBreak

CLASS_DEFINED = ("GB0075", "GB8977")
"""torch's ids of a break at the definition of a class."""

BreakAndFinding = tuple[DistinctBreak, Finding]


def local_class_at(lines: SourceLines, graph_break: DistinctBreak) -> tuple[str, int] | None:
    """Return the file and line of the class inside a function, at whose head, decorators included,
    a break is or is caused; None where there is none.
    """
    file, line = graph_break.file, graph_break.line
    if isinstance(graph_break.elsewhere, BreakInLibrary):
        caller = graph_break.elsewhere.called_from
        file, line = caller.file, caller.line
    tree = lines.tree(file) if lines.is_users(file) else None
    if tree is None:
        return None
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ClassDef) and _first_line(node) <= line <= node.lineno:
                    return file, node.lineno
    return None


def _first_line(node: ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def breaks_of_class(breaks: Sequence[BreakAndFinding]) -> list[Finding]:
    """Return the breaks of one class as the finding of the class; each as it is where none is at
    the definition.
    """
    for graph_break, finding in breaks:
        if graph_break.registry_id in CLASS_DEFINED:
            hits = sum(other.count for _, other in breaks)
            return [replace(finding, count=hits)]
    return [finding for _, finding in breaks]
