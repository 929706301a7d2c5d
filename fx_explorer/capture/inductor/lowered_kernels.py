"""This module describes what one Inductor graph became: its kernels with their calls, the nodes and
lines of each, and what was decided about them.

They are plain values without hooks. Nodes are named as in the post-grad graph that was lowered;
lines count from 1; 0 means "not known".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from fx_explorer.capture.aot.saved_tensors import StoredOutput
from fx_explorer.capture.inductor.autotuner_choices import TemplateChoice
from fx_explorer.capture.inductor.decisions import Decision
from fx_explorer.capture.inductor.fusion_decisions import UnfusedNodes
from fx_explorer.capture.inductor.loop_nests import NestOfLoops
from fx_explorer.capture.own_kernels import CopiedLines
from fx_explorer.model.library_call import LibraryCall
from fx_explorer.model.rows.kernels import KernelLanguage


@dataclass(frozen=True, slots=True)
class GeneratedCall:
    """One call of a kernel in the wrapper."""

    line: int
    """Line of the output code."""
    nodes: tuple[str, ...]
    """Every node computed by this call, in graph order."""
    line_nodes: tuple[tuple[int, str], ...] = ()
    """(line of the kernel's source, node), as seen while that line was written for this call."""
    choices: tuple[TemplateChoice, ...] = ()
    """All choices for a template or library call, the chosen one first (on a GPU the fastest)."""
    buffers: frozenset[str] = frozenset()
    """Names of the buffers it writes."""
    alone: LibraryCall | None = None
    """How to repeat a library call alone, if that was requested and is possible."""


@dataclass(frozen=True, slots=True)
class GeneratedKernel:
    """One generated function with all its calls, which repeated layers share, or one library call
    (``language`` ``extern``).
    """

    name: str
    """The name by which the output code calls it: ``cpp_fused_gelu_0``, ``extern_kernels.addmm``,
    ``torch.ops.aten._scaled_dot_product_flash_attention.default``.
    """
    language: KernelLanguage
    source: str
    """The code between the triple quotes of the output code, from the line after the opening ones;
    empty for ``extern``.
    """
    first_line: int
    """Line of the output code where ``source`` starts; for ``extern`` the line of the call."""
    calls: tuple[GeneratedCall, ...]
    estimated_bytes: int = -1
    """Bytes that one call reads and writes; -1 where they were not estimated."""
    estimated_flops: int = -1
    copied: tuple[CopiedLines, ...] = ()
    """Lines of a user's kernel that were copied from the user's files; empty for other kernels."""
    runs: tuple[str, ...] = ()
    """Graphs that it runs: a conditional's branches, a loop's condition and body, a region. Then it
    is no library call.
    """

    @property
    def choices(self) -> tuple[TemplateChoice, ...]:
        """Return the choices of the first call. They are the same for each call, except for the
        nodes.
        """
        return self.calls[0].choices


@dataclass(frozen=True, slots=True)
class LoweredKernels:
    """The kernels of one post-grad graph (GraphLowering, torch/_inductor/graph.py)."""

    module: torch.fx.GraphModule
    """The post-grad graph, to which the named nodes belong."""
    graph_id: int | None
    subgraph: str
    """Name of the function in the output code for a nested graph (cond, while_loop,
    invoke_subgraph); empty for the whole.
    """
    parent: torch.fx.GraphModule | None
    """The graph that holds the higher-order op, for a nested graph."""
    is_backward: bool
    is_inference: bool
    output_code: str
    """The module Inductor wrote; a nested graph has that of the whole. Empty when code generation
    failed.
    """
    kernels: tuple[GeneratedKernel, ...]
    """The kernels, in the order of their first calls."""
    without_kernel: Mapping[str, str] = field(default_factory=dict)
    """Call node that no kernel computes → why. Empty when code generation failed."""
    error: str = ""
    """First line of the error that stopped code generation; the kernels are those generated before
    it.
    """
    problems: tuple[str, ...] = ()
    """Facts that this recording could not determine, with the reasons."""
    unfused: tuple[UnfusedNodes, ...] = ()
    """Pairs of the scheduler's nodes that were not fused."""
    nests: tuple[NestOfLoops, ...] = ()
    """The nodes of the scheduler that became loops of C++ kernels, in the order they run."""
    decisions: tuple[Decision, ...] = ()
    """Decisions about kernels, in the order in which they were made."""
    outputs: tuple[StoredOutput, ...] = ()
    """The outputs of the graph, in order; empty when code generation failed."""
