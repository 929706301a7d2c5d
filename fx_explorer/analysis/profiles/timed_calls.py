"""The calls of kernels that a profile has times of, each with the operations that it computes. Whatever shares a time out
to operations, lines or graphs begins here, so that all of them add up to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fx_explorer.analysis.kernels.profiled_kernels import ProfiledKernel
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.profiles import nodes_of_calls


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A call with its time. One kernel's time cannot be measured apart, so that each operation has an equal part."""

    kernel: int
    call: int
    seconds: float
    nodes: tuple[int, ...]
    """The operations that it computes, each once; none where that is not known."""


def timed_calls(
    reader: SessionReader, known: Mapping[int, ProfiledKernel], compilation: int | None = None
) -> Iterator[TimedCall]:
    """Yield the calls of the kernels ``known``; those without operations, too, unless only a compilation's are asked for."""
    computed: dict[int, dict[int, list[int]]] = {}
    for kernel, call, node in nodes_of_calls(reader, compilation):
        if kernel in known:
            computed.setdefault(kernel, {}).setdefault(call, []).append(node)
    for kernel in known if compilation is None else computed:
        of_calls = computed.get(kernel, {})
        for call, seconds in known[kernel].calls.items():
            nodes = [*of_calls.get(0, ()), *(of_calls.get(call, ()) if call else ())]
            yield TimedCall(kernel, call, seconds, tuple(dict.fromkeys(nodes)))
