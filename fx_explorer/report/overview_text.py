"""The overview as plain text, for a terminal that is none: the same facts as the first view of the
app.
"""

from __future__ import annotations

import textwrap

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.overview.overview import overview
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader

GLYPHS = {"good": "✓", "changed": "≠", "notice": "▲", "problem": "✗"}

WIDTH = 100


def overview_text(reader: SessionReader) -> str:
    """Return one paragraph per fact, with details indented and a blank line between topics."""
    lines: list[str] = []
    topic = ""
    for fact in overview(reader):
        if lines and fact.topic != topic:
            lines.append("")
        topic = fact.topic
        lines += _paragraph(fact)
    return "\n".join(lines) + "\n"


def _paragraph(fact: Fact) -> list[str]:
    text = textwrap.wrap(printable(fact.text), WIDTH, initial_indent=f"{GLYPHS[fact.severity]} ", subsequent_indent="  ")
    if fact.place:
        text[-1] += f"  ({printable(fact.place.document.title)}:{fact.place.line + 1})"
    for paragraph in fact.detail.splitlines():
        text += textwrap.wrap(printable(paragraph), WIDTH, initial_indent="    ", subsequent_indent="    ")
    return text
