"""This module puts the values that Dynamo traces with into words: ``tensor f32[8, 16] from the
argument x``, ``number 3 from n, guarded``, ``list of 2``.

Dynamo's values are its VariableTrackers (torch/_dynamo/variables). What they are is read from their
``__dict__`` alone: to ask a lazy one for an attribute, or whether it is an instance of a class,
would make Dynamo look at the value, and so change what it guards. No code of the program's runs.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

import torch

from fx_explorer.capture.dynamo.source_names import name_of_source
from fx_explorer.capture.recording.described import class_name, described
from fx_explorer.capture.recording.function_names import qualified_name
from fx_explorer.capture.torch_compat.private_names import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
)

MAX_SHOWN = 120
"""Maximum number of characters of one value."""

FEW_MEMBERS = 4

IsGuarded = Callable[[Any], bool]
"""Returns whether there is a guard on a source."""

_OF_A_CLASS = re.compile(r"(?<!^)(?=[A-Z])")


def describe_symbolic(value: Any, is_guarded: IsGuarded, depth: int = 1) -> str:
    """Return a value of Dynamo's in words."""
    text = _describe(value, is_guarded, depth)
    if len(text) <= MAX_SHOWN:
        return text
    return text[: MAX_SHOWN - 1] + "…"


def state_of(value: Any) -> int:
    """Return a number that is another one when the words for a value may have changed, though it is
    the same object: a lazy one that was looked at, a list that grew.
    """
    kind = _state_field(cast("Any", type(value)))
    if not kind:
        return 0
    fields = value.__dict__
    if kind == "lazy":
        realized = fields["_cache"].vt
        return 0 if realized is None else 1 + state_of(realized)
    return len(fields[kind])


@cache
def _state_field(kind: type) -> str:
    return _KINDS_WITH_STATE.get(kind.__name__, "")


_KINDS_WITH_STATE: dict[str, str] = {
    "LazyVariableTracker": "lazy",
    "LazyConstantVariable": "lazy",
    "ListVariable": "items",
    "DequeVariable": "items",
    "ConstDictVariable": "items",
    "SetVariable": "items",
}
"""Class of a value that may change → the field with its members, or ``lazy``."""


def _describe(value: Any, is_guarded: IsGuarded, depth: int) -> str:
    fields: Mapping[str, Any] = value.__dict__
    name = type(value).__name__
    if "_cache" in fields and name.startswith("Lazy"):
        realized = fields["_cache"].vt
        if realized is not None:
            return _describe(realized, is_guarded, depth)
        return f"{_describe_lazy(fields['_cache'])}{origin(fields)}, not looked at yet"
    describe = _describer(cast("Any", type(value)))
    if describe is not None:
        text = describe(fields, is_guarded, depth)
    else:
        text = _any_other(name, fields)
    if describe is _attribute:  # its owner has an origin already
        return text
    return f"{text}{origin(fields)}{_guarded(fields, is_guarded)}"


def _describe_lazy(lazy: Any) -> str:
    value = lazy.value
    if issubclass(type(value), torch.Tensor):
        return f"tensor {described(value)}"
    return _of_python(value)


def origin(fields: Mapping[str, Any]) -> str:
    """Return `` from the argument x``, `` from self.weight``; empty for a value that the function
    made.
    """
    source = fields.get("source")
    name = name_of_source(source)
    if not name:
        return ""
    if getattr(source, "is_input", False) and getattr(source, "local_name", "") == name:
        return f" from the argument {name}"
    return f" from {name}"


def _guarded(fields: Mapping[str, Any], is_guarded: IsGuarded) -> str:
    source = fields.get("source")
    if source is not None and is_guarded(source):
        return ", guarded"
    return ""


# The kinds of values.

Describer = Callable[[Mapping[str, Any], IsGuarded, int], str]


