"""What an object consists of, as far as a program can see: its attributes, its elements, the
variables of its closure.

No code of the user's runs where that can be avoided: no property, no ``__getattr__``, no
``__iter__``. What cannot be read, or raises when it is looked at, is named.
"""

from __future__ import annotations

import array
import collections
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import io
import itertools
import logging
import pathlib
import random
import re
import sys
import threading
import types
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.program.plain_values import ATOMS, digest

Child = tuple[str, object]
"""(suffix to the name of the whole, the part)."""

OF_KEY = ", "
"""Begins the suffix of a dict's key: ``optimizer.state, key 7``."""


@dataclass(frozen=True, slots=True)
class ObjectParts:
    """What one object consists of."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about the object itself that are compared: ``type``, ``length`` and so on."""
    children: tuple[Child, ...] = ()
    has_identity: bool = True
    """Whether a program can tell the object from an equal one."""
    unreadable: str = ""
    """What cannot be seen; empty when nothing is hidden."""


def take_apart(value: object, is_users: Callable[[str], bool]) -> ObjectParts:
    """Take an object apart. Functions and classes are looked into only where ``is_users`` says that
    their file is the user's.

    Never raises: an exception of an object that we look at is not the program's.
    """
    try:
        return _taken_apart(value, is_users)
    except Exception as error:  # noqa: BLE001 - it is told with what was not compared
        return ObjectParts(
            {"type": type_name(value)},
            unreadable=f"what it keeps inside, which raises {type(error).__name__} when it is looked "
            "at",
        )


def _taken_apart(value: object, is_users: Callable[[str], bool]) -> ObjectParts:
    if isinstance(value, types.FunctionType):
        return _function(value, is_users)
    if isinstance(value, type):
        return _class(value, is_users)
    for kinds, read in _READERS:
        if isinstance(value, kinds):
            return read(value)
    return _object(value)


def unwrapped(value: object) -> object:
    """Return the module or function that ``torch.compile`` or ``torch.compiler.disable`` was given,
    in place of what it made.
    """
    while True:
        namespace = _namespace(value)
        inner = namespace.get("_torchdynamo_orig_callable")
        if inner is None and isinstance(value, torch._dynamo.OptimizedModule):
            inner = namespace.get("_modules", {}).get("_orig_mod")
        if inner is None:
            return value
        value = inner


