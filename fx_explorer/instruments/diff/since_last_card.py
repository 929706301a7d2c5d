"""The card "since the last capture" says what changed from one capture of a program to the next:
what the user changed in source files and options, and what became of it.

Its figures are those that ``fx-explorer diff`` prints of the two sessions, as far as both of them
know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from fx_explorer.analysis.compared_figure import MINUS, Figure, Verdict
from fx_explorer.analysis.diff import difference_in_words, text_diff
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.words import first_line, listed
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.diff.kernel_pairs import kernel_pairs, pair_counts
from fx_explorer.instruments.diff.two_sessions import (
    COMPILE_TIME,
    KEPT,
    breaks_of_one,
    figures_of_both,
)
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.model import Outcome, SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import distinct_names, in_file
from fx_explorer.session.queries.compilations import sources_to_read

Aspect = Literal["source", "graphs", "breaks", "recompiles", "kernels", "memory", "time", "others"]
"""What a line of the card is about; each has its rows among the differences (differences.py)."""

Extent = Literal["nothing", "graphs", "all"]
"""How far the figures of a session can be compared: not at all, what Dynamo found, everything."""

OF_DYNAMO = ("backend", "compilations", "graphs", "graph breaks", "recompiles")
"""Figures that are final once Dynamo is through, whatever is compiled later."""

HAVE_A_LINE = ("graphs", "graph breaks", "recompiles", "kernels", KEPT, COMPILE_TIME)
"""Figures that the card has a line for. The others are named in one line."""

STILL_AHEAD = "Kernels, memory and time are compared once everything is compiled."
NOT_COMPILED_THEN = (
    "Kernels, memory and time are not compared: the last capture was left before it was compiled."
)


def since(
    before: SessionReader,
    after: SessionReader,
    *,
    was_through: bool = False,
    is_through: bool = False,
) -> list[Fact]:
    """Return the card. ``was_through`` and ``is_through`` say of the session before and of this one
    that Dynamo has seen the whole program, which a session without an outcome does not tell.
    """
    then, now = extent_of(before, is_through=was_through), extent_of(after, is_through=is_through)
    extent = extent_of_both(then, now)
    if extent == "nothing":
        return [_not_compared(before if then == "nothing" else after, is_first=then == "nothing")]
    not_compared = "" if extent == "all" else STILL_AHEAD if now == "graphs" else NOT_COMPILED_THEN
    sources = changed_sources(before, after)
    figures = _figures(before, after)
    facts = list(_dynamo_lines(before, after, figures, extent))
    if extent == "all":
        facts += _later_lines(before, after, figures)
    if facts and extent == "all":
        facts.append(_time(figures[COMPILE_TIME]))
    if extent == "all" and _ended(before) != _ended(after):
        facts = [
            replace(fact, severity="changed") for fact in facts
        ]  # one of them ended early: neither is better
    heading = _heading(before, after, sources, extent, is_same=not facts)
    return [replace(heading, detail=not_compared), *facts]


def extent_of(reader: SessionReader, *, is_through: bool) -> Extent:
    """Return how far the figures of a session can be compared. A program that raised an error came
    to an end of its own, too.
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
    how = _NO_END.get(_ended(reader), "has not come to its end")
    text = f"Nothing is said of what changed since the last capture: {which} {how}."
    return Fact("since", "changed", text, "Once both have come to their end, they are compared.")


_NO_END = {
    "cancelled": "was stopped",
    "killed": "was killed",
    "timed_out": "took longer than was allowed",
    "not_started": "could not be started",
    "incomplete": "is incomplete",
}
"""Kind of an outcome → what a sentence says of the capture."""


# the first line


def _heading(
    before: SessionReader,
    after: SessionReader,
    sources: Sequence[ChangedSource],
    extent: Extent,
    *,
    is_same: bool,
) -> Fact:
    """Return what was changed by the user, and whether anything came of it."""
    options = changed_options(before, after)
    names = distinct_names(source.path for source in sources)
    edited = [f"{names[source.path]} ({_lines(source)})" for source in sources]
    done = [*edited, *(f"the option {name}" for name in options)]
    same = "the same graph breaks, recompiles and graphs" + (
        ", kernels and memory" if extent == "all" else ""
    )
    if not done and is_same:
        return Fact(
            "since", "good", f"Nothing changed since the last capture: the same source, {same}."
        )
    if not done:
        text = (
            "Since the last capture you changed no file and no option that is recorded, and "
            "still this differs:"
        )
        return Fact("since", "changed", text, difference="others")
    changed = f"Since the last capture you changed {listed(done)}"
    if is_same:
        text = f"{changed}, without an effect: {same}."
    else:
        text = f"{changed}. The effect:"
    return Fact(
        "since", "good" if is_same else "changed", text, difference="source" if edited else "others"
    )


