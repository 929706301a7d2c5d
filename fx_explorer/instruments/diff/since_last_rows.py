"""The differences of two captures of a program are listed here row by row: what each line of the
card "since the last capture" leads to, and what stands behind each row.

First come the figures, which are those of ``fx-explorer diff``, then the options, source files and
kernels that differ. Behind a row stands the list of what a figure counts, or the text of a file or
kernel, side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.compared_figure import Figure, text_figure
from fx_explorer.analysis.diff import DiffRow, Sign, difference_in_words, text_diff
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, first_line, seconds, size, tensor
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.diff.kernel_pairs import (
    IN_WORDS,
    Difference,
    KernelPair,
    code_diff,
    kernel_pairs,
)
from fx_explorer.instruments.diff.since_last_card import (
    OF_DYNAMO,
    Aspect,
    ChangedSource,
    Extent,
    cause_alone,
    changed_options,
    changed_sources,
)
from fx_explorer.instruments.diff.two_sessions import (
    COMPILE_TIME,
    KEPT,
    figures_of_both,
    paired_breaks,
)
from fx_explorer.instruments.kernels.counts import KernelUse
from fx_explorer.instruments.memory.saved_values import kept_bytes, saved_values, user_names
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name, in_file

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


Lists = Callable[[SessionReader], list[str]]


def rows_behind(
    before: SessionReader, after: SessionReader, all_of_it: Differences, row: Row
) -> list[DiffRow[str]]:
    if row.source:
        return text_diff(row.source.before.splitlines(), row.source.after.splitlines())
    if row.pair:
        return code_diff(before, after, row.pair) or [_pair_row(row.pair)]
    if row.figure.what.startswith(" "):
        return _sides(row)  # a part of the figure above it
    if row.aspect == "breaks":
        return _first_what_differs([_break_row(*pair) for pair in paired_breaks(before, after)])
    if row.aspect == "kernels":
        return _first_what_differs([_pair_row(pair) for pair in all_of_it.pairs])
    if row.aspect == "time":
        return _times(before, after)
    lists = _LISTS.get(row.aspect)
    if not lists:
        return _sides(row)
    return _by_text(lists(before), lists(after), cause_alone if row.aspect == "recompiles" else str)


def _sides(row: Row) -> list[DiffRow[str]]:
    return [DiffRow("~" if row.figure.differs else " ", row.figure.left, row.figure.right)]


def _first_what_differs(rows: list[DiffRow[str]]) -> list[DiffRow[str]]:
    return sorted(rows, key=lambda row: row.sign == " ")


def _break_row(before: DistinctBreak | None, after: DistinctBreak | None) -> DiffRow[str]:
    """Return a break with the line number that it has on either side."""
    sides = [_break(graph_break) if graph_break else None for graph_break in (before, after)]
    return DiffRow("-" if after is None else "+" if before is None else " ", *sides)


def _break(graph_break: DistinctBreak) -> str:
    where = (
        f"{in_file(graph_break.file, graph_break.line)}  {graph_break.code}  "
        if graph_break.file
        else ""
    )
    return f"{where}{first_line(graph_break.in_words)}"


_SIGNS: dict[Difference, Sign] = {
    "same": " ", "device": " ", "sizes": "~", "code": "~", "only left": "-", "only right": "+",
}  # fmt: skip


def _pair_row(pair: KernelPair) -> DiffRow[str]:
    return DiffRow(_SIGNS[pair.difference], _name(pair.left), _name(pair.right))


def _name(use: KernelUse | None) -> str | None:
    return use.kernel.name if use else None


def _times(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    sides = [stage_times(reader).by_stage for reader in (before, after)]
    stages = [stage for stage in STAGE_IN_WORDS if any(stage in side for side in sides)]
    told = [
        [f"{STAGE_IN_WORDS[stage]}: {seconds(side.get(stage, 0.0))}" for stage in stages]
        for side in sides
    ]
    return [
        DiffRow("~" if one != other else " ", one, other) for one, other in zip(*told, strict=True)
    ]


# lists of which the order does not matter


def _graphs(reader: SessionReader) -> list[str]:
    rows = {row.id: row for row in reader.rows(model.Compilation) if row.status != "restarted"}
    graphs = [
        graph
        for graph in reader.rows(model.Graph, stage="dynamo", parent=0)
        if graph.compilation in rows
    ]
    return [
        (
            f"{plain_function(rows[graph.compilation].function)}: "
            f"{counted(graph.call_count, 'operation')}"
        )
        for graph in graphs
    ]


def _recompiles(reader: SessionReader) -> list[str]:
    return [
        f"{plain_function(recompile.function)}: {first_line(recompile.in_words)}"
        for recompile in causes(reader)
    ]


def _saved(reader: SessionReader) -> list[str]:
    values = saved_values(reader)
    names = user_names(reader, values)
    return [
        f"{names.get(value.saved.id) or value.producer or value.saved.name}  "
        f"{tensor(value.saved.dtype, value.saved.shape)}  {size(kept_bytes(value.saved) or 0)}"
        for value in values
    ]


_LISTS: dict[Aspect, Lists] = {"graphs": _graphs, "recompiles": _recompiles, "memory": _saved}


def _by_text(
    before: Iterable[str], after: Iterable[str], key: Callable[[str], str]
) -> list[DiffRow[str]]:
    """Return what only one side has, then what both have, however often and wherever it stands.
    ``key`` returns that of a text by which it is the same.
    """
    old, new = _by_key(before, key), _by_key(after, key)
    both = {one: min(len(old[one]), len(new[one])) for one in old if one in new}
    shared = [
        pair
        for one, count in both.items()
        for pair in zip(old[one][:count], new[one][:count], strict=True)
    ]
    return [
        *(
            DiffRow("-", text, None)
            for one, texts in old.items()
            for text in texts[both.get(one, 0) :]
        ),
        *(
            DiffRow("+", None, text)
            for one, texts in new.items()
            for text in texts[both.get(one, 0) :]
        ),
        *(DiffRow(" ", *pair) for pair in shared),
    ]


def _by_key(texts: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts:
        found.setdefault(key(text), []).append(text)
    return found
