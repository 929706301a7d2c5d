"""This module says of each line of the user's functions whether its operations are in graphs or run
in eager mode, and why: nodes by their stacks, breaks, functions left to eager mode, and what Dynamo
traced without a node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import Document, document_of, lines_of
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.link_tables import LinkQueries
from fx_explorer.analysis.naming import plain_function, resumed_at
from fx_explorer.analysis.source_statements import SourceFunction, Statement, statements
from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.call_tree import FunctionCall, call_trees, distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import distinct_breaks, what_the_backend_raised
from fx_explorer.instruments.breaks.not_resumed import why_not_resumed
from fx_explorer.instruments.trace.figures import TracedFunction, traced_compilations, walk
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import kernels_of_each
from fx_explorer.torch_texts.reports import BACKEND_FAILED

Runs = Literal["in graphs", "in graphs and eager", "eager", "while compiling", "not traced", ""]
"""How a line runs. ``while compiling``: Dynamo evaluated it, and no operation came of it. Empty:
the session does not say.
"""


NOT_REACHED = "Dynamo did not reach it: another branch was taken, or it has no effect"
AS_ONE_CALL = "Dynamo traced this function of torch itself, whose lines are not recorded one by one"
NOT_MET = "Dynamo did not trace this function: it ran in eager mode, or was not called"


@dataclass
class LineFacts:
    """What is known of one line of a file."""

    nodes: list[model.Node] = field(default_factory=list)
    """Operations of Dynamo's graphs whose stack passes through the line."""
    eager: dict[str, None] = field(default_factory=dict)
    """Why something of the line runs in eager mode, each reason once."""
    is_traced: bool = False


Lines = defaultdict[int, LineFacts]
"""Line, from 1 → what is known of it."""


@dataclass(frozen=True, slots=True)
class CompiledLine:
    """A statement of a function, and how it runs."""

    statement: Statement
    text: str
    runs: Runs
    operations: Counter[str]
    """Target → how many operations of Dynamo's graphs come from it, in all compilations."""
    graphs: tuple[str, ...]
    """Dynamo's graphs that have an operation of it."""
    kernels: tuple[str, ...]
    why: str
    """Why it is in no graph, or why no kernel is from it."""


def compiled_lines(
    reader: SessionReader, document: Document, functions: Sequence[SourceFunction] = ()
) -> list[CompiledLine]:
    """Return the statements of the functions of a file that Dynamo met, or of those given, in
    order; where the text of the file was not recorded, the lines that have something.
    """
    facts = _facts_of_file(reader, document)
    source = lines_of(reader, document)
    listed = _statements(reader, document, facts)
    met = _met(listed, facts)
    wanted = set(functions) or met
    as_one_call = _traced_as_one_call(reader, document.id)
    lines = []
    for statement in listed:
        if statement.function not in wanted:
            continue
        span = range(statement.first, statement.last + 1)
        of_line = _merged(facts[number] for number in span if number in facts)
        text = " ".join(source[number - 1].strip() for number in span if number <= len(source))
        line = _compiled(reader, statement, of_line, text, statement.function in met)
        if line.runs == "not traced" and statement.function.first in as_one_call:
            line = replace(line, runs="", why=AS_ONE_CALL)
        lines.append(line)
    return lines


def _traced_as_one_call(reader: SessionReader, file: int) -> set[int]:
    """Return the first lines of the functions of a file that Dynamo traced, and of whose lines the
    recorder notes nothing, being torch's.
    """
    first_lines = set()
    for traced in traced_compilations(reader):
        for _, row, _ in walk(traced.root) if traced.root else ():
            if isinstance(row, TracedFunction) and row.file == file and not row.has_lines:
                first_lines.add(row.first_line)
    return first_lines


def functions_of(reader: SessionReader, document: Document) -> list[SourceFunction]:
    """Return the functions of a file, in order."""
    text = "\n".join(lines_of(reader, document))
    return list(dict.fromkeys(statement.function for statement in statements(text)))


def _statements(
    reader: SessionReader, document: Document, facts: dict[int, LineFacts]
) -> list[Statement]:
    listed = statements("\n".join(lines_of(reader, document)))
    if listed:
        return listed
    whole = SourceFunction("", 0, 0)
    return [Statement(line, line, whole) for line in sorted(facts)]


def _met(listed: Sequence[Statement], facts: dict[int, LineFacts]) -> set[SourceFunction]:
    """Return the functions with a line of which something is known."""
    functions = set()
    for statement in listed:
        if any(number in facts for number in range(statement.first, statement.last + 1)):
            functions.add(statement.function)
    return functions


