"""This module reads the parts of an object: its attributes and slots, or the state that ``copy``
and ``pickle`` take from it. ``ObjectParts`` is the result of every reader.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.program.plain_values import ATOMS, digest

Child = tuple[str, object]
"""(suffix to the name of the whole, the part)."""


OF_KEY = ", "
"""Beginning of the suffix that names a value in a dict by its key: ``optimizer.state, key 7``."""


@dataclass(frozen=True, slots=True)
class ObjectParts:
    """The parts of one object: facts that are compared, and the objects in it."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about the object itself that are compared: ``type``, ``length`` and so on."""
    children: tuple[Child, ...] = ()
    has_identity: bool = True
    """Whether a program can tell the object from an equal one."""
    unreadable: str = ""
    """Describes the part of the object that cannot be read; empty when everything can."""


def type_name(value: object) -> str:
    """Return the qualified name of the value's type, without the module for types of Python and
    torch.
    """
    kind = type(value)
    if kind.__module__ in ("builtins", "torch"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def parts_by_name(value: object) -> ObjectParts:
    """Describe an object by its name alone, since it has no state."""
    module = getattr(value, "__module__", None) or ""
    name = (
        getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type_name(value)
    )
    whole_name = f"{module}.{name}" if module else str(name)
    return ObjectParts({"type": type_name(value), "name": whole_name}, has_identity=False)


def parts_by_repr(value: object) -> ObjectParts:
    """Describe an object whose ``repr`` shows everything about it."""
    return ObjectParts({"type": type_name(value), "value": repr(value)}, has_identity=False)


def parts_of_network(value: torch.nn.Module) -> ObjectParts:
    """Describe a network by the names of its parameters, buffers and modules. Hooks go by position:
    torch numbers them across all modules.
    """
    held = namespace_of(value)
    children: list[Child] = []
    for kept in ("_parameters", "_buffers", "_modules"):
        children += [(f".{name}", inner) for name, inner in (held.get(kept) or {}).items()]
    for key, inner in held.items():
        if key.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")) and isinstance(
            inner, dict
        ):
            children += [(f".{key}", list(inner.values()))] if inner else []
        elif key not in _OF_EVERY_NETWORK and not _is_torchs(key):
            children.append((f".{key}", inner))
    return ObjectParts({"type": type_name(value)}, tuple(children))


_OF_EVERY_NETWORK = frozenset(
    ["_parameters", "_buffers", "_modules", "_compiled_call_impl", "_is_torch_compile"]
)


def parts_of_exception(value: BaseException) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value)}, ((".args", value.args), *attributes_in(namespace_of(value)))
    )


def parts_of_object(value: object) -> ObjectParts:
    kind = type(value)
    module = kind.__module__ or ""
    if module.startswith("torch.jit"):
        return ObjectParts({"type": type_name(value)}, unreadable="what TorchScript keeps")
    if module.startswith(_TORCHS_OWN):
        return parts_by_name(value)
    if module == "numpy" or module.startswith("numpy."):
        return _of_numpy(value)
    held = (*attributes_in(namespace_of(value)), *slots_of(value))
    base = next(ancestor for ancestor in kind.__mro__ if not ancestor.__flags__ & _MADE_BY_PYTHON)
    # An object of a Python class without another base keeps nothing besides attributes and slots.
    if base is object and (held or kind.__flags__ & _MADE_BY_PYTHON) and _is_python_class(kind):
        return ObjectParts({"type": type_name(value)}, held)
    return _reduced(value, held)


_MADE_BY_PYTHON = 1 << 9
"""Flag of a class that was created at run time, by Python or an extension (Py_TPFLAGS_HEAPTYPE)."""


_TORCHS_OWN = (
    "torch._",
    "torch.library",
    "torch.ops",
    "torch.fx",
    "torch.export",
    "torch.utils.hooks",
    "fx_explorer.",
)


