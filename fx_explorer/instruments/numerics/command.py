"""This module is ``fx-explorer numerics X``. It says whether compiled code computes what eager mode
does, and which operator is the first that differs.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.argument_types import seconds
from fx_explorer.client import session_files
from fx_explorer.client.session_files import files_of, place_session, session_file
from fx_explorer.command_line.capture_options import (
    add_backend_arguments,
    add_call_arguments,
    add_setting_argument,
    add_worker_arguments,
)
from fx_explorer.command_line.given_session import is_session, refuse_options_of_measuring
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.outputs import add_force_argument, add_format_argument, session_output
from fx_explorer.errors import ProgramError, UsageError, WorkerError
from fx_explorer.instruments.numerics.comparison_runs import DEFAULT_BUDGET_S
from fx_explorer.model import CaptureRequest
from fx_explorer.output.terminal import width_for
from fx_explorer.session import SessionReader, SessionWriter

if TYPE_CHECKING:
    from fx_explorer.model import Numerics

EPILOG = """\
The program is called in eager mode, in float64 and compiled, on the same inputs with the same
random numbers, and a second time with other values. Results count as equal by PyTorch's own rule,
with float64 as the reference. If results differ, the stages of the compiler are run one after the
other, then the graphs node by node: the first node with equal inputs and a different output is
named, with your line, the kernel, and a change that removes the difference. Gradients are compared
too.

examples:
  fx-explorer numerics model.py                      is it right, and if not, which operator is not
  fx-explorer numerics model.py --no-train           the forward only
  fx-explorer numerics model.py --dynamic --nodes    with dynamic sizes; every node with its error
  fx-explorer numerics model.py --minify small.py    and write the smallest program that still \
differs
  fx-explorer numerics model.py -o model.fxs         keep it: fx-explorer numerics model.fxs \
prints it again

exit codes: 0 no difference · 1 it differs, or fails only when compiled · 2 nothing was compiled ·
3 the program raises in eager mode, too · 4 it dies or takes too long in eager mode, too
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="X",
        help="a target: file.py, file.py:object …; or a session with numerics",
    )
    what = parser.add_argument_group("what to call")
    add_call_arguments(what)
    how = parser.add_argument_group("how to compile")
    add_backend_arguments(
        how, "a torch._inductor.config entry, e.g. max_fusion_size=8; may be repeated"
    )
    add_setting_argument(how)
    group = parser.add_argument_group("what to tell")
    add_format_argument(group)
    group.add_argument(
        "--nodes",
        action="store_true",
        help="with text: every node of the graph that differs, with its error",
    )
    group.add_argument(
        "--budget",
        metavar="SECONDS",
        type=seconds,
        default=DEFAULT_BUDGET_S,
        help=f"approximate time limit of trials (default: {DEFAULT_BUDGET_S:g})",
    )
    group.add_argument(
        "--bisect",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also run torch's CompilerBisector, or not (default: run it)",
    )
    group.add_argument(
        "--minify",
        metavar="FILE",
        type=Path,
        help="write the smallest program that still differs, as a target",
    )
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="save the results as a session in this file",
    )
    add_force_argument(group)
    add_worker_arguments(parser)


OF_TELLING = ("target", "format", "nodes", "force")
"""Options with which saved numerics can be printed."""


def run(arguments: argparse.Namespace) -> int:
    """Print whether it is right. Returns 1 where it is not."""
    if arguments.nodes and arguments.format != "text":
        raise UsageError(f"--nodes works with text: {arguments.format} has every node already")
    if is_session(arguments.target):
        refuse_options_of_measuring(arguments, OF_TELLING)
        with SessionReader(arguments.target) as reader:
            return _print_saved(reader, arguments)
    if arguments.mode and arguments.option:
        raise UsageError(
            "--mode and --option cannot be combined (torch.compile takes one of them); "
            "give the mode's entries with --option"
        )
    return asyncio.run(_measure(arguments))


