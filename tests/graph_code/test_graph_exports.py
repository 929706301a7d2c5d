"""These tests check graphs for other programs: read back, they have the nodes and edges of the
session.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import sqlite3
import sys
from pathlib import Path

import networkx
import pytest

from fx_explorer import model
from fx_explorer.analysis.graph_exports import graph_as_dot, graph_as_graphml
from fx_explorer.cli import main
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import edges_of_graph

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exports") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    return path


def _expected(session: Path, graph_id: int) -> tuple[list[str], set[tuple[str, str]]]:
    """Return the names of the nodes, and the edges by name."""
    with SessionReader(session) as reader:
        graph = reader.get(model.Graph, graph_id)
        names = {node.id: node.name for node in reader.nodes(graph)}
        edges = {(names[one], names[other]) for one, other in edges_of_graph(reader, graph)}
    return list(names.values()), edges


def _graphs(session: Path) -> list[int]:
    with SessionReader(session) as reader:
        return [graph.id for graph in reader.rows(model.Graph)]


def test_graphml_is_read_back_with_all_nodes_and_edges(session: Path, tmp_path: Path) -> None:
    for graph_id in _graphs(session):
        file = tmp_path / f"{graph_id}.graphml"
        command = ["graph", str(session), str(graph_id), "--format", "graphml", "-o", str(file)]
        assert main(command) == 0
        read = networkx.read_graphml(file)
        names = networkx.get_node_attributes(read, "name")
        expected_names, expected_edges = _expected(session, graph_id)
        assert list(names.values()) == expected_names
        assert {(names[one], names[other]) for one, other in read.edges} == expected_edges


def test_characters_that_xml_does_not_have_are_escaped(session: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.fxs"
    changed.write_bytes(session.read_bytes())
    graph = _graphs(session)[0]
    with contextlib.closing(sqlite3.connect(changed)) as database, database:
        database.execute("UPDATE node SET module = ?", ("a\x07\ufffe\uffff]]><b>",))
    file = tmp_path / "a.graphml"
    assert main(["graph", str(changed), str(graph), "--format", "graphml", "-o", str(file)]) == 0
    modules = networkx.get_node_attributes(networkx.read_graphml(file), "module")
    assert set(modules.values()) == {"a␇\\ufffe\\uffff]]><b>"}


def test_model_explorer_gets_modules_as_namespaces(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for graph_id in _graphs(session):
        assert main(["graph", str(session), str(graph_id), "--format", "model-explorer"]) == 0
        collection = json.loads(capsys.readouterr().out)
        (graph,) = collection["graphs"]
        names = {}
        for node in graph["nodes"]:
            attributes = {pair["key"]: pair["value"] for pair in node["attrs"]}
            names[node["id"]] = attributes["name"]
            assert node["namespace"] == attributes.get("module", "").replace(".", "/")
        edges = set()
        for node in graph["nodes"]:
            for edge in node["incomingEdges"]:
                edges.add((names[edge["sourceNodeId"]], names[node["id"]]))
        assert (list(names.values()), edges) == _expected(session, graph_id)


def test_dot_has_a_cluster_for_each_module(session: Path) -> None:
    with SessionReader(session) as reader:
        graph = reader.rows(model.Graph, stage="dynamo")[0]
        text = graph_as_dot(reader, graph, "the graph")
        modules = {node.module for node in reader.nodes(graph) if node.module}
        count = graph.node_count
    labels = re.findall(r"subgraph cluster_\d+ \{\n +label=\"(.*)\";", text)
    assert set(labels) == modules
    assert len(re.findall(r"^ +n\d+ \[label=", text, re.M)) == count
    assert text.count("{") == text.count("}")
    assert text.startswith("// the graph\ndigraph {")


def test_without_networkx_it_is_said_what_to_do(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with SessionReader(session) as reader:
        graph = reader.rows(model.Graph)[0]
        with pytest.raises(UsageError, match="pip install networkx"):
            graph_as_graphml(reader, graph, "the graph")
