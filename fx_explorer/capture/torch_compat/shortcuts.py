"""Leaves out work that torch does while it compiles and that nobody sees here, so that a capture
costs less than it adds.

None of it has any effect on what is generated. Shares of a 12-layer Llama training step, torch
2.13, main process, CPU time: garbage collection 20 %, tables built again per operation 2 %, names
of functions for a log 2 %. Of six layers while inspecting, against the same without one of them, both at the
same time: strides 7 %, texts of graphs 3 %, wrapped operations 1 % (0.98 and 1.03). Page faults of the
stack, GPT-2 of 12 layers: 15 to 20 %. Sums that are simplified and compared once, and symbols that are
not looked for, Llama for an H100, torch 2.11: 7 % where nothing is recorded (0.83 to 0.97 in 3 rounds).

Seconds of 12, sampled where nothing is recorded (12 layers of Llama and of GPT-2 for an H100, torch 2.11): keys of fake
tensors 0.25 in both, patterns that cannot match 0.16 and 0.14, ordered sets 0.13 and 0.06, texts of sums 0.12 in both,
room and contiguity of buffers 0.14 and 0.09, bounds of indices 0.12 and 0.06.

What took how much before it was shortened, in per cent of an inspected compile of 12 layers of Llama for an H100 (py-spy):
options 2.0, contexts of handlers, guards and nodes 1.7, types without code 1.2, dense strides 0.7, the place of a line 0.6.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.torch_compat.asked_again import answer_once
from fx_explorer.capture.torch_compat.compile_caches import is_cached
from fx_explorer.capture.torch_compat.garbage import collected_rarely
from fx_explorer.capture.torch_compat.graph_patterns import match_only_what_may_match
from fx_explorer.capture.torch_compat.index_sums import has_no_symbols, work_out_sums_once
from fx_explorer.capture.torch_compat.option_reads import read_options_quickly
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.quick_blocks import enter_blocks_quickly
from fx_explorer.capture.torch_compat.tensor_keys import make_keys_once
from fx_explorer.capture.torch_compat.versions import goes_by
from fx_explorer.stack_room import room_behind


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Compile without the work that is left out here. A name that this torch release lacks is
    simply not shortened.
    """
    with contextlib.ExitStack() as stack:
        _give_room_on_the_stack(stack)
        stack.enter_context(collected_rarely())
        _build_tables_once(stack)
        _name_no_functions(stack)
        _print_no_graphs(stack)
        _find_no_source_lines(stack)
        _wrap_operations_once(stack)
        work_out_sums_once(stack)
        _look_for_no_symbols(stack)
        _unite_sets_quickly(stack)
        make_keys_once(stack)
        match_only_what_may_match(stack)
        answer_once(stack)
        read_options_quickly(stack)
        enter_blocks_quickly(stack)
        yield


def _give_room_on_the_stack(stack: contextlib.ExitStack) -> None:
    """Compile with room on the stack. The backward may be compiled on a thread of autograd's, beside Dynamo's."""
    from torch._dynamo import convert_frame
    from torch._inductor import compile_fx

    for function in (
        getattr(convert_frame, "_compile", None),
        getattr(compile_fx, "_compile_fx_inner", None),
    ):
        if function is not None:
            stack.enter_context(room_behind(inspect.unwrap(function)))


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


def _print_no_graphs(stack: contextlib.ExitStack) -> None:
    """Spare AOTAutograd and Inductor printing each graph for the entry of a cache, unless the program has one on, and
    for a trace that nobody reads (``_log_joint_graph``, ``_log_fw_bw_graphs``,
    ``codegen_and_compile``; read in torch 2.13).
    """
    from torch._functorch._aot_autograd import graph_compile
    from torch._inductor import compile_fx
    from torch._logging._internal import trace_log
    from torch.fx import graph_module

    printing = (
        getattr(graph_compile, "_log_joint_graph", None),
        getattr(graph_compile, "_log_fw_bw_graphs", None),
        getattr(getattr(compile_fx, "_InProcessFxCompile", None), "codegen_and_compile", None),
    )
    codes = {inspect.unwrap(function).__code__ for function in printing if function is not None}
    if not hasattr(graph_module, "_print_readable"):
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _print_readable(*args: Any, **kwargs: Any) -> Any:
            asked_by = sys._getframe(2).f_code  # above GraphModule.print_readable
            if asked_by in codes and not vars(trace_log)["handlers"] and not is_cached():
                return ""
            return original(*args, **kwargs)

        return _print_readable

    stack.enter_context(patched(graph_module, "_print_readable", make))


