"""This module finds which whole statements some lines of a file are: what a user selects is lines,
and what can be edited is statements.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fx_explorer.errors import UsageError
from fx_explorer.source_edit.code import Code, parsed

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
    """Parse a source. Raises UsageError for what cannot be parsed."""
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
    """Return the statements that these lines are, all of one block. Raises UsageError when the
    lines cut through one, are not in one function, or share a line with what is not chosen.
    """
    where = f"lines {first} to {last} of {path}"
    function = _function(code, where, first, last)
    if isinstance(function.body, cst.SimpleStatementSuite):
        raise UsageError(f"{where} share a line with another statement: put it on one of its own.")
    touched = _innermost(code, _statements(function.body), first, last)
    if not touched:
        raise UsageError(f"{where} hold no statement: choose lines that compute something.")
    for node in touched:
        if not _holds(first, last, code, node):
            begin, end = code.first_line(node), code.lines(node)[1]
            raise UsageError(
                f"{where} cut the statement on lines {begin} to {end}. Choose all its lines, or "
                "whole statements inside it."
            )
    return touched


def _function(code: Code, where: str, first: int, last: int) -> cst.FunctionDef:
    """Return the innermost function that holds the lines."""
    functions = [
        function for function in code.all(cst.FunctionDef) if _overlaps(code, function, first, last)
    ]
    holding = [
        function
        for function in functions
        if code.first_line(function.body.body[0]) <= first and last <= code.lines(function)[1]
    ]
    if not holding:
        crossed = ", ".join(function.name.value for function in functions)
        reason = f"reach over the edge of {crossed}" if functions else "are in no function"
        raise UsageError(
            f"{where} {reason}: a region is made of whole statements within one function. "
            "Choose other lines."
        )
    return max(holding, key=lambda function: code.lines(function)[0])


def _innermost(
    code: Code, block: Sequence[cst.CSTNode], first: int, last: int
) -> Sequence[cst.CSTNode]:
    """Return the statements that the lines touch, in the innermost block that has them all."""
    touched = [node for node in block if _overlaps(code, node, first, last)]
    if len(touched) == 1 and not _holds(first, last, code, touched[0]):
        inner = [
            block
            for block in _blocks(touched[0])
            if code.first_line(block[0]) <= last and first <= code.lines(block[-1])[1]
        ]
        if len(inner) == 1 and code.first_line(inner[0][0]) <= first:
            return _innermost(code, inner[0], first, last)
    return touched


def _blocks(statement: cst.CSTNode) -> list[Sequence[cst.CSTNode]]:
    """Return the blocks of a compound statement, those of its ``elif`` and ``else`` among them; not
    of functions and classes.
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
