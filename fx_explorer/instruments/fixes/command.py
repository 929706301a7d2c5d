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
    from fx_explorer.instruments.fixes.api import proposals, why_none
    from fx_explorer.instruments.fixes.offers import as_break, why_not_tried

    session_fixes.request = reader.request()
    session_fixes.why_not_tried = why_not_tried(reader, session_fixes.request)
    session_fixes.before = session_figures(reader)
    session_fixes.stopped = _what_stopped(reader)
    session_fixes.knows_breaks = knows_breaks(reader)
    session_fixes.recompiles = recompiles_of(reader)
    left = [
        as_break(fallback)
        for fallback in distinct_fallbacks(reader)
        if fallback.kind != "limit" and not fallback.has_nothing_to_compile
    ]
    broken = [*distinct_breaks(reader), *left]
    session_fixes.breaks = [
        (graph_break, proposals(reader, graph_break), why_none(reader, graph_break))
        for graph_break in broken
    ]


async def _list(session_fixes: SessionFixes, arguments: argparse.Namespace) -> None:
    """Print every break with its fixes, tried where that was asked for, then the recompiles and
    what can be done next.
    """
    if not session_fixes.breaks:
        tell(printable(_no_breaks(session_fixes)))
    number = 0
    for graph_break, fixes, obstacle in session_fixes.breaks:
        tell(
            Hanging(
                f"{printable(place(graph_break.file, graph_break.line))}  ",
                printable(graph_break.code),
            )
        )
        tell(f"    {printable(graph_break.in_words)}")
        for fix in fixes:
            number += 1
            tell(Hanging(f"  {number:>3}  ", printable(fix.title)))
            if arguments.trying or arguments.together:
                tell(f"       {told(await trial(session_fixes, fix, arguments))}")
            if fix.risk:
                tell(f"       {printable(fix.risk)}")
        if not fixes:
            tell(
                f"       {printable(obstacle) or 'no fix is known for this break; torch suggests: ' + _hint(graph_break)}"
            )
    if arguments.together:
        await list_together(session_fixes, arguments)
    if session_fixes.recompiles:
        await list_recompiles(session_fixes.recompiles, session_fixes.request, arguments)
    if number:
        tell(f"\n{_next_steps(arguments) if session_fixes.request else SEE_ONE}")


def _what_stopped(reader: SessionReader) -> str:
    """Say what ended the program early; empty when it came to its end, or has not ended yet."""
    recorded = reader.meta("outcome")
    if recorded is None:
        return ""
    outcome = Outcome.from_json(recorded)
    return "" if outcome.went_well else outcome.message or outcome.kind.replace("_", " ")


SEE_ONE = "see one: --diff N"


def _no_breaks(session_fixes: SessionFixes) -> str:
    if not session_fixes.knows_breaks:
        return (
            "what was given says nothing of graph breaks: a capture, a TORCH_TRACE log or "
            "TORCH_LOGS=graph_breaks does"
        )
    if session_fixes.stopped:
        return f"no graph breaks up to where the program stopped: {session_fixes.stopped}"
    if session_fixes.recompiles and session_fixes.recompiles.causes:
        return "no graph breaks"
    return "no graph breaks: nothing to fix"


def _next_steps(arguments: argparse.Namespace) -> str:
    target = printable(shlex.quote(arguments.target))
    trying = "" if arguments.trying else f"try them all: fx-explorer fix {target} --try   "
    return f"{trying}{SEE_ONE}   write one: --apply N"


def _hint(graph_break: DistinctBreak) -> str:
    return printable(graph_break.hints[0]) if graph_break.hints else "nothing"
