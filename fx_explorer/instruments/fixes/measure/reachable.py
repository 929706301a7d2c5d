"""This module walks over everything that can be reached from a program's values, by name: plain
values, facts, and names of the same object. It also compares which names are one object, or share
memory, in two observations.

The walk is breadth first, so that an object gets its shortest name; but a parameter gets its name
in a module, not that in an optimizer, and a key of a dict its name elsewhere. Two runs of one
program give the same names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import FakeTensor
from fx_explorer.instruments.fixes.measure.object_parts import OF_KEY, Child, type_name
from fx_explorer.instruments.fixes.measure.taking_apart import parts_of, unwrapped
from fx_explorer.program.plain_values import ATOMS, atom, copy_tensor

# More than this is not looked at, and is named as not compared.
MOST_OBJECTS = 300_000

UNCHANGED = "as before the call"
"""This text is recorded in place of a tensor that the call did not change."""

_OF_ATOMS = {
    "state": "attribute",
    "global": "plain global",
    "local": "plain local",
    "saved": "plain saved",
}
"""Kind of a tensor → kind of a plain value in the same place."""


@dataclass
class ReachedValues:
    """All values that were reached from a program's names, in a form that another process
    can read.
    """

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Kind → name → a plain value or a tensor."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → facts that are compared besides the content: type, strides, whether it requires grad,
    and so on.
    """
    same: list[list[str]] = field(default_factory=list)
    """Groups of names, each group for one object."""
    overlapping: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of names of tensors that share memory."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Name → description of the part that cannot be read."""


