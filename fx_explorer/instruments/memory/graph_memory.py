"""This module computes the memory of one call of a compiled graph: it replays the wrapper, with the
session's facts about inputs, library calls and kernels.

Which algorithm a library takes is its own affair. Where no GPU was asked, what a call takes while
it works is a bound and no prediction: the most that was seen on an H100 (torch 2.11), as a formula
of the shapes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, artifact_document
from fx_explorer.instruments.memory.replay import UNKNOWN, Argument, Replayed, Result, replay
from fx_explorer.instruments.memory.sizes import (
    UnknownSize,
    UnreadableCode,
    argument_names,
    item_bytes,
    read_wrapper,
    shape_bytes,
    size_of_text,
    value_bytes,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import calls_in_output_code, nodes_of_artifacts
from fx_explorer.session.reader import answered_once


@dataclass(frozen=True, slots=True)
class WrapperKernelCall:
    """A line of a wrapper that calls a kernel, with the nodes that the kernel computes."""

    name: str
    place: Place
    nodes: tuple[model.Node, ...]
    """The nodes that it computes, in the order of the graph."""
    workspace: model.LibraryWorkspace | None = None
    """Memory that a library call uses while it runs; None where no GPU was asked."""
    most_workspace: int = 0
    """Largest workspace that it may need, estimated by its shapes, in bytes; 0 where it
    needs none.
    """

    @property
    def unknown_workspace(self) -> int:
        """Return the largest workspace that it may need, if no GPU has measured it; else 0."""
        is_known = self.workspace is not None and self.workspace.size_bytes >= 0
        return 0 if is_known else self.most_workspace

    @property
    def node(self) -> model.Node | None:
        """The last of its nodes that has a line of the user's."""
        return next((node for node in reversed(self.nodes) if node.file), None)


@dataclass(frozen=True)
class GraphMemory:
    """A replayed graph of one direction."""

    compilation: model.Compilation
    direction: model.Direction
    arguments: tuple[str, ...]
    placeholders: dict[str, model.Node]
    replayed: Replayed
    calls: dict[int, WrapperKernelCall]
    """Line of the output code → the kernel call on it."""


@dataclass(frozen=True)
class SegmentMemory:
    """One compiled graph with its backward, and the values saved between them."""

    forward: GraphMemory
    backward: GraphMemory | None
    saved: Sequence[model.SavedTensor]
    captured_as: int = 0
    """The compilation in which Dynamo captured it: its first variant."""
    results: tuple[int, ...] = ()
    """For each output of the forward, the index of that result in Dynamo's graph; -1 for an output
    that is not a result.
    """


def graph_memory(
    reader: SessionReader,
    compilation: model.Compilation,
    graph: model.Graph,
    code: model.Artifact,
) -> GraphMemory:
    """Replay a graph's wrapper. Raises UnreadableCode."""
    return _replayed(reader, compilation.id, graph.id, code.id)


@answered_once
def _replayed(
    reader: SessionReader, compilation_id: int, graph_id: int, code_id: int
) -> GraphMemory:
    """Replay a wrapper once for all that ask for it: to parse it takes the most time."""
    compilation = reader.get(model.Compilation, compilation_id)
    graph = reader.get(model.Graph, graph_id)
    code = reader.get(model.Artifact, code_id)
    symbols = symbol_values(reader)
    wrapper = read_wrapper(reader.text(code.text), code.language)
    names = argument_names(wrapper.entry)
    of_graph = reader.nodes(graph)
    by_name = {node.name: node for node in of_graph}
    nodes = {name: node for name, node in by_name.items() if node.op == "placeholder"}
    if nodes and not names:
        raise UnreadableCode("its output code takes no arguments, but the graph does")
    sizes = {**symbols, **_numbers(nodes.values(), symbols)}
    calls = {
        line: _with_most_workspace(call, by_name, sizes)
        for line, call in _calls(reader, code, of_graph).items()
    }
    device = _usual_device(nodes.values())
    arguments = [_argument(name, nodes.get(name), sizes) for name in names]

    def results(line: int) -> Sequence[Result | None] | None:
        return _results(calls.get(line), sizes, device)

    replayed = replay(wrapper, arguments, sizes, results, frozenset(calls))
    return GraphMemory(compilation, graph.direction, tuple(names), nodes, replayed, calls)


