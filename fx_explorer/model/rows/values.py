"""This module has the rows of facts about values: aliases and changes of a graph's inputs and
outputs, redistributions of DTensors, process groups, what ``node.meta`` holds besides what a node's
own row has, and how often nested compile regions were reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import RepeatedName

# Aliases and changes of inputs and outputs.


@dataclass(frozen=True, slots=True)
class GraphValues:
    """AOTAutograd's summary of the inputs and outputs of a graph (``ViewAndMutationMeta``,
    torch/_functorch/_aot_autograd/schemas.py). What stands out of the ordinary has a ValueFact.
    """

    id: int
    compilation: int
    graph: int
    """The forward or inference graph."""
    traced: int
    """The graph that AOTAutograd traced; its inputs and results are counted here."""
    inputs: int
    outputs: int
    intermediate_bases: int
    """Tensors that the graph returns besides, because results are views of them."""
    tangents: int
    """Gradients that the backward takes as inputs."""
    synthetic_bases: int
    """Inputs that AOTAutograd made, each in the place of several that overlap."""
    is_training: bool


ValueRole = Literal["input", "output"]

ValueKind = Literal[
    # of outputs, in torch's own words (OutputType)
    "alias_of_input",
    "is_input",
    "alias_of_intermediate",
    "alias_of_intermediate_save_as_output",
    "alias_of_intermediate_base_is_user_output",
    "unsafe_view_alias",
    "custom_function_view",
    # of inputs (MutationType)
    "mutated_in_graph",
    "mutated_out_graph",
    "not_mutated",
]
"""What AOTAutograd says of a value. ``not_mutated`` is only an input that overlaps another one."""


@dataclass(frozen=True, slots=True)
class ValueFact:
    """An input that is changed or overlaps another one, or an output that is an input or a view."""

    id: int
    graph_values: int
    role: ValueRole
    position: int
    """Index among the inputs, or the results, of the graph that AOTAutograd traced, from 0."""
    node: int
    """The input's node in that graph, or the node of the result; 0 where it is not known."""
    kind: ValueKind
    base: int = -1
    """For an output: index of the input, of the intermediate base, or of the other output that it
    is a view of. For an input that overlaps others: number of their common base. -1 without one.
    """
    base_node: int = 0
    """Node of that base in the traced graph; 0 where it has none."""
    changes: tuple[str, ...] = ()
    """What is changed of an input: ``data``, ``metadata``, ``storage``, ``storage size``; and how:
    ``hidden from autograd``, ``under no_grad``.
    """
    written: int = 0
    """Node of AOTAutograd's graph with the value that the input has afterwards; 0 without one."""
    size_bytes: int = -1
    """Size of an input's elements; -1 when it is not known."""


# Distributed.


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group that a graph's collectives name."""

    id: int
    name: str
    """torch's name of it, as operators have it: ``5``."""
    size: int
    """Number of ranks; -1 when it is not known."""
    ranks: tuple[int, ...] = ()
    description: str = ""
    """torch's description of it: ``mesh_tp``."""


@dataclass(frozen=True, slots=True)
class Redistribution:
    """A change of a DTensor's placements while AOTAutograd traced a graph."""

    id: int
    graph: int
    """The graph of AOTAutograd's (joint, forward or inference) that has its nodes."""
    mesh: str
    """The mesh's dimensions: ``dp=2, tp=4``."""
    before: str
    """Placements as the user writes them: ``Shard(0), Replicate()``."""
    after: str
    shape: tuple[str, ...]
    """Sizes of the whole tensor."""
    dtype: str
    nodes: tuple[int, ...]
    """The nodes that it consists of; empty where it only takes a part of what is there."""


# node.meta.


@dataclass(frozen=True, slots=True)
class NodeMeta:
    """What ``node.meta`` holds of the nodes of a graph, besides what their rows have."""

    id: int
    graph: int
    text: int
    """JSON text: ``{key: {text of a value: positions of the nodes}}``. Positions are ranges,
    ``0-4,7``; a value that a row has under another name is empty. Of Dynamo's ``example_value`` it
    is ``GRADIENT`` or ``NO_GRADIENT``.
    """


GRADIENT = "requires grad"
"""Text of an ``example_value`` with ``requires_grad``, which no row of a node has."""

NO_GRADIENT = "no grad"


# Nested compile regions.


RegionOutcome = Literal["traced", "reused"]


@dataclass(frozen=True, slots=True)
class RegionUse:
    """Calls of a nested compile region (``torch.compiler.nested_compile_region``) that Dynamo
    treated alike.
    """

    id: int
    compilation: int
    function: str
    """The user's function, ``Block.forward``."""
    outcome: RegionOutcome
    calls: int
    reason: RepeatedName = ""
    """Why what Dynamo had traced before was not used again, in torch's words; empty for the first
    call, for a reused one, and where torch does not say.
    """
    not_kept: RepeatedName = ""
    """Why what was traced here cannot be used again, in torch's words; empty where it can."""
