"""This module is ``fx-explorer diff A B``, which compares two sessions or targets, and ``diff
TARGET --gpu A --gpu B`` and ``diff TARGET --python A --python B``, which compare one target for two
GPUs, and under two releases of torch.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from fx_explorer.analysis.diff import describe_difference
from fx_explorer.command_line.build_first import add_kernels_argument, with_kernel_builds
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import (
    is_session,
    refuse_capture_options,
    refuse_gpu,
    shown_name,
)
from fx_explorer.command_line.pages import difference_page
from fx_explorer.errors import ProgramError, UsageError, WorkerError
from fx_explorer.folders import temporary_folder
from fx_explorer.gpus import find_gpu
from fx_explorer.highlight import printable
from fx_explorer.instruments.compile_time.cache_report import difference_sentences
from fx_explorer.instruments.diff.kernel_pairs import code_diff, kernel_pairs
from fx_explorer.instruments.diff.other_python import names_by_release
from fx_explorer.instruments.diff.report import text_of_both, two_sessions_report
from fx_explorer.output.formats import json_text
from fx_explorer.output.terminal import is_read_in_colour, width_for, wrapped
from fx_explorer.session import SessionReader

EPILOG = """\
examples:
  fx-explorer diff before.fxs after.fxs                  what a change did
  fx-explorer diff before.fxs model.py                   against the file as it is now
  fx-explorer diff model.py --gpu a100 --gpu h100        one target for two GPUs
  fx-explorer diff model.py --python A --python B        one target under two releases of torch
  fx-explorer diff before.fxs after.fxs --kernel gelu    the code of one kernel, line by line
  fx-explorer diff before.fxs after.fxs --format html    one page for the browser, to stdout

A and B are sessions (file.fxs) or targets, which are captured first. One target with --gpu twice is
captured for both GPUs, with --python twice by both interpreters. Kernels are paired by the
operations they compute. Nothing is run on a virtual GPU: run times are not compared.
"""


DIFFERING = "\x1b[33m{}\x1b[0m"
"""Colour of a row of figures that differ, on a terminal: yellow, in addition to its sign."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="A", help="a session, or a target")
    parser.add_argument(
        "other",
        metavar="B",
        nargs="?",
        help="the other side; not needed with two --gpu or two --python",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        default="",
        help="show only the code of this kernel, line by line",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json", "html"],
        default="text",
        help="json: the same facts; html: one page for the browser (default: text)",
    )
    add_kernels_argument(parser)
    add_capture_arguments(parser, of_two=True)


def run(arguments: argparse.Namespace) -> int:
    # In this order, so that the readers are closed before the folder of their files goes.
    with temporary_folder() as folder, contextlib.ExitStack() as opened:
        sides = _sides(arguments)
        readers = []
        for position, side in enumerate(sides):
            session = _session(side, folder / f"{position}.fxs")
            readers.append(opened.enter_context(SessionReader(session)))
        left, right = (
            _built(reader, side, opened) for reader, side in zip(readers, sides, strict=True)
        )
        names = _names(arguments, left, right)
        if arguments.format == "json":
            sys.stdout.write(json_text(two_sessions_report(left, right, names)))
            return 0
        if arguments.format == "html":
            sentences = list(difference_sentences(left, right, names))
            report = two_sessions_report(left, right, names)
            sys.stdout.write(difference_page(report, sentences))
            return 0
        in_colour, width = is_read_in_colour(sys.stdout), width_for(sys.stdout)
        if arguments.kernel:
            lines = list(_code(left, right, arguments.kernel))
        else:
            lines = []
            for line in text_of_both(left, right, names, width):
                lines += wrapped(line, width)
        for line in lines:
            text = printable(line)
            if in_colour and line.endswith("≠"):
                text = DIFFERING.format(text)
            print(text)
    return 0


def _sides(arguments: argparse.Namespace) -> list[argparse.Namespace]:
    """Return the arguments for capturing each side. Raises UsageError unless there are exactly two
    sides.
    """
    gpus: list[str] = arguments.gpu
    pythons: list[str] = arguments.python
    for gpu in gpus:
        find_gpu(gpu)  # before one side is captured
    if arguments.other:
        are_two = len(gpus) <= 1 and len(pythons) <= 2
    else:
        are_two = max(len(gpus), len(pythons)) == 2
    if not are_two:
        raise UsageError(
            "diff compares two sessions or targets: fx-explorer diff A B, or one target for two "
            "GPUs or by two interpreters: diff TARGET --gpu a100 --gpu h100, diff TARGET --python "
            "A --python B"
        )
    sides = []
    for position, target in enumerate((arguments.target, arguments.other or arguments.target)):
        changes = {
            "target": target,
            "gpu": _of_side(gpus, position, None),
            "python": _of_side(pythons, position, sys.executable),
        }
        sides.append(argparse.Namespace(**{**vars(arguments), **changes}))
    if all(is_session(side.target) for side in sides):
        refuse_gpu(sides[0])
        refuse_capture_options(sides[0])
    return sides


def _of_side(values: list[str], position: int, default: str | None) -> str | None:
    """Return the value of a side. One that is given once is that of both."""
    if not values:
        return default
    return values[min(position, len(values) - 1)]


def _names(
    arguments: argparse.Namespace, left: SessionReader, right: SessionReader
) -> tuple[str, str]:
    if arguments.other:
        return shown_name(arguments, arguments.target), shown_name(arguments, arguments.other)
    if len(arguments.gpu) == 2:
        return str(arguments.gpu[0]), str(arguments.gpu[1])
    return names_by_release(left, right, (str(arguments.python[0]), str(arguments.python[1])))


def _session(side: argparse.Namespace, path: Path) -> Path:
    """Return the session that is given, or a new capture. Raises ProgramError or WorkerError if the
    capture did not run to its end.
    """
    if is_session(side.target):
        return Path(side.target)
    from fx_explorer.command_line.captured_first import capture_first

    for_gpu = f" for {side.gpu}" if side.gpu else ""
    by_python = f" by {side.python}" if side.python != sys.executable else ""
    print(f"capturing {side.target}{for_gpu}{by_python}", file=sys.stderr)
    ended = asyncio.run(capture_first(side, lambda _: None, path))
    if ended:
        error = ProgramError if ended == ProgramError.exit_code else WorkerError
        raise error(f"the capture of {side.target} failed, so there is nothing to compare with")
    return path


def _built(
    reader: SessionReader, arguments: argparse.Namespace, opened: contextlib.ExitStack
) -> SessionReader:
    """Return the session with the kernels of ``--kernels`` built; a copy of it if it cannot be
    written to.
    """
    readers = [reader]
    with_kernel_builds(
        arguments, lambda built: readers.append(opened.enter_context(SessionReader(built.path)))
    )(reader)
    return readers[-1]


def _code(left: SessionReader, right: SessionReader, name: str) -> Iterator[str]:
    """Yield the kernel's code with the differences marked. Raises UsageError for a name that
    neither session has.
    """
    pairs = [pair for pair in kernel_pairs(left, right) if name in pair.names]
    if not pairs:
        raise UsageError(
            f"neither session has a kernel called {name!r}; without --kernel, diff lists all "
            "kernels that differ"
        )
    for pair in pairs:
        rows = code_diff(left, right, pair)
        yield (
            f"[{pair.compilation}] {pair.direction} {pair.name}: "
            f"{describe_difference(rows, 'line')}"
        )
        for row in rows:
            if row.before is not None and row.sign != "+":
                sign = "-" if row.sign == "~" else row.sign
                yield f"{sign} {row.before}"
            if row.after is not None and row.sign in "+~":
                yield f"+ {row.after}"