def type_name(value: object) -> str:
    """Return the qualified name of the value's type, without the module for types of Python and
    torch.
    """
    kind = type(value)
    if kind.__module__ in ("builtins", "torch"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def file_of(module_name: str) -> str:
    """Return the file of an imported module; empty for one without a file."""
    return str(getattr(sys.modules.get(module_name), "__file__", "") or "")


# one reader per kind of object


def _named(value: object) -> ObjectParts:
    """Describe an object that has a name and no state."""
    module = getattr(value, "__module__", None) or ""
    name = (
        getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type_name(value)
    )
    return ObjectParts(
        {"type": type_name(value), "name": f"{module}.{name}" if module else str(name)},
        has_identity=False,
    )


def _module(value: types.ModuleType) -> ObjectParts:
    """Describe a module by its name, read from its dictionary: it may have a ``__getattr__``."""
    return ObjectParts(
        {"type": type_name(value), "name": str(vars(value).get("__name__"))}, has_identity=False
    )


def _written(value: object) -> ObjectParts:
    """Describe an object that its ``repr`` tells completely."""
    return ObjectParts({"type": type_name(value), "value": repr(value)}, has_identity=False)


def _function(value: types.FunctionType, is_users: Callable[[str], bool]) -> ObjectParts:
    facts = {"type": "function", "name": f"{value.__module__}.{value.__qualname__}"}
    if not is_users(value.__code__.co_filename):
        return ObjectParts(facts, has_identity=False)
    return ObjectParts(
        facts, (*_attributes(vars(value)), *_defaults(value), *_closure(value)), has_identity=False
    )


def _defaults(value: types.FunctionType) -> Iterator[Child]:
    defaults = value.__defaults__ or ()
    names = (
        value.__code__.co_varnames[: value.__code__.co_argcount][-len(defaults) :]
        if defaults
        else ()
    )
    yield from (
        (f"'s default of {name}", default) for name, default in zip(names, defaults, strict=False)
    )
    yield from (
        (f"'s default of {name}", default) for name, default in (value.__kwdefaults__ or {}).items()
    )


def _closure(value: types.FunctionType) -> Iterator[Child]:
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            yield f"'s closure variable {name}", cell.cell_contents


def _class(value: type, is_users: Callable[[str], bool]) -> ObjectParts:
    facts = {"type": "class", "name": f"{value.__module__}.{value.__qualname__}"}
    if not is_users(file_of(value.__module__)) and value.__module__ != "__main__":
        return ObjectParts(facts, has_identity=False)
    held = {name: inner for name, inner in vars(value).items() if name not in _OF_EVERY_CLASS}
    return ObjectParts(
        facts, (*_attributes(held), ("'s bases", value.__bases__)), has_identity=False
    )


_OF_EVERY_CLASS = frozenset(
    (
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__annotations__",
        "__slots__",
        "__abstractmethods__",
        "_abc_impl",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__parameters__",
        "__orig_bases__",
        "__match_args__",
    )
)


def _method(value: Any) -> ObjectParts:
    return ObjectParts(
        {"type": "method", "name": value.__name__},
        ((".__self__", value.__self__),),
        has_identity=False,
    )


def _builtin(value: Any) -> ObjectParts:
    owner = getattr(value, "__self__", None)
    held = (
        ()
        if owner is None or isinstance(owner, types.ModuleType | type)
        else ((".__self__", owner),)
    )
    return ObjectParts(_named(value).facts, held, has_identity=False)


def _descriptor(value: Any) -> ObjectParts:
    names = ("__func__", "fget", "fset", "fdel", "func")
    held = [(f".{name}", getattr(value, name, None)) for name in names]
    return ObjectParts(
        {"type": type_name(value)},
        tuple(one for one in held if one[1] is not None),
        has_identity=False,
    )


def _partial(value: functools.partial[Any]) -> ObjectParts:
    held = ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    return ObjectParts({"type": type_name(value)}, (*held, *_attributes(_namespace(value))))


def _cached(value: Any) -> ObjectParts:
    """Describe an ``lru_cache`` without what it holds: Dynamo calls the function itself, whatever
    is changed.
    """
    return ObjectParts({"type": type_name(value)}, (("", value.__wrapped__),), has_identity=False)


def _reference(value: Any) -> ObjectParts:
    return ObjectParts({"type": type_name(value)}, (("()", value()),), has_identity=False)


def _mapping(value: Any) -> ObjectParts:
    items = list(value.items() if isinstance(value, types.MappingProxyType) else dict.items(value))
    if any(key in _OF_EVERY_CAPTURE for key, _ in items if isinstance(key, str | bytes)):
        items = [(key, inner) for key, inner in items if key not in SET_BY_COMPILING]
    keys = [key_name(key, position) for position, (key, _) in enumerate(items)]
    children = [(f"[{name}]", inner) for name, (_, inner) in zip(keys, items, strict=True)]
    children += [
        (f"{OF_KEY}{name}", key)
        for name, (key, _) in zip(keys, items, strict=True)
        if not _is_simple(key)
    ]
    factory = value.default_factory if isinstance(value, collections.defaultdict) else None
    facts = {"type": type_name(value), "keys": ", ".join(keys)}
    return ObjectParts(
        facts, (*children, *_beside(value), *([(".default_factory", factory)] if factory else []))
    )


_OF_EVERY_CAPTURE = ("FX_EXPLORER_CAPTURE", b"FX_EXPLORER_CAPTURE")
"""A variable that all processes of a capture have: a dict that has it is a copy of the environment.
"""

_SET_BY_COMPILING = (
    "TORCHINDUCTOR_CACHE_DIR",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    "FX_EXPLORER_CHILDREN",
    "PYTHONPATH",
)

SET_BY_COMPILING = frozenset((*_SET_BY_COMPILING, *map(str.encode, _SET_BY_COMPILING)))
"""Variables that Inductor sets in its own process when it builds code, or the capture in the one it
records.
"""


def key_name(key: object, position: int) -> str:
    return repr(key) if _is_simple(key) else f"key {position}"


def _is_simple(key: object) -> bool:
    if isinstance(key, tuple | frozenset):
        return all(map(_is_simple, key))
    kinds = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
    return type(key) in kinds or (isinstance(key, enum.Enum) and "0x" not in repr(key))


def _sequence(value: Any) -> ObjectParts:
    kind = next(kind for kind in (list, tuple, collections.deque) if isinstance(value, kind))
    elements = list(kind.__iter__(value))
    facts: dict[str, Any] = {"type": type_name(value), "length": len(elements)}
    if isinstance(value, collections.deque):
        facts["maxlen"] = value.maxlen
    children = [(f"[{position}]", inner) for position, inner in enumerate(elements)]
    return ObjectParts(
        facts, (*children, *_beside(value)), has_identity=not isinstance(value, tuple)
    )


def _set(value: Any) -> ObjectParts:
    kind = set if isinstance(value, set) else frozenset
    elements = list(kind.__iter__(value))
    simple = sorted(repr(element) for element in elements if _is_simple(element))
    hidden = [element for element in elements if not _is_simple(element)]
    facts = {"type": type_name(value), "length": len(elements), "elements": ", ".join(simple)}
    unreadable = f"{len(hidden)} objects in a set, whose order changes" if hidden else ""
    return ObjectParts(
        facts, tuple(_beside(value)), has_identity=kind is set, unreadable=unreadable
    )


def _bytes_like(value: Any) -> ObjectParts:
    return ObjectParts({"type": type_name(value), "content": digest(bytes(value))})


def _buffer(value: Any) -> ObjectParts:
    kind: Any = io.StringIO if isinstance(value, io.StringIO) else io.BytesIO
    return _closed(value) or ObjectParts(
        {
            "type": type_name(value),
            "position": kind.tell(value),
            "content": digest(kind.getvalue(value)),
        },
        tuple(_beside(value)),
    )


def _closed(value: Any) -> ObjectParts | None:
    return ObjectParts({"type": type_name(value), "is closed": True}) if value.closed else None


def _file(value: Any) -> ObjectParts:
    name = getattr(value, "name", None)
    standard = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    if any(value is one for one in standard):
        return ObjectParts({"type": type_name(value), "name": str(name)})
    position: object = None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        position = value.tell()
    facts = {
        "type": type_name(value),
        "name": str(name),
        "is closed": value.closed,
        "position": position,
    }
    return ObjectParts(
        facts, unreadable=f"what is written to or read from {'it' if name is None else name}"
    )


def _lock(value: object) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value), "state": repr(value).lstrip("<").partition(" ")[0]}
    )


