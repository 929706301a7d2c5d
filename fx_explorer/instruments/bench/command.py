"""This module is ``fx-explorer bench X``. It measures whether compiling a target X pays, and from
which size on, or prints the results of a saved bench.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.argument_types import option
from fx_explorer.client import session_files
from fx_explorer.client.session_files import files_of, place_session, session_file
from fx_explorer.command_line.capture_options import (
    add_call_arguments,
    add_setting_argument,
    add_worker_arguments,
)
from fx_explorer.command_line.given_session import is_session, refuse_options_of_measuring
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.outputs import (
    add_force_argument,
    add_format_argument,
    session_output,
    text_output,
)
from fx_explorer.command_line.stopping import run_until_stopped
from fx_explorer.errors import ProgramError, UsageError, WorkerError
from fx_explorer.instruments.bench.plan import (
    add_bench_arguments,
    begin_session,
    end_session,
    plan_from,
)
from fx_explorer.instruments.bench.view import check_libraries
from fx_explorer.model import BenchCell, CaptureRequest, Failure
from fx_explorer.output.terminal import terminal_width, width_for
from fx_explorer.output_file import OutputFile
from fx_explorer.session import SessionReader, SessionWriter

if TYPE_CHECKING:
    from fx_explorer.instruments.bench.bench_run import BenchProgress
    from fx_explorer.instruments.bench.plan import BenchPlan

MAX_WIDTH, PLOT_HEIGHT = 120, 24
"""Size of a picture in the terminal, in cells and rows."""

EPILOG = """\
Every combination of backend, mode, dynamic and stance is a contender; it runs in its own process
with empty compile caches, and the program in eager mode runs for comparison. Contenders take turns
in short rounds, so that a slow phase of the machine affects all of them. A speed-up has a 95 %
interval; if it contains 1, there is no measurable difference.

examples:
  fx-explorer bench model.py                                        uncompiled, eager, aot_eager \
and inductor
  fx-explorer bench model.py --batch 1,8,32,128                     from which batch on it pays
  fx-explorer bench model.py --size ids:1,mask:1=128,512            other sizes of dimension 1 of \
two inputs
  fx-explorer bench model.py --backends inductor --modes default,max-autotune --no-train --budget \
120
  fx-explorer bench model.py --backends inductor,my_backend.py:compile -o bench.fxs
  fx-explorer bench bench.fxs --format markdown                     once more, from what was saved

exit codes: 0 measured, as far as the budget allowed · 1 a contender gives other results, fails,
takes too long or has no figures at all · 3 the program raises in eager mode, too · 4 it dies or
takes too long in eager mode, too · 130 stopped: the figures so far are printed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="X",
        help="a target: file.py, file.py:object …; or a saved bench (file.fxs)",
    )
    what = parser.add_argument_group("what to run")
    add_call_arguments(what)
    what.add_argument(
        "--option",
        metavar="K=V",
        action="append",
        default=[],
        type=option,
        help="a torch._inductor.config entry for every inductor contender; may be repeated",
    )
    add_setting_argument(what)
    add_bench_arguments(parser)
    group = parser.add_argument_group("what to write")
    add_format_argument(group)
    group.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="save the bench as a session in this file"
    )
    group.add_argument(
        "--svg",
        metavar="FILE",
        type=Path,
        help="write the picture too: speed-up over size (needs the extra plots)",
    )
    group.add_argument(
        "--plot",
        action="store_true",
        help="with text: draw the picture in the terminal (needs the extra plots)",
    )
    add_force_argument(group)
    add_worker_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    svg = text_output(arguments.svg, "picture", b"<svg", arguments, "--svg FILE")
    if arguments.plot or svg:
        check_libraries(svg=bool(svg), plot=arguments.plot)
    if is_session(arguments.target):
        refuse_options_of_measuring(arguments, OF_TELLING)
        with SessionReader(arguments.target) as reader:
            return _print_bench(reader, arguments, svg)
    return asyncio.run(_measure(arguments, svg))


OF_TELLING = ("target", "format", "svg", "plot", "force")
"""Options with which a saved bench can be printed."""


