"""This module finds which compilations are versions of one function: a function is recompiled
when a guard fails.

Each version runs for other inputs, so a sum over several versions is not the figure of any one
call. The callers that add versions up have to say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once


@dataclass(frozen=True, slots=True)
class Version:
    """A compilation as one of several versions of its function."""

    compilation: int
    name: str
    """Name as torch writes it: ``0/1``."""
    function: str
    number: int
    """From 1, in the order they were compiled."""
    count: int
    """How many versions the function has."""

    @property
    def description(self) -> str:
        """Return ``2 of 3``; empty for a function that was compiled once."""
        if self.count > 1:
            return f"{self.number} of {self.count}"
        return ""


@answered_once
def versions(reader: SessionReader) -> dict[int, Version]:
    """Return compilation id → its ``Version``. Variants of a stepped-through compilation are the
    same version as the one from which they began.
    """
    rows = [row for row in reader.rows(model.Compilation) if row.status != "restarted"]
    first: dict[str, list[model.Compilation]] = {}
    by_name = {row.name: row for row in rows}
    for row in rows:
        first.setdefault(_origin(by_name, row).name, []).append(row)
    functions: dict[tuple[int, str, str, int], list[str]] = {}
    for name in first:
        row = by_name[name]
        function = (row.frame, row.function, row.file, row.line)
        functions.setdefault(function, []).append(name)
    of_rows = {}
    for names in functions.values():
        for number, name in enumerate(names, start=1):
            for row in first[name]:
                of_rows[row.id] = Version(row.id, row.name, row.function, number, len(names))
    return of_rows


def _origin(by_name: dict[str, model.Compilation], row: model.Compilation) -> model.Compilation:
    """Return the compilation from which a variant began, directly or through other variants."""
    while (before := by_name.get(row.variant_of)) and before.id < row.id:
        row = before
    return row


def functions_of_versions(reader: SessionReader) -> dict[str, str]:
    """Return, for each compilation whose function has several versions, its name and the user's
    name of the function.
    """
    of_several = [version for version in versions(reader).values() if version.count > 1]
    return {version.name: plain_function(version.function) for version in of_several}


def over_versions(reader: SessionReader, compilations: Iterable[int]) -> str:
    """Return a phrase for a sum over these compilations that adds up versions of one function:
    ``over 3 versions of twice``; empty if it does not.
    """
    known = versions(reader)
    numbers: dict[str, set[int]] = {}
    for compilation in compilations:
        version = known.get(compilation)
        if version and version.count > 1:
            numbers.setdefault(version.function, set()).add(version.number)
    several = [function for function, of_function in numbers.items() if len(of_function) > 1]
    if not several:
        return ""
    if len(several) == 1:
        function = several[0]
        return f"over {len(numbers[function])} versions of {plain_function(function)}"
    return f"over several versions of {counted(len(several), 'function')}"
