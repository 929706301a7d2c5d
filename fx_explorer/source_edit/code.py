"""This module has ``Code``, a Python file as text and syntax tree at once: it finds a node's place
and name, and edits the text there.

Edits are made in the text, at the offsets that libcst gives: comments, blank lines and everything
else stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

NodeT = TypeVar("NodeT", bound=cst.CSTNode)

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


@dataclass(frozen=True, slots=True)
class Splice:
    """An edit that replaces the text from offset ``start`` to ``stop`` by ``text``."""

    start: int
    stop: int
    text: str


def spliced(text: str, splices: Sequence[Splice]) -> str:
    """Return the text with all splices applied; they must not overlap. Splices at one offset keep
    their order.
    """
    pieces, position = [], 0
    for splice in sorted(splices, key=lambda splice: splice.start):
        pieces += [text[position : splice.start], splice.text]
        position = splice.stop
    return "".join([*pieces, text[position:]])


@lru_cache(maxsize=16)
def parsed(text: str) -> Code:
    """Parse a file. Raises libcst.ParserSyntaxError, and RecursionError for text that would crash
    libcst. It takes some milliseconds per hundred lines, once per text.
    """
    _check_depth(text)
    return Code(text)


LONGEST, MOST_LINES, DEEPEST = 1_000_000, 30_000, 300
"""Maximum number of characters, of lines, and of expressions within each other. libcst recurses in
native code, without a look at the stack: a million empty lines or 3,000 brackets end the process
(libcst 1.8).
"""


def _check_depth(text: str) -> None:
    """Refuse a text that is nested too deeply, by Python's own parser, which has limits."""
    if len(text) > LONGEST or text.count("\n") > MOST_LINES:
        raise RecursionError("too long to be edited")
    try:
        level: list[ast.AST] = [ast.parse(text)]
    except (SyntaxError, ValueError, MemoryError) as error:
        raise RecursionError("not valid Python, or nested too deeply") from error
    for _ in range(DEEPEST):
        children: list[ast.AST] = []
        for node in level:
            children += ast.iter_child_nodes(node)
        level = children
        if not level:
            return
    raise RecursionError("nested too deeply")


