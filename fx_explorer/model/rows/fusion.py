"""This module has the rows about fusion: two calls of kernels that Inductor kept apart, and the
loop nests that it wrote one after the other into a C++ kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FusionState = Literal["refused", "not asked", "allowed", "outer loop"]
"""How far Inductor got with a pair. ``refused``: a check said no. ``not asked``: it never came to
the checks, because one of them is a library call, or because it looks at 64 neighbours only.
``allowed``: no check said no, and the pair was not fused all the same (another fusion came first,
or the fused kernel was slower when it was timed). ``outer loop``: two loop nests of a C++ kernel
share their outer loops, and no other.
"""

KEPT_APART = "kept apart, as you asked"
"""The reason of pairs that the user has kept apart, in the place of Inductor's own words."""


@dataclass(frozen=True, slots=True)
class UnfusedPair:
    """Two calls of kernels that access the same memory and were not fused, with Inductor's reason
    (``Scheduler.can_fuse``, torch/_inductor/scheduler.py).
    """

    id: int
    first: int
    """Id of the KernelCall that runs first."""
    second: int
    """Id of the other KernelCall. The same one for two loop nests in one C++ kernel, which
    ``first_buffers`` and ``second_buffers`` tell apart.
    """
    is_dependent: bool
    """Whether the second reads what the first writes. Otherwise both read the same."""
    state: FusionState
    reason: str
    """Inductor's own words (``WhyNoFuse``); empty where it gives none."""
    check: str
    """Name of the function or option of Inductor that refused; empty where none did."""
    saved_bytes: int
    """Bytes that one kernel for both would not write and read again, by Inductor's size of each
    access; -1 where that is not known.
    """
    first_loops: str
    """What the first loops over, as Inductor has it: ``(512, 64)``, or elements and elements of a
    reduction on a GPU; empty for a library call.
    """
    second_loops: str
    first_buffers: tuple[str, ...]
    """What the first computes, as Inductor's scheduler names it: ``("buf3", "buf4")``. In C++ a
    kernel may compute more.
    """
    second_buffers: tuple[str, ...]
    buffers: tuple[str, ...]
    """The buffers that both access, as the output code names them."""
    names: tuple[str, ...]
    """Inductor's names of the two nodes that it was asked about, as the log ``fusion`` has them:
    ``("op3", "op4_op5")``; empty where it was not asked.
    """
    is_exact: bool
    """Whether Inductor looked at exactly these two. Otherwise it looked at parts of them, before
    those were fused with others.
    """


@dataclass(frozen=True, slots=True)
class LoopNest:
    """One of several loop nests that stand one after the other in a C++ kernel. Inductor's
    scheduler did not fuse them; its C++ code generator writes what runs without a library call in
    between into one function (``KernelGroup``, torch/_inductor/codegen/cpp.py).
    """

    id: int
    call: int
    """Id of the KernelCall."""
    position: int
    """Its place among the loop nests of the kernel, from 0."""
    name: str
    """Inductor's name of the scheduler's node: ``op0_op4``."""
    loops: str
    """What it loops over, as in UnfusedPair."""
    buffers: tuple[str, ...]
    """What it computes, as Inductor's scheduler names it."""
    nodes: tuple[int, ...]
    """Ids of the post-grad nodes that it computes."""
    outer: str
    """Inductor's name of the node for all nests with which it was to share its outer loops
    (``OuterLoopFusedSchedulerNode``); empty where there is none.
    """
    is_outer_shared: bool
    """Whether the outer loops were written once for all of them. They are not where the nests are
    tiled differently.
    """
    local_buffers: int
    """Number of values that those nests hand over in a buffer inside the outer loop instead of in
    memory for the whole tensor.
    """
