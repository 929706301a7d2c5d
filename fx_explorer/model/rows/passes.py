"""This module has the rows about Inductor's passes over FX graphs: what each of them changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import RepeatedName

NodeChange = Literal["made", "erased", "changed"]
"""What a pass did with a node. ``changed``: it has another operator or other arguments since."""


@dataclass(frozen=True, slots=True)
class GraphPass:
    """One pass over a graph, as torch names it (``GraphTransformObserver``,
    torch/fx/passes/graph_transform_observer.py). A pass inside another has a row of its own.
    """

    id: int
    graph: int
    """Id of the Graph as it is after all passes of the stage."""
    position: int
    """Place in the order in which the passes of the stage began, from 0."""
    parent: int
    """Position of the pass that it is a part of; -1 for none."""
    name: str
    """``remove_noop_ops``, ``pass_pattern_1``; ``post_grad`` for all passes of a stage together."""
    subsystem: str
    """Name of torch's for a group of passes, which CompilerBisector can switch off; empty without
    one.
    """
    duration_s: float
    """Seconds, with the passes inside."""
    made: int
    """Number of nodes that were not there before it, passes inside included."""
    erased: int
    changed: int


@dataclass(frozen=True, slots=True)
class Decomposed:
    """A node of a traced graph that an operator's decomposition made."""

    node: int
    operator: RepeatedName
    """The operator that the program, or autograd, called: ``aten.gelu_backward.default``."""
    function: RepeatedName
    """Name of the decomposition; empty where it is no function in Python, but a composite operator
    of ATen's.
    """
    file: RepeatedName
    """Its file, one of torch's; empty without one."""
    line: int
    """Its first line, from 1; 0 without one."""
    source: int
    """Text with its source; 0 where that could not be read."""


@dataclass(frozen=True, slots=True)
class PassChange:
    """What a pass itself did with one node; what a pass inside it did is that one's."""

    id: int
    graph: int
    """Id of the Graph as it is after all passes of the stage."""
    graph_pass: int
    """Position of the GraphPass."""
    kind: NodeChange
    node: int
    """Id of the node in that graph; 0 where it is not there at the end."""
    name: str
    before: str
    """The node before the pass: ``aten.add.Tensor(mul, 1)``; empty for one that it made."""
    after: str
    """The node after it; empty for one that it erased."""
    replaced: tuple[str, ...]
    """Of a node that was made: names of the nodes in whose place it is used; of an erased one: of
    those that are used in its place.
    """
    pattern: str
    """The pattern of Inductor's that matched, or the function that replaced it; empty where no
    pattern did it.
    """
