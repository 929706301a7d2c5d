"""What changed from one capture of a program to the next, as facts: the card "since the last capture".

It claims what ``fx-explorer diff`` prints of the two sessions, and only what both of them know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.analysis.comparing.compare import Figure
from fx_explorer.analysis.comparing.kernel_pairs import kernel_pairs, pair_counts
from fx_explorer.analysis.comparing.two_sessions import COMPILE_TIME, breaks_of_one, figures_of_both
from fx_explorer.analysis.diff import difference_in_words, text_diff
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.recompiles.causes import causes
from fx_explorer.analysis.saved_values import saved_total
from fx_explorer.analysis.words import first_line, in_file, listed, told_apart
from fx_explorer.model import Outcome, SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.sources import sources_to_read

Aspect = Literal["source", "graphs", "breaks", "recompiles", "kernels", "memory", "time", "others"]
"""What a line of the card is about; each has its rows among the differences (differences.py)."""

Extent = Literal["nothing", "graphs", "all"]
"""How far the figures of a session can be compared: not at all, what Dynamo found, everything."""

OF_DYNAMO = ("backend", "compilations", "graphs", "graph breaks", "recompiles")
"""Figures that are final once Dynamo is through, whatever is compiled later."""

HAVE_A_LINE = ("graphs", "graph breaks", "recompiles", "kernels", "kept for the backward", COMPILE_TIME)
"""Figures that the card has a line for. The others are named in one line."""

STILL_AHEAD = "Kernels, memory and time are compared once everything is compiled."


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """A source file that both captures read, with other text in the second."""

    path: str
    before: str
    after: str


def since(before: SessionReader, after: SessionReader, *, was_through: bool = False, is_through: bool = False) -> list[Fact]:
    """Return the card. ``was_through`` and ``is_through`` say of the session before and of this one
    that Dynamo has seen the whole program, which a session without an outcome does not tell.
    """
    extents = (extent_of(before, is_through=was_through), extent_of(after, is_through=is_through))
    if "nothing" in extents:
        return [_not_compared(before if extents[0] == "nothing" else after, is_first=extents[0] == "nothing")]
    extent: Extent = "all" if extents == ("all", "all") else "graphs"
    sources = changed_sources(before, after)
    figures = _figures(before, after)
    found = list(_dynamo_lines(before, after, figures, extent))
    if extent == "all":
        found += _later_lines(before, after, figures)
    if found and extent == "all":
        found.append(_time(figures[COMPILE_TIME]))
    if _ended(before) != _ended(after):
        found = [replace(one, severity="changed") for one in found]  # one of them ended early: neither is better
    return [_heading(before, after, sources, extent, is_same=not found), *found]


def extent_of(reader: SessionReader, *, is_through: bool) -> Extent:
    """Return how far the figures of a session can be compared. A program that raised an error came to
    an end of its own, too.
    """
    if _ended(reader) in ("finished", "exited", "raised"):
        return "all"
    return "graphs" if is_through else "nothing"


def _ended(reader: SessionReader) -> str:
    outcome = reader.meta("outcome")
    return Outcome.from_json(outcome).kind if outcome else ""


def _not_compared(reader: SessionReader, *, is_first: bool) -> Fact:
    how = _ended(reader).replace("_", " ") or "not over"
    which = "the capture before this one" if is_first else "this capture"
    text = f"Nothing is said of what changed since the last capture: {which} is {how}."
    return Fact("since", "changed", text.replace("is cancelled", "was cancelled"), "r captures again, and compares.")


# the first line


def _heading(
    before: SessionReader, after: SessionReader, sources: Sequence[ChangedSource], extent: Extent, *, is_same: bool
) -> Fact:
    """Return what was changed by the user, and whether anything came of it."""
    ahead = "" if extent == "all" else STILL_AHEAD
    options = changed_options(before, after)
    names = told_apart(one.path for one in sources)
    edited = [f"{names[one.path]} ({_lines(one)})" for one in sources]
    done = [*edited, *(f"the option {name}" for name in options)]
    same = "the same graph breaks, recompiles and graphs" + (", kernels and memory" if extent == "all" else " so far")
    if not done and is_same:
        return Fact("since", "good", f"Nothing changed since the last capture: the same source, {same}.", ahead)
    if not done:
        text = "Since the last capture you changed no file and no option that is recorded, and still this differs:"
        return Fact("since", "changed", text, ahead, difference="others")
    changed = f"Since the last capture you changed {listed(done)}"
    text = f"{changed}, and nothing came of it: {same}." if is_same else f"{changed}. What came of it:"
    return Fact("since", "good" if is_same else "changed", text, ahead, difference="source" if edited else "others")


def _lines(one: ChangedSource) -> str:
    return difference_in_words(text_diff(one.before.splitlines(), one.after.splitlines()), "line")


def changed_sources(before: SessionReader, after: SessionReader) -> list[ChangedSource]:
    """Return the files with other text. A file that only one of the sessions read is none of them."""
    old, new = (_texts(reader) for reader in (before, after))
    return [ChangedSource(path, old[path], new[path]) for path in sorted({*old} & {*new}) if old[path] != new[path]]


def _texts(reader: SessionReader) -> dict[str, str]:
    rows = reader.by_ids(SourceFile, sources_to_read(reader))
    return {row.path: reader.text(row.text) for row in rows if row.text}


def changed_options(before: SessionReader, after: SessionReader) -> list[str]:
    """Return the names of what was asked for otherwise, ``no_weights``; where the session is written
    and where it pauses is no difference.
    """
    old, new = before.request(), after.request()
    if old is None or new is None:
        return []
    names = (field.name for field in fields(old) if field.name not in ("session", "pause", "stay", "trusts_target"))
    return [name for name in names if getattr(old, name) != getattr(new, name)]


# the lines below it


def _figures(before: SessionReader, after: SessionReader) -> dict[str, Figure]:
    """Return the figures of ``diff``, by their name without what is added to it."""
    return {one.what.partition(",")[0]: one for one in figures_of_both(before, after)}


def _dynamo_lines(before: SessionReader, after: SessionReader, figures: Mapping[str, Figure], extent: Extent) -> Iterator[Fact]:
    gone, new = breaks_of_one(before, after), breaks_of_one(after, before)
    if figures["graph breaks"].differs or gone or new:
        told = [*_told("gone", map(_break, gone)), *_told("new", map(_break, new))]
        yield _line("Graph breaks", figures["graph breaks"], "breaks", told)
    again = [_causes(reader) for reader in (before, after)]
    if figures["recompiles"].differs or again[0] != again[1]:
        gone_causes, new_causes = (sorted(one - other) for one, other in (again, reversed(again)))
        yield _line("Recompiles", figures["recompiles"], "recompiles", [*_told("gone", gone_causes), *_told("new", new_causes)])
    if figures["graphs"].differs:
        yield Fact("since", "changed", f"Graphs: {_arrow(figures['graphs'])}.", difference="graphs")
    others = [one for name, one in figures.items() if one.differs and name not in HAVE_A_LINE]
    others = [one for one in others if extent == "all" or one.what in OF_DYNAMO]
    top = [one for one in others if not one.what.startswith(" ")]
    if top:
        words = listed((f"{one.what} {_arrow(one)}" for one in top), len(top))
        yield Fact("since", "changed", f"Also: {words}.", difference="others")


def _later_lines(before: SessionReader, after: SessionReader, figures: Mapping[str, Figure]) -> Iterator[Fact]:
    counts = pair_counts(kernel_pairs(before, after))
    changed = counts["code"] + counts["sizes"]
    if figures["kernels"].differs or counts["only left"] or counts["only right"] or changed:
        parts = [f"+{counts['only right']} −{counts['only left']}"] if counts["only left"] or counts["only right"] else []
        parts += [f"{changed:,} with other code"] if changed else []
        of_these = f" ({listed(parts)})" if parts else ""
        yield Fact("since", "changed", f"Kernels: {_arrow(figures['kernels'])}{of_these}.", difference="kernels")
    saved = [saved_total(reader).size_bytes for reader in (before, after)]
    figure = figures["kept for the backward"]
    if figure.differs:
        severity: Severity = "good" if saved[1] < saved[0] else "notice"
        yield Fact("since", severity, f"Kept for the backward: {_arrow(figure)}.", difference="memory")


def _time(figure: Figure) -> Fact:
    words = "Two captures of one program differ in this, too." if figure.differs else ""
    return Fact("since", "changed", f"Compiling took {_arrow(figure)}.", words, difference="time")


def _line(what: str, figure: Figure, aspect: Aspect, told: Sequence[str]) -> Fact:
    """Return a line of which less is better."""
    left, right = (int(side.replace(",", "")) for side in (figure.left, figure.right))
    severity: Severity = "good" if right < left else "problem" if right > left else "changed"
    return Fact("since", severity, f"{what}: {_arrow(figure)}.", "; ".join(told), difference=aspect)


def _arrow(figure: Figure) -> str:
    return f"{figure.left} → {figure.right}"


def _told(word: str, what: Iterable[str]) -> list[str]:
    words = listed(what)
    return [f"{word}: {words}"] if words else []


def _break(one: DistinctBreak) -> str:
    return f"{in_file(one.file, one.line)} {one.code}".strip() if one.file else first_line(one.in_words)


def _causes(reader: SessionReader) -> set[str]:
    return {first_line(one.in_words) for one in causes(reader)}
