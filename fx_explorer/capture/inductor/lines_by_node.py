"""This module sees, while Inductor writes a line of a generated kernel, which FX node that line
computes.

A node's name travels with the code Inductor makes for it: the function that computes one element of
the node's value carries it (``Loops.inner_fn``, torch/_inductor/ir.py), the small FX graph traced
from that function keeps it per operation (``LoopBody``, torch/_inductor/loop_body.py), and when C++
or Triton is emitted from that graph the written line remembers it (``IndentedBuffer``,
torch/_inductor/utils.py). The text stays what it was: a remembering line is a ``str`` of equal
value.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor import line_text
from fx_explorer.capture.inductor.line_text import LineNodes, RenderedTexts, TaggedLine
from fx_explorer.capture.torch_compat.patching import patched

_KEY = "fx_explorer_node"
"""The key under which the meta of a loop body's node, and a tagged ``inner_fn``, hold the name of
the post-grad node.
"""


class _State(threading.local):
    """What this thread is doing now."""

    tracing: str | None = None
    """Post-grad node whose element function is being traced."""
    running: torch.fx.Node | None = None
    """Node of a loop body that is being run: to emit its code, or to trace it again."""
    written: list[str] | None = None
    """The nodes of the line written last."""
    rendered: RenderedTexts | None = None


_state = _State()


@contextlib.contextmanager
def line_recording() -> Iterator[dict[str, str]]:
    """Let ``lines_of`` know the kernels that are generated in this thread inside the block. Yields
    view → why it is not available.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        _install(stack, missing)
        yield missing


def lines_of(src_code: str) -> LineNodes:
    """Return (line, node) for kernel text just generated in this thread. Line 1 is the first that
    is not blank, as in output code.
    """
    return _rendered().lines_of(src_code)


def node_of_operation(operation: torch.fx.Node) -> str | None:
    """Return the name of the post-grad node that an operation of a loop body was traced for."""
    return operation.meta.get(_KEY)


def node_of_buffer(buffer: Any) -> str | None:
    """Return the name of the post-grad node whose value an Inductor buffer holds."""
    name = getattr(getattr(getattr(buffer, "data", None), "inner_fn", None), _KEY, None)
    if name or not hasattr(buffer, "get_origin_node"):
        return name
    origin = buffer.get_origin_node()
    return origin.name if origin is not None else None


def _rendered() -> RenderedTexts:
    if _state.rendered is None:
        _state.rendered = RenderedTexts()
    return _state.rendered


def _install(stack: contextlib.ExitStack, missing: dict[str, str]) -> None:
    """Hook into Inductor where a node's name travels with its code, until the stack is closed. What
    this torch release lacks is noted in ``missing``.
    """
    try:
        from torch._inductor import ir
        from torch._inductor.codegen.common import CSE
        from torch._inductor.loop_body import InterpreterShim, LightTracer
        from torch._inductor.utils import DeferredLineBase, IndentedBuffer
    except ImportError as error:
        missing["kernel lines"] = f"this torch release lacks something ({error})"
        return
    hooks: list[line_text.Hook] = [
        (ir.Loops, "__post_init__", _loops_post_init),
        (LightTracer, "create_node", _create_node),
        (InterpreterShim, "run_node", _run_node),
        (DeferredLineBase, "__getitem__", _deferred_getitem),
        (IndentedBuffer, "writeline", _writeline),
        (IndentedBuffer, "getvalue", _getvalue),
        (CSE, "generate", _generate),
    ]
    # All hooks or none: a node's name goes through every one of them on its way to a line.
    absent = [f"{owner.__name__}.{name}" for owner, name, _ in hooks if not hasattr(owner, name)]
    if absent:
        missing["kernel lines"] = f"this torch release has no {', '.join(absent)}"
        return
    hooks += [
        hook
        for hook in line_text.hooks(lambda: _state.running, _run_as)
        if hasattr(hook[0], hook[1])
    ]
    for owner, name, make in hooks:
        stack.enter_context(patched(owner, name, make))


# lowering: the function that computes an element of a node's value carries the node's name