def _random_numbers(value: Any) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value), "state": digest(repr(value.getstate()))}, tuple(_beside(value))
    )


def _torch_generator(value: torch.Generator) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value), "state": digest(value.get_state().numpy().tobytes())}
    )


def _generator(value: Any) -> ObjectParts:
    """Describe a generator or coroutine. Of one that is suspended, only the variables can be
    seen.
    """
    frame = (
        getattr(value, "gi_frame", None)
        or getattr(value, "cr_frame", None)
        or getattr(value, "ag_frame", None)
    )
    facts = {"type": type_name(value), "name": value.__qualname__, "is at its end": frame is None}
    if frame is None:
        return ObjectParts(facts)
    return ObjectParts(
        facts,
        tuple((f"'s variable {name}", held) for name, held in frame.f_locals.items()),
        unreadable="its place",
    )


def _logger(value: logging.Logger) -> ObjectParts:
    """Describe a logger. Its messages are heard elsewhere; handlers are only the program's way of
    writing them.
    """
    return ObjectParts(
        {
            "type": type_name(value),
            "name": value.name,
            "level": value.level,
            "disabled": value.disabled,
        }
    )


def _network(value: torch.nn.Module) -> ObjectParts:
    """Describe a network by the names of its parameters, buffers and modules. Hooks go by position:
    torch numbers them across all modules.
    """
    held = _namespace(value)
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


def _exception(value: BaseException) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value)}, ((".args", value.args), *_attributes(_namespace(value)))
    )


