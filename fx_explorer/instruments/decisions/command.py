"""This module is ``fx-explorer decisions X``: why kernels are the way they are, and the effect of
another choice.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fx_explorer.analysis.words import counted
from fx_explorer.argument_types import count
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from, check_program
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.formats import json_text, text_of
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import print_fitted, width_for
from fx_explorer.session.file_names import in_file
from fx_explorer.trials import forking_worker
from fx_explorer.variant_trials import VariantTrial, describe_sides, trial_as_json

if TYPE_CHECKING:
    from fx_explorer.instruments.decisions.figures import Explained
    from fx_explorer.instruments.decisions.other_choices import OtherChoice
    from fx_explorer.model import CaptureRequest, Direction
    from fx_explorer.session import SessionReader

EPILOG = """\
Without an option it lists what Inductor decided about kernels, with a number for each decision and
the other choices that can be tried there. With --try it captures the program once more, compiles
the graph of this kernel a second time with the other choice, and lays both side by side.

examples:
  fx-explorer decisions model.py --gpu h100                   what was decided, and what else
  fx-explorer decisions model.fxs --try 3 contiguous          another memory layout
  fx-explorer decisions model.fxs --try 1 max_autotune_gemm   an option: templates beside a library
  fx-explorer decisions model.py --try 2 mm --time            another candidate, measured here

exit codes: 0 the code differs · 1 it does not, or it could not be compiled · 2 to 5 as for every
command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do")
    what.add_argument(
        "--try",
        dest="tried",
        metavar=("NUMBER", "CHOICE"),
        nargs=2,
        help="compile again with another choice at the decision of this number",
    )
    what.add_argument(
        "--time", action="store_true", help="build both and time a call of each graph"
    )
    what.add_argument(
        "--limit", metavar="N", type=count, default=50, help="at most this many decisions (50)"
    )
    what.add_argument(
        "--format", choices=["text", "json"], default="text", help="text (default), or json"
    )
    add_capture_arguments(parser)


@dataclass
class _Read:
    """What a trial needs of the session."""

    kernel: tuple[str, Direction]
    choice: OtherChoice
    request: CaptureRequest | None


def run(arguments: argparse.Namespace) -> int:
    """Print the decisions, or try. Returns the exit code of the capture, or 1 if the code is the
    same.
    """
    if not arguments.tried:
        if arguments.time:
            raise UsageError("--time is for --try: what is to be timed")
        return answer_from(arguments, lambda reader: _print_decisions(reader, arguments)) or 0
    reads: list[_Read] = []
    code = answer_from(arguments, lambda reader: reads.append(_read(reader, arguments.tried)))
    if not reads:
        return code or 1
    return asyncio.run(_try(reads[0], arguments)) or code or 0


def _decisions(reader: SessionReader) -> list[Explained]:
    from fx_explorer.instruments.decisions.figures import explained_decisions

    return [explained for explained in explained_decisions(reader) if not explained.is_elsewhere]


def _print_decisions(reader: SessionReader, arguments: argparse.Namespace) -> None:
    from fx_explorer.instruments.decisions.other_choices import other_choices, why_no_other
    from fx_explorer.instruments.decisions.view import decisions_table

    decisions = _decisions(reader)
    shown = list(enumerate(decisions[: arguments.limit], 1))
    choices = {number: other_choices(reader, explained) for number, explained in shown}
    if arguments.format == "json":
        rows = []
        for number, explained in shown:
            others = [
                {"name": choice.name, "what": choice.words, "detail": choice.detail}
                for choice in choices[number]
            ]
            rows.append(
                {
                    "number": number,
                    "about": explained.decision.kind,
                    "why": explained.reason.kind,
                    "kernel": explained.kernel.name,
                    "text": explained.reason.text,
                    "other_choices": others,
                    "nothing_to_try": "" if others else why_no_other(explained),
                }
            )
        sys.stdout.write(json_text({"decisions": rows, "count": len(decisions)}))
        return
    view = decisions_table(reader)
    print_fitted(printable(view.answer or ("" if decisions else view.empty)))
    table = []
    for number, explained in shown:
        about = f"{explained.decision.kind}: {explained.reason.kind}"
        names = _names_of(choices[number])
        line = in_file(*explained.line) if explained.line else ""
        table.append((str(number), about, explained.kernel.name, line, names))
    if table:
        sys.stdout.write(text_of(["", Table(_COLUMNS, table)], width_for(sys.stdout)))


_COLUMNS = (
    Column("", is_number=True),
    Column("decision"),
    Column("kernel", narrowing="cut", least=16, priority=1),
    Column("your line", narrowing="cut", least=12, priority=2),
    Column("other choices", narrowing="wrapped", least=20),
)


def _names_of(choices: list[OtherChoice]) -> str:
    """Return the names of other choices; of templates, which have twenty options each, how many."""
    names = [choice.name for choice in choices if " " not in choice.name]
    templates = len(choices) - len(names)
    if templates:
        names.append(f"{counted(templates, 'template')} (--format json names them)")
    return ", ".join(names)


MOST_NAMES = 12
"""Maximum number of other choices that an error names."""


def _read(reader: SessionReader, tried: list[str]) -> _Read:
    from fx_explorer.instruments.decisions.other_choices import (
        choice_named,
        other_choices,
        why_no_other,
    )
    from fx_explorer.model import Compilation

    number, name = tried
    decisions = _decisions(reader)
    if not number.isdecimal() or not 0 < int(number) <= len(decisions):
        raise UsageError(f"there is no decision {number}: fx-explorer decisions X numbers them")
    explained = decisions[int(number) - 1]
    choices = other_choices(reader, explained)
    if not choices:
        raise UsageError(f"nothing can be tried there. {why_no_other(explained)}")
    choice = choice_named(choices, name)
    if choice is None:
        names = "; ".join(choice.name for choice in choices[:MOST_NAMES])
        raise UsageError(f"there is no one choice {name!r} at decision {number}: it has {names}")
    (compilation,) = reader.by_ids(Compilation, [explained.kernel.compilation])
    kernel = compilation.name, explained.kernel.direction
    return _Read(kernel, choice, reader.request())


async def _try(read: _Read, arguments: argparse.Namespace) -> int:
    from fx_explorer.instruments.decisions.trial import try_choice

    if read.request is None:
        raise UsageError(
            "the session does not say how it was captured, so nothing can be tried; give its "
            "target instead"
        )
    check_program(arguments)
    worker = forking_worker(arguments.python, arguments.timeout)
    trial = await try_choice(
        read.request, read.kernel, read.choice, worker, measures=arguments.time
    )
    if arguments.format == "json":
        sys.stdout.write(json_text({"tried": read.choice.words, **trial_as_json(trial)}))
    else:
        for line in [describe_tried(read.choice, trial), *describe_sides(trial)]:
            print_fitted(printable(line))
    return int(not trial.is_done)


def describe_tried(choice: OtherChoice, trial: VariantTrial) -> str:
    """Return what was tried, and whether the code differs, in a sentence."""
    if trial.is_done:
        return f"Tried {choice.words}: the code differs."
    return f"Tried {choice.words}. {trial.refused}"
