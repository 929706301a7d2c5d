"""This module makes the card "since the last capture": what the user changed in source files and
options, and the effects. Its lines lead to the rows of ``differences``.

Its figures are those that ``fx-explorer diff`` prints of the two sessions, as far as both of them
know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.measured_times import MINUS, ComparedFigure, Verdict
from fx_explorer.analysis.words import first_line, listed
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.diff.differences import (
    OF_DYNAMO,
    Aspect,
    Extent,
    ending_of,
    extent_of,
    extent_of_both,
)
from fx_explorer.instruments.diff.kernel_pairs import kernel_pairs, pair_counts
from fx_explorer.instruments.diff.two_sessions import (
    COMPILE_TIME,
    KEPT,
    breaks_of_reader_alone,
    cause_alone,
    figures_of_both,
)
from fx_explorer.instruments.diff.users_changes import (
    ChangedSource,
    changed_options,
    changed_sources,
)
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import distinct_names, in_file

HAVE_A_LINE = ("graphs", "graph breaks", "recompiles", "kernels", KEPT, COMPILE_TIME)
"""Figures with a line of their own on the card. The others are named together in one line."""

STILL_AHEAD = "Kernels, memory and time are compared when everything is compiled."
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
    if extent == "all" and ending_of(before) != ending_of(after):
        # One of them ended early: neither is better.
        facts = [replace(fact, severity="changed") for fact in facts]
    heading = _heading(before, after, sources, extent, is_same=not facts)
    return [replace(heading, detail=not_compared), *facts]


def _not_compared(reader: SessionReader, *, is_first: bool) -> Fact:
    which = "the previous capture" if is_first else "this capture"
    how = _NO_END.get(ending_of(reader), "has not finished")
    text = f"What changed since the last capture is unknown: {which} {how}."
    return Fact("since", "changed", text, "They are compared when both have finished.")


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
    edited = [f"{names[source.path]} ({source.edit})" for source in sources]
    done = edited + [f"the option {option.name}" for option in options]
    same = "the same graph breaks, recompiles and graphs"
    if extent == "all":
        same += ", kernels and memory"
    if not done and is_same:
        text = f"Nothing changed since the last capture: the same source, {same}."
        return Fact("since", "good", text)
    if not done:
        text = (
            "Since the last capture you changed no file and no recorded option, but these still "
            "differ:"
        )
        return Fact("since", "changed", text, difference="others")
    changed = f"Since the last capture you changed {listed(done)}"
    aspect = "source" if edited else "others"
    if is_same:
        text = f"{changed}, without an effect: {same}."
        return Fact("since", "good", text, difference=aspect)
    return Fact("since", "changed", f"{changed}. The effect:", difference=aspect)


# the lines below it

_SEVERITIES: dict[Verdict, Severity] = {
    "better": "good",
    "worse": "problem",
    "other": "changed",
    "": "changed",
}


def _figures(before: SessionReader, after: SessionReader) -> dict[str, ComparedFigure]:
    """Return the figures of ``diff``, by their name without its suffix."""
    return {figure.what.partition(",")[0]: figure for figure in figures_of_both(before, after)}


def _dynamo_lines(
    before: SessionReader,
    after: SessionReader,
    figures: Mapping[str, ComparedFigure],
    extent: Extent,
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


def _without_a_line(figures: Mapping[str, ComparedFigure], extent: Extent) -> list[ComparedFigure]:
    """Return the figures that differ and have no line of their own on the card."""
    others = []
    for name, figure in figures.items():
        has_a_line = name in HAVE_A_LINE or name.startswith(" ")
        is_final = extent == "all" or figure.what in OF_DYNAMO
        if figure.differs and not has_a_line and is_final:
            others.append(figure)
    return others


def _later_lines(
    before: SessionReader, after: SessionReader, figures: Mapping[str, ComparedFigure]
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


def _time(figure: ComparedFigure) -> Fact:
    words = "Within run-to-run noise." if figure.differs else ""
    return Fact("since", "changed", f"Compiling took {_arrow(figure)}.", words, difference="time")


def _line(what: str, figure: ComparedFigure, aspect: Aspect, text: str = "") -> Fact:
    return Fact(
        "since", _SEVERITIES[figure.verdict], f"{what}: {_arrow(figure)}.", text, difference=aspect
    )


def _arrow(figure: ComparedFigure) -> str:
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
