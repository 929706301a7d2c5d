"""This module finds where a generated kernel stands in the output code, which FX nodes it computes,
and which nodes have no kernel, and why.

A kernel stands there as ``name = async_compile.cpp_pybinding([…], r'''…''')``; with Inductor's C++
wrapper a Triton kernel is the same in a text of C++, and a C++ kernel stands there as it is.

While the code of a graph is generated, marks remember each call of a kernel: where it stands, and
what Inductor estimates of it. A mark lies among the wrapper's lines (``LineContext``), so that the
line of its call is found. Estimates are Inductor's own, of bytes moved and operations done, and are
asked for while it generates code for a GPU. Bytes: ``estimate_kernel_num_bytes``
(torch/_inductor/codegen/simd.py) and ``get_read_write_buffers_sizes`` (scheduler.py). Operations
are counted in capture/torch_flops.py.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fx_explorer.model.rows.kernels import KernelLanguage

_LANGUAGES: dict[str, KernelLanguage] = {
    "cpp": "cpp",
    "cpp_pybinding": "cpp",
    "cuda": "cpp",
    "cutlass": "cpp",
    "rocm": "cpp",
    "xpu": "cpp",
    "triton": "triton",
}
"""Method of ``AsyncCompile`` (torch/_inductor/async_compile.py) that builds a kernel → the language
it is written in.
"""

_DEFINITION = re.compile(
    r"^(?:(\w+) = |static const char\* (\w+)_source = R\"TRITON\(\n)async_compile\.(\w+)\(",
    re.MULTILINE,
)
_QUOTES = "'''"

_PLACEHOLDER = re.compile(r"(?:Placeholder\.)?(?:KERNEL_NAME|DESCRIPTIVE_NAME)")
"""``str`` of a ``Placeholder``, torch/_inductor/utils.py."""

_ESCAPED = re.compile(r"\\([\\'\"])")
"""Matches the escapes of Inductor in such a text (torch/_inductor/codegen/wrapper.py,
``define_user_defined_triton_kernel``).
"""


class Definition(NamedTuple):
    language: KernelLanguage
    source: str
    first_line: int
    """Line (from 1) of the output code that holds the first line of ``source``."""


def definitions(output_code: str) -> dict[str, Definition]:
    """Return every kernel that the output code defines, by name. An auto-tuning block in front
    repeats some: the last definition counts.
    """
    by_name: dict[str, Definition] = {}
    line, counted = 1, 0
    for match in _DEFINITION.finditer(output_code):
        opening = output_code.find(_QUOTES, match.end())
        closing = output_code.find(_QUOTES, opening + len(_QUOTES))
        if opening < 0 or closing < 0:
            continue
        start = opening + len(_QUOTES)
        if output_code.startswith("\n", start):
            start += 1
        line += output_code.count("\n", counted, start)
        counted = start
        source = output_code[start:closing]
        is_raw = output_code[opening - 1] == "r"
        if not is_raw:
            source = _unescaped(source)
        language = _LANGUAGES.get(match[3], "python")
        by_name[match[1] or match[2]] = Definition(language, source, line)
    return by_name


def _unescaped(quoted: str) -> str:
    """Return the source as it is compiled: a kernel of the user's own may contain backslashes, and
    the same quotes. Line numbers do not change.
    """
    return _ESCAPED.sub(r"\1", quoted)


def inlined(name: str, source: str, output_code: str) -> Definition:
    """Find a kernel that is not a string of its own. ``source`` is the generated text, with
    placeholders for its name.
    """
    source = _PLACEHOLDER.sub(name, source)
    source = source.replace("#pragma CMT", "//").lstrip("\n")
    language: KernelLanguage = "python"
    if "import triton" in source:
        language = "triton"
    elif 'extern "C"' in source:
        language = "cpp"
    at = output_code.find(source.rstrip()) if source.strip() else -1
    line = output_code.count("\n", 0, at) + 1 if at >= 0 else 0
    return Definition(language, source, line)


# FX nodes of Inductor's scheduler nodes and IR nodes (torch/_inductor/ir.py).


def origins(scheduler_nodes: Iterable[Any]) -> set[torch.fx.Node]:
    """Return the FX nodes that a kernel generated for ``scheduler_nodes`` computes. Markers among
    them (DisableReduction) have none.
    """
    nodes: set[torch.fx.Node] = set()
    for outer in scheduler_nodes:
        if not hasattr(outer, "get_nodes"):
            continue
        for inner in outer.get_nodes():
            ir_node = inner.node
            if ir_node is None:
                continue
            if hasattr(ir_node, "get_origins"):
                nodes.update(ir_node.get_origins())
            else:
                nodes.update(ir_node.origins)
    return nodes


def buffers(scheduler_nodes: Iterable[Any]) -> set[str]:
    """Return the names of the buffers that a kernel generated for ``scheduler_nodes`` writes."""
    names: set[str] = set()
    for node in scheduler_nodes:
        if hasattr(node, "get_buffer_names"):
            names.update(node.get_buffer_names())
    return names


def extern_origins(ir_node: Any) -> set[torch.fx.Node]:
    """Return the FX nodes of an IR node. ``origin_node`` is exactly the call; ``origins`` also has
    nodes that were fused into its inputs.
    """
    origin = ir_node.get_origin_node()
    if origin is None:
        return set(ir_node.origins)
    return {origin}


def runs_of(ir_node: Any) -> tuple[str, ...]:
    """Return the names of the graphs that a conditional, a loop or a nested compile region runs;
    empty for a library call.
    """
    values = vars(ir_node).values()
    return tuple(value.name for value in values if type(value).__name__ == "Subgraph")


_CONTROL = {
    "Conditional": "torch.cond",
    "WhileLoop": "torch.while_loop",
    "InvokeSubgraph": "nested_compile_region",
}
"""IR nodes (torch/_inductor/ir.py) that run other graphs → the user's name of the operation."""