def _object(value: object) -> ObjectParts:
    kind = type(value)
    module = kind.__module__ or ""
    if module.startswith("torch.jit"):
        return ObjectParts({"type": type_name(value)}, unreadable="what TorchScript keeps")
    if module.startswith(_TORCHS_OWN):
        return _named(value)
    if module == "numpy" or module.startswith("numpy."):
        return _of_numpy(value)
    held = (*_attributes(_namespace(value)), *_slots(value))
    base = next(one for one in kind.__mro__ if not one.__flags__ & _MADE_BY_PYTHON)
    # An object of a Python class without another base keeps nothing besides attributes and slots.
    if base is object and (held or kind.__flags__ & _MADE_BY_PYTHON) and _is_python_class(kind):
        return ObjectParts({"type": type_name(value)}, held)
    return _reduced(value, held)


_MADE_BY_PYTHON = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: the class was made at run time, by Python or an extension."""

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
    """Take a value apart as ``copy`` and ``pickle`` do, for Python's own iterators and extension
    types that can be pickled.
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
    parts = reduced[1:] if isinstance(reduced, tuple) else ()
    return ObjectParts(facts, (*held, *((".__reduce__", one) for one in [parts] if parts)))


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
    return _written(value) if isinstance(value, numpy.dtype) else _named(value)


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


# attributes


def _namespace(value: object) -> dict[str, Any]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, dict) else {}


def _attributes(namespace: Mapping[str, Any]) -> tuple[Child, ...]:
    """Return the attributes as children, private ones too, without what torch has noted."""
    return tuple(
        (f".{name}", held) for name, held in list(namespace.items()) if not _is_torchs(str(name))
    )


def _is_torchs(name: str) -> bool:
    """Return whether the attribute is a note of torch's on somebody else's object."""
    return name.startswith(
        ("_torchdynamo", "_dynamo", "__wrapped__", "_torch_", "_is_torch_compile", "__compiled_fn")
    )


def _slots(value: object) -> tuple[Child, ...]:
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


def _beside(value: object) -> Iterator[Child]:
    """Yield what a subclass of a container has besides its elements."""
    if (
        not isinstance(value, collections.OrderedDict | collections.defaultdict)
        or type(value).__module__ != "collections"
    ):
        yield from _attributes(_namespace(value))
        yield from _slots(value) if not isinstance(value, functools.partial) else ()


_READERS: tuple[tuple[tuple[type[Any], ...], Callable[[Any], ObjectParts]], ...] = (
    ((types.ModuleType,), _module),
    ((types.MethodType,), _method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _builtin),
    (
        (
            types.MethodDescriptorType,
            types.WrapperDescriptorType,
            types.ClassMethodDescriptorType,
            types.CodeType,
        ),
        _named,
    ),
    ((types.MemberDescriptorType, types.GetSetDescriptorType), _named),
    ((property, staticmethod, classmethod, functools.cached_property), _descriptor),
    ((functools.partial,), _partial),
    ((functools._lru_cache_wrapper,), _cached),
    ((weakref.ref, weakref.WeakMethod), _reference),
    ((torch.nn.Module,), _network),
    ((torch.Generator,), _torch_generator),
    ((torch.dtype, torch.device, torch.layout, torch.memory_format), _written),
    ((enum.Enum,), _written),
    ((dict, types.MappingProxyType), _mapping),
    ((list, tuple, collections.deque), _sequence),
    ((set, frozenset), _set),
    ((bytearray, memoryview, array.array), _bytes_like),
    ((io.StringIO, io.BytesIO), _buffer),
    ((io.IOBase,), _file),
    ((random.Random,), _random_numbers),
    ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), _generator),
    (
        (logging.Logger, logging.LoggerAdapter),
        lambda value: _logger(getattr(value, "logger", value)),
    ),
    ((BaseException,), _exception),
    ((type(threading.Lock()), type(threading.RLock())), _lock),
    (
        (
            range,
            slice,
            re.Pattern,
            uuid.UUID,
            pathlib.PurePath,
            decimal.Decimal,
            fractions.Fraction,
        ),
        _written,
    ),
    (
        (
            datetime.date,
            datetime.time,
            datetime.timedelta,
            datetime.tzinfo,
            type(...),
            type(NotImplemented),
        ),
        _written,
    ),
    ((itertools.count, types.UnionType, types.GenericAlias), _written),
)
