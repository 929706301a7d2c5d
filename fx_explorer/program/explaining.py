"""This module shows an exception, printed as Python would, or in one line for messages, even if its
methods misbehave.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType

from fx_explorer.program.process_ending import Cancelled
from fx_explorer.session.bounds import MAX_TRACEBACK, shortened

_NAME = type.__dict__["__name__"]

MAX_LINE = 2_000
MAX_NAME = 200
"""Maximum number of characters of a one-line message, and of the name of a class."""

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


def print_traceback(error: BaseException) -> None:
    """Print the error to stderr, through the program's own ``sys.excepthook``, or through Python's
    if that fails.
    """
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as second:  # noqa: BLE001 - Python, too, shows what a hook raises and continues
        with contextlib.suppress(OSError, ValueError):  # stderr is closed: nowhere to show it
            print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.__excepthook__(type(error), error, error.__traceback__)


def one_line(error: BaseException) -> str:
    """Return ``ValueError: first line of the message``. A line that ends with a colon is followed
    by the line it announces.
    """
    name = class_name(error)
    message = _message(error).strip()
    if not message:
        return name
    first, *rest = (line.strip() for line in message.splitlines() if line.strip())
    announced = f" {rest[0]}" if rest and first.endswith(":") else ""
    return f"{name}: {shortened(f'{first}{announced}', MAX_LINE)}"


def ran_in_a_graph(error: BaseException) -> bool:
    """Return whether the error was raised in the code of a graph (``torch.fx.GraphModule``), or
    while autograd ran a backward (``_engine_run_backward``, torch/autograd/graph.py).
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if code.co_filename.startswith("<eval_with_key>"):
            return True
        if code.co_name == "_engine_run_backward":
            return True
    return False


def class_name(value: object) -> str:
    """Return the class's original name: a metaclass of the program's may return another, or
    raise.
    """
    return shortened(str(_NAME.__get__(type(value))), MAX_NAME)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Cancelled:
        raise
    except BaseException:  # noqa: BLE001 - whatever the program raises there: the message is shown as missing
        return "(its message cannot be shown: str() of it fails)"


def shown(value: object) -> str:
    """Return ``repr(value)``, shortened. An object of the program's may be huge, or its ``repr``
    may raise.
    """
    try:
        return shortened(repr(value), MAX_LINE)
    except Cancelled:
        raise
    except BaseException:  # noqa: BLE001 - whatever the program raises there
        return f"(a {class_name(value)}, whose repr() fails)"


def whole_text(error: BaseException) -> str:
    """Return the traceback; for a very long one, its beginning and its end."""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Cancelled:
        raise
    except BaseException:  # noqa: BLE001 - causes of causes of causes, or a class of the program's that cannot be shown
        text = "".join([*traceback.format_tb(error.__traceback__), one_line(error)])
    return shortened(text, MAX_TRACEBACK)


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether this is a MemoryError, an error of Dynamo's that names one, or the message of
    one of torch's allocators.
    """
    text = one_line(error)
    words = ("MemoryError", "can't allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(word in text for word in words)


def without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame that is not fx-explorer's, so that it reads as it
    would without us.
    """
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    return trace
