"""This module finds the backend that the user asked for, the user's name for it, and the support
that it declares.

Inside DistributedDataParallel torch puts a backend of its own in front of the user's: DDPOptimizer
(torch/_dynamo/backends/distributed.py) cuts Dynamo's graph so that gradients can be reduced while
the backward runs, and hands each part, a bucket, to the user's backend.

The name is the one by which the program requested the backend. For a backend that was given as an
object, it is the name of its function, or of the variable that holds it. torch calls whatever
``aot_autograd`` makes ``compiler_fn`` (torch/_dynamo/backends/common.py), and an object without a
name by its ``repr``.

What it supports it may declare with ``operator_support``: an attribute of the backend function, or
of the compiler that it gives to AOTAutograd, or a name at the top level of their file. It may be an
OperatorSupport of torch's (torch/fx/passes/operator_support.py), a function of a node, or a
registry: a set, a list or a dict of operators or of their names.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import re
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.fx_graphs import qualified_name
from fx_explorer.capture.torch_compat.private_names import OpOverload
from fx_explorer.highlight import printable


def users_backend(compiler: Any) -> Any:
    """Return the user's backend if ``compiler`` is DDPOptimizer; any other compiler is returned
    unchanged.
    """
    owner = getattr(compiler, "__self__", None)
    if type(owner).__name__ != "DDPOptimizer":
        return compiler
    return getattr(owner, "backend_compile_fn", compiler)


_IN_FILE = re.compile(r"^.+\.py:(?=\w+$)")
"""Matches the file in the name of a backend that is given as ``file.py:function``."""

_NAMELESS = ("", "<lambda>")

_OF_INDUCTOR = ("compile_fx", "compile_fx_inner", "_compile_fx_inner")
"""Functions of torch/_inductor/compile_fx.py that a program gives graphs to."""


def backend_name(compiler: Any) -> str:
    """Return ``inductor`` for torch's own wrapper, the user's name for a registered backend or one
    from a file, else the name of the function; empty without any.
    """
    compiler = users_backend(compiler)
    inner = getattr(compiler, "_torchdynamo_orig_backend", None)
    if inner is not None and inner is not compiler:
        return backend_name(inner)
    asked_for = getattr(compiler, "compiler_name", None)
    given = getattr(compiler, "compiler_fn", None)
    if asked_for:
        names_of_given: tuple[str | None, ...] = ()
        if given is not None:
            names_of_given = (getattr(given, "__name__", None), _repr_by_torch(given))
        if asked_for not in names_of_given:
            return printable(_IN_FILE.sub("", str(asked_for)))
    function = compiler if given is None else given
    name = _name_of_object(function)
    if name in _OF_INDUCTOR:
        return "inductor"
    return printable(_IN_FILE.sub("", name))


def _repr_by_torch(given: Any) -> str | None:
    """Return the name that torch.compile uses for a backend without a name."""
    if hasattr(given, "__name__"):
        return None
    return str(given)


def _name_of_object(backend: Any) -> str:
    if isinstance(backend, functools.partial):
        return _variable_of(backend, backend.func) or _name_of_object(backend.func)
    if type(backend).__name__ == "AotAutograd":
        inner = backend.kwargs.get("fw_compiler")
        return (
            _registered(backend)
            or _variable_of(backend, inner)
            or _name_of_compiler(inner)
            or "aot_autograd"
        )
    name = str(getattr(backend, "__name__", ""))
    if name in _NAMELESS:
        return _variable_of(backend, backend) or name or type(backend).__name__
    owner = getattr(backend, "__self__", None)  # a method says little without its class
    if owner is not None and not isinstance(owner, type(sys)):
        return f"{type(owner).__name__}.{name}"
    return name


def _name_of_compiler(compiler: Any) -> str:
    """Return the name of the compiler given to ``aot_autograd``; empty if it is a name that all
    such compilers share.
    """
    name = "" if compiler is None else _name_of_object(compiler)
    if name in _NAMELESS:
        return ""
    return name


def _registered(backend: Any) -> str:
    """Return the name a backend is registered by with torch; empty when it is not."""
    from fx_explorer.capture.torch_compat.private_names import backend_registry

    for name, registered in list(backend_registry._COMPILER_FNS.items()):
        if registered is backend:
            return name
    return ""


def _variable_of(backend: Any, inner: Any) -> str:
    """Return the name of the variable that holds the backend, in the file of a function inside it
    or in the script; empty without one.
    """
    for scope in _scopes(inner):
        for name, value in list(scope.items()):
            if value is backend:
                return name
    return ""


def _scopes(function: Any) -> Iterator[dict[str, Any]]:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "fx_explorer_inner", function)
    scope = getattr(function, "__globals__", None)
    if isinstance(scope, dict) and not str(scope.get("__name__")).startswith("torch."):
        yield scope
    script = sys.modules.get("__main__")
    if script is not None:
        yield vars(script)


# What it declares to support.


NAME = "operator_support"

Ask = Callable[[Mapping[str, torch.nn.Module], torch.fx.Node], object]


@dataclass(frozen=True)
class Declared:
    """A backend's own declaration of what it supports."""

    source: str
    """Description of the declaration's source, such as ``operator_support of mine.py, a registry of
    12 names``.
    """
    ask: Ask | None
    """Returns whether a node is supported; None if the declaration cannot be evaluated."""
    reason: Ask | None = None
    """Returns why an operator is not supported; None if the backend gives no reasons."""
    oddities: tuple[str, ...] = ()
    """Sentences on declarations that the author cannot have meant."""


