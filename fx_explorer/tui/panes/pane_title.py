"""The words of a pane's title: which document it shows, and where in it the cursor is."""

from __future__ import annotations

from textual.content import Content

from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.regions.region_nodes import RegionKey
from fx_explorer.highlight import printable
from fx_explorer.tui.inspector.levels import LEVEL_TITLES
from fx_explorer.tui.selection.presets import Slot
from fx_explorer.tui.widgets.line_view import LineView

MAX_REGION_CHARACTERS = 16


def title_text(document: Document | None, slot: Slot) -> str:
    """Return the title: ``Backward · post-grad [0/0]``, or for an empty pane what belongs there."""
    if document is None:
        level = next((title for level, title in LEVEL_TITLES.items() if level == slot), "")
        return f"{level or slot or 'nothing'} – empty"
    owner = f" [{document.owner}]" if document.owner else ""
    return printable(f"{document.title}{owner}")


def position_text(
    body: LineView, document: Document, region: RegionKey | None, lit: int, seen: int
) -> Content:
    """Return the region that the graph is narrowed to, how many lines are lit (``▌2 of 5`` when
    others are hidden: ``seen`` of ``lit``), and the cursor's position.
    """
    lit_words = f"▌{seen:,}" if lit else ""
    lit_words += f" of {lit:,}" if lit > seen else ""
    count = body.line_of_row(body.line_count - 1) + 1
    at = f"{body.line_of_row(body.cursor) + 1:,}/{count:,}" if body.line_count else "0"
    if region is None:
        return Content("  ".join(part for part in (lit_words, at) if part))
    only = Content.styled(f"only {shortened(region[1])}", "$warning")
    return Content("  ").join(
        [
            only,
            *([Content(lit_words)] if lit_words else []),
            Content(f"{at} of {document.line_count:,}"),
        ]
    )


def shortened(name: str) -> str:
    """Return a region's name, shortened for where there is little room."""
    text = printable(name)
    return text if len(text) <= MAX_REGION_CHARACTERS else text[: MAX_REGION_CHARACTERS - 1] + "…"
