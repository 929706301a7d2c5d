"""The ways in which a selection can be marked as a region."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.analysis.documents import documents
from fx_explorer.analysis.regions.markable import markables
from fx_explorer.session import SessionReader
from tests.sessions import write_training_step


def test_a_node_of_any_stage_is_marked_by_the_dynamo_nodes_it_comes_from(tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        post = next(d for d in documents(reader) if d.title == "Backward · post-grad")
        (found,) = markables(reader, post, [1])
        assert (found.mark.nodes, found.compilation) == (("fc2",), "0/0")
        assert markables(reader, post, [0]) == []
