"""This module sees, while Inductor writes a line of a generated kernel, which FX node that line
computes.

A node's name travels with the code Inductor makes for it: the function that computes one element of
the node's value carries it (``Loops.inner_fn``, torch/_inductor/ir.py), the small FX graph traced
from that function keeps it per operation (``LoopBody``, torch/_inductor/loop_body.py), and when C++
or Triton is emitted from that graph the written line remembers it (``IndentedBuffer``,
torch/_inductor/utils.py), also in the texts that are made of it. The text stays what it was: a
remembering line is a ``str`` of equal value.

Inductor's C++ code generation writes some lines late, or again, and would forget which node they
are for. The hooks for these are all in torch/_inductor/codegen/cpp.py. Each is optional: without it
a few lines of reductions have no node.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched

_KEY = "fx_explorer_node"
"""The key under which the meta of a loop body's node, and a tagged ``inner_fn``, hold the name of
the post-grad node.
"""


class _State(threading.local):
    """The node whose code Inductor writes on this thread at the moment."""

    tracing: str | None = None
    """Post-grad node whose element function is being traced."""
    running: torch.fx.Node | None = None
    """Node of a loop body that is being run, to emit its code or to trace it again."""
    written: list[str] | None = None
    """The nodes of the last written line."""
    rendered: RenderedTexts | None = None


_state = _State()


@contextlib.contextmanager
def line_recording() -> Iterator[dict[str, str]]:
    """Make the kernels that are generated in this thread inside the block known to ``lines_of``.
    Yields view → why it is not available.
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
    """Hook into Inductor where a node's name is passed along with its code, until the stack is
    closed. Parts that this torch release lacks are added to ``missing``.
    """
    try:
        from fx_explorer.capture.torch_compat.private_names import (
            CSE,
            DeferredLineBase,
            IndentedBuffer,
            InterpreterShim,
            LightTracer,
            inductor_ir,
        )
    except ImportError as error:
        missing["kernel lines"] = f"this torch release lacks something ({error})"
        return
    hooks: list[Hook] = [
        (inductor_ir.Loops, "__post_init__", _loops_post_init),
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
    late_hooks = late_line_hooks(lambda: _state.running, _run_as)
    hooks += [hook for hook in late_hooks if hasattr(hook[0], hook[1])]
    for owner, name, make in hooks:
        stack.enter_context(patched(owner, name, make))


# lowering: the function that computes an element of a node's value carries the node's name


def _loops_post_init(original: Callable[..., Any]) -> Callable[..., Any]:
    from fx_explorer.capture.torch_compat.private_names import V

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
    """Return a wrapper of ``function`` that marks, while it runs, that the node ``name`` is
    computed. A function that was wrapped for another node is returned unchanged.
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
    """Attach the node to each line that is written for it."""

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
    """Return the post-grad node for which a loop body's node was made."""
    name = running.meta.get(_KEY)
    if name is None:
        name = _neighbour_name(running) or _scheduled_name()
        if name:
            running.meta[_KEY] = name
    return name


def _neighbour_name(running: torch.fx.Node) -> str | None:
    """Return the node of the value that a conversion converts. Inductor adds conversions to a
    finished loop body, where they have no node of their own.
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
    from fx_explorer.capture.torch_compat.private_names import V

    return node_of_buffer(getattr(getattr(V.kernel, "current_node", None), "node", None))


# Lines that remember their nodes.


LineNodes = tuple[tuple[int, str], ...]
"""(line from 1, node name), by line."""

_KEPT = 64
"""Number of texts that are stored. A kernel is defined soon after its text is made; a combination
of kernels makes all its texts first.
"""


class TaggedLine(str):
    """A line of code with its nodes. Copies share ``nodes``, so that a node added later is known to
    all copies.
    """

    __slots__ = ("nodes",)

    nodes: list[str]

    def __new__(cls, text: str, nodes: list[str]) -> TaggedLine:
        line = super().__new__(cls, text)
        line.nodes = nodes
        return line

    def __getitem__(self, index: Any) -> TaggedLine:
        return TaggedLine(super().__getitem__(index), self.nodes)


class _LineTag:
    """Marks a tagged line in a buffer while its text is made; None afterwards."""

    def __init__(self, nodes: list[str] | None) -> None:
        self.nodes = nodes


_END = _LineTag(None)


class RenderedTexts:
    """The latest texts that were made from buffers with tagged lines, with the nodes of their
    lines.
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[tuple[int, list[str]]]] = {}

    def render(self, buffer: Any) -> str:
        """Render ``buffer.getvalue()``. Inductor's own line map gives the position of each tagged
        line that was written.
        """
        lines = buffer._lines
        buffer._lines = list(_with_tags(lines))
        try:
            rendered = buffer.getvaluewithlinemap()
        finally:
            buffer._lines = lines
        text: str = rendered.value
        # Taken out first: as a text that is made again it is the newest again, and the oldest goes.
        self._texts.pop(text, None)
        self._texts[text] = _tagged_lines(rendered.line_map)
        if len(self._texts) > _KEPT:
            del self._texts[next(iter(self._texts))]
        return text

    def lines_of(self, text: str) -> LineNodes:
        """Return the nodes of the lines of ``text``, counted from its first line that is not
        blank.
        """
        leading = text[: len(text) - len(text.lstrip())].count("\n")
        line_nodes: dict[tuple[int, str], None] = {}
        for line, nodes in self._texts.get(text) or self._embedded(text):
            line_nodes.update(dict.fromkeys((line - leading, node) for node in nodes))
        return tuple(sorted(line_nodes))

    def _embedded(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Yield each tagged line of a buffer whose text a template has inserted, indented, into its
        own. It is searched for line by line.
        """
        lines = [line.strip() for line in text.split("\n")]
        for part, tagged in self._texts.items():
            block = [line.strip() for line in part.strip().split("\n")]
            skipped = part[: len(part) - len(part.lstrip())].count("\n")
            start = _find(lines, block)
            if start is not None:
                yield from ((start + line - skipped, nodes) for line, nodes in tagged)


def _with_tags(lines: list[Any]) -> Iterator[Any]:
    from fx_explorer.capture.torch_compat.private_names import LineContext

    end = LineContext(_END)
    for line in lines:
        nodes = getattr(line, "nodes", None)
        if nodes is None:
            yield line
        else:
            yield LineContext(_LineTag(nodes))
            yield line
            yield end


def _tagged_lines(line_map: list[tuple[int, Any]]) -> list[tuple[int, list[str]]]:
    tagged: list[tuple[int, list[str]]] = []
    first, nodes = 0, None
    for line, context in line_map:
        if not isinstance(context, _LineTag):
            continue
        if context is _END and nodes is not None:
            tagged.extend((at, nodes) for at in range(first, line))
        first, nodes = line, context.nodes
    return tagged


def _find(lines: list[str], block: list[str]) -> int | None:
    """Return where ``block`` begins in ``lines``; None if it is not there."""
    if not block[0]:
        return None
    for start, line in enumerate(lines):
        if line == block[0] and lines[start : start + len(block)] == block:
            return start
    return None


# Lines that are written late, or again.


Hook = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


def late_line_hooks(running: Callable[[], Any], run_as: Callable[[Any], Any]) -> list[Hook]:
    """List the hooks for lines that are written late, or again. ``running()`` is the loop body node
    whose code is being written; ``run_as(node)`` is a context that makes it so again.
    """
    from fx_explorer.capture.torch_compat.private_names import cpp_codegen

    return [
        (cpp_codegen, "move_code_under_inner_loop", _move_code),
        (cpp_codegen, "replace_acc_name", _replace_in_place),
        (cpp_codegen, "replace_cascade_sum_with_add", _replace_in_place),
        (
            getattr(cpp_codegen, "CppKernel", None),
            "_gen_reduction_prefix",
            lambda original: _reduction_prefix(original, running, run_as),
        ),
    ]


def _reduction_prefix(
    original: Callable[..., Any], running: Callable[[], Any], run_as: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Attach the node to a line such as ``float tmp_acc0 = 0;``, which is made by a function that
    is called once the loop around the reduction is known.
    """
    from fx_explorer.capture.torch_compat.private_names import IndentedBuffer

    def gen_reduction_prefix(*args: Any, **kwargs: Any) -> Any:
        make = original(*args, **kwargs)
        node = running()
        if node is None:
            return make

        def inner(*sizes: Any, **named: Any) -> Any:
            with run_as(node):
                prefix = make(*sizes, **named)
                if not isinstance(prefix, str):
                    return prefix
                written = (
                    IndentedBuffer()
                )  # the caller splices what it gets, and only a buffer's lines can remember
                written.splice(prefix)
                return written

        return inner

    return gen_reduction_prefix


def _move_code(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give the lines of a vectorised loop's tail the nodes of the lines that they repeat: Inductor
    rewrites each with another variable, inside ``for (…) { }``.
    """

    def move_code_under_inner_loop(code: Any, *args: Any, **kwargs: Any) -> Any:
        moved = original(code, *args, **kwargs)
        if len(moved._lines) == len(code._lines) + 3:
            _copy_nodes(code._lines, moved._lines, 2)
        return moved

    return move_code_under_inner_loop


def _replace_in_place(original: Callable[..., Any]) -> Callable[..., Any]:
    def replace(buffer: Any, *args: Any, **kwargs: Any) -> Any:
        before = list(buffer._lines)
        result = original(buffer, *args, **kwargs)
        if len(before) == len(buffer._lines):
            _copy_nodes(before, buffer._lines, 0)
        return result

    return replace


def _copy_nodes(old: list[Any], new: list[Any], offset: int) -> None:
    for i, line in enumerate(old, offset):
        nodes = getattr(line, "nodes", None)
        if nodes is None:
            continue
        if type(new[i]) is str:
            new[i] = TaggedLine(new[i], nodes)
        else:
            new[i].nodes = nodes