def _merged(every: Iterable[LineFacts]) -> LineFacts:
    merged = LineFacts()
    nodes: dict[int, model.Node] = {}
    for facts in every:
        nodes |= {node.id: node for node in facts.nodes}
        merged.eager |= facts.eager
        merged.is_traced |= facts.is_traced
    merged.nodes = list(nodes.values())
    return merged


def _compiled(
    reader: SessionReader, statement: Statement, facts: LineFacts, text: str, is_met: bool
) -> CompiledLine:
    graphs = dict.fromkeys(node.graph for node in facts.nodes)
    names = tuple(document_of(reader, "graph", graph).full_title for graph in graphs)
    below = LinkQueries(reader).descendants(node.id for node in facts.nodes)
    kernels = _kernels(reader, below)
    runs = _runs(reader, facts)
    reasons = [*facts.eager]
    if facts.nodes and not kernels:
        reasons.append(_why_no_kernel(reader, facts.nodes, below))
    elif runs == "while compiling":
        reasons.append("Dynamo evaluated it while it traced: no tensor operation")
    elif runs == "not traced":
        reasons.append(NOT_REACHED if is_met else NOT_MET)
    return CompiledLine(
        statement=statement,
        text=text,
        runs=runs,
        operations=Counter(node.target for node in facts.nodes),
        graphs=names,
        kernels=kernels,
        why="; ".join(filter(None, reasons)),
    )


def _runs(reader: SessionReader, facts: LineFacts) -> Runs:
    if facts.nodes:
        return "in graphs and eager" if facts.eager else "in graphs"
    if facts.eager:
        return "eager"
    if facts.is_traced:
        return "while compiling"
    if reader.has(model.TraceAttempt):
        return "not traced"
    return ""


def _kernels(reader: SessionReader, below: frozenset[int]) -> tuple[str, ...]:
    ids: set[int] = set()
    for kernels in kernels_of_each(reader, below).values():
        ids.update(kernels)
    return tuple(dict.fromkeys(kernel.name for kernel in reader.by_ids(model.Kernel, sorted(ids))))


def _why_no_kernel(reader: SessionReader, nodes: Sequence[model.Node], below: Iterable[int]) -> str:
    compilations = {reader.get(model.Graph, node.graph).compilation for node in nodes}
    if not any(reader.count(model.Kernel, compilation=each) for each in compilations):
        return "the session has no kernel of this graph"
    of_last = []
    for node in reader.by_ids(model.Node, sorted(below)):
        is_last = reader.get(model.Graph, node.graph).stage == "post_grad"
        if is_last and node.op.startswith("call"):
            of_last.append(node)
    if of_last and all(node.is_view for node in of_last):
        return "no kernel: a view computes nothing"
    if of_last:
        return "no kernel is known to compute it"
    if not any(reader.users(node.id) for node in nodes):
        return "no kernel: its result is not used, so torch removes it"
    return "no kernel: no operation of it is left after Inductor's passes"


# What is known of the lines of a file.


def _facts_of_file(reader: SessionReader, document: Document) -> dict[int, LineFacts]:
    path = source_paths(reader)[document.id]
    lines: defaultdict[int, LineFacts] = defaultdict(LineFacts)
    _add_nodes(reader, path, document.id, lines)
    _add_breaks(reader, path, lines)
    for tree in call_trees(reader):
        for call in tree.walk():
            _add_calls(call, path, lines)
    _add_traced(reader, document.id, lines)
    _add_eager_parts(reader, document, path, lines)
    return lines


def _add_breaks(reader: SessionReader, path: str, lines: Lines) -> None:
    """Note the graph breaks, and the calls that lead to a break in the function that is called."""
    for graph_break in distinct_breaks(reader):
        reason = f"graph break: {first_line(graph_break.description)}"
        if graph_break.file == path:
            lines[graph_break.line].eager[reason] = None
    for hit in reader.rows(model.GraphBreak):
        callers = reader.by_ids(model.Stack, [hit.chain]) if hit.chain else []
        for frame in callers[0].frames[:-1] if callers else ():
            if frame.file == path:
                name = plain_function(callers[0].frames[-1].function)
                reason = f"its call breaks the graph, in {name}:{hit.line}"
                lines[frame.line].eager[reason] = None


