"""This module writes a recorded graph as text for a pane: as Python, or as FX's own table
(``gm.graph.print_tabular()``). A text is written when it is first needed; the latest six of a
session are cached (``KEPT``).
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, TypeGuard
from weakref import WeakKeyDictionary

from fx_explorer import model
from fx_explorer.analysis.graph_expressions import DEVICE, QUOTED
from fx_explorer.analysis.graph_python import GraphText, graph_code
from fx_explorer.analysis.plugin_panes import (
    PluginForm,
    is_plugin_form,
    plugin_form_title,
    plugin_forms,
    write_plugin_text,
)
from fx_explorer.analysis.words import value_text
from fx_explorer.highlight import printable
from fx_explorer.output.table import Column
from fx_explorer.session import SessionReader

COLUMNS = (
    Column("opcode", priority=1),
    Column("name", narrowing="cut", least=22),
    Column("target", narrowing="cut", least=16),
    Column("args", narrowing="cut", least=16),
    Column("kwargs", narrowing="cut", least=10, priority=2),
    Column("value", narrowing="cut", least=14),
)

WIDEST = 60
"""Maximum width to which a column is padded, in cells. A longer text sticks out, and the others
stay in line.
"""


def graph_table(reader: SessionReader, graph: model.Graph) -> GraphText:
    nodes = reader.nodes(graph)
    rows = [tuple(map(printable, table_row(node))) for node in nodes]
    titles = [column.title for column in COLUMNS]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(titles, *rows, strict=True)]
    lines = [_line(titles, widths), _line(["-" * width for width in widths], widths)]
    lines += [_line(row, widths) for row in rows]
    return GraphText(tuple(lines), {i + 2: node.id for i, node in enumerate(nodes)})


def table_row(node: model.Node) -> tuple[str, ...]:
    """Return the cells of a node, in the order of COLUMNS."""
    positional, named = split_arguments(node.arguments)
    return node.op, node.name, node.target, positional, named, value_text(node)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def split_arguments(text: str) -> tuple[str, str]:
    """Return ``(x, 0.5)`` and ``{'memory_format': torch.contiguous_format}`` for the arguments of a
    node, with devices as torch prints them; the text unchanged if it is not Python.
    """
    if not text:
        return "()", "{}"
    kept: list[str] = []
    try:
        call = ast.parse(f"f({_as_python(text, kept)}\n)", mode="eval").body
        if not isinstance(call, ast.Call):
            return f"({text})", "{}"
        positional = ", ".join(map(ast.unparse, call.args))
        named = ", ".join(f"{keyword.arg!r}: {_named(keyword)}" for keyword in call.keywords)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"({text})", "{}"
    args, kwargs = f"({positional}{',' * (len(call.args) == 1)})", f"{{{named}}}"
    return _put_back(args, kept), _put_back(kwargs, kept)


_NO_PYTHON = re.compile(rf"""{QUOTED}|\b({DEVICE}):(\d+)\b|(<OpOverload\([^<>]*\)>)""")
_KEPT = re.compile(r"\b_kept_(\d+)_\b")


def _as_python(text: str, kept: list[str]) -> str:
    """Return the arguments with operators, and devices with a number, replaced by names, which are
    added to ``kept``.
    """

    def name(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        kept.append(match[4] or f"device(type={match[2]!r}, index={match[3]})")
        return f"_kept_{len(kept) - 1}_"

    return _NO_PYTHON.sub(name, text)


def _put_back(text: str, kept: list[str]) -> str:
    def original(match: re.Match[str]) -> str:
        number = int(match[1])
        return kept[number] if number < len(kept) else match[0]

    return _KEPT.sub(original, text)


def _named(keyword: ast.keyword) -> str:
    written = ast.unparse(keyword.value)
    if keyword.arg == "device" and re.fullmatch(DEVICE, written):
        return f"device(type={written!r})"
    return written


GraphForm = Literal["code", "table"] | PluginForm

FORMS: tuple[GraphForm, ...] = ("code", "table")

_TITLES: dict[str, str] = {"code": "as Python", "table": "as a table"}


def forms_of(stage: model.Stage | None) -> list[GraphForm]:
    """Return the forms of text that the graphs of a stage have, those of plug-ins last."""
    return [*FORMS, *plugin_forms(stage)]


def is_form(kind: str) -> TypeGuard[GraphForm]:
    """Return whether a kind of document is a text of a graph."""
    return kind in FORMS or is_plugin_form(kind)


def form_title(form: str) -> str:
    """Return what a form is: ``as Python``; empty for what is no form of a graph."""
    if is_plugin_form(form):
        return plugin_form_title(form)
    return _TITLES.get(form, "")


KEPT = 6
"""Number of texts of one session that are cached: as many as panes can show."""

_written: WeakKeyDictionary[
    SessionReader, OrderedDict[tuple[GraphForm, model.Graph], GraphText]
] = WeakKeyDictionary()


def graph_text(reader: SessionReader, form: GraphForm, graph_id: int) -> GraphText:
    """Return a graph as code, as a table or as a plug-in writes it. A second call for the same
    graph costs a look-up.
    """
    graph = reader.get(model.Graph, graph_id)
    kept = _written.setdefault(reader, OrderedDict())
    if (form, graph) not in kept:
        keep(reader, form, graph, write_text(reader, form, graph))
    kept.move_to_end((form, graph))
    return kept[form, graph]


def write_text(reader: SessionReader, form: GraphForm, graph: model.Graph) -> GraphText:
    """Write a graph in a form, whether or not that was done before."""
    if form == "code":
        return graph_code(reader, graph)
    if form == "table":
        return graph_table(reader, graph)
    return write_plugin_text(reader, form, graph)


def is_kept(reader: SessionReader, form: GraphForm, graph: model.Graph) -> bool:
    """Return whether the text of a graph is written already, so that ``graph_text`` looks it up."""
    return (form, graph) in _written.get(reader, ())


def keep(reader: SessionReader, form: GraphForm, graph: model.Graph, written: GraphText) -> None:
    """Cache a text for ``graph_text`` that was written with another reader of the same session."""
    kept = _written.setdefault(reader, OrderedDict())
    kept[form, graph] = written
    while len(kept) > KEPT:
        kept.popitem(last=False)
