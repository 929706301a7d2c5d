"""This module is ``fx-explorer fusion X``: the pairs of kernels that Inductor kept apart, and what
another choice would bring.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fx_explorer.argument_types import count
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from, check_program
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.formats import json_text, text_of
from fx_explorer.output.terminal import print_fitted, width_for
from fx_explorer.trials import forking_worker
from fx_explorer.variant_trials import VariantTrial, describe_sides, trial_as_json

if TYPE_CHECKING:
    from fx_explorer.instruments.fusion.asked import AskedFusion
    from fx_explorer.model import CaptureRequest
    from fx_explorer.session import SessionReader

EPILOG = """\
Without an option it lists the pairs of kernels that access the same memory and were not fused, with
Inductor's reason and the bytes that one kernel would save. With --together or --apart it captures
the program again, compiles the graph of these kernels a second time with that change, and shows
both versions next to each other. With --together, limits that Inductor sets for speed are
ignored; a fusion that would give wrong results is still refused, with the reason.

Name a kernel by its name, the end of its name, or its number (#3).

examples:
  fx-explorer fusion model.py --gpu h100                what is apart, and why
  fx-explorer fusion model.fxs --together '#3' '#5'     one kernel for both
  fx-explorer fusion model.py --apart '#3' --time       each operation alone, measured on this \
machine

exit codes: 0 done · 1 Inductor refused · 2 to 5 as for every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do")
    asked = what.add_mutually_exclusive_group()
    asked.add_argument(
        "--together",
        metavar="KERNEL",
        nargs=2,
        help="compute two kernels in one",
    )
    asked.add_argument(
        "--apart",
        metavar="KERNEL",
        help="give each operation of a kernel its own kernel",
    )
    what.add_argument(
        "--time", action="store_true", help="build both and time a call of each graph"
    )
    what.add_argument(
        "--limit", metavar="N", type=count, default=50, help="maximum number of pairs (50)"
    )
    what.add_argument(
        "--format", choices=["text", "json"], default="text", help="text (default), or json"
    )
    add_capture_arguments(parser)


@dataclass
class _Read:
    """What a trial needs of the session."""

    asked: AskedFusion
    request: CaptureRequest | None


def run(arguments: argparse.Namespace) -> int:
    """Print the pairs, or try. Returns the exit code of the capture, or 1 if Inductor refused."""
    if not arguments.together and not arguments.apart:
        if arguments.time:
            raise UsageError("--time needs --together or --apart")
        return answer_from(arguments, lambda reader: _print_pairs(reader, arguments)) or 0
    reads: list[_Read] = []
    code = answer_from(arguments, lambda reader: reads.append(_read(reader, arguments)))
    if not reads:
        return code or 1
    return asyncio.run(_try(reads[0], arguments)) or code or 0


def _print_pairs(reader: SessionReader, arguments: argparse.Namespace) -> None:
    from fx_explorer.instruments.fusion.figures import unfused_pairs
    from fx_explorer.instruments.fusion.report import pairs_as_table, pairs_of_report
    from fx_explorer.instruments.fusion.view import fusion_table

    unfused = unfused_pairs(reader)
    if arguments.format == "json":
        pairs = pairs_of_report(reader, unfused)
        sys.stdout.write(json_text({"pairs": pairs[: arguments.limit], "count": len(pairs)}))
        return
    view = fusion_table(reader)
    print_fitted(printable(view.answer or view.empty))
    if unfused:
        table = pairs_as_table(unfused, arguments.limit)
        sys.stdout.write(text_of(["", table], width_for(sys.stdout)))


def _read(reader: SessionReader, arguments: argparse.Namespace) -> _Read:
    from fx_explorer.instruments.fusion.asked import asked_fusion

    if arguments.together:
        return _Read(asked_fusion(reader, "together", arguments.together), reader.request())
    return _Read(asked_fusion(reader, "apart", [arguments.apart]), reader.request())


async def _try(read: _Read, arguments: argparse.Namespace) -> int:
    from fx_explorer.instruments.fusion.trial import try_fusion

    if read.request is None:
        raise UsageError(
            "the session does not record how it was captured, so fusions cannot be tried; give "
            "its target instead"
        )
    check_program(arguments)
    worker = forking_worker(arguments.python, arguments.timeout)
    trial = await try_fusion(read.request, read.asked, worker, measures=arguments.time)
    if arguments.format == "json":
        sys.stdout.write(json_text(trial_of_report(read.asked, trial)))
    else:
        for line in describe_trial(read.asked, trial):
            print_fitted(printable(line))
    return int(not trial.is_done)


def trial_of_report(asked: AskedFusion, trial: VariantTrial) -> dict[str, object]:
    """Return the trial as JSON; a time that was not measured is null."""
    return {"asked": asdict(asked), **trial_as_json(trial)}


def describe_trial(asked: AskedFusion, trial: VariantTrial) -> list[str]:
    """Return the result of a trial as lines, the answer first."""
    return [_answer(asked, trial), *describe_sides(trial)]


def _answer(asked: AskedFusion, trial: VariantTrial) -> str:
    first, second = asked.first.name, asked.second.name
    if asked.kind == "together":
        what = f"{first} and {second} are one kernel"
        failed = f"{first} and {second} stay two kernels"
    else:
        what = f"Each operation of {first} has its own kernel"
        failed = f"{first} stays one kernel"
    if trial.is_done:
        return f"{what}."
    return f"{failed}. {trial.refused}"
