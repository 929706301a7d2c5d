"""The differences of two captures of a program, row by row: what each line of the card leads to.

First come the figures, which are those of ``fx-explorer diff``, then the options, source files and
kernels that differ. What stands behind a row is in behind.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.analysis.compared_figure import Figure, text_figure
from fx_explorer.analysis.diff import difference_in_words, text_diff
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.diff.kernel_pairs import IN_WORDS, Difference, KernelPair, kernel_pairs
from fx_explorer.instruments.diff.since_last.card import OF_DYNAMO, Aspect, Extent
from fx_explorer.instruments.diff.since_last.changes import (
    ChangedSource,
    changed_options,
    changed_sources,
)
from fx_explorer.instruments.diff.two_sessions import COMPILE_TIME, KEPT, figures_of_both
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name

ASPECTS: dict[str, Aspect] = {
    "graphs": "graphs",
    "graph breaks": "breaks",
    "recompiles": "recompiles",
    "kernels": "kernels",
    KEPT: "memory",
    COMPILE_TIME: "time",
}
"""Figure of ``diff`` → the line of the card that it is about."""

ALIKE: tuple[Difference, ...] = ("same", "device")
"""Pairs of kernels that are no row of their own."""

_OF_CAPTURES: dict[Difference, str] = {
    **IN_WORDS,
    "only left": "only before",
    "only right": "only now",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, a file, or a pair of kernels."""

    aspect: Aspect
    figure: Figure
    source: ChangedSource | None = None
    pair: KernelPair | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """All differences of two captures."""

    rows: tuple[Row, ...]
    pairs: tuple[KernelPair, ...]
    """The kernels of both, those that are the same among them."""

    def first_of(self, aspect: str) -> int:
        """Return the first row that is about something; else the first row."""
        return next((i for i, row in enumerate(self.rows) if row.aspect == aspect), 0)


def differences(before: SessionReader, after: SessionReader, extent: Extent = "all") -> Differences:
    """Return what differs, as far as it can be compared: what one of them never came to is left
    out.
    """
    pairs = kernel_pairs(before, after) if extent != "graphs" else []
    figures = figures_of_both(before, after)
    if extent == "graphs":
        figures = [figure for figure in figures if figure.what in OF_DYNAMO]
    return Differences(
        (
            *(
                Row(ASPECTS.get(figure.what.partition(",")[0], "others"), figure)
                for figure in figures
            ),
            *(_option_row(name, before, after) for name in changed_options(before, after)),
            *map(source_row, changed_sources(before, after)),
            *(_kernel_row(pair) for pair in pairs if pair.difference not in ALIKE),
        ),
        tuple(pairs),
    )


def _option_row(name: str, before: SessionReader, after: SessionReader) -> Row:
    sides = (str(getattr(reader.request(), name)) for reader in (before, after))
    return Row("others", text_figure(f"option {name}", *sides))


def source_row(source: ChangedSource) -> Row:
    """Return the row of a file that has another text."""
    before, after = source.before.splitlines(), source.after.splitlines()
    changed = difference_in_words(text_diff(before, after), "line")
    return Row(
        "source",
        Figure(f"→ {file_name(source.path)}", counted(len(before), "line"), changed, "", "other"),
        source,
    )


def _kernel_row(pair: KernelPair) -> Row:
    left, right = (side.kernel.name if side else "none" for side in (pair.left, pair.right))
    what = f"→ [{pair.compilation}] {pair.direction}".rstrip()
    return Row(
        "kernels", Figure(what, left, right, _OF_CAPTURES[pair.difference], "other"), pair=pair
    )
