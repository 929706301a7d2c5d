"""``fx-explorer fix X``: graph breaks and recompiles of a target or session, what may take them
away; tries it, writes it.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from typing import TYPE_CHECKING

from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.highlight import printable
from fx_explorer.instruments.fixes.printed import (
    ALL,
    SessionFixes,
    apply,
    apply_together,
    list_recompiles,
    list_together,
    place,
    recompiles_of,
    told,
    trial,
)
from fx_explorer.model import Outcome
from fx_explorer.output.terminal import Hanging, tell
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.instruments.breaks.grouped import DistinctBreak

EPILOG = """\
examples:
  fx-explorer fix model.py                               list the breaks, and what may take them away
  fx-explorer fix model.py --try                         try each, with the results compared
  fx-explorer fix model.py --diff 2                      the second one as a diff
  fx-explorer fix model.py --apply 2                     try it, ask, write it to your file

A fix is an edit of your source, or options of torch. --try runs each in a worker of its own, counts the breaks again, and
compares outputs, gradients and all state that can be reached with the original program, run without torch.compile, on the
example inputs and on others, with the code built too. What could not be compared is named. Your files are changed by --apply
only: after a trial that found nothing wrong, after asking, and with a backup.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do with the fixes")
    what.add_argument(
        "--try", dest="trying", action="store_true", help="try each fix, and say its result"
    )
    what.add_argument(
        "--all",
        dest="together",
        action="store_true",
        help="try the good ones together too, one for each break",
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
        help="try fix N (or all: the good ones together), and write it after asking",
    )
    add_capture_arguments(parser)


def _number(text: str) -> int:
    return ALL if text == "all" else int(text)


def run(arguments: argparse.Namespace) -> int:
    found = SessionFixes()
    ended = answer_from(arguments, lambda reader: _find(reader, found)) or 0
    if arguments.diff is not None:
        fix = found.fix(arguments.diff)
        sys.stdout.write(fix.diff or fix.instruction + "\n")
    elif arguments.apply == ALL:
        return asyncio.run(apply_together(found, arguments))
    elif arguments.apply is not None:
        return asyncio.run(apply(found, found.fix(arguments.apply), arguments))
    elif found.before is not None:
        asyncio.run(_list(found, arguments))
    return ended


def _find(reader: SessionReader, found: SessionFixes) -> None:
    from fx_explorer.analysis.whole_session import session_figures, tells_breaks
    from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
    from fx_explorer.instruments.breaks.grouped import distinct_breaks
    from fx_explorer.instruments.fixes import proposals, why_none
    from fx_explorer.instruments.fixes.offers import as_break, why_not_tried

    found.request = reader.request()
    found.why_not_tried = why_not_tried(reader, found.request)
    found.before = session_figures(reader)
    found.stopped = _what_stopped(reader)
    found.tells_breaks = tells_breaks(reader)
    found.recompiles = recompiles_of(reader)
    left = [
        as_break(one)
        for one in distinct_fallbacks(reader)
        if one.kind != "limit" and not one.has_nothing_to_compile
    ]
    broken = [*distinct_breaks(reader), *left]
    found.breaks = [(one, proposals(reader, one), why_none(reader, one)) for one in broken]


async def _list(found: SessionFixes, arguments: argparse.Namespace) -> None:
    """Print every break with its fixes, tried where that was asked for, then the recompiles and
    what can be done next.
    """
    if not found.breaks:
        tell(printable(_no_breaks(found)))
    number = 0
    for one, fixes, obstacle in found.breaks:
        tell(Hanging(f"{printable(place(one.file, one.line))}  ", printable(one.code)))
        tell(f"    {printable(one.in_words)}")
        for fix in fixes:
            number += 1
            tell(Hanging(f"  {number:>3}  ", printable(fix.title)))
            if arguments.trying or arguments.together:
                tell(f"       {told(await trial(found, fix, arguments))}")
            if fix.risk:
                tell(f"       {printable(fix.risk)}")
        if not fixes:
            tell(
                f"       {printable(obstacle) or 'no fix is known for this break; torch suggests: ' + _hint(one)}"
            )
    if arguments.together:
        await list_together(found, arguments)
    if found.recompiles:
        await list_recompiles(found.recompiles, found.request, arguments)
    if number:
        tell(f"\n{_next_steps(arguments) if found.request else SEE_ONE}")


def _what_stopped(reader: SessionReader) -> str:
    """Say what ended the program early; empty when it came to its end, or has not ended yet."""
    recorded = reader.meta("outcome")
    if recorded is None:
        return ""
    outcome = Outcome.from_json(recorded)
    return "" if outcome.went_well else outcome.message or outcome.kind.replace("_", " ")


SEE_ONE = "see one: --diff N"


def _no_breaks(found: SessionFixes) -> str:
    if not found.tells_breaks:
        return (
            "what was given says nothing of graph breaks: a capture, a TORCH_TRACE log or "
            "TORCH_LOGS=graph_breaks does"
        )
    if found.stopped:
        return f"no graph breaks up to where the program stopped: {found.stopped}"
    if found.recompiles and found.recompiles.causes:
        return "no graph breaks"
    return "no graph breaks: nothing to fix"


def _next_steps(arguments: argparse.Namespace) -> str:
    target = printable(shlex.quote(arguments.target))
    trying = "" if arguments.trying else f"try them all: fx-explorer fix {target} --try   "
    return f"{trying}{SEE_ONE}   write one: --apply N"


def _hint(one: DistinctBreak) -> str:
    return printable(one.hints[0]) if one.hints else "nothing"
