"""This module has the rows about measurements: the ledger of one call, and a profile of real steps.

The ledger says where the time of a call of the compiled program goes, step by step, with the same
call in eager mode, operator by operator. A profile of ``torch.profiler`` beside the session says
where the time of real steps went, joined to the calls of kernels that the session knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import Direction

NOT_KNOWN = -1

LedgerKind = Literal[
    "entry",
    "guards",
    "bytecode",
    "break",
    "python",
    "wrapper",
    "checks",
    "buffers",
    "launch",
    "kernel",
    "library",
    "graph",
    "loss",
    "autograd",
    "gradients",
    "wait",
]
"""Kind of a step in a call.

``entry``: torch.compile is entered and left. ``guards``: compiled code that fits is looked up.
``bytecode``: Dynamo's bytecode before and after a graph. ``break``: Python at a graph break.
``python``: Python that was not compiled. ``wrapper``: AOTAutograd and Inductor around a graph.
``checks``, ``buffers``: of the generated wrapper: checks of sizes and alignment; buffers allocated
and released, views, what is returned. ``launch``: starting a kernel. ``kernel``: a
generated kernel. ``library``: a library or ATen call. ``graph``: a whole graph that has no
generated wrapper in Python (another backend, a C++ wrapper, a replayed CUDA graph). ``loss``: the
loss of a training step. ``autograd``: the autograd engine and what is around a backward graph.
``gradients``: those of the call before are forgotten. ``wait``: for the GPU to finish.
"""


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """The calls of the program that a ledger accounts for. The last row counts."""

    id: int
    target: str
    inputs: str
    """The inputs, in words: ``(float32[8, 64])``."""
    trains: bool
    """Whether a call includes the backward."""
    parameters: int
    """Parameters of the program's network; 0 for a function without one."""
    device: str
    """``cpu``, or the GPU's name."""
    torch: str
    """Version of torch."""
    threads: int
    call_s: float
    """Seconds of a call without a clock in it, mean of the middle half of the calls. On a GPU each
    call was waited for.
    """
    iqr_s: float
    """Range of the middle half of the calls."""
    rounds_s: tuple[float, ...]
    """Median seconds of a call in each round. Rounds at the same position were made one after the
    other.
    """
    calls: int
    """Number of calls with a clock, of which the steps are the mean."""
    other_calls: int
    """Number of calls with a clock that took another path, such as compiling. They are not counted.
    """
    clock_s: float
    """Seconds that the clock itself took in a call, which are in no step."""
    uncompiled_s: float = NOT_KNOWN
    """Seconds of a call in eager mode, in rounds that took turns with the others; -1 when it
    fails.
    """
    uncompiled_rounds_s: tuple[float, ...] = ()
    unguarded_s: float = NOT_KNOWN
    """Seconds of a call while torch skips the guards that do not distinguish its compiled versions
    (``torch.compiler.set_stance(skip_guard_eval_unsafe=True)``); -1 where that was not tried.
    """
    unguarded_rounds_s: tuple[float, ...] = ()
    busy_s: float = NOT_KNOWN
    """Seconds of a call in which the GPU computes; -1 without a GPU."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerStep:
    """One step of a call, in the order of the call. The times of all steps add up to it."""

    id: int
    call: int
    """Id of the LedgerCall that it is a step of."""
    position: int
    kind: LedgerKind
    name: str
    """The called name, as in the generated code; empty for a step that is not a call."""
    compilation: str
    """Name of the compilation, ``0/0``; empty without one."""
    direction: Direction
    line: int
    """First line in the output code, from 1; 0 for a step outside of it."""
    file: str
    user_line: int
    """The user's line, if the user's own code takes the time (``break``); otherwise the session's
    links give it.
    """
    host_s: float
    """Mean seconds until the program continues. On a GPU a kernel may still be running then."""
    iqr_s: float
    """Range of the middle half of the calls."""
    device_s: float = NOT_KNOWN
    """Seconds in which the GPU computes for it; -1 without a GPU."""
    moved_bytes: int = NOT_KNOWN
    """Bytes of its input and output tensors, each counted once; -1 without any."""
    flops: int = NOT_KNOWN
    """Operations, as ``torch.utils.flop_counter`` counts matrix products, convolutions and
    attention; -1 for others.
    """


@dataclass(frozen=True, slots=True)
class LedgerOperator:
    """One operator of the same call in eager mode, in the order of the call."""

    id: int
    call: int
    position: int
    name: str
    """``aten::linear``; ``AddmmBackward0`` of the backward."""
    direction: Direction
    file: str
    line: int
    """The user's line that calls it, or whose backward it is; 0 when it is not known."""
    host_s: float
    """Seconds, without the cost of profiling."""
    device_s: float = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class LedgerGap:
    """Time of a call in which the GPU is idle, and the host's steps in it. Measured while a
    profiler records the GPU.
    """

    id: int
    call: int
    position: int
    before: str
    """The kernel that ends before it; empty at the beginning of the call."""
    after: str
    """The kernel that begins after it; empty at the end of the call."""
    seconds: float
    steps: tuple[int, ...]
    """Positions of the steps that the host takes meanwhile."""
    steps_s: tuple[float, ...]
    """Seconds of each step inside the gap."""


