"""Accepting a fix: its edits are written to the user's files."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.source_edit.writing import why_not_written, write_edits


def accept(fix: Fix) -> list[Path]:
    """Write it to each file that it edits, and return the backups. Nothing is written unless all of
    them are.

    Raises UsageError when it edits none, or a file is no longer what it was when captured, or
    cannot be written.
    """
    if not fix.edits:
        raise UsageError(
            f"this fix changes no file. Set it in your program: {fix.instruction.splitlines()[0]}"
        )
    return write_edits(fix.edits)


def why_not_accepted(fix: Fix) -> str:
    """Say why the fix cannot be written; empty when it can."""
    return why_not_written(fix.edits)
