"""This module makes the tree of the user's modules, with repeated layers below a common row, and
figures of the results of torch.compile for each module, which add up.

Everything that is counted belongs to one place, so that sums over a tree are those of the other
views:

- a graph break belongs to the module that was being called; one that several modules hit, to the
  one around these;
- a call of a kernel belongs to the innermost module that holds all it computes;
- a saved parameter or buffer belongs to the module that has it, any other saved value to the module
  that computes it;
- the time of a compilation is not measured module by module: it is shared out by operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.module_paths import (
    NO_MODULE,
    UNKNOWN,
    CompiledAlone,
    ModulePath,
    Root,
    around,
    break_paths,
    compiled_alone,
    describe_module_path,
    roots,
)
from fx_explorer.analysis.words import counted, listed, size
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
    """Number of calls of kernels, generated ones and those of libraries."""
    time_s: float = 0.0
    """Seconds of these calls, as the view of kernels has them; 0 where they are not known."""
    saved_bytes: int = 0
    """Bytes that it saves for the backward; a storage counts once."""
    compile_s: float = 0.0
    """Its share of the seconds that the compilations took, in proportion to its operations."""

    def __add__(self, other: ModuleFigures) -> ModuleFigures:
        return ModuleFigures(
            *(
                getattr(self, field.name) + getattr(other, field.name)
                for field in fields(ModuleFigures)
            )
        )


NOTHING = ModuleFigures()


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module, or several alike in their place."""

    path: ModulePath
    """Path of the module; of the first, if the row stands for several. ``NO_MODULE`` for operations
    outside of modules.
    """
    depth: int
    name: str
    """Its name in the enclosing module: ``attn``; ``0 … 11`` for several."""
    type: str
    """Class of the module; empty where torch does not record it."""
    figures: ModuleFigures
    """Figures of the module including its submodules."""
    own: ModuleFigures
    """Figures of the module without its submodules."""
    count: int = 1
    """Number of modules that the row stands for; if several, they are the rows below it."""
    difference: str = ""
    """How the several modules differ; empty where they are alike."""
    aside: str = ""
    """What stands beside the name, where a graph break made the module a root; empty for most."""
    note: str = ""
    """A sentence on the same; empty for most."""

    @property
    def is_fold(self) -> bool:
        """Return whether the row stands for several modules."""
        return self.count > 1

    @property
    def title(self) -> str:
        """Return the name; for several modules with their number: ``0 … 11 ×12, alike``."""
        if not self.is_fold:
            return f"{self.name} ({self.aside})" if self.aside else self.name
        alike = "" if self.difference else ", alike"
        return f"{self.name} ×{self.count}{alike}"


@dataclass(frozen=True, slots=True)
class ModuleTree:
    rows: Sequence[ModuleRow]
    """Each module before its children; the row without a module comes last."""
    whole: ModuleFigures
    """The sum of everything, as the other views have it."""
    module_count: int
    time_kinds: frozenset[TimeKind]
    """How the times of kernels were obtained."""


@dataclass(slots=True)
class _Module:
    """A module during the construction of the tree."""

    path: ModulePath
    type: str = ""
    own: ModuleFigures = NOTHING
    figures: ModuleFigures = NOTHING
    children: dict[str, _Module] = field(default_factory=dict)
    shape: int = 0
    """A number that is equal for modules with the same contents, by name and class."""


def module_tree(reader: SessionReader) -> ModuleTree:
    """Return the modules that have any figures. Without modules there is no row."""
    known = own_figures(reader)
    top = _nested(known.figures, known.types)
    if not top.children:
        return ModuleTree((), top.own, 0, known.time_kinds)
    rows = [row for child in top.children.values() for row in _rows(child, 0)]
    if top.own != NOTHING:
        rows.append(ModuleRow(NO_MODULE, 0, IN_NO_MODULE, "", top.own, top.own))
    rows = with_roots_of_breaks(rows, compiled_alone(reader))
    count = sum(not row.is_fold and bool(row.path) for row in rows)
    return ModuleTree(rows, top.figures, count, known.time_kinds)


def with_roots_of_breaks(
    rows: Sequence[ModuleRow], alone: Iterable[CompiledAlone]
) -> list[ModuleRow]:
    """Return the rows; those of a module that a graph break made a root name each other."""
    asides: dict[ModulePath, tuple[str, str]] = {}
    classes: dict[ModulePath, str] = {}
    for each in alone:
        after = f"compiled separately after the break at {each.where}"
        root, module = describe_module_path(each.root), describe_module_path(each.module)
        classes[each.module] = root
        asides[each.module] = (f"see {root}", f"It was {after}: its figures are in {root}.")
        asides[each.root] = (
            f"{each.module[0]}.{module}",
            f"This is {module} of {each.module[0]}, {after}.",
        )
    noted = []
    for row in rows:
        aside, note = asides.get(row.path, ("", ""))
        if not row.is_fold and aside:
            row = replace(row, aside=aside, note=note, type=row.type or classes.get(row.path, ""))
        noted.append(row)
    return noted


