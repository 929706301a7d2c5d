"""This module is ``fx-explorer memory X``. It predicts, from the compiled code, how much memory a
step of X needs at its peak, and what is allocated from kernel to kernel. On request it also
measures the step, under several memory budgets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.whole_session import is_snapshot_alone
from fx_explorer.argument_types import words
from fx_explorer.command_line.capture_options import (
    add_allow_argument,
    add_capture_arguments,
    request_from,
)
from fx_explorer.command_line.given_session import add_target_argument, answer_from, is_session
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.outputs import add_force_argument, add_format_argument, text_output
from fx_explorer.command_line.profile_files import session_with_snapshot
from fx_explorer.errors import UsageError
from fx_explorer.instruments.memory.verdict import TENSORS
from fx_explorer.output.terminal import width_for
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.instruments.memory.tried_budgets import BudgetTrials
    from fx_explorer.output_file import OutputFile

EPILOG = """\
Nothing is built and the compiled program does not run: fx-explorer reads Inductor's wrapper code
statement by statement. So no GPU is needed (--gpu h100). On a real GPU (--device cuda), the
temporary memory of library calls is measured. A step is a call and its backward, without
gradients at its start. With --measure, the program is built and called, compiled and in eager
mode, in separate processes.

SNAPSHOT is a file of torch.cuda.memory._dump_snapshot: the memory held at the peak of a real run is
printed by line, with the operations of X. The file is only read; no code of it
runs.

examples:
  fx-explorer memory model.py                            the peak of a training step, and the \
timeline
  fx-explorer memory model.py --gpu h100 --no-weights    as it would be on an H100
  fx-explorer memory model.py --optimizer adamw          with the state that AdamW keeps
  fx-explorer memory model.fxs --format csv              every kernel call with the bytes of each \
kind
  fx-explorer memory model.py --measure                  beside what is allocated, compiled and in \
eager mode
  fx-explorer memory snapshot.pickle                     what a CUDA memory snapshot says
  fx-explorer memory train.fxs snapshot.pickle           the same with the operations of a session
  fx-explorer memory model.py --budgets 1,0.5,0 --measure --svg budgets.svg    memory against time

exit codes: 0 predicted · 1 no graph could be read, or something could not be measured · 2 to 5 as
for every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        type=Path,
        nargs="?",
        default=None,
        help="a CUDA memory snapshot of the program that session or log X was made from",
    )
    add_format_argument(parser)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="also measure it: build and call it, compiled and in eager mode; text and json",
    )
    parser.add_argument(
        "--budgets",
        metavar="A,B",
        type=_budgets,
        default=(),
        help="values of activation_memory_budget from 0 (recompute everything) to 1 (torch's "
        "default), e.g. 1,0.75,0.5,0.25,0",
    )
    parser.add_argument(
        "--optimizer",
        metavar="NAME",
        choices=sorted(TENSORS),
        default="",
        help=f"also count the state of this optimizer: {', '.join(sorted(TENSORS))}",
    )
    parser.add_argument(
        "--svg",
        metavar="FILE",
        type=Path,
        help="with both: draw memory against time (needs the extra plots)",
    )
    add_force_argument(parser)
    add_allow_argument(parser)
    add_capture_arguments(parser)
    parser.set_defaults(workspaces=True)


def _budgets(text: str) -> tuple[float, ...]:
    try:
        budgets = tuple(float(word) for word in words(text))
    except ValueError:
        budgets = (-1.0,)
    if not all(0 <= budget <= 1 for budget in budgets):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of numbers from 0 to 1, for example 1,0.5,0"
        )
    return budgets


def run(arguments: argparse.Namespace) -> int:
    """Print the prediction. Returns 1 where no graph could be read, or where a measurement
    failed.
    """
    if arguments.snapshot:
        return _print_joined(arguments)
    if arguments.measure or arguments.budgets or arguments.svg:
        return asyncio.run(_try(arguments))
    known: list[bool] = []
    ended = answer_from(
        arguments,
        lambda reader: known.append(_print_memory(reader, arguments.format, arguments.optimizer)),
    )
    return ended or int(not all(known))


