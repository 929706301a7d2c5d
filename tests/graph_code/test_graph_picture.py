"""These tests check ``graph X NAME --format svg``: every node and every use is drawn, parts lie in
their boxes and do not cover each other, and a graph of any size has a picture.
"""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.drawing import graph_picture
from fx_explorer.drawing.box_contents import Contents, ModuleBox, Operation
from fx_explorer.drawing.graph_picture import PictureOperation, graph_picture_svg
from fx_explorer.session import SessionReader

DATA = Path(__file__).parents[1] / "data"
SVG = "{http://www.w3.org/2000/svg}"

Rectangle = tuple[float, float, float, float]


@pytest.fixture(scope="module", params=["screens/whole", "profiles/gpt2"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "session.fxs"
    path.write_bytes(gzip.decompress((DATA / f"{request.param}.fxs.gz").read_bytes()))
    return path


def drawn(svg: str) -> tuple[dict[str, list[Rectangle]], dict[str, list[Rectangle]], int]:
    """Return the rectangles of operations by their first line, those of boxes by their title, and
    the number of edges.
    """
    root = ElementTree.fromstring(svg)
    operations: dict[str, list[Rectangle]] = {}
    boxes: dict[str, list[Rectangle]] = {}
    for group in root.iter(f"{SVG}g"):
        (title,) = group.findall(f"{SVG}title")
        (rectangle,) = group.findall(f"{SVG}rect")
        x, y, width, height = (
            float(rectangle.get(key, "")) for key in ("x", "y", "width", "height")
        )
        kind = boxes if rectangle.get("fill") == "transparent" else operations
        lines = (title.text or "").split("\n")
        name = lines[0] if kind is operations else lines[-1]
        kind.setdefault(name, []).append((x, y, x + width, y + height))
    return operations, boxes, sum(1 for _ in root.iter(f"{SVG}path"))


def overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def encloses(outer: Rectangle, inner: Rectangle) -> bool:
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


def test_every_graph_is_drawn_with_its_nodes_apart_and_in_their_boxes(
    session: Path, tmp_path: Path
) -> None:
    file = tmp_path / "graph.svg"
    with SessionReader(session) as reader:
        graphs = reader.rows(model.Graph)
        names = {graph.id: {node.name for node in reader.nodes(graph)} for graph in graphs}
    whole = 0
    for graph in graphs:
        command = ["graph", str(session), str(graph.id), "--format", "svg", "-o", str(file)]
        assert main(command) == 0
        operations, boxes, edges = drawn(file.read_text())
        assert set(operations) <= names[graph.id]
        assert all(len(places) == 1 for places in operations.values())
        if not any("×" in title for title in boxes):
            whole += 1
            assert set(operations) == names[graph.id]
        assert edges >= len(operations) // 2
        rectangles = [places[0] for places in operations.values()]
        assert not any(overlap(one, other) for one, other in combinations(rectangles, 2))
        every_box = [place for places in boxes.values() for place in places]
        for box in every_box:
            for other in [*every_box, *rectangles]:
                nested = encloses(box, other) or encloses(other, box)
                assert nested or not overlap(box, other), (graph.title, box, other)
    assert whole


def test_layers_with_the_same_operations_are_one_box_and_numbers_go_on_after_it() -> None:
    contents = Contents()
    parts = [Operation("aten.mul"), Operation("aten.add")]
    layer = contents.number(parts, [(0, 1)], [0], [1])
    pile = ModuleBox(("0", "1", "2"), "Layer", layer)
    root = contents.number([pile, Operation("output")], [(0, 1)], [], [])
    operations = [PictureOperation(f"node_{number}", [], 1 + number) for number in range(7)]
    shown, boxes, edges = drawn(graph_picture_svg("A graph", root, contents.all, operations))
    assert set(shown) == {"node_0", "node_1", "node_6"}
    assert list(boxes) == ["0 … 2 ×3 · Layer · 2 nodes each"]
    assert edges == 1 + 3


def test_a_large_graph_has_its_deeper_boxes_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_picture, "MOST_DRAWN", 3)
    contents = Contents()
    inner = contents.number([Operation("aten.mul")] * 3, [(0, 1), (1, 2)], [0], [2])
    root = contents.number(
        [Operation("x"), ModuleBox(("block",), "Block", inner)], [(0, 1)], [], []
    )
    operations = [PictureOperation(f"node_{number}", [], 0) for number in range(4)]
    shown, boxes, _ = drawn(graph_picture_svg("A graph", root, contents.all, operations))
    assert set(shown) == {"node_0"}
    assert list(boxes) == ["block · Block · 3 nodes"]


def test_names_are_escaped() -> None:
    contents = Contents()
    root = contents.number([Operation("<b>&")], [], [], [])
    svg = graph_picture_svg("<i>", root, contents.all, [PictureOperation("<u>", ["a\nb"], 0)])
    shown, _, _ = drawn(svg)
    assert Counter(shown) == Counter({"<u>": [(10.0, 42.0, 60.8, 64.0)]})


def test_without_networkx_the_extra_is_named(
    session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert main(["graph", str(session), "1", "--format", "svg"]) == 2
    assert "pip install 'fx-explorer[graphs]'" in " ".join(capsys.readouterr().err.split())