IN_NO_MODULE = "in no module"
"""Name of the row for everything outside of modules."""

NO_MODULES = (
    "The compiled code called no module: it is a function of tensors. Kernels (6) and source (2) "
    "show what its lines were compiled to."
)


def _nested(
    figures: Mapping[ModulePath, ModuleFigures], types: Mapping[ModulePath, str]
) -> _Module:
    """Return the root of the tree of modules. Its own figures are those without a module."""
    top = _Module(NO_MODULE)
    every = [top]
    for path, own in figures.items():
        module = top
        for depth, name in enumerate(path, start=1):
            if name not in module.children:
                module.children[name] = _Module(path[:depth], types.get(path[:depth], ""))
                every.append(module.children[name])
            module = module.children[name]
        module.own += own
    shapes: dict[object, int] = {}
    for module in sorted(
        every, key=lambda module: -len(module.path)
    ):  # what is inside comes before what is around it
        module.figures = sum((child.figures for child in module.children.values()), module.own)
        inside = tuple((name, child.shape) for name, child in module.children.items())
        module.shape = shapes.setdefault((module.type, inside), len(shapes))
    return top


def _rows(module: _Module, depth: int) -> Iterator[ModuleRow]:
    """Yield the rows of a module and of all its descendants. It does not recurse, because a model
    may be deeper than Python's stack.
    """
    pending: list[tuple[_Module | list[_Module], int]] = [(module, depth)]
    while pending:
        one, at = pending.pop()
        if isinstance(one, list):
            yield _fold(one, at)
            pending += [(member, at + 1) for member in reversed(one)]
            continue
        yield ModuleRow(one.path, at, one.path[-1], one.type, one.figures, one.own)
        pending += [(part, at + 1) for part in reversed(list(_parts(one)))]


def _parts(module: _Module) -> Iterator[_Module | list[_Module]]:
    """Yield the children of a module: consecutive numbered layers of one class as a list."""
    for key, run in groupby(
        module.children.values(), key=lambda module: (module.path[-1].isdecimal(), module.type)
    ):
        members = list(run)
        if key[0] and len(members) > 1:
            yield members
        else:
            yield from members


def _fold(members: list[_Module], depth: int) -> ModuleRow:
    first, last = members[0], members[-1]
    between = " … " if len(members) > 2 else ", "
    name = f"{first.path[-1]}{between}{last.path[-1]}"
    figures = sum((module.figures for module in members), NOTHING)
    return ModuleRow(
        first.path, depth, name, first.type, figures, NOTHING, len(members), _difference(members)
    )


def _difference(members: list[_Module]) -> str:
    """Describe how modules differ: ``kernel calls (6 to 7)``. Times always differ, and are left
    out.
    """
    parts = [_range(members, "breaks", "breaks"), _range(members, "operations", "operations")]
    parts += [_range(members, "calls", "kernel calls"), _range(members, "saved_bytes", "saved")]
    if len({module.shape for module in members}) > 1:
        parts.append("the modules in them")
    return listed([part for part in parts if part], limit=5)


def _range(members: list[_Module], figure: str, name: str) -> str:
    values = [getattr(module.figures, figure) for module in members]
    least, most = min(values), max(values)
    if least == most:
        return ""
    write = size if figure == "saved_bytes" else "{:,}".format
    return f"{name} ({write(least)} to {write(most)})"


def explained(row: ModuleRow) -> list[str]:
    """Return an explanation of a row, in sentences."""
    if row.is_fold:
        if row.difference:
            rest = f"differ in {row.difference}"
        else:
            rest = "are alike: the same submodules, the same figures"
        return [f"{counted(row.count, 'layer')} of {describe_module_path(row.path[:-1])} {rest}."]
    if not row.path:
        return [
            (
                "Code that was compiled outside of every module: the function's own code, and "
                "operations that torch added. The saved values here are inputs of the compiled "
                "functions that no module computed: inputs of the program, and tensors that "
                "crossed a graph break."
            )
        ]
    what = describe_module_path(row.path)
    if row.type:
        what += f", a {row.type}"
    notes = [row.note] if row.note else []
    if row.own == row.figures:
        return notes or [f"{what}: it has no submodules."]
    texts = _describe_own(row.own)
    if not texts:
        return [f"{what}: all operations here belong to its submodules.", *notes]
    own = listed(texts, limit=4)
    return [f"{what}: {own} belong to no single submodule, the rest does.", *notes]


