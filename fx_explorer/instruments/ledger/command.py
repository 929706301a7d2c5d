"""This module is ``fx-explorer ledger X``: it shows where the time of one call goes, for a target
or for a session with a ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.argument_types import seconds
from fx_explorer.client import session_files
from fx_explorer.command_line.capture_options import (
    add_call_arguments,
    add_compile_arguments,
    add_worker_arguments,
    request_from,
)
from fx_explorer.command_line.given_session import answer_from, is_session
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.outputs import (
    add_force_argument,
    add_format_argument,
    session_output,
    text_output,
)
from fx_explorer.errors import UsageError
from fx_explorer.model import GUARD_FILTER, CaptureRequest
from fx_explorer.output.terminal import print_fitted, terminal_width, width_for
from fx_explorer.session import SessionReader, SessionWriter

if TYPE_CHECKING:
    from fx_explorer.instruments.ledger.figures import LedgerFigures
    from fx_explorer.instruments.ledger.remedies import LedgerRemedy
    from fx_explorer.output_file import OutputFile

EPILOG = """\
The target is built and called repeatedly, with a timer between the steps of a call: guards,
Dynamo's bytecode, the code of AOTAutograd and Inductor around a graph, each kernel and library
call, graph breaks, autograd. These calls alternate with calls without the timer and with calls in
eager mode. The steps add up to the call; the rest has its own row.

examples:
  fx-explorer ledger model.py --no-train            where the time of a call goes
  fx-explorer ledger model.py --steps               every step, in the order of the call
  fx-explorer ledger model.py --flame               and as a flame chart in the terminal: what \
lies within what, and when
  fx-explorer ledger model.fxs --svg call.svg       as a picture, with name, time and line of each \
block under the mouse
  fx-explorer ledger model.py --try                 measure what may help: the same call with it, \
with fewer guards too
  fx-explorer ledger model.py -o model.fxs          keep it: fx-explorer model.fxs shows it (v l)
