"""These tests check that Enter on a node that calls a nested graph opens that graph, whatever the
operator, and that the graph's nodes name their caller.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from fx_explorer.analysis.documents import place_of_node
from fx_explorer.instruments.front_ends.answers import LineOfBoth
from fx_explorer.instruments.front_ends.scope_differences import FrontEndDifference, _unseen_lines
from fx_explorer.model import Graph, Node
from fx_explorer.session import SessionReader
from fx_explorer.tui.content import inspect
from fx_explorer.tui.dialogs.choose import Chooser
from tests.capture.recorded import Compile, record
from tests.tui.conftest import OpenApp

Function = Callable[[torch.Tensor], torch.Tensor]


def branches(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def loop(x: torch.Tensor) -> torch.Tensor:
    def is_small(count: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return count < 3

    def body(count: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return count + 1, y.sin()

    start = torch.tensor(0)
    result: torch.Tensor = torch._higher_order_ops.while_loop(is_small, body, (start, x))[1]
    return result


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = checkpoint(torch.sin, x, use_reentrant=False)
    return result


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> torch.Tensor:
    return x.sin().cos()


def regions(x: torch.Tensor) -> torch.Tensor:
    return region(region(x))


def attention(x: torch.Tensor) -> torch.Tensor:
    def score(value: torch.Tensor, batch: int, head: int, q: int, k: int) -> torch.Tensor:
        return value * 2

    y = x.reshape(1, 1, 4, 8)
    result: torch.Tensor = flex_attention(y, y, y, score_mod=score)  # type: ignore[assignment]
    return result


CALLS: dict[str, tuple[Function, int]] = {
    "cond": (branches, 2),
    "while_loop": (loop, 2),
    "tag_activation_checkpoint": (checkpointed, 1),
    "invoke_subgraph": (regions, 1),
    "flex_attention": (attention, 1),
}
"""Operator → who uses it, and how many graphs each call of it holds."""


def recorded(path: Path, function: Function) -> SessionReader:
    def program(compile: Compile) -> None:
        with torch.no_grad():
            compile(function)(torch.randn(4, 8))

    return record(path, program, backend="eager")


def calls_of(reader: SessionReader, operator: str) -> list[Node]:
    return [
        node
        for node in reader.rows(Node)
        if node.op == "call_function" and node.target.endswith(f"higher_order.{operator}")
    ]


@pytest.mark.parametrize("operator", CALLS)
def test_enter_on_a_call_leads_into_the_graphs_that_it_calls(tmp_path: Path, operator: str) -> None:
    function, count = CALLS[operator]
    with recorded(tmp_path / "s.fxs", function) as reader:
        calls = calls_of(reader, operator)
        assert calls
        for call in calls:
            nested = [
                entry
                for entry in inspect.links(reader, place_of_node(reader, call))
                if entry.label == "nested graph"
            ]
            assert len(nested) >= count
            for entry in nested:
                assert entry.place
                graph = reader.get(Graph, entry.place.document.id)
                assert graph.parent == call.graph
                assert graph.name == entry.text
                (first, *_) = reader.rows(Node, graph=graph.id)
                facts = inspect.entries(reader, place_of_node(reader, first))
                callers = [fact.place for fact in facts if fact.label == "called by"]
                assert place_of_node(reader, call) in callers


def test_a_node_that_names_a_nested_graph_leads_there_and_no_other_does(tmp_path: Path) -> None:
    with recorded(tmp_path / "s.fxs", branches) as reader:
        (call,) = calls_of(reader, "cond")
        for node in reader.rows(Node, graph=call.graph):
            places = [
                entry.text
                for entry in inspect.links(reader, place_of_node(reader, node))
                if entry.label == "nested graph"
            ]
            if node.op == "get_attr":
                assert places == [node.target]
            elif node.id != call.id:
                assert places == []


async def test_in_the_pane_enter_opens_the_branch_that_is_chosen(
    tmp_path: Path, open_app: OpenApp
) -> None:
    with recorded(tmp_path / "s.fxs", branches) as reader:
        (call,) = calls_of(reader, "cond")
        place = place_of_node(reader, call)
        false_graph = call.subgraph_names[1]
    async with open_app(tmp_path / "s.fxs") as driver:
        await driver.press("2")
        await driver.explorer.go(place)
        await driver.settle()
        await driver.press("enter")
        assert isinstance(driver.app.screen, Chooser)
        await driver.press(*false_graph, "enter")
        assert false_graph in driver.explorer.place.document.title
        assert "cos" in driver.screen
        await driver.press("b")
        assert driver.explorer.place == place


@pytest.mark.parametrize(
    ("seen", "sentences"),
    [
        ([(1, 0), (1, 1)], ["Calls of 1 line are only in Dynamo's graphs: m.py:1."]),
        (
            [(1, 0), (2, 0), (1, 1)],
            ["Calls of 2 lines are only in Dynamo's graphs: m.py:1 and m.py:2."],
        ),
        ([(0, 1), (1, 1)], ["Calls of 1 line are only in this graph: m.py:1."]),
        (
            [(0, 1), (0, 2)],
            ["Calls of 2 lines are only in this graph: m.py:1 and m.py:2."],
        ),
    ],
)
def test_lines_that_one_side_lacks_are_counted_in_sound_sentences(
    seen: list[tuple[int, int]], sentences: list[str]
) -> None:
    lines = [
        LineOfBoth("m.py", number, ("sin",) * dynamo, ("sin",) * other)
        for number, (dynamo, other) in enumerate(seen, 1)
    ]
    both = FrontEndDifference(None, None, None, None, lines)  # type: ignore[arg-type]
    assert list(_unseen_lines(both)) == sentences
