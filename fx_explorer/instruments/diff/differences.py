"""This module lists the differences of two captures of a program: figures, options, source files,
graphs, guards, passes and kernels, as rows. The lines of the card "since the last capture" lead to
them, and ``rows_behind`` has the list or text for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fx_explorer.analysis.alignment_words import NO_DIFFERENCE
from fx_explorer.analysis.measured_times import ComparedFigure, text_figure
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.diff.graph_pairs import GraphPair, graph_pairs, sizes_of_pairs
from fx_explorer.instruments.diff.kernel_pairs import (
    IN_WORDS,
    Difference,
    KernelPair,
    kernel_pairs,
)
from fx_explorer.instruments.diff.paired_facts import PairedFact, paired_facts
from fx_explorer.instruments.diff.two_sessions import COMPILE_TIME, KEPT, figures_of_both
from fx_explorer.instruments.diff.users_changes import (
    ChangedSource,
    changed_options,
    changed_sources,
)
from fx_explorer.model import Outcome
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name

Aspect = Literal[
    "summary", "source", "graphs", "breaks", "recompiles", "kernels", "memory", "time", "others"
]
"""The subject of a line on the card. Each subject has its rows among the differences."""


Extent = Literal["nothing", "graphs", "all"]
"""How much of a session's figures can be compared: nothing, Dynamo's part, everything."""

OF_DYNAMO = ("backend", "compilations", "graphs", "graph breaks", "recompiles")
"""Figures that are final once Dynamo has finished, whatever is compiled later."""


ASPECTS: dict[str, Aspect] = {
    "graphs": "graphs",
    "graph breaks": "breaks",
    "recompiles": "recompiles",
    "kernels": "kernels",
    KEPT: "memory",
    COMPILE_TIME: "time",
}
"""Figure of ``diff`` → the line of the card that shows it."""

ALIKE: tuple[Difference, ...] = ("same", "device")
"""Differences between kernels that get no row of their own."""

_OF_CAPTURES: dict[Difference, str] = {
    **IN_WORDS,
    "only left": "only before",
    "only right": "only now",
}


def extent_of(reader: SessionReader, *, is_through: bool) -> Extent:
    """Return how much of a session's figures can be compared. A program that raised an error has
    ended by itself, too.
    """
    if ending_of(reader) in ("finished", "exited", "raised"):
        return "all"
    return "graphs" if is_through else "nothing"


def extent_of_both(then: Extent, now: Extent) -> Extent:
    """Return how far the figures of two sessions can be compared."""
    if "nothing" in (then, now):
        return "nothing"
    return "all" if then == now == "all" else "graphs"


def ending_of(reader: SessionReader) -> str:
    """Return how a program ended; empty while it runs."""
    outcome = reader.meta("outcome")
    return Outcome.from_json(outcome).kind if outcome else ""


@dataclass(frozen=True, slots=True)
class Row:
    """One difference since the last capture: a figure, a source file, a guard, an option or a pass,
    or a pair of graphs or kernels.
    """

    aspect: Aspect
    figure: ComparedFigure
    source: ChangedSource | None = None
    pair: KernelPair | None = None
    graph: GraphPair | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """All differences of two captures."""

    rows: tuple[Row, ...]
    pairs: tuple[KernelPair, ...]
    """The kernels of both captures in pairs, including pairs without a difference."""
    graphs: tuple[GraphPair, ...] = ()
    """The graphs of both captures in pairs, including pairs without a difference."""

    def first_of(self, aspect: str) -> int:
        """Return the first row about this subject, for ``code`` the first kernel with other code;
        else the first row that differs.
        """
        if aspect == "code":
            candidates = [self._first_kernel("code"), self._first_kernel()]
        else:
            candidates = [_first(row.aspect == aspect for row in self.rows)]
        candidates.append(_first(row.figure.differs for row in self.rows))
        return next((line for line in candidates if line is not None), 0)

    def _first_kernel(self, difference: Difference | None = None) -> int | None:
        """Return the first row of a kernel, with ``difference`` of one that differs in this way."""
        return _first(
            row.pair is not None and difference in (None, row.pair.difference) for row in self.rows
        )


def _first(matches: Iterable[bool]) -> int | None:
    """Return the position of the first True; None if there is none."""
    return next((i for i, is_match in enumerate(matches) if is_match), None)


def differences(before: SessionReader, after: SessionReader, extent: Extent = "all") -> Differences:
    """Return the differences of two captures. Figures that one of them has not reached are left
    out.
    """
    pairs = kernel_pairs(before, after) if extent != "graphs" else []
    figures = figures_of_both(before, after)
    if extent == "graphs":
        figures = [figure for figure in figures if figure.what in OF_DYNAMO]
    rows = [_figure_row(figure) for figure in figures]
    facts = paired_facts(before, after)
    in_force = {fact.name for fact in facts if fact.kind == "option"}
    for option in changed_options(before, after):
        if in_force.isdisjoint((option.name, f"compile.{option.name}")):
            figure = text_figure(f"option {option.name}", option.left, option.right)
            rows.append(Row("others", figure))
    rows += [source_row(source) for source in changed_sources(before, after)]
    graphs = [pair for pair in graph_pairs(before, after) if extent == "all" or pair.is_of_dynamo]
    rows += [_graph_row(pair) for pair in graphs if pair.difference != NO_DIFFERENCE]
    rows += [_fact_row(fact) for fact in facts if extent == "all" or fact.kind in _EARLY]
    rows += [_kernel_row(pair) for pair in pairs if pair.difference not in ALIKE]
    return Differences((*_summary(rows, graphs), *rows), tuple(pairs), tuple(graphs))


def _summary(rows: Sequence[Row], graphs: Sequence[GraphPair]) -> list[Row]:
    """Return a first row that says what differs: sizes, and how many rows of each kind; no row
    where nothing does but times.
    """
    kinds = Counter(_kind_of(row) for row in rows if row.figure.differs)
    kinds.pop("", None)
    sizes = list(sizes_of_pairs(graphs))
    if not kinds and not sizes:
        return []
    left = listed([str(size) for size, _ in sizes], MOST_SIZES)
    right = listed([str(size) for _, size in sizes], MOST_SIZES)
    counts = listed([counted(count, kind) for kind, count in kinds.items()], len(kinds))
    what = "what differs: sizes" if sizes else "what differs"
    return [Row("summary", ComparedFigure(what, left, right, counts or "sizes only", "other"))]


def _kind_of(row: Row) -> str:
    """Return what the summary calls a row; empty for one that differs between any two captures."""
    if row.pair:
        return "kernel"
    if row.graph:
        return "" if row.graph.is_same else "graph"
    if row.source:
        return "file"
    if row.aspect == "time":
        return ""
    return "figure" if row.aspect != "others" else "other fact"


MOST_SIZES = 4
"""Maximum number of sizes that the summary lists."""


def differences_of_files(before: Path, after: SessionReader) -> Differences:
    """Return the differences of two ended captures, for the stages that both reached."""
    with SessionReader(before) as earlier:
        then, now = extent_of(earlier, is_through=False), extent_of(after, is_through=False)
        return differences(earlier, after, extent_of_both(then, now))


_EARLY = ("guard", "option")
"""Kinds of facts that are final once Dynamo has finished."""


def _graph_row(pair: GraphPair) -> Row:
    figure = ComparedFigure(f"→ {pair.name}", *pair.lengths, pair.difference, "other")
    return Row("graphs", figure, graph=pair)


def _fact_row(fact: PairedFact) -> Row:
    sides = fact.left or "none", fact.right or "none"
    return Row("others", ComparedFigure(f"{fact.kind} {fact.name}", *sides, fact.words, "other"))


def _figure_row(figure: ComparedFigure) -> Row:
    name = figure.what.partition(",")[0]
    return Row(ASPECTS.get(name, "others"), figure)


def source_row(source: ChangedSource) -> Row:
    """Return the row of a source file whose text has changed."""
    length = counted(len(source.before.splitlines()), "line")
    figure = ComparedFigure(f"→ {file_name(source.path)}", length, source.edit, "", "other")
    return Row("source", figure, source)


def _kernel_row(pair: KernelPair) -> Row:
    what = f"→ [{pair.compilation}] {pair.direction}".rstrip()
    left = pair.left.kernel.name if pair.left else "none"
    right = pair.right.kernel.name if pair.right else "none"
    figure = ComparedFigure(what, left, right, _OF_CAPTURES[pair.difference], "other")
    return Row("kernels", figure, pair=pair)
