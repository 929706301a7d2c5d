"""This module has the rows about Inductor's passes over FX graphs: what each of them changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import RepeatedName

UNNAMED = "code without a name"
"""Begin of the name of a row that stands for what changed between two passes: ``code without a name
between remove_noop_ops and stable_sort``.
"""

NodeChange = Literal["made", "erased", "changed"]
"""What a pass did with a node. ``changed``: it has another operator or other arguments since."""


FailedCheck = Literal[
    "operator",
    "inputs",
    "users",
    "value",
    "same node",
    "last operator",
    "other",
    "traced",
    "check",
    "mutation",
    "stream",
]
"""The check that kept a pattern from matching. ``operator``: the node calls another function.
``inputs``: another number of inputs, or other keyword arguments. ``users``: its result is used more
or less often. ``value``: a number, dtype or another constant differs. ``same node``: one node where
the pattern has two, or the other way. ``last operator``: all but the last operator of the pattern
is there. ``other``: torch's own words are all there is. ``traced``: the pattern cannot be traced
with these shapes. ``check``: the pattern's own check in Python said no. ``mutation``, ``stream``:
the matched nodes are on both sides of a mutation, or on several streams.
"""


@dataclass(frozen=True, slots=True)
class GraphPass:
    """One pass over a graph, as torch names it (``GraphTransformObserver``,
    torch/fx/passes/graph_transform_observer.py), or a function that Inductor calls as a pass
    without a name, or what changed between two of them. A pass inside another has a row of its own.
    """

    id: int
    graph: int
    """Id of the Graph as it is after all passes of the stage."""
    position: int
    """Place in the order in which the passes of the stage began, from 0."""
    parent: int
    """Position of the pass that it is a part of; -1 for none."""
    name: str
    """``remove_noop_ops``, ``pass_pattern_1``; that of the function (``view_to_reshape``) where
    torch gives none; ``post_grad`` for all passes of a stage together.
    """
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


@dataclass(frozen=True, slots=True)
class NearMatch:
    """Patterns that a pass tried at a node and that did not match, all for one reason: recorded
    where that was asked for (CaptureRequest.record_patterns).
    """

    id: int
    graph: int
    """Id of the Graph as it is after all passes of the stage."""
    graph_pass: int
    """Position of the GraphPass."""
    name: str
    """Name of the node at which the pattern's last operator was looked for; empty where no node
    calls it.
    """
    patterns: tuple[str, ...]
    """Names of the patterns."""
    is_users: bool
    """Whether they are not torch's own."""
    file: RepeatedName
    """The file in which the first is written; empty where that is not known."""
    line: int
    """Its first line, from 1; 0 where that is not known."""
    matched: tuple[str, ...]
    """Names of the nodes that matched, or of those whose operator did before the check failed."""
    alike: int
    """Number of nodes of the first pattern that are there if what differs is passed over."""
    size: int
    """Number of nodes of the first pattern."""
    check: FailedCheck
    is_specific: bool
    """Whether the check is of the pattern with the shapes and numbers of this program in it, after
    the pattern itself had matched.
    """
    at: str
    """Name of the node that the check failed at; empty where it is a value, or all of them."""
    input_of: str
    """Name of the matched node that has it as an input; empty for the pattern's last operator."""
    expected: str
    found: str
    check_file: RepeatedName
    """For ``check``: the file with the check; empty where it was not followed."""
    check_line: int
    """For ``check``: the line that returned, from 1; 0 where it was not followed."""
    torch_says: str
    """The text of torch's FailedMatch, cut; empty without one."""
