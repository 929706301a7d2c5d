"""This module puts several edits of one file in one text, hunk by hunk, and says which edit of the
same line cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fx_explorer.model.bounded_matching import changed_lines
from fx_explorer.source_edit.user_files import FileEdit


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Lines ``first`` to ``last`` of the file, from 0 and less the last one, are replaced."""

    first: int
    last: int
    lines: tuple[str, ...]
    title: str

    def is_as(self, other: _Hunk) -> bool:
        return (self.first, self.last, self.lines) == (other.first, other.last, other.lines)

    def is_in_the_way_of(self, other: _Hunk) -> bool:
        """Return whether another change is in the way of this one. Lines put at one place are
        placed below each other.
        """
        return self.first < other.last and other.first < self.last


class MergedEdits:
    """The text of one file with several edits that were each made for it alone."""

    def __init__(self, first: FileEdit) -> None:
        """``first`` is any edit of the file, for its path and its text before; none is in it
        yet.
        """
        self._path, self._before = first.path, first.before
        self._hunks: list[_Hunk] = []

    @property
    def edit(self) -> FileEdit:
        return FileEdit(self._path, self._before, self._with(self._hunks))

    def add(self, edit: FileEdit, title: str) -> str:
        """Add an edit. Returns in words why that cannot be done; empty when it is done. ``title``
        says whose it is, for when the next one is in its way.
        """
        new = [
            hunk
            for hunk in _hunks(edit, title)
            if not any(hunk.is_as(other) for other in self._hunks)
        ]
        for hunk in new:
            for other in self._hunks:
                if hunk.is_in_the_way_of(other):
                    return (
                        f"edits line {other.first + 1} as {other.title!r} does: accept one, "
                        "capture again, and try the other"
                    )
        try:
            # Each alone could be parsed. Together they may leave a block empty.
            cst.parse_module(self._with([*self._hunks, *new]))
        except cst.ParserSyntaxError:
            return "does not go with the others: the file could not be parsed"
        self._hunks += new
        return ""

    def _with(self, hunks: Sequence[_Hunk]) -> str:
        lines, position, pieces = self._before.splitlines(keepends=True), 0, []
        for hunk in sorted(hunks, key=lambda hunk: (hunk.first, hunk.last)):
            pieces += [*lines[position : hunk.first], *hunk.lines]
            position = hunk.last
        return "".join([*pieces, *lines[position:]])


def _hunks(edit: FileEdit, title: str) -> Iterator[_Hunk]:
    before, after = (text.splitlines(keepends=True) for text in (edit.before, edit.after))
    for kind, first, last, new_first, new_last in changed_lines(before, after):
        if kind != "equal":
            yield _Hunk(first, last, tuple(after[new_first:new_last]), title)
