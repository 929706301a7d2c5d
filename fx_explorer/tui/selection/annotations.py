"""Marks beside the lines of the user's source: where a graph broke, and what made a function be compiled again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.analysis.breaks.grouped import distinct_breaks
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.recompiles.causes import recompiles
from fx_explorer.analysis.words import first_line
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that happened on a line."""

    glyph: str
    kind: str
    """How the glyph looks: a tone of theme.py."""
    text: str


def remarks(reader: SessionReader, document: Document) -> dict[int, list[Remark]]:
    """Line (from 0) of a source file → what happened there, breaks first."""
    found: dict[int, list[Remark]] = {}
    if document.kind != "source":
        return found
    for one in distinct_breaks(reader):
        if one.place and one.place.document == document:
            found.setdefault(one.place.line, []).append(Remark("✗", "bad", f"graph break: {first_line(one.in_words)}"))
    for again in recompiles(reader):
        if again.place and again.place.document == document:
            remark = Remark("↻", "warning", f"compiled again: {first_line(again.in_words)}")
            if remark not in found.setdefault(again.place.line, []):
                found[again.place.line].append(remark)
    return found
