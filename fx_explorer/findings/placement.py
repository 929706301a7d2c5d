"""torch.compile is around too much: the compiled function breaks the graph at several lines, and a
module that it calls has most of the operations and no break. Compiling that module alone avoids
them all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import function_resumed
from fx_explorer.analysis.words import counted, listed, share
from fx_explorer.findings.compile_edits import COPY_BEFORE
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import captured_by_module

LEAST_LINES = 2
"""Number of lines that break from which on another place for torch.compile is looked for: a single
one is mended where it is.
"""

LEAST_SHARE = 0.5
"""Share of the operations of all modules that the module must have."""

GLOBAL, LOCAL = "G.", "L."
"""Begin the path of a module that a function knows by a global name, or by one of a function around
it.
"""

LINES_SHOWN = 6

OF_TORCHS_OWN = "; m.forward = torch.compile(m.forward) if its forward is torch.nn's"
"""Follows m.compile(), which compiles nothing of a Sequential and its subclasses."""


@dataclass(frozen=True, slots=True)
class WholeModule:
    """A module whose operations are all in one graph."""

    path: str
    """Its path as Dynamo names it: ``G.model``, ``encoder``, ``layers.*`` for all of a list."""
    compilation: model.Compilation
    operations: int
    of_all: int
    """Operations of all modules."""

    @property
    def name(self) -> str:
        """Return the module as the user writes it."""
        return module_in_code(self.path).removesuffix(".*")


def module_in_code(path: str) -> str:
    """Return the path of a module without the scope that Dynamo writes before it."""
    return path.removeprefix(GLOBAL).removeprefix(LOCAL)


def find_placement(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding where another place of torch.compile may avoid several graph breaks."""
    if len(distinct_breaks(reader)) < LEAST_LINES:
        return
    whole = _whole_module(reader)
    if whole is None:
        return
    function = function_resumed(whole.compilation.function)
    breaks = _breaks_of(reader, function)
    if not all(map(_is_at_own_line, breaks)):
        return  # in a function that it calls: perhaps one of the module's
    lines = sorted({graph_break.line for graph_break in breaks})
    if len(lines) >= LEAST_LINES:
        yield _finding(reader, whole, function, breaks, lines)


def _whole_module(reader: SessionReader) -> WholeModule | None:
    """Return the outermost module that has most of the operations, all in one graph."""
    compilations = {row.id: row for row in variants_in_use(reader)}
    operations: Counter[str] = Counter()
    frames: dict[str, set[int]] = defaultdict(set)
    by_path: dict[str, model.Compilation] = {}
    total = 0
    for nodes in captured_by_module(reader, None):
        compilation = compilations.get(nodes.compilation)
        if compilation is None or not nodes.module or compilation.recompile:
            continue
        path = _outermost(nodes.module)
        operations[path] += nodes.node_count
        frames[path].add(compilation.frame)
        by_path.setdefault(path, compilation)
        total += nodes.node_count
    for path, count in operations.most_common(1):
        if count >= LEAST_SHARE * total and len(frames[path]) == 1:
            return WholeModule(path, by_path[path], count, total)
    return None


def _outermost(path: str) -> str:
    """Return ``G.model`` for ``G.model.layers.0``, ``layers.*`` for ``layers.0.a``, ``encoder`` for
    ``encoder.layers.0``.
    """
    first, _, rest = path.partition(".")
    second = rest.partition(".")[0]
    if f"{first}." in (GLOBAL, LOCAL):
        return f"{first}.{second}"
    if second.isdigit():
        return f"{first}.*"
    return first


def _breaks_of(reader: SessionReader, function: str) -> list[DistinctBreak]:
    """Return the breaks of a function's own frames."""
    functions = {row.name: function_resumed(row.function) for row in variants_in_use(reader)}
    breaks = []
    for graph_break in distinct_breaks(reader):
        of_functions = {functions.get(name) for name in graph_break.compilations}
        if graph_break.file and function in of_functions and not graph_break.is_wrappers:
            breaks.append(graph_break)
    return breaks


def _is_at_own_line(graph_break: DistinctBreak) -> bool:
    """Return whether the line that breaks is one of the compiled function itself."""
    outermost = graph_break.chain[0] if graph_break.chain else None
    if outermost is None:
        return False
    return (outermost.file, outermost.line) == (graph_break.file, graph_break.line)


def _finding(
    reader: SessionReader,
    whole: WholeModule,
    function: str,
    breaks: list[DistinctBreak],
    lines: list[int],
) -> Finding:
    compilation = whole.compilation
    of_function = _first_frame(reader, function) or compilation
    numbers = listed((str(line) for line in lines), LINES_SHOWN)
    costs = [graph_break.cost.run_s or 0.0 for graph_break in breaks]
    return Finding(
        kind="placement",
        text=(
            f"torch.compile wraps {function}, which breaks the graph at "
            f"{counted(len(lines), 'line')} ({numbers}); {whole.name} inside has no break."
        ),
        urgency="not compiled",
        topic="graphs",
        place=place_of_path(reader, of_function.file, of_function.line),
        view="breaks",
        evidence=(
            f"{whole.name} contains {share(whole.operations, whole.of_all)} of the modules' "
            "operations, all in one graph.",
        ),
        explanation=(
            "Each break ends a graph, and the rest of the function is compiled separately, with "
            "its own guards."
        ),
        remedies=(_remedy(whole, function),),
        count=len(lines),
        cost=counted(len(lines), "graph break"),
        cost_s=sum(costs),
    )


def _first_frame(reader: SessionReader, function: str) -> model.Compilation | None:
    for row in variants_in_use(reader):
        if row.function == function:
            return row
    return None


def _remedy(whole: WholeModule, function: str) -> Remedy:
    if whole.path.endswith(".*"):
        what = f"Compile each module of {whole.name} (module.compile(){OF_TORCHS_OWN})"
    elif whole.path.startswith((GLOBAL, LOCAL)):
        what = f"Compile {whole.name} alone ({whole.name}.compile(){OF_TORCHS_OWN})"
    else:
        what = (
            f"Compile only its {whole.name} ({whole.name}.compile() on that module{OF_TORCHS_OWN})"
        )
    return Remedy(
        f"{what} instead of {function}: the code around it then runs in eager mode. {COPY_BEFORE}",
        changes={"compile_modules": [whole.path]},
    )
