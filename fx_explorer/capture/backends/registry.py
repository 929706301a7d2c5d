"""A registry of operators: a set, a list or a dict of functions, of operators of ``torch.ops`` or of
names, as backends keep them. Which nodes are in it, and which of its names are no operator here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
import torch.fx.node

_PLACES_OF_SHORT_NAMES = (torch.ops.aten, torch, torch.nn.functional, torch.Tensor, operator)
_ROOTS = {"torch": torch, "operator": operator, "_operator": operator, "math": math}


class Registry:
    """The operators that a backend has in a collection."""

    def __init__(self, entries: Collection[Any]) -> None:
        self._names = {entry for entry in entries if isinstance(entry, str)}
        self._objects = [entry for entry in entries if not isinstance(entry, str)]
        self._hashed = {one for one in self._objects if _is_hashable(one)}
        self._known: dict[Any, bool] = {}

    def __len__(self) -> int:
        return len(self._names) + len(self._objects)

    def has(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> bool:
        """Return whether the operator of a node is in it, under whichever of its names."""
        target = type(submodules.get(str(node.target))) if node.op == "call_module" else node.target
        key = node.op, target
        if key not in self._known:
            self._known[key] = self._has(node.op, target)
        return self._known[key]

    def _has(self, op: str, target: Any) -> bool:
        objects = (
            {target, getattr(target, "overloadpacket", target)} if _is_hashable(target) else set()
        )
        return bool(objects & self._hashed) or bool(_names_of(op, target) & self._names)

    def oddities(self) -> list[str]:
        """Return sentences on what is in it and cannot be an operator of this torch."""
        unknown = sorted(name for name in self._names if not _is_known(name))
        odd = [repr(one)[:60] for one in self._objects if not callable(one)]
        told = []
        if unknown:
            are = "name of the registry is" if len(unknown) == 1 else "names of the registry are"
            told.append(f"{len(unknown)} {are} no operator of this torch: {_some(unknown)}.")
        if odd:
            are = "entry of the registry is" if len(odd) == 1 else "entries of the registry are"
            told.append(f"{len(odd)} {are} neither an operator nor a name: {_some(odd)}.")
        return told


MOST_NAMES = 8


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except Exception:  # noqa: BLE001  (whatever the program's class does there)
        return False
    return True


def _names_of(op: str, target: Any) -> set[str]:
    """Return every name that people write for an operator: ``aten.addmm.default``, ``aten::addmm``,
    ``torch.ops.aten.addmm``, ``addmm``.
    """
    if op == "call_method":
        return {target, f"Tensor.{target}", f"torch.Tensor.{target}"}
    if isinstance(target, torch._ops.OpOverload):
        space, _, name = target._schema.name.partition("::")
        overload = target._overloadname
        long = [
            f"{space}.{name}.{overload}",
            f"{space}.{name}",
            f"{space}::{name}",
            f"{space}::{name}.{overload}",
        ]
        return {name, *long, *(f"torch.ops.{one}" for one in long[:2])}
    if isinstance(target, type):
        return {target.__name__, f"{target.__module__}.{target.__qualname__}"}
    name = str(getattr(target, "__name__", target))
    try:
        qualified = torch.fx.node._get_qualified_name(target)
    except (
        RuntimeError,
        AttributeError,
    ):  # callables without a module raise, e.g. functools.partial
        qualified = name
    return {name, qualified, qualified.replace("_operator.", "operator.")}


def _is_known(name: str) -> bool:
    """Return whether this torch has anything of this name that a graph can call."""
    parts = name.removeprefix("torch.ops.").replace("::", ".").split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    if len(parts) == 1:
        return any(hasattr(place, parts[0]) for place in _PLACES_OF_SHORT_NAMES)
    if parts[0] == "Tensor":
        return hasattr(torch.Tensor, parts[1])
    if not name.startswith("torch.ops.") and parts[0] in _ROOTS:
        return _follow(_ROOTS[parts[0]], parts[1:])
    return len(parts) <= 3 and _follow(torch.ops, parts)


def _follow(owner: object, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
