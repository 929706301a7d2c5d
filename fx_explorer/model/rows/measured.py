"""These rows are about what was measured: the ledger of one call, and a profile of real steps.

The ledger says where the time of a call of the compiled program goes, step by step, with the same
call uncompiled, operator by operator. A profile of ``torch.profiler`` beside the session says where
the time of real steps went, joined to the calls of kernels that the session knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.stage import Direction

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
"""What a step of a call is.

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
    """Calls of the program whose time was accounted for. The last one counts."""

    id: int
    target: str
    inputs: str
    """The inputs, in words: ``(float32[8, 64])``."""
    trains: bool
    """Whether a call goes backward too."""
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
    """Median seconds of a call in each round. Rounds of the same position were made one after the
    other.
    """
    calls: int
    """Calls with a clock that the steps are the mean of."""
    other_calls: int
    """Calls with a clock that took another path, such as compiling. They are not counted."""
    clock_s: float
    """Seconds that the clock itself took in a call, which are in no step."""
    uncompiled_s: float = NOT_KNOWN
    """Seconds of a call uncompiled, in rounds that took turns with the others; -1 when it fails."""
    uncompiled_rounds_s: tuple[float, ...] = ()
    unguarded_s: float = NOT_KNOWN
    """Seconds of a call while torch skips the guards that do not tell its compiled versions apart
    (``torch.compiler.set_stance(skip_guard_eval_unsafe=True)``); -1 where that was not tried.
    """
    unguarded_rounds_s: tuple[float, ...] = ()
    busy_s: float = NOT_KNOWN
    """Seconds of a call in which the GPU computes; -1 without one."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerStep:
    """One step of a call, in the order of the call. The steps of a call add up to it."""

    id: int
    call: int
    """Id of the LedgerCall that it is a step of."""
    position: int
    kind: LedgerKind
    name: str
    """What is called, as the generated code writes it; empty for what is no call."""
    compilation: str
    """Name of the compilation, ``0/0``; empty for what belongs to none."""
    direction: Direction
    line: int
    """Line of the output code where it begins, from 1; 0 for what is not in it."""
    file: str
    user_line: int
    """Where the user's own code is what takes the time (``break``); else the session's links know.
    """
    host_s: float
    """Mean seconds until the program continues. On a GPU a kernel may still be running then."""
    iqr_s: float
    """Range of the middle half of the calls."""
    device_s: float = NOT_KNOWN
    """Seconds that the GPU computes for it; -1 without one."""
    moved_bytes: int = NOT_KNOWN
    """Bytes of the tensors that it is given and gives, each counted once; -1 when it has none."""
    flops: int = NOT_KNOWN
    """Operations, as ``torch.utils.flop_counter`` counts those of matrix products, convolutions and
    attention; -1 for what it does not know.
    """


@dataclass(frozen=True, slots=True)
class LedgerOperator:
    """One operator of the same call uncompiled, in the order of the call."""

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
    """Seconds, without what it takes to be profiled."""
    device_s: float = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class LedgerGap:
    """Time of a call in which the GPU does nothing, and what the host does meanwhile. Measured
    while a profiler looks at the GPU.
    """

    id: int
    call: int
    position: int
    before: str
    """The kernel that ends before it; empty at the beginning of the call."""
    after: str
    """The kernel that begins behind it; empty at the end of the call."""
    seconds: float
    steps: tuple[int, ...]
    """Positions of the steps that the host takes meanwhile."""
    steps_s: tuple[float, ...]
    """Seconds of each step that lie in the gap."""


# A profile of real steps.


ProfileJoin = Literal["order", "similar", "shared"]
"""How a time is known to be of a call. ``order``: the call of this name, at its place among the
calls of the compiled graph. ``similar``: the process that was profiled generated code whose name
differs in its number. ``shared``: several calls share the name and the order does not tell them
apart, so that each has an equal part.
"""

OutsideKind = Literal[
    "unjoined", "wrapper", "optimizer", "autograd", "compiling", "break", "eager", "not known"
]
"""What ran without being joined. ``unjoined``: in a compiled graph, but no call of the session's.
``wrapper``: around a compiled graph, by what AOTAutograd puts there. ``optimizer``: of
``Optimizer.step``. ``autograd``: a backward that was not compiled. ``compiling``: while torch
compiled. ``break``: in a compiled function, between its graphs. ``eager``: elsewhere in the
program. ``not known``: the trace does not say what launched it.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile that was read. The last one counts."""

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
    """Seconds of these that are divided among several calls of one name."""
    span_s: float
    """Seconds from the first to the last of the GPU that computes the longest."""
    busy_s: float
    """Seconds of these in which that GPU computes."""
    gaps: int
    """Times in which it does nothing; the longest are rows."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileTime:
    """What one call of a kernel took in all steps of a profile together."""

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
    """Seconds of these that it shares with other calls of the same name."""


@dataclass(frozen=True, slots=True)
class ProfileOther:
    """Time that is joined to no call, of one kind and name."""

    id: int
    profile: int
    kind: OutsideKind
    name: str
    """Operator that launched the work, such as ``aten::_foreach_mul_``; the work's own name where
    no operator did.
    """
    compilation: str
    """Name of the compiled function it ran in, ``0/1``; empty for none."""
    seconds: float
    runs: int
    file: str = ""
    """The line that the trace itself names, as later releases of torch do."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ProfileGap:
    """Time in which the GPU did nothing."""

    id: int
    profile: int
    position: int
    """Position by length; 0 is the longest gap."""
    start_s: float
    """Seconds after the first work of that GPU."""
    seconds: float
    before: str
    """What ended before it: the name of a kernel."""
    after: str
    """What began behind it."""
    before_kernel: int
    """The Kernel of the session; 0 for none."""
    after_kernel: int
    doing: tuple[str, ...]
    """Phrases on what the launching thread did during the gap, the longest first."""
    doing_s: tuple[float, ...]
