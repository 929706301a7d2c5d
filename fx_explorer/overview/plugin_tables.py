"""This module makes the tables of plug-ins (``plugins.View``, ``plugins.Section``) as the app and
reports show them. A plug-in that fails has a table without rows, which says what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_node, place_of_path
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.outside_file import shown_value
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.plugin_loading import (
    InstalledPlugin,
    Plugin,
    PluginFault,
    attempt,
    plugins_of,
)
from fx_explorer.plugins import Column, Row, Section, Table, View
from fx_explorer.session import SessionReader

MOST_ROWS = 100_000
"""Maximum number of rows of a plug-in's table."""

RESERVED = ("overview", "findings", "source", "candidates", *TABLES)
"""Names of our own views and sections, which no plug-in can have."""


@dataclass(frozen=True, slots=True)
class PluginTable:
    """A view or section that a plug-in adds."""

    name: str
    title: str
    shows: str
    plugin: InstalledPlugin
    make: Callable[[SessionReader], Table]

    def table(self, reader: SessionReader) -> ViewTable:
        """Return the table of a session; one that says what happened if the plug-in fails."""
        table = attempt(self.plugin, partial(self._checked_table, reader))
        if isinstance(table, PluginFault):
            return _failed_table(self.shows, table)
        return table

    def _checked_table(self, reader: SessionReader) -> ViewTable:
        return view_table(self.shows, self.make(reader), reader, self.plugin)


def plugin_views() -> list[PluginTable]:
    """Return the views that plug-ins add to the app, which are sections of reports, too."""
    return [_plugin_table(plugin) for plugin in plugins_of("views", View, RESERVED)]


def plugin_sections() -> list[PluginTable]:
    """Return the sections that plug-ins add to reports: their views first."""
    views = plugin_views()
    taken = (*RESERVED, *(view.name for view in views))
    sections = plugins_of("sections", Section, taken)
    return [*views, *(_plugin_table(plugin) for plugin in sections)]


def _plugin_table(plugin: Plugin[View] | Plugin[Section]) -> PluginTable:
    offer = plugin.offer
    return PluginTable(plugin.name, offer.title, offer.shows, plugin.installed, offer.table)


def plugin_table(name: str) -> PluginTable | None:
    """Return the view or section of this name; None if no plug-in has one."""
    return next((table for table in plugin_sections() if table.name == name), None)


def table_of_plugin(name: str, reader: SessionReader) -> ViewTable:
    """Return the table of a plug-in's view. Raises KeyError without one."""
    plugin = plugin_table(name)
    if plugin is None:
        raise KeyError(name)
    return plugin.table(reader)


def _failed_table(shows: str, fault: PluginFault) -> ViewTable:
    sentence = fault.sentence[0].upper() + fault.sentence[1:]
    return ViewTable(shows=shows, notice="", origin="", columns=(), rows=(), empty=sentence)


def view_table(
    shows: str, table: Table, reader: SessionReader, plugin: InstalledPlugin
) -> ViewTable:
    """Return a plug-in's table for the app. Raises TypeError and ValueError for what is none."""
    if not isinstance(table, Table):
        raise TypeError(
            f"it returned {shown_value(table)}, which is not a fx_explorer.plugins.Table"
        )
    for text in (table.answer, table.empty, table.origin):
        _check_text(text)
    columns = [_column(column) for column in table.columns]
    if len(table.rows) > MOST_ROWS:
        raise ValueError(f"it has more than {MOST_ROWS:,} rows")
    rows = [_row(row, len(columns), reader) for row in table.rows]
    return ViewTable(
        shows=shows,
        notice="",
        origin=" · ".join(filter(None, (table.origin, f"{plugin.package} {plugin.version}"))),
        columns=tuple(columns),
        rows=rows,
        empty=table.empty,
        answer=table.answer if rows else "",
    )


def _column(column: Column) -> TableColumn:
    if not isinstance(column, Column):
        raise TypeError(f"a column cannot be {shown_value(column)}")
    _check_text(column.title)
    return TableColumn(column.title, is_number=column.is_number)


def _row(row: Row, columns: int, reader: SessionReader) -> TableRow:
    if not isinstance(row, Row):
        raise TypeError(f"a row cannot be {shown_value(row)}")
    if not isinstance(row.cells, tuple) or len(row.cells) != columns:
        raise ValueError(f"the cells {shown_value(row.cells)} must be one text for each column")
    for text in (*row.cells, row.detail, row.file):
        _check_text(text)
    values = {title: float(number) for title, number in row.numbers.items()}
    detail = partial(Detail, row.detail) if row.detail else None
    find_place = None
    if row.node or row.file:
        find_place = partial(_place, reader, int(row.node), row.file, int(row.line))
    return TableRow(row.cells, detail=detail, values=values, find_place=find_place)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"a text cannot be {shown_value(text)}")


def _place(reader: SessionReader, node: int, file: str, line: int) -> Place | None:
    """Return the place of a row; None if the session has no such node or file."""
    nodes: Sequence[model.Node] = reader.by_ids(model.Node, [node]) if node else ()
    if nodes:
        return place_of_node(reader, nodes[0])
    return place_of_path(reader, file, line) if file else None