def extern_name(ir_node: Any) -> str:
    if type(ir_node).__name__ in _CONTROL:
        return _CONTROL[type(ir_node).__name__]
    name = getattr(ir_node, "python_kernel_name", None)
    if name:
        return str(name)
    overload = getattr(ir_node, "op_overload", None)
    if overload:
        return str(overload)
    origin = ir_node.get_origin_node()
    if origin is not None and origin.target is not None:
        return str(origin.target)
    return type(ir_node).__name__


# Nodes that no kernel computes.


def without_kernel(
    operations: Iterable[Any], positions: dict[torch.fx.Node, int], calls: Sequence[CallInProgress]
) -> dict[str, str]:
    """Return call nodes that no kernel computes → why."""
    computed: set[torch.fx.Node] = set()
    for call in calls:
        computed |= call.nodes
    scheduled: set[torch.fx.Node] = set()
    for operation in operations:
        scheduled.update(operation.origins)
    reasons = {}
    for node in positions:
        if node.op == "call_function" and node not in computed:
            reasons[node.name] = _why_not(node, node in scheduled)
    return reasons


def _why_not(node: torch.fx.Node, is_scheduled: bool) -> str:
    if node.target is operator.getitem:
        return "takes one of several results"
    if getattr(node.target, "is_view", False):
        return "a view: it moves no data"
    if (
        not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))
        and node.meta.get("val") is not None
    ):
        return "computed while sizes are"
    if not node.users:
        return "nothing uses it"
    if str(node.target).startswith(("aten.empty", "aten.new_empty")):
        return "allocates memory and computes nothing"
    if is_scheduled:
        return "part of an operation, needs no kernel of its own"
    return "Inductor found nothing to compute"


# Calls of kernels, remembered while code is generated.


NOT_KNOWN = -1


def is_for_gpu(lowering: Any) -> bool:
    """Return whether the code is for a GPU. On a CPU estimates are not used, and counting takes a
    millisecond per matrix multiplication.
    """
    return bool(set(getattr(lowering, "device_types", ())) - {"cpu", "meta"})


def bytes_of_kernel(kernel: Any) -> int:
    """Return Inductor's estimate for a kernel whose code was just generated; -1 for a kind of
    kernel without one.
    """
    if hasattr(kernel, "estimate_kernel_num_bytes"):
        return int(kernel.estimate_kernel_num_bytes())
    return NOT_KNOWN


def bytes_of_call(scheduler_node: Any) -> int:
    return int(scheduler_node.get_read_write_buffers_sizes())


def bytes_of_calls(scheduler_nodes: Iterable[Any]) -> int:
    return sum(map(bytes_of_call, scheduler_nodes))


# Calls, and the marks by which their lines are found.


LineNodes = tuple[tuple[int, str], ...]


@dataclass
class CallInProgress:
    kernel: str
    is_extern: bool
    nodes: set[torch.fx.Node]
    buffers: set[str]
    """Names of the buffers it writes."""
    line_nodes: LineNodes = ()
    source: str = ""
    """The generated text, before the kernel's name was inserted; empty for a library call."""
    estimated_bytes: int = NOT_KNOWN
    estimated_flops: int = NOT_KNOWN
    runs: tuple[str, ...] = ()
    """Graphs that a conditional, a loop or a region runs."""
    first_line: int = 0
    end_line: int = 0


@dataclass(frozen=True)
class CodeMark:
    """Our mark in a ``LineContext``: a call begins (or has ended) here, or a nested function's text
    begins here.
    """

    call: CallInProgress | None
    is_end: bool
    inner: tuple[tuple[int, CodeMark], ...] = ()
    stack_trace: str | None = None
    """A stack trace, which Inductor reads from every context."""

    @staticmethod
    def factory(line_context: Callable[[object], Any]) -> Callable[..., Any]:
        def mark(
            call: CallInProgress | None,
            *,
            is_end: bool,
            inner: tuple[tuple[int, CodeMark], ...] = (),
        ) -> Any:
            return line_context(CodeMark(call, is_end, inner))

        return mark


def marked_lines(line_map: Iterable[tuple[int, object]]) -> list[tuple[int, CodeMark]]:
    """Return our marks among the contexts of a generated text. Marks of texts that were put into it
    get its line numbers.
    """
    marks: list[tuple[int, CodeMark]] = []
    for line, context in line_map:
        if isinstance(context, CodeMark):
            marks.extend((line + at - 1, mark) for at, mark in context.inner)
            if context.call:
                marks.append((line, context))
    return marks
