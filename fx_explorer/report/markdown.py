"""This module writes a session as markdown, for an issue or a pull request: the answer and the
findings first, then each view folded, as long as there is room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fx_explorer.analysis.words import counted, listed
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.finding import Finding
from fx_explorer.output.formats import in_markdown, markdown_table
from fx_explorer.output.table import Cells, Column, Table
from fx_explorer.overview.figures_row import figures_row
from fx_explorer.overview.overview import overview
from fx_explorer.report.heading import answer, target_name, versions
from fx_explorer.report.sections import ReportSection, sections
from fx_explorer.session import SessionReader

MOST_CHARACTERS = 60_000
"""Maximum length: GitHub takes 65,536 characters in an issue or a comment."""

ROOM_FOR_NOTE = 500
"""Characters that are kept for the line on what is left out."""

MOST_ROWS = 30
"""Maximum number of rows of a view."""

MOST_FINDINGS = 20

_ON_GITHUB = re.compile(r"[@#*_`~\\]")
"""Matches what GitHub would take for a mention, an issue, or emphasis."""


def markdown_report(reader: SessionReader) -> str:
    """Return the report, of 60,000 characters at most."""
    with reader.snapshot():
        text = "\n".join(_beginning(reader))
        left_out = []
        for section in sections(reader):
            folded = "\n".join(_folded(section))
            if len(text) + len(folded) > MOST_CHARACTERS - ROOM_FOR_NOTE:
                left_out.append(section.title)
            else:
                text += folded
    if left_out:
        text += f"\nNot enough room for: {listed(left_out)}.\n"
    return text


def _plain(text: str) -> str:
    """Return a text so that GitHub shows it as it is: nobody is mentioned, nothing is linked."""
    return _without_marks(in_markdown(text))


def _without_marks(text: str) -> str:
    return _ON_GITHUB.sub(lambda match: f"&#{ord(match[0])};", text)


def _table(columns: Sequence[Column], rows: Sequence[Cells]) -> list[str]:
    """Return the lines of a table whose cells are shown as they are."""
    return markdown_table(Table(columns, [[_cell(cell) for cell in row] for row in rows]))


def _cell(cell: str) -> str:
    """Return a cell as code where GitHub would take a part of it for something else."""
    if not _ON_GITHUB.search(cell):
        return cell
    if "`" in cell or "<" in cell:  # in code both would be shown otherwise
        return _without_marks(cell)
    return f"`{cell}`"


def _beginning(reader: SessionReader) -> Iterator[str]:
    every_finding = findings(reader)
    yield f"### {_plain(target_name(reader))}"
    yield ""
    yield f"**{_plain(answer(every_finding, overview(reader)))}**"
    yield ""
    if environment := versions(reader):
        yield _plain(environment)
        yield ""
    figures = figures_row(reader)
    if figures:
        columns = [Column(figure.label, is_number=True) for figure in figures]
        yield from _table(columns, [[figure.value for figure in figures]])
        yield ""
    yield from findings_in_markdown(every_finding)
    yield ""
    yield f"<details><summary>What was looked for</summary>\n\n{search(reader).description}\n"
    yield "</details>\n"


def findings_in_markdown(every_finding: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of a numbered list of findings."""
    for number, finding in enumerate(every_finding[:MOST_FINDINGS], start=1):
        yield from _finding(number, finding)
    more = len(every_finding) - MOST_FINDINGS
    if more > 0:
        yield f"{counted(more, 'more finding')} left out."


def _finding(number: int, finding: Finding) -> Iterator[str]:
    cost = f" `{in_markdown(finding.cost)}`" if finding.cost else ""
    yield f"{number}. {_plain(finding.text)}{cost}"
    for line in finding.detail.splitlines():
        yield f"   {_plain(line)}  "


def _folded(section: ReportSection) -> Iterator[str]:
    count = len(section.rows) + section.left_out
    yield f"\n<details><summary>{section.title} ({counted(count, 'row')})</summary>\n"
    yield from section_in_markdown(section, MOST_ROWS)
    yield "\n</details>\n"


def section_in_markdown(section: ReportSection, most_rows: int) -> Iterator[str]:
    """Yield the lines of a view: its answer, and a table."""
    if section.answer:
        yield f"{_plain(section.answer)}\n"
    if section.rows:
        table = section.table(most_rows)
        yield from _table(table.columns, table.rows)
        if table.note:
            yield f"\n{table.note}"
