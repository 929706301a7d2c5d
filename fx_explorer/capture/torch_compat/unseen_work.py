"""Work that torch does while it compiles and that nobody sees here: looking for garbage, asking for
new pieces of Python's stack, and printing texts that nobody reads. Each part is left out by itself.

None of it has any effect on what is generated. Shares of a 12-layer Llama training step, torch
2.13, main process, CPU time: garbage collection 20 %, page faults of the stack 15 to 20 %, texts of
graphs 3 %, names of functions for a log 2 % (``python -m benchmarks.capture_cost``). What torch
answers is never answered in its place: such code would have to follow every release.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.torch_compat.compile_caches import is_cached
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.stack_room import room_behind


@contextlib.contextmanager
def room_on_the_stack(_: object) -> Iterator[None]:
    """Compile with room on Python's stack. The backward may be compiled on a thread of autograd's,
    beside Dynamo's.
    """
    from torch._dynamo import convert_frame
    from torch._inductor import compile_fx

    with (
        room_behind(inspect.unwrap(convert_frame._compile)),
        room_behind(inspect.unwrap(compile_fx._compile_fx_inner)),
    ):
        yield


@contextlib.contextmanager
def no_function_names_for_logs(_: object) -> Iterator[None]:
    """Name no functions for a debug log that is off: Dynamo parses each source file it meets for
    the log's header (``get_line_of_code_header``).
    """
    from torch._dynamo import symbolic_convert

    names = ("trace_call_log", "trace_source_log")
    logs = [getattr(symbolic_convert, name) for name in names]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_funcname(*args: Any) -> Any:
            return original(*args) if any(log.isEnabledFor(logging.DEBUG) for log in logs) else None

        return get_funcname

    with patched(symbolic_convert, "get_funcname", make):
        yield


@contextlib.contextmanager
def no_printed_graphs(_: object) -> Iterator[None]:
    """Print no graphs for entries of caches that are off, nor for a trace that nobody reads
    (``_log_joint_graph``, ``_log_fw_bw_graphs``, ``codegen_and_compile``; read in torch 2.13).
    """
    from torch._functorch._aot_autograd import graph_compile
    from torch._inductor import compile_fx
    from torch._logging._internal import trace_log
    from torch.fx import graph_module

    printing = (
        graph_compile._log_joint_graph,
        graph_compile._log_fw_bw_graphs,
        compile_fx._InProcessFxCompile.codegen_and_compile,
    )
    codes = {inspect.unwrap(function).__code__ for function in printing}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _print_readable(*args: Any, **kwargs: Any) -> Any:
            asked_by = sys._getframe(2).f_code  # above GraphModule.print_readable
            if asked_by in codes and not vars(trace_log)["handlers"] and not is_cached():
                return ""
            return original(*args, **kwargs)

        return _print_readable

    with patched(graph_module, "_print_readable", make):
        yield