class Code:
    def __init__(self, text: str) -> None:
        # The copy would keep a node that occurs twice from being taken for one. What was just
        # parsed has none, and is never changed.
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        metadata = wrapper.resolve_many([PositionProvider, ParentNodeProvider])
        self.text = text
        self.module = wrapper.module
        self._ranges: dict[cst.CSTNode, CodeRange] = dict(
            metadata[PositionProvider]  # type: ignore[arg-type]
        )
        self._parents: dict[cst.CSTNode, cst.CSTNode] = dict(
            metadata[ParentNodeProvider]  # type: ignore[arg-type]
        )
        self._line_starts = [0]
        # Not splitlines(): form feeds and Unicode separators end no line of Python.
        for line in text.split("\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)

    # where things are

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and last line, from 1."""
        where = self._ranges[node]
        return where.start.line, where.end.line

    def first_line(self, node: cst.CSTNode) -> int:
        """Return the first line, decorators included."""
        lines = [self.lines(node)[0]]
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            lines += [self.lines(decorator)[0] for decorator in node.decorators]
        return min(lines)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        where = self._ranges[node]
        return self._offset(where.start.line, where.start.column), self._offset(
            where.end.line, where.end.column
        )

    def line_start(self, line: int) -> int:
        """Return the offset at which a line begins; also for the line after the last one."""
        return min(self._line_starts[line - 1], len(self.text))

    def _offset(self, line: int, column: int) -> int:
        return min(self._line_starts[line - 1] + column, len(self.text))

    def source(self, node: cst.CSTNode) -> str:
        """Return the source text of the node, including its parentheses."""
        return self.module.code_for_node(node).strip()

    def indent(self, node: cst.CSTNode) -> str:
        line = self.text[self.line_start(self.lines(node)[0]) :].partition("\n")[0]
        return line[: len(line) - len(line.lstrip())]

    @property
    def unit(self) -> str:
        """Return one level of indentation."""
        return self.module.default_indent

    @property
    def newline(self) -> str:
        return self.module.default_newline

    def statements_at(self, line: int) -> list[Statement]:
        """List the innermost statements that have a part on the line: of a compound statement only
        its header counts.
        """
        return [
            node for node in self._statements if self._begin(node) <= line <= self._header_end(node)
        ]

    @cached_property
    def _statements(self) -> list[Statement]:
        kinds = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
        return [node for node in self._ranges if isinstance(node, kinds)]

    def _begin(self, node: Statement) -> int:
        return self.lines(node)[0]

    def _header_end(self, node: Statement) -> int:
        if isinstance(node, cst.BaseSmallStatement):
            return self.lines(node)[1]
        body = node.body
        first = body.body[0] if isinstance(body, cst.IndentedBlock) and body.body else body
        return max(self.lines(node)[0], self.lines(first)[0] - 1)

    # what is around

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def around(self, node: cst.CSTNode, kind: type[NodeT]) -> NodeT | None:
        """Return the innermost node of this kind around the node, within its function."""
        for above in self.ancestors(node):
            if isinstance(above, kind):
                return above
            if isinstance(above, cst.FunctionDef | cst.Lambda | cst.ClassDef):
                return None
        return None

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost function around the node; None without one."""
        for above in self.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                return above
        return None

    def top_statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement of the module that holds the node."""
        around = (node, *self.ancestors(node))
        return [above for above in around if not isinstance(above, cst.Module)][-1]

    def siblings(self, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """Return the lines of the block that contains the node, a line or a compound statement."""
        block = self.parent(node)
        if not isinstance(block, cst.IndentedBlock | cst.Module):
            return ()
        return block.body

    def line_of(self, statement: Statement) -> cst.CSTNode | None:
        """Return the line that consists of this statement; None if it shares its line with
        others.
        """
        if isinstance(statement, cst.BaseCompoundStatement):
            return statement if self.siblings(statement) else None
        line = self.parent(statement)
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return None
        return line if self.siblings(line) else None

    # names

    def name_of(self, node: cst.CSTNode) -> str:
        """Return the dotted name as other files import it: ``gb`` after ``from torch._dynamo import
        graph_break as gb`` is ``torch._dynamo.graph_break``. Empty without a name.
        """
        name = get_full_name_for_node(node) if isinstance(node, cst.Name | cst.Attribute) else None
        first, dot, rest = (name or "").partition(".")
        return self.imported.get(first, first) + dot + rest

    @cached_property
    def imported(self) -> dict[str, str]:
        """Name in this file → the imported name: ``np`` → ``numpy``; also in functions and under
        conditions.
        """
        return self._names_imported(self._ranges)

    @cached_property
    def imported_always(self) -> dict[str, str]:
        """Return what ``imported`` returns, for imports at module level only."""
        statements: list[cst.CSTNode] = []
        for line in self.module.body:
            if isinstance(line, cst.SimpleStatementLine):
                statements += line.body
        return self._names_imported(statements)

    def _names_imported(self, nodes: Iterable[cst.CSTNode]) -> dict[str, str]:
        """Return name in this file → the imported name, for the imports among these nodes."""
        names: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, cst.Import):
                for alias in node.names:
                    whole = get_full_name_for_node(alias.name) or ""
                    if alias.evaluated_alias:
                        names[alias.evaluated_alias] = whole
                    else:
                        names[whole.partition(".")[0]] = whole.partition(".")[0]
            elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
                module = "." * len(node.relative)
                if node.module:
                    module += get_full_name_for_node(node.module) or ""
                for alias in node.names:
                    name = alias.evaluated_alias or alias.evaluated_name
                    names[name] = f"{module}.{alias.evaluated_name}"
        return names

    def find(self, node: cst.CSTNode, kind: type[NodeT]) -> list[NodeT]:
        """Return all nodes of this kind in the node, outermost first, except those in the body of a
        compound statement.
        """
        nodes: list[NodeT] = []
        self._find(node, kind, nodes)
        return nodes

    def _find(self, node: cst.CSTNode, kind: type[NodeT], nodes: list[NodeT]) -> None:
        if isinstance(node, kind):
            nodes.append(node)
        for child in node.children:
            if not isinstance(child, cst.BaseSuite | cst.Else | cst.ExceptHandler | cst.Finally):
                self._find(child, kind, nodes)

    def all(self, kind: type[NodeT]) -> list[NodeT]:
        return [node for node in self._ranges if isinstance(node, kind)]

    def functions_named(self, name: str) -> list[cst.FunctionDef]:
        return [node for node in self.all(cst.FunctionDef) if node.name.value == name]
