"""This module makes the fingerprint of a graph from Dynamo: lines that describe its computation, to
compare two graphs of one model.

Names of nodes, the order of the inputs and the switches of grad mode are left out. A custom
``autograd.Function`` stands as the operations of its forward: with gradients Dynamo wraps them,
without it does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.node import map_arg

from fx_explorer.capture.torch_compat.private_names import OpOverload, tree_leaves

_SWITCH = "_set_grad_enabled"
_CUSTOM_FUNCTION = "autograd_function_apply"
_MASK_OF_FAST_PATH = {"_transformer_encoder_layer_fwd": 18, "_native_multi_head_attention": 9}
"""Operator → the position of the mask among its arguments."""
_LARGEST_CONSTANT = 4096
"""Maximum number of elements of a constant that is compared by value; a larger constant only equals
itself.
"""


@dataclass(frozen=True)
class OperationPrint:
    """An OperationPrint describes one operation for comparison: what it computes, from which
    values, and the types and sizes of its results.

    Strides are left out: kernels choose them, and choose differently without gradients. A program
    that asks for strides has the answer as a constant in its graph.
    """

    text: str
    line: str = field(default="", compare=False)
    """The user's line, ``model.py:12: return x * 2``."""


def operations(gm: torch.fx.GraphModule) -> tuple[OperationPrint, ...]:
    return tuple(_Reader().read(gm, {}))


def lowered(gm: torch.fx.GraphModule) -> tuple[OperationPrint, ...]:
    """Return the ATen operations of the forward, in torch's present state: they show what Dynamo's
    own operations do not, such as inner types.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = [node.meta["example_value"] for node in gm.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        return operations(make_fx(gm)(*inputs))


def turns_gradients_on(gm: torch.fx.GraphModule) -> bool:
    """Return whether the code asks for gradients itself; asked of a graph that was traced without
    them.
    """
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        if any(_is_switch(node) and node.args[0] is True for node in module.graph.nodes):
            return True
    return False


def takes_fast_path(gm: torch.fx.GraphModule) -> bool:
    """Return whether attention of torch.nn runs as one fused kernel, as it does without gradients.
    With a mask it may compute less.
    """
    names = _MASK_OF_FAST_PATH
    calls = [node for node in gm.graph.nodes if getattr(node.target, "__name__", "") in names]
    return bool(calls) and all(_mask_of(node) is None for node in calls)


def _mask_of(node: torch.fx.Node) -> object:
    index = _MASK_OF_FAST_PATH[str(getattr(node.target, "__name__", ""))]
    if len(node.args) > index:
        return node.args[index]
    return node.kwargs.get("mask")


def computed_with_gradients(gm: torch.fx.GraphModule) -> bool:
    """Return whether something that the graph computes requires gradients."""
    computed = [node for node in gm.graph.nodes if node.op.startswith("call")]
    values = [node.meta.get("example_value") for node in computed]
    leaves = tree_leaves(values)
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


def first_difference(ours: tuple[OperationPrint, ...], theirs: tuple[OperationPrint, ...]) -> str:
    """Return a description of the first difference of the second fingerprint from the first; empty
    when they are equal.
    """
    for operation_print, other in zip(ours, theirs, strict=False):
        if operation_print != other:
            where = other.line or operation_print.line or "an operation"
            becomes, was = (
                _distinguish(other, operation_print),
                _distinguish(operation_print, other),
            )
            return f"{where} becomes {becomes}, and was {was} before"
    if len(ours) == len(theirs):
        return ""
    longer = max(ours, theirs, key=len)
    extra = longer[min(len(ours), len(theirs))]
    if longer is theirs:
        verb = "is computed only then"
    else:
        verb = "is not computed then"
    return f"{extra.line or _short(extra.text)} {verb}"


class _Reader:
    def __init__(self) -> None:
        self._count = 0

    def read(
        self, gm: torch.fx.GraphModule, names: dict[torch.fx.Node, object]
    ) -> Iterator[OperationPrint]:
        """Read the operations of a graph. ``names`` maps each node so far to its name, or to a
        tuple for the outputs of a custom function.
        """
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                # The inputs of a body that is inlined have their names already.
                names.setdefault(node, f"input {node.target}")
            elif node.op == "get_attr":
                is_body = all(map(_is_custom_function, node.users))
                names[node] = "" if is_body else _constant(gm, str(node.target))
            elif node.op == "output":
                returned = map_arg(node.args[0], lambda arg: _Name(names[arg]))
                yield OperationPrint(f"return {returned}")
            elif _is_switch(node):
                names[node] = "nothing"
            elif _only_lays_out(node, gm):
                names[node] = names[node.args[0]]
            elif (item := self._item(node, names)) is not None:
                names[node] = item
            elif body := _forward_of_custom_function(gm, node):
                yield from self._inlined(body, node, names)
            else:
                yield self._operation(node, names)

    def _operation(self, node: torch.fx.Node, names: dict[torch.fx.Node, object]) -> OperationPrint:
        self._count += 1
        names[node] = f"%{self._count}"
        args, kwargs = map_arg((node.args, node.kwargs), lambda arg: _Name(names[arg]))
        if isinstance(node.target, str):
            target = node.target
        else:
            target = _name_of(node.target)
        written = [repr(arg) for arg in args]
        written += [f"{key}={value!r}" for key, value in kwargs.items()]
        result = _described(node.meta.get("example_value", node.meta.get("val")))
        text = f"{target}({', '.join(written)}) -> {result}"
        return OperationPrint(text, _line(node.meta.get("stack_trace") or ""))

    def _item(self, node: torch.fx.Node, names: dict[torch.fx.Node, object]) -> object | None:
        """Return the output of a custom function that ``node`` takes."""
        if _name_of(node.target) != "_operator.getitem" or not isinstance(
            node.args[0], torch.fx.Node
        ):
            return None
        outputs = names.get(node.args[0])
        if isinstance(outputs, tuple) and isinstance(node.args[1], int):
            return outputs[node.args[1]]
        return None

    def _inlined(
        self, body: torch.fx.GraphModule, node: torch.fx.Node, names: dict[torch.fx.Node, object]
    ) -> Iterator[OperationPrint]:
        inputs = [inner for inner in body.graph.nodes if inner.op == "placeholder"]
        inner_names: dict[torch.fx.Node, object] = {}
        # The first two arguments are the bodies of forward and backward.
        for inner, arg in zip(inputs, node.args[2:], strict=True):
            inner_names[inner] = _name_or_repr(arg, names)
        for operation in self.read(body, inner_names):
            if not operation.text.startswith("return "):
                yield operation
        outputs = next(iter(reversed(body.graph.nodes))).args[0]
        results = outputs[0] if isinstance(outputs, tuple) else outputs
        if not isinstance(results, (tuple, list)):
            results = (results,)
        names[node] = tuple(_name_or_repr(result, inner_names) for result in results)


class _Name:
    """Prints as a node's name in the text of arguments."""

    def __init__(self, name: object) -> None:
        self._name = name

    def __repr__(self) -> str:
        return str(self._name)


