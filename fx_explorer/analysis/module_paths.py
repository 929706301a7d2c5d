"""This module finds where something is among the user's modules: below which compiled function, in
which module. A module is a region, too: the screen can be narrowed to it, as to an annotated region
or a segment.

torch names a module by its way from the function that was compiled (``layers.0.attn``). Two
functions have two trees: when a block is compiled by itself, its ``attn`` is not the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.naming import RESUME, is_method
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.nodes import (
    InModule,
    first_in_module,
    nodes_in_module,
    rows_in_module,
    types_of_called_modules,
)

ModulePath = tuple[str, ...]
"""The root's name, then the names of the modules on the way: ``("Transformer", "layers", "0")``.
Empty outside of modules.
"""

NO_MODULE: ModulePath = ()


class Root(NamedTuple):
    """The root of a compilation's module paths: the class or function that was compiled."""

    name: str
    """The class whose method was compiled, or that a function calls; else the function's name."""
    is_module: bool
    """Whether code outside of all called modules belongs to the root itself; in a function it
    belongs to no module.
    """

    def path(self, module: str, module_type: str, *, is_of_user: bool) -> ModulePath:
        """Return the module path of a node. A node that torch made has neither a module nor a
        user's line, and belongs to no path.
        """
        if module:
            return self.name, *module.split(".")
        if module_type or (self.is_module and is_of_user):
            return (self.name,)
        return NO_MODULE


def roots(reader: SessionReader) -> dict[int, Root]:
    """Return the root of every compilation, by its id."""
    rows = reader.rows(model.Compilation)
    makers = {(row.name, row.line): row.compilation for row in reader.rows(model.ResumeFunction)}
    makers |= {(name, 0): maker for (name, _), maker in makers.items()}
    by_id = {row.id: row for row in rows}
    called = types_of_called_modules(reader)
    return {row.id: _root(_first(row, by_id, makers), called) for row in rows}


def _first(
    row: model.Compilation, by_id: dict[int, model.Compilation], makers: dict[tuple[str, int], int]
) -> model.Compilation:
    """Return the compilation of the function that ``row`` resumes. Resume functions are made before
    they are compiled, so that the search ends.
    """
    while RESUME in row.function:
        maker = makers.get((row.function.rpartition(".")[2], 0), 0)
        if not 0 < maker < row.id or maker not in by_id:
            return row
        row = by_id[maker]
    return row


def _root(row: model.Compilation, called: dict[int, str]) -> Root:
    function = row.function.partition(" (")[0]
    owner, _, name = function.rpartition(".")
    if is_method(row.function):
        return Root(owner.rpartition(".")[2], is_module=True)
    return Root(called.get(row.id, name), is_module=False)


def around(paths: Iterable[ModulePath]) -> ModulePath:
    """Return the innermost module that contains all of these; ``NO_MODULE`` without one."""
    first, *others = [*paths] or [NO_MODULE]
    for other in others:
        first = _common(first, other)
    return first


def _common(path: ModulePath, other: ModulePath) -> ModulePath:
    """Return the beginning that two paths share."""
    length = 0
    for name, other_name in zip(path, other, strict=False):
        if name != other_name:
            break
        length += 1
    return path[:length]


def is_in(path: ModulePath, module: ModulePath) -> bool:
    """Return whether a place is in a module, or in one below it."""
    return path[: len(module)] == module


def describe_module_path(path: ModulePath) -> str:
    """Return the name as the user writes it: ``layers.0.attn``; that of the root alone for the
    root.
    """
    return ".".join(path[1:]) or "".join(path)


UNKNOWN = Root("", is_module=False)
"""The root of nodes in an unknown compilation."""


def break_paths(
    reader: SessionReader, known: Mapping[int, Root] | None = None
) -> dict[tuple[str, int, str], ModulePath]:
    """Return the module of each distinct break, by the cause of the break. Among hits below several
    roots the first counts, because the later roots call the same code.
    """
    known = roots(reader) if known is None else known
    hits: dict[tuple[str, int, str], list[ModulePath]] = {}
    for row in reader.rows(model.GraphBreak):
        root = known.get(row.compilation, UNKNOWN)
        hits.setdefault(row.cause, []).append(root.path(row.module, "", is_of_user=True))
    # Of hits below several roots, those below the first.
    paths = {}
    for cause, of_cause in hits.items():
        paths[cause] = around(path for path in of_cause if path[:1] == of_cause[0][:1])
    return paths


class CompiledAlone(NamedTuple):
    """A module that a graph break made a root of its own."""

    module: ModulePath
    """The module as the function before the break calls it."""
    root: ModulePath
    """The root that its own compilation made."""
    where: str
    """File and line of the break."""


def compiled_alone(
    reader: SessionReader, known: Mapping[int, Root] | None = None
) -> list[CompiledAlone]:
    """Return the modules that were compiled alone after a graph break: the same break was hit below
    the function that calls them, and in a compilation of their own.
    """
    known = roots(reader) if known is None else known
    first: dict[tuple[str, int, str], ModulePath] = {}
    alone: dict[ModulePath, CompiledAlone] = {}
    for row in reader.rows(model.GraphBreak):
        root = known.get(row.compilation, UNKNOWN)
        path = root.path(row.module, "", is_of_user=True)
        module = first.setdefault(row.cause, path)
        if len(module) > 1 and len(path) == 1 and path != module[:1] and path not in alone:
            alone[path] = CompiledAlone(module, path, in_file(row.file, row.line))
    return list(alone.values())


_KEY = "module of "
"""Beginning of the key of such a region; the name of the root follows."""

_WHOLE = "all of "
"""Prefix of the value of a root's region. It contains blanks, which no module's name has."""

OUTSIDE = "no module"
"""Value of the region for nodes that belong to no module."""

Region = tuple[str, str]


def region_of(path: ModulePath) -> Region:
    """Return the region of a module. Its value is the user's name of the module."""
    if not path:
        return _KEY, OUTSIDE
    if len(path) == 1:
        return _KEY + path[0], _WHOLE + path[0]
    return _KEY + path[0], describe_module_path(path)


def is_module(region: Region) -> bool:
    """Return whether a region is a module."""
    return region[0].startswith(_KEY)


def path_of(region: Region) -> ModulePath:
    """Return the path of the module that a region stands for."""
    key, value = region
    root = key.removeprefix(_KEY)
    if not root:
        return NO_MODULE
    if value == _WHOLE + root:
        return (root,)
    return (root, *value.split("."))


def belongs(region: Region) -> Callable[[ModulePath], bool]:
    """Return a function that tests whether a place is in the module, or, for ``no module``, in
    none.
    """
    path = path_of(region)
    if not path:
        return lambda place: not place
    return lambda place: is_in(place, path)


def positions(reader: SessionReader, graph: model.Graph, region: Region) -> list[int]:
    """Return the rows of a graph whose nodes are in the module, ascending."""
    return rows_in_module(reader, graph, _meant(reader, region))


def nodes_in(reader: SessionReader, region: Region) -> list[int]:
    """Return the ids of all nodes in the module, ascending."""
    return nodes_in_module(reader, _meant(reader, region))


def first_node(reader: SessionReader, region: Region) -> list[int]:
    """Return the id of the module's first operation; empty for none."""
    return first_in_module(reader, _meant(reader, region))


def _meant(reader: SessionReader, region: Region) -> InModule:
    path, known = path_of(region), roots(reader)
    below = [compilation for compilation, root in known.items() if not path or root.name == path[0]]
    of_root = [compilation for compilation, root in known.items() if root.is_module]
    return InModule(below, ".".join(path[1:]), of_root, is_outside=not path)
