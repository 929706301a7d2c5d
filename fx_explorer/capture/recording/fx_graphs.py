"""This module makes the rows of FX graphs from ``node.meta`` of each node, in the session's terms.

Reads live ``torch.fx`` objects and keeps none of them. Meta keys are set in torch/fx/proxy.py,
torch/fx/traceback.py, torch/_dynamo/output_graph.py and
torch/_functorch/_aot_autograd/graph_capture.py.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.fx.node

from fx_explorer.capture.recording.sources import Sources
from fx_explorer.capture.torch_compat.private_names import (
    HigherOrderOperator,
    OpOverload,
    python_dispatch,
)
from fx_explorer.model import Node

CALLS = ("call_function", "call_method", "call_module")

DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
"""Short names as torch prints them (torch/fx/graph.py, ``dtype_abbrs``)."""

MAX_ARGUMENTS = 2_000
"""Maximum number of characters of one node's arguments. Longer ones are constants written out."""

_VIEWS = {
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten._reshape_alias.default",
    "aten.expand.default",
    "aten.detach.default",
    "aten.alias.default",
    "aten.lift_fresh_copy.default",
    "prims.broadcast_in_dim.default",
    "inductor.view.default",
}
_NOT_COMPUTING = re.compile(
    r"^(aten\.(sym_|_assert|_local_scalar)|prims\.(inductor_force|_make_token|_sink_tokens)"
    r"|math\.|torch\.sym_"
    # Memory without values: no kernel is generated for it.
    r"|aten\.(new_)?empty(_like|_strided|_permuted)?\.)"
)


def short_dtype(dtype: torch.dtype) -> str:
    return DTYPES.get(dtype) or str(dtype).removeprefix("torch.")


