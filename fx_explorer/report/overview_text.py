"""This module writes the overview as plain text, if there is no terminal: the same facts as the
first view of the app.
"""

from __future__ import annotations

import textwrap

from fx_explorer.analysis.facts import Fact
from fx_explorer.highlight import printable
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader

GLYPHS = {"good": "✓", "running": "▷", "changed": "≠", "notice": "▲", "problem": "✗"}

WIDTH = 100


def overview_text(reader: SessionReader, columns: int | None = None) -> str:
    """Return one paragraph per fact, with details indented and a blank line between topics.
    ``columns`` are those of the terminal; None sets no limit.
    """
    lines: list[str] = []
    topic = ""
    for fact in overview(reader):
        if lines and fact.topic != topic:
            lines.append("")
        topic = fact.topic
        lines += _paragraph(fact, columns)
    return "\n".join(lines) + "\n"


def _paragraph(fact: Fact, columns: int | None) -> list[str]:
    width = min(WIDTH, columns or WIDTH)
    text = textwrap.wrap(
        printable(fact.text),
        width,
        initial_indent=f"{GLYPHS[fact.severity]} ",
        subsequent_indent="  ",
    )
    if fact.place:
        place = f"  ({printable(fact.place.document.title)}:{fact.place.line + 1})"
        has_room = columns is None or len(text[-1]) + len(place) <= columns
        text[-1:] = [text[-1] + place] if has_room else [text[-1], place]
    for paragraph in fact.detail.splitlines():
        text += textwrap.wrap(
            printable(paragraph), width, initial_indent="    ", subsequent_indent="    "
        )
    return text
