"""``fx-explorer mend X``: graph breaks and recompiles of a target or session, what may take them away; tries it, writes it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fx_explorer.commands.capture_options import add_capture_arguments
from fx_explorer.commands.given_session import add_target_argument, answer_from
from fx_explorer.commands.mend_recompiles import Recompiles, list_recompiles, recompiles_of
from fx_explorer.commands.mend_together import ALL, apply_together, list_together
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.analysis.breaks import DistinctBreak
    from fx_explorer.mending import Figures, Mend, Trial

EPILOG = """\
A mend is an edit of your source, or options of torch. --try runs each in a worker of its own, counts the breaks anew, and
compares outputs, gradients and state with the original program, run without torch.compile, on the example inputs and on
others. Your files are changed by --apply only: after a trial that found nothing wrong, after asking, and with a backup.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do with the mends")
    what.add_argument("--try", dest="trying", action="store_true", help="try each mend, and say what came of it")
    what.add_argument("--all", dest="together", action="store_true", help="try the good ones together too, one for each break")
    what.add_argument("--diff", metavar="N", type=int, help="print mend N as a diff, or the lines that set its options")
    what.add_argument(
        "--apply", metavar="N", type=_number, help="try mend N (or all: the good ones together), and write it after asking"
    )
    add_capture_arguments(parser)


def _number(text: str) -> int:
    return ALL if text == "all" else int(text)


@dataclass
class Found:
    """What a session offers, kept when it is closed."""

    request: CaptureRequest | None = None
    before: Figures | None = None
    why_not_tried: str = ""
    """What is in the way of a trial; empty when nothing is known to be."""
    stopped: str = ""
    """What kept the program from its end."""
    recompiles: Recompiles | None = None
    breaks: list[tuple[DistinctBreak, list[Mend], str]] = field(default_factory=list)
    """A break, its mends, and why it has none that edits the source."""
    trials: list[Trial] = field(default_factory=list)

    def mend(self, number: int) -> Mend:
        """As they are numbered in the list, from 1. Raises UsageError when there is no such mend."""
        mends = [mend for _, some, _ in self.breaks for mend in some]
        if not 1 <= number <= len(mends):
            raise UsageError(
                f"there is no mend {number}: the list has {len(mends)}. See it with fx-explorer mend, without --apply"
            )
        return mends[number - 1]


def run(arguments: argparse.Namespace) -> int:
    found = Found()
    ended = answer_from(arguments, lambda reader: _find(reader, found)) or 0
    if arguments.diff is not None:
        mend = found.mend(arguments.diff)
        sys.stdout.write(mend.diff or mend.instruction + "\n")
    elif arguments.apply == ALL:
        return asyncio.run(apply_together(found, arguments))
    elif arguments.apply is not None:
        return asyncio.run(apply(found, found.mend(arguments.apply), arguments))
    elif found.before is not None:
        asyncio.run(_list(found, arguments))
    return ended


def _find(reader: SessionReader, found: Found) -> None:
    from fx_explorer import mending
    from fx_explorer.analysis.breaks import distinct_breaks
    from fx_explorer.analysis.fallbacks import left_to_python
    from fx_explorer.mending.offers import as_break, why_not_tried

    found.request = reader.request()
    found.why_not_tried = why_not_tried(reader, found.request)
    found.before = mending.figures(reader)
    found.stopped = _what_stopped(reader)
    found.recompiles = recompiles_of(reader)
    left = [as_break(one) for one in left_to_python(reader) if one.kind != "limit" and not one.has_nothing_to_compile]
    broken = [*distinct_breaks(reader), *left]
    found.breaks = [(one, mending.proposals(reader, one), mending.why_none(reader, one)) for one in broken]


