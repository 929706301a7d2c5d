"""The versions of a compiled function, and which earlier one a new one is nearest to, by the values
that guards check.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import checked_values

KeyT = TypeVar("KeyT")


class FunctionVersions:
    """Finds the compilations of a session by torch's names, which torch uses again after
    ``torch._dynamo.reset()``, and the earlier version of a function that is nearest to one.
    """

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    @cached_property
    def rows(self) -> list[model.Compilation]:
        rows = self._reader.rows(model.Compilation, variant_of="")
        return [row for row in rows if row.status != "restarted"]

    @cached_property
    def _by_id(self) -> dict[int, model.Compilation]:
        return {row.id: row for row in self.rows}

    @cached_property
    def _by_name(self) -> dict[str, list[model.Compilation]]:
        return _grouped(self.rows, lambda row: row.name.partition("#")[0])

    @cached_property
    def _by_frame(self) -> dict[int, list[model.Compilation]]:
        return _grouped(self.rows, lambda row: row.frame)

    def of_recompile(self, row: model.Recompile) -> model.Compilation | None:
        return self._by_id.get(row.compilation)

    def before(self, row: model.Recompile) -> model.Compilation | None:
        """Return the compilation whose guard failed: the latest earlier one of that name."""
        of_name = self._by_name.get(row.of, ())
        earlier = [compilation for compilation in of_name if compilation.id < row.compilation]
        return earlier[-1] if earlier else None

    def nearest(self, compilation: model.Compilation | None) -> model.Compilation | None:
        """Return the earlier version of the same function from which the call of this one differs
        in the fewest values, the latest of several; None where the values are not known.
        """
        if compilation is None:
            return None
        now = checked_values(self._reader, compilation.id)
        earlier = self.siblings(compilation)[:-1]
        known = [row for row in earlier if checked_values(self._reader, row.id)]
        if not now or not known:
            return None
        return min(reversed(known), key=lambda row: len(self._differing_from(row, now)))

    def named(self, name: str) -> model.Compilation | None:
        """Return the first compilation of a name."""
        return next((row for row in self.rows if row.name == name), None)

    def differing(
        self, version: model.Compilation | None, compilation: model.Compilation | None
    ) -> set[str]:
        """Return torch's names of the values in which the call of a compilation differs from those
        that a version was compiled for; empty where they are not known.
        """
        if version is None or compilation is None:
            return set()
        return self._differing_from(version, checked_values(self._reader, compilation.id))

    def _differing_from(self, version: model.Compilation, now: dict[str, str]) -> set[str]:
        """Return the names of the values that differ, without sizes that are dynamic in the
        version.
        """
        before = checked_values(self._reader, version.id)
        names = _differing(before, now)
        dynamic: dict[str, set[int]] = {}
        for symbol in self._reader.rows(model.Symbol, compilation=version.id):
            size = _DYNAMIC_SIZE.fullmatch(symbol.source)
            if size and not symbol.became:
                dynamic.setdefault(size["tensor"], set()).add(int(size["index"]))
        for tensor, sizes in dynamic.items():
            if _without(before.get(tensor, ""), sizes) == _without(now.get(tensor, ""), sizes):
                names.discard(tensor)
        return names

    def siblings(self, compilation: model.Compilation) -> list[model.Compilation]:
        """Return all compilations of the same function up to this one, since the last reset."""
        same = [
            earlier for earlier in self._by_frame[compilation.frame] if earlier.id <= compilation.id
        ]
        first = max(
            (i for i, compilation in enumerate(same) if compilation.recompile == 0), default=0
        )
        return same[first:]

    def function(self, compilation: model.Compilation | None) -> model.Compilation | None:
        """Return the row that knows the function. A compilation that was refused at the recompile
        limit has no name in torch's records.
        """
        if compilation is None or compilation.function:
            return compilation
        return next(
            (sibling for sibling in self.siblings(compilation) if sibling.function), compilation
        )


_DYNAMIC_SIZE = re.compile(r"(?P<tensor>.*)\.size\(\)\[(?P<index>\d+)\]")


def _without(tensor: str, sizes: set[int]) -> list[str]:
    """Return a tensor's dtype and sizes, ``f32`` and ``4``, ``6`` of ``f32[4, 6]``, without these
    sizes.
    """
    dtype, _, shape = tensor.rstrip("]").partition("[")
    kept = [size for index, size in enumerate(shape.split(", ")) if index not in sizes]
    return [dtype, *kept]


def _differing(before: dict[str, str], now: dict[str, str]) -> set[str]:
    """Return the names in both whose values differ."""
    return {name for name, value in before.items() if now.get(name, value) != value}


def _grouped(
    rows: list[model.Compilation], key: Callable[[model.Compilation], KeyT]
) -> dict[KeyT, list[model.Compilation]]:
    groups: dict[KeyT, list[model.Compilation]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
