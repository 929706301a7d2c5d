"""A table of what each kernel computes, in words: from the kernel to the program's line, and from
there to the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fx_explorer.model import Frame
from fx_explorer.readers.torch_trace.places import is_torch
from fx_explorer.torch_texts.provenance import KernelOrigin, Provenance

TITLE = "What each kernel computes"

_WIDTH = 13


def in_words(table: Provenance, called_in: Mapping[str, int] | None = None) -> str:
    """Return the text. ``called_in`` has the line of the wrapper that makes each call."""
    lines: list[str] = []
    for kernel in table.kernels:
        lines += [*_of_kernel(kernel, (called_in or {}).get(kernel.handle, 0)), ""]
    if not table.kernels:
        lines += ["torch names no kernel here.", ""]
    if table.without_kernel:
        lines += ["Computed by no kernel of its own:", *_listed("", table.without_kernel), ""]
    if table.left_out:
        lines += [f"Not as torch writes it, and left out: {table.left_out:,}", ""]
    lines += _by_operation(table.kernels)
    return "\n".join(lines).rstrip("\n") + "\n"


def _of_kernel(kernel: KernelOrigin, line: int) -> Iterator[str]:
    where = f", in line {line} of the wrapper" if line else ""
    yield f"{kernel.name}" + (f", call {kernel.call}{where}" if kernel.call else where)
    yield from _listed("computes", kernel.computes or ("nothing that torch names",))
    if kernel.made_of:
        yield from _listed("made of", kernel.made_of)
    for stack in kernel.stacks:
        yield from _stack(stack)


def _stack(stack: tuple[Frame, ...]) -> Iterator[str]:
    """Yield the program's line, and below it those of libraries that it led to."""
    own = next(
        (i for i in reversed(range(len(stack))) if not is_torch(stack[i].file)), len(stack) - 1
    )
    for i, frame in enumerate(stack[own:]):
        label = "your line" if i == 0 and not is_torch(frame.file) else "in"
        yield f"    {label:<{_WIDTH}}{frame.file}:{frame.line} in {frame.function}: {frame.code}"


def _listed(label: str, names: Iterable[str]) -> Iterator[str]:
    """Yield lines of at most 100 characters."""
    line = ""
    for name in names:
        if line and len(line) + len(name) > 80:
            yield f"    {label:<{_WIDTH}}{line},"
            label, line = "", ""
        line = f"{line}, {name}" if line else name
    yield f"    {label:<{_WIDTH}}{line}"


def _by_operation(kernels: Iterable[KernelOrigin]) -> list[str]:
    """Return for each node that AOTAutograd was given which calls compute it."""
    found: dict[str, list[str]] = {}
    for kernel in kernels:
        for name in kernel.made_of:
            found.setdefault(name, []).append(kernel.handle)
    if not found:
        return []
    lines = ["From the operations of the program to their kernels:"]
    for name, handles in found.items():
        lines += [f"    {name}", *(f"        {handle}" for handle in handles)]
    return lines
