"""This module has the rows about graphs: their nodes and the nodes' places in the user's source,
the links between places, and the partitioner's decisions about values.

A link is a pair of places that are the same computation, and says how it is known. It always points
from the later stage to the earlier one (kernel → post-grad node → AOT node → Dynamo node → source),
so the chain of any place is walked by following ``parent`` up and ``child`` down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from fx_explorer.model.column_types import Direction, RepeatedName, Stage


class Frame(NamedTuple):
    """One line of a user stack, outermost first in a Stack."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """A user stack, stored once however many nodes share it."""

    id: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file some frame points into, with its text at the time of the capture."""

    id: int
    path: str
    text: int
    """Id of the text; 0 when the file could not be read (``<string>``, a deleted file); ``note``
    says why.
    """
    line_count: int = 0
    is_user: bool = True
    """False for files of torch and of the Python installation."""
    note: str = ""


AFTER_PASSES = "after passes"
"""The name of a joint graph as Inductor's passes left it, recorded where they changed something."""

_BUCKET = "bucket "


def bucket_label(number: int, count: int) -> str:
    """Return the label of the graphs of a bucket made by DDPOptimizer, numbered from 1 in the order
    of the forward.
    """
    return f"{_BUCKET}{number} of {count}"


def is_bucket_label(label: str) -> bool:
    """Return whether a label is that of a bucket, and not of a nested compile region."""
    return label.startswith(_BUCKET)


@dataclass(frozen=True, slots=True)
class Graph:
    """FX nodes of one stage and direction. Node ids of a graph are contiguous:
    ``first_node + position``.
    """

    id: int
    compilation: int
    stage: Stage
    direction: Direction
    name: str = ""
    """Empty for the whole graph; the attribute name (``cond_true_0``) for a nested subgraph of a
    higher-order op; ``AFTER_PASSES`` for a second joint graph. For another front end its name, and
    for its nested graphs both: ``export.cond_true_0``.
    """
    parent: int = 0
    """The graph that holds the higher-order op, for a nested subgraph."""
    first_node: int = 0
    node_count: int = 0
    call_count: int = 0
    """Nodes that compute or select something: call_function, call_method, call_module."""
    label: str = ""
    """The user's function of a nested compile region, ``Block.forward`` or ``gate``; the bucket of
    DDPOptimizer's that the graph is of, ``bucket 1 of 2``; empty for other graphs.
    """
    results: tuple[int, ...] = ()
    """For each output of AOTAutograd's forward or inference graph, the index of that result in
    Dynamo's graph, from 0; -1 where it is not a result. Empty for other graphs, and where torch
    does not describe them.
    """


@dataclass(frozen=True, slots=True)
class Node:
    """One FX node, with the content of ``node.meta`` about it."""

    id: int
    graph: int
    position: int
    name: str
    op: str
    """FX opcode: placeholder, get_attr, call_function, call_method, call_module, output."""
    target: str
    """``aten.mul.Tensor``, ``torch.nn.functional.gelu``, a method or attribute name."""
    arguments: str
    """The arguments as FX code: ``view_1, 0.5, memory_format = torch.contiguous_format``."""
    shape: tuple[str, ...] | None = None
    """Sizes as text, symbols included; None when the value is not a tensor."""
    dtype: str = ""
    """The dtype in torch's short form: ``f32``, ``bf16``, ``i64``."""
    stride: tuple[str, ...] | None = None
    device: str = ""
    value: str = ""
    """Text of a value that is not one plain tensor: ``(f32[4], f32[4])``, ``Sym(s77)``,
    ``TwoTensor(a: f32[4], b: f32[4])``; for one of the tensors in such a subclass, its name. Empty
    otherwise.
    """
    stack: int = 0
    file: int = 0
    """SourceFile of the innermost frame of the user's code; 0 when the node has none."""
    line: int = 0
    module: str = ""
    """Module path: ``layers.0.mlp.fc1``."""
    module_type: str = ""
    annotations: dict[str, object] | None = None
    """``node.meta["custom"]``: the annotations of ``fx_traceback.annotate``."""
    seq_nr: int = -1
    """Autograd sequence number, -1 without one: links a backward node to its forward node."""
    is_backward: bool = False
    is_view: bool = False
    """Whether the node computes nothing, so that no kernel can be expected: views, getitems and
    others.
    """
    subgraph_names: tuple[str, ...] = ()
    """The names of the graphs nested in a higher-order op; empty for other nodes."""


