"""View v d: what Dynamo did at each line of each compiled function, as a tree of calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, lines_of, place_of_path, place_of_source
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, how_often, listed
from fx_explorer.drawing.view_table import (
    Detail,
    TableColumn,
    TableRow,
    Tree,
    ViewTable,
    folded_to_fit,
)
from fx_explorer.instruments.passes.figures import names_of_users
from fx_explorer.instruments.trace.figures import (
    TracedCompilation,
    TracedFunction,
    TracedLine,
    resumed_by,
    traced_compilations,
    walk,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import check_count

COLUMNS = (
    TableColumn("function, line", "strong", min_width=24, max_width=64),
    TableColumn("what Dynamo did", min_width=20, max_width=90),
    TableColumn("nodes", is_number=True, min_width=5, priority=1),
    TableColumn("guards", is_number=True, min_width=6, priority=2),
    TableColumn("your line", "link", min_width=12, keeps="end", priority=3),
)

MOST_ROWS = 8_000
"""Maximum number of rows of a compilation: a table may have 10,000 (drawing/view_table.py)."""

ROWS_AT_FIRST = 40
MOST_NAMES = 6

NOT_IN_LOG = (
    "A log does not have Dynamo's line-by-line trace, unless TORCH_LOGS=trace_source was on; then "
    "it is in the log's own text."
)
NOTHING_TRACED = "Dynamo traced no function here."


def trace_table(reader: SessionReader) -> ViewTable:
    traced = traced_compilations(reader)
    lines = _Lines(reader)
    for compilation in traced:
        lines.add_compilation(compilation)
    return ViewTable(
        shows="Dynamo's work at each line, in trace order: calls that it inlined, nodes, guards, "
        "graph breaks.",
        notice="",
        origin="Dynamo itself, observed while it traced (InstructionTranslator)",
        columns=COLUMNS,
        rows=lines.rows,
        empty=why_empty(reader),
        tree=lines.tree(),
        answer=_answer(reader, traced),
    )


def missing_hook(reader: SessionReader) -> str:
    """Return why nothing, or no instruction, of Dynamo's trace could be recorded in this release of
    torch; empty where all was.
    """
    for failure in reader.rows(model.Failure, kind="unavailable"):
        if failure.message.startswith("Dynamo's trace"):
            return failure.message
    return ""


def why_empty(reader: SessionReader) -> str:
    """Return why there is no trace."""
    if is_log(reader):
        return NOT_IN_LOG
    return missing_hook(reader) or NOTHING_TRACED


def _answer(reader: SessionReader, traced: Sequence[TracedCompilation]) -> str:
    if not traced:
        return ""
    functions = calls = nodes = guards = again = 0
    for compilation in traced:
        functions += 1
        again += len(compilation.attempts) - 1
        nodes += compilation.attempts[-1].nodes
        guards += compilation.attempts[-1].guards
        if compilation.root:
            rows = walk(compilation.root)
            calls += sum(row.times for _, row, _ in rows if isinstance(row, TracedFunction))
    text = (
        f"Dynamo traced {counted(functions, 'function')}, inlined {counted(calls, 'call')} and "
        f"made {counted(nodes, 'node')}"
    )
    checks = check_count(reader)
    if guards and checks:
        made = counted(guards, "guard")
        text += f"; torch runs {counted(checks, 'check')} for the {made} it made (5)"
    if again:
        return f"{text}; it restarted {counted(again, 'time')}."
    return f"{text}."


@dataclass(frozen=True, slots=True)
class _File:
    """A source file, read once for all rows that name a line of it."""

    path: str
    document: Document | None
    """None where its text is not in the session."""
    lines: list[str]

    def place(self, line: int) -> Place | None:
        return Place(self.document, max(0, line - 1)) if self.document else None

    def code(self, line: int) -> str:
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""


_NO_FILE = _File("", None, [])


class _Lines:
    """The rows of the table, and their places in the tree."""

    def __init__(self, reader: SessionReader) -> None:
        self.rows: list[TableRow] = []
        self._reader = reader
        self._depths: list[int] = []
        self._keys: list[str] = []
        self._names: list[str] = []
        self._version = ""
        self._names_of_users: dict[str, str] = {}
        self._files: dict[int, _File] = {0: _NO_FILE}

    def tree(self) -> Tree | None:
        if not self.rows:
            return None
        folded = folded_to_fit(self._depths, frozenset(), ROWS_AT_FIRST)
        return Tree(self._depths, self._keys, self._names, folded, lambda rows: "")

    def add_compilation(self, traced: TracedCompilation) -> None:
        compilation = traced.compilation
        self._version = compilation.name
        self._names_of_users = names_of_users(self._reader, compilation.id)
        name = f"[{compilation.name}] {plain_function(compilation.function)}"
        last = traced.attempts[-1]
        place = place_of_path(self._reader, compilation.file, compilation.line)
        where = in_file(compilation.file, compilation.line) if compilation.file else ""
        cells = (name, describe_attempts(traced.attempts), f"{last.nodes:,}", f"{last.guards:,}")
        self._add(0, name, cells, where, place, describe_outcome(traced.attempts))
        if traced.root is None:
            return
        shown = 0
        for depth, row, function in walk(traced.root):
            if isinstance(row, TracedLine) and is_idle(row, function):
                continue
            shown += 1
            if shown <= MOST_ROWS:
                self._add_row(depth + 1, row, function)
        if shown > MOST_ROWS:
            more = counted(shown - MOST_ROWS, "more row")
            self._add(1, more, (more, "ask … trace LINE shows the full ones", "", ""), "", None, "")
        self._add_rest(compilation)

    def _add_row(
        self, depth: int, row: TracedFunction | TracedLine, function: TracedFunction
    ) -> None:
        if isinstance(row, TracedFunction):
            name = plain_function(row.function)
            what = describe_call(row)
            file, line = self._file(row.file), row.first_line
        else:
            file, line = self._file(function.file), row.line
            name = f"{line}  {file.code(line)}"
            what = describe_line(row, self._names_of_users)
        cells = (name, what, _number(row.nodes), _number(row.guards))
        where = in_file(file.path, line) if file.path else ""
        self._add(depth, name, cells, where, file.place(line), _detail(row, self._names_of_users))

    def _add_rest(self, compilation: model.Compilation) -> None:
        """Add what runs in eager mode where the graph ends, and how the function continues."""
        for graph_break in self._reader.rows(model.GraphBreak, compilation=compilation.id):
            name = graph_break.code.strip() or f"line {graph_break.line}"
            cells = (name, f"runs in eager mode: {graph_break.reason}", "", "")
            place = place_of_path(self._reader, graph_break.file, graph_break.line)
            where = in_file(graph_break.file, graph_break.line)
            self._add(1, name, cells, where, place, graph_break.explanation)
        for resumed, owner in resumed_by(self._reader, compilation.id):
            name = f"then from line {resumed.line}"
            what = "resume function" + (f", traced as [{owner}]" if owner else ", not traced")
            place = place_of_path(self._reader, compilation.file, resumed.line)
            self._add(1, name, (name, what, "", ""), "", place, _RESUMED)

    def _file(self, number: int) -> _File:
        known = self._files.get(number)
        if known is None:
            row = self._reader.get(model.SourceFile, number)
            place = place_of_source(self._reader, number, 1)
            document = place.document if place else None
            lines = lines_of(self._reader, document) if document else []
            known = self._files[number] = _File(row.path, document, lines)
        return known

    def _add(
        self,
        depth: int,
        name: str,
        cells: tuple[str, ...],
        where: str,
        place: Place | None,
        detail: str,
    ) -> None:
        shown_detail = partial(Detail, detail) if detail else None
        row = TableRow((*cells, where), place, shown_detail, version=self._version)
        self.rows.append(row)
        self._depths.append(depth)
        self._keys.append(f"{self._version} {len(self._keys)} {name}")
        self._names.append(name)


_RESUMED = "Dynamo makes a function of the rest, and traces it when Python reaches it."


def is_idle(line: TracedLine, function: TracedFunction) -> bool:
    """Return whether nothing happened at a line that is no step of the function's own: its
    definition, or the line at which a generator continues.
    """
    is_entry = line.line == function.first_line or not line.times
    return is_entry and not (line.nodes or line.guards or line.events or line.calls)


def describe_attempts(attempts: Sequence[model.TraceAttempt]) -> str:
    """Return how often a function was traced, and why again."""
    last = attempts[-1]
    if last.ended == "failed":
        return f"not compiled: {last.reason}"
    if len(attempts) == 1:
        return "traced"
    reasons = list(dict.fromkeys(row.reason for row in attempts[:-1]))
    return f"traced {how_often(len(attempts))}: {listed(reasons, 2)}"


def describe_outcome(attempts: Sequence[model.TraceAttempt]) -> str:
    """Return a sentence for each attempt that was discarded, and for what is left out."""
    sentences = []
    for row in attempts:
        if row.ended == "restarted":
            sentences.append(
                f"Attempt {row.attempt} was discarded, with {counted(row.nodes, 'node')} and "
                f"{counted(row.guards, 'guard')}, and Dynamo restarted: {row.reason}."
            )
        if row.left_out:
            sentences.append(
                f"In attempt {row.attempt}, {counted(row.left_out, 'step')} beyond the limit of "
                "the session were not recorded."
            )
    return "\n".join(sentences)


def describe_call(call: TracedFunction) -> str:
    """Return how a call was traced."""
    words = "inlined"
    if not call.has_lines:
        words += ", from a library"
    if "yielded" in call.ended:
        words = "generator, inlined"
    if call.times > 1:
        words += f" {call.times:,} times"
    if call.module:
        words += f" for {call.module}"
    if "raised" in call.ended:
        words += "; raised an exception"
    return words


def describe_line(line: TracedLine, names: Mapping[str, str]) -> str:
    """Return what was added at a line, and what happened there. ``names``: torch's name of a node
    → the user's.
    """
    parts = list(dict.fromkeys(line.events))
    added = _in_users_words(line.node_names, names)
    if added:
        parts.append(f"adds {listed(added, MOST_NAMES)}")
    if line.times > 1:
        parts.append(f"{line.times:,} times")
    return "; ".join(parts)


_OF_TORCH = re.compile(r"(?:s|u|zf|zuf|zs)\d+|[A-Z]_\w+|[lg]_(?:self|model)_\w*")
"""Names that torch makes for sizes and for what it passes in."""


def _in_users_words(nodes: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return the names of nodes as the user has them, without those that only torch has."""
    shown = []
    for node in nodes:
        name = names.get(node, node)
        if not _OF_TORCH.fullmatch(name):
            shown.append(re.sub(r"^getitem_\d+$", "getitem", name))
    return shown


def _detail(row: TracedFunction | TracedLine, names: Mapping[str, str]) -> str:
    parts = [f"{counted(row.nodes, 'node')} and {counted(row.guards, 'guard')} were added here."]
    if isinstance(row, TracedLine):
        parts += row.events
        added = _in_users_words(row.node_names, names)
        if added:
            parts.append(f"Nodes: {', '.join(added)}.")
    return "\n".join(parts)


def _number(count: int) -> str:
    return f"{count:,}" if count else ""
