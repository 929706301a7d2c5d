"""``fx-explorer dynamic TARGET``: dynamic=None, True, False and mark_dynamic compared on one program, and on other inputs."""

from __future__ import annotations

import argparse
import asyncio

from fx_explorer.client.dynamic_trial import TIMEOUT_S, DynamicTrial, try_dynamic
from fx_explorer.commands.capture_options import add_capture_arguments, request_from
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest

EPILOG = """\
Each way is captured by a worker of its own; nothing is built. Whether the other inputs would be compiled again is what the
guards say: the program is not run with them. mark_dynamic marks the dimensions in which the other inputs differ.
"""

_HEADER = ("way", "compiled", "guards", "free sizes", "fixed sizes", "kernels", "compile s", "other inputs")

_WIDTHS = (14, 9, 7, 11, 12, 8, 10, 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="TARGET", help="file.py, file.py:object or package.module:object")
    parser.add_argument(
        "--others", metavar="EXPR", default="", help="other inputs, as for --inputs (default: the same with twice the batch)"
    )
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_compare(request_from(arguments), arguments))


async def _compare(request: CaptureRequest, arguments: argparse.Namespace) -> int:
    """Prints each way as it is done. Returns 1 when one of them did not come to its end."""
    print(_line(_HEADER), flush=True)
    failed = False
    async for trial in try_dynamic(request, arguments.others, arguments.python, arguments.timeout or TIMEOUT_S):
        print(printable(_line(_cells(trial))), flush=True)
        failed = failed or trial.outcome.kind != "finished"
    return int(failed)


def _cells(trial: DynamicTrial) -> tuple[str, ...]:
    if trial.outcome.kind != "finished":
        return (trial.way, f"{trial.outcome.kind.replace('_', ' ')}: {trial.outcome.message}")
    compiled = f"{trial.compilations} ({trial.recompiles} again)" if trial.recompiles else str(trial.compilations)
    numbers = (trial.guards, trial.symbols, trial.specialized, trial.kernels)
    told = f"{trial.others or 'not known'}: {trial.reason}".removesuffix(": ")
    return (trial.way, compiled, *map(str, numbers), f"{trial.compile_s:.1f}", told)


def _line(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:<{width}}" + " " * (width > 0) for cell, width in zip(cells, _WIDTHS, strict=False)).rstrip()
