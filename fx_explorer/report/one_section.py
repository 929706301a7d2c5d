"""``report X --section NAME``: one part of a report by itself, in a bounded length: the overview,
the findings, or a view of the app. The names are the same for JSON, text and markdown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.report import finding_lines, finding_object
from fx_explorer.output.formats import Block, text_of
from fx_explorer.output.terminal import Line
from fx_explorer.overview.overview import overview
from fx_explorer.report.heading import answer
from fx_explorer.report.markdown import findings_in_markdown, section_in_markdown
from fx_explorer.report.overview_text import overview_text
from fx_explorer.report.sections import SECTIONS, Section, section_of
from fx_explorer.session import SessionReader

NAMES = ("overview", "findings", *SECTIONS)

SCHEMA = "fx-explorer/section/1"


def section_as_json(reader: SessionReader, name: str, limit: int) -> str:
    """Return a part as JSON: its answer, and its rows as objects by column."""
    every_finding = findings(reader)
    content: dict[str, object] = {"schema": SCHEMA, "section": name}
    if name == "overview":
        facts = overview(reader)
        content["answer"] = answer(every_finding, facts)
        content["rows"] = [
            {"severity": fact.severity, "text": fact.text, "detail": fact.detail}
            for fact in facts[:limit]
        ]
        count = len(facts)
    elif name == "findings":
        content["answer"] = answer(every_finding, overview(reader))
        content["looked_for"] = list(search(reader).looked_for)
        content["not_looked_for"] = list(search(reader).not_looked_for)
        content["rows"] = [finding_object(finding) for finding in every_finding[:limit]]
        count = len(every_finding)
    else:
        section = section_of(reader, name)
        content["answer"] = section.answer
        content["rows"] = _rows(section, limit)
        count = len(section.rows) + section.left_out
    content["count"] = count
    content["left_out"] = max(0, count - limit)
    return json.dumps(content, indent=2) + "\n"


def _rows(section: Section, limit: int) -> list[dict[str, object]]:
    """Return the rows as objects: each column's cell, the place it leads to, and the detail."""
    titles = [column.title for column in section.columns]
    rows = []
    for row in section.rows[:limit]:
        cells: dict[str, object] = {}
        for title, cell in zip(titles, row.cells, strict=True):
            if cell.bar is None:
                cells[title] = cell.text.strip()
        if row.place:
            cells["place"] = f"{row.place.document.title}:{row.place.line + 1}"
        if row.detail:
            cells["detail"] = row.detail
        rows.append(cells)
    return rows


def section_as_text(reader: SessionReader, name: str, limit: int, width: int | None) -> str:
    """Return a part as text of at most ``width`` cells."""
    if name == "overview":
        return overview_text(reader, width)
    if name == "findings":
        return text_of(_finding_lines(reader, limit), width)
    section = section_of(reader, name)
    blocks: list[Block] = [section.answer, ""] if section.answer else []
    if section.rows:
        blocks.append(section.table(limit))
    return text_of(blocks, width)


def _finding_lines(reader: SessionReader, limit: int) -> Iterator[Line]:
    every_finding = findings(reader)
    if not every_finding:
        yield "No problem was found."
    yield from finding_lines(every_finding[:limit])
    yield search(reader).description


def section_as_markdown(reader: SessionReader, name: str, limit: int) -> str:
    """Return a part as markdown."""
    if name == "overview":
        lines = [f"    {line}" for line in overview_text(reader).splitlines()]
    elif name == "findings":
        lines = list(findings_in_markdown(findings(reader))) or ["No problem was found."]
    else:
        lines = list(section_in_markdown(section_of(reader, name), limit))
    return "\n".join(lines) + "\n"