def _loops_post_init(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch._inductor.virtualized import V

    def __post_init__(loops: Any) -> None:
        original(loops)
        node = V.current_node
        if not isinstance(node, torch.fx.Node):
            return
        # Loops are frozen dataclasses.
        object.__setattr__(loops, "inner_fn", _tagged(loops.inner_fn, node.name))
        several = getattr(loops, "inner_fns", None)  # Scan and Sort have one per output
        if several:
            tagged = type(several)(_tagged(inner, node.name) for inner in several)
            object.__setattr__(loops, "inner_fns", tagged)

    return __post_init__


def _tagged(function: Any, name: str) -> Any:
    """Return ``function``, known to compute ``name`` while it runs. A function that is taken over
    from another node keeps that node.
    """
    if hasattr(function, _KEY) or not callable(function):
        return function

    def inner_fn(*args: Any, **kwargs: Any) -> Any:
        before = _state.tracing
        _state.tracing = name
        try:
            return function(*args, **kwargs)
        finally:
            _state.tracing = before

    setattr(inner_fn, _KEY, name)
    return inner_fn


# scheduling: element functions become small FX graphs, which may be traced again from one another


def _create_node(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
        node = original(tracer, *args, **kwargs)
        name = _state.tracing
        if not name and _state.running is not None:
            name = _state.running.meta.get(_KEY)
        if name:
            node.meta[_KEY] = name
        return node

    return create_node


def _run_node(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(interpreter: Any, node: torch.fx.Node) -> Any:
        before = _state.running
        _state.running = node
        try:
            return original(interpreter, node)
        finally:
            _state.running = before

    return run_node


@contextlib.contextmanager
def _run_as(node: torch.fx.Node) -> Iterator[None]:
    before = _state.running
    _state.running = node
    try:
        yield
    finally:
        _state.running = before


# code generation: a line remembers for which node it was written


def _writeline(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make each line that is written for a node remember that node."""

    def writeline(buffer: Any, line: Any) -> None:
        original(buffer, line)
        nodes = getattr(line, "nodes", None)
        if nodes is None:
            if _state.running is None:
                return
            name = _node_name(_state.running)
            if name is None:
                return
            nodes = _state.written = [name]
        last = buffer._lines[-1]
        if type(last) is str:
            # Inductor recognises these two by their exact type (_filter_pdl,
            # torch/_inductor/codegen/triton.py).
            if last and "gdc_" not in last:
                buffer._lines[-1] = TaggedLine(last, nodes)
        elif hasattr(last, "with_prefix"):
            last.nodes = nodes

    return writeline


def _deferred_getitem(original: Callable[..., Any]) -> Callable[..., Any]:
    def __getitem__(line: Any, index: Any) -> Any:
        part = original(line, index)
        if hasattr(line, "nodes"):
            part.nodes = line.nodes
        return part

    return __getitem__


def _generate(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note both nodes of a line when ``CSE.generate`` returns the variable of an equal expression:
    that line then computes both.
    """

    def generate(cse: Any, *args: Any, **kwargs: Any) -> Any:
        _state.written = None
        variable = original(cse, *args, **kwargs)
        if _state.written is not None:
            variable.fx_explorer_nodes = _state.written
        elif _state.running is not None:
            nodes: list[str] | None = getattr(variable, "fx_explorer_nodes", None)
            name = _node_name(_state.running)
            if nodes is not None and name and name not in nodes:
                nodes.append(name)
        return variable

    return generate


def _getvalue(original: Callable[..., Any]) -> Callable[..., Any]:
    def getvalue(buffer: Any) -> str:
        lines = buffer._lines
        if not any(hasattr(line, "nodes") for line in lines):
            return original(buffer)
        return _rendered().render(buffer)

    return getvalue


def _node_name(running: torch.fx.Node) -> str | None:
    """Return the post-grad node that a loop body's node was made for."""
    name = running.meta.get(_KEY)
    if name is None:
        name = _neighbour_name(running) or _scheduled_name()
        if name:
            running.meta[_KEY] = name
    return name


def _neighbour_name(running: torch.fx.Node) -> str | None:
    """Return the node of what a conversion converts. Inductor puts conversions into a finished loop
    body, where they have none of their own.
    """
    if running.target != "to_dtype":
        return None
    for near in (*running.all_input_nodes, *running.users):
        if _KEY in near.meta:
            name: str | None = near.meta[_KEY]
            return name
    return None


def _scheduled_name() -> str | None:
    """Return the node whose value is being stored: storing is not part of its element function."""
    from torch._inductor.virtualized import V

    return node_of_buffer(getattr(getattr(V.kernel, "current_node", None), "node", None))
