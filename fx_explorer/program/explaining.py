"""This module explains an exception: printed as Python would, or in one line for messages, even if
its methods misbehave; and in one sentence where torch raises it in its strict modes (fullgraph,
fail_on_recompile, error_on_recompile), or for a backend whose result cannot be called.

torch: torch/_dynamo/exc.py (``Unsupported``, ``RecompileError``), torch/_dynamo/eval_frame.py
(``fail_callback``). Of a backend's result torch says only that "compiler_fn did not return
callable" (torch/_dynamo/output_graph.py, ``OutputGraph._call_user_compiler``); which function that
was, and what it returned, is in the variables of that frame.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import traceback
import types
from pathlib import Path
from types import TracebackType
from typing import Any

from fx_explorer.errors import TargetError
from fx_explorer.program.process_ending import Cancelled
from fx_explorer.session.bounds import MAX_TRACEBACK, shortened
from fx_explorer.torch_texts import bounded

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
    except BaseException as second:  # noqa: BLE001
        # Python, too, shows what a hook raises and continues
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
    except BaseException:  # noqa: BLE001
        # whatever the program raises there: the message is shown as missing
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
    except BaseException:  # noqa: BLE001
        # causes of causes of causes, or a class of the program's that cannot be shown
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


_FAILED_STANCE = re.compile(
    r"Detected recompile when torch\.compile stance is 'fail_on_recompile'\. "
    r"filename: '(?P<file>.*)', function name: '(?P<function>.*)', line number: (?P<line>\d+)"
)
_RECOMPILED = re.compile(r"Recompiling function (?P<function>.*) in (?P<file>.*):(?P<line>\d+)")
_GUARD = re.compile(r"^[^\S\n]*- (?:\d+/\d+: )?(.*?)(?: {2,}#.*)?$", re.MULTILINE)


def target_error_of(error: BaseException) -> BaseException:
    """Return the TargetError that caused an error of torch's, such as one from a guard filter of
    the request that Dynamo calls; else the error itself.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        if isinstance(found, TargetError):
            return found
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return error


def explain_refusal(error: BaseException) -> str:
    """Return a sentence on the break, call or backend that torch refused, and its place; empty for
    any other exception.
    """
    if "torch" not in sys.modules:
        return ""
    from fx_explorer.capture.torch_compat.private_names import dynamo_exc

    if isinstance(error, dynamo_exc.BackendCompilerFailed):
        return not_callable(error)
    if isinstance(error, dynamo_exc.Unsupported):
        return _broke(error)
    if isinstance(error, dynamo_exc.RecompileError):
        return _recompiled(
            "the option error_on_recompile", _RECOMPILED.match(bounded(str(error))), error
        )
    if isinstance(error, RuntimeError):
        return _recompiled(
            "the stance fail_on_recompile", _FAILED_STANCE.match(bounded(str(error))), error
        )
    return ""


def _recompiled(who: str, match: re.Match[str] | None, error: BaseException) -> str:
    if not match:
        return ""
    guards = _GUARD.findall(bounded(str(error)))
    if guards:
        because = f"the guard that failed is {guards[0]}"
    else:
        because = "nothing is compiled for it yet"
    function = f"{match['function']} ({match['file']}:{match['line']})"
    return (
        f"{who} allows no further compilation, but {_call(error)} needs one of {function}: "
        f"{because}"
    )


def _broke(error: BaseException) -> str:
    """Describe the break. ``real_stack`` holds the frames of the user's program that Dynamo was in,
    innermost last.
    """
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    stack = list(getattr(error, "real_stack", None) or ())
    if not stack:
        return f"fullgraph=True allows no graph break, but there is one: {reason}"
    place = stack[-1]
    code = f" `{place.line.strip()}`" if place.line else ""
    return (
        "fullgraph=True allows no graph break, but there is one at "
        f"{place.filename}:{place.lineno}{code}: {reason}"
    )


def _call(error: BaseException) -> str:
    """Name the call by the last line of the user's program that led to it."""
    not_theirs = _not_theirs()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(not_theirs):
            return f"the call at {frame.filename}:{frame.lineno}"
    return "the call of the target in this program"


def _not_theirs() -> tuple[str, ...]:
    torch_folder = str(Path(str(sys.modules["torch"].__file__)).parent) + os.sep
    return torch_folder, str(Path(__file__).parents[1]) + os.sep


# A backend that returned nothing that can be called.


_TORCHS_WORDS = "compiler_fn did not return callable"
_COMPILER, _RESULT = "compiler_fn", "compiled_fn"
"""The variables of torch's frame."""


def not_callable(failed: BaseException) -> str:
    """Return which backend returned which invalid result, for a BackendCompilerFailed; empty if it
    failed in another way.
    """
    error = getattr(failed, "inner_exception", None)
    if not isinstance(error, AssertionError) or _TORCHS_WORDS not in str(error):
        return ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = frame.f_locals
        if _COMPILER in found and _RESULT in found and not callable(found[_RESULT]):
            return (
                f"the backend {_name_and_place(found[_COMPILER])} returned "
                f"{_described(found[_RESULT])}. A backend must return a callable that takes the "
                "graph's inputs and returns a tuple or a list of its outputs; return gm.forward to "
                "run the graph as it is. It returned that"
            )
    return ""


def _name_and_place(backend: Any) -> str:
    """Return ``mine (mine.py:3)``: the function inside torch's wrapper."""
    from fx_explorer.capture.backends.users_backend import functions_of  # which imports torch

    functions = list(functions_of(backend))
    code = next(filter(None, map(_code_of, reversed(functions))), None)
    if code is None:
        return str(getattr(backend, "__name__", None) or type(backend).__name__)
    name = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _code_of(function: Any) -> types.CodeType | None:
    """Return the code of a function, of a method, or of an object's ``__call__``; None for
    functions that are not written in Python, and for torch's.
    """
    if not inspect.isroutine(function):
        function = inspect.getattr_static(type(function), "__call__", None)
    function = getattr(function, "__func__", function)
    if str(getattr(function, "__module__", "")).partition(".")[0] in (
        "torch",
        __name__.partition(".")[0],
    ):
        return None
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _described(returned: object) -> str:
    if returned is None:
        return "None (like a function without a return statement)"
    kind = type(returned)
    return f"an object of type {kind.__qualname__}, which cannot be called"
