"""Which node of an earlier stage a node came from, and how that is known: strongest evidence first.

Within one graph that passes edit, a node keeps its identity; a partitioner copies nodes under the same name. Where torch traces
anew (Dynamo → AOTAutograd), ``node.meta`` carries the way back: ``from_node`` (torch/fx/traceback.py), ``source_fn_stack`` and
``fwd_source_fn_stack`` (torch/_dynamo/output_graph.py, torch/_functorch/_aot_autograd/utils.py), autograd's ``seq_nr`` (which
ties a backward node to its forward), and last the user's line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

from fx_explorer.capture.graphs import CALLS
from fx_explorer.capture.own_kernels import is_own_kernel
from fx_explorer.capture.segments import RecordedGraph, Segment
from fx_explorer.model import Link
from fx_explorer.model.link import How


def traced_links(later: RecordedGraph, segment: Segment) -> Iterator[Link]:
    """From AOTAutograd's joint or inference graph to the graph it was traced from.

    Fills ``segment.seq_parents`` on the way: forward nodes come before the backward nodes that share their ``seq_nr``.
    """
    earlier = segment.traced
    if earlier is None:
        return
    by_line = _by_stack(earlier)
    inputs = [node_id for node, node_id in earlier.ids.items() if node.op == "placeholder"]
    for node, node_id in later.ids.items():
        parents, how = _trace_back(node, earlier, inputs, segment.seq_parents, by_line)
        seq_nr = node.meta.get("seq_nr")
        if parents and seq_nr is not None and how != "stack_trace":
            segment.seq_parents.setdefault(seq_nr, parents)
        for parent in parents:
            yield Link(node_id, parent, how)
    yield from _nested(later, earlier)


def copied_links(later: RecordedGraph, earlier: RecordedGraph | None) -> Iterator[Link]:
    """From a graph to the one it was copied from or edited out of: same node, same name, else what its meta still tells."""
    if earlier is None:
        return
    by_seq = _by_seq_nr(earlier)
    by_line = _by_stack(earlier)
    for node, node_id in later.ids.items():
        parents, how = _same_node(node, earlier)
        if not parents and node.op in CALLS:
            parents, how = _replaced_node(node, earlier, by_seq, by_line)
        for parent in parents:
            yield Link(node_id, parent, how)
    yield from _nested(later, earlier)


def _nested(later: RecordedGraph, earlier: RecordedGraph) -> Iterator[Link]:
    """Nested graphs keep their attribute name from stage to stage."""
    for name, inner in later.nested.items():
        source = earlier.nested.get(name) or _only(earlier.nested, name)
        yield from copied_links(inner, source)


def _only(nested: dict[str, RecordedGraph], name: str) -> RecordedGraph | None:
    """AOTAutograd renames subgraphs (``cond_true_0`` → ``true_graph_0``): accept the one whose name tells the same branch."""
    for word in ("true", "false", "cond", "body", "subgraph"):
        same = [graph for other, graph in nested.items() if word in other]
        if word in name and len(same) == 1:
            return same[0]
    return None


def _same_node(node: torch.fx.Node, earlier: RecordedGraph) -> tuple[tuple[int, ...], How]:
    if node in earlier.ids:
        return (earlier.ids[node],), "identity"
    if node.name in earlier.by_name and node.op != "output":
        return (earlier.by_name[node.name],), "name"
    return (), "name"


def _replaced_node(
    node: torch.fx.Node, earlier: RecordedGraph, by_seq: dict[int, list[int]], by_line: dict[str, list[int]]
) -> tuple[tuple[int, ...], How]:
    """A node that a pass put in the place of others keeps (some of) their meta."""
    if is_own_kernel(node):
        return _same_kernel_call(node, earlier), "kernel_call"
    for name in _from_node_names(node):
        if name in earlier.by_name:
            return (earlier.by_name[name],), "from_node"
    same_call = by_seq.get(node.meta.get("seq_nr", -1))
    if same_call:
        return tuple(same_call), "seq_nr"
    return tuple(by_line.get(node.meta.get("stack_trace") or "", ())), "stack_trace"


def _same_kernel_call(node: torch.fx.Node, earlier: RecordedGraph) -> tuple[int, ...]:
    """Each call of a Triton kernel that Dynamo traced has a number (``KernelSideTable``, torch/_higher_order_ops/
    triton_kernel_wrap.py). The pass that makes it write in place keeps that, and of the meta only what many nodes share."""
    call = node.kwargs["constant_args_idx"]
    calls = ((other, other_id) for other, other_id in earlier.ids.items() if is_own_kernel(other))
    here = tuple(other_id for other, other_id in calls if other.kwargs["constant_args_idx"] == call)
    return here + tuple(found for inner in earlier.nested.values() for found in _same_kernel_call(node, inner))


def _trace_back(
    node: torch.fx.Node,
    earlier: RecordedGraph,
    inputs: list[int],
    seq_parents: dict[int, tuple[int, ...]],
    by_line: dict[str, list[int]],
) -> tuple[tuple[int, ...], How]:
    if node.op == "placeholder":
        index = getattr(node.meta.get("desc"), "idx", None)
        is_input = type(node.meta.get("desc")).__name__ in ("PlainAOTInput", "ParamAOTInput", "BufferAOTInput")
        return ((inputs[index],), "aot_input") if is_input and index is not None and index < len(inputs) else ((), "aot_input")
    if node.op == "output":
        return (), "name"
    for name in _from_node_names(node):
        if name in earlier.by_name:
            return (earlier.by_name[name],), "from_node"
    if is_own_kernel(node):  # of an autograd.Function, it is in a graph of Dynamo's nested in the one that was traced
        return _same_kernel_call(node, earlier), "kernel_call"
    keys: tuple[How, ...] = ("source_fn_stack", "fwd_source_fn_stack")
    for key in keys:
        for entry in reversed(node.meta.get(key) or []):
            if entry[0] in earlier.by_name:
                return (earlier.by_name[entry[0]],), key
    same_call = seq_parents.get(node.meta.get("seq_nr", -1), ())
    if same_call and not node.meta.get("is_gradient_acc"):
        return same_call, "seq_nr"
    # The sum of two gradients carries the number of some call, but the line of a use of the tensor, and a remark below it
    # (torch/fx/traceback.py).
    line, _, _ = (node.meta.get("stack_trace") or "").partition("Gradient addition node")
    return tuple(by_line.get(line, ())), "stack_trace"


def _from_node_names(node: torch.fx.Node) -> Iterator[str]:
    """Names along ``from_node``: most recent graph first."""
    pending: list[Any] = list(reversed(node.meta.get("from_node") or []))
    while pending:
        source = pending.pop()
        yield source.name
        inner = source.from_node or []
        pending.extend(reversed(inner if isinstance(inner, list) else [inner]))


def _by_stack(graph: RecordedGraph) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for node, node_id in graph.ids.items():
        if node.op in CALLS and node.meta.get("stack_trace"):
            found[node.meta["stack_trace"]].append(node_id)
    return found


def _by_seq_nr(graph: RecordedGraph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for node, node_id in graph.ids.items():
        if node.op in CALLS and node.meta.get("seq_nr") is not None:
            found[node.meta["seq_nr"]].append(node_id)
    return found
