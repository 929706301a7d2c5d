"""This module describes a node: its operation, and the type of its result."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.words import tensor


def operation(node: model.Node) -> str:
    """Return the operation of a node: its target, or its opcode if the target only repeats the
    name.
    """
    if node.op in ("placeholder", "output"):
        return node.op
    if node.op == "get_attr":
        return f"get_attr {node.target}"
    return node.target.removesuffix(".default")


def value_text(node: model.Node) -> str:
    """Return ``f32[4, 64]``, ``TwoTensor(a: f32[4], b: f32[4])``, or the text of a value that is
    not a tensor.
    """
    return node.value or tensor(node.dtype, node.shape)


def format_node(node: model.Node) -> str:
    """Return ``gelu = aten.gelu(addmm)  f32[4, 8]``."""
    if node.op == "placeholder":
        text = f"placeholder {node.name}"
    elif node.op == "output":
        text = f"output {node.arguments}"
    else:
        text = f"{node.name} = {operation(node)}({node.arguments})"
    return f"{text}  {value_text(node)}".rstrip()
