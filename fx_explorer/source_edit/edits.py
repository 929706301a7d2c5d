"""This module edits a file's text: a statement is removed, wrapped or replaced, a line is inserted
before it, an import is added. It also finds the whole statements on selected lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from fx_explorer.errors import UsageError
from fx_explorer.source_edit.code import Code, Splice, Statement, parsed


def replaced(code: Code, node: cst.CSTNode, text: str) -> Splice:
    return Splice(*code.span(node), text)


def removed(code: Code, statement: Statement) -> Splice:
    """Remove a statement: whole lines when it has them for itself; ``pass`` takes its place where
    its block would be empty.
    """
    line = code.line_of(statement)
    if line is None:
        return _removed_from_line(code, statement)
    if len(code.siblings(line)) == 1 and not isinstance(code.parent(line), cst.Module):
        return replaced(code, statement, "pass")
    return Splice(*_whole_lines(code, line), "")


def _removed_from_line(code: Code, statement: Statement) -> Splice:
    """Remove a statement from a line that others share: ``a; b`` → ``a``."""
    line = code.parent(statement)
    if (
        not isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite)
        or len(line.body) == 1
    ):
        return replaced(code, statement, "pass")
    position = list(line.body).index(statement)  # type: ignore[arg-type]
    start, stop = code.span(statement)
    if position + 1 < len(line.body):
        return Splice(start, code.span(line.body[position + 1])[0], "")
    return Splice(code.span(line.body[position - 1])[1], stop, "")


def rewritten(code: Code, line: cst.CSTNode, text: str) -> Splice:
    """Replace a whole statement with ``text``, whose lines are indented as they are to be within
    its block.
    """
    indent = code.indent(line)
    start, stop = _whole_lines(code, line)
    lines = [f"{indent}{written}\n" if written else "\n" for written in text.split("\n")]
    return Splice(start, stop, "".join(lines))


def wrapped(code: Code, header: str, *lines: cst.CSTNode) -> list[Splice]:
    """Put consecutive statements of a block one level deeper, under ``header``."""
    start = code.line_start(code.first_line(lines[0]))
    splices = [Splice(start, start, f"{code.indent(lines[0])}{header}{code.newline}")]
    for line in lines:
        splices += shifted(code, line, code.first_line(line), code.lines(line)[1])
    return splices


def shifted(code: Code, node: cst.CSTNode, first: int, last: int) -> list[Splice]:
    """Move these lines one level deeper, except those that begin inside a string."""
    fixed = _lines_in_strings(code, node)
    lines = [
        line for line in range(first, last + 1) if line not in fixed and _text(code, line).strip()
    ]
    return [Splice(code.line_start(line), code.line_start(line), code.unit) for line in lines]


def unwrapped(code: Code, compound: Statement, body: cst.BaseSuite) -> str:
    """Return the text of ``body`` one level higher, in place of the compound statement; empty if it
    cannot be moved.
    """
    if not isinstance(body, cst.IndentedBlock) or not body.body:
        return ""
    outer, inner = code.indent(compound), code.indent(body.body[0])
    fixed = _lines_in_strings(code, body)
    comments = getattr(body.body[0], "leading_lines", ())
    first, last = code.first_line(body.body[0]) - len(comments), code.lines(body.body[-1])[1]
    lines = []
    for line in range(first, last + 1):
        text = _text(code, line)
        if line not in fixed and text.startswith(inner):
            text = outer + text.removeprefix(inner)
        lines.append(text)
    return "\n".join(lines) + "\n"


def indented(indent: str, lines: Iterable[str]) -> list[str]:
    """Return lines of text behind an indentation; an empty line stays empty."""
    behind = []
    for line in lines:
        if line:
            behind.append(f"{indent}{line}")
        else:
            behind.append("")
    return behind


def in_place_of(code: Code, line: cst.CSTNode, text: str) -> Splice:
    """Put ``text``, whose lines are indented already, in place of the lines of a statement."""
    return Splice(*_whole_lines(code, line), text)


def at_module_level(code: Code, node: cst.CSTNode, text: str) -> Splice:
    """Put ``text`` before the function or class of the module that holds the node."""
    top = code.top_statement(node)
    start = code.line_start(code.first_line(top))
    return Splice(start, start, f"{text}\n\n\n")


def after_imports(code: Code, text: str) -> Splice:
    """Put ``text`` as a line below the imports at the head of the file."""
    offset = code.line_start(_import_line(code) + 1)
    # A file of nothing but imports may lack the end of its last line.
    newline = "" if offset == 0 or code.text[offset - 1] == "\n" else "\n"
    return Splice(offset, offset, f"{newline}\n{text}\n")


def imports(code: Code, *modules: str) -> list[Splice]:
    """Add missing lines of ``import MODULE``."""
    missing = [name for name in modules if code.imported_always.get(name) != name]
    return _added_imports(code, [f"import {name}" for name in missing])


def imported_as(code: Code, module: str, name: str) -> list[Splice]:
    """Add ``import MODULE as NAME`` where that is missing."""
    if code.imported_always.get(name) == module:
        return _added_imports(code, [])
    return _added_imports(code, [f"import {module} as {name}"])


def _added_imports(code: Code, lines: list[str]) -> list[Splice]:
    if not lines:
        return []
    offset = code.line_start(_import_line(code) + 1)
    if offset == 0 or code.text[offset - 1] == "\n":
        newline = ""
    else:
        newline = code.newline
    return [Splice(offset, offset, newline + "".join(f"{line}{code.newline}" for line in lines))]


def _import_line(code: Code) -> int:
    """Return the last line of the docstring and the imports that follow each other at the head of
    the file.
    """
    line = 0
    for position, statement in enumerate(code.module.body):
        if isinstance(statement, cst.SimpleStatementLine):
            small = statement.body[0]
        else:
            small = None
        is_docstring = (
            position == 0
            and isinstance(small, cst.Expr)
            and isinstance(small.value, cst.BaseString)
        )
        if not is_docstring and not isinstance(small, cst.Import | cst.ImportFrom):
            break
        line = code.lines(statement)[1]
    return line


def _whole_lines(code: Code, line: cst.CSTNode) -> tuple[int, int]:
    return code.line_start(code.first_line(line)), code.line_start(code.lines(line)[1] + 1)


def _text(code: Code, line: int) -> str:
    return code.text[code.line_start(line) : code.line_start(line + 1)].rstrip("\n")


def _lines_in_strings(code: Code, node: cst.CSTNode) -> set[int]:
    lines: set[int] = set()
    for inner in _all_in(node):
        if isinstance(inner, cst.SimpleString | cst.FormattedString):
            first, last = code.lines(inner)
            lines.update(range(first + 1, last + 1))
    return lines


def _all_in(node: cst.CSTNode) -> list[cst.CSTNode]:
    nodes = [node]
    for child in node.children:
        nodes += _all_in(child)
    return nodes


_Blocks = (
    cst.BaseSuite
    | cst.Else
    | cst.Finally
    | cst.ExceptHandler
    | cst.ExceptStarHandler
    | cst.MatchCase
    | cst.If
)


def code_of(source: str, path: str) -> Code:
    """Parse a source. Raises UsageError if it cannot be parsed."""
    try:
        return parsed(source)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be parsed ({error.__cause__ or error}): fix it first."
        ) from error


def whole_statements(source: str, path: str, first: int, last: int) -> tuple[int, int]:
    """Return the lines of the statements that these lines touch. Raises UsageError when they are in
    no function, or in several.
    """
    code = code_of(source, path)
    function = _function(code, f"lines {first} to {last} of {path}", first, last)
    touched = _innermost(code, _statements(function.body), first, last)
    if not touched:
        return first, last
    return code.first_line(touched[0]), code.lines(touched[-1])[1]


def statements_on(code: Code, path: str, first: int, last: int) -> Sequence[cst.CSTNode]:
    """Return the statements on these lines, all in one block. Raises UsageError if the lines cut
    through a statement, are not in one function, or also contain other statements.
    """
    where = f"lines {first} to {last} of {path}"
    function = _function(code, where, first, last)
    if isinstance(function.body, cst.SimpleStatementSuite):
        raise UsageError(
            f"{where} share a line with another statement: put that statement on its own line."
        )
    touched = _innermost(code, _statements(function.body), first, last)
    if not touched:
        raise UsageError(f"{where} contain no statement: choose lines that compute something.")
    for node in touched:
        if not _holds(first, last, code, node):
            begin, end = code.first_line(node), code.lines(node)[1]
            raise UsageError(
                f"{where} include only part of the statement on lines {begin} to {end}. Choose "
                "all its lines, or whole statements inside it."
            )
    return touched


def _function(code: Code, where: str, first: int, last: int) -> cst.FunctionDef:
    """Return the innermost function that holds the lines."""
    functions = [
        function for function in code.all(cst.FunctionDef) if _overlaps(code, function, first, last)
    ]
    holding = []
    for function in functions:
        first_inside = code.first_line(function.body.body[0])
        if first_inside <= first and last <= code.lines(function)[1]:
            holding.append(function)
    if not holding:
        crossed = ", ".join(function.name.value for function in functions)
        if functions:
            reason = f"extend beyond {crossed}"
        else:
            reason = "are in no function"
        raise UsageError(
            f"{where} {reason}: a region consists of whole statements within one function. Choose "
            "other lines."
        )
    return max(holding, key=lambda function: code.lines(function)[0])


def _innermost(
    code: Code, block: Sequence[cst.CSTNode], first: int, last: int
) -> Sequence[cst.CSTNode]:
    """Return the statements that the lines touch, in the innermost block that has them all."""
    touched = [node for node in block if _overlaps(code, node, first, last)]
    if len(touched) == 1 and not _holds(first, last, code, touched[0]):
        inner = []
        for block in _blocks(touched[0]):
            begin, end = code.first_line(block[0]), code.lines(block[-1])[1]
            if begin <= last and first <= end:
                inner.append(block)
        if len(inner) == 1 and code.first_line(inner[0][0]) <= first:
            return _innermost(code, inner[0], first, last)
    return touched


def _blocks(statement: cst.CSTNode) -> list[Sequence[cst.CSTNode]]:
    """Return the blocks of a compound statement, including its ``elif`` and ``else``; not of
    functions and classes.
    """
    if isinstance(statement, cst.FunctionDef | cst.ClassDef):
        return []
    blocks: list[Sequence[cst.CSTNode]] = []
    for child in statement.children:
        if isinstance(child, cst.BaseSuite):
            statements = _statements(child)
            if statements:
                blocks.append(statements)
        elif isinstance(child, _Blocks):
            blocks += _blocks(child)
    return blocks


def _statements(body: cst.BaseSuite) -> Sequence[cst.CSTNode]:
    if not isinstance(body, cst.IndentedBlock):
        return ()
    return body.body


def _overlaps(code: Code, node: cst.CSTNode, first: int, last: int) -> bool:
    return code.first_line(node) <= last and first <= code.lines(node)[1]


def _holds(first: int, last: int, code: Code, node: cst.CSTNode) -> bool:
    return first <= code.first_line(node) and code.lines(node)[1] <= last
