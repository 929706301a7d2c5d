"""This module is ``fx-explorer fix X``. It lists the graph breaks and recompiles of a target or
session with fixes for them, tries the fixes, and writes one of them, or all good ones together.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.whole_session import totals
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from, check_program
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.instruments.dynamic.trial import try_marks
from fx_explorer.instruments.fixes.dynamic_marks import DynamicMark, instruction, marks, sources_of
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.output.terminal import Hanging, print_fitted
from fx_explorer.overview.checks import relative_path
from fx_explorer.session import SessionReader
from fx_explorer.trials import forking_worker

if TYPE_CHECKING:
    from fx_explorer.analysis.whole_session import SessionFigures
    from fx_explorer.instruments.breaks.grouped import DistinctBreak
    from fx_explorer.instruments.fixes.fix import Fix
    from fx_explorer.instruments.fixes.offers import Together
    from fx_explorer.instruments.fixes.trial import Trial


# Recompiles: what caused each, what avoids it, and, with ``--try``, whether it did.


@dataclass(frozen=True, slots=True)
class Recompiles:
    """The recompiles of a session and the dynamic marks that may avoid them. Stays valid after the
    session is closed.
    """

    causes: list[ExplainedRecompile]
    marks: list[DynamicMark]
    compilations: int


def recompiles_of(reader: SessionReader) -> Recompiles:
    return Recompiles(causes(reader), marks(reader), totals(reader).compilations)


async def list_recompiles(
    recompiles: Recompiles, request: CaptureRequest | None, arguments: argparse.Namespace
) -> None:
    """Print the recompiles. When ``request`` is None, the session does not say how it was captured,
    so nothing is tried.
    """
    for cause in recompiles.causes:
        if cause.file:
            where = f"{relative_path(cause.file, Path.cwd())}:{cause.line}"
        else:
            where = f"[{cause.compilation}]"
        print_fitted(
            Hanging(f"{printable(where)}  ", printable(f"recompiled: {cause.description}"))
        )
        if cause.remedy:
            print_fitted(f"       {printable(cause.remedy)}")
        for mark in recompiles.marks:
            if mark.cause == cause and arguments.trying and request:
                await _try([mark], mark.instruction, recompiles.compilations, request, arguments)
    if len(recompiles.marks) > 1 and arguments.trying and request:
        print_fitted("all that vary")
        await _try(
            recompiles.marks,
            instruction(recompiles.marks),
            recompiles.compilations,
            request,
            arguments,
        )


async def _try(
    wanted: list[DynamicMark],
    how: str,
    compilations: int,
    request: CaptureRequest,
    arguments: argparse.Namespace,
) -> None:
    check_program(arguments)
    sources = sources_of(wanted)
    worker = forking_worker(arguments.python, arguments.timeout)
    trial = await try_marks(request, sources, compilations, worker=worker)
    print_fitted(f"       {printable(f'{trial.description}: {how}')} (in {trial.took_s:.0f} s)")


# All good fixes at once: ``--try --all`` says what they achieve, ``--apply all`` writes them.

ALL = 0
"""The number that stands for ``--apply all``. Single fixes are numbered from 1."""

TOO_FEW = (
    "no fixes can be applied together: this needs two good fixes of different breaks that do not "
    "conflict"
)


async def list_together(session_fixes: SessionFixes, arguments: argparse.Namespace) -> None:
    """Print the combination of all good fixes with its trial."""
    whole = _together(session_fixes)
    print_fitted("all good fixes together")
    if whole is None:
        print_fitted(f"       {TOO_FEW}")
        return
    print_fitted(f"       {printable(whole.fix.why)}")
    print_fitted(f"       {describe_trial(await trial(session_fixes, whole.fix, arguments))}")
    print_fitted("       write them: --apply all")


async def apply_together(session_fixes: SessionFixes, arguments: argparse.Namespace) -> int:
    """Try the fixes until it is known which ones are good, then write all of these together, or a
    single good one alone. Returns 1 when nothing is written.
    """
    from fx_explorer.instruments.fixes.offers import next_to_try

    breaks = [fixes for _, fixes, _ in session_fixes.breaks]
    while fix := next_to_try(breaks, session_fixes.trials):
        print_fitted(printable(f"{fix.title} (line {fix.line})"))
        print_fitted(f"       {describe_trial(await trial(session_fixes, fix, arguments))}")
    whole = _together(session_fixes)
    good = [tried for tried in session_fixes.trials if tried.is_good]
    if whole is None and len(good) == 1:
        print_fitted("one fix is good:")
        sys.stdout.write(printable_text(good[0].fix.diff))
        return written(good[0].fix, good[0])
    if whole is None:
        print_fitted(TOO_FEW)
        return 1
    print_fitted(printable_text(whole.fix.why))
    return await apply(session_fixes, whole.fix, arguments)


def _together(session_fixes: SessionFixes) -> Together | None:
    from fx_explorer.instruments.fixes.offers import together

    return together([fixes for _, fixes, _ in session_fixes.breaks], session_fixes.trials)


# One fix: tried, reported, and written after asking.


@dataclass
class SessionFixes:
    """The fixes that a session offers and the facts that a trial needs. Stays valid after the
    session is closed.
    """

    request: CaptureRequest | None = None
    before: SessionFigures | None = None
    why_not_tried: str = ""
    """Why no fix can be tried; empty when no reason is known."""
    capture_s: float = 0.0
    """Seconds that the capture took; 0 where that is not known."""
    stopped: str = ""
    """Why the program did not run to its end; empty when it did."""
    knows_breaks: bool = True
    """Whether the session would contain graph breaks if the program had some. A debug directory
    never does.
    """
    recompiles: Recompiles | None = None
    breaks: list[tuple[DistinctBreak, list[Fix], str]] = field(default_factory=list)
    """(break, its fixes, why it has no fix that edits the source)."""
    trials: list[Trial] = field(default_factory=list)

    def fix(self, number: int) -> Fix:
        """Return the fix with this number in the list, from 1. Raises UsageError when there is
        none.
        """
        fixes = [fix for _, fixes_of_break, _ in self.breaks for fix in fixes_of_break]
        if not 1 <= number <= len(fixes):
            raise UsageError(
                f"there is no fix {number}: the list has {len(fixes)}. See it with "
                "fx-explorer fix, without --apply"
            )
        return fixes[number - 1]


async def trial(session_fixes: SessionFixes, fix: Fix, arguments: argparse.Namespace) -> Trial:
    from fx_explorer.instruments.fixes.trial import try_fix
    from fx_explorer.trials import forking_worker

    if session_fixes.request is None or session_fixes.before is None or session_fixes.why_not_tried:
        raise UsageError(f"{arguments.target}: {session_fixes.why_not_tried}")
    check_program(arguments)
    same = (earlier for earlier in session_fixes.trials if _changes_the_same(earlier.fix, fix))
    known = next(same, None)
    worker = forking_worker(arguments.python, arguments.timeout)
    worker = replace(worker, capture_s=session_fixes.capture_s)
    if known:
        tried = replace(known, fix=fix)
    else:
        tried = await try_fix(session_fixes.request, fix, session_fixes.before, worker=worker)
    session_fixes.trials.append(tried)
    return tried


def _changes_the_same(fix: Fix, other: Fix) -> bool:
    """Return whether two fixes need only one trial: a line with two breaks has the same fixes
    twice.
    """
    return (fix.effect, fix.untried, fix.unseen) == (other.effect, other.untried, other.unseen)


def describe_trial(trial: Trial) -> str:
    seconds = ""
    if trial.after:
        seconds = f"; compiling {trial.before.compile_s:.2f} s → {trial.after.compile_s:.2f} s"
    return f"{trial.verdict}: {printable(trial.reason)}{seconds} (tried in {trial.took_s:.0f} s)"


async def apply(session_fixes: SessionFixes, fix: Fix, arguments: argparse.Namespace) -> int:
    """Try a fix and write it. Returns 1 when it is not written."""
    if not fix.edits:
        return _set_by_hand(fix)
    if _cannot_be_written(fix):  # before a trial of minutes
        return 1
    sys.stdout.write(printable_text(fix.diff))
    tried = await trial(session_fixes, fix, arguments)
    print_fitted(describe_trial(tried))
    return written(fix, tried)


def written(fix: Fix, tried: Trial) -> int:
    """Write a fix after asking. Returns 1 when it is not written."""
    if not fix.edits:
        return _set_by_hand(fix)
    from fx_explorer.instruments.fixes.offers import accept
    from fx_explorer.source_edit.user_files import relative

    if tried.verdict == "refused":
        print_fitted(
            "not written: a fix that fails or changes results is not applied (--diff N prints it)"
        )
        return 1
    if tried.verdict == "timed out":
        print_fitted(
            "not written: the trial timed out, so the effect of the fix is not known (use a "
            "longer --timeout)"
        )
        return 1
    # Asked again: a trial takes minutes, in which the file may have been edited.
    if _cannot_be_written(fix):
        return 1
    files = ", ".join(
        [place(fix.path, fix.line), *(str(relative(edit.path)) for edit in fix.edits[1:])]
    )
    if not _agreed(f"Write this to {files}? [y/N] "):
        print_fitted("not written")
        return 1
    for backup in accept(fix).backups:
        print_fitted(f"written; backup of the original: {printable(str(backup))}")
    if fix.settings:
        print(f"set this in your program too:\n{fix.instruction}")
    return 0


def _cannot_be_written(fix: Fix) -> bool:
    """Return whether a fix cannot be written, and print why."""
    from fx_explorer.instruments.fixes.offers import why_not_accepted

    reason = why_not_accepted(fix)
    if reason:
        print_fitted(f"not written: {printable(reason)}")
    return bool(reason)


def _set_by_hand(fix: Fix) -> int:
    print(f"this fix changes no file; set it in your program:\n{fix.instruction}")
    return 0


def _agreed(question: str) -> bool:
    try:
        return input(printable(question)).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def place(file: str, line: int) -> str:
    from fx_explorer.source_edit.user_files import relative

    return f"{relative(file)}:{line}"


EPILOG = """\
examples:
  fx-explorer fix model.py                               list the breaks, and what may take them \
