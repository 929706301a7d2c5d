"""This module applies the user's own pass at a gate: a Python file with a function ``pass_(gm)``.
The pass gets a copy of the graph, which is then checked.

``gm`` is a ``torch.fx.GraphModule``. The pass changes it, or returns another one.
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fx_explorer.capture.graph_copies import copy_attributes, snapshot
from fx_explorer.capture.recording.fx_graphs import CALLS, describe_value, node_value, target_name
from fx_explorer.capture.torch_compat.private_names import FakeTensor, OpOverloadPacket
from fx_explorer.errors import PassProblem
from fx_explorer.folders import typed_path

PassFunction = Callable[[GraphModule], object]

UNCHANGED = "the graph is unchanged"


def load_pass(path: str | Path) -> PassFunction:
    """Return the function ``pass_`` of a file, which is read again each time. Raises PassProblem
    when there is none.
    """
    path = typed_path(str(path))
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PassProblem(
            f"cannot read the pass file {path}: {error.strerror}; give a Python file with "
            "def pass_(gm)"
        ) from error
    module = types.ModuleType("fx_explorer_pass")
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        raise PassProblem(
            f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}{line}; "
            f"{UNCHANGED}"
        ) from error
    # A ``sys.exit`` in the user's file must not end the worker.
    except (Exception, SystemExit) as error:
        message = _message_with_line(error, path)
        raise PassProblem(f"{message}, when the file was loaded; {UNCHANGED}") from error
    function = getattr(module, "pass_", None)
    if not callable(function):
        others = [
            name for name, value in vars(module).items() if isinstance(value, types.FunctionType)
        ]
        has = f"; it has {', '.join(others)}" if others else ""
        raise PassProblem(f"{path} has no function pass_(gm){has}; {UNCHANGED}")
    return function


def apply_pass(path: str | Path, module: GraphModule) -> GraphModule:
    """Return a copy of the graph, changed by the pass; ``module`` itself is never changed.

    Nodes that the pass added or changed get the fake value they compute (``meta["val"]``, or
    Dynamo's ``example_value``): nothing after the gate works without it. Raises PassProblem when
    the pass fails or leaves a graph that cannot be compiled.
    """
    path = typed_path(str(path))
    function = load_pass(path)
    copied = snapshot(module)
    try:
        returned = function(copied)
    except (Exception, SystemExit) as error:
        raise PassProblem(f"{_message_with_line(error, path)}; {UNCHANGED}") from error
    edited = _graph_of(returned, copied, path)
    try:
        check_edited(module, edited)
    except BrokenGraphError as broken:
        raise PassProblem(
            f"pass_ of {path} returns a graph that cannot be compiled: {broken}; {UNCHANGED}"
        ) from broken
    return edited


def _graph_of(returned: object, copied: GraphModule, path: Path) -> GraphModule:
    """Return the graph that a pass results in: the one it was given, the one it returned, or that
    of a PassResult (torch.fx.passes).
    """
    graph = getattr(returned, "graph_module", returned)
    if graph is None:
        return copied
    if not isinstance(graph, GraphModule):
        raise PassProblem(
            f"pass_ of {path} returned {type(returned).__name__}: return a GraphModule, a "
            f"PassResult, or nothing; {UNCHANGED}"
        )
    return graph


def _message_with_line(error: BaseException, path: Path) -> str:
    """Return ``fold.py:12: KeyError: 'gelu'``: the innermost line of the user's file on the stack,
    and the error.
    """
    where = str(path)
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            where = f"{path}:{frame.lineno}"
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    return f"{where}: {message}"


# Checks of an edited graph before it goes back to the compiler.


class BrokenGraphError(Exception):
    """Raised for a graph that cannot run. The message names the problem and the node."""


def check_edited(module: GraphModule, edited: GraphModule) -> None:
    """Check that ``edited`` can replace ``module``, and compute the fake values that it lacks.

    Nodes that are new or changed get the fake value they compute, and so do later nodes as far as
    values differ. Graphs of AOTAutograd must return what they returned, because later stages rely
    on the shapes and types of their outputs. Raises BrokenGraphError.

    Inductor fails far from the cause when a node has no fake value or a target that is not an ATen
    operation; here the node is named.
    """
    try:
        edited.graph.lint()
    except Exception as error:
        raise BrokenGraphError(str(error).strip() or type(error).__name__) from error
    _same_inputs(module, edited)
    before, after = _outputs(module), _outputs(edited)
    if len(before) != len(after):
        raise BrokenGraphError(
            f"it returned {len(before)} values before and returns {len(after)} now"
        )
    copy_attributes(module, edited)
    _NodeValues(module, edited).bring_up_to_date()
    if _is_after_autograd(module):
        _same_outputs(before, after)
    edited.recompile()


def _same_inputs(module: GraphModule, edited: GraphModule) -> None:
    before = {node.name: node for node in module.graph.nodes if node.op == "placeholder"}
    after = {node.name: node for node in edited.graph.nodes if node.op == "placeholder"}
    if list(before) != list(after):
        lost = [name for name in before if name not in after]
        added = [name for name in after if name not in before]
        if lost:
            what = f"{', '.join(lost)} removed"
        elif added:
            what = f"{', '.join(added)} added"
        else:
            what = "their order changed"
        raise BrokenGraphError(f"the pass must not change its inputs, but: {what}")
    for name, node in before.items():
        # A pass that builds the graph again leaves its inputs without metadata.
        after[name].meta = {**node.meta, **after[name].meta}
        if hasattr(node, "_dynamo_source"):
            after[name]._dynamo_source = node._dynamo_source


def _outputs(module: GraphModule) -> list[Any]:
    """Return the values that the graph returns, nodes and constants."""
    last = next(iter(reversed(module.graph.nodes)))
    if last.op != "output":
        raise BrokenGraphError(f"it has no output: its last node is {last.name}")
    value = last.args[0]
    if isinstance(value, (tuple, list)):
        return list(value)
    return [value]


def _same_outputs(before: list[Any], after: list[Any]) -> None:
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        was, now = _described_output(old), _described_output(new)
        if was != now:
            raise BrokenGraphError(
                f"output {position}, {new}, is now {now}, but the following stages expect {was}"
            )


def _described_output(output: Any) -> str:
    if isinstance(output, Node):
        return describe_value(node_value(output))
    return repr(output)


def _is_after_autograd(module: GraphModule) -> bool:
    """Return whether AOTAutograd made the graph: its graphs carry ``val``, those of Dynamo
    ``example_value``.
    """
    return any("val" in node.meta for node in module.graph.nodes)


def _fake_mode(module: GraphModule) -> Any:
    """Return the fake mode of the graph's own values. torch's ``detect_fake_mode`` would prefer the
    next stage's.
    """
    for node in module.graph.nodes:
        value = node_value(node)
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return None


class _NodeValues:
    """Computes the fake values of an edited graph's nodes."""

    def __init__(self, module: GraphModule, edited: GraphModule) -> None:
        self._edited = edited
        self._before = {node.name: node for node in module.graph.nodes}
        self._key = "val" if _is_after_autograd(module) else "example_value"
        self._mode: Any = _fake_mode(module)
        self._differing: set[Node] = set()

    def bring_up_to_date(self) -> None:
        for node in self._edited.graph.nodes:
            is_changed = node.op in CALLS and self._is_changed(node)
            if is_changed and self._key == "val":
                _check_target(node)
            if self._mode is not None and (
                is_changed or not self._differing.isdisjoint(node.all_input_nodes)
            ):
                self._update(node)

    def _is_changed(self, node: Node) -> bool:
        """Return whether the node is new, has other arguments, or has lost its value."""
        before = self._before.get(node.name)
        if before is None or (node_value(node) is None and node_value(before) is not None):
            return True
        mine, theirs = ((n.op, n.target, repr(n.args), repr(n.kwargs)) for n in (node, before))
        return mine != theirs

    def _update(self, node: Node) -> None:
        if node.op not in CALLS:
            return
        value = self._computed(node)
        if _looks(value) != _looks(node_value(node)):
            node.meta[self._key] = value
            self._differing.add(node)

    def _computed(self, node: Node) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), self._value)
        try:
            with self._mode, torch.no_grad():
                return self._call(node, args, kwargs)
        except Exception as error:
            reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
            what = f"node {node.name}, {target_name(node)}, does not accept its inputs"
            raise BrokenGraphError(f"{what}: {reason}") from error

    def _call(self, node: Node, args: Any, kwargs: Any) -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_module":
            return self._edited.get_submodule(str(node.target))(*args, **kwargs)
        return node.target(*args, **kwargs)

    def _value(self, node: Node) -> Any:
        value = node_value(node)
        if value is None and node.op == "get_attr":
            return self._attribute(str(node.target))
        return value

    def _attribute(self, target: str) -> Any:
        """Return a constant as a fake tensor, or a nested graph as it is."""
        value: Any = self._edited
        for name in target.split("."):
            value = getattr(value, name)
        if isinstance(value, torch.Tensor):
            return self._mode.from_tensor(value)
        return value


def _looks(value: Any) -> str:
    """Return dtype and sizes as text, because comparing symbolic sizes would add a guard."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        layout = f" {value.stride()} {value.device}"
    else:
        layout = ""
    return describe_value(value) + layout


_PLAIN_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    OpOverloadPacket,
)


def _check_target(node: Node) -> None:
    """Raise for a target that Inductor cannot lower. It lowers overloads
    (``torch.ops.aten.relu.default``), higher-order ops, and Python's arithmetic on sizes.
    """
    module = getattr(node.target, "__module__", "") or ""
    is_sizes = module in ("_operator", "operator", "math") or target_name(node).startswith(
        "torch.sym_"
    )
    if node.op != "call_function" or (isinstance(node.target, _PLAIN_FUNCTIONS) and not is_sizes):
        like = "use an overload such as torch.ops.aten.relu.default"
        raise BrokenGraphError(
            f"node {node.name}: {node.op} of {target_name(node)} is not allowed in an AOTAutograd "
            f"graph; {like}"
        )
