"""These tests check the ways in which a selection can be marked as a region."""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.documents import documents
from fx_explorer.analysis.hand_marks import markables
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step


def test_a_node_of_any_stage_is_marked_by_the_dynamo_nodes_it_comes_from(tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        post = next(d for d in documents(reader) if d.title == "Backward · post-grad")
        (found,) = markables(reader, post, [1])
        assert (found.mark.nodes, found.compilation) == (("fc2",), "0/0")
        assert markables(reader, post, [0]) == []


def test_modules_that_differ_in_the_middle_of_their_path_have_only_what_comes_before_in_common(
    tmp_path: Path,
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "f.py", 1))
        nodes = [
            model.Node(
                0,
                0,
                0,
                name,
                "call_function",
                "relu",
                "x",
                ("4",),
                "f32",
                module=f"layers.{number}.mlp",
            )
            for number, name in enumerate(("relu", "relu_1"))
        ]
        writer.add_graph(model.Graph(0, compilation, "dynamo", "", call_count=2), nodes, [(0, 1)])
    with SessionReader(tmp_path / "s.fxs") as reader:
        (graph,) = documents(reader)
        assert [one.mark.module for one in markables(reader, graph, [0, 1])] == ["", "layers"]
        assert [one.mark.module for one in markables(reader, graph, [1])] == [
            "",
            "layers.1.mlp",
            "layers.1",
            "layers",
        ]
