"""These tests compare the links of real captures with what can be read off the generated code and
the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents,
    lines_of,
    node_at,
    rows_of,
)
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record

Captured = Callable[..., Path]
Opened = Callable[[Path], SessionReader]

OPERATION = re.compile(r"(?:\.|::)(erf|exp|rsqrt|tanh|log)\(")
"""Functions that a C++ kernel calls by the name of the operation."""


def of_kind(reader: SessionReader, **fields: object) -> list[Document]:
    return [
        d
        for d in documents(reader)
        if all(getattr(d, name) == value for name, value in fields.items())
    ]


@pytest.mark.parametrize("sample", ["mlp", "transformer", "convnet"])
def test_a_kernel_line_that_calls_an_operation_links_to_a_node_of_it(
    captured: Captured, reader: Opened, sample: str
) -> None:
    session = reader(captured(sample))
    graphs = of_kind(session, kind="graph", stage="post_grad")
    checked = 0
    for kernel in of_kind(session, stage="kernel"):
        for line, text in enumerate(lines_of(session, kernel)):
            found = OPERATION.search(text)
            if not found:
                continue
            lit = linked_places(session, Place(kernel, line), graphs)
            nodes = [
                node_at(session, Place(graph, row)) for graph, rows in lit.items() for row in rows
            ]
            same_direction = [
                n
                for n in nodes
                if n and session.get(model.Graph, n.graph).direction == kernel.direction
            ]
            assert any(found[1] in node.target for node in same_direction), (
                f"{kernel.title}:{line + 1} {text.strip()}"
            )
            checked += 1
    assert checked


@pytest.mark.parametrize("sample", ["mlp", "transformer"])
def test_a_library_call_links_to_a_node_of_that_operation(
    captured: Captured, reader: Opened, sample: str
) -> None:
    session = reader(captured(sample))
    checked = 0
    for code in of_kind(session, stage="output_code"):
        graph = next(
            g
            for g in of_kind(session, kind="graph", stage="post_grad")
            if g.direction == code.direction
        )
        for line, text in enumerate(lines_of(session, code)):
            found = re.search(r"^\s*extern_kernels\.(\w+)\(", text)
            if not found:
                continue
            (row,) = linked_places(session, Place(code, line), [graph])[graph]
            node = node_at(session, Place(graph, row))
            assert node is not None
            # Inductor may pick another library routine for an operation: addmm for mm, bmm for
            # baddbmm.
            assert "mm" in found[1]
            assert "mm" in node.target
            checked += 1
    assert checked


def test_forward_and_backward_of_gelu_light_its_source_line(
    captured: Captured, reader: Opened
) -> None:
    session = reader(captured("mlp"))
    (source,) = [d for d in of_kind(session, kind="source") if d.title == "mlp.py"]
    (gelu_line,) = [i for i, text in enumerate(lines_of(session, source)) if "gelu(" in text]
    for graph in of_kind(session, kind="graph", stage="post_grad"):
        rows = [node.position for node in rows_of(session, graph) if "erf" in node.target]
        assert rows, graph.title
        for row in rows:
            assert linked_places(session, Place(graph, row), [source])[source] == {gelu_line}
        assert set(rows) <= linked_places(session, Place(source, gelu_line), [graph])[graph]


@pytest.mark.parametrize("sample", ["mlp", "transformer", "graph_breaks"])
def test_links_stay_within_one_compilation(captured: Captured, reader: Opened, sample: str) -> None:
    """Two compilations have nodes of the same names; a link between them would be a match of names."""
    session = reader(captured(sample))
    owner = dict(
        session.query(
            "SELECT node.id, graph.compilation FROM node JOIN graph ON graph.id = node.graph"
        )
    )
    links = session.rows(model.Link)
    assert links
    assert all(owner[link.child] == owner[link.parent] for link in links)


def test_whatever_is_selected_lights_itself_and_nothing_outside_a_document(
    captured: Captured, reader: Opened
) -> None:
    session = reader(captured("mlp"))
    shown = documents(session)
    for document in shown:
        for line in range(0, document.line_count, 5):
            lit = linked_places(session, Place(document, line), shown)
            assert line in lit[document]
            for other, lines in lit.items():
                assert all(0 <= found < other.line_count for found in lines), (
                    document.title,
                    line,
                    other.title,
                )


def test_a_document_says_how_many_lines_it_has(captured: Captured, reader: Opened) -> None:
    session = reader(captured("graph_breaks"))
    for document in documents(session):
        lines = (
            rows_of(session, document) if document.kind == "graph" else lines_of(session, document)
        )
        assert len(lines) == document.line_count, document.title
        assert document_of(session, document.kind, document.id).line_count == document.line_count


def choosing(x: torch.Tensor) -> torch.Tensor:
    """Choose one of several results, and read a tensor by an index, which is not a choice."""
    first, second = x.split(2, dim=-1)
    values, places = x.topk(2)
    normed = torch.nn.functional.layer_norm(x, (4,))[0]
    deviation, mean = torch.var_mean(x, dim=0)
    return (first * second * values * places).sum() + normed.sum() + (deviation * mean).sum()


def test_a_chosen_result_is_the_same_one_of_the_joint_graph(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compile_(choosing)(torch.ones(4, 4, requires_grad=True)).backward()

    with record(tmp_path / "s.fxs", program) as session:
        (before,) = session.rows(model.Graph, stage="pre_grad")
        chosen = [node for node in session.nodes(before) if node.target == "operator.getitem"]
        assert len(chosen) == len(["first", "second", "values", "places", "normed", "v", "m"])
        for node in chosen:
            children = session.by_ids(model.Node, session_children(session, node.id))
            forward = [child for child in children if not child.is_backward]
            assert forward, f"{node.name} of {node.arguments}"
            if "layer_norm" not in node.arguments:
                (child,) = forward
                assert child.target == "operator.getitem"
                assert child.arguments.rpartition(", ")[2] == node.arguments.rpartition(", ")[2]


def session_children(session: SessionReader, node: int) -> list[int]:
    return [link.child for link in session.rows(model.Link, parent=node)]