away
  fx-explorer fix model.py --try                         try each, with the results compared
  fx-explorer fix model.py --diff 2                      the second one as a diff
  fx-explorer fix model.py --apply 2                     try it, ask, write it to your file

A fix is an edit of your source, or options of torch. --try runs each in its own worker, and
counts the breaks again. It compares outputs, gradients and all reachable state with the original
program in eager mode, on the example inputs and on others, also with the code built. Facts that
could not be compared are listed. Only --apply changes your files: after a trial without errors,
after asking, and with a backup.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do with the fixes")
    what.add_argument(
        "--try", dest="trying", action="store_true", help="try each fix and show its result"
    )
    what.add_argument(
        "--all",
        dest="together",
        action="store_true",
        help="also try all good fixes together, one for each break",
    )
    what.add_argument(
        "--diff",
        metavar="N",
        type=int,
        help="print fix N as a diff, or the lines that set its options",
    )
    what.add_argument(
        "--apply",
        metavar="N",
        type=_number,
        help="try fix N (or all: the good ones together), ask, and write it",
    )
    add_capture_arguments(parser)


def _number(text: str) -> int:
    return ALL if text == "all" else int(text)


def run(arguments: argparse.Namespace) -> int:
    session_fixes = SessionFixes()
    ended = answer_from(arguments, lambda reader: _find(reader, session_fixes)) or 0
    if arguments.diff is not None:
        fix = session_fixes.fix(arguments.diff)
        sys.stdout.write(fix.diff or fix.instruction + "\n")
    elif arguments.apply == ALL:
        return asyncio.run(apply_together(session_fixes, arguments))
    elif arguments.apply is not None:
        return asyncio.run(apply(session_fixes, session_fixes.fix(arguments.apply), arguments))
    elif session_fixes.before is not None:
        asyncio.run(_list(session_fixes, arguments))
    return ended


