"""``report X --section NAME`` as text and markdown: one part of a report by itself, in a bounded
length: the overview, the findings, or a view of the app. As JSON it is an answer (``answers/``).
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.report import finding_lines
from fx_explorer.output.formats import Block, text_of
from fx_explorer.output.terminal import Line
from fx_explorer.report.markdown import findings_in_markdown, section_in_markdown
from fx_explorer.report.overview_text import overview_text
from fx_explorer.report.sections import SECTIONS, section_of
from fx_explorer.session import SessionReader

NAMES = ("overview", "findings", *SECTIONS)


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
