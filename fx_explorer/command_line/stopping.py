"""A command that measures for minutes is stopped by Ctrl-C, SIGTERM or a closed terminal, and keeps
what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine


async def run_until_stopped(work: Coroutine[object, object, None]) -> int:
    """Run ``work`` until it ends or a signal stops it. Return the signal's number; 0 for none.
    Raises whatever the work raises.
    """
    loop, running = asyncio.get_running_loop(), asyncio.create_task(work)
    stopped_by = 0

    def stop(number: int) -> None:
        nonlocal stopped_by
        stopped_by = stopped_by or number
        running.cancel()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    return stopped_by
