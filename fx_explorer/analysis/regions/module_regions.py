"""This module treats modules as regions: the screen can be narrowed to a module, as to an annotated
region or a segment.
"""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer import model
from fx_explorer.analysis.module_paths import (
    NO_MODULE,
    ModulePath,
    describe_module_path,
    is_in,
    roots,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import (
    InModule,
    first_in_module,
    nodes_in_module,
    rows_in_module,
)

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
    """Return the module that a region is."""
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
