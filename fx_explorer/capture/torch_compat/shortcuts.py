"""Leaves out work that torch does while it compiles and that nobody sees here, so that a capture
costs less than it adds.

None of it has any effect on what is generated. Shares of a 12-layer Llama training step, torch
2.13, main process, CPU time: garbage collection 11 %, tables built again per operation 2 %, names
of functions for a log 2 %.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched

_COMPILING_THRESHOLDS = (50_000, 20, 1_000)
"""Compiling makes millions of objects that stay alive until its end: looking through them again and
again finds nothing.
"""


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Compile without the work that is left out here. A name that this torch release lacks is
    simply not shortened.
    """
    with contextlib.ExitStack() as stack:
        _collect_garbage_rarely(stack)
        _build_tables_once(stack)
        _name_no_functions(stack)
        yield


def _collect_garbage_rarely(stack: contextlib.ExitStack) -> None:
    """Collect garbage rarely while Dynamo or Inductor compiles. The user's own program keeps the
    thresholds it has.
    """
    try:
        from torch._dynamo.callback import callback_handler
    except ImportError:
        return
    before: list[tuple[int, int, int]] = []

    def start(_: object) -> None:
        before.append(gc.get_threshold())
        if before[0][0]:  # 0: the program has switched collection off
            gc.set_threshold(*_COMPILING_THRESHOLDS)

    def end(_: object) -> None:
        if before:
            gc.set_threshold(*before.pop())

    callback_handler.register_start_callback(start)
    stack.callback(_discard, callback_handler.start_callbacks, start)
    callback_handler.register_end_callback(end)
    stack.callback(_discard, callback_handler.end_callbacks, end)


def _discard(callbacks: list[Any], callback: object) -> None:
    if callback in callbacks:  # torch._dynamo.reset() forgets them
        callbacks.remove(callback)


def _build_tables_once(stack: contextlib.ExitStack) -> None:
    """Keep the table of rules of ``DtypePropagationOpsHandler``, a singleton that fills it each
    time it is asked for.
    """
    try:
        from torch._inductor import dtype_propagation, utils
        from torch._inductor.codegen import common

        sources = utils.op_dtype_propagation_rules, common.pointwise_overrides_data
    except (ImportError, AttributeError):
        return
    filled: dict[int, tuple[int, ...]] = {}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(handler: Any) -> None:
            sizes = tuple(map(len, sources))
            if filled.get(id(handler)) != sizes:
                original(handler)
                filled[id(handler)] = sizes

        return __init__

    stack.enter_context(patched(dtype_propagation.DtypePropagationOpsHandler, "__init__", make))


def _name_no_functions(stack: contextlib.ExitStack) -> None:
    """Spare Dynamo naming functions: it parses each source file it meets for the header of a debug
    log (``get_line_of_code_header``).
    """
    from torch._dynamo import symbolic_convert

    if not hasattr(symbolic_convert, "get_funcname"):
        return
    names = ("trace_call_log", "trace_source_log")
    logs = [getattr(symbolic_convert, name) for name in names if hasattr(symbolic_convert, name)]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_funcname(*args: Any) -> Any:
            return original(*args) if any(log.isEnabledFor(logging.DEBUG) for log in logs) else None

        return get_funcname

    stack.enter_context(patched(symbolic_convert, "get_funcname", make))
