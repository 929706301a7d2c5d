"""What a backend supports of a graph that it was given, node by node, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.repeated_text import RepeatedText

SaidBy = Literal["partitioner", "declared", "nobody"]
"""How the support is known. ``partitioner``: the backend asked torch's CapabilityBasedPartitioner
while it compiled. ``declared``: the backend has an ``operator_support``, which fx-explorer asked.
``nobody``: the backend does not say.
"""

Support = Literal["supported", "falls_back", "unknown"]
"""``unknown``: nobody says, or what was asked raised or answered nonsense."""


@dataclass(frozen=True, slots=True)
class SupportReport:
    """One graph of one backend that was looked at."""

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
    """Sentences on what was odd: unknown names in a registry, answers that are none."""


@dataclass(frozen=True, slots=True)
class NodeSupport:
    """One node of a report. Inputs and constants have a row for their size; outputs have none."""

    report: int
    node: int
    support: Support
    segment: int = 0
    """The segment it is in, from 1 in the order of the graph; 0 for an operator that PyTorch runs."""
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
