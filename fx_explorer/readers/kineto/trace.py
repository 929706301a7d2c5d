"""What is kept of a trace, in columns: some 40 bytes an event, and each name once."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

NONE = -1

MOST_NESTED = 256
"""Events around one that are looked at."""

ROUNDED = 1e-3
"""Microseconds by which an event may seem to end behind the one around it: times have so many
digits.
"""

LONGEST_NAME = 400
"""Characters. Names of C++ kernels continue for thousands, with what they are instances of."""


class NameTable:
    """Names by number: a trace has the same few again and again."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.all: list[str] = []

    def number(self, name: str) -> int:
        name = name[:LONGEST_NAME]
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.all)
            self.all.append(name)
        return found


class CpuThread:
    """What one thread of the program did: operators and annotations, which lie within one another."""

    def __init__(self, process: int = 0) -> None:
        self.process = process
        """Number of the process: a trace that was merged of several has more than one."""
        self.starts = array("d")
        """Microseconds, as all times of a trace."""
        self.ends = array("d")
        self.names = array("L")
        self.external = array("q")
        """``External id``: GPU work that an operator launched has the same; -1 for none."""
        self.sequence = array("q")
        """``Sequence number``: a forward function and its backward have the same; -1 for none.
        torch counts in each thread for itself (``aten/src/ATen/SequenceNumber.cpp``).
        """
        self.annotations = array("b")
        """1 for what the program noted itself (``record_function``), 0 for operators."""
        self.parents = array("q")
        """Index of the event around each; -1 for none. Empty before ``nest``."""
        self._jumps = array("q")

    def add(
        self,
        start: float,
        duration: float,
        name: int,
        external: int,
        sequence: int,
        is_annotation: bool,
    ) -> None:
        self.starts.append(start)
        self.ends.append(start + duration)
        self.names.append(name)
        self.external.append(external)
        self.sequence.append(sequence)
        self.annotations.append(is_annotation)

    def nest(self) -> None:
        """Sort the events, and find which lies within which."""
        order = sorted(range(len(self.starts)), key=lambda at: (self.starts[at], -self.ends[at]))
        for name in ("starts", "ends", "names", "external", "sequence", "annotations"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, (column[at] for at in order)))
        self.parents = array("q", bytes(8 * len(order)))
        self._jumps = array("q", bytes(8 * len(order)))
        depths = array("q", bytes(8 * len(order)))
        around: list[int] = []
        for at, end in enumerate(self.ends):
            # Events that two sources wrote may overlap without one being in the other. One that
            # ends before this one is around nothing that comes later and this one is not: each is
            # looked at once.
            while around and self.ends[around[-1]] < end - ROUNDED:
                around.pop()
            while around and self.ends[around[-1]] <= self.starts[at]:
                around.pop()
            parent = self.parents[at] = around[-1] if around else NONE
            self._jumps[at] = self._jump(parent, depths)
            depths[at] = depths[parent] + 1 if parent != NONE else 0
            around.append(at)

    def _jump(self, parent: int, depths: Sequence[int]) -> int:
        """Return to which event around it one may jump: with these (Myers' skip pointers), any is
        reached in a number of steps that grows with the logarithm of the depth.
        """
        over = self._jumps[parent] if parent != NONE else NONE
        beyond = self._jumps[over] if over != NONE else NONE
        if beyond == NONE:
            return parent
        is_even = depths[parent] - depths[over] == depths[over] - depths[beyond]
        return beyond if is_even else parent

    def at(self, time: float) -> int:
        """Return the innermost event at a time; -1 for none."""
        found = bisect_right(self.starts, time) - 1
        while found != NONE and self.ends[found] < time:
            jump = self._jumps[found]
            is_over = jump == NONE or self.ends[jump] >= time
            found = self.parents[found] if is_over else jump
        return found

    def outwards(self, event: int) -> Iterator[int]:
        """Yield an event and those around it, the innermost first: no more than a program nests."""
        for _ in range(MOST_NESTED):
            if event == NONE:
                return
            yield event
            event = self.parents[event]


class GpuWork:
    """Kernels, copies and fills that ran on GPUs."""

    def __init__(self) -> None:
        self.starts = array("d")
        self.durations = array("d")
        self.names = array("L")
        self.correlation = array("q")
        """The call of the CUDA runtime that launched it has the same; -1 for none. All that one
        replay of a CUDA graph runs has that of its ``cudaGraphLaunch``.
        """
        self.external = array("q")
        self.device = array("q")
        self.stream = array("q")
        self.graph_node = array("q")
        """``graph node id``: nodes of a CUDA graph ascend in the order in which they were captured,
        whichever stream they run on; -1 for what ran in no graph.
        """

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class Trace:
    """A trace that was read."""

    names: NameTable = field(default_factory=NameTable)
    threads: list[CpuThread] = field(default_factory=list)
    gpu: GpuWork = field(default_factory=GpuWork)
    launches: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Correlation → the thread that launched, and when."""
    unclear: set[int] = field(default_factory=set)
    """Correlations that several processes used: each counts for itself, and works of a GPU do not
    name their process.
    """
    stacks: dict[tuple[int, float], tuple[str, str]] = field(default_factory=dict)
    """(thread, start) of an operator → ``stack_trace`` and ``node_name``, which later releases of
    torch write.
    """
    gpu_stacks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What ran on a GPU, by its index → the stacks of the operations that it computes."""
    devices: list[str] = field(default_factory=list)
    """Names of the GPUs, by number."""
    events: int = 0
    """Events of any kind, those included that nothing is made of."""
    unused: dict[str, int] = field(default_factory=dict)
    """Kind of event that nothing is made of (``python_function``) → how many there are."""
    skipped: int = 0
    """Events that lack a time or a name, and what is no event at all."""
    problem: str = ""
    """Why the trace ends before its end; empty where it does not."""
    digest: str = ""

    def name(self, number: int) -> str:
        return self.names.all[number]
