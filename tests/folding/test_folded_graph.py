"""These tests check graphs that are folded by module: every node stands below exactly one of the
rows that are shown, the numbers of a row are those of its nodes, and a training step of 48 layers
fits one small screen.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.synthetic import llama_session
from fx_explorer import model
from fx_explorer.analysis.input_names import InputNames, input_kind
from fx_explorer.cli import main
from fx_explorer.instruments.modules.folded_graph import FoldedGraph, NodeGroup
from fx_explorer.instruments.modules.folded_listing import describe_folded, folded_rows, title_of
from fx_explorer.instruments.modules.graph_folding import folded_graph
from fx_explorer.session import SessionReader
from tests.folding.layers import graph_nodes, node, standing, write_graph
from tests.sessions import Written

DATA = Path(__file__).parents[1] / "data"

SCREEN = 18
"""Rows that a terminal of 24 rows has for a graph."""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("folded")
    paths: dict[str, Path] = {}
    for layers in (3, 48):
        paths[f"llama{layers}"] = folder / f"llama{layers}.fxs"
        llama_session(paths[f"llama{layers}"], layers)
    for name in ("screens/whole", "profiles/gpt2"):
        paths[name] = folder / f"{Path(name).name}.fxs"
        paths[name].write_bytes(gzip.decompress((DATA / f"{name}.fxs.gz").read_bytes()))
    return paths


@pytest.fixture(params=["llama3", "screens/whole", "profiles/gpt2"])
def reader(request: pytest.FixtureRequest, sessions: dict[str, Path]) -> Iterator[SessionReader]:
    with SessionReader(sessions[request.param]) as opened:
        yield opened


def groups_of(folded: FoldedGraph) -> list[tuple[int, NodeGroup]]:
    return [(row, group) for row, group in enumerate(folded.rows) if isinstance(group, NodeGroup)]


def test_every_node_stands_below_exactly_one_of_the_rows(reader: SessionReader) -> None:
    for graph in reader.rows(model.Graph):
        folded = folded_graph(reader, graph.id)
        every = list(range(graph.node_count))
        assert sorted(standing(folded, folded.first_shown())) == every
        assert sorted(standing(folded, list(range(len(folded.rows))))) == every
        for row, group in groups_of(folded):
            inside = [position for inner in folded.inside(row) for position in folded.lines(inner)]
            assert inside == list(folded.lines(row)), title_of(group)
        for position in every:
            assert folded.rows[folded.row_of_position[position]] == position


def test_the_numbers_of_a_row_are_those_of_its_modules(reader: SessionReader) -> None:
    checked = 0
    for graph in reader.rows(model.Graph):
        folded, nodes = folded_graph(reader, graph.id), reader.nodes(graph)
        names = InputNames(reader).of(each for each in nodes if each.op == "placeholder")
        for row, group in groups_of(folded):
            below = [nodes[position] for position in folded.lines(row)]
            assert group.node_count == len(below)
            kinds = [input_kind(each, names[each.id]) for each in below if each.id in names]
            attributes = sum(each.op == "get_attr" and each.shape is not None for each in below)
            parameters = kinds.count("parameter") + kinds.count("buffer") + attributes
            assert group.parameters == parameters
            if group.kind == "operations":
                continue
            parent = group.path.rpartition(".")[0]
            paths = [group.path]
            if group.layers:
                paths = [f"{parent}.{name}" if parent else name for name in group.layers]
            expected = {
                each.position
                for each in nodes
                if each.op.startswith("call") and is_in_one_of(each.module, paths)
            }
            assert {each.position for each in below if each.op.startswith("call")} == expected
            assert group.calls == len(expected)
            checked += 1
    assert checked > 50


def is_in_one_of(module: str, paths: list[str]) -> bool:
    return any(module == path or module.startswith(f"{path}.") for path in paths)


def test_a_training_step_of_48_layers_fits_a_small_screen(sessions: dict[str, Path]) -> None:
    with SessionReader(sessions["llama48"]) as reader:
        graphs = reader.rows(model.Graph)
        assert len(graphs) == 6
        for graph in graphs:
            folded = folded_graph(reader, graph.id)
            shown = folded.first_shown()
            assert len(shown) <= SCREEN
            (layers,) = [folded.rows[row] for row in shown if is_layers(folded, row)]
            assert isinstance(layers, NodeGroup)
            assert len(layers.layers) == 48
            assert layers.calls == graph.call_count
            assert sorted(standing(folded, shown)) == list(range(graph.node_count))


def is_layers(folded: FoldedGraph, row: int) -> bool:
    group = folded.group(row)
    return group is not None and group.kind == "layers"


def test_what_is_planted_in_one_layer_of_48_is_what_differs(written: Written) -> None:
    def relu(nodes: list[model.Node]) -> list[model.Node]:
        extra = node("l23_relu", "aten.relu.default", "l23_mul", "model.layers.23.act")
        add = replace(nodes[-1], arguments=nodes[-1].arguments.replace("l23_mul", "l23_relu"))
        return [*nodes[:-1], extra, add]

    reader = written(lambda writer: write_graph(writer, graph_nodes(48, {23: relu})))
    folded = folded_graph(reader, 1)
    *groups, output = folded.first_shown()
    titles = [title_of(group) for group in map(folded.group, groups) if group]
    assert titles == ["model", "embed", "layers.0 … 47 ×48", "head"]
    assert folded.lines(output) == [196]
    assert describe_folded(folded) == (
        "48 layers, model.layers.0 … 47, have 193 of the 197 nodes and are alike except for 23: also "
        "relu."
    )
    differing = [group for _, group in groups_of(folded) if group.difference]
    assert [title_of(group) for group in differing] == ["layers.0 … 47 ×48", "23"]
    assert differing[1].difference == "also relu"
    assert sum(group.parameters for group in differing[:1]) == 48
    assert differing[0].parameter_bytes == 48 * 8 * 8 * 4


def test_layers_of_a_symbolic_size_are_alike_and_have_no_bytes_of_inputs(written: Written) -> None:
    reader = written(lambda writer: write_graph(writer, graph_nodes(5, batch="s77")))
    folded = folded_graph(reader, 1)
    assert "and are alike." in describe_folded(folded)


def test_a_graph_without_modules_says_that_there_is_nothing_to_fold(written: Written) -> None:
    nodes = [replace(each, module="", module_type="") for each in graph_nodes(3)]
    reader = written(lambda writer: write_graph(writer, nodes))
    folded = folded_graph(reader, 1)
    assert not folded.has_modules
    assert len(folded.rows) == len(nodes)
    assert "torch recorded no module for the nodes of this graph" in describe_folded(folded)


def test_numbered_modules_that_do_something_else_are_no_layers(written: Written) -> None:
    nodes = [node("x", "x", "", "", op="placeholder")]
    before = "x"
    for number, target in enumerate(("aten.mm.default", "aten.relu.default", "aten.sin.default")):
        nodes.append(node(f"n{number}", target, before, f"net.{number}"))
        before = f"n{number}"
    folded = folded_graph(written(lambda writer: write_graph(writer, nodes)), 1)
    assert all(group.kind == "module" for _, group in groups_of(folded))


def test_the_listing_and_the_answer_for_agents_have_the_same_rows(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(sessions["profiles/gpt2"])
    with SessionReader(sessions["profiles/gpt2"]) as reader:
        graph = reader.rows(model.Graph, stage="post_grad", direction="forward")[0]
        folded = folded_graph(reader, graph.id)
        entries = folded_rows(reader, graph, folded, folded.first_shown())
    assert main(["graph", session, str(graph.id), "--fold"]) == 0
    listing = capsys.readouterr().out
    for entry in entries:
        name = entry.get("node") or str(entry["module"]).rpartition(".")[2]
        assert str(name).split(" …")[0] in listing
    assert main(["ask", session, "graph", str(graph.id)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["nodes"] for row in answer["rows"]] == [entry["nodes"] for entry in entries]
    assert answer["answer"].partition(": ")[2] in " ".join(listing.split())
    outermost = [row["nodes"] for row in answer["rows"] if row["depth"] == 0]
    assert sum(outermost) == graph.node_count


def test_a_module_is_listed_with_what_is_in_it(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(sessions["llama3"])
    assert main(["graph", session, "forward", "--module", "layers.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("layers.1 "))
    names = [line.split()[0] for line in lines[start + 1 :] if line.startswith("  ")]
    assert names == ["attention_norm", "attention", "mlp_norm", "mlp"]
    assert main(["graph", session, "forward", "--module", "layers.99"]) == 2
    assert "no module 'layers.99' is in this graph; there are: layers.0 … 2" in " ".join(
        capsys.readouterr().err.split()
    )
