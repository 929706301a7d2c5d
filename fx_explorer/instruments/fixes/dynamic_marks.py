"""This module fixes recompiles: a size or number that varies is marked as dynamic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.naming import is_unfinished, plain_source
from fx_explorer.analysis.whole_session import SessionFigures
from fx_explorer.analysis.words import listed
from fx_explorer.instruments.dynamic.trial import VARIABLE, try_marks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.trial import Trial, Verdict, try_fix
from fx_explorer.instruments.recompiles.call_sizes import (
    local_source,
    out_of_reach,
    sizes_that_varied,
)
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.instruments.recompiles.guard_changes import GuardChange
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials import HERE, Told, TrialWorker, ignore_message


@dataclass(frozen=True, slots=True)
class SizeMark:
    """A size that is marked as dynamic together with another one."""

    source: str
    """The size in the form of torch's environment variable: ``L['mask']:1``."""
    name: str
    """The program's name of the tensor."""
    index: int


@dataclass(frozen=True, slots=True)
class DynamicMark:
    """One size or number to be treated as dynamic from the first compilation on."""

    source: str
    """The size or number in the form of torch's environment variable: ``L['x']:0``, ``L['k']``."""
    cause: ExplainedRecompile
    """The first recompile it may avoid."""
    with_it: tuple[SizeMark, ...] = ()
    """Sizes of other tensors that differed between the same two calls. Unless they are marked as
    well, torch still recompiles.
    """
    out_of_reach: frozenset[str] = frozenset()
    """Sizes in ``sources`` that no line of the user's code can reach before the call."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return all sizes to mark, in the form of torch's environment variable."""
        return (self.source, *(size_mark.source for size_mark in self.with_it))

    @property
    def title(self) -> str:
        """Name the fix: ``mark size 0 of x as dynamic``."""
        return f"mark {self.what} as dynamic"

    @property
    def what(self) -> str:
        """Describe the marked sizes: ``size 0 of x``."""
        change = self.cause.change
        which = "all sizes" if self.is_whole else f"size {change.index}"
        if change.index is None:
            first = change.name
        else:
            first = f"{which} of {change.name}"
        return listed(
            [first, *(f"size {size_mark.index} of {size_mark.name}" for size_mark in self.with_it)]
        )

    @property
    def is_whole(self) -> bool:
        """Return whether all sizes of the tensor are marked when one varies: older releases of
        torch cannot mark a single one.
        """
        return self.cause.change.index is not None and not re.search(r":\d+$", self.source)

    @property
    def instruction(self) -> str:
        """Describe how to mark the sizes as dynamic: by lines in the program where they have names,
        or by an option, without an edit.
        """
        if self.lines:
            return f"{' and '.join(self.lines)}, or {instruction([self])}"
        return instruction([self])

    @property
    def lines(self) -> list[str]:
        """Return the calls of ``mark_dynamic`` that the program can make; empty for a number that
        is not a size, and for tensors without a name in the program.
        """
        change = self.cause.change
        size_marks = [*self.with_it]
        if change.index is not None:
            size_marks.insert(0, SizeMark(self.source, change.name, change.index))
        finished = [mark for mark in size_marks if not is_unfinished(mark.source)]
        within_reach = [mark for mark in finished if mark.source not in self.out_of_reach]
        return [f"torch._dynamo.mark_dynamic({mark.name}, {mark.index})" for mark in within_reach]


def instruction(marks: Sequence[DynamicMark]) -> str:
    """Describe how to set the marks without an edit."""
    return f'{VARIABLE}="{",".join(sources_of(marks))}"'


def sources_of(marks: Sequence[DynamicMark]) -> tuple[str, ...]:
    """Return the sources of all sizes that these marks make dynamic, each once."""
    return tuple(dict.fromkeys(source for mark in marks for source in mark.sources))


def marks(reader: SessionReader) -> list[DynamicMark]:
    """Return a mark for each size or number that made torch recompile, in the order of the
    recompiles.
    """
    found: dict[str, DynamicMark] = {}
    one_size = bool(reader.meta("environment", {}).get("marks_one_size", True))
    for cause in causes(reader):
        source = _source(cause, one_size=one_size)
        if source:
            # One size can be the cause of many recompiles. The mark avoids all of them; the first
            # one names it.
            with_it = _with_it(reader, cause, source, one_size=one_size)
            beyond = _out_of_reach(
                reader, cause, (source, *(size_mark.source for size_mark in with_it))
            )
            found.setdefault(source, DynamicMark(source, cause, with_it, beyond))
    return list(found.values())


