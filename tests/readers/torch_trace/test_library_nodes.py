"""These tests find which node a library call of generated code computes, where no table of torch's
says it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.model import Frame
from fx_explorer.readers.torch_trace.inductor_records import LibraryNodes
from fx_explorer.torch_texts.printed_graph import PrintedGraph, PrintedNode

MM = "extern_kernels.mm"


class CountedNodes(list[PrintedNode]):
    """Nodes that count how often all of them are read."""

    times_read = 0

    def __iter__(self) -> Iterator[PrintedNode]:
        self.times_read += 1
        return super().__iter__()


def calls(*targets: str, lines: int = 1) -> CountedNodes:
    nodes = CountedNodes()
    for at, target in enumerate(targets):
        frame = Frame("model.py", at % lines + 1, "forward", "")
        nodes.append(PrintedNode(f"node_{at}", "call_function", target, frame=frame))
    return nodes


def test_a_call_is_the_only_node_with_its_operator() -> None:
    graph = PrintedGraph("graph", calls("aten.mm.default", "aten.mmm.default", "test.baz.default"))
    nodes = LibraryNodes(graph, None)
    assert nodes.node_of_call(MM, ()) == "node_0"
    assert nodes.node_of_call("torch.ops.test.baz.default", ()) == "node_2"
    assert nodes.node_of_call("torch.ops.test.baz", ()) == "node_2"
    assert nodes.node_of_call("torch.ops.test.ba", ()) == ""
    assert nodes.node_of_call("extern_kernels.bmm", ()) == ""


def test_among_several_it_is_the_one_on_a_line_of_the_comment() -> None:
    graph = PrintedGraph("graph", calls("aten.mm.default", "aten.mm.default", lines=2))
    traced = PrintedGraph("traced", calls("torch.mm", "torch.mm", lines=2))
    assert LibraryNodes(graph, traced).node_of_call(MM, ["node_1"]) == "node_1"
    assert LibraryNodes(graph, traced).node_of_call(MM, ["node_0", "node_1"]) == ""
    assert LibraryNodes(graph, traced).node_of_call(MM, ["other"]) == ""
    assert LibraryNodes(graph, None).node_of_call(MM, ["node_1"]) == ""


def test_the_graphs_are_read_once_for_all_calls() -> None:
    """A training step of 48 layers has 1,100 library calls and graphs of 9,000 nodes."""
    nodes, traced = calls(*["aten.mm.default"] * 50, lines=50), calls(*["mm"] * 50, lines=50)
    library = LibraryNodes(PrintedGraph("graph", nodes), PrintedGraph("traced", traced))
    for node in [*nodes]:
        assert library.node_of_call(MM, [node.name]) == node.name
    assert (nodes.times_read, traced.times_read) == (2, 1)