def _is_switch(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == _SWITCH


def _only_lays_out(node: torch.fx.Node, gm: torch.fx.GraphModule) -> bool:
    """Return whether the node is a ``contiguous()`` whose copy makes no difference: nothing is
    changed in place, and no input is aliased.

    nn.MultiheadAttention calls it only where gradients are off.
    """
    if node.target != "contiguous" or not isinstance(node.args[0], torch.fx.Node):
        return False
    inputs = [each.meta.get("example_value") for each in gm.graph.nodes if each.op == "placeholder"]
    storages = {_storage(value) for value in inputs if isinstance(value, torch.Tensor)}
    value = node.args[0].meta.get("example_value")
    return (
        isinstance(value, torch.Tensor)
        and _storage(value) not in storages
        and not any(map(_changes, gm.graph.nodes))
    )


def _storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def _changes(node: torch.fx.Node) -> bool:
    """Return whether a node may change a tensor in place: ``add_``, ``__setitem__``, ``out=``, an
    operator of more than torch.
    """
    name = str(getattr(node.target, "__name__", node.target))
    return node.op.startswith("call") and (
        (name.endswith("_") and not name.endswith("__"))
        or name.startswith(("__i", "i", "__set", "set"))
        or "out" in node.kwargs
    )


def _is_custom_function(node: torch.fx.Node) -> bool:
    return getattr(node.target, "_name", "") == _CUSTOM_FUNCTION


def _forward_of_custom_function(
    gm: torch.fx.GraphModule, node: torch.fx.Node
) -> torch.fx.GraphModule | None:
    if not _is_custom_function(node) or not isinstance(node.args[0], torch.fx.Node):
        return None
    body: Any = gm.get_submodule(str(node.args[0].target))
    inputs = sum(inner.op == "placeholder" for inner in body.graph.nodes)
    if inputs != len(node.args) - 2:
        return None
    return body


def _constant(gm: torch.fx.GraphModule, target: str) -> str:
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.fx.GraphModule):
        inputs = [node for node in value.graph.nodes if node.op == "placeholder"]
        inside = _Reader().read(
            value, {node: f"operand {index}" for index, node in enumerate(inputs)}
        )
        return f"graph {[operation.text for operation in inside]}"
    if (
        isinstance(value, torch.Tensor)
        and 0 < value.numel() <= _LARGEST_CONSTANT
        and type(value) is torch.Tensor
    ):
        content = repr(value.detach().cpu().reshape(-1).tolist()).encode()
        return f"constant {_described(value)} {hashlib.sha256(content).hexdigest()}"
    return f"constant {id(value)}"


def _name_of(target: object) -> str:
    if isinstance(target, OpOverload):
        return str(target)
    named = (
        getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or str(target)
    )
    return f"{getattr(target, '__module__', None) or ''}.{named}"


def _name_or_repr(value: object, names: dict[torch.fx.Node, object]) -> object:
    if isinstance(value, torch.fx.Node):
        return names[value]
    return repr(value)


def _described(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {value.device} {tuple(map(str, value.shape))}"
    if isinstance(value, (tuple, list)):
        return str([_described(item) for item in value])
    return str(value)


def _line(stack: str) -> str:
    """Return the innermost line of a stack as FX keeps it."""
    lines = []
    for line in map(str.strip, stack.splitlines()):
        is_mark = set(line) <= set("^~")
        if line and not is_mark:
            lines.append(line)
    places = [(index, line) for index, line in enumerate(lines) if line.startswith('File "')]
    if not places:
        return ""
    index, place = places[-1]
    file, _, rest = place.removeprefix('File "').partition('", line ')
    code = lines[index + 1] if index + 1 < len(lines) else ""
    return f"{file}:{rest.partition(',')[0]}: `{code}`"


def _distinguish(operation: OperationPrint, other: OperationPrint) -> str:
    """Return how two operations differ: in the call, or in the result of the same call."""
    call, _, result = operation.text.partition(" -> ")
    other_call = other.text.partition(" -> ")[0]
    if call == other_call:
        return _short(result)
    return _short(call)


def _short(text: str) -> str:
    if len(text) <= 100:
        return text
    return f"{text[:97]}..."
