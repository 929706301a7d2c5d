"""What a backend tells of itself: its stages, in the order in which it published them."""

from __future__ import annotations

from dataclasses import dataclass

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
