"""All good fixes at once in ``fx-explorer fix``: ``--try --all`` says what they come to,
``--apply all`` writes them.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fx_explorer.command_line.fix.trying import SessionFixes, apply, told, trial, written
from fx_explorer.highlight import printable, printable_text
from fx_explorer.output.terminal import tell

if TYPE_CHECKING:
    from fx_explorer.fixing import Together

ALL = 0
"""``--apply all``; fixes are numbered from 1."""

TOO_FEW = "there are no two good fixes, of different breaks, that go with each other: nothing to do together"


async def list_together(found: SessionFixes, arguments: argparse.Namespace) -> None:
    """Print what all good fixes come to, after each has been tried."""
    whole = _together(found)
    tell("all good fixes together")
    if whole is None:
        tell(f"       {TOO_FEW}")
        return
    tell(f"       {printable(whole.fix.why)}")
    tell(f"       {told(await trial(found, whole.fix, arguments))}")
    tell("       write them: --apply all")


async def apply_together(found: SessionFixes, arguments: argparse.Namespace) -> int:
    """Try what decides which of them are good, then all of these; a single good one is written
    alone. Returns 1 when nothing is written.
    """
    from fx_explorer.fixing import next_to_try

    breaks = [fixes for _, fixes, _ in found.breaks]
    while fix := next_to_try(breaks, found.trials):
        tell(printable(f"{fix.title} (line {fix.line})"))
        tell(f"       {told(await trial(found, fix, arguments))}")
    whole = _together(found)
    good = [one for one in found.trials if one.is_good]
    if whole is None and len(good) == 1:
        tell("one fix is good:")
        sys.stdout.write(printable_text(good[0].fix.diff))
        return written(good[0].fix, good[0])
    if whole is None:
        tell(TOO_FEW)
        return 1
    tell(printable_text(whole.fix.why))
    return await apply(found, whole.fix, arguments)


def _together(found: SessionFixes) -> Together | None:
    from fx_explorer.fixing import together

    return together([fixes for _, fixes, _ in found.breaks], found.trials)
