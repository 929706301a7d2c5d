"""A graph as FX's own table (``gm.graph.print_tabular()``): opcode, name, target, args, kwargs; and what each node gives."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.graph_code.code import GraphText
from fx_explorer.analysis.nodes import value_text
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader

COLUMNS = ("opcode", "name", "target", "args", "kwargs", "value")

WIDEST = 60
"""Cells that a column is padded to at most: a longer text sticks out, and the others stay in line."""


def graph_table(reader: SessionReader, graph: model.Graph) -> GraphText:
    nodes = reader.nodes(graph)
    rows = [tuple(map(printable, _row(node))) for node in nodes]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(COLUMNS, *rows, strict=True)]
    lines = [_line(COLUMNS, widths), _line(["-" * width for width in widths], widths)]
    lines += [_line(row, widths) for row in rows]
    return GraphText(tuple(lines), {i + 2: node.id for i, node in enumerate(nodes)})


def _row(node: model.Node) -> tuple[str, ...]:
    positional, named = split_arguments(node.arguments)
    return node.op, node.name, node.target, positional, named, value_text(node)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def split_arguments(text: str) -> tuple[str, str]:
    """Return ``(x, 0.5)`` and ``{'memory_format': torch.contiguous_format}`` for the arguments of a node; the text as it is
    where it is no Python.
    """
    if not text:
        return "()", "{}"
    try:
        call = ast.parse(f"f({text}\n)", mode="eval").body
        if not isinstance(call, ast.Call):
            return f"({text})", "{}"
        positional = ", ".join(map(ast.unparse, call.args))
        named = ", ".join(f"{one.arg!r}: {ast.unparse(one.value)}" for one in call.keywords)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"({text})", "{}"
    return f"({positional}{',' * (len(call.args) == 1)})", f"{{{named}}}"
