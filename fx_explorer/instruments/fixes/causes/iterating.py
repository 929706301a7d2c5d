"""Generators that torch cannot leave in the middle, and iterators it cannot go through."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice
from fx_explorer.source_edit.edits import replaced
from fx_explorer.source_edit.names import new_name


def fixes_of_generators(reader: SessionReader, broken: DistinctBreak, stack: list[Site]) -> Iterator[Fix]:
    for site in stack:
        for statement in site.statements:
            function = site.code.function(statement)
            if function is not None:
                yield from _as_list(site, function)


def _as_list(site: Site, function: cst.FunctionDef) -> Iterator[Fix]:
    splices = _collecting(site.code, function)
    if splices:
        yield site.edit(
            f"let {function.name.value}() return a list",
            "torch can end a graph in a function that returns, but not in a generator "
            "that waits in the middle.",
            splices,
            "All values are made before the first is used; next() and send() no longer "
            "work on the result.",
        )


def _collecting(code: Code, function: cst.FunctionDef) -> list[Splice]:
    """Turn ``yield value`` into ``values.append(value)``; empty for a function that is no
    generator, or is sent values.
    """
    yields = [node for node in _own_nodes(function.body) if isinstance(node, cst.Yield)]
    body = function.body.body if isinstance(function.body, cst.IndentedBlock) else ()
    returns = [node for node in _own_nodes(function.body) if isinstance(node, cst.Return)]
    is_plain = (
        all(isinstance(code.parent(node), cst.Expr) for node in yields) and not function.decorators
    )
    # A ``return`` would have to give the list, too; and a decorator such as ``contextmanager``
    # needs a generator.
    if returns or not (yields and body and is_plain):
        return []
    name = new_name(code, "values")
    first, last = code.lines(body[0])[0], code.lines(body[-1])[1]
    indent = code.indent(body[0])
    begin, end = code.line_start(first), code.line_start(last + 1)
    # The last line of a file may have no end.
    newline = "" if code.text[end - 1 : end] == "\n" else "\n"
    return [
        Splice(begin, begin, f"{indent}{name} = []\n"),
        *(replaced(code, node, _collected(code, node, name)) for node in yields),
        Splice(end, end, f"{newline}{indent}return {name}\n"),
    ]


def _collected(code: Code, node: cst.Yield, name: str) -> str:
    if isinstance(node.value, cst.From):
        return f"{name}.extend({code.source(node.value.item)})"
    return f"{name}.append({code.source(node.value) if node.value else 'None'})"


def _own_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes inside, except those of functions that are defined there."""
    yield node
    for child in node.children:
        if not isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            yield from _own_nodes(child)
