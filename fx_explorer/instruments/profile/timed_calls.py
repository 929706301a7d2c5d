"""The calls of kernels that a profile has times of, each with the operations that it computes.
Whatever shares a time out to operations, lines or graphs begins here, so that all of them add up to
the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fx_explorer.instruments.kernels.profiled_kernels import ProfiledKernel
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.profiles import nodes_of_calls


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A call with its time. One kernel's time cannot be measured apart, so that each operation has
    an equal part.
    """

    kernel: int
    call: int
    seconds: float
    nodes: array[int]
    """The operations that it computes, each once, ascending; none where that is not known. An
    array, since of a large session all are kept.
    """


def timed_calls(reader: SessionReader, known: Mapping[int, ProfiledKernel]) -> Iterator[TimedCall]:
    """Yield the calls of the kernels ``known``."""
    computed = {(kernel, call): nodes for kernel, call, nodes in nodes_of_calls(reader)}
    for kernel, times in known.items():
        of_every_call = computed.get((kernel, 0), ())
        for call, seconds in times.calls.items():
            nodes = {*of_every_call, *computed.get((kernel, call), ())}
            yield TimedCall(kernel, call, seconds, array("q", sorted(nodes)))
