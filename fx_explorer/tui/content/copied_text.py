"""This module writes what the menu of copying copies: a kernel, a node, or the whole answer of a
view.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, text_of
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.kernel_documents import kernel_document
from fx_explorer.drawing.view_table import Detail, TableRow, ViewTable
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.inspect import entries

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.figures import PlaceTime


def kernel_text(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the code of a kernel, all of it."""
    return text_of(reader, kernel_document(reader, kernel))


def node_text(reader: SessionReader, place: Place, time: PlaceTime | None) -> str:
    """Return everything known about a place, one fact a line. ``time`` is the time of its node in a
    profile.
    """
    return "\n".join(
        f"{entry.label}: {entry.text}".strip(": ") for entry in entries(reader, place, time)
    )


def facts_markdown(facts: Sequence[Fact]) -> str:
    """Return the overview as a list."""
    lines = []
    for fact in facts:
        lines.append(f"- **{fact.topic}**: {fact.text}")
        if fact.detail:
            lines[-1] += "  "  # two spaces break the line in Markdown
            lines.append(f"  {fact.detail}")
    return "\n".join(lines)


def table_markdown(
    title: str, table: ViewTable, rows: Iterable[TableRow], detail: Detail | None
) -> str:
    """Return a view as a heading, its words, these of its rows, and the detail of the row under the
    cursor.
    """
    lines = [f"## {title}", "", table.shows]
    lines += [sentence for sentence in (table.answer, table.notice) if sentence]
    lines.append("")
    lines += [_row([column.title for column in table.columns]), _row(["---"] * len(table.columns))]
    lines += [_row(row.cells) for row in rows]
    if detail and detail.text:
        lines += ["", _fenced(detail.text, detail.language)]
    return "\n".join(lines)


def document_markdown(reader: SessionReader, document: Document) -> str:
    """Return a document with its title."""
    return f"## {document.title}\n\n{_fenced(text_of(reader, document), document.language)}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _fenced(text: str, language: str) -> str:
    """Return text between fences that are longer than any fence in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    name = "" if language == "text" else language
    return f"{fence}{name}\n{text.rstrip()}\n{fence}"
