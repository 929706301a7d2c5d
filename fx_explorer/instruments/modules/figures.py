"""What torch.compile made of one module, in figures that add up, and those of each module itself,
without the modules in it.

Everything that is counted belongs to one place, so that sums over a tree are those of the other
views:

- a graph break belongs to the module that was being called; one that several modules hit, to the one
  around these;
- a call of a kernel belongs to the innermost module that holds all it computes;
- a saved parameter or buffer belongs to the module that has it, any other saved value to the module
  that computes it;
- the time of a compilation is not measured module by module: it is shared out by operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.module_paths import (
    NO_MODULE,
    UNKNOWN,
    ModulePath,
    Root,
    around,
    break_paths,
    roots,
)
from fx_explorer.instruments.kernels.costs import (
    KernelCost,
    KernelTimes,
    TimeKind,
    kernel_costs,
    time_kinds,
)
from fx_explorer.instruments.memory.saved_values import (
    kept_bytes,
    saved_paths,
    saved_values,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import (
    ModuleNodes,
    captured_by_module,
    computed_by_calls,
    ids_of_calls,
    seconds_by_compilation,
)


@dataclass(frozen=True, slots=True)
class ModuleFigures:
    """Figures of a module, with or without those of the modules in it."""

    breaks: int = 0
    """Distinct graph breaks, by line and cause."""
    operations: int = 0
    """Operations that Dynamo captured."""
    calls: int = 0
    """Calls of kernels, generated ones and those of libraries."""
    time_s: float = 0.0
    """Seconds of these calls, as the view of kernels has them; 0 where they are not known."""
    saved_bytes: int = 0
    """What it keeps for the backward; a storage counts once."""
    compile_s: float = 0.0
    """Its share of the seconds that the compilations took, by its operations."""

    def __add__(self, other: ModuleFigures) -> ModuleFigures:
        return ModuleFigures(
            *(
                getattr(self, field.name) + getattr(other, field.name)
                for field in fields(ModuleFigures)
            )
        )


NOTHING = ModuleFigures()


"""For rows of a compilation that a damaged session does not have."""


@dataclass(frozen=True, slots=True)
class OwnFigures:
    figures: Mapping[ModulePath, ModuleFigures]
    """Of each module that has some, in the order in which Dynamo came to them."""
    types: Mapping[ModulePath, str]
    """The class of a module, where torch tells."""
    time_kinds: frozenset[TimeKind]
    """How the times of kernels are known."""


class _Sums:
    """Adds figures up by module."""

    def __init__(self) -> None:
        self.figures: dict[ModulePath, ModuleFigures] = {}

    def add(self, path: ModulePath, figures: ModuleFigures) -> None:
        self.figures[path] = self.figures.get(path, NOTHING) + figures


def own_figures(reader: SessionReader) -> OwnFigures:
    """Return the figures of every module of the variants in use."""
    with reader.snapshot():
        known, sums = roots(reader), _Sums()
        captured = captured_by_module(reader, graphs_in_use(reader))
        types: dict[ModulePath, str] = {}
        for nodes in captured:
            path = _path_of(known, nodes)
            types.setdefault(path, nodes.module_type)
            sums.add(path, ModuleFigures(operations=nodes.node_count))
        _add_compile_time(reader, known, captured, sums)
        for path in break_paths(reader, known).values():
            sums.add(path, ModuleFigures(breaks=1))
        costs = kernel_costs(reader)
        for path, figures in _calls(reader, known, costs, KernelTimes(reader)):
            sums.add(path, figures)
        values = saved_values(reader)
        for value, path in zip(values, saved_paths(reader, values, known), strict=True):
            is_counted = not value.shares_with and value.saved.kind != "number"
            sums.add(path, ModuleFigures(saved_bytes=(kept_bytes(value.saved) or 0) * is_counted))
        return OwnFigures(sums.figures, _root_types(types, known), frozenset(time_kinds(costs)))


def _path_of(known: Mapping[int, Root], nodes: ModuleNodes) -> ModulePath:
    root = known.get(nodes.compilation, UNKNOWN)
    return root.path(nodes.module, nodes.module_type, is_of_user=bool(nodes.is_of_user))


def _root_types(types: dict[ModulePath, str], known: Mapping[int, Root]) -> dict[ModulePath, str]:
    """Return the types without those that say what the name says already."""
    names = {(root.name,) for root in known.values()}
    return {path: name for path, name in types.items() if name and path not in names}


# compile time


def _add_compile_time(
    reader: SessionReader, known: Mapping[int, Root], captured: list[ModuleNodes], sums: _Sums
) -> None:
    """Share the seconds of each compilation out. One without an operation is its root's."""
    of_compilation: dict[int, list[ModuleNodes]] = {}
    for nodes in captured:
        of_compilation.setdefault(nodes.compilation, []).append(nodes)
    for compilation, took_s in seconds_by_compilation(reader).items():
        parts = of_compilation.get(compilation, [])
        whole = sum(part.node_count for part in parts)
        for part in parts:
            sums.add(
                _path_of(known, part), ModuleFigures(compile_s=took_s * part.node_count / whole)
            )
        if not parts:
            root = known.get(compilation, UNKNOWN)
            sums.add((root.name,) if root.is_module else NO_MODULE, ModuleFigures(compile_s=took_s))


# graph breaks


# kernels


def _calls(
    reader: SessionReader, known: Mapping[int, Root], costs: list[KernelCost], times: KernelTimes
) -> Iterator[tuple[ModulePath, ModuleFigures]]:
    """Yield the module of every call of a kernel, and its figures: calls of one kernel take the
    same time, except where a profile says what each takes.
    """
    computed: dict[tuple[int, int], set[ModulePath]] = {}
    compilations = {cost.use.kernel.id: cost.use.kernel.compilation for cost in costs}
    for node in computed_by_calls(reader):
        if node.kernel in compilations:
            root = known.get(compilations[node.kernel], UNKNOWN)
            path = root.path(node.module, node.module_type, is_of_user=bool(node.is_of_user))
            if path or node.is_of_user:  # what torch added is nobody's
                computed.setdefault((node.kernel, node.call), set()).add(path)
    calls = ids_of_calls(reader)
    for cost in costs:
        kernel, count = cost.use.kernel.id, cost.use.calls
        of_every = computed.get((kernel, 0), set())
        ids = calls.get(kernel, [])[:count] or [0] * count
        shares = times.shares_of_calls(kernel)
        for call in ids:
            path = around(of_every | computed.get((kernel, call), set()))
            yield (
                path,
                ModuleFigures(
                    calls=1, time_s=cost.time_s * (shares.get(call, 0.0) if shares else 1 / count)
                ),
            )


# saved values
