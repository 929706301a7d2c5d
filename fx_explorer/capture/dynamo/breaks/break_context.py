"""What Dynamo knows while it writes a graph break report, which the report itself does not say."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from fx_explorer.model import Frame


class Extent(NamedTuple):
    """A stretch of source from ``column`` of a line to ``end_column`` of ``end_line``, both in it,
    in characters from 1; 0 where not known.
    """

    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class BreakContext:
    """What Dynamo knows while it writes a graph break record."""

    chain: tuple[Frame, ...] = ()
    """The function that Python called, and what was inlined into it down to the break."""
    extents: dict[tuple[str, int], Extent] = field(default_factory=dict)
    """The extents, by file and line."""
    module: str = ""
    """Path of the module that was being called."""

    def extent(self, file: str, line: int) -> Extent:
        return self.extents.get((file, line), Extent())


breaking: ContextVar[BreakContext] = ContextVar("breaking", default=BreakContext())  # noqa: B039 - frozen


def breaking_now() -> BreakContext:
    """Return what Dynamo knows of the break it is recording, for whoever hears the record. It is
    empty outside of a record, and in a torch release that does not tell.
    """
    return breaking.get()
