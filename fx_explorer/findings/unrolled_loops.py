"""Loops that Dynamo unrolls: it runs a Python loop while it traces, and records the operations of
each iteration. Compiling takes longer with each iteration, and another number of iterations is
another graph.

An iteration is not recorded as such. What shows it is that the same operation, reached by the same
calls and of the same module, stands many times in one graph, and that a line of these calls stands
in a loop. A loop over modules repeats an operation for other modules: that is a repeated block.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compile_seconds
from fx_explorer.session.queries.findings import modules_of_stacks, repeated_operations
from fx_explorer.session.reader import answered_once

LEAST_ITERATIONS = 16
"""Number of iterations from which on a loop is a finding: below it, compiling the step by itself
saves less than its calls cost.
"""

LEAST_OPERATIONS = 100
"""Number of operations of a loop from which on it is a finding: fewer compile in about a second."""


@dataclass(frozen=True, slots=True)
class UnrolledLoop:
    """A loop in the user's code whose iterations all stand in one graph."""

    compilation: model.Compilation
    file: str
    line: int
    """The line of ``for`` or ``while``."""
    iterations: int
    operations: int
    """Operations of all iterations."""
    of_graph: int
    """Operations of the whole graph."""
    is_while: bool


@answered_once
def unrolled_loops(reader: SessionReader) -> list[UnrolledLoop]:
    """Return the unrolled loops of all graphs that Dynamo made, those with most operations
    first.
    """
    lines = SourceLines(reader)
    loops: list[UnrolledLoop] = []
    for compilation in variants_in_use(reader):
        for graph in reader.rows(model.Graph, compilation=compilation.id, stage="dynamo", parent=0):
            if graph.call_count >= LEAST_OPERATIONS:
                loops += _loops_of(reader, lines, compilation, graph)
    return sorted(loops, key=lambda loop: -loop.operations)


def _loops_of(
    reader: SessionReader,
    lines: SourceLines,
    compilation: model.Compilation,
    graph: model.Graph,
) -> Iterator[UnrolledLoop]:
    by_loop: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    whiles: set[tuple[str, int]] = set()
    for operation in repeated_operations(reader, graph, LEAST_ITERATIONS):
        loop = _innermost_loop(lines, operation.frames)
        if loop is None:
            continue
        file, node = loop
        by_loop[file, node.lineno][operation.times] += operation.times
        if isinstance(node, ast.While):
            whiles.add((file, node.lineno))
    modules = _modules_in_loops(reader, lines, graph) if by_loop else {}
    for (file, line), operations_by_count in by_loop.items():
        operations = operations_by_count.total()
        if operations < LEAST_OPERATIONS:
            continue
        # An operation that a line has twice counts twice an iteration; a conditional one, less.
        iterations = min(count for count in operations_by_count if count >= LEAST_ITERATIONS)
        if len(modules.get((file, line), ())) >= iterations:
            continue  # a loop over modules
        yield UnrolledLoop(
            compilation, file, line, iterations, operations, graph.call_count,
            is_while=(file, line) in whiles,
        )  # fmt: skip


def _modules_in_loops(
    reader: SessionReader, lines: SourceLines, graph: model.Graph
) -> dict[tuple[str, int], set[str]]:
    """Return (file, line) of each loop → the modules that its iterations call."""
    modules: dict[tuple[str, int], set[str]] = defaultdict(set)
    for module, frames in modules_of_stacks(reader, graph):
        for frame in frames:
            loop = lines.loop_around(frame.file, frame.line)
            if loop is not None and lines.is_users(frame.file):
                modules[frame.file, loop.lineno].add(module)
    return modules


def _innermost_loop(
    lines: SourceLines, frames: tuple[model.Frame, ...]
) -> tuple[str, ast.For | ast.While] | None:
    """Return the innermost loop of the user's code around the lines of a stack."""
    for frame in reversed(frames):
        if not lines.is_users(frame.file):
            continue
        loop = lines.loop_around(frame.file, frame.line)
        if loop is not None:
            return frame.file, loop
    return None


def find_unrolled_loops(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each loop; loops of several versions of a function count once."""
    first_of_line: dict[tuple[str, int], UnrolledLoop] = {}
    lengths: dict[tuple[str, int], set[int]] = defaultdict(set)
    for loop in unrolled_loops(reader):
        first_of_line.setdefault((loop.file, loop.line), loop)
        lengths[loop.file, loop.line].add(loop.iterations)
    for key, loop in first_of_line.items():
        yield _finding(reader, loop, sorted(lengths[key]))


def _finding(reader: SessionReader, loop: UnrolledLoop, lengths: list[int]) -> Finding:
    compile_s = compile_seconds(reader, loop.compilation.id)
    of_loop_s = compile_s * loop.operations / loop.of_graph
    each = loop.operations / loop.iterations
    text = (
        f"The loop at {in_file(loop.file, loop.line)} was unrolled: its "
        f"{loop.iterations:,} iterations are {loop.operations:,} of the graph's "
        f"{counted(loop.of_graph, 'operation')}."
    )
    evidence = [f"About {each:.0f} operations an iteration."]
    if compile_s:
        evidence.append(
            f"Compiling {plain_function(loop.compilation.function)} took {seconds(compile_s)}, "
            f"about {seconds(of_loop_s)} of it for the loop if each operation takes equally long."
        )
    if len(lengths) > 1:
        versions = ", ".join(f"{length:,}" for length in lengths)
        evidence.append(f"It was compiled for several numbers of iterations: {versions}.")
    return Finding(
        kind="unrolled loop",
        text=text,
        urgency="again",
        topic="graphs",
        place=place_of_path(reader, loop.file, loop.line),
        view="graphs",
        evidence=tuple(evidence),
        explanation=UNROLLED,
        remedies=remedies_of_loop(is_while=loop.is_while),
        cost=f"{seconds(of_loop_s)} compiling" if compile_s else "",
        cost_s=of_loop_s,
        brief=(
            f"{in_file(loop.file, loop.line)} loop unrolled: {loop.iterations:,} iterations, "
            f"{counted(loop.operations, 'operation')}"
        ),
    )


UNROLLED = (
    "Dynamo executes a Python loop while it traces, and records each iteration. Compile time "
    "grows with the number of iterations, and another number of iterations recompiles. If "
    "iterations depend on each other, unrolling makes the loop no faster."
)


def remedies_of_loop(*, is_while: bool) -> tuple[Remedy, ...]:
    """Return the ways to trace the body once. Each is a change of the user's code."""
    operator = "while_loop" if is_while else "scan"
    return (
        Remedy(
            "Compile the body of the loop: move it to a function, give that to torch.compile, and "
            "keep the loop outside of the compiled function. Compile time then no longer depends "
            "on the number of iterations; each iteration checks the guards once.",
        ),
        Remedy(
            "Put the body in a function decorated with torch.compiler.nested_compile_region: "
            "Dynamo and AOTAutograd trace it once. Another number of iterations still recompiles.",
        ),
        Remedy(
            f"Write the loop with torch._higher_order_ops.{operator}, a prototype feature of "
            "PyTorch: the body is recorded once for any number of iterations. Inductor does not "
            "compile every such loop.",
        ),
    )
