"""Functions that run in eager mode as a whole without a graph break being reported: skipped, given
up, compiled too often.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.words import first_line
from fx_explorer.session import SessionReader

_NOTHING_TO_COMPILE = ("no tensor-related objects found in frame", "No ops traced for the FX graph")

MADE_BY_PYTHON = (
    "Python made this code itself, for a namedtuple or a dataclass: nothing has to be done"
)

_PLAIN_KINDS: dict[model.FallbackKind, str] = {
    "skipped": "Dynamo does not look into it",
    "limit": "it was compiled too often for different inputs; new ones run uncompiled",
    "failed": "compiling it failed, and torch was told to run it in eager mode instead",
}


@dataclass(frozen=True, slots=True)
class DistinctFallback:
    """All fallbacks of one function for one reason: the function runs in eager mode as a whole.

    ``DistinctBreak`` is the same for graph breaks, which cut a function that is compiled.
    """

    kind: model.FallbackKind
    function: str
    file: str
    line: int
    """The line where the function begins."""
    registry_id: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    count: int
    """How many times torch decided so."""
    place: Place | None
    stack: int
    """Where it was first called (a Stack)."""

    @property
    def has_nothing_to_compile(self) -> bool:
        """Return whether it works on no tensors, so that compiling it would gain nothing."""
        return self.is_made_by_python or computes_nothing(self.reason)

    @property
    def is_made_by_python(self) -> bool:
        """Return whether Python made it: the constructor of a namedtuple (torch's words), or what
        ``dataclass`` writes (CPython's Lib/dataclasses.py).
        """
        return self.reason == "frame is a namedtuple constructor" or self.function.startswith(
            "__create_fn__."
        )

    @property
    def in_words(self) -> str:
        if self.is_made_by_python:
            return MADE_BY_PYTHON
        if self.has_nothing_to_compile:
            return "it computes nothing with tensors"
        return self.explanation or f"{_PLAIN_KINDS[self.kind]}: {first_line(self.reason)}"


def computes_nothing(reason: str) -> bool:
    """Return whether torch's reason for leaving a function is that it works on no tensors."""
    return any(words in reason for words in _NOTHING_TO_COMPILE)


def distinct_fallbacks(reader: SessionReader) -> list[DistinctFallback]:
    """List the functions; those that cost something first, then in the order they were met."""
    groups: dict[tuple[object, ...], list[model.Fallback]] = {}
    for row in reader.rows(model.Fallback):
        groups.setdefault((row.file, row.line, row.kind, row.registry_id or row.reason), []).append(
            row
        )
    return sorted(
        (_grouped(reader, rows) for rows in groups.values()),
        key=lambda one: one.has_nothing_to_compile,
    )


def _grouped(reader: SessionReader, rows: list[model.Fallback]) -> DistinctFallback:
    first = rows[0]
    return DistinctFallback(
        kind=first.kind,
        function=first.function,
        file=first.file,
        line=first.line,
        registry_id=first.registry_id,
        reason=first.reason,
        explanation=first.explanation,
        hints=first.hints,
        count=len(rows),
        place=place_of_path(reader, first.file, first.line),
        stack=first.stack,
    )
