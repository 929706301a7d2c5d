"""What becomes of a backend's programs at run time: how often each is called, and what its runs tell."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.model.stage import Direction


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """A function that a backend returned for a graph: made once, called as often as the program
    runs the graph.
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
    """What the backend calls it."""
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
    """As the backend tells them: ``512x512, 512``."""
    seconds: float = 0.0
    fell_back: bool = False
    """Whether PyTorch computed it, because the backend does not support it."""
    line: int = 0
    """Line of the program, from 1; 0 when it is not known."""
    node: int = 0
    """The Node that it computes; 0 when it is not known."""
