"""A profile of ``torch.profiler`` beside the session: where the time of real steps went, joined to
the calls of kernels that the session knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """Tells the file from others."""
    device: str
    """Name of the GPU; ``cpu`` for a profile without one."""
    is_of_gpu: bool
    events: int
    """Events of the trace, of any kind."""
    skipped: int
    """Those that could not be read."""
    problem: str
    """Why the trace ends early; empty where it does not."""
    graph_calls: int
    """Calls of compiled graphs in the trace."""
    joined_calls: int
    """Those whose graph is one of the session's."""
    work_s: float
    """Seconds of all that ran on the GPUs, one after the other; of a profile without one, of the
    operators.
    """
    compiled_s: float
    """Seconds that ran in compiled graphs."""
    joined_s: float
    """Seconds that are joined to a call of a kernel."""
    shared_s: float
    """Those of them that several calls share out."""
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
    """The KernelCall."""
    how: ProfileJoin
    seconds: float
    runs: int
    """How often it ran."""
    shared_s: float = 0.0
    """Seconds of these that it shares with other calls of the same name."""


@dataclass(frozen=True, slots=True)
class ProfileOther:
    """Time that is joined to no call, of one kind and name."""

    id: int
    profile: int
    kind: OutsideKind
    name: str
    """The operator that launched it: ``aten::_foreach_mul_``; what ran where no operator did."""
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
    """0 for the longest."""
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
    """What the thread did meanwhile that launched what comes after, the longest first, in words."""
    doing_s: tuple[float, ...]
