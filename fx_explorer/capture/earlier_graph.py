"""This module has ``EarlierGraph``, which finds the nodes that a node of a later graph came from,
by torch's records in ``node.meta``.

Names of nodes are only looked up in the very graph that torch says they are from, or where the node
there is shown to be the same one by more than its name. What evidence goes before what other is
decided in ``node_links.py``.
"""

from __future__ import annotations

import bisect
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import torch

from fx_explorer.capture.own_kernels import is_users_kernel
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.fx_graphs import CALLS, node_value, subgraph_names

Rows = tuple[int, ...]

MOST_OF_A_LINE = 64
"""Maximum number of rows to which a node is linked by its line alone. Links to each iteration of a
loop say little, and there would be the square of the iterations: 250,000 links for a training step
of 14,000 nodes.
"""


class EarlierGraph:
    """Finds the nodes of ``graph``, and of the graphs nested in it, that a node of a later graph
    comes from.
    """

    def __init__(self, graph: RecordedGraph) -> None:
        self.graph = graph
        self._whole = list(graph.whole())

    # what is known of the nodes

    @cached_property
    def _by_number(self) -> dict[int, RecordedGraph]:
        """Return the graphs by ``id(graph)``, by which torch distinguishes them (``NodeSource``,
        torch/fx/traceback.py).
        """
        return {id(recorded.module.graph): recorded for recorded in self._whole}

    @cached_property
    def nodes(self) -> dict[int, torch.fx.Node]:
        """Return the nodes of the graph by the id of their row."""
        nodes: dict[int, torch.fx.Node] = {}
        for recorded in self._whole:
            nodes.update((row, node) for node, row in recorded.ids.items())
        return nodes

    @cached_property
    def holders(self) -> dict[int, RecordedGraph]:
        """Return the graph of each row."""
        holders: dict[int, RecordedGraph] = {}
        for recorded in self._whole:
            holders.update(dict.fromkeys(recorded.ids.values(), recorded))
        return holders

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        return self._grouped(lambda node: node.name)

    @cached_property
    def _by_calls(self) -> dict[tuple[str, ...], list[int]]:
        return self._grouped(lambda node: _call_names(node.meta.get("source_fn_stack") or ()))

    @cached_property
    def _by_value(self) -> dict[tuple[int, str], list[int]]:
        return self._grouped(_value_key)

    @cached_property
    def _by_line(self) -> dict[str, list[int]]:
        """Return the rows of calls, ascending, by the whole user stack."""
        return {line: sorted(rows) for line, rows in self._grouped(_line).items()}

    def is_on_line(self, row: int, line: str) -> bool:
        """Return whether the call in this row has this whole user stack."""
        return bool(line) and _line(self.nodes[row]) == line

    def on_line(self, line: str, near: Iterable[int]) -> Rows:
        """Return the calls with this user stack. A line in a loop has one for each iteration; at
        most ``MOST_OF_A_LINE`` are returned, those nearest to the last of the rows ``near``, or
        else the first ones.
        """
        rows = self._by_line.get(line, [])
        if len(rows) <= MOST_OF_A_LINE:
            return tuple(rows)
        at = bisect.bisect_left(rows, max(near, default=0))
        first = min(max(0, at - MOST_OF_A_LINE // 2), len(rows) - MOST_OF_A_LINE)
        return tuple(rows[first : first + MOST_OF_A_LINE])

    @cached_property
    def _by_seq_nr(self) -> dict[int, list[int]]:
        def seq_nr(node: torch.fx.Node) -> Any:
            if node.op not in CALLS:
                return None
            return node.meta.get("seq_nr")

        return self._grouped(seq_nr)

    def of_one_call(self, number: int) -> Rows:
        """Return the calls with this sequence number of autograd's; empty where they are from
        several lines. Autograd counts only what it records: without gradients, all operations have
        one number.
        """
        rows = self._by_seq_nr.get(number, [])
        if len({_line(self.nodes[row]) for row in rows}) > 1:
            return ()
        return tuple(rows)

    @cached_property
    def _by_kernel_call(self) -> dict[Any, list[int]]:
        def kernel_call(node: torch.fx.Node) -> Any:
            if not is_users_kernel(node):
                return None
            return node.kwargs["constant_args_idx"]

        return self._grouped(kernel_call)

    def _grouped(self, key: Callable[[torch.fx.Node], Any]) -> dict[Any, list[int]]:
        """Return the rows by the result of ``key`` for their nodes; nodes without a result are left
        out.
        """
        rows: dict[Any, list[int]] = defaultdict(list)
        for recorded in self._whole:
            for node, row in recorded.ids.items():
                wanted = key(node)
                if wanted is not None and wanted != ():
                    rows[wanted].append(row)
        return rows

    # which of them a later node came from

    def made_from(self, node: torch.fx.Node) -> Rows:
        """Return the row of the node that ``meta["from_node"]`` names; empty without one."""
        for source in _sources(node):
            graph = self._by_number.get(source.graph_id)
            if graph is not None and source.name in graph.by_name:
                return (self._chosen(node, graph.by_name[source.name]),)
        return ()

    def _chosen(self, node: torch.fx.Node, row: int) -> int:
        """Return the row of the ``getitem`` that selects the same result as ``node``; ``row``, the
        call itself, without one. torch traces no operation for ``getitem``: it names the call as
        the origin of each result.
        """
        call = self.nodes[row]
        results = node_value(call)
        if node.target is not operator.getitem or not isinstance(results, tuple | list):
            return row
        made, index = node.args
        if not isinstance(made, torch.fx.Node) or not _are_alike(node_value(made), results):
            return row
        holder = self.holders[row]
        for user in call.users:
            if user.target is operator.getitem and user.args[1] == index and user in holder.ids:
                return holder.ids[user]
        return row

    def traced_from(self, node: torch.fx.Node) -> Rows:
        """Return the rows that ``node`` came from if torch traced a copy of this graph under
        another number. The operation must be the same, and there must be only one such node.
        Tracing adds other operations, which are not mistaken for nodes of this graph.
        """
        for source in _sources(node):
            candidates = self._by_name.get(source.name, ())
            same = [row for row in candidates if str(self.nodes[row].target) == source.target]
            if len(same) == 1:
                return (same[0],)
        return ()

    def called_as(self, stack: Iterable[tuple[str, object]], among: Rows) -> Rows:
        """Find rows by ``source_fn_stack``: the calls, outermost first, that Dynamo was in.

        Where several graphs have such a call, as the regions of one function do, the node has to be
        ``among`` those that autograd's number leads to.
        """
        names = _call_names(stack)
        while names:
            rows = self._by_calls.get(names, [])
            certain = [row for row in rows if row in among]
            if not certain and len(rows) == 1:
                certain = rows
            if certain or rows:
                return tuple(certain)
            names = names[:-1]
        return ()

    def copied_as(self, node: torch.fx.Node) -> Rows:
        """Find rows by the node's name in the graph it was copied from. That node must have the
        same operation or the same value object.
        """
        row = self.graph.by_name.get(node.name)
        if row is None or node.op == "output":
            return ()
        if not _is_copy(node, self.nodes[row]):
            return ()
        return (row,)

    def inlined_as(self, node: torch.fx.Node) -> Rows:
        """Find rows by the same value object, if only one operation made it: the case of a graph
        that was inlined in place of its call.
        """
        key = _value_key(node)
        rows = self._by_value.get(key, []) if key else []
        return tuple(rows) if len(rows) == 1 else ()

    def calls_of_own_kernel(self, node: torch.fx.Node) -> Rows:
        """Return the rows of the calls of a user's Triton kernel. Each call that Dynamo traced has
        a number (``KernelSideTable``, torch/_higher_order_ops/triton_kernel_wrap.py). The pass that
        makes the call write in place keeps that number, but only meta that many nodes share.
        """
        return tuple(self._by_kernel_call.get(node.kwargs["constant_args_idx"], ()))


def nested_pairs(
    later: RecordedGraph, parents: Mapping[torch.fx.Node, Rows], earlier: EarlierGraph
) -> Iterator[tuple[RecordedGraph, RecordedGraph]]:
    """Yield (later, earlier) graphs for each call of nested graphs that is known to come from
    another such call.
    """
    done: set[str] = set()
    for node, rows in parents.items():
        names = subgraph_names(node)
        if not rows or not names or done.issuperset(names):
            continue
        before = subgraph_names(earlier.nodes[rows[0]])
        if len(before) != len(names) or earlier.nodes[rows[0]].target is not node.target:
            continue
        done.update(names)
        for name, name_before in zip(names, before, strict=True):
            inner, source = later.nested.get(name), earlier.holders[rows[0]].nested.get(name_before)
            if inner is not None and source is not None:
                yield inner, source


def _is_copy(node: torch.fx.Node, other: torch.fx.Node) -> bool:
    """Return whether a node is a copy of another. A copied node shares the content of its meta. If
    the value was computed again, the operations are compared, or, if a pass changed the operation
    (``view`` to ``reshape``), its inputs.
    """
    value = node_value(node)
    if value is not None and value is node_value(other):
        return True
    if node.op != other.op:
        return False
    return bool(node.target == other.target) or (
        node.op in CALLS and _applied_to(node) == _applied_to(other)
    )


def _applied_to(node: torch.fx.Node) -> tuple[object, ...]:
    inputs = [input_node.name for input_node in node.all_input_nodes]
    return (
        inputs,
        getattr(node_value(node), "shape", None),
        node.meta.get("stack_trace"),
        node.meta.get("seq_nr"),
    )


def _value_key(node: torch.fx.Node) -> tuple[int, str] | None:
    """Return the identity of a call's value. An in-place operation may return its input: the target
    distinguishes the two.
    """
    if node.op not in CALLS:
        return None
    value = node_value(node)
    if not isinstance(value, torch.Tensor):
        return None
    return id(value), str(node.target)


def _line(node: torch.fx.Node) -> str | None:
    """Return the whole user stack of a call; None for inputs and the output, and for a call without
    one.
    """
    if node.op not in CALLS:
        return None
    return node.meta.get("stack_trace")


def _are_alike(results: object, others: tuple[object, ...] | list[object]) -> bool:
    """Return whether two calls have as many results, of the same shapes."""
    if not isinstance(results, tuple | list) or len(results) != len(others):
        return False
    shape = [getattr(result, "shape", None) for result in results]
    return shape == [getattr(result, "shape", None) for result in others]


def _call_names(stack: Iterable[tuple[str, object]]) -> tuple[str, ...]:
    return tuple(entry[0] for entry in stack)


def _sources(node: torch.fx.Node) -> Iterator[Any]:
    """Yield ``NodeSource`` along ``from_node``, the most recent graph first."""
    pending: list[Any] = list(reversed(node.meta.get("from_node") or []))
    while pending:
        source = pending.pop()
        yield source
        inner = source.from_node or []
        if not isinstance(inner, list):
            inner = [inner]
        pending.extend(reversed(inner))
