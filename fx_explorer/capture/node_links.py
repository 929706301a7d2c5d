"""This module finds the node of an earlier stage from which a node came, with the evidence: the
strongest first.

Within one graph that passes edit, a node keeps its identity; a partitioner copies nodes, with their
meta. Where torch traces again (Dynamo → AOTAutograd), ``node.meta`` carries the way back:
``from_node`` (torch/fx/traceback.py), ``source_fn_stack`` and ``fwd_source_fn_stack``
(torch/_dynamo/output_graph.py, torch/_functorch/_aot_autograd/utils.py), autograd's ``seq_nr``
(which ties a backward node to its forward), and last the user's line. A name alone says nothing:
each graph has its own ``add``.

torch's own table of this kind (``inductor_provenance_tracking_node_mappings``) has nothing of
backward graphs, and is not used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import torch

from fx_explorer.capture.earlier_graph import EarlierGraph, nested_pairs
from fx_explorer.capture.own_kernels import is_users_kernel
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.fx_graphs import CALLS
from fx_explorer.model import Link
from fx_explorer.model.rows.graph import How

Found = tuple[tuple[int, ...], How]


def traced_links(later: RecordedGraph, segment: Segment) -> Iterator[Link]:
    """Link AOTAutograd's joint or inference graph, and the graphs nested in it, to the graph it was
    traced from.

    It fills ``segment.seq_parents`` on the way: forward nodes come before the backward nodes that
    share their ``seq_nr``.
    """
    if segment.traced is None:
        return
    earlier = EarlierGraph(segment.traced)
    inputs = [segment.traced.ids[node] for node in segment.traced.inputs]
    held = {name: segment.traced.ids[node] for name, node in segment.traced.held.items()}
    for graph in later.whole():
        inputs_of_graph = inputs if graph is later else []
        homes: set[int] = set()  # the graphs that this one was traced from
        certain: dict[torch.fx.Node, tuple[int, ...]] = {}
        for node, node_id in graph.ids.items():
            if node.op == "placeholder":
                parents, how = _input(node, inputs_of_graph, held)
            else:
                parents, how = _trace_back(node, earlier, segment.seq_parents, homes, certain)
            if parents and how not in ("stack_trace", "written_back"):
                certain[node] = parents
                homes |= {earlier.holders[row].graph.id for row in parents}
                if node.meta.get("seq_nr") is not None:
                    segment.seq_parents.setdefault(node.meta["seq_nr"], parents)
            for parent in parents:
                yield Link(node_id, parent, how)


def copied_links(later: RecordedGraph, earlier: RecordedGraph | None) -> Iterator[Link]:
    """Link a graph to the graph from which it was copied or edited: by the same node, a copy of it,
    else by the rest of its meta.

    Graphs nested in the two belong together where the nodes that call them do.
    """
    if earlier is None:
        return
    known = EarlierGraph(earlier)
    parents_of: dict[torch.fx.Node, tuple[int, ...]] = {}
    for node, node_id in later.ids.items():
        parents, how = _same_node(node, known)
        if not parents and node.op in CALLS:
            parents, how = _replaced_node(node, known)
        parents_of[node] = parents
        for parent in parents:
            yield Link(node_id, parent, how)
    for inner, source in nested_pairs(later, parents_of, known):
        yield from copied_links(inner, source)


def _same_node(node: torch.fx.Node, earlier: EarlierGraph) -> Found:
    if node in earlier.graph.ids:
        return (earlier.graph.ids[node],), "identity"
    copied = earlier.copied_as(node)
    if copied:
        return copied, "name"
    return earlier.inlined_as(node), "identity"


def _replaced_node(node: torch.fx.Node, earlier: EarlierGraph) -> Found:
    """Return the rows for a node that a pass put in place of others: it keeps (some of) their
    meta.
    """
    if is_users_kernel(node):
        return earlier.calls_of_own_kernel(node), "kernel_call"
    # The meta of a joined node is that of the last of them alone.
    matched = _matched_nodes(node, earlier)
    if matched:
        return matched, "replaced"
    made_from = earlier.made_from(node)
    if made_from:
        return made_from, "from_node"
    same_call = earlier.of_one_call(node.meta.get("seq_nr", -1))
    if same_call:
        return same_call, "seq_nr"
    # Lazy, as few lines have so many rows that it is asked for.
    near = itertools.chain.from_iterable(map(earlier.copied_as, node.all_input_nodes))
    return earlier.on_line(node.meta.get("stack_trace") or "", near), "stack_trace"


def _matched_nodes(node: torch.fx.Node, earlier: EarlierGraph) -> tuple[int, ...]:
    """Return the calls that a pattern matched. For calls that a pass created itself, return those
    that they replaced.
    """
    rows: dict[int, None] = {}
    for old in replaced_by(node):
        if old.op in CALLS:
            rows |= dict.fromkeys(_same_node(old, earlier)[0] or _replaced_node(old, earlier)[0])
    return tuple(rows)


def _input(node: torch.fx.Node, inputs: list[int], held: Mapping[str, int]) -> Found:
    """Return the input of the traced graph, or the tensor in its module, that corresponds to an
    input according to AOTAutograd.
    """
    description = node.meta.get("desc")
    # It may be one of the tensors in a tensor subclass.
    while type(description).__name__ == "SubclassGetAttrAOTInput":
        description = getattr(description, "base", None)
    index, target = getattr(description, "idx", None), str(getattr(description, "target", ""))
    if index is None and target in held:
        return (held[target],), "aot_input"
    is_input = type(description).__name__ in ("PlainAOTInput", "ParamAOTInput", "BufferAOTInput")
    if is_input and index is not None and index < len(inputs):
        return (inputs[index],), "aot_input"
    return (), "aot_input"


def _trace_back(
    node: torch.fx.Node,
    earlier: EarlierGraph,
    seq_parents: dict[int, tuple[int, ...]],
    homes: set[int],
    certain: Mapping[torch.fx.Node, tuple[int, ...]],
) -> Found:
    """Return the rows that a traced node came from, by the strongest evidence in its meta: the node
    itself, its kernel's call, the function called, its number, and last the user's line.
    """
    if node.op == "output":
        return (), "name"
    made_from = earlier.made_from(node) or earlier.traced_from(node)
    if made_from:
        return made_from, "from_node"
    # That of an autograd.Function is in a graph of Dynamo's nested in the one that was traced.
    if is_users_kernel(node):
        return earlier.calls_of_own_kernel(node), "kernel_call"
    same_number = seq_parents.get(node.meta.get("seq_nr", -1), ())
    keys: tuple[How, ...] = ("source_fn_stack", "fwd_source_fn_stack")
    for key in keys:
        called = earlier.called_as(node.meta.get(key) or (), same_number)
        if called:
            return called, key
    is_write_back = _is_write_back(node)
    written = _written(node, certain) if is_write_back else ()
    if written:
        return written, "written_back"
    if same_number and not is_write_back and not node.meta.get("is_gradient_acc"):
        return same_number, "seq_nr"
    # The sum of two gradients carries the number of some call, but the line of a use of the tensor,
    # and a remark below it (torch/fx/traceback.py).
    line, _, _ = (node.meta.get("stack_trace") or "").partition("Gradient addition node")
    near: list[int] = []
    for input_node in node.all_input_nodes:
        near += certain.get(input_node, ())
    # One of the gradients was made by a call on that line: in a loop, this is the call, and the
    # line is all turns of the loop.
    made_it = tuple(row for row in dict.fromkeys(near) if earlier.is_on_line(row, line))
    return made_it or _within(homes, earlier.on_line(line, near), earlier), "stack_trace"


def _is_write_back(node: torch.fx.Node) -> bool:
    """Return whether a node that no call of the program is known for changes an input: AOTAutograd
    added it, to write a new value into an input that the program changes
    (torch/_functorch/_aot_autograd/graph_capture_wrappers.py, apply_in_graph_mutations).

    Its ``seq_nr`` is that of whatever call was traced last, and says nothing.
    """
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or not node.args:
        return False
    changed = node.args[0]
    return isinstance(changed, torch.fx.Node) and changed.op == "placeholder"


def _written(
    node: torch.fx.Node, certain: Mapping[torch.fx.Node, tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the rows that computed the value which ``node`` writes into an input."""
    rows: dict[int, None] = {}
    for value in node.all_input_nodes[1:]:
        rows |= dict.fromkeys(certain.get(value, ()))
    return tuple(rows)


def _within(homes: set[int], rows: tuple[int, ...], earlier: EarlierGraph) -> tuple[int, ...]:
    """Return those of ``rows`` that are in the graphs ``homes``, from which other nodes of this
    graph came; all of them if ``homes`` is empty. A region's line also occurs where the region was
    inlined.
    """
    return tuple(row for row in rows if not homes or earlier.holders[row].graph.id in homes)


# Nodes that a pattern pass of Inductor's replaced.

_REPLACED = "fx_explorer_replaced"
"""Attribute of a node that replaced another. It is not part of the meta, because torch looks at
that.
"""


def mark_replacement(node: torch.fx.Node, replaced: tuple[torch.fx.Node, ...]) -> None:
    """Note the nodes that a pattern matched when it made ``node``."""
    setattr(node, _REPLACED, replaced)


def replaced_by(node: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
    """Return the nodes that a pattern pass replaced by ``node``. Empty for a node of no such pass,
    or if the node's meta names them.
    """
    replaced: tuple[torch.fx.Node, ...] = getattr(node, _REPLACED, ())
    return replaced
