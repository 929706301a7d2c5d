"""These rows are about backends: the stages that they publish, what they support, and runs of what
they made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.repeated_text import RepeatedText
from fx_explorer.model.stage import Direction


@dataclass(frozen=True, slots=True)
class PublishedStage:
    """One call of ``fx_explorer.publish``: a graph or a text of stage ``backend``."""

    id: int
    compilation: int
    position: int
    """From 0, within the compilation: the order of the calls."""
    name: str
    """What the backend calls the stage: ``segments``, ``program``."""
    direction: Direction = ""
    graph: int = 0
    """The Graph that was published; 0 for a text."""
    artifact: int = 0
    """The Artifact that was published; 0 for a graph."""
    start_s: float = 0.0
    """Seconds since the session began, when it was published."""


# Support: what a backend can compile of a graph that it was given, node by node, and who says so.

SaidBy = Literal["partitioner", "declared", "nobody"]
"""How the support is known. ``partitioner``: the backend asked torch's CapabilityBasedPartitioner
while it compiled. ``declared``: the backend has an ``operator_support``, which fx-explorer asked.
``nobody``: the backend does not say.
"""

Support = Literal["supported", "falls_back", "unknown"]
"""``unknown``: nobody says, or what was asked raised or answered nonsense."""


@dataclass(frozen=True, slots=True)
class SupportReport:
    """What one backend said about its support of one graph."""

    id: int
    compilation: int
    graph: int
    """The Graph that was partitioned, or that the backend was given."""
    backend: str
    said_by: SaidBy
    source: str = ""
    """What was asked: ``OperatorSupport of openvino.frontend…``, ``a registry of 12 names``."""
    is_partitioned: bool = False
    """Whether it is known which segments there are."""
    allows_single: bool = False
    """Whether the partitioner may make a segment of a single operator."""
    merges_independent: bool = True
    """Whether the partitioner puts operators into one segment that do not need each other."""
    notes: tuple[str, ...] = ()
    """Sentences on oddities: unknown names in a registry, answers that are none."""


@dataclass(frozen=True, slots=True)
class NodeSupport:
    """One node of a report. Inputs and constants have a row for their size; outputs have none."""

    report: int
    node: int
    support: Support
    segment: int = 0
    """The segment it is in, from 1 in the order of the graph; 0 for an operator that PyTorch runs.
    """
    reason: RepeatedText = ""
    """Why it is not supported, or why that is unknown; empty where nobody gives a reason."""
    flops: int = -1
    """Operations by torch's own formulas; -1 where they cannot be counted."""
    read_bytes: int = -1
    """Elements of the tensors it takes; -1 where a size is not known. Symbols count as in this
    call.
    """
    written_bytes: int = -1
    """Elements of the tensors it makes; 0 for a view."""
    result_bytes: int = -1
    """Elements of its result, of a view too; -1 where a size is not known."""


# Runs: how often each compiled entry of a backend was called, and what its runs published.


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """A function that a backend returned for a graph. It is made once, and called whenever the
    program runs the graph.
    """

    id: int
    compilation: int
    direction: Direction
    """Empty for a backend without AOTAutograd, which is given Dynamo's graph."""
    backend: str
    calls: int = 0
    outputs: int = -1
    """How many outputs it returned in its last call; -1 before the first, and for what is no tuple
    or list.
    """


@dataclass(frozen=True, slots=True)
class BackendRun:
    """One call of ``fx_explorer.publish_run``: an entry ran, instruction by instruction."""

    id: int
    compilation: int
    """The compilation whose entry ran; 0 when it is not known."""
    entry: str
    """Name that the backend gave the entry."""
    direction: Direction
    """That of the entry which ran, where it is known."""
    call: int
    """Which call of the entry it was, from 1."""
    program: int = 0
    """The Artifact of stage ``program`` that its lines are in; 0 when none was published."""
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
    """As the backend writes them: ``512x512, 512``."""
    seconds: float = 0.0
    fell_back: bool = False
    """Whether PyTorch computed it, because the backend does not support it."""
    line: int = 0
    """Line of the program, from 1; 0 when it is not known."""
    node: int = 0
    """The Node that it computes; 0 when it is not known."""
