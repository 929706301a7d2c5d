"""This module lists the fixes that a session offers for a graph break, or the reason why it has
none, and whether they can be tried. Good fixes can be combined, and written to the user's files.

``offer`` is all that a session has for one break, ``proposals`` are its fixes, ``together`` merges
the edits and options of several into one fix, and ``accept`` writes one. One fix for each break is
enough, and only good ones are taken.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from fx_explorer import model
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.errors import UsageError
from fx_explorer.instruments.breaks.call_tree import MADE_BY_PYTHON, DistinctFallback
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.fixes.causes import CAUSES
from fx_explorer.instruments.fixes.causes.loops import why_no_while_loop
from fx_explorer.instruments.fixes.dynamic_marks import mark_fixes
from fx_explorer.instruments.fixes.fix import Fix, distinct, obstacle, sites
from fx_explorer.instruments.fixes.trial import Trial, ordered
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.writing import MergedEdits, WrittenEdits, why_not_written, write_edits
from fx_explorer.trials import Told

TryFix = Callable[[CaptureRequest, Fix, SessionFigures, Told], Awaitable[Trial]]
"""The type of ``try_any`` for one worker, or of a stand-in."""


Subject = DistinctBreak | DistinctFallback | ExplainedRecompile
"""The problem to be fixed: a row of the list of breaks."""


@dataclass(frozen=True, slots=True)
class FixOffer:
    session: Path
    broken: Subject
    fixes: tuple[Fix, ...]
    why_none: str
    """Why there are no fixes; empty when there are some."""
    request: CaptureRequest | None
    before: SessionFigures
    why_not_tried: str
    """Why no fix can be tried; empty when no reason is known."""


def offer(path: Path, broken: Subject) -> FixOffer:
    """Return the fixes for a break. It opens the session itself, so that it can be called in a
    thread: parsing a large file takes up to seconds.
    """
    with SessionReader(path) as reader:
        fixes = tuple(fixes_for(reader, broken))
        why = "" if fixes else _why_none(reader, broken)
        request = reader.request()
        return FixOffer(
            path,
            broken,
            fixes,
            why,
            request,
            session_figures(reader),
            why_not_tried(reader, request),
        )


def all_proposals(path: Path) -> list[list[Fix]]:
    """Return the fixes of each break of a session, the costliest break first. Like ``offer``, it
    can be called in a thread.
    """
    with SessionReader(path) as reader:
        return [proposals(reader, graph_break) for graph_break in distinct_breaks(reader)]


def fixes_for(reader: SessionReader, subject: Subject) -> list[Fix]:
    """Return edits and options for a break or a function run in eager mode, and marks for a
    recompile or a function that was compiled too often.
    """
    if isinstance(subject, ExplainedRecompile):
        return mark_fixes(reader, subject)
    if isinstance(subject, DistinctBreak):
        return proposals(reader, subject)
    # Which of the values that vary led to the limit is not one line's affair, so all marks are
    # offered.
    if subject.kind == "limit":
        return mark_fixes(reader)
    return proposals(reader, as_break(subject))


def as_break(left: DistinctFallback) -> DistinctBreak:
    """Return a function that ran in eager mode as a graph break at its first line."""
    return DistinctBreak(
        registry_id=left.registry_id,
        reason=left.reason,
        explanation=left.explanation,
        hints=left.hints,
        torch_hints=left.hints,
        file=left.file,
        line=left.line,
        code=left.function,
        count=left.count,
        compilations=(),
        place=left.place,
        stack=left.stack,
        text=0,
    )


def _why_none(reader: SessionReader, subject: Subject) -> str:
    if isinstance(subject, ExplainedRecompile):
        remedy = f" {subject.remedy}" if subject.remedy else ""
        return f"No mark avoids this recompile.{remedy}"
    if isinstance(subject, DistinctFallback) and subject.is_made_by_python:
        return f"{MADE_BY_PYTHON}."
    if isinstance(subject, DistinctBreak):
        broken = subject
    else:
        broken = as_break(subject)
    why = why_none(reader, broken)
    if why:
        return why
    if broken.hints:
        return f"No fix is known for this. torch suggests: {broken.hints[0]}"
    return "No fix is known for this."


def why_not_tried(reader: SessionReader, request: CaptureRequest | None) -> str:
    """Return why nothing can be tried; empty when fixes can be tried. A trial is compared with the
    figures of the session, which must be those of one complete capture.
    """
    if request is None:
        return (
            "The session does not record how it was captured, so fixes cannot be tried. Open its "
            "target: fx-explorer TARGET."
        )
    if reader.meta("outcome") is None:
        return (
            "The capture has not ended, so not all breaks are counted. Let it continue to the "
            "end, then try the fix."
        )
    if any(compilation.variant_of for compilation in reader.rows(model.Compilation)):
        return (
            "The session has other variants, whose breaks count twice. Capture again, and try the "
            "fix before you compile another one."
        )
    file = target_file(request.target)
    if file and not file.is_file():
        return (
            f"{file} is not in this folder ({Path.cwd()}), so fixes cannot be tried. Copy the "
            "diff, and try it where the file is."
        )
    return ""


def target_file(target: str) -> Path | None:
    """Return the file that a target names; None for ``package.module:object``."""
    named = next((name for name in (target, target.rpartition(":")[0]) if name.endswith(".py")), "")
    return Path(named) if named else None


# All fixes that are known for a break, the likeliest to hold first. Pure: nothing is run, nothing
# is written.


def proposals(reader: SessionReader, one_break: DistinctBreak) -> list[Fix]:
    """Return each fix once, the likeliest first (``ordered``). It is empty for a cause without a
    known fix; ``why_none`` gives the reason.
    """
    stack = sites(reader, one_break)
    fixes: list[Fix] = []
    for cause in CAUSES:
        fixes += cause(reader, one_break, stack)
    fixes = [replace(fix, broken_code=one_break.code) for fix in fixes if _can_be_tried(fix)]
    return ordered(distinct(fixes))


def why_none(reader: SessionReader, one_break: DistinctBreak) -> str:
    """Return why there is no edit, if that is known; else empty."""
    return obstacle(reader, one_break) or why_no_while_loop(sites(reader, one_break))


def _can_be_tried(fix: Fix) -> bool:
    """Return whether the edited text parses. An unforeseen layout of the source may break an edit,
    which is then not proposed.
    """
    try:
        for edit in fix.edits:
            cst.parse_module(edit.after)
    except cst.ParserSyntaxError:
        return False
    # An edit that changes nothing would cost a trial and could not be good.
    return bool(fix.settings) or any(edit.after != edit.before for edit in fix.edits)


TITLE = "all good fixes together"


def unknown_yet(breaks: int) -> Fix:
    """Return the fix that represents the combination of all good fixes before any was tried."""
    return Fix(
        TITLE,
        f"One good fix for each of the {breaks} breaks, as one edit. Untried fixes are tried "
        "first.",
    )


def is_whole(fix: Fix) -> bool:
    return fix.title == TITLE


@dataclass(frozen=True, slots=True)
class Together:
    fix: Fix
    taken: tuple[Fix, ...]
    left_out: tuple[str, ...]
    """Fixes that cannot be combined with the others, each with its reason."""


def next_to_try(breaks: Sequence[Sequence[Fix]], trials: Sequence[Trial]) -> Fix | None:
    """Return the likeliest fix that still has to be tried, to know which fixes are good: no fix of
    its break is known to be good.

    None when all is known.
    """
    tried = [trial.fix for trial in trials]
    for fixes in breaks:
        if _good(fixes, trials):
            continue
        for fix in ordered(fixes, trials):
            if fix not in tried:
                return fix
    return None


def together(breaks: Sequence[Sequence[Fix]], trials: Sequence[Trial]) -> Together | None:
    """Merge the good fixes into one; None when fewer than two are good or can be combined."""
    good = [fix for fixes in breaks for fix in _good(fixes, trials)]
    texts: dict[str, MergedEdits] = {}
    taken: list[Fix] = []
    left_out: list[str] = []
    for fix in distinct(good):
        reason = _merge(fix, texts)
        if reason:
            left_out.append(f"{fix.title!r} (line {fix.line}) {reason}")
        else:
            taken.append(fix)
    if len(taken) > 1:
        return Together(_merged_fix(taken, texts, left_out), tuple(taken), tuple(left_out))
    return None


def _good(fixes: Sequence[Fix], trials: Sequence[Trial]) -> list[Fix]:
    """Return a list with the first good fix of a break; empty without one."""
    good = [trial.fix for trial in trials if trial.is_good]
    return [fix for fix in fixes if fix in good][:1]


def _merge(fix: Fix, texts: dict[str, MergedEdits]) -> str:
    """Merge all edits of a fix into the texts, or none. Returns why they cannot be merged; empty
    when they are.
    """
    merged = {
        edit.path: copy.deepcopy(texts[edit.path]) for edit in fix.edits if edit.path in texts
    }
    for edit in fix.edits:
        reason = merged.setdefault(edit.path, MergedEdits(edit)).add(edit, fix.title)
        if reason:
            return reason
    texts.update(merged)
    return ""


def _merged_fix(
    taken: Sequence[Fix], texts: dict[str, MergedEdits], left_out: Sequence[str]
) -> Fix:
    in_order = sorted(taken, key=lambda fix: (fix.path, fix.line))
    what = "; ".join(f"{fix.title} (line {fix.line})" for fix in in_order)
    sentences = [f"In one go: {what}."]
    sentences += [f"Left out: {title}." for title in left_out]
    settings: dict[str, object] = {}
    untried: list[str] = []
    for fix in taken:
        settings.update(fix.settings)
        untried += filter(None, fix.untried.split("; "))
    return Fix(
        TITLE,
        " ".join(sentences),
        " ".join(dict.fromkeys(fix.risk for fix in taken if fix.risk)),
        min(fix.line for fix in taken),
        tuple(merged.edit for merged in texts.values()),
        settings,
        unseen="; ".join(dict.fromkeys(fix.unseen for fix in taken if fix.unseen)),
        # A fix joins several with the same sign, and two fixes often leave the same one out.
        untried="; ".join(dict.fromkeys(untried)),
    )


# What is written to the user's files.


def accept(fix: Fix) -> WrittenEdits:
    """Write the fix to each file that it edits. Either all files are written or none.

    Raises UsageError when it edits none, or a file is no longer what it was when captured, or
    cannot be written.
    """
    if not fix.edits:
        raise UsageError(
            f"this fix changes no file. Set it in your program: {fix.instruction.splitlines()[0]}"
        )
    return write_edits(fix.edits)


def why_not_accepted(fix: Fix) -> str:
    """Return why the fix cannot be written; empty when it can."""
    return why_not_written(fix.edits)
