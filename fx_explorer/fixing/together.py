"""Several fixes as one: their edits merged file by file, their options together; tried and written as a whole.

One fix for each break is enough, and only good ones are taken: so the breaks are gone through, and the fixes of each are tried
until one is good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fx_explorer.fixing.fix import Fix
from fx_explorer.fixing.trial import Trial
from fx_explorer.model.bounded_matching import changed_lines

TITLE = "all good fixes together"


def unknown_yet(breaks: int) -> Fix:
    """What stands for it before anything was tried."""
    return Fix(TITLE, f"One good fix for each of the {breaks} breaks, as one edit. What was not tried yet is tried first.")


def is_whole(fix: Fix) -> bool:
    return fix.title == TITLE


@dataclass(frozen=True, slots=True)
class Together:
    fix: Fix
    taken: tuple[Fix, ...]
    left_out: tuple[str, ...]
    """Fixes that do not go with the others, each with its reason."""


def next_to_try(breaks: Sequence[Sequence[Fix]], trials: Sequence[Trial]) -> Fix | None:
    """The first fix, of the fixes of each break, that decides something: no other of its break is good, and it is not tried.

    None when all is known.
    """
    tried = [trial.fix for trial in trials]
    open_ones = (fixes for fixes in breaks if not _good(fixes, trials))
    return next((fix for fixes in open_ones for fix in fixes if fix not in tried), None)


def together(breaks: Sequence[Sequence[Fix]], trials: Sequence[Trial]) -> Together | None:
    """Merge the good fixes into one; None when fewer than two are good, or go with each other: one
    alone has been tried."""
    good = [fix for fixes in breaks for fix in _good(fixes, trials)]
    texts: dict[str, _Merged] = {}
    taken: list[Fix] = []
    left_out: list[str] = []
    for fix in dict.fromkeys(map(_SourceChange, good)):
        reason = texts.setdefault(fix.of.path, _Merged(fix.of.before)).add(fix.of) if fix.of.path else ""
        if reason:
            left_out.append(f"{fix.of.title!r} (line {fix.of.line}) {reason}")
        else:
            taken.append(fix.of)
    return Together(_one(taken, texts, left_out), tuple(taken), tuple(left_out)) if len(taken) > 1 else None


def _good(fixes: Sequence[Fix], trials: Sequence[Trial]) -> list[Fix]:
    """The first of them that is."""
    good = [trial.fix for trial in trials if trial.is_good]
    return [fix for fix in fixes if fix in good][:1]


class _SourceChange:
    """A fix; equal to others that do the same."""

    def __init__(self, fix: Fix) -> None:
        self.of = fix
        self._key = (fix.path, fix.after, str(fix.settings))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SourceChange) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _one(taken: Sequence[Fix], texts: dict[str, _Merged], left_out: Sequence[str]) -> Fix:
    edits = [Fix(TITLE, "", path=path, before=merged.before, after=merged.text) for path, merged in texts.items()]
    first, *others = edits or [Fix(TITLE, "")]
    what = "; ".join(f"{fix.title} (line {fix.line})" for fix in sorted(taken, key=lambda one: (one.path, one.line)))
    return Fix(
        TITLE,
        ". ".join([f"In one go: {what}", *(f"Left out: {one}" for one in left_out)]) + ".",
        " ".join(dict.fromkeys(fix.risk for fix in taken if fix.risk)),
        min(fix.line for fix in taken),
        first.path,
        first.before,
        first.after,
        {name: value for fix in taken for name, value in fix.settings.items()},
        also=tuple(others),
        unseen="; ".join(dict.fromkeys(fix.unseen for fix in taken if fix.unseen)),
        untried="; ".join(dict.fromkeys(fix.untried for fix in taken if fix.untried)),
    )


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Lines ``first`` to ``last`` of the file, from 0 and less the last one, are replaced."""

    first: int
    last: int
    lines: tuple[str, ...]
    title: str = ""

    def is_as(self, other: _Hunk) -> bool:
        return (self.first, self.last, self.lines) == (other.first, other.last, other.lines)

    def is_in_the_way_of(self, other: _Hunk) -> bool:
        """Lines put at one place stand below each other."""
        return self.first < other.last and other.first < self.last


class _Merged:
    """The text of a file with the edits of several fixes."""

    def __init__(self, before: str) -> None:
        self.before = before
        self._hunks: list[_Hunk] = []

    @property
    def text(self) -> str:
        return self._with(self._hunks)

    def add(self, fix: Fix) -> str:
        """Why it cannot be; empty when it is."""
        new = [hunk for hunk in _hunks(fix) if not any(hunk.is_as(other) for other in self._hunks)]
        clashes = (other for hunk in new for other in self._hunks if hunk.is_in_the_way_of(other))
        clash = next(clashes, None)
        if clash:
            return f"edits line {clash.first + 1} as {clash.title!r} does: accept one, capture again, and try the other"
        try:
            cst.parse_module(self._with([*self._hunks, *new]))
        except cst.ParserSyntaxError:
            return "does not go with the others: the file could not be parsed"
        self._hunks += new
        return ""

    def _with(self, hunks: Sequence[_Hunk]) -> str:
        lines, position, pieces = self.before.splitlines(keepends=True), 0, []
        for hunk in sorted(hunks, key=lambda one: (one.first, one.last)):
            pieces += [*lines[position : hunk.first], *hunk.lines]
            position = hunk.last
        return "".join([*pieces, *lines[position:]])


def _hunks(fix: Fix) -> Iterator[_Hunk]:
    before, after = (text.splitlines(keepends=True) for text in (fix.before, fix.after))
    for kind, first, last, new_first, new_last in changed_lines(before, after):
        if kind != "equal":
            yield _Hunk(first, last, tuple(after[new_first:new_last]), fix.title)