def _numbers(placeholders: Iterable[model.Node], symbols: Mapping[str, int]) -> dict[str, int]:
    """Return the values of the inputs that are sizes: ``Sym(s77)``."""
    values = {}
    for node in placeholders:
        symbol = node.value.removeprefix("Sym(").removesuffix(")")
        if node.value.startswith("Sym(") and symbol in symbols:
            values[node.name] = symbols[symbol]
    return values


def _argument(name: str, node: model.Node | None, sizes: Mapping[str, int]) -> Argument:
    if node is not None and node.shape is None:
        return Argument(name, 0, is_tensor=False)
    if node is None:
        return Argument(name, UNKNOWN)
    return Argument(name, _known_bytes(node.dtype, node.shape or (), sizes), _device(node))


def _device(node: model.Node) -> str:
    return node.device.partition(":")[0]


def _known_bytes(dtype: str, shape: Sequence[str], sizes: Mapping[str, int]) -> int:
    try:
        return shape_bytes(dtype, shape, sizes)
    except UnknownSize:
        return UNKNOWN


def _usual_device(placeholders: Iterable[model.Node]) -> str:
    """Return the device of most inputs: a node with several results does not say where they are."""
    devices = Counter(_device(node) for node in placeholders if node.device)
    return devices.most_common(1)[0][0] if devices else ""


def _results(
    call: WrapperKernelCall | None, sizes: Mapping[str, int], usual: str
) -> list[Result | None] | None:
    """Return the results of a library call: the values of the node it computes; None where that is
    unknown.
    """
    node = _computed(call) if call else None
    if node is None:
        return None
    if node.shape is not None:
        return [Result(_known_bytes(node.dtype, node.shape, sizes), _device(node))]
    try:
        sizes_bytes = value_bytes(node.value, sizes)
    except UnknownSize:
        return None
    if not node.value:
        return None
    device = _device(node) or usual
    results = []
    for size_bytes in sizes_bytes:
        result = None if size_bytes is None else Result(size_bytes, device)
        results.append(result)
    return results


def _computed(call: WrapperKernelCall) -> model.Node | None:
    """Return the node whose operator a library call is named after; if none matches, the last node
    it computes.
    """
    operator = call.name.removesuffix(".default").rpartition(".")[2]
    named = [node for node in call.nodes if operator in node.target.split(".")]
    computing = named or [node for node in call.nodes if not node.is_view]
    return computing[-1] if computing else None


def _with_most_workspace(
    call: WrapperKernelCall, nodes: Mapping[str, model.Node], sizes: Mapping[str, int]
) -> WrapperKernelCall:
    """Return a library call with the largest workspace that it may need."""
    node = _computed(call)
    if node is None:
        return call
    taken = [nodes[name] for name in _NAME.findall(node.arguments) if name in nodes]
    try:
        operands = [_operand(node, sizes) for node in taken if node.shape is not None]
        result = _operand(node, sizes) if node.shape is not None else None
    except UnknownSize:
        return call
    operator = call.name.removesuffix(".default").rpartition(".")[2]
    return replace(call, most_workspace=most_workspace(operator, operands, result))


_NAME = re.compile(r"[A-Za-z_]\w*")


def _operand(node: model.Node, sizes: Mapping[str, int]) -> Operand:
    shape = tuple(size_of_text(size, sizes) for size in node.shape or ())
    return Operand(shape, node.dtype, _device(node))


def _calls(
    reader: SessionReader, code: model.Artifact, of_graph: Iterable[model.Node]
) -> dict[int, WrapperKernelCall]:
    """Return the kernel calls of a wrapper by line, with their nodes, nearly all of which are
    ``of_graph``.
    """
    rows = calls_in_output_code(reader, code.id)
    kernels = {artifact for _, _, artifact, _ in rows if artifact}
    by_line, by_call, of_all = _node_ids(reader, code, kernels)
    wanted = set[int]().union(*by_line.values(), *by_call.values(), *of_all.values())
    nodes = {node.id: node for node in of_graph}
    nodes |= {node.id: node for node in reader.by_ids(model.Node, wanted - nodes.keys())}
    document = artifact_document(code)
    workspaces = {row.call: row for row in reader.rows(model.LibraryWorkspace)}
    calls = {}
    for line, name, artifact, call in rows:
        if artifact:
            ids = by_call.get(call, set()) | of_all.get(artifact, set())
        else:
            ids = by_line.get(line, set())
        computed = tuple(nodes[i] for i in sorted(ids) if i in nodes)
        calls[line] = WrapperKernelCall(
            name, Place(document, line - 1), computed, workspaces.get(call)
        )
    return calls


