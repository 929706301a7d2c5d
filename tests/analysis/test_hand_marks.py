"""These tests apply marks to the sample as edits of its source: a new capture must mark the same
nodes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.hand_marks import hand_marks, source_edit
from fx_explorer.model import Mark
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import SAMPLES, Captured

Open = Callable[[str | Path], SessionReader]

MLP = SAMPLES / "mlp.py"


def edited(tmp_path: Path, reader: SessionReader, *marks: Mark) -> Path:
    """A copy of the sample after ``git apply``."""
    edit = source_edit(reader, marks, SAMPLES)
    copy = tmp_path / "mlp.py"
    copy.write_bytes(MLP.read_bytes())
    command = ["git", "apply", "--unsafe-paths", "-"]
    subprocess.run(command, input=edit.diff.encode(), cwd=tmp_path, check=True, capture_output=True)
    return copy


def annotated(reader: SessionReader) -> dict[str, str]:
    """Dynamo's calls → their region."""
    (graph,) = reader.rows(model.Graph, stage="dynamo")
    calls = [node for node in reader.nodes(graph) if node.op.startswith("call_")]
    return {
        n.target: n.annotations["compile_with_inductor"]["inductor_region"]
        for n in calls
        if n.annotations
    }  # type: ignore[index]


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(MLP.read_text().splitlines(), 1) if text in line)


def test_a_source_marked_by_the_edit_is_captured_with_those_regions(
    captured: Captured, reader: Open, tmp_path: Path
) -> None:
    session = reader(captured("mlp"))
    line = line_of("gelu")
    copy = edited(tmp_path, session, Mark("waves", file=str(MLP), first_line=line, last_line=line))
    after = annotated(reader(captured(copy)))
    (graph,) = session.rows(model.Graph, stage="dynamo")
    on_line = {
        n.target for n in session.nodes(graph) if n.line == line and n.op.startswith("call_")
    }
    assert after == dict.fromkeys(on_line, "waves")


def test_nodes_and_a_module_become_the_whole_statements_they_come_from_and_what_else_is_there_is_said(
    captured: Captured, reader: Open
) -> None:
    session = reader(captured("mlp"))
    (graph,) = session.rows(model.Graph, stage="dynamo")
    gelu = next(node for node in session.nodes(graph) if "gelu" in node.target)
    others = [
        n.name
        for n in session.nodes(graph)
        if n.line == gelu.line and n.op.startswith("call_") and n.name != gelu.name
    ]
    edit = source_edit(session, [Mark("g", nodes=(gelu.name,))], SAMPLES)
    assert f"+            {MLP.read_text().splitlines()[gelu.line - 1].strip()}" in edit.diff
    assert all(name in edit.remarks[0] for name in others)
    module = next(node.module for node in session.nodes(graph) if node.module)
    assert (
        source_edit(session, [Mark("m", module=module)], SAMPLES).diff.count(
            "+        with fx_traceback.annotate"
        )
        == 1
    )


def test_a_function_called_on_several_lines_is_marked_inside(
    captured: Captured, reader: Open
) -> None:
    """All nodes of a class of the user's: its own lines, not the call."""
    session = reader(captured("transformer"))
    (module,) = session.query(
        "SELECT min(module) FROM node WHERE module LIKE '%mlp' OR module LIKE '%feed%' OR module LIKE '%ffn'"
    )
    edit = source_edit(session, [Mark("mlp", module=str(module[0]))], SAMPLES)
    assert edit.diff
    assert edit.files == (str(SAMPLES / "transformer.py"),)


def test_what_cannot_be_an_edit_is_said_and_the_rest_is_one(
    captured: Captured, reader: Open
) -> None:
    session = reader(captured("mlp"))
    line = line_of("gelu")
    good = Mark("good", file=str(MLP), first_line=line, last_line=line)
    edit = source_edit(
        session,
        [Mark("top", file=str(MLP), first_line=1, last_line=2), good, Mark("x", nodes=("none",))],
        SAMPLES,
    )
    assert "good" in edit.diff
    assert edit.remarks[0].startswith('Region "top" is not in the diff: lines 1 to 2')
    assert edit.remarks[1] == 'Region "x" is not in the diff: none of its nodes has a source line.'


def test_marks_are_read_from_variants_from_what_was_recorded_and_from_what_waits(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.fxs"
    mark = Mark("of a variant", module="up")
    with SessionWriter(path) as writer:
        variant = model.Compilation(
            0, "0/0", 0, 0, "f", "/p/m.py", 1, changes=model.Changes(marks=(mark,)).to_json()
        )
        owner = writer.add(variant)
        region: dict[str, object] = {"compile_with_inductor": {"inductor_region": "at a gate"}}
        plain = model.Node(0, 0, 0, "gelu", "call_function", "gelu", "x")
        before = writer.add_graph(model.Graph(0, owner, "dynamo", ""), [plain], [])
        after = writer.add_graph(
            model.Graph(0, owner, "dynamo", ""),
            [model.Node(0, 0, 0, "gelu", "call_function", "gelu", "x", annotations=region)],
            [],
        )
        writer.add(
            model.Intervention(
                0, owner, "dynamo", "", "mark", 'region "at a gate": 1 nodes', before.id, after.id
            )
        )
    with SessionReader(path) as session:
        assert hand_marks(session) == [mark, Mark("at a gate", nodes=("gelu",))]
        given = Mark("at a gate", file="/p/m.py", first_line=3, last_line=4)
        assert hand_marks(session, [given]) == [mark, given]


@pytest.mark.parametrize("configs", [{}, {"max_fusion_size": 4}])
def test_configs_of_a_mark_are_kept(
    captured: Captured, reader: Open, configs: dict[str, object]
) -> None:
    line = line_of("gelu")
    mark = Mark("m", file=str(MLP), first_line=line, last_line=line, configs=configs)
    assert (
        "inductor_configs" in source_edit(reader(captured("mlp")), [mark], SAMPLES).diff
    ) == bool(configs)