# A profile of real steps.


ProfileJoin = Literal["order", "similar", "shared"]
"""Evidence that a time belongs to a call. ``order``: the call of this name, at its position among
the calls of the compiled graph. ``similar``: the profiled process generated code in which only the
number in the name differs. ``shared``: several calls have the name and the order does not
distinguish them, so that each gets an equal share.
"""

OutsideKind = Literal[
    "unjoined", "wrapper", "optimizer", "autograd", "compiling", "break", "eager", "not known"
]
"""Kind of work that was not joined. ``unjoined``: in a compiled graph, but no call of the
session's. ``wrapper``: around a compiled graph, in AOTAutograd's code. ``optimizer``: in
``Optimizer.step``. ``autograd``: a backward that was not compiled. ``compiling``: while torch
compiled. ``break``: in a compiled function, between its graphs. ``eager``: elsewhere in the
program. ``not known``: the trace does not say what launched it.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile that was read. The last row counts."""

    id: int
    file: str
    """Name of the file."""
    digest: str
    """Digest of the file's content, so that the same file is stored once."""
    device: str
    """Name of the GPU; ``cpu`` for a profile without one."""
    is_of_gpu: bool
    events: int
    """Events of the trace, of any kind."""
    skipped: int
    """Events that could not be read."""
    problem: str
    """Why the trace ends early; empty when it is complete."""
    graph_calls: int
    """Calls of compiled graphs in the trace."""
    joined_calls: int
    """Number of those calls whose graph is in this session."""
    work_s: float
    """Seconds of all work on the GPUs, added up; in a profile without a GPU, of the operators."""
    compiled_s: float
    """Seconds that ran in compiled graphs."""
    joined_s: float
    """Seconds that are joined to a call of a kernel."""
    shared_s: float
    """Seconds of ``joined_s`` that are divided among several calls of one name."""
    span_s: float
    """Seconds from the first to the last work of the GPU that computes the longest."""
    busy_s: float
    """Seconds of ``span_s`` in which that GPU computes."""
    gaps: int
    """Number of times in which the GPU is idle; the longest are rows."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileTime:
    """Time of one call of a kernel, added up over all steps of a profile."""

    id: int
    profile: int
    kernel: int
    call: int
    """Id of the KernelCall that the seconds belong to."""
    how: ProfileJoin
    seconds: float
    runs: int
    """Number of runs."""
    shared_s: float = 0.0
    """Part of its seconds that it shares with other calls of the same name."""


@dataclass(frozen=True, slots=True)
class ProfileOther:
    """Time that is joined to no call, by kind and name."""

    id: int
    profile: int
    kind: OutsideKind
    name: str
    """Operator that launched the work, such as ``aten::_foreach_mul_``; the work's own name without
    one.
    """
    compilation: str
    """Name of the compiled function in which it ran, ``0/1``; empty for none."""
    seconds: float
    runs: int
    file: str = ""
    """The line that the trace itself names, as later releases of torch do."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ProfileGap:
    """Time in which the GPU was idle."""

    id: int
    profile: int
    position: int
    """Position by length; 0 is the longest gap."""
    start_s: float
    """Seconds after the first work of that GPU."""
    seconds: float
    before: str
    """Name of the kernel that ended before it."""
    after: str
    """Name of the kernel that began after it."""
    before_kernel: int
    """The Kernel of the session; 0 for none."""
    after_kernel: int
    doing: tuple[str, ...]
    """Phrases on what the launching thread did during the gap, the longest first."""
    doing_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RemedyTrial:
    """What a program did in a capture with something changed that a finding proposes."""

    id: int
    changes: str
    """Key of what was changed (findings/remedy_trials.py)."""
    outcome: str
    """How the program ended, as ``Outcome.kind``: ``finished``, ``raised``, ``timed_out`` …"""
    message: str
    """First line of the error that ended it; empty without one."""
    graphs: int
    graph_breaks: int
    """Number of lines that break."""
    recompiles: int
    refused: int
    """Number of functions that reached the recompile limit."""
    failed: int
    """Number of functions that could not be compiled."""
    operations: int
    """Operations of the graphs that Dynamo made."""
    compile_s: float
    took_s: float
    """Seconds that the trial took, with the start of its worker."""
    kernels: int = -1
    """Number of kernels and library calls; -1 where they were not counted."""
    broken_code: tuple[str, ...] = ()
    """The lines that break the graph, as they are written."""
    first_break: str = ""
    """Which line breaks the graph, and why; the costliest of several. Empty without a break."""


@dataclass(frozen=True, slots=True)
class CacheComparison:
    """What a program did with torch's compile caches, as it has them alone, and without, both
    built.
    """

    id: int
    recompiles_with: int
    recompiles_without: int
    ended_with: str
    """How the program ended with caches: ``finished``, or the first line of its error."""
    ended_without: str
    printed_with: tuple[str, ...]
    """Lines of standard output that differ between the two, and not between two runs without
    caches.
    """
    printed_without: tuple[str, ...]
    """The lines in their place without caches."""
