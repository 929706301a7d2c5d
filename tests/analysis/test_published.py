"""These tests capture a user's own backend for real, the example of docs/extend/publish.md on the MLP.
Which operators it supports is written in that page; how often they occur is counted on
AOTAutograd's own graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.analysis.documents import Place, documents_of
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.instruments.diff.report import stage_pairs, two_sessions_report
from fx_explorer.model import (
    Artifact,
    BackendInstruction,
    Compilation,
    Failure,
    Graph,
    LineNode,
    Node,
    SourceFile,
)
from fx_explorer.overview.find import find
from fx_explorer.overview.overview import overview
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.following import showable_documents
from fx_explorer.tui.content.presets import document_for
from fx_explorer.tui.screens.pipeline_bar import pipeline
from tests.conftest import ROOT, Captured

PAGE = ROOT / "docs" / "extend" / "publish.md"
SUPPORTED = ("aten.addmm.default", "aten.mm.default", "aten.t.default", "aten.relu.default")


@pytest.fixture(scope="session")
def published(captured: Captured, shared_folder: Path) -> Path:
    """A session of the MLP, with the backend of the page."""
    example = re.search(
        r"```python\n(?P<code>\"\"\"It supports.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert example
    file = shared_folder / "my_backend.py"
    file.write_text(example["code"])
    return captured("mlp", backend=f"{file}:my_backend")


@pytest.fixture
def reader(published: Path) -> Iterator[SessionReader]:
    with SessionReader(published) as opened:
        yield opened


def calls(reader: SessionReader) -> dict[str, list[Node]]:
    """Direction → the operations of AOTAutograd's graph."""
    graphs = [graph for graph in reader.rows(Graph) if graph.stage in ("forward", "backward")]
    return {
        graph.direction: [node for node in reader.nodes(graph) if node.op == "call_function"]
        for graph in graphs
    }


def test_nothing_was_wrong_with_the_example(reader: SessionReader) -> None:
    assert [row.message for row in reader.rows(Failure) if row.kind != "unavailable"] == []


def test_the_page_names_the_supported_operators() -> None:
    assert all(target.removeprefix("aten.") in PAGE.read_text() for target in SUPPORTED)


def test_stages_stand_in_the_bar_in_place_of_inductors(reader: SessionReader) -> None:
    steps = [(step.name, step.state) for step in pipeline(reader)]
    assert steps == [
        (name, "done") for name in ("Dynamo", "AOTAutograd", "received", "support", "program")
    ]


def test_the_overview_says_what_ran_and_what_fell_back(reader: SessionReader) -> None:
    every = [node for nodes in calls(reader).values() for node in nodes]
    fell_back = [node for node in every if node.target not in SUPPORTED]
    said = next(
        fact
        for fact in overview(reader)
        if fact.topic == "backend" and fact.text.startswith("Backend")
    )
    assert said.text == (
        f"Backend my_backend: 3 stages published; its program has {len(every)} instructions, "
        f"{len(fell_back)} ran in PyTorch instead, in the last run."
    )
    assert said.detail == "forward called once, made once; backward called once, made once"


def test_each_instruction_is_the_operation_of_its_line(reader: SessionReader) -> None:
    told = [(row.name, row.fell_back) for row in reader.rows(BackendInstruction)]
    made = [
        (node.name, node.target not in SUPPORTED)
        for nodes in calls(reader).values()
        for node in nodes
    ]
    assert told == made


def test_documents_are_in_the_order_of_publishing_forward_first(reader: SessionReader) -> None:
    titles = [
        d.title for d in documents_of(reader, reader.rows(Compilation)[0]) if d.stage == "backend"
    ]
    assert titles == [
        f"{name} · {way}"
        for way in ("forward", "backward")
        for name in ("received", "support", "program")
    ]


def test_a_line_of_yours_lights_the_lines_of_the_program(reader: SessionReader) -> None:
    nodes = calls(reader)["forward"]
    gelu = next(i for i, node in enumerate(nodes) if node.target == "aten.gelu.default")
    showable = showable_documents(reader, reader.rows(Compilation)[0].id)
    program = document_for("kernel", showable, "forward")
    assert program is not None
    assert program.title == "program · forward"
    source = showable.sources[0]
    assert reader.get(SourceFile, source.id).path.endswith("mlp.py")
    place = Place(source, nodes[gelu].line - 1)
    on_line = {i for i, node in enumerate(nodes) if node.line == nodes[gelu].line}
    assert linked_places(reader, place, [program])[program] == on_line
    back = linked_places(reader, Place(program, gelu), [source])[source]
    assert back == {nodes[gelu].line - 1}


def test_lines_of_the_backward_are_linked_to_its_own_graph(reader: SessionReader) -> None:
    text = next(
        row
        for row in reader.rows(Artifact, kind="published", direction="backward")
        if row.title.startswith("program")
    )
    linked = {
        row.line: reader.get(Node, row.node).name for row in reader.rows(LineNode, artifact=text.id)
    }
    assert linked == {i: node.name for i, node in enumerate(calls(reader)["backward"], start=1)}


def test_find_looks_through_what_was_published(reader: SessionReader) -> None:
    assert any(match.detail.startswith("support") for match in find(reader, "gelu: False"))


def test_the_report_has_stages_entries_and_runs(reader: SessionReader) -> None:
    told: Any = json_report(reader)["backends"]
    (backend,) = told
    assert [(one["name"], one["direction"], one["kind"]) for one in backend["stages"]][:3] == [
        ("received", "forward", "graph"),
        ("support", "forward", "text"),
        ("program", "forward", "text"),
    ]
    assert {one["direction"]: one["calls"] for one in backend["entries"]} == {
        "forward": 1,
        "backward": 1,
    }
    lengths = {one["direction"]: len(one["instructions"]) for one in backend["last_runs"]}
    assert lengths == {direction: len(nodes) for direction, nodes in calls(reader).items()}


def test_two_sessions_are_compared_by_the_names_of_their_stages(
    reader: SessionReader, step: SessionReader
) -> None:
    assert {pair.difference for pair in stage_pairs(reader, reader)} == {"no difference"}
    report = two_sessions_report(step, reader, ("a", "b"))
    assert {one["difference"] for one in report["published"]} == {"only in the second"}  # type: ignore[attr-defined]
