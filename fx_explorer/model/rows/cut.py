"""What is left where torch.compile stops: resume functions, tensors that Python holds meanwhile and
for how long, functions left to Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """The rest of a function behind a graph break, made a function of its own that is compiled when
    Python calls it.
    """

    id: int
    compilation: int
    """The compilation that the break ended."""
    name: str
    """``torch_dynamo_resume_in_forward_at_12``."""
    line: int
    """Line of the function that was being compiled, at which the resume function goes on."""
    locals: tuple[str, ...] = ()
    """Names of the locals it still needs; those of unfinished expressions (``___stack0``) are not
    among them.
    """


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A tensor of a Dynamo graph that Python knows by a name: what a graph hands over at its break,
    what the next one takes.
    """

    id: int
    compilation: int
    source: str
    """As torch writes it: ``L['x']``, ``L['cache'][0]``; ``L['___stack0']`` is a value of an
    unfinished expression.
    """
    node: int
    is_input: bool
    """Whether the graph takes it; else it hands it over where a break ends it."""


AtTheEnd = Literal["", "held", "dropped"]
"""Whether the program holds something when its forward has ended; empty where that was not seen."""


@dataclass(frozen=True, slots=True)
class ReturnedStorage:
    """A storage that a graph returned to the program while that was captured, and what was seen of it
    since. What the graphs keep for themselves is not told here: their code says it.
    """

    id: int
    compilation: int
    positions: tuple[int, ...]
    """Which results of Dynamo's graph lie in it, from 0."""
    size_bytes: int
    taken_by: tuple[int, ...] = ()
    """The inputs that it is of later graphs of Dynamo's (Nodes)."""
    held_before: int = 0
    """The last of the later compilations whose graph was about to run, and did not take it, when the
    program still held it; 0 where it was dropped before any of them.
    """
    is_saved_between: bool = False
    """Whether an operator that ran uncompiled, before the next graph, keeps it for its backward."""
    at_end: AtTheEnd = ""
    """Whether the program holds it when the forward has ended: what it holds by a view, too."""


FallbackKind = Literal["skipped", "limit", "failed"]
"""``skipped``: Dynamo does not trace this function. ``limit``: it was compiled too often.
``failed``: compiling it raised, and torch was told to go on without (``suppress_errors``).
"""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A function that torch left to Python as a whole without writing a graph break record."""

    id: int
    compilation: int
    """0 when it was left before it became one."""
    kind: FallbackKind
    function: str
    file: str
    line: int
    """The line at which the function begins."""
    registry_id: str
    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    stack: int = 0
    """Where it was called, outermost first (a Stack)."""
