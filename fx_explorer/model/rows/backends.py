"""This module has the rows about backends: the stages that they publish, their support, and runs of
their compiled functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import Direction, RepeatedText


@dataclass(frozen=True, slots=True)
class PublishedStage:
    """One call of ``fx_explorer.publish``: a graph or a text of stage ``backend``."""

    id: int
    compilation: int
    position: int
    """Position of the call within the compilation, from 0."""
    name: str
    """The backend's name of the stage: ``segments``, ``program``."""
    direction: Direction = ""
    graph: int = 0
    """The Graph that was published; 0 for a text."""
    artifact: int = 0
    """The Artifact that was published; 0 for a graph."""
    start_s: float = 0.0
    """Seconds since the session began, when it was published."""


# Support: what a backend can compile of a graph that it was given, node by node, and who says so.

SaidBy = Literal["partitioner", "declared", "nobody"]
"""The source of the support. ``partitioner``: the backend asked torch's CapabilityBasedPartitioner
during compilation. ``declared``: the backend has an ``operator_support``, which fx-explorer asked.
``nobody``: the backend gives no information.
"""

Support = Literal["supported", "falls_back", "unknown"]
"""The support of an operator. ``unknown``: there is no information, or the source raised or gave an
invalid answer.
"""


@dataclass(frozen=True, slots=True)
class SupportReport:
    """A backend's support of one graph."""

    id: int
    compilation: int
    graph: int
    """The Graph that was partitioned, or that the backend was given."""
    backend: str
    said_by: SaidBy
    source: str = ""
    """Description of the source: ``OperatorSupport of openvino.frontend…``, ``a registry of 12
    names``.
    """
    is_partitioned: bool = False
    """Whether the segments are known."""
    allows_single: bool = False
    """Whether the partitioner may make a segment of a single operator."""
    merges_independent: bool = True
    """Whether the partitioner merges operators that do not need each other into one segment."""
    notes: tuple[str, ...] = ()
    """Sentences on oddities: unknown names in a registry, invalid answers."""


@dataclass(frozen=True, slots=True)
class NodeSupport:
    """One node of a report. Inputs and constants have a row because of their size; outputs have
    none.
    """

    report: int
    node: int
    support: Support
    segment: int = 0
    """The segment it is in, from 1 in the order of the graph; 0 for an operator that PyTorch runs.
    """
    reason: RepeatedText = ""
    """Why it is not supported, or why that is unknown; empty without a reason."""
    flops: int = -1
    """Operations by torch's own formulas; -1 where they cannot be counted."""
    read_bytes: int = -1
    """Bytes of the elements of its input tensors; -1 where a size is not known. Symbols count as in
    this call.
    """
    written_bytes: int = -1
    """Bytes of the elements of the tensors that it creates; 0 for a view."""
    result_bytes: int = -1
    """Bytes of the elements of its result, also of a view; -1 where a size is not known."""


# Runs: how often each compiled entry of a backend was called, and what its runs published.


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """A function that a backend returned for a graph. It is called whenever the program runs the
    graph.
    """

    id: int
    compilation: int
    direction: Direction
    """Direction of the entry; empty for a backend without AOTAutograd, which is given Dynamo's
    graph.
    """
    backend: str
    calls: int = 0
    outputs: int = -1
    """Number of outputs of its last call; -1 before the first, and for a result that is not a tuple
    or list.
    """


@dataclass(frozen=True, slots=True)
class BackendRun:
    """One call of ``fx_explorer.publish_run``: a compiled function ran, instruction by
    instruction.
    """

    id: int
    compilation: int
    """The compilation whose entry ran; 0 when it is not known."""
    entry: str
    """Name that the backend gave the entry."""
    direction: Direction
    """Direction of the function that ran, if known."""
    call: int
    """Number of the call of the entry, from 1."""
    program: int = 0
    """The Artifact of stage ``program`` with its lines; 0 when none was published."""
    start_s: float = 0.0
    """Seconds since the session began, when it was published."""


@dataclass(frozen=True, slots=True)
class BackendInstruction:
    """One instruction of a run."""

    id: int
    run: int
    position: int
    name: str
    shapes: str = ""
    """Shapes in the backend's own notation: ``512x512, 512``."""
    seconds: float = 0.0
    fell_back: bool = False
    """Whether PyTorch computed it, because the backend does not support it."""
    line: int = 0
    """Line of the program, from 1; 0 when it is not known."""
    node: int = 0
    """The Node that it computes; 0 when it is not known."""
