"""This module counts kernels: in each direction, how many were generated and what they fuse, how
many are library calls, and how many were built.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import (
    call_counts,
    fused_operations,
    kernel_count,
    kernel_line_counts,
    kernel_nodes,
    names_of_computed_nodes,
)


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel with the nodes that it computes and its calls."""

    kernel: model.Kernel
    nodes: tuple[str, ...]
    """Names of the post-grad nodes it computes, in graph order."""
    calls: int
    """How often the output code calls it. Repeated layers share a kernel."""
    line_count: int = 0
    """Number of lines of its code; 0 for a library call."""
    node_ids: tuple[int, ...] = ()
    """The nodes whose names are ``nodes``."""


@dataclass(frozen=True, slots=True)
class DirectionKernels:
    direction: model.Direction
    generated: int
    library_calls: int
    operations_fused: int
    """Distinct operations that the generated kernels compute. Views are not counted, because they
    compute nothing.
    """
    libraries: tuple[str, ...]
    """Names of the library calls, most frequent first."""
    control: tuple[str, ...] = ()
    """Operations that run other graphs, in words: ``conditional``, ``loop``,
    ``call of a region``.
    """
    compilations: frozenset[int] = frozenset()
    """Ids of the compilations whose kernels are counted."""


_CONTROL_IN_WORDS = {
    "torch.cond": "conditional",
    "torch.while_loop": "loop",
    "nested_compile_region": "call of a region",
}


def describe_kind(kernel: model.Kernel) -> str:
    """Return ``library call``, ``conditional``, ``loop``, or the language of generated code."""
    if kernel.runs:
        return _CONTROL_IN_WORDS.get(kernel.name, "call of a graph")
    if kernel.language == "extern":
        return "library call"
    return kernel.language


def describe_run(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the names of the kernels that each graph of a conditional, a loop or a region runs."""
    graphs = reader.rows(model.Graph, compilation=kernel.compilation)
    labels = {graph.name: graph.label for graph in graphs if graph.label and graph.name}
    inside = reader.rows(model.Kernel, compilation=kernel.compilation, direction=kernel.direction)
    parts = []
    for name in kernel.runs:
        names = [other.name for other in inside if other.subgraph == name]
        runs = ", ".join(names) if names else "no kernel"
        parts.append(f"{labels.get(name, name)} ({runs})")
    joint = " or " if kernel.name == "torch.cond" else " and "
    return f"A {describe_kind(kernel)}: it runs {joint.join(parts)}."


def kernel_uses(reader: SessionReader, compilation: int | None = None) -> list[KernelUse]:
    """Return the kernels of one compilation, or of all variants in use: forward before backward, in
    the order of their first call.
    """
    wanted = {} if compilation is None else {"compilation": compilation}
    used = in_use(reader) if compilation is None else None
    kernels = list(reader.rows(model.Kernel, **wanted))
    if used is not None:
        kernels = [kernel for kernel in kernels if kernel.id in used.kernels]
    kernels.sort(key=lambda k: (k.compilation, model.DIRECTIONS.index(k.direction), k.position))
    computed = kernel_nodes(reader, compilation)
    names = names_of_computed_nodes(reader, compilation)
    calls = call_counts(reader)
    line_counts = kernel_line_counts(reader)
    uses = []
    for kernel in kernels:
        nodes = tuple(node for node in computed.get(kernel.id, ()) if node in names)
        node_names = tuple(names[node] for node in nodes)
        count, line_count = calls.get(kernel.id, 1), line_counts.get(kernel.artifact, 0)
        uses.append(KernelUse(kernel, node_names, count, line_count, nodes))
    return uses


def kernels_by_direction(reader: SessionReader) -> list[DirectionKernels]:
    """Return the kernels of all variants in use, added up by direction."""
    used = in_use(reader)
    ids = used.kernels if used else None
    kernels = [kernel for kernel in reader.rows(model.Kernel) if ids is None or kernel.id in ids]
    rows = []
    for direction in model.DIRECTIONS:
        members = [kernel for kernel in kernels if kernel.direction == direction]
        library = Counter(
            kernel.name for kernel in members if kernel.language == "extern" and not kernel.runs
        )
        calls = sum(library.values())
        control = tuple(describe_kind(kernel) for kernel in members if kernel.runs)
        # Nested graphs share code that is generated alike: it is in the output code once.
        generated = {
            (kernel.compilation, kernel.name) for kernel in members if kernel.language != "extern"
        }
        if members:
            names = tuple(sorted(library, key=lambda name: (-library[name], name)))
            nodes = fused_operations(reader, direction, ids)
            compilations = frozenset(kernel.compilation for kernel in members)
            row = DirectionKernels(
                direction, len(generated), calls, nodes, names, control, compilations
            )
            rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class BuiltKernels:
    """Numbers of kernels that a program has, and that were built."""

    built: int
    kernels: int
    """Generated functions and library calls of the variants in use, as in the totals."""

    @property
    def description(self) -> str:
        """Return words that follow a number of kernels: ``built``, ``not built``, or ``2 built``;
        empty for no kernels.
        """
        if not self.kernels:
            return ""
        if not self.built:
            return "not built"
        if self.built == self.kernels:
            return "built"
        return f"{self.built:,} built"


def built_kernels(reader: SessionReader) -> BuiltKernels:
    """Return how many kernels the session has, and how many of them were compiled to
    machine code.
    """
    used = in_use(reader)
    kernels = used.kernels if used else None
    count = kernel_count(reader, kernels)
    if reader.meta("build"):
        return BuiltKernels(count, count)
    saved = set(saved_compilations(reader))
    if not saved:
        return BuiltKernels(0, count)
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    built = {
        kernel.id
        for kernel in reader.rows(model.Kernel)
        if names.get(kernel.compilation) in saved and (kernels is None or kernel.id in kernels)
    }
    return BuiltKernels(kernel_count(reader, built), count)


def saved_compilations(reader: SessionReader) -> list[str]:
    """Return the names of the compilations whose code was built to be saved."""
    return sorted(reader.meta("built_to_save") or ())
