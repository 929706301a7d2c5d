"""All good mends at once in ``fx-explorer mend``: ``--try --all`` says what they come to, ``--apply all`` writes them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fx_explorer.command_line.mend.trying import Found, apply, told, trial, written
from fx_explorer.highlight import printable, printable_text

if TYPE_CHECKING:
    from fx_explorer.mending import Together

ALL = 0
"""``--apply all``; mends are numbered from 1."""

TOO_FEW = "there are no two good mends, of different breaks, that go with each other: nothing to do together"


async def list_together(found: Found, arguments: argparse.Namespace) -> None:
    """After each has been tried."""
    whole = _together(found)
    print("all good mends together")
    if whole is None:
        print(f"       {TOO_FEW}")
        return
    print(f"       {printable(whole.mend.why)}")
    print(f"       {told(await trial(found, whole.mend, arguments))}", flush=True)
    print("       write them: --apply all")


async def apply_together(found: Found, arguments: argparse.Namespace) -> int:
    """Tries what decides which of them are good, then all of these; a single good one is written alone.

    1 when nothing is written.
    """
    from fx_explorer.mending import next_to_try

    breaks = [mends for _, mends, _ in found.breaks]
    while mend := next_to_try(breaks, found.trials):
        print(printable(f"{mend.title} (line {mend.line})"))
        print(f"       {told(await trial(found, mend, arguments))}", flush=True)
    whole = _together(found)
    good = [one for one in found.trials if one.is_good]
    if whole is None and len(good) == 1:
        print("one mend is good:")
        sys.stdout.write(printable_text(good[0].mend.diff))
        return written(good[0].mend, good[0])
    if whole is None:
        print(TOO_FEW)
        return 1
    sys.stdout.write(printable_text(f"{whole.mend.why}\n"))
    return await apply(found, whole.mend, arguments)


def _together(found: Found) -> Together | None:
    from fx_explorer.mending import together

    return together([mends for _, mends, _ in found.breaks], found.trials)