def _tensor(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    node = getattr(fields.get("proxy"), "node", None)
    example = node.meta.get("example_value") if node is not None else None
    shape = described(example) if isinstance(example, torch.Tensor) else ""
    name = ""
    if node is not None and fields.get("source") is None:
        name = f", node {node.name}"
    return f"tensor {shape}{name}".strip()


def _symbolic_number(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    number = fields.get("sym_num")
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return f"number {number}, dynamic"
    return "number, dynamic"


def _constant(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return _of_python(fields.get("value"))


def _of_python(value: Any) -> str:
    """Return words for a Python value. Of an object of the program's, only its class is asked."""
    kind = type(value)
    if kind in (int, float, complex):
        return f"number {described(value)}"
    if kind in _PLAIN:
        return described(value)
    if issubclass(kind, torch.nn.Module):
        return f"module {class_name(kind)}"
    if issubclass(kind, types.ModuleType):
        name = types.ModuleType.__getattribute__(value, "__dict__").get("__name__", "")
        return f"Python module {name}"
    if issubclass(kind, type):
        return f"class {class_name(value)}"
    name = _name(value)
    return f"function {name}" if name else f"object of class {class_name(kind)}"


_PLAIN = (
    bool,
    str,
    bytes,
    type(None),
    list,
    tuple,
    set,
    frozenset,
    dict,
    torch.dtype,
    torch.device,
    types.CodeType,
)
"""Types whose values are described as everywhere: none has code of the program's."""


def _sequence(kind: str, fields: Mapping[str, Any], is_guarded: IsGuarded, depth: int) -> str:
    members = fields.get("items")
    if not isinstance(members, Sequence):
        return kind
    if not depth or not members:
        return f"{kind} of {len(members)}"
    shown = [describe_symbolic(member, is_guarded, depth - 1) for member in members[:FEW_MEMBERS]]
    more = ", …" if len(members) > FEW_MEMBERS else ""
    return f"{kind} of {len(members)}: {', '.join(shown)}{more}"


def _collection(kind: str, fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"{kind} of {len(fields.get('items', ()))}"


def _function(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    function = fields.get("fn")
    if type(function) is types.FunctionType:
        return f"function {qualified_name(function.__code__)}"
    code = fields.get("code")  # of a function that the function itself defines
    code = getattr(code, "__dict__", {}).get("value", code)
    if isinstance(code, types.CodeType):
        return f"function {qualified_name(code)}"
    return f"function {_name(function)}".strip()


def _method(fields: Mapping[str, Any], is_guarded: IsGuarded, depth: int) -> str:
    return _function(fields, is_guarded, depth).replace("function", "method", 1)


def _of_torch(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"operator {_name(fields.get('value'))}".strip()


def _builtin(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"Python's {_name(fields.get('fn'))}"


def _skipped(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"function {_name(fields.get('value'))}, which Dynamo does not trace"


def _module(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"module {class_name(type(fields.get('value')))}"


def _held_module(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"module {_name(fields.get('module_type'))}".strip()


def _object(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"object of class {class_name(type(fields.get('value')))}"


def _class(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    return f"class {_name(fields.get('value'))}"


def _attribute(fields: Mapping[str, Any], is_guarded: IsGuarded, depth: int) -> str:
    owner = fields.get("obj")
    if owner is None or not depth:
        return f"attribute {fields.get('name')}"
    return f"{fields.get('name')} of {describe_symbolic(owner, is_guarded, 0)}"


def _generator(fields: Mapping[str, Any], _: IsGuarded, __: int) -> str:
    code = fields.get("code")
    if isinstance(code, types.CodeType):
        return f"generator {qualified_name(code)}"
    return "generator"


def _with_exit(_: Mapping[str, Any], __: IsGuarded, ___: int) -> str:
    return "exit of a with block"


def _null(_: Mapping[str, Any], __: IsGuarded, ___: int) -> str:
    return "NULL"


_DESCRIBERS: dict[str, Describer] = {
    "TensorVariable": _tensor,
    "SymNodeVariable": _symbolic_number,
    "ConstantVariable": _constant,
    "EnumVariable": _constant,
    "ListVariable": partial(_sequence, "list"),
    "TupleVariable": partial(_sequence, "tuple"),
    "ConstDictVariable": partial(_collection, "dict"),
    "SetVariable": partial(_collection, "set"),
    "UserMethodVariable": _method,
    "BaseUserFunctionVariable": _function,
    "TorchInGraphFunctionVariable": _of_torch,
    "BaseTorchVariable": _of_torch,
    "TorchHigherOrderOperatorVariable": _of_torch,
    "BaseBuiltinVariable": _builtin,
    "BuiltinVariable": _builtin,
    "SkipFunctionVariable": _skipped,
    "UnspecializedNNModuleVariable": _module,
    "NNModuleVariable": _held_module,
    "PythonModuleVariable": _constant,
    "UserDefinedObjectVariable": _object,
    "UserDefinedClassVariable": _class,
    "GetAttrVariable": _attribute,
    "LocalGeneratorObjectVariable": _generator,
    "WithExitFunctionVariable": _with_exit,
    "NullVariable": _null,
}
"""Class of a value, or its nearest base class here → what describes it."""


@cache
def _describer(kind: type) -> Describer | None:
    for base in kind.__mro__:
        if base.__name__ in _DESCRIBERS:
            return _DESCRIBERS[base.__name__]
    return None


def _any_other(name: str, fields: Mapping[str, Any]) -> str:
    """Return the name of Dynamo's class in words: ``slice``, ``zip``, ``grad mode``; and what it
    stands for, where that has a name.
    """
    kind = _OF_A_CLASS.sub(" ", name.removesuffix("Variable")).lower()
    what = _name(fields.get("fn")) or _name(fields.get("value"))
    return f"{kind} {what}".strip()


_NAMED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    OpOverload,
    OpOverloadPacket,
    HigherOrderOperator,
)
"""Types whose ``__name__`` is no code of the program's."""


def _name(value: Any) -> str:
    """Return the name of a function, an operator or a class; empty for anything else."""
    kind = type(value)
    if issubclass(kind, type):
        return class_name(value)
    if issubclass(kind, _NAMED):
        return str(getattr(value, "__name__", ""))
    return ""