"""

A_SCRIPT = (
    "It ran as a script, which cannot be called repeatedly. Name the object it compiles, "
    "FILE:OBJECT, and give its inputs: --inputs 'torch.randn(2, 8)', or example_inputs at the top "
    "level of the file."
)

NONE = "{shown} has no ledger; make one with: fx-explorer ledger TARGET -o {shown}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="X",
        help="a target: file.py, file.py:object …; or a session with a ledger",
    )
    what = parser.add_argument_group("what to call")
    add_call_arguments(what)
    add_compile_arguments(parser, build=True)
    group = parser.add_argument_group("what to tell")
    add_format_argument(group)
    group.add_argument(
        "--steps",
        action="store_true",
        help="with text and markdown: every step, in the order of the call",
    )
    group.add_argument(
        "--flame", action="store_true", help="with text: draw the call as a flame chart, too"
    )
    group.add_argument(
        "--svg", metavar="FILE", type=Path, help="write the flame chart as a picture, too"
    )
    group.add_argument(
        "--try",
        dest="trying",
        action="store_true",
        help="also measure the call with each change that may help, like bench",
    )
    group.add_argument(
        "--budget",
        metavar="SECONDS",
        type=seconds,
        default=None,
        help="with --try: approximate time limit of the measuring",
    )
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="save the capture with its ledger as a session",
    )
    add_force_argument(group)
    add_worker_arguments(parser)
    parser.set_defaults(ledger=True, gpu=None, no_weights=False)


def run(arguments: argparse.Namespace) -> int:
    """Print the ledger. Returns the exit code of the capture; 1 where a remedy that was tried gives
    other results. Raises UsageError for a script, and for a session without a ledger.
    """
    if arguments.trying and is_session(arguments.target):
        raise UsageError(f"--try works on targets: {arguments.target} is already a measurement")
    if arguments.trying and arguments.format in ("json", "csv"):
        what = (
            f"{arguments.format} holds one table, but this would need two (the ledger and the "
            f"trials); fx-explorer bench writes {arguments.format}"
        )
        raise UsageError(f"--try works with text and markdown: {what}")
    if arguments.budget is not None and not arguments.trying:
        raise UsageError(
            "--budget limits --try; the time of the ledger itself depends on its rounds"
        )
    if not arguments.build:
        raise UsageError("--no-build is not possible: kernels that are not built cannot be timed")
    if arguments.flame and arguments.format != "text":
        raise UsageError(
            f"--flame draws in text, not in {arguments.format}: --svg FILE writes a picture with "
            "any format"
        )
    if arguments.svg and arguments.output and arguments.svg.resolve() == arguments.output.resolve():
        raise UsageError(
            f"-o and --svg cannot both be {arguments.svg}: the picture would overwrite the session"
        )
    svg = text_output(arguments.svg, "picture", b"<svg", arguments, "--svg FILE")
    answers: list[list[LedgerRemedy] | None] = []
    code = (
        answer_from(
            arguments,
            lambda reader: answers.append(_print_ledger(reader, arguments, svg)),
            session_output(arguments),
        )
        or 0
    )
    remedies = answers[0] if answers else None
    if remedies is None:
        return code or UsageError.exit_code
    if arguments.trying and not code:
        return asyncio.run(_try(remedies, arguments))
    return code


def _why_none(reader: SessionReader) -> str:
    from fx_explorer.trials import why_not_measured

    # The request of a file that turned out to be a script does not say so.
    request = reader.request()
    is_script = request is not None and reader.is_of_a_script()
    if is_script:
        return A_SCRIPT
    return (
        why_not_measured(request)
        or "The program ended before that; the part that was captured is shown above."
    )


def _print_ledger(
    reader: SessionReader, arguments: argparse.Namespace, svg: OutputFile | None
) -> list[LedgerRemedy] | None:
    """Print the ledger, draw it if requested, and return the remedies to try; None without a
    ledger.
    """
    from fx_explorer.instruments.ledger.figures import ledger_figures
    from fx_explorer.instruments.ledger.remedies import remedies_to_try
    from fx_explorer.instruments.ledger.report import FORMATS, ledger_text

    figures = ledger_figures(reader)
    if figures is None:
        if is_session(arguments.target):
            raise UsageError(NONE.format(shown=arguments.target))
        sys.stderr.write(f"No call was measured. {_why_none(reader)}\n")
        return None
    if arguments.format == "text":
        sys.stdout.write(ledger_text(figures, arguments.steps, width_for(sys.stdout)))
    else:
        sys.stdout.write(FORMATS[arguments.format](figures, arguments.steps))
    if arguments.flame:
        _draw(figures)
    if svg:
        from fx_explorer.instruments.ledger.flame_chart import flame_svg

        svg.write_text(flame_svg(figures))
    return remedies_to_try(figures)


def _draw(figures: LedgerFigures) -> None:
    """Print the flame chart, as wide as the terminal, or 80 cells without one."""
    from rich.console import Console

    from fx_explorer.instruments.ledger.flame_chart import ASCII, flame_text, in_ascii

    console = Console(file=sys.stdout, width=terminal_width(), highlight=False)
    has_colours = console.color_system is not None and not console.no_color
    console.print()
    chart = flame_text(figures, console.width, has_colours=has_colours)
    shown = chart if _can_encode("".join(ASCII)) else in_ascii(chart)
    console.print(shown, no_wrap=True, overflow="ignore", crop=False)


def _can_encode(signs: str) -> bool:
    """Return whether stdout can show these signs: not where it is ASCII, as with ``LC_ALL=C`` in
    some places.
    """
    try:
        signs.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


async def _try(remedies: list[LedgerRemedy], arguments: argparse.Namespace) -> int:
    """Measure the program with and without each remedy, and print the table."""
    from fx_explorer.client.forked_workers import fork_server
    from fx_explorer.instruments.bench.bench_run import Bench
    from fx_explorer.instruments.bench.cells import bench_figures
    from fx_explorer.instruments.bench.plan import BenchPlan, Contender, begin_session, end_session
    from fx_explorer.instruments.bench.report import FORMATS, bench_text
    from fx_explorer.instruments.bench.verdict import problems
    from fx_explorer.instruments.ledger.remedies import tried
    from fx_explorer.instruments.ledger.report import TRIED

    if not remedies:
        sys.stderr.write(
            "Nothing was tried: no measurable remedy is known for the parts that take this time.\n"
        )
        return 0
    request = replace(request_from(arguments), ledger=False)
    plan = BenchPlan(
        request,
        backends=(request.backend,),
        modes=(request.mode,),
        dynamics=(request.dynamic,),
        stances=(request.stance,),
        budget_s=arguments.budget,
        timeout_s=arguments.timeout,
    )
    plain = plan.contenders()[-1].name
    names = {f"{plain} with {remedy.name}": remedy for remedy in remedies}
    plan = replace(
        plan,
        others=tuple(Contender(name, _with(request, remedy)) for name, remedy in names.items()),
    )
    folder, lock = session_files.new_capture_directory()
    narration = CaptureNarration(sys.stderr, pass_through=False)
    try:
        session = folder / session_files.SESSION
        with SessionWriter(session) as writer:
            begin_session(writer, plan)
            await Bench(
                plan,
                writer,
                arguments.python,
                lambda progress: narration.show_live(lambda: progress.description),
                fork_server(),
            ).run()
            end_session(writer, was_stopped=False)
        narration.end()
        with SessionReader(session) as reader:
            figures = bench_figures(reader)
            if figures is None:
                return 1
            text = TRIED[arguments.format](tried(reader, names, plain))
            sys.stdout.write("\n")
            if arguments.format == "text":
                sys.stdout.write(bench_text(figures, width_for(sys.stdout)))
                print_fitted(f"\n{text.rstrip()}")
            else:
                sys.stdout.write(f"{FORMATS[arguments.format](figures)}\n{text}")
            return int(bool(problems(figures)))
    finally:
        narration.end()
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _with(request: CaptureRequest, remedy: LedgerRemedy) -> CaptureRequest:
    """Return the request with a remedy. Modes and options exclude each other, but for a guard
    filter: the remedy's take the place of the other.
    """
    settings = {**request.settings, **remedy.settings}
    if remedy.mode:
        options = {name: value for name, value in request.options.items() if name == GUARD_FILTER}
        return replace(request, mode=remedy.mode, options=options)
    mode = "" if remedy.options.keys() - {GUARD_FILTER} else request.mode
    return replace(
        request, mode=mode, options={**request.options, **remedy.options}, settings=settings
    )
