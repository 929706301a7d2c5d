"""Links: pairs of places that are the same computation, each saying how it is known.

A link always points from the later stage to the earlier one (kernel → post-grad node → AOT node →
Dynamo node → source), so the chain of any place is walked by following ``parent`` up and ``child``
down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal[
    "identity",
    "from_node",
    "source_fn_stack",
    "fwd_source_fn_stack",
    "seq_nr",
    "stack_trace",
    "name",
    "aot_input",
    "origins",
    "codegen",
    "call_site",
    "lnotab",
    "copied",
    "kernel_call",
]
"""``identity``: the same FX node object. ``name``: same name in a graph that was copied from the
other. ``from_node`` … ``stack_trace``: that key of node.meta. ``aot_input``: AOTAutograd says which
input of the traced graph it is. ``origins``: the scheduler node's origins. ``codegen``: seen while
the line was written. ``call_site``: the wrapper line was written for it, or the bytecode calls its
graph there. ``lnotab``: the code object's line table. ``copied``: torch copied it from there, and
the texts are equal. ``kernel_call``: the number of a call of a Triton kernel of the user's.
"""


@dataclass(frozen=True, slots=True)
class Link:
    """Node ``child`` of a later stage is (part of) node ``parent`` of an earlier one."""

    child: int
    parent: int
    how: How


@dataclass(frozen=True, slots=True)
class LineNode:
    """Line ``line`` (from 1) of an artifact computes ``node``; line 0 stands for the artifact as a
    whole (a kernel).
    """

    artifact: int
    line: int
    node: int
    how: How
    call: int = 0
    """The KernelCall it holds for, when a kernel is shared by several calls; 0 when there is one,
    or it is not known.
    """


@dataclass(frozen=True, slots=True)
class LineSource:
    """Line ``line`` of an artifact (bytecode, a kernel of the user's own) belongs to line
    ``source_line`` of a source file.
    """

    artifact: int
    line: int
    file: int
    source_line: int
    how: How = "lnotab"
    lines: int = 1
    """How many lines of the artifact, ``line`` the first of them, belong to that one of the
    source.
    """