def target_name(node: torch.fx.Node) -> str:
    """Return ``aten.mul.Tensor``, ``torch._C._nn.gelu``, or the name of an attribute or method."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload):
        return str(target)
    if target is operator.getitem:
        return "operator.getitem"
    return qualified_name(target)


def qualified_name(target: Any) -> str:
    """Return ``torch._C._nn.gelu``; for a callable that belongs to no module, its own name."""
    try:
        return torch.fx.node._get_qualified_name(target)
    except (RuntimeError, AttributeError):  # raised for functools.partial, for example
        return str(getattr(target, "__name__", None) or target)


def arguments(node: torch.fx.Node) -> str:
    """Return the arguments as FX code would write them: ``view_1, 0.5, memory_format =
    torch.contiguous_format``.
    """
    parts = [_argument(value) for value in node.args]
    parts += [f"{name} = {_argument(value)}" for name, value in node.kwargs.items()]
    text = ", ".join(parts)
    if len(text) <= MAX_ARGUMENTS:
        return text
    return text[:MAX_ARGUMENTS] + " …"


def _argument(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return value.name
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_argument(item) for item in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        pairs = [f"{key!r}: {_argument(item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, slice):
        return f"slice({_argument(value.start)}, {_argument(value.stop)}, {_argument(value.step)})"
    if isinstance(value, (torch.dtype, torch.device, torch.layout)):
        return str(value)
    return repr(value)


def node_value(node: torch.fx.Node) -> Any:
    """Return the fake tensor (or number) that Dynamo or AOTAutograd computed for the node; None
    without one.
    """
    value = node.meta.get("val")
    if value is None:
        return node.meta.get("example_value")
    return value


def sizes(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


def describe_value(value: Any) -> str:
    """Describe a value that is not a single tensor: ``(f32[4], i64[2, 3])``, ``Sym(s77)``."""
    if isinstance(value, torch.Tensor):
        return f"{short_dtype(value.dtype)}[{', '.join(sizes(value.shape))}]"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe_value(item) for item in value) + ")"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return f"Sym({value})"
    if value is None or isinstance(value, (int, float, bool, str)):
        return repr(value)
    value = getattr(value, "real_obj", value)  # what torch traces in its stead
    mesh = mesh_text(value)
    if mesh:
        return f"{type(value).__name__}({mesh})"
    return type(value).__name__


def mesh_text(value: Any) -> str:
    """Return ``dp=2, tp=4`` for a mesh of devices: its dimensions by name, else by number; empty
    for anything else.
    """
    value = getattr(value, "real_obj", value)  # what torch traces in its stead
    if type(value).__name__ != "DeviceMesh":
        return ""
    names = value.mesh_dim_names or tuple(f"dim {at}" for at in range(value.ndim))
    return ", ".join(f"{name}={size}" for name, size in zip(names, tuple(value.shape), strict=True))


def _tensor_text(node: torch.fx.Node, value: torch.Tensor) -> str:
    """Return the properties of a tensor beyond dtype and shape; empty for a plain tensor.

    For a tensor subclass that is its class and the tensors in it; for an input of AOTAutograd,
    which of these tensors it is.
    """
    if python_dispatch.is_traceable_wrapper_subclass(value):
        return _subclass_text(value)
    description = node.meta.get("desc")
    inner = type(description).__name__ == "SubclassGetAttrAOTInput"
    if inner and description is not None:
        return f"{describe_value(value)}, inner tensor {description.attr}"
    return ""


def _subclass_text(value: torch.Tensor) -> str:
    """Return ``TwoTensor(a: f32[4, 8], b: f32[4, 8])``."""
    if not python_dispatch.is_traceable_wrapper_subclass(value):
        return describe_value(value)
    names, _ = value.__tensor_flatten__()
    parts = {name: _subclass_text(getattr(value, name)) for name in names}
    if type(value).__name__ == "DTensor":
        # The mesh is an object beside the tensor in some releases, and part of its type in others.
        parts["device_mesh"] = describe_value(getattr(value, "device_mesh", None))
        parts["placements"] = ", ".join(map(placement_text, getattr(value, "placements", ())))
    inner = ", ".join(f"{name}: {text}" for name, text in parts.items())
    return f"{type(value).__name__}({inner})"


def placement_text(placement: Any) -> str:
    """Return ``Shard(0)``, ``Replicate()`` or ``Partial(sum)``, as in user code."""
    kind = type(placement).__name__
    given = [
        str(getattr(placement, name)) for name in ("dim", "reduce_op") if hasattr(placement, name)
    ]
    return f"{kind}({', '.join(given)})"


def _object_text(node: torch.fx.Node, value: Any) -> str:
    """Describe an object that is not a tensor. An input of AOTAutograd may be an attribute of a
    tensor subclass, such as the mesh of a DTensor.
    """
    description = node.meta.get("desc")
    is_attribute = type(description).__name__ == "SubclassGetAttrAOTInput"
    if is_attribute and description:
        of_tensor = f", attribute {description.attr}"
    else:
        of_tensor = ""
    return f"{describe_value(value)}{of_tensor}"


def has_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(has_tensor(item) for item in value)
    return isinstance(value, torch.Tensor)


def computes_nothing(node: torch.fx.Node, target: str) -> bool:
    """Return whether no kernel can be expected for the node: views, getitems, sizes, memory not yet
    written, inputs, the output. For Python's own operators the result decides: ``mul`` of two sizes
    computes nothing, ``mul`` of two tensors does.
    """
    if node.op not in CALLS or target in _VIEWS or _NOT_COMPUTING.match(target):
        return True
    if node.target is operator.getitem:
        return not _gathers(node)
    if isinstance(node.target, OpOverload) and node.target.is_view:
        return True
    value = node_value(node)
    return value is not None and not has_tensor(value)


def _gathers(node: torch.fx.Node) -> bool:
    """Return whether a getitem gathers elements of a tensor, by the index in another tensor or a
    list. Any other getitem selects one of several results, or views a part of a tensor.
    """
    taken, index = node.args
    if not isinstance(taken, torch.fx.Node) or not isinstance(node_value(taken), torch.Tensor):
        return False
    places = index if isinstance(index, tuple) else [index]
    return any(map(_is_places, places))


def _is_places(index: Any) -> bool:
    """Return whether a part of an index is a list of places, or a tensor of them."""
    is_tensor = isinstance(index, torch.fx.Node) and isinstance(node_value(index), torch.Tensor)
    return is_tensor or isinstance(index, (list, tuple))


_SELF = re.compile(r"^(?:L\[['\"]\w+['\"]\]|L__\w+?___?|self)\.?")
_INDEX = re.compile(r"(?:\._modules)?\[['\"]?(\w+)['\"]?\]")


@lru_cache(maxsize=4_096)  # the nodes of a module share it, in every graph
def module_path(path: str) -> str:
    """Return ``fc1`` for ``L['self']._modules['fc1']``, ``layers.0`` for ``L['self'].layers.0``,
    and ``model.head`` for ``L['self'].__dict__['model'].head``.
    """
    inner = _INDEX.sub(r".\1", _SELF.sub(".", path, count=1))
    parts = inner.split(".")
    return ".".join(part for part in parts if part not in ("", "_modules", "__dict__"))


def module_of(node: torch.fx.Node, renamed: Callable[[str], str] = str) -> tuple[str, str]:
    """Return (path, type name) of the innermost nn.Module in whose forward the node was traced;
    empty when unknown. ``renamed`` maps to the source from which the module's path is read.
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return "", ""
    path, module_type = next(reversed(stack.values()))
    if isinstance(module_type, str):
        name = module_type
    else:
        name = getattr(module_type, "__name__", str(module_type))
    return module_path(renamed(str(path))), name.rpartition(".")[2]


