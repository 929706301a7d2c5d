"""This module compares a capture of a program with the previous one: what the user changed in
source files and options, and the effects. ``since`` makes the card "since the last capture",
``differences`` the rows that its lines lead to, and ``rows_behind`` the list or text for each row.

Its figures are those that ``fx-explorer diff`` prints of the two sessions, as far as both of them
know them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.diff import DiffRow, DiffRows, Sign, describe_difference, text_diff
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.graph_alignment import NO_DIFFERENCE
from fx_explorer.analysis.measured_times import MINUS, Figure, Verdict, text_figure
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import (
    counted,
    first_line,
    format_node,
    listed,
    seconds,
    size,
    tensor,
)
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.diff.graph_pairs import GraphPair, graph_pairs, rows_of_pair
from fx_explorer.instruments.diff.kernel_pairs import (
    IN_WORDS,
    Difference,
    KernelPair,
    code_diff,
    kernel_pairs,
    pair_counts,
)
from fx_explorer.instruments.diff.paired_facts import PairedFact, paired_facts
from fx_explorer.instruments.diff.two_sessions import (
    COMPILE_TIME,
    KEPT,
    breaks_of_reader_alone,
    figures_of_both,
    paired_breaks,
)
from fx_explorer.instruments.kernels.counts import KernelUse
from fx_explorer.instruments.memory.saved_values import kept_bytes, saved_values, user_names
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.model import Outcome, SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import distinct_names, file_name, in_file
from fx_explorer.session.queries.compilations import sources_to_read

Aspect = Literal["source", "graphs", "breaks", "recompiles", "kernels", "memory", "time", "others"]
"""The subject of a line on the card. Each subject has its rows among the differences."""

Extent = Literal["nothing", "graphs", "all"]
"""How much of a session's figures can be compared: nothing, Dynamo's part, everything."""

OF_DYNAMO = ("backend", "compilations", "graphs", "graph breaks", "recompiles")
"""Figures that are final once Dynamo has finished, whatever is compiled later."""

HAVE_A_LINE = ("graphs", "graph breaks", "recompiles", "kernels", KEPT, COMPILE_TIME)
"""Figures with a line of their own on the card. The others are named together in one line."""

STILL_AHEAD = "Kernels, memory and time are compared once everything is compiled."
NOT_COMPILED_THEN = (
    "Kernels, memory and time are not compared: the last capture was stopped "
    "before compiling "
    "ended."
)


def since(
    before: SessionReader,
    after: SessionReader,
    *,
    was_through: bool = False,
    is_through: bool = False,
) -> list[Fact]:
    """Return the lines of the card. ``was_through`` and ``is_through`` say of the previous and of
    this session that Dynamo has seen the whole program, which a session without an outcome does not
    record.
    """
    then, now = extent_of(before, is_through=was_through), extent_of(after, is_through=is_through)
    extent = extent_of_both(then, now)
    if then == "nothing":
        return [_not_compared(before, is_first=True)]
    if now == "nothing":
        return [_not_compared(after, is_first=False)]
    if extent == "all":
        not_compared = ""
    elif now == "graphs":
        not_compared = STILL_AHEAD
    else:
        not_compared = NOT_COMPILED_THEN
    sources = changed_sources(before, after)
    figures = _figures(before, after)
    facts = list(_dynamo_lines(before, after, figures, extent))
    if extent == "all":
        facts += _later_lines(before, after, figures)
    if facts and extent == "all":
        facts.append(_time(figures[COMPILE_TIME]))
    if extent == "all" and _ended(before) != _ended(after):
        # One of them ended early: neither is better.
        facts = [replace(fact, severity="changed") for fact in facts]
    heading = _heading(before, after, sources, extent, is_same=not facts)
    return [replace(heading, detail=not_compared), *facts]


def extent_of(reader: SessionReader, *, is_through: bool) -> Extent:
    """Return how much of a session's figures can be compared. A program that raised an error has
    ended by itself, too.
    """
    if _ended(reader) in ("finished", "exited", "raised"):
        return "all"
    return "graphs" if is_through else "nothing"


def extent_of_both(then: Extent, now: Extent) -> Extent:
    """Return how far the figures of two sessions can be compared."""
    if "nothing" in (then, now):
        return "nothing"
    return "all" if then == now == "all" else "graphs"


def _ended(reader: SessionReader) -> str:
    outcome = reader.meta("outcome")
    return Outcome.from_json(outcome).kind if outcome else ""


def _not_compared(reader: SessionReader, *, is_first: bool) -> Fact:
    which = "the capture before this one" if is_first else "this capture"
    how = _NO_END.get(_ended(reader), "has not finished")
    text = f"What changed since the last capture is unknown: {which} {how}."
    return Fact("since", "changed", text, "They are compared once both have finished.")


_NO_END = {
    "cancelled": "was stopped",
    "killed": "was killed",
    "timed_out": "took longer than was allowed",
    "not_started": "could not be started",
    "incomplete": "is incomplete",
}
"""Kind of an outcome → how a sentence describes the capture."""


# the first line


def _heading(
    before: SessionReader,
    after: SessionReader,
    sources: Sequence[ChangedSource],
    extent: Extent,
    *,
    is_same: bool,
) -> Fact:
    """Return the card's first line: which files and options the user changed, and whether the
    figures differ.
    """
    options = changed_options(before, after)
    names = distinct_names(source.path for source in sources)
    edited = [f"{names[source.path]} ({_lines(source)})" for source in sources]
    done = edited + [f"the option {name}" for name in options]
    same = "the same graph breaks, recompiles and graphs"
    if extent == "all":
        same += ", kernels and memory"
    if not done and is_same:
        text = f"Nothing changed since the last capture: the same source, {same}."
        return Fact("since", "good", text)
    if not done:
        text = (
            "Since the last capture you changed no file and no option that is recorded, and "
            "still this differs:"
        )
        return Fact("since", "changed", text, difference="others")
    changed = f"Since the last capture you changed {listed(done)}"
    aspect = "source" if edited else "others"
    if is_same:
        text = f"{changed}, without an effect: {same}."
        return Fact("since", "good", text, difference=aspect)
    return Fact("since", "changed", f"{changed}. The effect:", difference=aspect)


def _lines(source: ChangedSource) -> str:
    return describe_difference(
        text_diff(source.before.splitlines(), source.after.splitlines()), "line"
    )


# the lines below it

_SEVERITIES: dict[Verdict, Severity] = {
    "better": "good",
    "worse": "problem",
    "other": "changed",
    "": "changed",
}


def _figures(before: SessionReader, after: SessionReader) -> dict[str, Figure]:
    """Return the figures of ``diff``, by their name without its suffix."""
    return {figure.what.partition(",")[0]: figure for figure in figures_of_both(before, after)}


def _dynamo_lines(
    before: SessionReader, after: SessionReader, figures: Mapping[str, Figure], extent: Extent
) -> Iterator[Fact]:
    breaks, recompiles = figures["graph breaks"], figures["recompiles"]
    gone, new = breaks_of_reader_alone(before, after), breaks_of_reader_alone(after, before)
    if breaks.differs or gone or new:
        yield _line(
            "Graph breaks", breaks, "breaks", _gone_and_new(map(_break, gone), map(_break, new))
        )
    causes_before, causes_now = _causes(before), _causes(after)
    if recompiles.differs or causes_before.keys() != causes_now.keys():
        text = _gone_and_new(_only(causes_before, causes_now), _only(causes_now, causes_before))
        yield _line("Recompiles", recompiles, "recompiles", text)
    if figures["graphs"].differs:
        yield _line("Graphs", figures["graphs"], "graphs")
    others = _without_a_line(figures, extent)
    if others:
        words = listed((f"{figure.what} {_arrow(figure)}" for figure in others), len(others))
        yield Fact("since", "changed", f"Also: {words}.", difference="others")


def _without_a_line(figures: Mapping[str, Figure], extent: Extent) -> list[Figure]:
    """Return the figures that differ and have no line of their own on the card."""
    others = []
    for name, figure in figures.items():
        has_a_line = name in HAVE_A_LINE or name.startswith(" ")
        is_final = extent == "all" or figure.what in OF_DYNAMO
        if figure.differs and not has_a_line and is_final:
            others.append(figure)
    return others


def _later_lines(
    before: SessionReader, after: SessionReader, figures: Mapping[str, Figure]
) -> Iterator[Fact]:
    counts = pair_counts(kernel_pairs(before, after))
    new, gone, changed = counts["only right"], counts["only left"], counts["code"] + counts["sizes"]
    if figures["kernels"].differs or new or gone or changed:
        text = f"Kernels: {_arrow(figures['kernels'])}{_of_these(new, gone, changed)}."
        yield Fact("since", "changed", text, difference="kernels")
    kept = figures.get(KEPT)
    if kept and kept.differs:
        fact = _line("Saved for the backward", kept, "memory")
        if fact.severity == "problem":
            fact = replace(fact, severity="notice")
        yield fact


def _of_these(new: int, gone: int, changed: int) -> str:
    """Return `` (+2 −1, 3 with other code)``; empty where no kernel is new, gone or changed."""
    counts = []
    if new:
        counts.append(f"+{new:,}")
    if gone:
        counts.append(f"{MINUS}{gone:,}")
    parts = []
    if counts:
        parts.append(" ".join(counts))
    if changed:
        parts.append(f"{changed:,} with other code")
    if not parts:
        return ""
    return f" ({', '.join(parts)})"


def _time(figure: Figure) -> Fact:
    words = "Within run-to-run noise." if figure.differs else ""
    return Fact("since", "changed", f"Compiling took {_arrow(figure)}.", words, difference="time")


def _line(what: str, figure: Figure, aspect: Aspect, text: str = "") -> Fact:
    return Fact(
        "since", _SEVERITIES[figure.verdict], f"{what}: {_arrow(figure)}.", text, difference=aspect
    )


def _arrow(figure: Figure) -> str:
    return f"{figure.left} → {figure.right}"


def _gone_and_new(gone: Iterable[str], new: Iterable[str]) -> str:
    """Return ``gone: model.py:5 print(x); new: …``."""
    sides = (("gone", listed(gone)), ("new", listed(new)))
    return "; ".join(f"{word}: {words}" for word, words in sides if words)


def _break(graph_break: DistinctBreak) -> str:
    if graph_break.file:
        return f"{in_file(graph_break.file, graph_break.line)} {graph_break.code}".strip()
    return first_line(graph_break.description)


def _only(causes: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    return [causes[key] for key in sorted(causes.keys() - others.keys())]


def _causes(reader: SessionReader) -> dict[str, str]:
    """Return key → cause for all causes of recompiles. The key is the same in both captures."""
    sentences = [first_line(recompile.description) for recompile in causes(reader)]
    return {cause_alone(sentence): sentence for sentence in sentences}


# When a recompile of two captures has the same cause, in words.

_OF_ONE_RUN = re.compile(r"\bline \d+|-?(?<!\d)\d+\.\d+(?:e[+-]?\d+)?")


def cause_alone(words: str) -> str:
    """Return the key of a cause: its text without line numbers, which move when lines are added
    above, and without computed values, which vary from run to run.
    """
    return _OF_ONE_RUN.sub("…", words)


# What the user changed.


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """A source file whose text has changed."""

    path: str
    before: str
    after: str


def changed_sources(before: SessionReader, after: SessionReader) -> list[ChangedSource]:
    """Return the files whose text has changed. A file that only one of the sessions read is left
    out.
    """
    old, new = (_texts(reader) for reader in (before, after))
    return [
        ChangedSource(path, old[path], new[path])
        for path in sorted({*old} & {*new})
        if old[path] != new[path]
    ]


def _texts(reader: SessionReader) -> dict[str, str]:
    rows = reader.by_ids(SourceFile, sources_to_read(reader))
    return {row.path: reader.text(row.text) for row in rows if row.text}


NO_OPTIONS = ("session", "pause", "stay", "trusts_target", "raised_inspecting")
"""Fields of a request that do not affect what is compiled: the path of the session, where the
compiler pauses.
"""


def changed_options(before: SessionReader, after: SessionReader) -> list[str]:
    """Return the names of the options of the request that differ: ``no_weights``."""
    old, new = before.request(), after.request()
    if old is None or new is None:
        return []
    names = (field.name for field in fields(old) if field.name not in NO_OPTIONS)
    return [name for name in names if getattr(old, name) != getattr(new, name)]


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


@dataclass(frozen=True, slots=True)
class Row:
    """One difference since the last capture: a figure, a source file, a guard, an option or a pass,
    or a pair of graphs or kernels.
    """

    aspect: Aspect
    figure: Figure
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
        """Return the first row about this subject; else the first row."""
        return next((i for i, row in enumerate(self.rows) if row.aspect == aspect), 0)


def differences(before: SessionReader, after: SessionReader, extent: Extent = "all") -> Differences:
    """Return the differences of two captures. Figures that one of them has not reached are left
    out.
    """
    pairs = kernel_pairs(before, after) if extent != "graphs" else []
    figures = figures_of_both(before, after)
    if extent == "graphs":
        figures = [figure for figure in figures if figure.what in OF_DYNAMO]
    rows = [_figure_row(figure) for figure in figures]
    rows += [_option_row(name, before, after) for name in changed_options(before, after)]
    rows += [source_row(source) for source in changed_sources(before, after)]
    graphs = [pair for pair in graph_pairs(before, after) if extent == "all" or _is_of_dynamo(pair)]
    rows += [_graph_row(pair) for pair in graphs if pair.difference != NO_DIFFERENCE]
    facts = paired_facts(before, after)
    rows += [_fact_row(fact) for fact in facts if extent == "all" or fact.kind in _EARLY]
    rows += [_kernel_row(pair) for pair in pairs if pair.difference not in ALIKE]
    return Differences(tuple(rows), tuple(pairs), tuple(graphs))


_EARLY = ("guard", "option")
"""Kinds of facts that are final once Dynamo has finished."""


def _is_of_dynamo(pair: GraphPair) -> bool:
    graph = pair.left or pair.right
    return graph is not None and graph.stage == "dynamo"


def _graph_row(pair: GraphPair) -> Row:
    figure = Figure(f"→ {_graph_name(pair)}", *_graph_sides(pair), pair.difference, "other")
    return Row("graphs", figure, graph=pair)


def _graph_name(pair: GraphPair) -> str:
    return f"[{pair.compilation}] {pair.title}"


def _graph_sides(pair: GraphPair) -> tuple[str, str]:
    left, right = pair.left, pair.right
    return (
        counted(left.node_count, "node") if left else "none",
        counted(right.node_count, "node") if right else "none",
    )


def _fact_row(fact: PairedFact) -> Row:
    sides = fact.left or "none", fact.right or "none"
    return Row("others", Figure(f"{fact.kind} {fact.name}", *sides, fact.words, "other"))


def _figure_row(figure: Figure) -> Row:
    name = figure.what.partition(",")[0]
    return Row(ASPECTS.get(name, "others"), figure)


def _option_row(name: str, before: SessionReader, after: SessionReader) -> Row:
    sides = (str(getattr(reader.request(), name)) for reader in (before, after))
    return Row("others", text_figure(f"option {name}", *sides))


def source_row(source: ChangedSource) -> Row:
    """Return the row of a source file whose text has changed."""
    length = counted(len(source.before.splitlines()), "line")
    figure = Figure(f"→ {file_name(source.path)}", length, _lines(source), "", "other")
    return Row("source", figure, source)


def _kernel_row(pair: KernelPair) -> Row:
    what = f"→ [{pair.compilation}] {pair.direction}".rstrip()
    left = pair.left.kernel.name if pair.left else "none"
    right = pair.right.kernel.name if pair.right else "none"
    figure = Figure(what, left, right, _OF_CAPTURES[pair.difference], "other")
    return Row("kernels", figure, pair=pair)


Lists = Callable[[SessionReader], list[str]]


def rows_behind(
    before: SessionReader, after: SessionReader, all_of_it: Differences, row: Row
) -> list[DiffRow[str]]:
    """Return, line by line, the list or text of both captures behind a figure."""
    if row.source:
        return text_diff(row.source.before.splitlines(), row.source.after.splitlines())
    if row.graph:
        return _in_text(rows_of_pair(before, after, row.graph))
    if row.pair:
        return code_diff(before, after, row.pair) or [_pair_row(row.pair)]
    if row.figure.what.startswith(" "):
        return _sides(row)  # a part of the figure above it
    if row.aspect == "breaks":
        return _first_what_differs([_break_row(*pair) for pair in paired_breaks(before, after)])
    if row.aspect == "kernels":
        return _first_what_differs([_pair_row(pair) for pair in all_of_it.pairs])
    if row.aspect == "graphs":
        # The figure counts Dynamo's; those of later stages have rows of their own.
        of_dynamo = filter(_is_of_dynamo, all_of_it.graphs)
        return _first_what_differs([_pair_of_graphs(pair) for pair in of_dynamo])
    if row.aspect == "time":
        return _times(before, after)
    lists = _LISTS.get(row.aspect)
    if not lists:
        return _sides(row)
    if row.aspect == "recompiles":
        return _by_text(lists(before), lists(after), cause_alone)
    return _by_text(lists(before), lists(after), str)


def _sides(row: Row) -> list[DiffRow[str]]:
    sign: Sign = "~" if row.figure.differs else " "
    return [DiffRow(sign, row.figure.left, row.figure.right)]


def _first_what_differs(rows: list[DiffRow[str]]) -> list[DiffRow[str]]:
    return sorted(rows, key=lambda row: row.sign == " ")


def _break_row(before: DistinctBreak | None, after: DistinctBreak | None) -> DiffRow[str]:
    """Return a break with the line number that it has on either side."""
    sign: Sign = " "
    if after is None:
        sign = "-"
    elif before is None:
        sign = "+"
    return DiffRow(sign, _break_cell(before), _break_cell(after))


def _break_cell(graph_break: DistinctBreak | None) -> str | None:
    if graph_break is None:
        return None
    if graph_break.file:
        where = f"{in_file(graph_break.file, graph_break.line)}  {graph_break.code}  "
    else:
        where = ""
    return f"{where}{first_line(graph_break.description)}"


_SIGNS: dict[Difference, Sign] = {
    "same": " ", "device": " ", "sizes": "~", "code": "~", "only left": "-", "only right": "+",
}  # fmt: skip


def _pair_row(pair: KernelPair) -> DiffRow[str]:
    return DiffRow(_SIGNS[pair.difference], _name(pair.left), _name(pair.right))


def _pair_of_graphs(pair: GraphPair) -> DiffRow[str]:
    left, right = _graph_sides(pair)
    name = _graph_name(pair)
    before = f"{name}: {left}" if pair.left else None
    after = f"{name}: {right}" if pair.right else None
    sign: Sign = " "
    if before is None:
        sign = "+"
    elif after is None:
        sign = "-"
    elif pair.difference != NO_DIFFERENCE:
        sign = "≈" if pair.is_same else "~"
        after = f"{after} · {pair.difference}"
    return DiffRow(sign, before, after)


def _in_text(rows: DiffRows[model.Node]) -> DiffRows[str]:
    """Return the rows of two graphs with each node as a line of code."""
    texts = DiffRows(DiffRow(row.sign, _node(row.before), _node(row.after)) for row in rows)
    texts.words, texts.is_cut = rows.words, rows.is_cut
    return texts


def _node(node: model.Node | None) -> str | None:
    return format_node(node) if node else None


def _name(use: KernelUse | None) -> str | None:
    return use.kernel.name if use else None


def _times(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    old, new = stage_times(before).by_stage, stage_times(after).by_stage
    rows = []
    for stage, words in STAGE_IN_WORDS.items():
        if stage not in old and stage not in new:
            continue
        left = f"{words}: {seconds(old.get(stage, 0.0))}"
        right = f"{words}: {seconds(new.get(stage, 0.0))}"
        sign: Sign = " " if left == right else "~"
        rows.append(DiffRow(sign, left, right))
    return rows


# lists of which the order does not matter


def _recompiles(reader: SessionReader) -> list[str]:
    return [
        f"{plain_function(recompile.function)}: {first_line(recompile.description)}"
        for recompile in causes(reader)
    ]


def _saved(reader: SessionReader) -> list[str]:
    values = saved_values(reader)
    names = user_names(reader, values)
    texts = []
    for value in values:
        saved = value.saved
        name = names.get(saved.id) or value.producer or saved.name
        kept = size(kept_bytes(saved) or 0)
        texts.append(f"{name}  {tensor(saved.dtype, saved.shape)}  {kept}")
    return texts


_LISTS: dict[Aspect, Lists] = {"recompiles": _recompiles, "memory": _saved}


def _by_text(
    before: Iterable[str], after: Iterable[str], key: Callable[[str], str]
) -> list[DiffRow[str]]:
    """Return the texts that only one side has, then those of both, however often and wherever they
    occur. Texts with the same ``key`` are the same.
    """
    old, new = _by_key(before, key), _by_key(after, key)
    only_old: list[DiffRow[str]] = []
    only_new: list[DiffRow[str]] = []
    shared: list[DiffRow[str]] = []
    for same, texts in old.items():
        new_texts = new.get(same, [])
        shared += [DiffRow(" ", *pair) for pair in zip(texts, new_texts, strict=False)]
        only_old += [DiffRow("-", text, None) for text in texts[len(new_texts) :]]
    for same, new_texts in new.items():
        texts = old.get(same, [])
        only_new += [DiffRow("+", None, text) for text in new_texts[len(texts) :]]
    return [*only_old, *only_new, *shared]


def _by_key(texts: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = {}
    for text in texts:
        by_key.setdefault(key(text), []).append(text)
    return by_key
