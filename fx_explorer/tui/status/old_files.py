"""Files that are other files by now than when they were captured, in words: what is on screen is
old then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.facts import OF_FILES, Fact
from fx_explorer.analysis.words import listed
from fx_explorer.session.file_names import file_name
from fx_explorer.source_edit.user_files import ChangedFile

MARK = "old"
"""Stands at rows that were found in a file which is another one by now."""


@dataclass(frozen=True, slots=True)
class OldFiles:
    """What of the files on screen has changed since they were captured."""

    changed: Sequence[ChangedFile] = ()

    @property
    def words(self) -> str:
        """Return ``old: model.py has changed since``; empty when nothing has."""
        return f"old: {self.in_words}" if self.changed else ""

    @property
    def in_words(self) -> str:
        """Return ``model.py has changed since``."""
        names = listed(file_name(changed_file.file.path) for changed_file in self.changed)
        return f"{names} {'has' if len(self.changed) == 1 else 'have'} changed since"

    def holds(self, place: Place | None) -> bool:
        """Return whether a place is in a file that has changed."""
        if place is None or place.document.kind != "source":
            return False
        return any(changed_file.file.id == place.document.id for changed_file in self.changed)

    def fact(self, remedy: str) -> list[Fact]:
        """Return the fact that what is on screen is old; none where it is not. ``remedy`` says what
        to do.
        """
        if not self.changed:
            return []
        text = (
            f"What is shown here is old: {self.in_words} it was captured, first in line "
            f"{self.changed[0].line}."
        )
        return [Fact("old", "notice", text, remedy, difference=OF_FILES)]
