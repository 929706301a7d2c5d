"""Processes that the program forked or started, and what torch.compile did in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Beginning = Literal["forked", "started"]
"""``forked``: by ``os.fork`` or multiprocessing; ``started``: as a program of its own (spawn,
subprocess, exec).
"""

FindingKind = Literal["break", "recompile", "guards", "left", "error"]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """One process that used torch.compile, or of which that cannot be known."""

    id: int
    pid: int
    """0 when the process could not be seen."""
    beginning: Beginning
    command: str
    """The command line of the process."""
    unseen: str = ""
    """Why it is not known what the process compiled; empty when it is."""
    compilations: int = 0
    graphs: int = 0
    graph_breaks: int = 0
    """Each time one was hit."""
    recompiles: int = 0


@dataclass(frozen=True, slots=True)
class ChildFinding:
    """Something in a child process that a condition of ``check`` may not allow."""

    id: int
    process: int
    kind: FindingKind
    file: str
    line: int
    cause: str
    """torch's id of a graph break (``GB0059``); empty when there is none."""
    text: str
    count: int = 1
    """How often it happened; of ``guards`` how many the compilation has."""
