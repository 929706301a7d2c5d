"""``--measure-breaks``: before a target is captured, what its calls spend at graph breaks is
measured, and told on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable

from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.given_session import is_session
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.session.writer import finish_session
from fx_explorer.trials.break_times import BreakTimes, add_break_times, measure_breaks
from fx_explorer.trials.recapture import TrialWorker

Answer = Callable[[SessionReader], None]


def add_measure_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measure-breaks",
        action="store_true",
        help="also build the target and call it repeatedly, for the time that each graph "
        "break takes (no sessions, no scripts)",
    )


def with_break_times(arguments: argparse.Namespace, answer: Answer) -> Answer:
    """Return ``answer``, given a session that has the times too. What cannot be measured is told,
    and the rest answered.
    """
    if not arguments.measure_breaks:
        return answer
    if is_session(arguments.target):
        raise UsageError("--measure-breaks is for targets: a session that is given is not changed")
    try:
        times = asyncio.run(_measured(arguments))
    except UsageError as error:
        _tell(f"breaks are not measured: {error}")
        return answer

    def with_times(reader: SessionReader) -> None:
        reader.close()  # a session becomes one plain file again only when nobody reads it
        try:
            add_break_times(reader.path, times)
            finish_session(reader.path)
        finally:
            reader.reopen()
        answer(reader)

    return with_times


async def _measured(arguments: argparse.Namespace) -> BreakTimes:
    _tell("measuring graph breaks: a worker builds the target and calls it repeatedly")
    return await measure_breaks(
        request_from(arguments), _tell, TrialWorker(arguments.python, arguments.timeout)
    )


def _tell(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()
