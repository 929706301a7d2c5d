"""Python calls functions at its own speed while torch compiles.

As long as a compiled function runs, Dynamo has Python ask it about every call (PEP 523; ``custom_eval_frame_shim``,
torch/csrc/dynamo/eval_frame.c), and a Python that asks takes none of its shortcuts for calls. While Dynamo compiles it answers
each time that there is nothing to do: what compiles is no program. So Python's own evaluation is put in place meanwhile.

Measured with torch 2.13 and Python 3.11 on a busy machine, for an H100: a call takes 0.6 of the time. Inspecting takes, with
and without at the same time, one round each: Llama of 12 layers 17.5 and 18.9 s of CPU time, GPT-2 of 12 21.6 and 21.4,
ConvNeXt V2 15.6 and 16.1, T5 8.5 and 8.6.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fx_explorer.capture.torch_compat.patching import patched

_IN_COMPILED_FUNCTIONS = "torch/_dynamo/eval_frame.py"
"""File of the frame that each call of a compiled function begins with."""


class _Interpreter(NamedTuple):
    """Python's functions for what evaluates frames (Include/cpython/pystate.h), for the interpreter we are in."""

    evaluation: Callable[[], int]
    evaluate_with: Callable[[int], None]
    pythons_own: int


def compile_without_being_asked(stack: contextlib.ExitStack) -> None:
    """Let Dynamo's ``_compile`` run with Python's own evaluation of frames until the stack is closed."""
    from torch._dynamo import convert_frame

    python = _interpreter()
    dynamos = _dynamos_evaluation(python) if python else 0
    if not (python and dynamos and hasattr(convert_frame, "_compile")):
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def _compile(*args: Any, **kwargs: Any) -> Any:
            with _pythons_own(python, dynamos):
                return original(*args, **kwargs)

        return _compile

    stack.enter_context(patched(convert_frame, "_compile", make))


def _interpreter() -> _Interpreter | None:
    """Return what this Python offers; None for one that has nothing of it."""
    try:
        api = ctypes.pythonapi
        get, put = api._PyInterpreterState_GetEvalFrameFunc, api._PyInterpreterState_SetEvalFrameFunc
        pythons_own = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
        here = api.PyInterpreterState_Get
    except AttributeError:
        return None
    here.restype, here.argtypes = ctypes.c_void_p, []
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    put.restype, put.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
    return _Interpreter(lambda: get(here()), lambda evaluation: put(here(), evaluation), pythons_own or 0)


def _dynamos_evaluation(python: _Interpreter) -> int:
    """Return the function that Dynamo has frames evaluated with; 0 where that cannot be told, because it is in use, or
    somebody else (a debugger) evaluates frames.
    """
    try:
        from torch._C._dynamo.eval_frame import set_eval_frame
    except ImportError:
        return 0
    if python.evaluation() != python.pythons_own:
        return 0
    before = set_eval_frame(False)  # as torch._dynamo.run: nothing is compiled
    found = python.evaluation()
    set_eval_frame(before)
    return found if found != python.pythons_own == python.evaluation() else 0


@contextlib.contextmanager
def _pythons_own(python: _Interpreter, dynamos: int) -> Iterator[None]:
    """Have frames evaluated by Python alone inside the block. A compiled function that begins meanwhile, on whatever
    thread, puts Dynamo's evaluation in place again, and then it stays.
    """
    if python.evaluation() != dynamos or _others_run_compiled_functions():
        yield
        return
    python.evaluate_with(python.pythons_own)
    try:
        yield
    finally:
        if python.evaluation() == python.pythons_own:
            python.evaluate_with(dynamos)


def _others_run_compiled_functions() -> bool:
    """Return whether another thread is in a compiled function, the rest of which Dynamo is to be asked about."""
    here = threading.get_ident()
    return any(thread != here and _is_in_compiled_function(frame) for thread, frame in sys._current_frames().items())


def _is_in_compiled_function(frame: Any) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(_IN_COMPILED_FUNCTIONS):
            return True
        frame = frame.f_back
    return False
