"""Several mends as one: their edits merged file by file, their options together; tried and written as a whole.

One mend for each break is enough, and only good ones are taken: so the breaks are gone through, and the mends of each are tried
until one is good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fx_explorer.mending.mend import Mend
from fx_explorer.mending.trial import Trial
from fx_explorer.model.bounded_matching import changed_lines

TITLE = "all good mends together"


def unknown_yet(breaks: int) -> Mend:
    """What stands for it before anything was tried."""
    return Mend(TITLE, f"One good mend for each of the {breaks} breaks, as one edit. What was not tried yet is tried first.")


def is_whole(mend: Mend) -> bool:
    return mend.title == TITLE


@dataclass(frozen=True, slots=True)
class Together:
    mend: Mend
    taken: tuple[Mend, ...]
    left_out: tuple[str, ...]
    """Mends that do not go with the others, each with its reason."""


def next_to_try(breaks: Sequence[Sequence[Mend]], trials: Sequence[Trial]) -> Mend | None:
    """The first mend, of the mends of each break, that decides something: no other of its break is good, and it is not tried.

    None when all is known.
    """
    tried = [trial.mend for trial in trials]
    open_ones = (mends for mends in breaks if not _good(mends, trials))
    return next((mend for mends in open_ones for mend in mends if mend not in tried), None)


def together(breaks: Sequence[Sequence[Mend]], trials: Sequence[Trial]) -> Together | None:
    """None when fewer than two mends are good, or go with each other: one alone has been tried."""
    good = [mend for mends in breaks for mend in _good(mends, trials)]
    texts: dict[str, _Merged] = {}
    taken: list[Mend] = []
    left_out: list[str] = []
    for mend in dict.fromkeys(map(_Change, good)):
        reason = texts.setdefault(mend.of.path, _Merged(mend.of.before)).add(mend.of) if mend.of.path else ""
        if reason:
            left_out.append(f"{mend.of.title!r} (line {mend.of.line}) {reason}")
        else:
            taken.append(mend.of)
    return Together(_one(taken, texts, left_out), tuple(taken), tuple(left_out)) if len(taken) > 1 else None


def _good(mends: Sequence[Mend], trials: Sequence[Trial]) -> list[Mend]:
    """The first of them that is."""
    good = [trial.mend for trial in trials if trial.is_good]
    return [mend for mend in mends if mend in good][:1]


class _Change:
    """A mend; equal to others that do the same."""

    def __init__(self, mend: Mend) -> None:
        self.of = mend
        self._key = (mend.path, mend.after, str(mend.settings))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Change) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _one(taken: Sequence[Mend], texts: dict[str, _Merged], left_out: Sequence[str]) -> Mend:
    edits = [Mend(TITLE, "", path=path, before=merged.before, after=merged.text) for path, merged in texts.items()]
    first, *others = edits or [Mend(TITLE, "")]
    what = "; ".join(f"{mend.title} (line {mend.line})" for mend in sorted(taken, key=lambda one: (one.path, one.line)))
    return Mend(
        TITLE,
        ". ".join([f"In one go: {what}", *(f"Left out: {one}" for one in left_out)]) + ".",
        " ".join(dict.fromkeys(mend.risk for mend in taken if mend.risk)),
        min(mend.line for mend in taken),
        first.path,
        first.before,
        first.after,
        {name: value for mend in taken for name, value in mend.settings.items()},
        also=tuple(others),
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
    """The text of a file with the edits of several mends."""

    def __init__(self, before: str) -> None:
        self.before = before
        self._hunks: list[_Hunk] = []

    @property
    def text(self) -> str:
        return self._with(self._hunks)

    def add(self, mend: Mend) -> str:
        """Why it cannot be; empty when it is."""
        new = [hunk for hunk in _hunks(mend) if not any(hunk.is_as(other) for other in self._hunks)]
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


def _hunks(mend: Mend) -> Iterator[_Hunk]:
    before, after = (text.splitlines(keepends=True) for text in (mend.before, mend.after))
    for kind, first, last, new_first, new_last in changed_lines(before, after):
        if kind != "equal":
            yield _Hunk(first, last, tuple(after[new_first:new_last]), mend.title)
