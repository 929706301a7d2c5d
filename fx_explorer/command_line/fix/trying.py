"""One fix in ``fx-explorer fix``: tried, told, and written after asking."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fx_explorer.command_line.fix.recompiles import Recompiles
from fx_explorer.command_line.trusting import check_program
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.model import CaptureRequest
from fx_explorer.output.terminal import tell

if TYPE_CHECKING:
    from fx_explorer.analysis.breaks.grouped import DistinctBreak
    from fx_explorer.analysis.whole_session.figures import SessionFigures
    from fx_explorer.fixing import Fix, Trial


@dataclass
class SessionFixes:
    """The fixes that a session offers and what a trial of them needs, kept when the session is
    closed.
    """

    request: CaptureRequest | None = None
    before: SessionFigures | None = None
    why_not_tried: str = ""
    """What is in the way of a trial; empty when nothing is known to be."""
    stopped: str = ""
    """What kept the program from its end."""
    tells_breaks: bool = True
    """Whether there would be breaks in it if the program had some; a debug directory has none."""
    recompiles: Recompiles | None = None
    breaks: list[tuple[DistinctBreak, list[Fix], str]] = field(default_factory=list)
    """A break, its fixes, and why it has none that edits the source."""
    trials: list[Trial] = field(default_factory=list)

    def fix(self, number: int) -> Fix:
        """Return the fix with this number in the list, from 1. Raises UsageError when there is
        none.
        """
        fixes = [fix for _, some, _ in self.breaks for fix in some]
        if not 1 <= number <= len(fixes):
            raise UsageError(
                f"there is no fix {number}: the list has {len(fixes)}. See it with fx-explorer fix, without --apply"
            )
        return fixes[number - 1]


async def trial(found: SessionFixes, fix: Fix, arguments: argparse.Namespace) -> Trial:
    from fx_explorer.fixing import try_fix
    from fx_explorer.trials.recapture import TrialWorker

    if found.request is None or found.before is None or found.why_not_tried:
        raise UsageError(f"{arguments.target}: {found.why_not_tried}")
    check_program(arguments)
    known = next((one for one in found.trials if _changes_the_same(one.fix, fix)), None)
    worker = TrialWorker(arguments.python, arguments.timeout)
    tried = (
        replace(known, fix=fix)
        if known
        else await try_fix(found.request, fix, found.before, worker)
    )
    found.trials.append(tried)
    return tried


def _changes_the_same(one: Fix, other: Fix) -> bool:
    """Return whether two fixes are one for a trial: a line with two breaks has the same fixes
    twice.
    """
    return (one.effect, one.untried, one.unseen) == (other.effect, other.untried, other.unseen)


def told(trial: Trial) -> str:
    seconds = ""
    if trial.after:
        seconds = f"; compiling {trial.before.compile_s:.2f} s → {trial.after.compile_s:.2f} s"
    return f"{trial.verdict}: {printable(trial.reason)}{seconds} (tried in {trial.took_s:.0f} s)"


async def apply(found: SessionFixes, fix: Fix, arguments: argparse.Namespace) -> int:
    """Try a fix and write it. Returns 1 when it is not written."""
    if not fix.edits:
        return _set_by_hand(fix)
    if _cannot_be_written(fix):  # before a trial of minutes
        return 1
    sys.stdout.write(printable_text(fix.diff))
    tried = await trial(found, fix, arguments)
    tell(told(tried))
    return written(fix, tried)


def written(fix: Fix, tried: Trial) -> int:
    """Write a fix after asking. Returns 1 when it is not written."""
    if not fix.edits:
        return _set_by_hand(fix)
    from fx_explorer.fixing import accept
    from fx_explorer.source_edit.file_edit import relative

    if tried.verdict == "refused":
        tell("not written: a fix that fails or changes results is not applied (--diff N prints it)")
        return 1
    if tried.verdict == "timed out":
        tell(
            "not written: the trial timed out, so nothing is known of the fix (a longer --timeout)"
        )
        return 1
    # Asked anew: a trial takes minutes, in which the file may have been edited.
    if _cannot_be_written(fix):
        return 1
    files = ", ".join(
        [place(fix.path, fix.line), *(str(relative(edit.path)) for edit in fix.edits[1:])]
    )
    if not _agreed(f"Write this to {files}? [y/N] "):
        tell("not written")
        return 1
    for backup in accept(fix):
        tell(f"written; the file as it was: {printable(str(backup))}")
    if fix.settings:
        print(f"set this in your program too:\n{fix.instruction}")
    return 0


def _cannot_be_written(fix: Fix) -> bool:
    """Return whether a fix cannot be written, and print why."""
    from fx_explorer.fixing import why_not_accepted

    reason = why_not_accepted(fix)
    if reason:
        tell(f"not written: {printable(reason)}")
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
    from fx_explorer.source_edit.file_edit import relative

    return f"{relative(file)}:{line}"