_Ids = dict[int, set[int]]


def _node_ids(
    reader: SessionReader, code: model.Artifact, kernels: set[int]
) -> tuple[_Ids, _Ids, _Ids]:
    """Return three maps to nodes: by line of the wrapper, by call of a kernel, and by kernel (for
    nodes that every call of it computes).
    """
    by_line: _Ids = {}
    by_call: _Ids = {}
    of_all: _Ids = {}
    for artifact, line, call, node in nodes_of_artifacts(reader, [code.id, *kernels]):
        if artifact == code.id:
            by_line.setdefault(line, set()).add(node)
        elif call:
            by_call.setdefault(call, set()).add(node)
        else:
            of_all.setdefault(artifact, set()).add(node)
    return by_line, by_call, of_all


@answered_once
def symbol_values(reader: SessionReader) -> dict[str, int]:
    """Return the values that dynamic sizes have in the example inputs."""
    # A size that only the data tells has no hint: what depends on it is counted as unknown.
    return {row.name: int(row.hint) for row in reader.rows(model.Symbol) if row.hint.isdecimal()}


# Bounds of what a library call takes while it works, where no GPU was there to be asked.

ATTENTION_BLOCK = 64
"""Rows and columns of the blocks in which an attention's backward adds up its gradients
(aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h, ``kBlockSizeI``).
"""


LEAST_CHANNELS = 8
"""Number of channels that a convolution on tensor cores works on at once (cuDNN developer guide,
"Tensor Core Operations").
"""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a library call is given or returns."""

    shape: tuple[int, ...]
    dtype: str
    device: str

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * item_bytes(self.dtype)


def most_workspace(operator: str, operands: Sequence[Operand], result: Operand | None) -> int:
    """Return an upper estimate of the bytes that a call of an operator (``convolution_backward``)
    needs as workspace; 0 where it needs little or none.
    """
    if operator in _CONVOLUTIONS:
        needed = _CONVOLUTIONS[operator]
        if len(operands) >= needed:
            return _of_convolution(operator, operands, result)
    if operator in _ATTENTION_BACKWARD and len(operands) >= 4:
        return _of_attention_backward(operands)
    return 0


_CONVOLUTIONS: Mapping[str, int] = {
    "convolution": 2,
    "cudnn_convolution": 2,
    "mkldnn_convolution": 2,
    "_convolution_pointwise": 2,
    "convolution_backward": 3,
}
"""Operator → the least number of tensors it takes."""

_ATTENTION_BACKWARD = (
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
)


def _of_convolution(operator: str, operands: Sequence[Operand], result: Operand | None) -> int:
    """Return an estimate of the workspace of a convolution in bytes. On a GPU it is twice the input
    unfolded by the kernel (im2col), as much as the backward of a 3 × 3 convolution was measured to
    use; fewer than eight channels count as eight, as tensor cores need them. On the CPU, oneDNN
    copies its operands and its result into layouts of its own.
    """
    if operator == "convolution_backward":
        wide, image, weight = operands[:3]
    else:
        image, weight = operands[:2]
        wide = result or image
    if image.device == "cpu":
        return sum(operand.size_bytes for operand in (wide, image, weight))
    positions = math.prod((wide.shape[0], *wide.shape[2:]))
    channels = max(image.shape[1], LEAST_CHANNELS)
    unfolded = positions * channels * math.prod(weight.shape[2:])
    return max(2 * unfolded * item_bytes(image.dtype), wide.size_bytes + image.size_bytes)


def _of_attention_backward(operands: Sequence[Operand]) -> int:
    """Return the bytes of the gradients of the queries, and in half precision of keys and values,
    in float32 blocks, plus two numbers for each row of queries.
    """
    query, key, value = operands[1:4]
    if query.device == "cpu" or len(query.shape) != 4:
        return 0
    sizes = [_in_blocks(query), 2 * 4 * math.prod(query.shape[:3])]
    if item_bytes(query.dtype) < 4:
        sizes += [_in_blocks(key), _in_blocks(value)]
    return sum(sizes)


def _in_blocks(tensor: Operand) -> int:
    *batch, rows, columns = tensor.shape
    return math.prod(batch) * _up(rows) * _up(columns) * 4


def _up(size: int) -> int:
    return -(-size // ATTENTION_BLOCK) * ATTENTION_BLOCK