def _lines(source: ChangedSource) -> str:
    return difference_in_words(
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
    """Return the figures of ``diff``, by their name without what is added to it."""
    return {figure.what.partition(",")[0]: figure for figure in figures_of_both(before, after)}


def _dynamo_lines(
    before: SessionReader, after: SessionReader, figures: Mapping[str, Figure], extent: Extent
) -> Iterator[Fact]:
    breaks, recompiles = figures["graph breaks"], figures["recompiles"]
    gone, new = breaks_of_one(before, after), breaks_of_one(after, before)
    if breaks.differs or gone or new:
        yield _line("Graph breaks", breaks, "breaks", _told(map(_break, gone), map(_break, new)))
    causes_before, causes_now = _causes(before), _causes(after)
    if recompiles.differs or causes_before.keys() != causes_now.keys():
        text = _told(_only(causes_before, causes_now), _only(causes_now, causes_before))
        yield _line("Recompiles", recompiles, "recompiles", text)
    if figures["graphs"].differs:
        yield _line("Graphs", figures["graphs"], "graphs")
    others = [
        figure
        for name, figure in figures.items()
        if figure.differs and name not in HAVE_A_LINE and not name.startswith(" ")
    ]
    others = [figure for figure in others if extent == "all" or figure.what in OF_DYNAMO]
    if others:
        words = listed((f"{figure.what} {_arrow(figure)}" for figure in others), len(others))
        yield Fact("since", "changed", f"Also: {words}.", difference="others")


def _later_lines(
    before: SessionReader, after: SessionReader, figures: Mapping[str, Figure]
) -> Iterator[Fact]:
    counts = pair_counts(kernel_pairs(before, after))
    new, gone, changed = counts["only right"], counts["only left"], counts["code"] + counts["sizes"]
    if figures["kernels"].differs or new or gone or changed:
        count = " ".join([f"+{new:,}"] * bool(new) + [f"{MINUS}{gone:,}"] * bool(gone))
        parts = ", ".join(filter(None, (count, f"{changed:,} with other code" if changed else "")))
        of_these = f" ({parts})" if parts else ""
        yield Fact(
            "since",
            "changed",
            f"Kernels: {_arrow(figures['kernels'])}{of_these}.",
            difference="kernels",
        )
    kept = figures.get(KEPT)
    if kept and kept.differs:
        fact = _line("Saved for the backward", kept, "memory")
        yield replace(fact, severity="notice") if fact.severity == "problem" else fact


def _time(figure: Figure) -> Fact:
    words = "Within run-to-run noise." if figure.differs else ""
    return Fact("since", "changed", f"Compiling took {_arrow(figure)}.", words, difference="time")


def _line(what: str, figure: Figure, aspect: Aspect, text: str = "") -> Fact:
    return Fact(
        "since", _SEVERITIES[figure.verdict], f"{what}: {_arrow(figure)}.", text, difference=aspect
    )


def _arrow(figure: Figure) -> str:
    return f"{figure.left} → {figure.right}"


def _told(gone: Iterable[str], new: Iterable[str]) -> str:
    """Return ``gone: model.py:5 print(x); new: …``."""
    sides = (("gone", listed(gone)), ("new", listed(new)))
    return "; ".join(f"{word}: {words}" for word, words in sides if words)


def _break(graph_break: DistinctBreak) -> str:
    if graph_break.file:
        return f"{in_file(graph_break.file, graph_break.line)} {graph_break.code}".strip()
    return first_line(graph_break.in_words)


def _only(causes: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    return [causes[one] for one in sorted(causes.keys() - others.keys())]


def _causes(reader: SessionReader) -> dict[str, str]:
    """Return what tells the causes of recompiles apart → the cause."""
    return {
        cause_alone(words): words
        for words in (first_line(recompile.in_words) for recompile in causes(reader))
    }


# When a recompile of two captures has the same cause, in words.

_OF_ONE_RUN = re.compile(r"\bline \d+|-?(?<!\d)\d+\.\d+(?:e[+-]?\d+)?")


def cause_alone(words: str) -> str:
    """Return what tells one cause from another: the words without the number of a line, which moves
    when something is written above it, and without a computed value, which is another in each run.
    """
    return _OF_ONE_RUN.sub("…", words)


# What the user changed.


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """A source file that has another text now."""

    path: str
    before: str
    after: str


def changed_sources(before: SessionReader, after: SessionReader) -> list[ChangedSource]:
    """Return the files with other text. A file that only one of the sessions read is none of
    them.
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
"""Fields of a request that change nothing of what is compiled: where the session is written, where
the compiler pauses.
"""


def changed_options(before: SessionReader, after: SessionReader) -> list[str]:
    """Return the names of what was asked for otherwise, ``no_weights``."""
    old, new = before.request(), after.request()
    if old is None or new is None:
        return []
    names = (field.name for field in fields(old) if field.name not in NO_OPTIONS)
    return [name for name in names if getattr(old, name) != getattr(new, name)]
