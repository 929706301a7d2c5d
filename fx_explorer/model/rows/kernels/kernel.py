"""Generated functions and the library calls beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.stage import Direction

KernelLanguage = Literal["cpp", "triton", "extern", "python"]
"""``extern``: a library or ATen call made by the wrapper; it has no generated code of its own."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated function, or one library call."""

    id: int
    compilation: int
    direction: Direction
    position: int
    """Order of first call within its output code."""
    name: str
    language: KernelLanguage
    artifact: int = 0
    """The Artifact (kind ``kernel``) with its code; 0 for ``extern``."""
    output_code: int = 0
    """The Artifact (kind ``output_code``) it stands in."""
    first_line: int = 0
    """Line (from 1) of the output code where its code starts; for ``extern`` the line of the call.
    0 when unknown.
    """
    subgraph: str = ""
    """Region or subgraph it was compiled for, empty for the whole graph."""
    estimated_bytes: int = -1
    """What one call reads and writes, as Inductor estimates it; -1 when it does not."""
    estimated_flops: int = -1
    """Operations of one call's matrix multiplications and convolutions, which are all that Inductor
    counts; -1 when it does not.
    """
    runs: tuple[str, ...] = ()
    """For an ``extern`` that is no library call: the graphs (``subgraph`` of other kernels) that it
    runs. A conditional has two branches, a loop its condition and its body, a nested compile region
    is one.
    """


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of a kernel in the wrapper: repeated layers share a kernel and differ in the
    call.
    """

    id: int
    kernel: int
    position: int
    line: int
    """Line (from 1) of the output code; 0 when unknown."""


@dataclass(frozen=True, slots=True)
class LibraryWorkspace:
    """What a library call was seen to take of a GPU's memory while it worked."""

    id: int
    call: int
    """The KernelCall."""
    size_bytes: int = -1
    """What it takes beyond what it is given and returns; -1 when that could not be seen."""
    problem: str = ""
    """Why not."""


@dataclass(frozen=True, slots=True)
class WithoutKernel:
    """A post-grad node that no kernel computes, and why."""

    node: int
    reason: str
