"""The texts of a graph that panes show, each written when it is first looked at and kept while it
is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal
from weakref import WeakKeyDictionary

from fx_explorer import model
from fx_explorer.analysis.graph_code.code import GraphText, graph_code
from fx_explorer.analysis.graph_code.table import graph_table
from fx_explorer.session import SessionReader

GraphForm = Literal["code", "table"]

FORMS: tuple[GraphForm, ...] = ("code", "table")

FORM_TITLES: dict[str, str] = {"code": "as Python", "table": "as a table"}

KEPT = 6
"""Texts of one session that are kept: as many as there are panes that show one."""

_written: WeakKeyDictionary[
    SessionReader, OrderedDict[tuple[GraphForm, model.Graph], GraphText]
] = WeakKeyDictionary()


def graph_text(reader: SessionReader, form: GraphForm, graph_id: int) -> GraphText:
    """Return a graph as code or as a table. A second call for the same graph costs a look-up."""
    graph = reader.get(model.Graph, graph_id)
    kept = _written.setdefault(reader, OrderedDict())
    if (form, graph) not in kept:
        keep(reader, form, graph, write_text(reader, form, graph))
    kept.move_to_end((form, graph))
    return kept[form, graph]


def write_text(reader: SessionReader, form: GraphForm, graph: model.Graph) -> GraphText:
    """Write a graph as code or as a table, whether or not that was done before."""
    return graph_code(reader, graph) if form == "code" else graph_table(reader, graph)


def is_kept(reader: SessionReader, form: GraphForm, graph: model.Graph) -> bool:
    """Return whether ``graph_text`` costs a look-up."""
    return (form, graph) in _written.get(reader, ())


def keep(reader: SessionReader, form: GraphForm, graph: model.Graph, written: GraphText) -> None:
    """Keep a text for ``graph_text`` that was written with another reader of the same session."""
    kept = _written.setdefault(reader, OrderedDict())
    kept[form, graph] = written
    while len(kept) > KEPT:
        kept.popitem(last=False)