def _print_saved(reader: SessionReader, arguments: argparse.Namespace) -> int:
    from fx_explorer.instruments.numerics.figures import numerics_of

    numerics = numerics_of(reader)
    if numerics is None:
        raise UsageError(
            f"{arguments.target} has no numerics; make them with: fx-explorer numerics TARGET -o "
            f"{arguments.target}"
        )
    return _print(numerics, arguments)


def _print(numerics: Numerics, arguments: argparse.Namespace) -> int:
    from fx_explorer.instruments.numerics.report import FORMATS, numerics_text
    from fx_explorer.instruments.numerics.verdict import is_wrong

    if arguments.format == "text":
        width = width_for(sys.stdout)
        sys.stdout.write(numerics_text(numerics, width, whole=arguments.nodes))
    else:
        sys.stdout.write(FORMATS[arguments.format](numerics))
    program = numerics.program
    if program is not None and program.state == "measured" and not numerics.graphs:
        return UsageError.exit_code
    return int(is_wrong(numerics))


async def _measure(arguments: argparse.Namespace) -> int:
    """Compare, keep the session where it is asked for, print, and return the exit code."""
    from fx_explorer.client.forked_workers import fork_server
    from fx_explorer.instruments.numerics.comparison_runs import (
        EagerFailed,
        NumericsDriver,
        NumericsPlan,
    )
    from fx_explorer.instruments.numerics.figures import add_numerics, begin_session

    output = session_output(arguments)
    place = None
    if output:
        place = session_file(output, force=arguments.force, never=files_of(arguments.target))
        place.check()
    if arguments.minify:
        _check_file(arguments.minify, arguments)
    request = _request(arguments)
    narration = _Narration()
    plan = NumericsPlan(
        request,
        arguments.python,
        arguments.timeout,
        arguments.budget,
        arguments.minify,
        arguments.bisect,
    )
    try:
        numerics = await NumericsDriver(plan, narration.show, fork_server()).run()
    except EagerFailed as failed:
        narration.end()
        if failed.traceback:
            narration.print_message(failed.traceback)
            return ProgramError.exit_code
        narration.print_message(f"in eager mode: {failed}")
        return WorkerError.exit_code
    finally:
        narration.end()
    if place is not None:
        folder, lock = session_files.new_capture_directory()
        try:
            session = folder / session_files.SESSION
            with SessionWriter(session) as writer:
                begin_session(writer, request)
            add_numerics(session, numerics)
            place_session(session, place)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
        narration.print_message(
            f"session: {place.path} (print it again with: fx-explorer numerics {place.path})"
        )
    return _print(numerics, arguments)


def _check_file(path: Path, arguments: argparse.Namespace) -> None:
    """Raise UsageError for a file that is there already, or a folder that is not."""
    if path.suffix != ".py":
        raise UsageError(f"--minify {path}: it writes Python, so its name ends with .py")
    if path.exists() and not arguments.force:
        raise UsageError(f"{path} exists already; --force replaces it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--minify {path}: there is no folder {path.absolute().parent}")


def _request(arguments: argparse.Namespace) -> CaptureRequest:
    return CaptureRequest(
        target=arguments.target,
        session="",
        as_python=arguments.as_python,
        trusts_target=arguments.trust,
        call=arguments.call,
        inputs=arguments.inputs,
        train=arguments.train,
        backend=arguments.backend,
        mode=arguments.mode,
        dynamic=arguments.dynamic,
        options=dict(arguments.option),
        settings=dict(arguments.setting),
        device=arguments.device,
        build=True,
    )


class _Narration:
    """Shows what is being done: in one updated line on a terminal, else in one line per step."""

    def __init__(self) -> None:
        self._out = CaptureNarration(sys.stderr, pass_through=False)
        self._printed = ""
        self.print_message, self.end = self._out.print_message, self._out.end

    def show(self, doing: str) -> None:
        if not self._out.show_live(lambda: doing) and doing != self._printed:
            self.print_message(doing)
        self._printed = doing