def _add_traced(reader: SessionReader, file: int, lines: Lines) -> None:
    for traced in traced_compilations(reader):
        # Of a function that runs in eager mode in the end, nothing was evaluated for good.
        if traced.root is None or traced.compilation.status in ("skipped", "failed"):
            continue
        inlined = [row for _, row, _ in walk(traced.root) if isinstance(row, TracedFunction)]
        for function in [traced.root, *inlined]:
            if function.file == file:
                for number in function.lines:
                    lines[number].is_traced = True


def _add_nodes(reader: SessionReader, path: str, file: int, lines: dict[int, LineFacts]) -> None:
    used = graphs_in_use(reader)
    stacks: dict[int, set[int]] = {}
    for graph in reader.rows(model.Graph, stage="dynamo"):
        if used is not None and graph.id not in used:
            continue
        nodes = [node for node in reader.nodes(graph) if node.op.startswith("call")]
        unread = {node.stack for node in nodes if node.stack} - stacks.keys()
        for stack in reader.by_ids(model.Stack, sorted(unread)):
            stacks[stack.id] = {frame.line for frame in stack.frames if frame.file == path}
        for node in nodes:
            numbers = set(stacks.get(node.stack, ()))
            if node.file == file:
                numbers.add(node.line)
            for number in numbers:
                lines[number].nodes.append(node)


def _add_calls(call: FunctionCall, path: str, lines: Lines) -> None:
    """Note the functions that Python calls from this one and that are compiled by themselves."""
    if call.file != path:
        return
    for inner in call.calls:
        if inner.called_at and not inner.is_resume and inner.compilations:
            names = ", ".join(f"[{row.name}]" for row in inner.compilations[:3])
            function = plain_function(inner.function)
            text = f"{function} is called in eager mode, and compiled separately: {names}"
            lines[inner.called_at].eager[text] = None


@dataclass(frozen=True, slots=True)
class _EagerPart:
    """A function, or the rest of one, that runs in eager mode."""

    begins: int
    """The line where the function begins; of a rest, the first line of it."""
    is_rest: bool
    reason: str

    def has(self, statement: Statement) -> bool:
        function = statement.function
        if self.is_rest:
            return function.first <= self.begins <= statement.first <= function.last
        return self.begins == function.first


def _add_eager_parts(reader: SessionReader, document: Document, path: str, lines: Lines) -> None:
    """Note the functions, and the rests of functions after a break, that run in eager mode."""
    parts = [part for part in _eager_parts(reader, path) if part.begins]
    if not parts:
        return
    for statement in statements("\n".join(lines_of(reader, document))):
        for part in parts:
            if part.has(statement):
                lines[statement.first].eager[part.reason] = None


def _eager_parts(reader: SessionReader, path: str) -> Iterator[_EagerPart]:
    for fallback in distinct_fallbacks(reader):
        if fallback.file == path:
            reason = f"the function runs in eager mode: {fallback.description}"
            yield _part_of(fallback.function, fallback.line, reason)
    for tree in call_trees(reader):
        for call in tree.walk():
            if call.file == path and call.runs_in_eager:
                reason = f"the whole function runs in eager mode: {why_in_eager_mode(reader, call)}"
                yield _part_of(call.function, call.line, reason.removesuffix(": "))
    for hit in reader.rows(model.GraphBreak):
        (compilation,) = reader.by_ids(model.Compilation, [hit.compilation]) or (None,)
        if hit.skips_rest and compilation and compilation.file == path:
            yield _EagerPart(hit.rest_line, True, cannot_resume(reader, hit))


def why_in_eager_mode(reader: SessionReader, call: FunctionCall) -> str:
    """Return why no part of a function was compiled in the end."""
    last = call.compilations[-1]
    if last.status == "skipped" and call.breaks:
        return cannot_resume(reader, call.breaks[-1])
    return first_line(last.error)


def cannot_resume(reader: SessionReader, hit: model.GraphBreak) -> str:
    """Return after which break torch cannot resume, and why where that is known."""
    if hit.registry_id == BACKEND_FAILED:
        return what_the_backend_raised(hit.reason, f"at {in_file(hit.file, hit.line)}")
    sentence = f"torch cannot resume after the graph break at {in_file(hit.file, hit.line)}"
    reason = why_not_resumed(reader, hit)
    return f"{sentence}: {reason}" if reason else sentence


def _part_of(function: str, line: int, reason: str) -> _EagerPart:
    """Return the part for a function, which may be a resume function."""
    resumed = resumed_at(function)
    if resumed:
        return _EagerPart(resumed + 1, True, reason)
    return _EagerPart(line, False, reason)
