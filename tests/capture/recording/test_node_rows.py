"""These tests check that a node unchanged since an earlier graph has the same row, and any other
one a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch

from fx_explorer.capture.recording.fx_graphs import NodeRows, node_row
from fx_explorer.capture.recording.sources import Sources, StackPlace


@pytest.fixture
def sources() -> Sources:
    sources = mock.create_autospec(Sources)
    sources.place.side_effect = lambda stack_trace: StackPlace(len(stack_trace), 0, 0)
    return sources


def product() -> torch.fx.Node:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    made = graph.call_function(torch.ops.aten.mul.Tensor, (x, y))
    made.meta |= {
        "val": torch.ones(2, 3),
        "stack_trace": "one",
        "custom": {"block": 1},
        "seq_nr": 5,
    }
    return made


def with_other_arguments(node: torch.fx.Node) -> None:
    node.args = node.args[::-1]


def with_a_renamed_input(node: torch.fx.Node) -> None:
    node.all_input_nodes[0].name = "other"


def with_another_value(node: torch.fx.Node) -> None:
    node.meta["val"] = torch.ones(2, 4)


def with_another_stack(node: torch.fx.Node) -> None:
    node.meta["stack_trace"] = "three"


def with_an_annotation_changed_in_place(node: torch.fx.Node) -> None:
    node.meta["custom"]["block"] = 2


def with_another_target(node: torch.fx.Node) -> None:
    node.target = torch.ops.aten.add.Tensor


def of_the_backward(node: torch.fx.Node) -> None:
    node.meta["partitioner_tag"] = "is_backward"


CHANGES = (
    with_other_arguments,
    with_a_renamed_input,
    with_another_value,
    with_another_stack,
    with_another_target,
    with_an_annotation_changed_in_place,
    of_the_backward,
)


def test_a_copy_that_shares_its_meta_has_the_row_of_the_original(sources: Sources) -> None:
    rows, made = NodeRows(sources), product()
    row = rows.of(made)
    copied = torch.fx.Graph()
    copied.graph_copy(made.graph, {})
    assert rows.of(list(copied.nodes)[-1]) is row
    assert row == node_row(made, sources)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_node_that_was_changed_has_another_row(
    sources: Sources, change: Callable[[torch.fx.Node], None]
) -> None:
    rows, made = NodeRows(sources), product()
    before = rows.of(made)
    change(made)
    assert rows.of(made) == node_row(made, sources) != before
