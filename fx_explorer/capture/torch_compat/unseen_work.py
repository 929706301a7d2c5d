"""This module leaves out work of torch's that a capture has no use for: its caches of compiled
graphs, asking for new pieces of Python's stack, and texts that nobody reads.

The caches are off while a capture records, and as the program has them where it must have them: of
a graph that comes from a cache there would be nothing to see.

The other work has no effect on what is generated. Each part is left out by itself; looking for
garbage, another such part, is in garbage.py. Shares of a 12-layer Llama training step, torch 2.13,
main process, CPU time: garbage collection 20 %, page faults of the stack 15 to 20 %, texts of
graphs 3 %, names of functions for a log 2 % (``python -m benchmarks.capture_cost``). What torch
answers is never answered in its place: such code would have to follow every release.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

from fx_explorer.capture.torch_compat.patching import configured, patched
from fx_explorer.stack_room import room_behind

CACHES_OFF: dict[str, Any] = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
_AUTOGRAD_CACHE_OFF: dict[str, Any] = {"enable_autograd_cache": False}
_OFF = (inductor_config, CACHES_OFF), (functorch_config, _AUTOGRAD_CACHE_OFF)

_as_before: list[list[tuple[Any, dict[str, Any]]]] = []
"""(config module, what the program had), for each capture that has the caches off."""


class _Recording(Protocol):
    def unavailable(self, view: str, reason: str) -> None:
        """Note what is not shown, and why."""


@contextlib.contextmanager
def caches_off(recording: _Recording) -> Iterator[None]:
    """Turn torch's caches off inside the block, so that everything is lowered: of a graph that
    comes from a cache there would be nothing to see. An option that this torch release lacks is
    named in the session.
    """
    before: list[tuple[Any, dict[str, Any]]] = []
    with contextlib.ExitStack() as stack:
        for config, values in _OFF:
            for name, value in values.items():
                if not hasattr(config, name):
                    reason = f"{config.__name__} has no option {name}"
                    recording.unavailable("graphs that are in a compile cache", reason)
                    continue
                before.append((config, {name: getattr(config, name)}))
                stack.enter_context(configured(config, {name: value}))
        _as_before.append(before)
        stack.callback(_as_before.remove, before)
        yield


@contextlib.contextmanager
def caches_as_before() -> Iterator[None]:
    """Put the caches back inside the block, within ``caches_off``, as the program had them before
    anything was recorded.
    """
    with contextlib.ExitStack() as stack:
        for config, values in _as_before[0] if _as_before else ():
            stack.enter_context(configured(config, values))
        yield


def is_cached() -> bool:
    """Return whether what is compiled now becomes an entry of a cache: the program may have
    switched one on.
    """
    switches = [(config, name) for config, values in _OFF for name in values]
    return any(getattr(config, name, False) for config, name in switches)


def nothing_found_in_caches() -> contextlib.AbstractContextManager[None]:
    """Cache what is compiled inside the block, but use no entry that is older. Kernels that are
    built already are used.
    """
    manager: contextlib.AbstractContextManager[None] = torch.compiler.config.patch(
        cache_key_tag=uuid.uuid4().hex
    )
    return manager


# Work that nobody sees.


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
            if not any(log.isEnabledFor(logging.DEBUG) for log in logs):
                return None
            return original(*args)

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
