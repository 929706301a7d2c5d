"""This module has the pictures of a session's views as SVG: what the key ``picture as SVG`` of the
app saves, for ``report X --format svg --section NAME``.
"""

from __future__ import annotations

from fx_explorer.errors import UsageError
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.report.sections import without_keys
from fx_explorer.session import SessionReader

SECTIONS = ("flame", "ledger", "step_memory", "roofline", "bench")
"""The views that have a picture."""


def picture_text(reader: SessionReader, section: str) -> str:
    """Return the picture of a view. Raises UsageError where the session has nothing to draw."""
    with reader.snapshot():
        table = TABLES[section](reader)
        if table.svg is None or not table.rows:
            why = without_keys(table.empty or table.notice) or "the view is empty"
            raise UsageError(f"there is no picture of {section}: {why}")
        return table.svg()
