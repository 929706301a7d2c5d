"""The entries that the inspector lists."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.analysis.documents import Place


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the full inspector."""

    label: str
    text: str
    place: Place | None = None
    """Where Enter goes."""
    note: str = ""
    """How it is known."""
    is_certain: bool = True
