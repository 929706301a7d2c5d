"""The differences of two captures of a program, row by row: what each line of the card leads to.

The figures are those of ``fx-explorer diff``; behind each stands the list of what it counts, with
what is gone, new or changed. Then come the source files and the kernels that differ, with their
text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.analysis.comparing.compare import Figure
from fx_explorer.analysis.comparing.kernel_pairs import IN_WORDS, KernelPair, code_diff, kernel_pairs
from fx_explorer.analysis.comparing.two_sessions import COMPILE_TIME, breaks_of_one, figures_of_both
from fx_explorer.analysis.diff import DiffRow, Sign, text_diff
from fx_explorer.analysis.kernels.counts import KernelUse
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.recompiles.causes import causes
from fx_explorer.analysis.saved_values import kept_bytes, saved_values, user_names
from fx_explorer.analysis.since_last.card import Aspect, ChangedSource, changed_options, changed_sources
from fx_explorer.analysis.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.analysis.words import counted, file_name, first_line, in_file, seconds, size, tensor
from fx_explorer.session import SessionReader

_ASPECTS: dict[str, Aspect] = {
    "graphs": "graphs",
    "graph breaks": "breaks",
    "recompiles": "recompiles",
    "kernels": "kernels",
    "kept for the backward": "memory",
    COMPILE_TIME: "time",
}
"""Figure of ``diff`` → the line of the card that it is about."""

_SIGNS: dict[str, Sign] = {"same": " ", "device": " ", "sizes": "~", "code": "~", "only left": "-", "only right": "+"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A row: a figure, a file, or a pair of kernels."""

    aspect: Aspect
    figure: Figure
    differs: bool
    source: ChangedSource | None = None
    pair: KernelPair | None = None


def differences(before: SessionReader, after: SessionReader) -> list[Difference]:
    """Return all figures, the options that differ, then what differs by its text."""
    rows = [_of_figure(figure) for figure in figures_of_both(before, after)]
    rows += [_of_option(name, before, after) for name in changed_options(before, after)]
    rows += [of_source(one) for one in changed_sources(before, after)]
    rows += [_of_kernels(pair) for pair in kernel_pairs(before, after) if _SIGNS[pair.difference] != " "]
    return rows


def _of_figure(figure: Figure) -> Difference:
    aspect = _ASPECTS.get(figure.what.partition(",")[0], "others")
    return Difference(aspect, figure, figure.differs and aspect != "time")


def _of_option(name: str, before: SessionReader, after: SessionReader) -> Difference:
    sides = (str(getattr(reader.request(), name)) for reader in (before, after))
    return Difference("others", Figure(f"option {name}", *sides), differs=True)


def of_source(one: ChangedSource) -> Difference:
    """Return the row of a file that has another text."""
    sides = (counted(len(text.splitlines()), "line") for text in (one.before, one.after))
    return Difference("source", Figure(f"→ {file_name(one.path)}", *sides), differs=True, source=one)


def _of_kernels(pair: KernelPair) -> Difference:
    left, right = (side.kernel.name if side else "none" for side in (pair.left, pair.right))
    what = f"→ [{pair.compilation}] {pair.direction} {IN_WORDS[pair.difference]}"
    what = what.replace("only in the first", "only before").replace("only in the second", "only now")
    return Difference("kernels", Figure(" ".join(what.split()), left, right), differs=True, pair=pair)


def rows_of(before: SessionReader, after: SessionReader, one: Difference) -> list[DiffRow[str]]:
    """Return what stands behind a row, side by side."""
    if one.source:
        return text_diff(one.source.before.splitlines(), one.source.after.splitlines())
    if one.pair:
        return code_diff(before, after, one.pair) or [DiffRow("~", _use(one.pair.left), _use(one.pair.right))]
    lists = _LISTS.get(one.aspect)
    if lists is None:
        sign: Sign = "~" if one.figure.differs else " "
        return [DiffRow(sign, one.figure.left, one.figure.right)]
    return lists(before, after)


def _graphs(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    return _by_text(*(_graph_lines(reader) for reader in (before, after)))


def _graph_lines(reader: SessionReader) -> list[str]:
    rows = {row.id: row for row in reader.rows(model.Compilation)}
    graphs = [graph for graph in reader.rows(model.Graph, stage="dynamo", parent=0) if graph.compilation in rows]
    return [f"{plain_function(rows[graph.compilation].function)}: {counted(graph.call_count, 'operation')}" for graph in graphs]


def _breaks(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    """Return the breaks that are gone or new; those of both sessions beside each other, each with its
    own line number.
    """
    gone, new = breaks_of_one(before, after), breaks_of_one(after, before)
    stay = [[one for one in distinct_breaks(reader) if one not in alone] for reader, alone in ((before, gone), (after, new))]
    by_cause = {(one.file, one.code, one.registry_id or one.reason): one for one in stay[1]}
    pairs = [(one, by_cause.get((one.file, one.code, one.registry_id or one.reason))) for one in stay[0]]
    return [
        *(DiffRow[str]("-", _break(one), None) for one in gone),
        *(DiffRow[str]("+", None, _break(one)) for one in new),
        *(DiffRow[str](" ", _break(one), _break(other) if other else None) for one, other in pairs),
    ]


def _break(one: DistinctBreak) -> str:
    where = f"{in_file(one.file, one.line)}  {one.code}  " if one.file else ""
    return f"{where}{first_line(one.in_words)}"


def _recompiles(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    sides = ([f"{plain_function(one.function)}: {first_line(one.in_words)}" for one in causes(r)] for r in (before, after))
    return _by_text(*sides)


def _kernels(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    pairs = sorted(kernel_pairs(before, after), key=lambda pair: _SIGNS[pair.difference] == " ")
    return [DiffRow(_SIGNS[pair.difference], _use(pair.left), _use(pair.right)) for pair in pairs]


def _use(use: KernelUse | None) -> str | None:
    return use.kernel.name if use else None


def _memory(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    return _by_text(*(_saved_lines(reader) for reader in (before, after)))


def _saved_lines(reader: SessionReader) -> list[str]:
    values = saved_values(reader)
    names = user_names(reader, values)
    return [
        f"{names.get(one.saved.id) or one.producer or one.saved.name}  {tensor(one.saved.dtype, one.saved.shape)}  "
        f"{size(kept_bytes(one.saved) or 0)}"
        for one in values
    ]


def _time(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    sides = [stage_times(reader).by_stage for reader in (before, after)]
    stages = [stage for stage in STAGE_IN_WORDS if any(stage in side for side in sides)]
    told = [[f"{STAGE_IN_WORDS[stage]}: {seconds(side.get(stage, 0.0))}" for stage in stages] for side in sides]
    return [DiffRow("~" if one != other else " ", one, other) for one, other in zip(*told, strict=True)]


_LISTS: dict[Aspect, Callable[[SessionReader, SessionReader], list[DiffRow[str]]]] = {
    "graphs": _graphs,
    "breaks": _breaks,
    "recompiles": _recompiles,
    "kernels": _kernels,
    "memory": _memory,
    "time": _time,
}


def _by_text(before: Iterable[str], after: Iterable[str]) -> list[DiffRow[str]]:
    """Return what only one side has, then what both have, however often and wherever it stands."""
    old, new = Counter(before), Counter(after)
    return [
        *(DiffRow[str]("-", text, None) for text in _each(old - new)),
        *(DiffRow[str]("+", None, text) for text in _each(new - old)),
        *(DiffRow[str](" ", text, text) for text in _each(old & new)),
    ]


def _each(counts: Counter[str]) -> Sequence[str]:
    return list(counts.elements())