def _find_no_source_lines(stack: contextlib.ExitStack) -> None:
    """Spare torch reading the source around each line that registers a custom operation: it asks for the line's place alone
    (``get_source``). Modules of torch that register many are first imported while it compiles.
    """
    from torch._library import utils

    asked = ("inspect", "getframeinfo", "sys", "_getframe", "filename", "lineno")
    if not goes_by(getattr(utils, "get_source", None), asked):
        return

    def get_source(stacklevel: int) -> str:
        place = inspect.getframeinfo(sys._getframe(stacklevel), context=0)
        return f"{place.filename}:{place.lineno}"

    stack.enter_context(patched(utils, "get_source", lambda original: get_source))


def _wrap_operations_once(stack: contextlib.ExitStack) -> None:
    """Wrap the operations of ``CppVecOverrides`` once for each class of it. torch wraps all hundred
    of them anew for each object, and there are several objects for each kernel.
    """
    from torch._inductor.codegen import cpp

    handler_class = getattr(cpp, "CppVecOverrides", None)
    original = vars(handler_class).get("__new__") if handler_class is not None else None
    if handler_class is None or original is None:
        return
    made: dict[tuple[type, int], dict[str, Any]] = {}

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        key = (
            cls,
            len(vars(handler_class)),
        )  # some operations are added when their backend is first used
        if key not in made:
            handler = original.__func__(cls, *args, **kwargs)
            made[key] = dict(vars(handler))
            return handler
        handler = super(handler_class, cls).__new__(cls)
        vars(handler).update(made[key])
        return handler

    stack.callback(setattr, handler_class, "__new__", original)
    setattr(handler_class, "__new__", staticmethod(__new__))  # noqa: B010 - mypy knows no assignment to it


def _look_for_no_symbols(stack: contextlib.ExitStack) -> None:
    """Spare Inductor looking for the symbolic sizes in all that a part of a graph reads and
    writes (``get_graph_partition_symbol_inputs``), where all sizes are numbers.
    """
    from torch._inductor.virtualized import V
    from torch.utils._ordered_set import OrderedSet

    scheduler_class = getattr(
        importlib.import_module("torch._inductor.scheduler"), "Scheduler", None
    )
    if not hasattr(scheduler_class, "get_graph_partition_symbol_inputs"):
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_graph_partition_symbol_inputs(scheduler: Any, *args: Any) -> Any:
            return OrderedSet() if has_no_symbols(V.graph.sizevars) else original(scheduler, *args)

        return get_graph_partition_symbol_inputs

    stack.enter_context(patched(scheduler_class, "get_graph_partition_symbol_inputs", make))


def _unite_sets_quickly(stack: contextlib.ExitStack) -> None:
    """Unite and intersect ordered sets as dictionaries. Those of ``collections.abc``, which torch uses, go through Python for
    each element and hash it again; a dependency of the scheduler's takes long to hash.
    """
    from torch.utils._ordered_set import OrderedSet

    def make_or(original: Callable[..., Any]) -> Callable[..., Any]:
        def __or__(these: Any, those: Any) -> Any:
            if type(these) is not OrderedSet or type(those) is not OrderedSet:
                return original(these, those)
            return OrderedSet._from_dict(these._dict | those._dict)

        return __or__

    def make_and(original: Callable[..., Any]) -> Callable[..., Any]:
        def __and__(these: Any, those: Any) -> Any:
            if type(these) is not OrderedSet or type(those) is not OrderedSet:
                return original(these, those)
            fewer, more = (these, those) if len(these._dict) < len(those._dict) else (those, these)
            return OrderedSet(
                filter(more._dict.__contains__, fewer._dict)
            )  # in the order of the fewer, as torch has them

        return __and__

    if hasattr(OrderedSet, "_from_dict") and "_dict" in getattr(OrderedSet, "__slots__", ()):
        stack.enter_context(patched(OrderedSet, "__or__", make_or))
        stack.enter_context(patched(OrderedSet, "__and__", make_and))
