"""The views of the app as sections of a report: their answer, and their rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.words import counted
from fx_explorer.drawing.view_table import TableColumn, TableRow, ViewTable
from fx_explorer.highlight import printable, printable_text
from fx_explorer.output.table import Column, Table
from fx_explorer.overview.plugin_tables import plugin_sections, plugin_table
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader

SECTIONS: dict[str, str] = {
    "breaks": "Graph breaks",
    "guards": "Guards and recompiles",
    "kernels": "Kernels",
    "fusion": "Kernels that were not fused",
    "decisions": "Why kernels are the way they are",
    "modules": "Modules",
    "memory": "Saved tensors",
    "step_memory": "Memory of a step",
    "stages": "Stages",
    "trace": "What Dynamo did",
    "passes": "Passes",
    "graphs": "Graphs",
    "sizes": "Sizes",
    "side_effects": "Side effects",
    "values": "Values",
    "collectives": "Collectives",
    "flame": "Compile time",
    "ledger": "A call",
    "bench": "Bench",
    "numerics": "Is it right",
    "profile": "Profile",
    "roofline": "Roofline",
    "regions": "Regions",
    "support": "Support",
    "console": "Console",
}
"""View → title, in the order of a report."""

MOST_ROWS = 500
"""Maximum number of rows of a section; it says how many more there are."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    is_number: bool
    bar: float | None = None
    """Of a bar: its length from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SectionRow:
    cells: Sequence[Cell]
    place: Place | None
    detail: str
    depth: int
    is_heading: bool


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A view with rows."""

    name: str
    title: str
    shows: str
    answer: str
    columns: Sequence[TableColumn]
    rows: Sequence[SectionRow]
    left_out: int
    origin: str = ""
    """How the rows are known."""
    picture: Callable[[], str] | None = None
    """Draws the picture of the view as SVG; None where it has none. Raises UsageError where the
    library for it is missing.
    """

    def is_bar(self, at: int) -> bool:
        """Return whether a column has bars in place of texts."""
        return any(row.cells[at].bar is not None for row in self.rows)

    def table(self, most_rows: int) -> Table:
        """Return its first rows as a table, without bars."""
        kept = [at for at in range(len(self.columns)) if not self.is_bar(at)]
        columns = [_column(self.columns[at]) for at in kept]
        cells = [[row.cells[at].text for at in kept] for row in self.rows[:most_rows]]
        more = len(self.rows) + self.left_out - len(cells)
        return Table(columns, cells, note=f"{counted(more, 'more row')}." if more else "")


def _column(column: TableColumn) -> Column:
    """Return a column of the app for a text. The number of a kernel, which has the sign # alone,
    gets a word.
    """
    if column.is_number:
        title = "no." if column.title == "#" else column.title
        return Column(title, is_number=True, priority=column.priority)
    return Column(column.title, narrowing="cut", least=column.min_width, priority=column.priority)


def sections(reader: SessionReader) -> Iterator[ReportSection]:
    """Yield the views that have rows, and after them the sections of plug-ins that have."""
    for name in section_names():
        section = section_of(reader, name)
        if section.rows:
            yield section


def section_names() -> list[str]:
    """Return the names of all sections, those of plug-ins last."""
    return [*SECTIONS, *(table.name for table in plugin_sections())]


def section_of(reader: SessionReader, name: str) -> ReportSection:
    """Return a section. One without rows says in its answer why. Raises KeyError without one."""
    if name in SECTIONS:
        return _section(name, SECTIONS[name], TABLES[name](reader))
    plugin = plugin_table(name)
    if plugin is None:
        raise KeyError(name)
    return _section(name, plugin.title, plugin.table(reader))


def section_object(section: ReportSection, most_rows: int) -> dict[str, object]:
    """Return a section as JSON: what it shows, and its rows as texts."""
    titles = [column.title for column in section.columns]
    rows = section.rows[:most_rows]
    return {
        "name": section.name,
        "title": section.title,
        "shows": section.shows,
        "answer": section.answer,
        "origin": section.origin,
        "columns": titles,
        "rows": [[cell.text for cell in row.cells] for row in rows],
        "left_out": len(section.rows) + section.left_out - len(rows),
    }


def _section(name: str, title: str, table: ViewTable) -> ReportSection:
    rows = table.rows[:MOST_ROWS]
    kept = [at for at, column in enumerate(table.columns) if _is_used(column, at, rows)]
    largest = {at: _largest(table.columns[at], rows) for at in kept}
    depths = table.tree.depths if table.tree else [0] * len(rows)
    shown = []
    for row, depth in zip(rows, depths, strict=False):
        cells = [_cell(table.columns[at], row, at, largest[at]) for at in kept]
        detail = printable_text(row.detail().text) if row.detail else ""
        place = row.place or (row.find_place() if row.find_place else None)
        shown.append(SectionRow(cells, place, detail, depth, row.is_heading))
    return ReportSection(
        name=name,
        title=title,
        shows=table.shows,
        answer=without_keys((table.answer or table.notice) if shown else table.empty),
        columns=[table.columns[at] for at in kept],
        rows=shown,
        left_out=len(table.rows) - len(shown),
        origin=table.origin,
        picture=table.svg if shown else None,
    )


OF_KEYS = {
    "x x": "fx-explorer fix",
    "x t": "fx-explorer report --measure-breaks",
    "x c": "fx-explorer ledger",
    "x n": "fx-explorer numerics",
    "x p": "fx-explorer bench",
    "x d": "fx-explorer dynamic",
    "x m": "fx-explorer memory",
    "v m": f"“{SECTIONS['step_memory']}”",
}
"""Key of the app → what does the same outside of it."""

_MAPPED = re.compile(rf"\b(?P<press>Press )?(?P<key>{'|'.join(OF_KEYS)})\b")

_SENTENCE = re.compile(r"(?<=[.:]) (?=[A-Z“]|fx-explorer|[vcxop] [A-Za-z])")

_NAMES_A_KEY = re.compile(r"(?:Press|Enter|Escape|[vcxopY] [A-Za-z0-9]) ")


def without_keys(text: str) -> str:
    """Return a text of the app for a report: a key is replaced by the command that does the same,
    and a sentence on a key without one is left out.
    """
    replaced = _MAPPED.sub(_command_of, text)
    kept = [part for part in _SENTENCE.split(replaced) if not _NAMES_A_KEY.match(part)]
    return " ".join(kept)


def _command_of(match: re.Match[str]) -> str:
    run = "Run " if match["press"] else ""
    return f"{run}{OF_KEYS[match['key']]}"


def _is_used(column: TableColumn, at: int, rows: Sequence[TableRow]) -> bool:
    if column.is_bar:
        return bool(_largest(column, rows))
    return any(at < len(row.cells) and row.cells[at] for row in rows)


def _largest(column: TableColumn, rows: Sequence[TableRow]) -> float:
    """Return the largest number of a column of bars; 0 for any other."""
    if not column.is_bar:
        return 0.0
    return max((row.values.get(_measured(column), 0.0) for row in rows), default=0.0)


def _measured(column: TableColumn) -> str:
    return column.bar_of or column.title


def _cell(column: TableColumn, row: TableRow, at: int, largest: float) -> Cell:
    if column.is_bar:
        return Cell("", is_number=False, bar=row.values.get(_measured(column), 0.0) / largest)
    text = row.cells[at] if at < len(row.cells) else ""
    return Cell(printable(text), column.is_number)