def _find(reader: SessionReader, session_fixes: SessionFixes) -> None:
    from fx_explorer.analysis.whole_session import knows_breaks, session_figures
    from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
    from fx_explorer.instruments.breaks.grouped import distinct_breaks
    from fx_explorer.instruments.fixes.offers import as_break, proposals, why_none, why_not_tried

    session_fixes.request = reader.request()
    session_fixes.why_not_tried = why_not_tried(reader, session_fixes.request)
    session_fixes.before = session_figures(reader)
    session_fixes.capture_s = float(reader.meta("finished") or 0)
    session_fixes.stopped = _what_stopped(reader)
    session_fixes.knows_breaks = knows_breaks(reader)
    session_fixes.recompiles = recompiles_of(reader)
    fallbacks = [fallback for fallback in distinct_fallbacks(reader) if fallback.kind != "limit"]
    left = [as_break(fallback) for fallback in fallbacks if not fallback.has_nothing_to_compile]
    broken = [*distinct_breaks(reader), *left]
    session_fixes.breaks = [
        (graph_break, proposals(reader, graph_break), why_none(reader, graph_break))
        for graph_break in broken
    ]


async def _list(session_fixes: SessionFixes, arguments: argparse.Namespace) -> None:
    """Print every break with its fixes (and their trials if asked for), then the recompiles and the
    next commands.
    """
    if not session_fixes.breaks:
        print_fitted(printable(_no_breaks(session_fixes)))
    number = 0
    for graph_break, fixes, obstacle in session_fixes.breaks:
        head = printable(place(graph_break.file, graph_break.line))
        print_fitted(Hanging(f"{head}  ", printable(graph_break.code)))
        print_fitted(f"    {printable(graph_break.description)}")
        for fix in fixes:
            number += 1
            print_fitted(Hanging(f"  {number:>3}  ", printable(fix.title)))
            if arguments.trying or arguments.together:
                print_fitted(f"       {describe_trial(await trial(session_fixes, fix, arguments))}")
            if fix.risk:
                print_fitted(f"       {printable(fix.risk)}")
        if not fixes:
            hint = f"no fix is known for this break; torch suggests: {_hint(graph_break)}"
            print_fitted(f"       {printable(obstacle) or hint}")
    if arguments.together:
        await list_together(session_fixes, arguments)
    if session_fixes.recompiles:
        await list_recompiles(session_fixes.recompiles, session_fixes.request, arguments)
    if number:
        steps = _next_steps(arguments) if session_fixes.request else SEE_ONE
        print_fitted(f"\n{steps}")


