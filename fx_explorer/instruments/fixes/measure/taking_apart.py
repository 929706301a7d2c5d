"""This module takes any value apart: into attributes, elements, and the variables of its closure,
as far as a program can see them. It has a reader for each kind of Python's own objects; any other
is read as ``object_parts.py`` does.

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
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.torch_compat import private_names
from fx_explorer.instruments.fixes.measure.object_parts import (
    OF_KEY,
    Child,
    ObjectParts,
    attributes_beside_elements,
    attributes_in,
    namespace_of,
    parts_by_name,
    parts_by_repr,
    parts_of_exception,
    parts_of_network,
    parts_of_object,
    type_name,
)
from fx_explorer.program.plain_values import digest


def parts_of(value: object, is_users: Callable[[str], bool]) -> ObjectParts:
    """Take an object apart. Functions and classes are looked into only where ``is_users`` says that
    their file is the user's.

    Never raises: an exception of an object that we look at is not the program's.
    """
    try:
        return _parts_of(value, is_users)
    except Exception as error:  # noqa: BLE001 - it is told with what was not compared
        return ObjectParts(
            {"type": type_name(value)},
            unreadable=f"its internal state, which raises {type(error).__name__} when it is read",
        )


def _parts_of(value: object, is_users: Callable[[str], bool]) -> ObjectParts:
    if isinstance(value, types.FunctionType):
        return _function(value, is_users)
    if isinstance(value, type):
        return _class(value, is_users)
    for kinds, read in _READERS:
        if isinstance(value, kinds):
            return read(value)
    return parts_of_object(value)


def unwrapped(value: object) -> object:
    """Return the original module or function of a result of ``torch.compile`` or
    ``torch.compiler.disable``.
    """
    while True:
        namespace = namespace_of(value)
        inner = namespace.get("_torchdynamo_orig_callable")
        if inner is None and isinstance(value, private_names.OptimizedModule):
            inner = namespace.get("_modules", {}).get("_orig_mod")
        if inner is None:
            return value
        value = inner


def file_of(module_name: str) -> str:
    """Return the file of an imported module; empty for one without a file."""
    return str(getattr(sys.modules.get(module_name), "__file__", "") or "")


def _module(value: types.ModuleType) -> ObjectParts:
    """Describe a module by its name, and read its attributes from its dictionary, since it may have
    a ``__getattr__``.
    """
    return ObjectParts(
        {"type": type_name(value), "name": str(vars(value).get("__name__"))}, has_identity=False
    )


def _function(value: types.FunctionType, is_users: Callable[[str], bool]) -> ObjectParts:
    facts = {"type": "function", "name": f"{value.__module__}.{value.__qualname__}"}
    if not is_users(value.__code__.co_filename):
        return ObjectParts(facts, has_identity=False)
    return ObjectParts(
        facts,
        (*attributes_in(vars(value)), *_defaults(value), *_closure(value)),
        has_identity=False,
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
        facts, (*attributes_in(held), ("'s bases", value.__bases__)), has_identity=False
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
    return ObjectParts(parts_by_name(value).facts, held, has_identity=False)


def _descriptor(value: Any) -> ObjectParts:
    names = ("__func__", "fget", "fset", "fdel", "func")
    held = [(f".{name}", getattr(value, name, None)) for name in names]
    return ObjectParts(
        {"type": type_name(value)},
        tuple(part for part in held if part[1] is not None),
        has_identity=False,
    )


def _partial(value: functools.partial[Any]) -> ObjectParts:
    held = ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    return ObjectParts({"type": type_name(value)}, (*held, *attributes_in(namespace_of(value))))


def _cached(value: Any) -> ObjectParts:
    """Describe the function of an ``lru_cache`` without the cached values: Dynamo calls the
    function itself, so they differ in any case.
    """
    return ObjectParts({"type": type_name(value)}, (("", value.__wrapped__),), has_identity=False)


def _reference(value: Any) -> ObjectParts:
    return ObjectParts({"type": type_name(value)}, (("()", value()),), has_identity=False)


def _mapping(value: Any) -> ObjectParts:
    if isinstance(value, types.MappingProxyType):
        items = list(value.items())
    else:
        items = list(dict.items(value))
    if any(key in _OF_EVERY_CAPTURE for key, _ in items if isinstance(key, str | bytes)):
        items = [(key, inner) for key, inner in items if key not in SET_BY_COMPILING]
    keys = [key_name(key, position) for position, (key, _) in enumerate(items)]
    children = [(f"[{name}]", inner) for name, (_, inner) in zip(keys, items, strict=True)]
    named_keys = [(name, key) for name, (key, _) in zip(keys, items, strict=True)]
    children += [(f"{OF_KEY}{name}", key) for name, key in named_keys if not _is_simple(key)]
    children += attributes_beside_elements(value)
    factory = value.default_factory if isinstance(value, collections.defaultdict) else None
    if factory:
        children.append((".default_factory", factory))
    facts = {"type": type_name(value), "keys": ", ".join(keys)}
    return ObjectParts(facts, tuple(children))


_OF_EVERY_CAPTURE = ("FX_EXPLORER_CAPTURE", b"FX_EXPLORER_CAPTURE")
"""An environment variable of every process of a capture: a dict that contains it is a copy of the
environment.
"""


_SET_BY_COMPILING = (
    "TORCHINDUCTOR_CACHE_DIR",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    "FX_EXPLORER_CHILDREN",
    "PYTHONPATH",
)


SET_BY_COMPILING = frozenset((*_SET_BY_COMPILING, *map(str.encode, _SET_BY_COMPILING)))
"""Environment variables that Inductor sets in its process when it builds code, or that a capture
sets in the process it records.
"""


def key_name(key: object, position: int) -> str:
    if _is_simple(key):
        return repr(key)
    return f"key {position}"


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
        facts,
        (*children, *attributes_beside_elements(value)),
        has_identity=not isinstance(value, tuple),
    )


def _set(value: Any) -> ObjectParts:
    kind = set if isinstance(value, set) else frozenset
    elements = list(kind.__iter__(value))
    simple = sorted(repr(element) for element in elements if _is_simple(element))
    hidden = [element for element in elements if not _is_simple(element)]
    facts = {"type": type_name(value), "length": len(elements), "elements": ", ".join(simple)}
    unreadable = (
        f"{len(hidden)} object{'s' * (len(hidden) > 1)} in a set, whose order changes"
        if hidden
        else ""
    )
    return ObjectParts(
        facts,
        tuple(attributes_beside_elements(value)),
        has_identity=kind is set,
        unreadable=unreadable,
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
        tuple(attributes_beside_elements(value)),
    )


def _closed(value: Any) -> ObjectParts | None:
    if value.closed:
        return ObjectParts({"type": type_name(value), "is closed": True})
    return None


def _file(value: Any) -> ObjectParts:
    name = getattr(value, "name", None)
    standard = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    if any(value is stream for stream in standard):
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
    file = "it" if name is None else name
    return ObjectParts(facts, unreadable=f"data written to or read from {file}")


def _lock(value: object) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value), "state": repr(value).lstrip("<").partition(" ")[0]}
    )


def _random_numbers(value: Any) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value), "state": digest(repr(value.getstate()))},
        tuple(attributes_beside_elements(value)),
    )


def _torch_generator(value: torch.Generator) -> ObjectParts:
    return ObjectParts(
        {"type": type_name(value), "state": digest(value.get_state().numpy().tobytes())}
    )


def _generator(value: Any) -> ObjectParts:
    """Describe a generator or coroutine. Of a suspended generator only the variables can be
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
    """Describe a logger. Its messages are recorded elsewhere, and its handlers only write them."""
    return ObjectParts(
        {
            "type": type_name(value),
            "name": value.name,
            "level": value.level,
            "disabled": value.disabled,
        }
    )


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
        parts_by_name,
    ),
    ((types.MemberDescriptorType, types.GetSetDescriptorType), parts_by_name),
    ((property, staticmethod, classmethod, functools.cached_property), _descriptor),
    ((functools.partial,), _partial),
    ((functools._lru_cache_wrapper,), _cached),
    ((weakref.ref, weakref.WeakMethod), _reference),
    ((torch.nn.Module,), parts_of_network),
    ((torch.Generator,), _torch_generator),
    ((torch.dtype, torch.device, torch.layout, torch.memory_format), parts_by_repr),
    ((enum.Enum,), parts_by_repr),
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
    ((BaseException,), parts_of_exception),
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
        parts_by_repr,
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
        parts_by_repr,
    ),
    ((itertools.count, types.UnionType, types.GenericAlias), parts_by_repr),
)
