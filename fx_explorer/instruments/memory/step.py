"""This module says what a step of the program holds in memory: each storage with whose it is and
from when until when it is held (``StepMemory``). ``step_assembly.py`` puts one together.

A step is what a bench calls a step: gradients are None before it, the graphs run forward in the
order in which they were called and backward in the opposite order, and what the program returns is
held until the end. The optimizer runs outside of it; ``verdict.py`` adds what it keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.instruments.memory.graph_memory import CallOfKernel

MemoryKind = Literal[
    "parameter",
    "buffer",
    "input",
    "optimizer",
    "activation",
    "output",
    "tangent",
    "gradient",
    "temporary",
    "workspace",
]
"""Whose memory it is. ``activation``: what the forward computed and keeps for the backward.
``tangent``: the gradient of an output, with which a backward begins. ``temporary``: needed only
inside one graph. ``workspace``: what a library call takes while it works. ``optimizer``: what an
optimizer keeps between steps, where one is asked for.
"""


KINDS: tuple[MemoryKind, ...] = (
    "parameter",
    "buffer",
    "input",
    "optimizer",
    "activation",
    "output",
    "tangent",
    "gradient",
    "temporary",
    "workspace",
)


@dataclass(frozen=True, slots=True)
class Held:
    """A storage that is held for a part of the step."""

    kind: MemoryKind
    name: str
    """The user's name of a parameter, buffer, input or gradient; torch's of a value in a graph."""
    size_bytes: int
    """What it takes of the device's memory; UNKNOWN when the size is not known."""
    device: str
    begin: int
    """The moment from which it is held."""
    end: int
    """The first moment at which it is held no longer."""
    node: model.Node | None = None
    """The node that computes it, on a line of the user's."""
    kernel: str = ""
    """The kernel that writes it first; empty for what is there from the beginning."""


@dataclass(frozen=True, slots=True)
class StepMoment:
    """A kernel call of the step."""

    at: int
    call: CallOfKernel
    compilation: str
    direction: model.Direction


@dataclass(frozen=True)
class StepMemory:
    """What a step holds, and when. Moments are numbered from 0; ``end`` is the last one."""

    held: tuple[Held, ...]
    moments: tuple[StepMoment, ...]
    backward_from: int
    """The moment at which the backward begins; ``end`` where there is none."""
    end: int
    saved_bytes: int = 0
    """What the graphs keep for their backwards and did not find: each storage once."""
    assumed: int = 0
    """Results of library calls whose element size was taken from the call's first argument."""
    calls: int = 0
    """Calls of graphs."""
    crossing_bytes: int = 0
    """What of ``saved_bytes`` an earlier graph has returned, and only a later one keeps."""
    between_bytes: int = 0
    """What operators outside of the graphs keep for their backward, and no graph does."""