def _out_of_reach(
    reader: SessionReader, cause: ExplainedRecompile, sources: Iterable[str]
) -> frozenset[str]:
    compiled = next(iter(reader.rows(model.Compilation, name=cause.of)), None)
    if compiled is None:
        return frozenset()
    return frozenset(source for source in sources if out_of_reach(reader, source, compiled))


def _with_it(
    reader: SessionReader, cause: ExplainedRecompile, source: str, *, one_size: bool
) -> tuple[SizeMark, ...]:
    """Return the other sizes that differed in the same recompile: a longer ``input_ids`` comes with
    a longer ``attention_mask``.
    """
    before, after = (
        next(iter(reader.rows(model.Compilation, name=name)), None)
        for name in (cause.of, cause.compilation)
    )
    if before is None or after is None or cause.change.kind != "size":
        return ()
    size_marks = []
    for tensor, index in sizes_that_varied(reader, before, after):
        marked = f"{tensor}:{index}" if one_size else tensor
        if marked != source:
            size_marks.append(SizeMark(marked, plain_source(tensor, before), index))
    return tuple(size_marks)


def _source(cause: ExplainedRecompile, *, one_size: bool) -> str:
    """Return the source to mark; empty where a mark does not help: torch compiles sizes 0 and 1,
    and Python's floats, separately.

    ``one_size`` is whether the release of the session takes ``L['x']:0``.
    """
    change = cause.change
    if (
        change.kind == "size"
        and change.index is not None
        and not {change.old, change.new} & {"0", "1"}
    ):
        if one_size:
            return f"{_named(change)}:{change.index}"
        return _named(change)
    if change.kind == "number" and change.where != "global" and re.fullmatch(r"-?\d+", change.old):
        return _named(change)
    return ""


def _named(change: GuardChange) -> str:
    """Return the changed value as a source: ``L['batch']['ids']``."""
    if change.source.startswith("L["):
        return _SIZE.sub("", change.source)
    return local_source(change.name)


_SIZE = re.compile(r"\.size\(\)\[\d+\].*$")


def mark_fixes(reader: SessionReader, cause: ExplainedRecompile | None = None) -> list[Fix]:
    """Return fixes that mark sizes as dynamic: one for this recompile, and one for all sizes that
    vary. Without a cause, one for each mark and one for all.
    """
    dynamic_marks = marks(reader)
    chosen = dynamic_marks
    if cause is not None:
        chosen = [mark for mark in dynamic_marks if _avoids(mark, cause)]
    fixes = [_mark_fix(mark) for mark in chosen]
    if chosen and set(sources_of(dynamic_marks)) > set(chosen[0].sources):
        why = f"All that varied in this session: {', '.join(mark.what for mark in dynamic_marks)}."
        sources = sources_of(dynamic_marks)
        fixes.append(
            Fix(
                "mark all changing sizes as dynamic",
                why,
                line=chosen[0].cause.line,
                marks=sources,
                by_hand=_by_hand(dynamic_marks),
            )
        )
    return fixes


def _avoids(mark: DynamicMark, cause: ExplainedRecompile) -> bool:
    return _source(cause, one_size=not mark.is_whole) == mark.source


def _mark_fix(mark: DynamicMark) -> Fix:
    return Fix(
        mark.title,
        mark.cause.remedy,
        line=mark.cause.line,
        marks=mark.sources,
        by_hand=_by_hand([mark]),
    )


def _by_hand(wanted: Sequence[DynamicMark]) -> str:
    """Return the lines to add to the program, then the option that needs no edit."""
    lines = dict.fromkeys(line for mark in wanted for line in mark.lines)
    return "\n".join([*lines, f"# or, without an edit: {instruction(wanted)}"])


async def try_any(
    request: CaptureRequest,
    fix: Fix,
    before: SessionFigures,
    tell: Told = ignore_message,
    worker: TrialWorker = HERE,
) -> Trial:
    """Try a fix like ``try_fix``, also one that marks sizes. Marks affect how the program is
    compiled and not its results, so results are not compared.
    """
    if not fix.marks:
        return await try_fix(request, fix, before, tell, worker)
    tried = await try_marks(request, fix.marks, before.compilations, tell, worker)
    of_time: Verdict = "timed out" if tried.is_timed_out else "refused"
    verdict: Verdict = "good" if tried.is_good else of_time
    return Trial(
        fix,
        verdict,
        f"{tried.description}; results were not compared",
        before,
        None,
        None,
        tried.took_s,
    )
