"""These tests check the drawn graphs: every node stands in the box of its module, every use of a
value is an edge and every edge a use, layers with the same operations are drawn from one content,
and a graph of any size or shape has a drawing.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import model
from fx_explorer.analysis.graph_uses import _named_uses, uses_in_graph
from fx_explorer.drawing.box_contents import Content, Contents, ModuleBox, Operation
from fx_explorer.drawing.graph_boxes import MOST_PARTS, NestedBoxes, nested_boxes
from fx_explorer.drawing.layered_graph import layers
from fx_explorer.report.page.drawn_graphs import drawn_graphs
from fx_explorer.report.page.linked_texts import linked_texts
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import edges_of_graph

DATA = Path(__file__).parents[1] / "data"

WHOLE, GPT2 = DATA / "screens" / "whole.fxs.gz", DATA / "profiles" / "gpt2.fxs.gz"


@pytest.fixture(scope="module", params=[WHOLE, GPT2], ids=["whole", "gpt2"])
def reader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("drawn") / "session.fxs"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    with SessionReader(path) as opened:
        yield opened


Place = tuple[tuple[int, ...], int]
"""The parts around an operation, and its part in the innermost of them."""


def _places(
    boxes: NestedBoxes, contents: list[Content]
) -> tuple[dict[int, tuple[int, ...]], dict[tuple[int, ...], tuple[Content, str]]]:
    """Return the way to each node, by position: a part in each content, and the layer in a pile,
    counted from -1 downward. And what stands at each way: its content and its name.
    """
    places: dict[int, tuple[int, ...]] = {}
    inside: dict[tuple[int, ...], tuple[Content, str]] = {}
    slots = iter(boxes.positions)

    def walk(number: int, way: tuple[int, ...], name: str) -> None:
        content = contents[number]
        inside[way] = content, name
        for at, part in enumerate(content.parts):
            if isinstance(part, Operation):
                places[next(slots)] = (*way, at)
                continue
            for layer, of_layer in enumerate(part.names):
                step = (at,) if len(part.names) == 1 else (at, -1 - layer)
                walk(part.content, (*way, *step), of_layer)

    walk(boxes.root, (), "")
    return places, inside


def _nested(reader: SessionReader, graph: model.Graph) -> tuple[Any, ...]:
    nodes = reader.nodes(graph)
    uses = uses_in_graph(reader, graph, nodes)
    edges = [
        (producer - graph.first_node, consumer - graph.first_node) for producer, consumer in uses
    ]
    contents = Contents()
    return nodes, edges, nested_boxes(nodes, edges, contents), contents.all


def test_every_node_stands_in_the_box_of_its_module(reader: SessionReader) -> None:
    checked = 0
    for graph in reader.rows(model.Graph):
        nodes, _, boxes, contents = _nested(reader, graph)
        places, inside = _places(boxes, contents)
        assert sorted(places) == list(range(len(nodes)))
        for node in nodes:
            way = places[node.position]
            # The content of a pile is named at its layer, which follows the part.
            ways = [way[:depth] for depth in range(1, len(way)) if way[:depth] in inside]
            names = [inside[outer][1] for outer in ways]
            path = ".".join(name for name in names if name)
            if node.op.startswith("call"):
                assert path == node.module, node
                checked += 1
            elif node.op == "output":
                assert not path
    assert checked > 50


def test_uses_are_edges_and_edges_are_uses(reader: SessionReader) -> None:
    for graph in reader.rows(model.Graph):
        _, edges, boxes, contents = _nested(reader, graph)
        places, inside = _places(boxes, contents)
        expected: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for producer, consumer in edges:
            above, below = places[producer], places[consumer]
            depth = 0
            while above[depth] == below[depth]:
                depth += 1
            if above[depth] < 0:
                continue  # from one layer of a pile to another: the pile is one part
            expected.setdefault(above[:depth], set()).add((above[depth] + 1, below[depth] + 1))
        for way, (content, _) in inside.items():
            ports = (0, len(content.parts) + 1)
            within = {edge for edge in content.layers.edges if edge[0] != 0 and edge[1] != ports[1]}
            assert within == expected.get(way, set()), (graph.stage, way)


def test_parts_stand_below_what_they_use_and_rows_have_each_part_once(
    reader: SessionReader,
) -> None:
    for graph in reader.rows(model.Graph):
        *_, contents = _nested(reader, graph)
        for content in contents:
            row_of = {
                item: row
                for row, items in enumerate(content.layers.rows)
                for item in items
                if item >= 0
            }
            standing = Counter(item for row in content.layers.rows for item in row if item >= 0)
            assert set(standing.values()) <= {1}
            assert set(row_of) == set(range(len(content.parts) + 2))
            upward = [edge for edge in content.layers.edges if row_of[edge[0]] >= row_of[edge[1]]]
            # Only where values of a box and of another go both ways.
            assert len(upward) <= len(content.layers.edges) // 4


def test_layers_with_the_same_operations_are_one_part(tmp_path: Path) -> None:
    path = tmp_path / "gpt2.fxs"
    path.write_bytes(gzip.decompress(GPT2.read_bytes()))
    with SessionReader(path) as reader:
        graph = next(row for row in reader.rows(model.Graph) if row.stage == "post_grad")
        nodes, _, boxes, contents = _nested(reader, graph)
    piles = [
        part
        for content in contents
        for part in content.parts
        if isinstance(part, ModuleBox) and len(part.names) > 1
    ]
    assert [pile.names for pile in piles] == [("1", "2")]
    counts = {
        number: Counter(
            node.target
            for node in nodes
            if node.module.startswith(f"transformer.h.{number}.")
            or node.module == f"transformer.h.{number}"
        )
        for number in (0, 1, 2)
    }
    assert counts[1] == counts[2]
    (difference,) = [each for each in boxes.differences.values() if each.unlike]
    assert difference.unlike == "1 … 2"
    assert difference.sentence.startswith("Unlike 1 … 2: also ")
    for target, number in (counts[0] - counts[1]).items():
        name = target.removeprefix("aten.").partition(".")[0]
        count = f"{number}× " if number > 1 else ""
        assert f"{count}{name}" in difference.sentence


def _node(
    position: int, module: str = "", arguments: str = "", target: str = "aten.mul.Tensor"
) -> model.Node:
    return model.Node(
        id=position + 1,
        graph=1,
        position=position,
        name=f"n{position}",
        op="call_function",
        target=target,
        arguments=arguments,
        module=module,
    )


def test_a_module_that_is_called_twice_is_one_box_with_an_edge_upward() -> None:
    nodes = [_node(0, "a"), _node(1, "b"), _node(2, "a")]
    contents = Contents()
    boxes = nested_boxes(nodes, [(0, 1), (1, 2)], contents)
    root = contents.all[boxes.root]
    assert [part.names for part in root.parts if isinstance(part, ModuleBox)] == [("a",), ("b",)]
    assert list(root.layers.edges) == [(1, 2), (2, 1)]
    rows = [[item for item in row if item in (1, 2)] for row in root.layers.rows]
    assert [row for row in rows if row] == [[1], [2]]


@pytest.mark.parametrize("module", ["", "block"])
def test_a_hundred_thousand_operations_of_one_module_are_drawn(module: str) -> None:
    count = 100_000
    nodes = [_node(position, module) for position in range(count)]
    edges = [(position, position + 1) for position in range(count - 1)]
    contents = Contents()
    began = time.process_time()
    boxes = nested_boxes(nodes, edges, contents)
    assert time.process_time() - began < 60
    assert sorted(boxes.positions) == list(range(count))
    assert max(len(content.parts) for content in contents.all) <= MOST_PARTS
    assert sum(len(row) for content in contents.all for row in content.layers.rows) < 10_000


def test_a_wide_fan_stays_in_proportion() -> None:
    count = 100
    edges = [(0, consumer) for consumer in range(1, count)]
    edges += [(consumer, consumer + 1) for consumer in range(1, count - 1)]
    arranged = layers(count, edges)
    assert sum(len(row) for row in arranged.rows) < 10 * count


def test_modules_far_below_each_other_are_drawn() -> None:
    deep = ".".join(["m"] * 5_000)
    contents = Contents()
    boxes = nested_boxes([_node(0, deep), _node(1)], [(0, 1)], contents)
    assert sorted(boxes.positions) == [0, 1]
    assert len(contents.all) < 100


def test_arguments_name_what_a_capture_stores(tmp_path: Path) -> None:
    path = tmp_path / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    compared = 0
    with SessionReader(path) as reader:
        for graph in reader.rows(model.Graph):
            stored = set(edges_of_graph(reader, graph))
            assert set(_named_uses(reader.nodes(graph))) == stored
            compared += len(stored)
    assert compared > 500


def test_an_argument_that_is_no_node_is_no_use() -> None:
    nodes = [
        _node(0, target="dim"),
        _node(1, arguments="n0, 'n0 n1', dim = 0, n.n0"),
        _node(2, arguments='x, n1 = 3, "n0"'),
    ]
    assert _named_uses(nodes) == [(1, 2)]


def test_shares_are_those_of_the_kernels_and_colours_those_of_the_app(
    reader: SessionReader,
) -> None:
    with reader.snapshot():
        drawn = drawn_graphs(reader, linked_texts(reader).texts)
    data: Any = json.loads(json.dumps(drawn.data))
    texts = data["texts"]
    names = {row.name for row in reader.rows(model.Kernel)}
    seen = 0
    for graph in data["graphs"]:
        count = len(graph["names"])
        assert {len(graph[key]) for key in ("labels", "values", "modules", "lines")} == {count}
        root = data["contents"][graph["root"]]
        assert root["operations"] == count
        assert root["boxes"] + 1 == len(graph["boxes"])
        assert texts[graph["boxes"][0]].startswith(f"{count:,} node")
        for style, text, _ in graph["ways"].get("kernel", {"key": []})["key"]:
            first = texts[text].partition(" and ")[0].partition(", ")[0]
            if first in names:
                seen += 1
                assert int(style[1:]) in {
                    (row.id - 1) % 8 for row in reader.rows(model.Kernel, name=first)
                }
        if "cost" in graph["ways"]:
            assert "100 %" in texts[graph["boxes"][0]]
    assert seen > 3
