"""This module has the row about what Dynamo replays after a graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SideEffect:
    """An object that a compiled function changes besides computing its graph. Dynamo keeps the
    change aside while it traces, and compiled code makes it after the graph has run.
    """

    id: int
    compilation: int
    changed: str
    """The object, as the function calls it: ``self``, ``G['SEEN']``."""
    type_name: str
    """Its Python type."""
    names: tuple[str, ...]
    """Attributes that are set or deleted; empty where its contents change."""
    file: int
    """SourceFile of the first line that changes it; 0 where torch does not say."""
    line: int
