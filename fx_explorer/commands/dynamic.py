"""``fx-explorer dynamic TARGET``: dynamic=None, True, False and mark_dynamic compared on one
program, and on other inputs.
"""

from __future__ import annotations

import argparse
import asyncio

from fx_explorer.command_line.capture_options import add_capture_arguments, request_from
from fx_explorer.command_line.tables.fitting import tell
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest
from fx_explorer.trials.dynamic import DynamicTrial, try_dynamic
from fx_explorer.trials.dynamic_in_words import HEADER, advice, cells, verdict
from fx_explorer.trials.recapture import TrialWorker

EPILOG = """\
examples:
  fx-explorer dynamic model.py                           on your inputs, and on twice the batch
  fx-explorer dynamic model.py --others 'torch.randn(7, 32)'
  fx-explorer dynamic model.py --no-train                without the backward

Each way is captured by a worker of its own; nothing is built. Whether the other inputs would be compiled again is what the
guards say: the program is not run with them. mark_dynamic marks the dimensions in which the other inputs differ.
"""

_WIDTHS = (14, 9, 7, 7, 11, 12, 8, 10, 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="TARGET", help="file.py, file.py:object or package.module:object")
    parser.add_argument(
        "--others", metavar="EXPR", default="", help="other inputs, as for --inputs (default: the same with twice the batch)"
    )
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare the ways. Returns 1 when one of them did not come to its end. Raises UsageError for a
    script.
    """
    return asyncio.run(_compare(request_from(arguments), arguments))


async def _compare(request: CaptureRequest, arguments: argparse.Namespace) -> int:
    """Print each way as it is done. Returns 1 when one of them did not come to its end."""
    worker = TrialWorker(arguments.python, arguments.timeout)
    trials: list[DynamicTrial] = []
    async for trial in try_dynamic(request, arguments.others, worker=worker):
        if not trials:
            print(_line(HEADER))
        print(printable(_line(cells(trial))), flush=True)
        trials.append(trial)
    tell(f"\n{printable(verdict(trials))}")
    for line in advice(trials).splitlines():
        tell(f"  {printable(line)}")
    return int(not all(trial.is_whole for trial in trials))


def _line(shown: tuple[str, ...]) -> str:
    return "".join(f"{cell:<{width}}" + " " * (width > 0) for cell, width in zip(shown, _WIDTHS, strict=True)).rstrip()