def subgraph_names(node: torch.fx.Node) -> tuple[str, ...]:
    """Return the attribute names of the nested graphs that a higher-order op calls, or of the graph
    that is called as a module (a partition of ``torch.fx.passes``).
    """
    if node.op == "call_module":
        name = str(node.target)
        if isinstance(submodule(node.graph.owning_module, name), torch.fx.GraphModule):
            return (name,)
        return ()
    if node.op != "call_function" or not isinstance(node.target, HigherOrderOperator):
        return ()
    return tuple(str(arg.target) for arg in node.all_input_nodes if arg.op == "get_attr")


def submodule(module: torch.nn.Module | None, name: str) -> object:
    """Return the object at the dotted ``name`` below ``module``; None without one."""
    value: object = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def node_row(node: torch.fx.Node, sources: Sources, renamed: Callable[[str], str] = str) -> Node:
    """Return everything that the session stores about ``node``. The writer fills in ids and
    position. ``renamed`` is as in ``module_of``.
    """
    target = target_name(node)
    value = node_value(node)
    place = sources.place(node.meta.get("stack_trace") or "")
    module, module_type = module_of(node, renamed)
    seq_nr = node.meta.get("seq_nr")
    if seq_nr is None:
        seq_nr = -1
    arguments_text = ""
    if node.op != "placeholder":
        arguments_text = arguments(node)
    shape, stride, dtype, device, value_text = None, None, "", "", ""
    if isinstance(value, torch.Tensor):
        shape, stride = sizes(value.shape), _strides(value)
        dtype, device = short_dtype(value.dtype), str(value.device)
        value_text = _tensor_text(node, value)
    elif value is not None:
        value_text = _object_text(node, value)
    return Node(
        id=0,
        graph=0,
        position=0,
        name=node.name,
        op=node.op,
        target=target,
        arguments=arguments_text,
        shape=shape,
        dtype=dtype,
        stride=stride,
        device=device,
        value=value_text,
        stack=place.stack,
        file=place.file,
        line=place.line,
        module=module,
        module_type=module_type,
        annotations=plain(node.meta.get("custom")),
        seq_nr=seq_nr,
        is_backward=bool(node.meta.get("autograd_backward"))
        or node.meta.get("partitioner_tag") == "is_backward",
        is_view=computes_nothing(node, target),
        subgraph_names=subgraph_names(node),
    )


_META_OF_A_ROW = (
    "val",
    "example_value",
    "stack_trace",
    "nn_module_stack",
    "fwd_nn_module_stack",
    "desc",
    "seq_nr",
    "autograd_backward",
    "partitioner_tag",
)
"""Keys of ``node.meta`` that ``node_row`` reads, except for annotations, which are changed in
place.
"""