def _what_stopped(reader: SessionReader) -> str:
    """Return why the program ended early; empty when it ran to its end, or still runs."""
    recorded = reader.meta("outcome")
    if recorded is None:
        return ""
    outcome = Outcome.from_json(recorded)
    if outcome.went_well:
        return ""
    return outcome.message or outcome.kind.replace("_", " ")


SEE_ONE = "see one: --diff N"


def _no_breaks(session_fixes: SessionFixes) -> str:
    if not session_fixes.knows_breaks:
        return (
            "this file has no graph breaks recorded: use a capture, a TORCH_TRACE log or "
            "TORCH_LOGS=graph_breaks"
        )
    if session_fixes.stopped:
        return f"no graph breaks up to where the program stopped: {session_fixes.stopped}"
    if session_fixes.recompiles and session_fixes.recompiles.causes:
        return "no graph breaks"
    return "no graph breaks: nothing to fix"


def _next_steps(arguments: argparse.Namespace) -> str:
    target = printable(shlex.quote(arguments.target))
    if arguments.trying:
        trying = ""
    else:
        trying = f"try them all: fx-explorer fix {target} --try   "
    return f"{trying}{SEE_ONE}   write one: --apply N"


def _hint(graph_break: DistinctBreak) -> str:
    if graph_break.hints:
        return printable(graph_break.hints[0])
    return "nothing"