class ReachableWalk:
    """Walks over all values that can be reached from the given ones.

    ``before`` maps ids of tensors to the content that they had before the call.
    """

    def __init__(
        self, is_users: Callable[[str], bool], before: Mapping[int, torch.Tensor] | None = None
    ) -> None:
        self._is_users = is_users
        self._before = before or {}
        self._waiting: deque[tuple[str, str, object]] = deque()
        self._in_modules: deque[tuple[str, str, object]] = deque()
        """Values that are in modules; they are walked before the others."""
        self._keys: deque[tuple[str, str, object]] = deque()
        """Keys of dicts; they are walked after the others."""
        self._names: dict[int, list[str]] = {}
        self._with_identity: set[int] = set()
        self._objects: list[object] = []
        """Keeps the objects alive, so that no id is used twice."""
        self._tensors: list[tuple[str, torch.Tensor]] = []
        self._found = ReachedValues()

    def add(self, kind: str, name: str, value: object) -> None:
        """Add a value from which the walk starts. An object gets its name from the value that was
        added first.
        """
        self._waiting.append((kind, name, value))

    def reached(self) -> ReachedValues:
        """Walk over everything and return what was reached. Stops after ``MOST_OBJECTS``."""
        while waiting := self._in_modules or self._waiting or self._keys:
            if len(self._objects) > MOST_OBJECTS:
                self._found.unreadable["the rest"] = f"more than {MOST_OBJECTS:,} objects"
                break
            self._visit(*waiting.popleft())
        named = self._names.items()
        self._found.same = [
            names for one, names in named if len(names) > 1 and one in self._with_identity
        ]
        self._found.overlapping = list(_overlapping(self._tensors))
        return self._found

    def names(self) -> dict[int, str]:
        """Return id → name of every object that was reached and whose identity a program can
        observe.
        """
        return {one: names[0] for one, names in self._names.items()}

    def _visit(self, kind: str, name: str, value: object) -> None:
        value = unwrapped(value)
        if type(value) in ATOMS:
            self._keep(kind, name, value)
        elif isinstance(value, torch.Tensor):
            self._visit_tensor(kind, name, value)
        elif not isinstance(value, tuple) and id(value) in self._names:
            self._names[id(value)].append(name)
        else:
            self._add_parts(kind, name, value)

    def _keep(self, kind: str, name: str, value: object) -> None:
        self._found.values.setdefault(_OF_ATOMS.get(kind, kind), {})[name] = atom(value)

    def _add_parts(self, kind: str, name: str, value: object) -> None:
        parts = parts_of(value, self._is_users)
        self._objects.append(value)
        if not isinstance(value, tuple):
            self._names[id(value)] = [name]
        if parts.has_identity:
            self._with_identity.add(id(value))
        if isinstance(value, ATOMS):  # a subclass
            self._keep(kind, name, value)
        self._found.facts[name] = parts.facts
        if parts.unreadable:
            self._found.unreadable[name] = f"{parts.unreadable} ({parts.facts['type']})"
        children = parts.children if name.count("[") < _DEEPEST else ()
        if isinstance(value, dict):
            children = tuple(self._with_names_of_keys(value, children))
        if issubclass(type(value), torch.nn.Module):
            waiting = self._in_modules
        else:
            waiting = self._waiting
        for suffix, inner in children:
            later = self._keys if suffix.startswith(OF_KEY) else waiting
            later.append((kind, f"{name}{suffix}".lstrip("."), inner))

    def _with_names_of_keys(
        self, value: dict[Any, Any], children: Iterable[Child]
    ) -> Iterator[Child]:
        """Yield the children of a dict, named by another name of their key where it has one: the
        state of an optimizer is listed under ``model.weight`` instead of ``key 0``.
        """
        by_name: dict[str, str] = {}
        for position, key in enumerate(dict.keys(value)):
            names = self._names.get(id(key))
            if names:
                by_name[f"[key {position}]"] = f"[{names[0].removeprefix('global ')}]"
        for suffix, inner in children:
            yield by_name.get(suffix, suffix), inner

    def _visit_tensor(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        """Record a tensor's facts and content, once for all its names, and the part of it that
        cannot be read.
        """
        names = self._names.setdefault(id(tensor), [])
        names.append(name)
        self._objects.append(tensor)
        self._with_identity.add(id(tensor))
        if len(names) > 1:
            first = names[0]
            self._found.facts[name] = self._found.facts[first]
            kinds = self._found.values.values()
            held = next((of_kind[first] for of_kind in kinds if first in of_kind), None)
            if held is not None:
                self._found.values.setdefault(kind, {})[name] = held
            return
        self._found.facts[name] = _facts(tensor)
        if hasattr(tensor, "__tensor_flatten__"):
            inner, _ = tensor.__tensor_flatten__()
            self._waiting.extend(
                (kind, f"{name}.{part}".lstrip("."), getattr(tensor, part)) for part in inner
            )
        elif tensor.is_meta or isinstance(tensor, FakeTensor):
            self._found.unreadable[name] = f"its content ({type_name(tensor)} on {tensor.device})"
        else:
            self._found.values.setdefault(kind, {})[name] = self._content(tensor)
            self._tensors.append((name, tensor))
        self._visit_gradient(kind, name, tensor)

    def _content(self, tensor: torch.Tensor) -> object:
        before = self._before.get(id(tensor))
        copied = copy_tensor(tensor)
        if before is not None and _is_bitwise(before, copied):
            return UNCHANGED
        return copied

    def _visit_gradient(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        """Add the gradient of a tensor, and the attributes that the program has put on it."""
        if tensor.is_leaf or tensor.retains_grad:
            grad = tensor.grad
            if grad is not None or tensor.requires_grad:
                self._add_gradient(f"the gradient of {name}", grad)
        for key, held in list(vars(tensor).items()):
            if not key.startswith(("_dynamo", "_is_param", "_torch", "_inductor")):
                self._waiting.append((kind, f"{name}.{key}".lstrip("."), held))

    def _add_gradient(self, name: str, grad: torch.Tensor | None) -> None:
        if grad is None:
            self._found.values.setdefault("gradient", {})[name] = None
        else:
            self._waiting.append(("gradient", name, grad))


_DEEPEST = 40
"""Maximum number of containers inside each other. The limit ends a cycle of tuples, which the walk
cannot recognise by identity.
"""


def _facts(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the facts that are compared besides the tensor's content."""
    facts: dict[str, Any] = {
        "type": type_name(tensor),
        "device": str(tensor.device),
        "layout": str(tensor.layout),
        "requires_grad": tensor.requires_grad,
    }
    if tensor.requires_grad:
        facts["is_leaf"] = tensor.is_leaf
    if tensor.layout == torch.strided and not tensor.is_nested:
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        if tensor.numel():
            facts["strides"] = str([stride for size, stride in sizes if size > 1])
        else:
            facts["strides"] = "[]"
    hooks = getattr(tensor, "_backward_hooks", None)
    if hooks:
        facts["hooks"] = len(hooks)
    return facts


def _is_bitwise(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    one = one.to(other.device)  # what was kept of it may be on the GPU
    same = torch.equal(one, other)
    return same and not (one.is_floating_point() and bool((one.signbit() != other.signbit()).any()))


def _overlapping(tensors: list[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of tensors that share memory, by the first and last byte of each.

    Tensors that lie side by side in one storage share none.
    """
    extents = sorted(
        filter(None, (_extent(name, tensor) for name, tensor in tensors)),
        key=lambda extent: extent[:2],
    )
    open_ones: list[tuple[str, int, int, str]] = []
    for extent in extents:
        device, first, _, name = extent
        open_ones = [
            open_one for open_one in open_ones if open_one[0] == device and open_one[2] >= first
        ]
        yield from ((min(open_one[3], name), max(open_one[3], name)) for open_one in open_ones)
        open_ones.append(extent)


def _extent(name: str, tensor: torch.Tensor) -> tuple[str, int, int, str] | None:
    """Return (device, first byte, last byte, name), or None for a tensor without a plain extent in
    memory.
    """
    if tensor.layout != torch.strided or tensor.is_nested or not tensor.numel():
        return None
    first = tensor.data_ptr()
    span = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    if first:
        return (str(tensor.device), first, first + (span + 1) * tensor.element_size() - 1, name)
    return None


# Which names are one object in one of two observations and not in the other.


def identity_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], both: Set[str]
) -> Iterator[tuple[str, str]]:
    """Yield (name, description) for each difference in identity: two names refer to one object, or
    share memory, in only one of the observations. Only names in ``both`` count
    (``ReachedValues.same``, ``ReachedValues.overlapping``).
    """
    one, other = _first_names(before["same"], both), _first_names(after["same"], both)
    for name in sorted(one.keys() | other.keys()):
        was, now = one.get(name, name), other.get(name, name)
        if was != now:
            yield name, _describe_change(name, was, now)
    shared, sharing = (_pairs(seen["overlapping"], both) for seen in (before, after))
    yield from (
        (name, f"{name} and {another} shared memory before and do not now")
        for name, another in sorted(shared - sharing)
    )
    yield from (
        (name, f"{name} and {another} share memory now")
        for name, another in sorted(sharing - shared)
    )


def _first_names(groups: Iterable[Sequence[str]], both: Set[str]) -> dict[str, str]:
    """Return name → the first name of its object, for objects with several names."""
    found: dict[str, str] = {}
    for group in groups:
        names = sorted(name for name in group if name in both)
        found |= dict.fromkeys(names, names[0]) if len(names) > 1 else {}
    return found


def _pairs(pairs: Iterable[Sequence[str]], both: Set[str]) -> set[tuple[str, str]]:
    return {(one, other) for one, other in pairs if one in both and other in both}


def _describe_change(name: str, was: str, now: str) -> str:
    if was == name:
        return f"{name} was a separate object before and is {now} now"
    what_now = "an object of its own" if now == name else now
    return f"{name} was {was} itself before and is {what_now} now"
