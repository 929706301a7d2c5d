"""Notices that the terminal is gone (its window was closed, ssh broke off) where no SIGHUP says so.

Textual continues without a terminal, and blocks once its queue of unwritten frames is full; nobody
could ever stop the app.
"""

from __future__ import annotations

import os
import select
import sys


def terminal_is_gone() -> bool:
    """Return whether stdin's terminal has hung up. Costs microseconds."""
    stdin = sys.__stdin__
    if stdin is None or stdin.closed or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(stdin.fileno(), 0)  # a hang-up is told without asking for anything
    return any(
        event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0)
    )


def leave_at_once() -> None:
    """End without Textual's farewell, which would wait for ever for a terminal to take it."""
    os._exit(129)