def _print_bench(
    reader: SessionReader, arguments: argparse.Namespace, svg: OutputFile | None
) -> int:
    """Print the results of the session's bench. Raises UsageError when it has none."""
    from fx_explorer.instruments.bench.cells import bench_figures
    from fx_explorer.instruments.bench.report import FORMATS, bench_text
    from fx_explorer.instruments.bench.verdict import problems, without_figures
    from fx_explorer.instruments.bench.view import bench_plot, bench_svg

    figures = bench_figures(reader)
    if figures is None:
        raise UsageError(
            f"{arguments.target} has no bench; make one with: fx-explorer bench TARGET -o "
            f"{arguments.target}"
        )
    if arguments.format == "text":
        sys.stdout.write(bench_text(figures, width_for(sys.stdout)))
    else:
        sys.stdout.write(FORMATS[arguments.format](figures))
    if arguments.plot and arguments.format == "text":
        width = min(terminal_width(), MAX_WIDTH)
        print(bench_plot(figures, width, PLOT_HEIGHT, colours=sys.stdout.isatty()))
    if svg:
        svg.write_text(bench_svg(figures))
    return int(bool(problems(figures) or without_figures(figures)))


async def _measure(arguments: argparse.Namespace, svg: OutputFile | None) -> int:
    """Measure, print the results, and return the exit code. If it is stopped, the results so far
    are printed.
    """
    from fx_explorer.client.forked_workers import fork_server
    from fx_explorer.instruments.bench.bench_run import Bench

    plan = _plan(arguments)
    output = session_output(arguments)
    if output:
        place = session_file(output, force=arguments.force, never=files_of(arguments.target))
    else:
        place = None
    if place:
        place.check()
    folder, lock = session_files.new_capture_directory()
    session, narration = folder / session_files.SESSION, _Narration()
    try:
        with SessionWriter(session) as writer:
            begin_session(writer, plan)
            stopped_by = await run_until_stopped(
                Bench(plan, writer, arguments.python, narration.show, fork_server()).run()
            )
            end_session(writer, was_stopped=bool(stopped_by))
        narration.end()
        if place:
            place_session(session, place)
            narration.print_message(
                f"session: {place.path} (print it again with: fx-explorer bench {place.path})"
            )
        path = place.path if place else session
        with SessionReader(path) as reader:
            failed = _print_bench(reader, arguments, svg)
            ended, raised = _of_uncompiled(reader)
        if raised and not stopped_by:
            narration.print_message(raised)
        if stopped_by:
            return 128 + stopped_by
        return ended or failed
    finally:
        narration.end()
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _of_uncompiled(reader: SessionReader) -> tuple[int, str]:
    """Return the exit code for a program that fails in eager mode at every size, and its traceback
    where it raised; 0 for any other.
    """
    states = {cell.state for cell in reader.rows(BenchCell) if not cell.is_compiled}
    if not states or states & {"measured", "not_measured"}:
        return 0, ""
    raised = [row for row in reader.rows(Failure) if row.where == "program"]
    if raised:
        return (ProgramError.exit_code, reader.text(raised[-1].text))
    return (WorkerError.exit_code, "")


class _Narration:
    """Shows what the bench is doing: in one updated line on a terminal, elsewhere in one line per
    step.
    """

    def __init__(self) -> None:
        self._out = CaptureNarration(sys.stderr, pass_through=False)
        self._printed = ""
        self.print_message, self.end = self._out.print_message, self._out.end

    def show(self, progress: BenchProgress) -> None:
        if (
            not self._out.show_live(lambda: progress.description)
            and progress.doing != self._printed
        ):
            self.print_message(progress.without_figures)
        self._printed = progress.doing


def _plan(arguments: argparse.Namespace) -> BenchPlan:
    """Return the plan that the arguments make. Raises UsageError where they contradict each
    other.
    """
    request = CaptureRequest(
        target=arguments.target,
        session="",
        as_python=arguments.as_python,
        trusts_target=arguments.trust,
        call=arguments.call,
        inputs=arguments.inputs,
        train=arguments.train,
        options=dict(arguments.option),
        settings=dict(arguments.setting),
        device=arguments.device,
        build=True,
    )
    return plan_from(arguments, request, arguments.timeout)
