"""This module keeps places that the user can go to: the history for back and forward, like a
browser's, and the entries of the inspector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from fx_explorer.analysis.documents import Place

StopT = TypeVar("StopT")

MAX_STOPS = 200


@dataclass(frozen=True, slots=True)
class Stop:
    """One entry of the history that back and forward go through."""

    view: str
    place: Place | None = None
    """The place of the cursor in the linked panes."""


class StopHistory(Generic[StopT]):
    """A history of stops with the current position. Going somewhere new drops the stops ahead."""

    def __init__(self) -> None:
        self._stops: list[StopT] = []
        self._at = -1

    @property
    def current(self) -> StopT | None:
        return self._stops[self._at] if self._stops else None

    def go(self, stop: StopT) -> None:
        """Remember ``stop`` as the newest place; the same place twice in a row counts once."""
        if stop == self.current:
            return
        self._stops = [*self._stops[: self._at + 1], stop][-MAX_STOPS:]
        self._at = len(self._stops) - 1

    def amend(self, stop: StopT) -> None:
        """Note that the current place moved a little (the cursor went on): coming back leads
        here.
        """
        if self._stops:
            self._stops[self._at] = stop

    def back(self) -> StopT | None:
        """Return the place before; None at the beginning."""
        if self._at <= 0:
            return None
        self._at -= 1
        return self._stops[self._at]

    def forward(self) -> StopT | None:
        """Return the place after; None at the end."""
        if self._at + 1 >= len(self._stops):
            return None
        self._at += 1
        return self._stops[self._at]


@dataclass(frozen=True, slots=True)
class RowOfView:
    """A row of a view that is a table, which a line of the inspector leads to."""

    view: str
    """Name of the view, such as ``fusion``."""
    keys: tuple[str, ...]
    """Keys of rows (``ViewTable.row_with``): the cursor goes to the first that the table has."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the full inspector."""

    label: str
    text: str
    place: Place | None = None
    """Place that Enter leads to; None for an entry without one."""
    note: str = ""
    """The evidence for the entry, such as the kind of link."""
    is_certain: bool = True
    row: RowOfView | None = None
    """Row of a view that Enter leads to, where that is not a place; None for most entries."""

    @property
    def target(self) -> Place | RowOfView | None:
        """Return what Enter leads to; None for an entry that leads nowhere."""
        return self.place or self.row