def _describe_own(own: ModuleFigures) -> list[str]:
    """Return the figures that a module has without its children: ``2 operations``, ``1.2 MB
    saved``.
    """
    counts = (
        (own.operations, "operation"),
        (own.calls, "kernel call"),
        (own.breaks, "graph break"),
    )
    texts = [counted(number, noun) for number, noun in counts if number]
    if own.saved_bytes:
        texts.append(f"{size(own.saved_bytes)} saved")
    return texts


def describe_times(tree: ModuleTree, *, has_gpu: bool) -> str:
    """Say how the times of kernels are known."""
    kinds = tree.time_kinds - {""}
    if not kinds:
        return "Kernel times are not known: --gpu h100 estimates them, and x c measures a call."
    if kinds == {"estimated"} and has_gpu:
        return "Nothing ran: kernel times are lower bounds from the data sheet."
    if "in a profile" in kinds:
        return (
            "Kernel times are from the profile: all steps that it recorded, and only kernels that "
            "ran in them."
        )
    if "estimated" in kinds:
        rest = ", others are lower bounds from the data sheet"
    else:
        rest = ""
    where = " in a call" if "in a call" in kinds else ""
    return f"Kernel times were measured{where}{rest}."


@dataclass(frozen=True, slots=True)
class OwnFigures:
    figures: Mapping[ModulePath, ModuleFigures]
    """Path of a module → its figures, in the order in which Dynamo reached the modules."""
    types: Mapping[ModulePath, str]
    """The class of a module, where torch recorded it."""
    time_kinds: frozenset[TimeKind]
    """How the times of kernels were obtained."""


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
        every_type = {
            **guarded_types(reader, known),
            **{p: name for p, name in types.items() if name},
        }
        return OwnFigures(
            sums.figures, _root_types(every_type, known), frozenset(time_kinds(costs))
        )


def _path_of(known: Mapping[int, Root], nodes: ModuleNodes) -> ModulePath:
    root = known.get(nodes.compilation, UNKNOWN)
    return root.path(nodes.module, nodes.module_type, is_of_user=bool(nodes.is_of_user))


_SELF = "L['self']"
_MODULE_ON_WAY = re.compile(r"\._modules\['([^'\]]+)'\]")
_CLASS = re.compile(r"type=<class '(?:[^']*\.)?([^'.]+)'>")


def guarded_types(reader: SessionReader, known: Mapping[int, Root]) -> dict[ModulePath, str]:
    """Return the class of each module that a guard checks: also of those that have no operation of
    their own, such as a ModuleList, or one that was compiled alone after a graph break.
    """
    types: dict[ModulePath, str] = {}
    for guard in reader.rows(model.Guard, kind="TYPE_MATCH"):
        if not guard.source.startswith(_SELF):
            continue
        root, written = known.get(guard.compilation, UNKNOWN), _CLASS.search(guard.code)
        way = guard.source.removeprefix(_SELF)
        names = _MODULE_ON_WAY.findall(way)
        is_module = bool(names) and not _MODULE_ON_WAY.sub("", way)
        if root.is_module and written and is_module:
            types.setdefault((root.name, *names), written[1])
    return types


def _root_types(types: dict[ModulePath, str], known: Mapping[int, Root]) -> dict[ModulePath, str]:
    """Return the types of root modules, without those that are equal to the name that is shown
    anyway.
    """
    names = {(root.name,) for root in known.values()}
    return {path: name for path, name in types.items() if name and path not in names}


# compile time


def _add_compile_time(
    reader: SessionReader, known: Mapping[int, Root], captured: list[ModuleNodes], sums: _Sums
) -> None:
    """Divide the seconds of each compilation among modules by their numbers of operations. Those of
    a compilation without operations are its root's.
    """
    of_compilation: dict[int, list[ModuleNodes]] = {}
    for nodes in captured:
        of_compilation.setdefault(nodes.compilation, []).append(nodes)
    for compilation, took_s in seconds_by_compilation(reader).items():
        parts = of_compilation.get(compilation, [])
        whole = sum(part.node_count for part in parts)
        for part in parts:
            part_s = took_s * part.node_count / whole
            sums.add(_path_of(known, part), ModuleFigures(compile_s=part_s))
        if not parts:
            root = known.get(compilation, UNKNOWN)
            path = (root.name,) if root.is_module else NO_MODULE
            sums.add(path, ModuleFigures(compile_s=took_s))


# kernels


def _calls(
    reader: SessionReader, known: Mapping[int, Root], costs: list[KernelCost], times: KernelTimes
) -> Iterator[tuple[ModulePath, ModuleFigures]]:
    """Yield the module of every call of a kernel, with its figures. Calls of one kernel take the
    same time, unless a profile has the time of each.
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
            part = shares.get(call, 0.0) if shares else 1 / count
            yield path, ModuleFigures(calls=1, time_s=cost.time_s * part)
