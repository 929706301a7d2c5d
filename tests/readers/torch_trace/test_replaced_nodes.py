"""These tests find, in two printed graphs, in whose place a pass put a node."""

from __future__ import annotations

import textwrap

from fx_explorer.readers.torch_trace.replaced_nodes import replaced_nodes
from fx_explorer.torch_texts.printed_graph import PrintedGraph, read_graphs


def printed(body: str) -> PrintedGraph:
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    text = (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, x: "f32[4, 4]", w: "f32[4, 4]", b: "f32[4]"):\n'
        f"{lines}\n"
    )
    (graph,) = read_graphs(text)
    return graph


BEFORE = printed(
    """
    mm: "f32[4, 4]" = torch.ops.aten.mm.default(x, w)
    add: "f32[4, 4]" = torch.ops.aten.add.Tensor(mm, b)
    sin: "f32[4, 4]" = torch.ops.aten.sin.default(add)
    return (sin,)
    """
)


def test_a_node_stands_for_all_that_is_computed_from_what_it_takes() -> None:
    after = printed(
        """
        addmm: "f32[4, 4]" = torch.ops.aten.addmm.default(b, x, w)
        sin: "f32[4, 4]" = torch.ops.aten.sin.default(addmm)
        return (sin,)
        """
    )
    assert replaced_nodes(BEFORE, after) == {"addmm": ["mm", "add"]}


def test_each_node_of_a_pattern_stands_for_what_it_matched() -> None:
    after = printed(
        """
        fused = torch.ops.aten.native_fused.default(b, x, w)
        getitem: "f32[4, 4]" = fused[0]
        sin: "f32[4, 4]" = torch.ops.aten.sin.default(getitem)
        return (sin,)
        """
    )
    assert replaced_nodes(BEFORE, after) == {"fused": ["mm", "add"], "getitem": ["mm", "add"]}


def test_a_constant_stands_for_the_result_alone() -> None:
    after = printed(
        """
        full: "f32[4, 4]" = torch.ops.aten.full.default([4, 4], 1)
        sin: "f32[4, 4]" = torch.ops.aten.sin.default(full)
        return (sin,)
        """
    )
    assert replaced_nodes(BEFORE, after) == {"full": ["add"]}


def test_a_result_of_the_graph_may_be_a_new_node() -> None:
    after = printed(
        """
        mm: "f32[4, 4]" = torch.ops.aten.mm.default(x, w)
        add: "f32[4, 4]" = torch.ops.aten.add.Tensor(mm, b)
        cos: "f32[4, 4]" = torch.ops.aten.cos.default(add)
        return (cos,)
        """
    )
    assert replaced_nodes(BEFORE, after) == {"cos": ["sin"]}


def test_nothing_is_found_between_equal_graphs() -> None:
    assert replaced_nodes(BEFORE, BEFORE) == {}