def declared_by(backend: Any) -> Declared | None:
    """Return a backend's declaration; None without one."""
    for function in functions_of(backend):
        support = getattr(function, NAME, None)
        if _can_be_meant(support):
            return _declared(support, f"{NAME} of {_name(function)}")
        support = _of_file(function)
        if _can_be_meant(support):
            return _declared(support, f"{NAME} of {_file(function)}")
    return None


def _can_be_meant(support: object) -> bool:
    """Return whether ``support`` may be an answer, and not torch's module of that name, which files
    import.
    """
    return support is not None and not isinstance(support, types.ModuleType)


def functions_of(backend: Any) -> Iterator[Any]:
    """Yield the function that the user wrote, inside torch's wrappers, and the compilers that it
    passes to AOTAutograd.
    """
    seen: list[int] = []
    pending = [users_backend(backend)]
    while pending:
        partial = pending.pop(0)
        if partial is None or id(partial) in seen:
            continue
        seen.append(id(partial))
        yield partial
        # Dynamo's and torch.compile's wrappers, functools.partial and functools.wraps.
        if hasattr(partial, "__dict__"):
            pending += [vars(partial).get(name) for name in _INNER]
        if isinstance(partial, functools.partial):
            pending.append(partial.func)
        arguments = getattr(partial, "kwargs", None)
        if type(partial).__name__ == "AotAutograd" and isinstance(arguments, dict):
            pending += [arguments.get("fw_compiler"), arguments.get("inference_compiler")]


_INNER = ("_torchdynamo_orig_backend", "compiler_fn", "__wrapped__")


def _of_file(function: Any) -> Any:
    """Return the global ``operator_support`` of the file that defines a function; None without one,
    and for files of torch itself.
    """
    if str(getattr(function, "__module__", "")).partition(".")[0] == "torch":
        return None
    return getattr(function, "__globals__", {}).get(NAME)


def _name(function: Any) -> str:
    if type(function).__name__ == "AotAutograd":
        return "the backend"
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _file(function: Any) -> str:
    return str(function.__globals__.get("__file__", function.__module__)).rpartition("/")[2]


def _declared(support: Any, where: str) -> Declared:
    """Return the declaration made by an OperatorSupport, a class of it, a registry or a
    function.
    """
    if isinstance(support, type):
        try:
            support = support()
        except Exception as error:  # noqa: BLE001  (the backend's own code)
            why = one_line(f"{type(error).__name__}: {error}")
            return _cannot_be_asked(where, f"{where} cannot be made: {why}.")
    reason = getattr(support, "reason", None)
    reason = reason if callable(reason) else None
    if callable(getattr(support, "is_node_supported", None)):
        return Declared(f"{where}, {_described(support)}", support.is_node_supported, reason)
    if isinstance(support, Collection) and not isinstance(support, str | bytes):
        registry = Registry(support)
        noun = "entry" if len(registry) == 1 else "entries"
        what = f"a registry of {len(registry)} {noun}"
        return Declared(f"{where}, {what}", registry.has, reason, tuple(registry.oddities()))
    if callable(support):
        return Declared(f"{where}, a function", _of_a_node(support), reason)
    what = "neither an OperatorSupport nor a function nor a registry"
    kind = type(support).__name__
    return _cannot_be_asked(where, f"{where} is of type {kind}, which is {what}.")


