"""This module makes graphs of layers by hand, with layers that differ where a test plants it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.instruments.modules.folded_graph import FoldedGraph
from fx_explorer.session import SessionWriter

Change = Callable[[list[model.Node]], list[model.Node]]
"""Changes the nodes of one layer. Their names begin with the name of the layer."""


def node(
    name: str,
    target: str,
    arguments: str,
    module: str,
    *,
    op: str = "call_function",
    shape: Sequence[str] = ("4", "8"),
    dtype: str = "f32",
    module_type: str = "",
) -> model.Node:
    return model.Node(
        id=0,
        graph=0,
        position=0,
        name=name,
        op=op,
        target=target,
        arguments=arguments,
        shape=tuple(shape),
        dtype=dtype,
        module=module,
        module_type=module_type,
    )


def layer_nodes(number: int, before: str, *, batch: str = "4") -> list[model.Node]:
    """Return a layer: a weight, a projection with it, an activation with a constant, an addition."""
    path, name = f"model.layers.{number}", f"l{number}"
    shape = (batch, "8")
    target = f"L_self_modules_model_modules_layers_modules_{number}_parameters_w_"
    weight = node(f"{name}_w", target, "", "", op="placeholder", shape=("8", "8"))
    rest = [
        node(f"{name}_mm", "aten.mm.default", f"{before}, {name}_w", f"{path}.proj", shape=shape),
        node(f"{name}_mul", "aten.mul.Tensor", f"{name}_mm, 0.5", f"{path}.act", shape=shape),
        node(f"{name}_add", "aten.add.Tensor", f"{name}_mul, {before}", path, shape=shape),
    ]
    rest[2] = replace(rest[2], module_type="Layer")
    return [weight, *rest]


def graph_nodes(
    layers: int, changes: dict[int, Change] | None = None, *, batch: str = "4"
) -> list[model.Node]:
    """Return a graph of layers between an embedding and a head, its inputs first."""
    inputs = [node("x", "x", "", "", op="placeholder", shape=(batch, "8"))]
    calls = [node("emb", "aten.sin.default", "x", "model.embed", shape=(batch, "8"))]
    before = "emb"
    for number in range(layers):
        nodes = layer_nodes(number, before, batch=batch)
        if changes and number in changes:
            nodes = changes[number](nodes)
        inputs += [each for each in nodes if each.op == "placeholder"]
        calls += [each for each in nodes if each.op != "placeholder"]
        before = f"l{number}_add"
    calls.append(node("head", "aten.cos.default", before, "head", shape=(batch, "8")))
    output = node("output", "output", "(head,)", "", op="output")
    return [*inputs, *calls, output]


def write_graph(writer: SessionWriter, nodes: Sequence[model.Node]) -> model.Graph:
    """Write a session of one compilation with this graph. Its uses are read from the arguments."""
    compilation = writer.add(
        model.Compilation(0, "0/0", 0, 0, "Model.forward", "m.py", 1, status="ok")
    )
    calls = sum(each.op.startswith("call") for each in nodes)
    graph = model.Graph(0, compilation, "dynamo", "", call_count=calls)
    return writer.add_graph(graph, list(nodes), [])


def standing(folded: FoldedGraph, shown: list[int]) -> list[int]:
    """Return the nodes that stand below the shown rows: those of a row that is open stand below the
    rows in it.
    """
    positions: list[int] = []
    for row in shown:
        if row + 1 not in shown or not folded.is_group(row):
            positions += folded.lines(row)
    return positions