def _is_python_class(kind: type) -> bool:
    """Return whether Python code defined the class. Extensions make heap types too, but those have
    neither ``__dict__`` nor ``__slots__``.
    """
    names = vars(kind)
    return (
        "__dict__" in names
        or "__slots__" in names
        or any(_is_python_class(base) for base in kind.__bases__)
    )


def _reduced(value: object, held: tuple[Child, ...]) -> ObjectParts:
    """Read an object's parts as ``copy`` and ``pickle`` do, for Python's own iterators and
    extension types that can be pickled.
    """
    facts = {"type": type_name(value)}
    overridden = getattr(type(value), "__reduce_ex__", None) is not object.__reduce_ex__
    if isinstance(type(value).__dict__.get("__reduce__"), types.FunctionType) or overridden:
        return ObjectParts(facts, held, unreadable="what it keeps inside")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # itertools deprecates it
            reduced = value.__reduce_ex__(2)
    except Exception:  # noqa: BLE001 - it cannot be pickled, which is told
        return ObjectParts(facts, held, unreadable="what it keeps inside")
    if isinstance(reduced, tuple) and reduced[1:]:
        held = (*held, (".__reduce__", reduced[1:]))
    return ObjectParts(facts, held)


def _of_numpy(value: Any) -> ObjectParts:
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray):
        return _array(value)
    if isinstance(value, numpy.generic):
        held = () if isinstance(value, ATOMS) else ((".item()", value.item()),)
        return ObjectParts(
            {"type": type_name(value), "dtype": str(value.dtype)}, held, has_identity=False
        )
    if isinstance(value, numpy.random.Generator):
        return ObjectParts(
            {"type": type_name(value), "state": digest(repr(value.bit_generator.state))}
        )
    if isinstance(value, numpy.random.RandomState):
        return ObjectParts(
            {"type": type_name(value), "state": digest(repr(value.get_state(legacy=False)))}
        )
    if isinstance(value, numpy.dtype):
        return parts_by_repr(value)
    return parts_by_name(value)


def _array(value: Any) -> ObjectParts:
    facts = {
        "type": type_name(value),
        "dtype": str(value.dtype),
        "shape": str(value.shape),
        "writable": value.flags.writeable,
    }
    if value.dtype.hasobject:
        return ObjectParts(facts, ((".tolist()", value.tolist()),))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an array may be read-only; we do not write to it
            return ObjectParts(facts, ((".content", torch.from_numpy(value)),))
    except (TypeError, ValueError):
        return ObjectParts({**facts, "content": digest(value.tobytes())})


def namespace_of(value: object) -> dict[str, Any]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, dict) else {}


def attributes_in(namespace: Mapping[str, Any]) -> tuple[Child, ...]:
    """Return the attributes as children, private ones too, except those that torch has added."""
    return tuple(
        (f".{name}", held) for name, held in list(namespace.items()) if not _is_torchs(str(name))
    )


def _is_torchs(name: str) -> bool:
    """Return whether torch added the attribute to an object that is not its own."""
    return name.startswith(
        ("_torchdynamo", "_dynamo", "__wrapped__", "_torch_", "_is_torch_compile", "__compiled_fn")
    )


def slots_of(value: object) -> tuple[Child, ...]:
    """Return the slots that have a value, read without the class's own ``__getattribute__``."""
    found: list[Child] = []
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType) and not (
                name.startswith("__") and name.endswith("__")
            ):
                with contextlib.suppress(AttributeError):
                    found.append((f".{name}", slot.__get__(value)))
    return tuple(found)


def attributes_beside_elements(value: object) -> Iterator[Child]:
    """Yield the attributes and slots that a subclass of a container has besides its elements."""
    if (
        not isinstance(value, collections.OrderedDict | collections.defaultdict)
        or type(value).__module__ != "collections"
    ):
        yield from attributes_in(namespace_of(value))
        if not isinstance(value, functools.partial):
            yield from slots_of(value)
