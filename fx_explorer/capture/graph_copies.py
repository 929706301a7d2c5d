"""This module copies graphs, because torch continues to change its own: the graph at a gate can be
compiled again, and edited, any number of times.

``copy.deepcopy`` would copy parameters and fake tensors too, and fails on Dynamo's graphs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from torch.fx import Graph, GraphModule, Node

_OWN_TO_A_MODULE = (
    "_graph",
    "_code",
    "_lineno_map",
    "_prologue_start",
    "_modules",
    "_parameters",
    "_buffers",
    "forward",
    "meta",
)
"""Attributes of a GraphModule that follow from its graph, or are copied separately."""


def snapshot(module: GraphModule) -> GraphModule:
    """Return a copy of the graph in its present state, with the same names and meta, including
    nested graphs of higher-order ops.

    Parameters, buffers and the values in ``node.meta`` are shared, so mutation and gradients reach
    the user's own.
    """
    return _snapshot(module, {})


def _snapshot(module: GraphModule, done: dict[int, GraphModule]) -> GraphModule:
    if id(module) in done:
        return done[id(module)]
    copied = GraphModule(module, snapshot_graph(module.graph), type(module).__name__)
    done[id(module)] = copied
    copy_attributes(module, copied)
    for name in _nested(module):
        setattr(copied, name, _snapshot(getattr(module, name), done))
    return copied


def snapshot_graph(graph: Graph) -> Graph:
    """Return the nodes alone; ``_dynamo_source`` of a placeholder ties it to a parameter
    (torch/_functorch, ``frontend_utils.py``).
    """
    copied = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    copies: dict[Node, Node] = {}
    for node in graph.nodes:
        twin = copied.node_copy(node, copies.__getitem__)
        copies[node] = twin
        twin.name = node.name
        if isinstance(node.meta.get("custom"), dict):
            twin.meta["custom"] = dict(node.meta["custom"])
        if hasattr(node, "_dynamo_source"):
            twin._dynamo_source = node._dynamo_source
    copied._codegen = copy.copy(graph._codegen)
    return copied


def copy_attributes(module: GraphModule, copied: GraphModule) -> None:
    """Copy all that the constructor does not: ``meta``, ``compile_subgraph_reason``,
    ``_param_name_to_source``, unused constants.
    """
    copied.meta = {**module.meta, **copied.meta}
    for name, value in vars(module).items():
        if name not in _OWN_TO_A_MODULE:
            vars(copied).setdefault(name, value)
    for kind in ("_parameters", "_buffers", "_modules"):
        for name, value in getattr(module, kind).items():
            getattr(copied, kind).setdefault(name, value)


def _nested(module: GraphModule) -> Iterable[str]:
    """Return the names of the graphs inside this one."""
    return [name for name, child in module.named_children() if isinstance(child, GraphModule)]


def become(module: GraphModule, other: GraphModule) -> None:
    """Give ``module`` a copy of the graph of ``other``. Code that holds ``module`` then runs the
    new graph; ``other`` does not change.
    """
    source = snapshot(other)
    module.graph = source.graph
    for kind in ("_parameters", "_buffers", "_modules"):
        getattr(module, kind).update(getattr(source, kind))
    for name, value in vars(source).items():
        if name not in _OWN_TO_A_MODULE:
            vars(module).setdefault(name, value)
    module.meta.update(source.meta)
    module.recompile()