def _cannot_be_asked(where: str, why: str) -> Declared:
    return Declared(where, None, None, (why,))


def _described(support: Any) -> str:
    return f"an instance of its class {type(support).__qualname__}"


def _of_a_node(function: Callable[..., object]) -> Ask:
    """Return a function of (submodules, node), as torch's are, for a function that may take only
    the node.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of C
        return lambda submodules, node: function(node)
    positional_kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    positional = [parameter for parameter in required if parameter.kind in positional_kinds]
    if len(positional) > 1:
        return function
    return lambda submodules, node: function(node)


# A registry of operators: a set, a list or a dict of functions, of operators of ``torch.ops`` or
# of names, as backends keep them. Which nodes are in it, and which of its names are no operator
# here.

_PLACES_OF_SHORT_NAMES = (torch.ops.aten, torch, torch.nn.functional, torch.Tensor, operator)
_ROOTS = {"torch": torch, "operator": operator, "_operator": operator, "math": math}


class Registry:
    """Answers which nodes a backend supports, by the collection of operators that it declares."""

    def __init__(self, entries: Collection[Any]) -> None:
        self._names = {entry for entry in entries if isinstance(entry, str)}
        self._objects = [entry for entry in entries if not isinstance(entry, str)]
        self._hashed = {entry for entry in self._objects if _is_hashable(entry)}
        self._known: dict[Any, bool] = {}

    def __len__(self) -> int:
        return len(self._names) + len(self._objects)

    def has(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> bool:
        """Return whether the registry has the operator of a node, under any of its names."""
        if node.op == "call_module":
            target = type(submodules.get(str(node.target)))
        else:
            target = node.target
        key = node.op, target
        if key not in self._known:
            self._known[key] = self._has(node.op, target)
        return self._known[key]

    def _has(self, op: str, target: Any) -> bool:
        if _is_hashable(target):
            objects = {target, getattr(target, "overloadpacket", target)}
        else:
            objects = set()
        return bool(objects & self._hashed) or bool(_names_of(op, target) & self._names)

    def oddities(self) -> list[str]:
        """Return sentences on entries of the registry that cannot be operators of this torch."""
        unknown = sorted(name for name in self._names if not _is_known(name))
        odd = [repr(entry)[:60] for entry in self._objects if not callable(entry)]
        parts = []
        if unknown:
            if len(unknown) == 1:
                are = "name of the registry is not an operator"
            else:
                are = "names of the registry are not operators"
            parts.append(f"{len(unknown)} {are} of this torch: {_some(unknown)}.")
        if odd:
            if len(odd) == 1:
                are = "entry of the registry is"
            else:
                are = "entries of the registry are"
            parts.append(f"{len(odd)} {are} neither an operator nor a name: {_some(odd)}.")
        return parts


MOST_NAMES = 8


def _some(names: list[str]) -> str:
    if len(names) > MOST_NAMES:
        more = f" and {len(names) - MOST_NAMES} more"
    else:
        more = ""
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
    if isinstance(target, OpOverload):
        space, _, name = target._schema.name.partition("::")
        overload = target._overloadname
        short = (f"{space}.{name}.{overload}", f"{space}.{name}")
        names = {name, *short, f"{space}::{name}", f"{space}::{name}.{overload}"}
        return names | {f"torch.ops.{qualified}" for qualified in short}
    if isinstance(target, type):
        return {target.__name__, f"{target.__module__}.{target.__qualname__}"}
    name = str(getattr(target, "__name__", target))
    qualified = qualified_name(target)
    return {name, qualified, qualified.replace("_operator.", "operator.")}


def _is_known(name: str) -> bool:
    """Return whether this torch has an operator or function of this name that a graph can call."""
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
