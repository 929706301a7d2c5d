"""This module has the row about a decision of Inductor's: why a kernel is the way it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DecisionKind = Literal[
    "attention",
    "library call",
    "candidates",
    "layout",
    "reduction",
    "tiles",
    "vectors",
    "threads",
]
"""What was decided. ``attention``: the kernel of an attention, which torch chooses before Inductor
gets the graph. ``library call``: that an operation gets no kernel of its own. ``candidates``: the
template or library call that the autotuner chose. ``layout``: the strides of a value, perhaps by a
copy. ``reduction``: whether it is split, and how it loops. ``tiles``: the dimensions of a Triton
kernel's blocks. ``vectors`` and ``threads``: of the loops of a C++ kernel.
"""


@dataclass(frozen=True, slots=True)
class KernelDecision:
    """One decision that Inductor made while it lowered a graph or wrote a kernel, or torch before
    it, with the numbers that it had.
    """

    id: int
    node: int
    """The post-grad node that was being lowered, for an attention Dynamo's node; 0 where a whole
    kernel was written.
    """
    call: int
    """Id of the KernelCall that it is about; 0 for those that compute ``node``."""
    kind: DecisionKind
    outcome: str
    """In a word or two, of the kind's own list (capture/inductor)."""
    check: str
    """The function of torch that decided, with its file and line; empty where none did."""
    reason: str
    """Inductor's own condition or words; empty where it has none."""
    about: int
    """The post-grad node whose value it is about, for a layout; 0 otherwise."""
    numbers: dict[str, int]
    texts: dict[str, str]
