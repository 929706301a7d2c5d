"""What AOTAutograd's partitioner decided about a value of the forward that the backward needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.repeated_text import RepeatedName

Choice = Literal["saved", "recomputed"]

Ground = Literal["cannot_recompute", "cannot_save", "must_recompute", "cut", "no_cut"]
"""Why a value is saved or computed again. ``cannot_recompute``: torch rules recomputing it out, so
that it is a candidate for saving. ``cannot_save``: it is never saved, such as a view.
``must_recompute``: the program asked for that. ``cut``: neither; the smallest cut of the graph
decides. ``no_cut``: no smallest cut was searched.
"""

BUDGET = "activation_memory_budget"
"""The reason of ``no_cut`` where the memory budget is 0."""


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """A value that is saved for the backward, or computed once more in it, with the partitioner's
    own figures.
    """

    id: int
    compilation: int
    node: int
    """Node of the forward graph."""
    name: str
    choice: Choice
    ground: Ground
    reason: RepeatedName = ""
    """torch's words: ``cannot recompute: compute intensive op``; of ``no_cut`` who decided,
    ``mine: default_partition`` or ``BUDGET``. Empty where it is not known.
    """
    weight: float = -1.0
    """What saving it costs in the cut, in weighted bytes; -1 when it is infinite or not known."""
    distance: int = -1
    """Steps of the graph from it to the backward; -1 when it is not known."""
    size_bytes: int = -1
    """Size of its elements; -1 when it is not known."""