async def _list(found: Found, arguments: argparse.Namespace) -> None:
    if not found.breaks:
        print(printable(_no_breaks(found)))
    number = 0
    for one, mends, obstacle in found.breaks:
        print(printable(f"{_place(one.file, one.line)}  {one.code}"))
        print(f"    {printable(one.in_words)}")
        for mend in mends:
            number += 1
            print(f"  {number:>3}  {printable(mend.title)}", flush=True)
            if arguments.trying or arguments.together:
                print(f"       {told(await trial(found, mend, arguments))}", flush=True)
            if mend.risk:
                print(f"       {printable(mend.risk)}")
        if not mends:
            print(f"       {printable(obstacle) or 'no mend is known for this break; torch suggests: ' + _hint(one)}")
    if arguments.together:
        await list_together(found, arguments)
    if found.recompiles:
        await list_recompiles(found.recompiles, found.request, arguments)
    if number:
        print(f"\n{_next_steps(arguments)}")


def _what_stopped(reader: SessionReader) -> str:
    """Empty for a program that came to its end, or has not ended yet."""
    recorded = reader.meta("outcome")
    if recorded is None:
        return ""
    outcome = Outcome.from_json(recorded)
    went_well = outcome.kind == "finished" or (outcome.kind == "exited" and not outcome.exit_code)
    return "" if went_well else outcome.message or outcome.kind.replace("_", " ")


def _no_breaks(found: Found) -> str:
    if found.stopped:
        return f"no graph breaks up to where the program stopped: {found.stopped}"
    return "no graph breaks" if found.recompiles and found.recompiles.causes else "no graph breaks: nothing to mend"


def _next_steps(arguments: argparse.Namespace) -> str:
    target = printable(shlex.quote(arguments.target))
    trying = "" if arguments.trying else f"try them all: fx-explorer mend {target} --try   "
    return f"{trying}see one: --diff N   write one: --apply N"


def _hint(one: DistinctBreak) -> str:
    return printable(one.hints[0]) if one.hints else "nothing"


def _place(file: str, line: int) -> str:
    from fx_explorer.mending.mend import relative

    return f"{relative(file)}:{line}"


async def trial(found: Found, mend: Mend, arguments: argparse.Namespace) -> Trial:
    from fx_explorer.mending.trial import TIMEOUT_S, try_mend

    if found.request is None or found.before is None or found.why_not_tried:
        raise UsageError(f"{arguments.target}: {found.why_not_tried}")
    tried = await try_mend(found.request, mend, found.before, arguments.python, arguments.timeout or TIMEOUT_S)
    found.trials.append(tried)
    return tried


def told(trial: Trial) -> str:
    seconds = ""
    if trial.after:
        seconds = f"; compiling {trial.before.compile_s:.2f} s → {trial.after.compile_s:.2f} s"
    return f"{trial.verdict}: {printable(trial.reason)}{seconds} (tried in {trial.took_s:.0f} s)"


async def apply(found: Found, mend: Mend, arguments: argparse.Namespace) -> int:
    """1 when it is not written."""
    if not mend.path:
        return _set_by_hand(mend)
    sys.stdout.write(printable_text(mend.diff))
    tried = await trial(found, mend, arguments)
    print(told(tried))
    return written(mend, tried)


def written(mend: Mend, tried: Trial) -> int:
    """After asking; 1 when it is not."""
    if not mend.path:
        return _set_by_hand(mend)
    from fx_explorer.mending import accept_all
    from fx_explorer.mending.mend import relative

    if tried.verdict == "refused":
        print("not written: a mend that fails or changes results is not applied (--diff N prints it)")
        return 1
    files = ", ".join(_place(edit.path, edit.line) if edit.line else str(relative(edit.path)) for edit in mend.edits)
    if not _agreed(f"Write this to {files}? [y/N] "):
        print("not written")
        return 1
    for backup in accept_all(mend):
        print(f"written; the file as it was: {printable(str(backup))}")
    if mend.settings:
        print(f"set this in your program too:\n{mend.instruction}")
    return 0


def _set_by_hand(mend: Mend) -> int:
    print(f"this mend changes no file; set it in your program:\n{mend.instruction}")
    return 0


def _agreed(question: str) -> bool:
    try:
        return input(printable(question)).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
