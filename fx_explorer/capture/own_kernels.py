"""This module finds which lines of a user's Triton kernel were copied from which lines of the
user's files.

Inductor writes the text of the kernel, and of every ``@triton.jit`` function it names, into its
output code (``user_defined_triton_kernel_transitive_closure_source_code``,
torch/_inductor/codegen/wrapper.py). Where those functions are written is what Triton itself noted
of them (``JITFunction``, triton/runtime/jit.py). Lines are linked when all lines of a function are
equal there and here, and not at all otherwise.
"""

from __future__ import annotations

import linecache
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

_NAME = re.compile(r"^def \w+")


@dataclass(frozen=True, slots=True)
class CopiedLines:
    """``count`` lines of a kernel's source, from ``line`` on, are copies of the lines of ``file``
    from ``file_line`` on. All numbers are from 1.
    """

    line: int
    file: str
    file_line: int
    count: int


@dataclass(frozen=True, slots=True)
class CopiedKernel:
    lines: tuple[CopiedLines, ...] = ()
    """The lines that were copied, in the order of the kernel's source, which begins with the kernel
    itself.
    """
    problems: tuple[str, ...] = ()
    """Functions whose lines are not linked, and why."""


def is_users_kernel(node: torch.fx.Node) -> bool:
    """Return whether a node calls a kernel of the user's
    (torch/_higher_order_ops/triton_kernel_wrap.py).
    """
    return "triton_kernel_wrapper" in str(node.target)


def calling_nodes(scheduler_nodes: Iterable[Any]) -> set[torch.fx.Node]:
    """Find the nodes that call user kernels among the origins of scheduler nodes.

    The first origin of such a call is the node that makes it; the others made its arguments
    (``GraphLowering.run_node``, torch/_inductor/graph.py, begins with the node itself). What is
    fused into the kernel has its own origins.
    """
    calling: set[torch.fx.Node] = set()
    for scheduler_node in scheduler_nodes:
        for inner in scheduler_node.get_nodes():
            calls = [node for node in inner.node.origins if is_users_kernel(node)]
            if type(inner.node).__name__ == "UserDefinedTritonKernel":
                calling.update(calls[:1])
            else:
                calling |= set(inner.node.origins) - set(calls)
    return calling


def copied_lines(kernel: object, source: str) -> CopiedKernel:
    """Return which lines of a generated kernel were copied from the user's. ``kernel`` is the
    object that ``@triton.jit`` returned for the user's function; ``source`` is Inductor's text of
    it.
    """
    lines = source.split("\n")
    lineses, problems = [], []
    for function in _functions(kernel):
        written = _KernelSource.of(function)
        at = written.places_in(lines)
        if len(at) == 1:
            lineses.append(CopiedLines(at[0] + 1, written.file, written.line, len(written.body)))
        else:
            problems.append(
                f"{written.name} ({written.file}:{written.line}) {_WHY[bool(at)]}: its "
                "lines are not linked to it"
            )
    return CopiedKernel(tuple(sorted(lineses, key=lambda lines: lines.line)), tuple(problems))


_WHY = {
    False: "is missing from the generated kernel in this form",
    True: "occurs more than once in the generated kernel",
}


def _functions(kernel: object) -> Iterator[Any]:
    """Yield the kernel and the functions copied with it: those that its code names and whose text
    Triton knows.
    """
    pending, seen = [kernel], {id(kernel)}
    while pending:
        function: Any = pending.pop()
        yield function
        named = (function.fn.__globals__.get(name) for name in function.fn.__code__.co_names)
        for other in named:
            if hasattr(other, "raw_src") and id(other) not in seen:
                seen.add(id(other))
                pending.append(other)


@dataclass(frozen=True, slots=True)
class _KernelSource:
    """The source of a function in its file, without decorators and indentation."""

    name: str
    file: str
    line: int
    body: tuple[str, ...]

    @staticmethod
    def of(function: Any) -> _KernelSource:
        file, first = function.fn.__code__.co_filename, function.starting_line_number
        block = "".join(linecache.getlines(file)[first - 1 : first - 1 + len(function.raw_src)])
        lines = textwrap.dedent(block).rstrip().split("\n")
        begins = next((i for i, line in enumerate(lines) if _NAME.match(line)), 0)
        body = [line if line.strip() else "" for line in lines[begins:]]
        return _KernelSource(function.fn.__name__, file, first + begins, tuple(body))

    def places_in(self, lines: list[str]) -> list[int]:
        """Return the positions in ``lines`` (from 0) of the function; under another name only if it
        is not there under its own.
        """
        head, *rest = self.body
        starts = []
        for i, line in enumerate(lines):
            if _NAME.match(line) and lines[i + 1 : i + len(self.body)] == rest:
                starts.append(i)
        named = [i for i in starts if lines[i] == head]
        if named:
            return named
        head_without_name = _NAME.sub("def", head)
        return [i for i in starts if _NAME.sub("def", lines[i]) == head_without_name]
