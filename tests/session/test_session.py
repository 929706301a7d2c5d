"""These tests check the session file: it returns the data that was written, while it is written,
after a kill, and from files that only look like sessions.
"""

import dataclasses
import math
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.errors import (
    NewerSessionError,
    NotASessionError,
    OlderSessionError,
    SessionError,
    SessionWriteError,
)
from fx_explorer.session import SessionReader, SessionWriter, answered_once, schema
from fx_explorer.session.writer import IN_MEMORY, finish_session


def node(name: str, **changes: object) -> model.Node:
    return model.Node(0, 0, 0, name, "call_function", "aten.mul.Tensor", "x, 2", **changes)  # type: ignore[arg-type]


ROWS = [
    model.Compilation(
        0,
        "0/1",
        0,
        1,
        "MLP.forward",
        "mlp.py",
        3,
        restart_reasons=("a", "b"),
        missing_stages={"kernel": "why"},
    ),
    model.Artifact(0, 1, "kernel", "kernel", "backward", "cpp_fused_0", "cpp", 1, 12),
    model.Kernel(0, 1, "forward", 0, "cpp_fused_0", "cpp", 1, 2, 34),
    model.GraphBreak(
        0, 1, "GB0059", "print", "because", ("hint 1", "hint 2"), "mlp.py", 4, "print(x)"
    ),
    model.ResumeFunction(0, 1, "torch_dynamo_resume_in_f_at_4", 4, ("x", "h")),
    model.LocalTensor(0, 1, "L['x']", 7, is_input=True),
    model.GraphCall(0, 1, 2, 1, (7, 9), (3, 0), is_whole=False),
    model.ReturnedStorage(0, 1, (0, 2), 64, 1, 2, 3, 4, is_saved_between=True, at_end="held"),
    model.SavedBetween(0, 1, 2, 40, 3, 64, "cuda", "MulBackward0", is_parameter=True),
    model.Fallback(
        0, 0, "limit", "f", "mlp.py", 3, "GB0039", "too often", "because", ("a hint",), 5
    ),
    model.Guard(0, 1, 0, "TENSOR_MATCH", "L['x']", "check", "check  # x"),
    model.GuardCheck(0, 1, 3, 0, "EQUALS_MATCH", "L['n']", "argument", "L['n'] == 3", cost_ns=12.5),
    model.GuardAnswer(0, 1, "torch.randn(8, 8)", 1, "rejected", "size mismatch", 3),
    model.Symbol(
        0,
        1,
        "s77",
        "L['x'].size()[0]",
        "4",
        "[2, int_oo]",
        sources=("L['x'].size()[0]",),
        became="8",
    ),
    model.SymbolEvent(0, 1, "constrained", ("s77", "s27"), "s77 > s27"),
    model.SavedTensor(0, 1, "mul", "activation", ("4", "s0"), "f32", 64, 1, 2),
    model.PartitionChoice(
        0, 1, 7, "mul", "saved", "cannot_recompute", "cannot recompute: random op", 128.0, 3, 64
    ),
    model.Span(0, 1, "GraphLowering.run", None, 0.5, 0.25),
    model.ConsoleLine(0, "stdout", "\x1b[31mred ☃"),
    model.Failure(0, 1, "compiler", "joint", "ValueError", "no"),
    model.LedgerGap(0, 1, 2, "triton_a", "", 1e-5, (3, 4), (2e-6, 8e-6)),
    model.Verification(
        0,
        False,
        True,
        ("the example inputs",),
        {"output": 1},
        math.inf,
        "output",
        ("one is infinite",),
        (),
        (),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_comes_back_as_it_went_in(tmp_path: Path, row: object) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        row_id = writer.add(row)  # type: ignore[arg-type]
        with SessionReader(tmp_path / "s.fxs") as reader:
            found = reader.get(type(row), row_id)
    same = {f.name: getattr(row, f.name) for f in fields(row) if f.name != "id"}  # type: ignore[arg-type]
    assert {name: getattr(found, name) for name in same} == same


def test_a_file_name_that_is_no_text_is_stored_visibly(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("target", {"file": "m\udc80.py"})
        writer.add(model.SourceFile(0, "m\udc80.py", 0))
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert reader.meta("target")["file"] == "m\udc80.py"
            assert reader.rows(model.SourceFile)[0].path == "m\\udc80.py"


def test_every_class_of_the_model_with_rows_has_a_table() -> None:
    not_rows = {
        "CaptureRequest",
        "Outcome",
        "Notice",
        "Frame",
        "Command",
        "Changes",
        "Mark",
        "PassFile",
        "FusionChange",
        "LayoutChange",
        "CandidateChange",
        "Gpu",
    }
    not_rows |= {"BuildRequest", "BuildAnswer", "BenchRequest", "BenchAnswer"}
    not_rows |= {name for name in model.__all__ if name.startswith("Numerics")}
    not_rows |= {"BenchTask", "BenchNews", "HeldLine", "InputDim", "InputSize"}
    dataclasses = {
        name for name in model.__all__ if hasattr(getattr(model, name), "__dataclass_fields__")
    }
    assert dataclasses - not_rows == {row_type.__name__ for row_type in schema.TABLES}


def test_a_session_in_memory_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SessionWriter(IN_MEMORY) as writer:
        writer.set_meta("program", "thrown away")
    assert list(tmp_path.iterdir()) == []


def test_a_row_added_to_a_complete_session_leaves_it_one_file(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.SourceFile(0, "m.py", 0))
    finish_session(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader, SessionWriter(tmp_path / "s.fxs") as later:
        later.add(model.SourceFile(0, "n.py", 0))
        assert [file.path for file in reader.rows(model.SourceFile)] == ["m.py", "n.py"]
        assert [path.name for path in tmp_path.iterdir()] == ["s.fxs"]


def test_two_writers_of_one_session_get_ids_of_their_own(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as one, SessionWriter(tmp_path / "s.fxs") as other:
        ids = [
            writer.add(model.SourceFile(0, f"{i}.py", 0))
            for i in range(3)
            for writer in (one, other)
        ]
    assert ids == [1, 2, 3, 4, 5, 6]


def test_rows_that_are_added_at_once_get_the_ids_that_single_ones_would(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        files = [model.SourceFile(0, f"{i}.py", 0) for i in range(5)]
        ids = [
            writer.add(files[0]),
            *writer.add_numbered(files[1:3]),
            writer.add(files[3]),
            *writer.add_numbered(files[4:]),
        ]
        assert list(writer.add_numbered([])) == []
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.rows(model.SourceFile) == [
            dataclasses.replace(file, id=i) for i, file in enumerate(files, 1)
        ]
        assert ids == [1, 2, 3, 4, 5]


def test_rows_given_as_values_are_those_given_as_objects(tmp_path: Path) -> None:
    rows = [model.LineNode(1, line, 7, "origins", line % 2) for line in range(4)]
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add_values(model.LineNode, map(dataclasses.astuple, rows))
        writer.add_values(model.LineNode, [])
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.rows(model.LineNode) == rows


def test_nodes_of_a_graph_are_contiguous_and_come_by_page(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for size in (3, 5):
            rows = [
                node(f"n{i}", shape=("4", "s0"), stride=("1",), annotations={"r": 1})
                for i in range(size)
            ]
            graph = writer.add_graph(model.Graph(0, 1, "joint", ""), rows, [(0, 1), (0, 2)])
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert reader.get(model.Graph, graph.id) == graph
            assert [n.name for n in reader.nodes(graph, 1, 3)] == ["n1", "n2"]
            assert [n.position for n in reader.nodes(graph)] == [0, 1, 2, 3, 4]
            assert reader.nodes(graph)[0].shape == ("4", "s0")
            first = graph.first_node
            assert reader.users(first) == [first + 1, first + 2]
            assert reader.producers(first + 2) == [first]


def test_nodes_are_found_by_any_line_of_their_stack_and_by_the_innermost(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        file = writer.add(model.SourceFile(0, "m.py", writer.text("a\nb\n")))
        frames = (model.Frame("m.py", 7, "main"), model.Frame("m.py", 2, "forward", "b"))
        stack = writer.add_stack(model.Stack(0, frames), {"m.py": file})
        rows = [node("a", stack=stack, file=file, line=2), node("b")]
        graph = writer.add_graph(model.Graph(0, 1, "dynamo", ""), rows, [])
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert reader.nodes_at_source(file, 7) == [graph.first_node]
            assert reader.nodes_at_source(file, 2, innermost=True) == [graph.first_node]
            assert reader.nodes_at_source(file, 7, innermost=True) == []
            assert reader.get(model.Stack, stack).frames == frames


def test_links_are_walked_both_ways_for_thousands_of_nodes(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add_all(model.Link(child, child + 10_000, "name") for child in range(1, 3001))
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert len(reader.parents(range(1, 3001))) == 3000
            assert reader.children([10_005]) == [model.Link(5, 10_005, "name")]


def test_equal_texts_are_stored_once_and_any_text_survives(tmp_path: Path) -> None:
    text = "def f():\n" * 1000 + "☃ \x00 \udc80"
    with SessionWriter(tmp_path / "s.fxs") as writer:
        assert writer.text(text) == writer.text(text)
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert reader.text(1) == text
            assert reader.text(0) == ""
            (size,) = reader.query("SELECT length(body) FROM text")[0]
            assert size < len(text) / 10


def test_a_reader_follows_a_writer_and_sees_only_whole_transactions(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer, SessionReader(tmp_path / "s.fxs") as reader:
        before = reader.data_version()
        with writer.transaction():
            writer.add(ROWS[0])  # type: ignore[arg-type]
            assert reader.count(model.Compilation) == 0
        assert reader.count(model.Compilation) == 1
        assert reader.data_version() != before
        with pytest.raises(AttributeError), writer.transaction():
            writer.add_all([ROWS[0], object()])  # type: ignore[list-item]
        assert reader.count(model.Compilation) == 1


def test_a_question_is_answered_once_until_the_session_has_grown(tmp_path: Path) -> None:
    asked = []

    @answered_once
    def compilations(reader: SessionReader, more: int) -> int:
        asked.append(more)
        return reader.count(model.Compilation) + more

    with SessionWriter(tmp_path / "s.fxs") as writer, SessionReader(tmp_path / "s.fxs") as reader:
        for _ in range(2):
            with reader.snapshot():
                assert [compilations(reader, 0), compilations(reader, 10)] == [0, 10]
        assert asked == [0, 10]
        with reader.snapshot():
            writer.add(ROWS[0])  # type: ignore[arg-type]
            assert compilations(reader, 0) == 0, "the moment is that of the snapshot"
        with reader.snapshot():
            assert compilations(reader, 0) == 1
        assert asked == [0, 10, 0]
        writer.add(ROWS[0])  # type: ignore[arg-type]
        assert compilations(reader, 0) == 2, "outside a snapshot it is always asked"


def test_what_could_not_be_answered_is_asked_again(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer, SessionReader(tmp_path / "s.fxs") as reader:
        with reader.snapshot(), pytest.raises(KeyError):
            reader.get(model.Compilation, 1)
        writer.add(ROWS[0])  # type: ignore[arg-type]
        with reader.snapshot():
            assert reader.get(model.Compilation, 1).id == 1
            assert reader.get(model.Compilation, 1) is reader.get(model.Compilation, 1)


def test_a_reader_that_goes_on_after_closing_has_forgotten_its_answers(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(ROWS[0])  # type: ignore[arg-type]
    with SessionReader(tmp_path / "s.fxs") as reader:
        with reader.snapshot():
            before = reader.get(model.Compilation, 1)
        reader.close()
        reader.reopen()
        with reader.snapshot():
            again = reader.get(model.Compilation, 1)
        assert again == before
        assert again is not before


def test_two_writers_share_a_session(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as one, SessionWriter(tmp_path / "s.fxs") as two:
        ids = {
            writer.add(model.ConsoleLine(0, "stdout", "x"))
            for _ in range(20)
            for writer in (one, two)
        }
        assert len(ids) == 40


WRITE_FOREVER = """
import sys, itertools
from fx_explorer import model
from fx_explorer.session import SessionWriter
writer = SessionWriter(sys.argv[1])
print("writing", flush=True)
for i in itertools.count():
    rows = [model.Node(0, 0, 0, f"n{j}", "call_function", "t", "") for j in range(200)]
    writer.add_graph(model.Graph(0, i, "joint", ""), rows, [(j, j + 1) for j in range(199)])
"""


@pytest.mark.parametrize("graphs", [0, 1, 7])
def test_a_writer_killed_in_the_middle_leaves_whole_graphs_only(
    tmp_path: Path, graphs: int
) -> None:
    path = tmp_path / "s.fxs"
    worker = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOREVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    with SessionReader(path) as reader:
        while reader.count(model.Graph) < graphs:
            os.sched_yield()
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    finish_session(path)
    assert [p.name for p in tmp_path.iterdir()] == ["s.fxs"]
    with SessionReader(path) as reader:
        found = reader.rows(model.Graph)
        assert len(found) >= graphs
        assert all(len(reader.nodes(graph)) == graph.node_count == 200 for graph in found)
        assert reader.count(model.Edge) == 199 * len(found)


def test_a_finished_session_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("progress", "done")
    finish_session(path)
    before = path.read_bytes()
    with SessionReader(path) as reader:
        assert reader.meta("progress") == "done"
        with pytest.raises(SessionError):
            reader.query("DELETE FROM meta")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.fxs"]


def test_files_that_are_no_session_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no session file"):
        SessionReader(tmp_path / "missing.fxs")
    text = tmp_path / "notes.fxs"
    text.write_text("hello " * 500)
    with pytest.raises(NotASessionError, match=r"notes\.fxs is not an fx-explorer session"):
        SessionReader(text)
    other = tmp_path / "other.fxs"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE meta (key, value)")
    db.close()
    with pytest.raises(NotASessionError, match="some other SQLite database"):
        SessionReader(other)


def test_a_session_cut_short_is_refused_or_read_but_never_crashes(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        writer.add_all(model.ConsoleLine(0, "stdout", "x" * 100) for _ in range(2000))
    finish_session(path)
    whole = path.read_bytes()
    for part in (100, 5000, len(whole) // 2):
        path.write_bytes(whole[:part])
        with pytest.raises(NotASessionError), SessionReader(path) as reader:
            reader.rows(model.ConsoleLine)


def test_a_newer_session_is_refused_and_says_how_to_upgrade(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("schema_version", schema.SCHEMA_VERSION + 1)
    with pytest.raises(NewerSessionError, match="pip install -U fx-explorer"):
        SessionReader(tmp_path / "s.fxs")


def test_an_older_session_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("schema_version", schema.SCHEMA_VERSION - 1)
    with pytest.raises(OlderSessionError, match=r"older fx-explorer.*: capture it again"):
        SessionReader(tmp_path / "s.fxs")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionWriteError, match=r"cannot create the session file .*TMPDIR"):
        SessionWriter(tmp_path / "missing" / "s.fxs")
