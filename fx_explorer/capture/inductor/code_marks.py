"""While the code of a graph is generated, marks remember each call of a kernel: where it stands,
and what Inductor estimates of it.

A mark lies among the wrapper's lines (``LineContext``), so that the line of its call is found.

Estimates are Inductor's own, of bytes moved and operations done, and are asked for while it
generates code for a GPU. Bytes: ``estimate_kernel_num_bytes`` (torch/_inductor/codegen/simd.py) and
``get_read_write_buffers_sizes`` (scheduler.py). Operations are counted in capture/torch_flops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

NOT_KNOWN = -1


def is_for_gpu(lowering: Any) -> bool:
    """Return whether the code is for a GPU. On a CPU nobody asks for estimates, and counting takes
    a millisecond per matrix multiplication.
    """
    return bool(set(getattr(lowering, "device_types", ())) - {"cpu", "meta"})


def bytes_of_kernel(kernel: Any) -> int:
    """Return Inductor's estimate for a kernel that code was just generated for; -1 for a kind of
    kernel that has none.
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
    """What was generated, before its name was put in; empty for a library call."""
    estimated_bytes: int = NOT_KNOWN
    estimated_flops: int = NOT_KNOWN
    runs: tuple[str, ...] = ()
    """Graphs that a conditional, a loop or a region runs."""
    first_line: int = 0
    end_line: int = 0


@dataclass(frozen=True)
class CodeMark:
    """What we put into a ``LineContext``: a call begins (or has ended) here, or a nested function's
    text begins here.
    """

    call: CallInProgress | None
    is_end: bool
    inner: tuple[tuple[int, CodeMark], ...] = ()
    stack_trace: str | None = None
    """Inductor reads it off every context."""

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
    """Return our marks among the contexts of a generated text, with those of the texts put into it
    brought to its line numbers.
    """
    marks: list[tuple[int, CodeMark]] = []
    for line, context in line_map:
        if isinstance(context, CodeMark):
            marks.extend((line + at - 1, mark) for at, mark in context.inner)
            if context.call:
                marks.append((line, context))
    return marks
