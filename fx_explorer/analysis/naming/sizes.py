"""Names of dynamic sizes and numbers: ``input_ids.size(1)`` instead of ``s23``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from fx_explorer import model
from fx_explorer.analysis.naming.sources import plain_source
from fx_explorer.session import SessionReader

_SYMBOL = re.compile(r"(?<![\w.])(?:s|u|zf|zuf|zs)\d+\b")

_SIZE_OF = re.compile(r"(?P<tensor>.*)\.(?P<what>size|stride)\(\)\[(?P<index>\d+)\]$")


class SizeNames:
    """Finds the user's expression for each symbol of a compilation. The symbols are read once."""

    def __init__(self, reader: SessionReader, only: Sequence[int] | None = None) -> None:
        """``only`` has the compilations whose symbols are asked for; None stands for all."""
        if only is None:
            found = reader.rows(model.Compilation)
        else:
            found = reader.by_ids(model.Compilation, only)
        self._compilations = {row.id: row for row in found}
        symbols = list(_symbols(reader, only))
        lines = _lines(reader, symbols)
        # Dynamo's last attempt stands last, and counts.
        self._names = {
            (row.compilation, row.name): size_name(
                row, self.compilation(row.compilation), lines.get(row.stack, 0)
            )
            for row in symbols
        }

    def of(self, compilation: int, symbol: str) -> str:
        """Return the name of a symbol; torch's for one that the session does not know."""
        return self._names.get((compilation, symbol), symbol)

    def compilation(self, number: int) -> model.Compilation | None:
        """Return the compilation of that number; None for one that the session does not have."""
        return self._compilations.get(number)

    def in_text(self, compilation: int, text: str) -> str:
        """Return ``8*input_ids.size(0)`` for ``8*s72``, also within a longer text."""
        return _SYMBOL.sub(lambda found: self.of(compilation, found[0]), text)


def _symbols(reader: SessionReader, only: Sequence[int] | None) -> Iterable[model.Symbol]:
    if only is None:
        return reader.rows(model.Symbol)
    return chain.from_iterable(reader.rows(model.Symbol, compilation=one) for one in only)


def has_symbols(text: str) -> bool:
    """Return whether a text has names of torch's for sizes."""
    return _SYMBOL.search(text) is not None


def size_name(symbol: model.Symbol, of: model.Compilation | None = None, line: int = 0) -> str:
    """Return ``x.size(0)``, the name of a number, or where the program computes it. ``line`` is
    that at which torch made the symbol.
    """
    if not symbol.source:
        return f"‹computed at line {line}›" if line else "‹computed by the program›"
    found = _SIZE_OF.match(symbol.source)
    if found is None:
        return _bracketed(plain_source(symbol.source, of))
    return f"{_bracketed(plain_source(found['tensor'], of))}.{found['what']}({found['index']})"


def _bracketed(name: str) -> str:
    """Set words apart from the expression that they stand in."""
    return f"‹{name.removeprefix('the ')}›" if " " in name else name


def _lines(reader: SessionReader, symbols: Sequence[model.Symbol]) -> dict[int, int]:
    """Return the innermost line of each stack at which a size without a source was made."""
    stacks = {row.stack for row in symbols if row.stack and not row.source}
    return {
        stack.id: stack.frames[-1].line
        for stack in reader.by_ids(model.Stack, stacks)
        if stack.frames
    }
