"""Fixes of a recompile: a size or number that varies is marked as dynamic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.analysis.naming.sources import is_unfinished
from fx_explorer.analysis.recompiles.call_sizes import local_source
from fx_explorer.analysis.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.analysis.recompiles.changes import GuardChange
from fx_explorer.analysis.whole_session.figures import SessionFigures
from fx_explorer.fixing.fix import Fix
from fx_explorer.fixing.trial import Trial, Verdict, try_fix
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials.dynamic_marks import VARIABLE, try_marks
from fx_explorer.trials.recapture import HERE, TrialWorker


@dataclass(frozen=True, slots=True)
class DynamicMark:
    """One size or number to be taken for variable from the first compilation on."""

    source: str
    """The size or number as the environment variable takes it: ``L['x']:0``, ``L['k']``."""
    cause: ExplainedRecompile
    """The first recompile it may avoid."""

    @property
    def title(self) -> str:
        """Name the fix: ``mark size 0 of x as dynamic``."""
        return f"mark {self.what} as dynamic"

    @property
    def what(self) -> str:
        """Return what is marked: ``size 0 of x``."""
        change = self.cause.change
        which = "all sizes" if self.is_whole else f"size {change.index}"
        return change.name if change.index is None else f"{which} of {change.name}"

    @property
    def is_whole(self) -> bool:
        """Return whether it marks all sizes of the tensor when one varies: older releases of torch
        cannot mark a single one.
        """
        return self.cause.change.index is not None and not re.search(r":\d+$", self.source)

    @property
    def instruction(self) -> str:
        """Say how it is done: in a line of the program where there is one for it, and without an
        edit.
        """
        return f"{self.line}, or {instruction([self])}" if self.line else instruction([self])

    @property
    def line(self) -> str:
        """Return the line of the program that does it; empty for a number, and for what has no name
        there.
        """
        change = self.cause.change
        named = change.index is not None and not is_unfinished(change.source)
        return f"torch._dynamo.mark_dynamic({change.name}, {change.index})" if named else ""


def instruction(marks: Sequence[DynamicMark]) -> str:
    """Say how to set the marks without an edit."""
    return f'{VARIABLE}="{",".join(mark.source for mark in marks)}"'


def marks(reader: SessionReader) -> list[DynamicMark]:
    """List a mark for each size or number that made torch compile again, in the order of the
    recompiles.
    """
    found: dict[str, DynamicMark] = {}
    # Sessions of earlier versions do not say it.
    one_size = bool(reader.meta("environment", {}).get("marks_one_size", True))
    for cause in causes(reader):
        source = _source(cause, one_size=one_size)
        if source:
            # One size can be the cause of many recompiles. The mark avoids all of them; the first
            # one names it.
            found.setdefault(source, DynamicMark(source, cause))
    return list(found.values())


def _source(cause: ExplainedRecompile, *, one_size: bool) -> str:
    """Return the source to mark; empty where a mark does not help: sizes 0 and 1, and Python's
    floats, are compiled apart.

    ``one_size`` is whether the release of the session takes ``L['x']:0``.
    """
    change = cause.change
    if change.kind == "size" and change.index is not None and not {change.old, change.new} & {"0", "1"}:
        return f"{_named(change)}:{change.index}" if one_size else _named(change)
    if change.kind == "number" and change.where != "global" and re.fullmatch(r"-?\d+", change.old):
        return _named(change)
    return ""


def _named(change: GuardChange) -> str:
    """Return what changed as a source: ``L['batch']['ids']``."""
    if change.source.startswith("L["):
        return _SIZE.sub("", change.source)
    return local_source(change.name)


_SIZE = re.compile(r"\.size\(\)\[\d+\].*$")


def mark_fixes(reader: SessionReader, cause: ExplainedRecompile | None = None) -> list[Fix]:
    """Return marks as fixes: the one that avoids this recompile, and all together; without a cause,
    all of them.
    """
    found = marks(reader)
    chosen = [mark for mark in found if cause is None or _source(cause, one_size=not mark.is_whole) == mark.source]
    fixes = [
        Fix(mark.title, mark.cause.remedy, line=mark.cause.line, marks=(mark.source,), by_hand=_by_hand([mark]))
        for mark in chosen
    ]
    if len(found) > 1 and chosen:
        why = f"All that vary in this session: {', '.join(mark.what for mark in found)}."
        sources = tuple(mark.source for mark in found)
        fixes.append(
            Fix("mark all that vary as dynamic", why, line=chosen[0].cause.line, marks=sources, by_hand=_by_hand(found))
        )
    return fixes


def _by_hand(wanted: Sequence[DynamicMark]) -> str:
    """Return the lines of the program, then the way without an edit."""
    lines = [mark.line for mark in wanted if mark.line]
    return "\n".join([*lines, f"# or, without an edit: {instruction(wanted)}"])


async def try_any(request: CaptureRequest, fix: Fix, before: SessionFigures, worker: TrialWorker = HERE) -> Trial:
    """Try a fix like ``try_fix``, also one that marks sizes. Marks change what is compiled and
    nothing that is computed, so results are not compared.
    """
    if not fix.marks:
        return await try_fix(request, fix, before, worker)
    tried = await try_marks(request, fix.marks, before.compilations, worker)
    verdict: Verdict = "good" if tried.is_good else "refused"
    return Trial(fix, verdict, f"{tried.in_words}; results were not compared", before, None, None, tried.took_s)