def _print_joined(arguments: argparse.Namespace) -> int:
    """Join a snapshot to the session that X is, and print it. Raises UsageError for a target."""
    if not is_session(arguments.target):
        raise UsageError(
            "a memory snapshot is shown together with a session or a log of the same program, and "
            f"{arguments.target} is neither. Record the program first: fx-explorer run "
            f"{arguments.target}"
        )
    with contextlib.ExitStack() as until:
        session = session_with_snapshot(Path(arguments.target), arguments.snapshot, until)
        with SessionReader(session) as reader:
            _print_snapshot(reader, arguments.format)
    return 0


def _print_snapshot(reader: SessionReader, format_: str) -> bool:
    """Print the session's snapshot. Returns whether it has one."""
    from fx_explorer.instruments.memory import snapshot_report
    from fx_explorer.instruments.memory.snapshot_figures import figures_of

    figures = figures_of(reader)
    if figures is None:
        return False
    if format_ == "text":
        text = snapshot_report.snapshot_text(reader, figures, width_for(sys.stdout))
    else:
        text = snapshot_report.FORMATS[format_](reader, figures)
    sys.stdout.write(text)
    return True


def _print_memory(reader: SessionReader, format_: str, optimizer: str) -> bool:
    from fx_explorer.instruments.memory.report import FORMATS, memory_report, memory_text

    if is_snapshot_alone(reader):
        return _print_snapshot(reader, format_)
    report = memory_report(reader, optimizer)
    width = width_for(sys.stdout)
    if format_ == "text":
        text = memory_text(report, width)
    else:
        text = FORMATS[format_](report)
    sys.stdout.write(text)
    return report.memory.is_known


async def _try(arguments: argparse.Namespace) -> int:
    """Predict and measure the step under each budget, and print a row for each."""
    from fx_explorer.instruments.bench.view import check_libraries
    from fx_explorer.instruments.memory.tried_budgets import trials_json, trials_text, try_budgets
    from fx_explorer.trials import forking_worker

    svg = _picture(arguments)
    check_libraries(svg=bool(svg), plot=False)
    narration = CaptureNarration(sys.stderr, pass_through=False)
    worker = forking_worker(arguments.python, arguments.timeout)
    try:
        trials = await try_budgets(
            request_from(arguments),
            arguments.budgets or (None,),
            worker,
            narration.print_message,
            measures=arguments.measure,
        )
    finally:
        narration.end()
    if arguments.format == "json":
        sys.stdout.write(trials_json(trials))
    else:
        sys.stdout.write(trials_text(trials, width_for(sys.stdout)))
    if svg:
        _draw(trials, svg, arguments.target)
    steps = [*(trial.measured for trial in trials.trials), trials.uncompiled]
    is_whole = all(trial.predicted["is_known"] for trial in trials.trials) and not any(
        step and step.message for step in steps
    )
    return int(not is_whole)


def _picture(arguments: argparse.Namespace) -> OutputFile | None:
    """Return the file for the picture. Raises UsageError for a target that cannot be tried or
    drawn.
    """
    if is_session(arguments.target):
        raise UsageError(
            f"--measure, --budgets and --svg work on targets: {arguments.target} is already a "
            "capture"
        )
    if arguments.optimizer:
        raise UsageError(
            "--optimizer adds to the prediction, but --measure and --budgets run steps without an "
            "optimizer"
        )
    if arguments.format not in ("text", "json"):
        raise UsageError(
            f"--measure and --budgets are printed as text or json, not as {arguments.format}"
        )
    if arguments.svg and not (arguments.measure and arguments.budgets):
        raise UsageError(
            "--svg draws memory against time: it needs --budgets and --measure. To draw the "
            "memory of one step: fx-explorer report X --format svg --section step_memory"
        )
    if arguments.measure and arguments.gpu:
        raise UsageError(
            "--measure runs the program on this machine, but --gpu names a virtual GPU"
        )
    return text_output(arguments.svg, "picture", b"<svg", arguments, "--svg FILE")


def _draw(trials: BudgetTrials, svg: OutputFile, target: str) -> None:
    from fx_explorer.instruments.memory.tried_budgets import BudgetPoint, budgets_svg

    steps = [*(trial.measured for trial in trials.trials), trials.uncompiled]
    points = [
        BudgetPoint(step.name, step.peak_bytes, step.call_s)
        for step in steps
        if step and step.call_s and step.peak_bytes >= 0
    ]
    svg.write_text(budgets_svg(points, f"{Path(target).name}: memory against time"))