class NodeRows:
    """Makes the rows of nodes. Most nodes of a graph are those of an earlier one, or copies that
    share the content of their meta; such a node gets the earlier row again.
    """

    def __init__(self, sources: Sources, renamed: Callable[[str], str] = str) -> None:
        self._sources = sources
        self._renamed = renamed
        self._known: dict[str, tuple[list[object], Node]] = {}
        """Name of a node → its latest row, and the values from which the row was made."""

    def forget(self) -> None:
        """Drop the nodes of earlier graphs."""
        self._known.clear()

    def of(self, node: torch.fx.Node) -> Node:
        if node.op == "call_module" or isinstance(
            node.target, HigherOrderOperator
        ):  # it may call a graph
            return node_row(node, self._sources, self._renamed)
        made_of = [node.op, node.target, *map(node.meta.get, _META_OF_A_ROW)]
        before, row = self._known.get(node.name, ((), None))
        if (
            row is not None
            and all(map(operator.is_, before, made_of))
            and _has_arguments_of(row, node)
        ):
            return row
        row = node_row(node, self._sources, self._renamed)
        self._known[node.name] = made_of, row
        return row


def _has_arguments_of(row: Node, node: torch.fx.Node) -> bool:
    """Return whether a row has the arguments and annotations that its node has now. They are
    changed in place.
    """
    written = "" if node.op == "placeholder" else arguments(node)
    return row.arguments == written and row.annotations == plain(node.meta.get("custom"))


def _strides(value: torch.Tensor) -> tuple[str, ...] | None:
    if value.layout != torch.strided:
        return None
    return sizes(value.stride())


def plain(custom: Any) -> dict[str, object] | None:
    """Return annotations as JSON can hold them; values of other types become their repr."""
    if not isinstance(custom, dict) or not custom:
        return None
    annotations: dict[str, object] = {}
    for key, value in custom.items():
        is_json = isinstance(value, (str, int, float, bool, dict, list))
        annotations[str(key)] = value if is_json else repr(value)
    return annotations


def edges(graph: torch.fx.Graph) -> Iterator[tuple[int, int]]:
    """Yield (producer, consumer) positions of every use."""
    position = {node: i for i, node in enumerate(graph.nodes)}
    for consumer, i in position.items():
        for producer in consumer.all_input_nodes:
            yield position[producer], i


def nested_graphs(
    module: torch.fx.GraphModule,
) -> Iterator[tuple[torch.fx.Node, str, torch.fx.GraphModule]]:
    """Yield (first call, attribute name, graph) of each subgraph that a higher-order op of
    ``module`` calls, in order, once each.
    """
    seen: set[str] = set()
    for node in module.graph.nodes:
        for name in subgraph_names(node):
            inner = submodule(module, name)
            if isinstance(inner, torch.fx.GraphModule) and name not in seen:
                seen.add(name)
                yield node, name, inner


def is_region_call(node: torch.fx.Node) -> bool:
    """Return whether a node calls a nested compile region."""
    return isinstance(node.target, HigherOrderOperator) and node.target.name() == "invoke_subgraph"


def region_label(call: torch.fx.Node, inner: torch.fx.GraphModule, sources: Sources) -> str:
    """Return the name of the user's function that the region ``inner`` contains: the first one on
    its nodes' stacks beyond the call's stack.
    """
    if not is_region_call(call):
        return ""
    depth = len(sources.parse(call.meta.get("stack_trace") or ""))
    stacks = (sources.parse(node.meta.get("stack_trace") or "") for node in inner.graph.nodes)
    function = next((frames[depth].function for frames in stacks if len(frames) > depth), "")
    _, module_type = module_of(call)
    if function and hasattr(_class_of_module(call), function):
        return f"{module_type}.{function}"
    return function


def _class_of_module(node: torch.fx.Node) -> object:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return None
    return list(stack.values())[-1][1]
