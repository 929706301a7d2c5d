"""An exception in words: printed as Python would, and in one line for messages. Holds up against exceptions that misbehave."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep


def print_traceback(error: BaseException) -> None:
    """To stderr, through the program's own ``sys.excepthook`` as Python does it; by Python's when that one fails."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as second:  # noqa: BLE001 - Python, too, shows what a hook raises and goes on
        with contextlib.suppress(OSError, ValueError):  # stderr is closed: nowhere to show it
            print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.__excepthook__(type(error), error, error.__traceback__)


def one_line(error: BaseException) -> str:
    """``ValueError: first line of the message``, and the line it announces when it ends with a colon."""
    try:
        message = str(error).strip()
    except Exception:  # noqa: BLE001 - a message that cannot be made is shown as missing
        message = "(its message cannot be shown: str() of it fails)"
    if not message:
        return type(error).__name__
    first, *rest = (line.strip() for line in message.splitlines() if line.strip())
    announced = f" {rest[0]}" if rest and first.endswith(":") else ""
    return f"{type(error).__name__}: {first}{announced}"


def whole_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def ran_out_of_memory(error: BaseException) -> bool:
    """Python's MemoryError, as it is or as an error of Dynamo's names it, or the message of an allocator of torch's."""
    told = one_line(error)
    words = ("MemoryError", "can't allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(one in told for one in words)


def without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not fx-explorer's own, so that it reads as it would without us."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    return trace