@dataclass(frozen=True, slots=True)
class Edge:
    """``consumer`` takes ``producer`` as an argument; both are node ids of one graph."""

    producer: int
    consumer: int


# Links.


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
    "replaced",
    "written_back",
]
"""Evidence of a link. ``identity``: the same FX node object. ``name``: same name in a graph that
was copied from the other. ``from_node`` … ``stack_trace``: that key of node.meta. ``aot_input``:
AOTAutograd states which input of the traced graph it is. ``origins``: the scheduler node's origins.
``codegen``: recorded while the line was written. ``call_site``: the wrapper line was written for
it, or the bytecode calls its graph there. ``lnotab``: the code object's line table. ``copied``:
torch copied it from there, and the texts are equal. ``kernel_call``: the number of a call of a
Triton kernel of the user's. ``replaced``: a pass put the node in the place of that one and others,
as a pattern that joins a product and a sum does. ``written_back``: AOTAutograd added the node to
write a value into an input that the program changes, and the other computed that value.
"""


@dataclass(frozen=True, slots=True)
class Link:
    """Node ``child`` of a later stage is (part of) node ``parent`` of an earlier one."""

    child: int
    parent: int
    how: How


LeftOutReason = Literal["unchanged", "empty", "unused", "inlined"]
"""Why AOTAutograd's graph has no node for an operation. ``unchanged``: the call returned one of its
input tensors itself, and no operation was traced during it (``contiguous`` of a contiguous tensor).
``empty``: it returned nothing, and no operation was traced (``_set_grad_enabled``). ``unused``:
operations were traced, and AOTAutograd removed them again, because their results are not used.
``inlined``: the call of a nested graph, which AOTAutograd replaced by the operations of that graph.
"""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operation of the graph that AOTAutograd traced, with a possible reason why no node in the
    traced graph is linked to it.
    """

    node: int
    reason: LeftOutReason


@dataclass(frozen=True, slots=True)
class LineNode:
    """Line ``line`` (from 1) of an artifact computes ``node``; line 0 means the artifact as a whole
    (a kernel).
    """

    artifact: int
    line: int
    node: int
    how: How
    call: int = 0
    """The KernelCall to which it applies, when several calls share a kernel; 0 when there is one,
    or when it is not known.
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
    """Number of lines of the artifact, from ``line`` on, that belong to that source line."""


# What AOTAutograd's partitioner decided about values that the backward needs.


Choice = Literal["saved", "recomputed"]

Ground = Literal["cannot_recompute", "cannot_save", "must_recompute", "cut", "no_cut"]
"""Why a value is saved or recomputed. ``cannot_recompute``: torch forbids recomputing it, so that
it is a candidate for saving. ``cannot_save``: it is never saved, such as a view.
``must_recompute``: the program requested it. ``cut``: none of these; the minimum cut of the graph
decides. ``no_cut``: no minimum cut was computed.
"""

BUDGET = "activation_memory_budget"
"""The reason of ``no_cut`` where the memory budget is 0."""


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """A value that is saved for the backward, or recomputed in it, with the partitioner's own
    figures.
    """

    id: int
    compilation: int
    node: int
    """Node of the forward graph."""
    name: str
    choice: Choice
    ground: Ground
    reason: RepeatedName = ""
    """torch's reason: ``cannot recompute: compute intensive op``. For ``no_cut``, who decided:
    ``mine: default_partition`` or ``BUDGET``. Empty where it is not known.
    """
    weight: float = -1.0
    """The cost of saving it in the cut, in weighted bytes; -1 when it is infinite or not known."""
    distance: int = -1
    """Steps of the graph from it to the backward; -1 when it is not known."""
    size_bytes: int = -1
    """Size of its elements; -1 when it is not known."""
