"""These tests install the sample package, which has a plug-in of each kind, and use each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.documents import document_of, graph_form, node_at, place_of_row, text_of
from fx_explorer.analysis.graph_texts import forms_of
from fx_explorer.command_line.given_files import open_session
from fx_explorer.commands.doctor import plugin_checks
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.gpus import find_gpu, gpu_like, known_gpus
from fx_explorer.report.json_report import json_report
from fx_explorer.report.markdown import markdown_report
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader, SessionWriter
from tests.plugins.conftest import ROOT, UsePlugins
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

TABULAR = ROOT / "tests" / "data" / "plugins" / "print_tabular.txt"
"""What ``graph.print_tabular()`` printed, with torch 2.13.0 and tabulate 0.9."""


@pytest.fixture(autouse=True)
def with_sample(sample: Path, use_plugins: UsePlugins) -> None:
    use_plugins(sample)


def run(sample: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(sample), str(ROOT)))}
    command = [sys.executable, "-m", "fx_explorer", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_doctor_lists_what_is_installed() -> None:
    checks = list(plugin_checks())
    assert {(check.name, check.state) for check in checks} == {("plug-in", "ok")}
    assert [check.found for check in checks] == [
        f"the {noun} (fx-explorer-sample 1.0)"
        for noun in (
            "GPU rtx4090",
            "pane dot",
            "kind of problem float64",
            "reader tabular",
            "section operators",
            "view dtypes",
        )
    ]


def test_a_reader_makes_a_session_of_its_files() -> None:
    with open_session(str(TABULAR)) as reader:
        (graph,) = reader.rows(model.Graph)
        nodes = reader.nodes(graph)
        assert [node.name for node in nodes] == ["x", "add", "relu", "mul", "output"]
        users = {
            node.name: [nodes[id_ - 1].name for id_ in reader.users(node.id)] for node in nodes
        }
        assert users == {
            "x": ["add"],
            "add": ["relu"],
            "relu": ["mul"],
            "mul": ["output"],
            "output": [],
        }


def test_a_file_that_the_reader_calls_damaged_is_told_as_such(tmp_path: Path) -> None:
    cut = tmp_path / "cut.txt"
    cut.write_text(TABULAR.read_text().splitlines()[0])
    with pytest.raises(SessionError, match=r"cut\.txt cannot be read: it has no rows"):
        with open_session(str(cut)):
            pass


def test_without_the_reader_the_file_is_text(sample: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"is a table of a graph \(graph.print_tabular\), but fx-explorer bench needs the program",
    ):
        cli._dispatch(["bench", str(TABULAR)])
    ended = run(sample, "--no-plugins", str(TABULAR))
    assert "it looks like text" in ended.stderr
    assert ended.returncode == UsageError.exit_code


def write_float64(path: Path) -> SessionReader:
    """Write a graph of three operations: the second makes float64, the third keeps it."""
    with SessionWriter(path) as writer:
        source = writer.add(
            model.SourceFile(0, "/p/m.py", writer.text("a\nb\nc\n"), 3, is_user=True)
        )
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        names = (("x", "placeholder", "f32", 0), ("relu", "call_function", "f32", 1))
        names += (("scale", "call_function", "f64", 2), ("mul", "call_function", "f64", 3))
        nodes = [
            model.Node(0, 0, 0, name, op, name, "", ("4",), dtype, file=source, line=line)
            for name, op, dtype, line in names
        ]
        graph = model.Graph(0, compilation, "dynamo", "", call_count=3)
        writer.add_graph(graph, nodes, [(0, 1), (1, 3), (2, 3)])
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    return SessionReader(path)


def test_a_kind_of_problem_is_found_and_listed_as_looked_for(tmp_path: Path) -> None:
    with write_float64(tmp_path / "wide.fxs") as reader:
        (problem,) = [finding for finding in findings(reader) if finding.kind == "float64"]
        assert problem.text == "Line 2 begins to compute in float64, and is given no float64."
        assert problem.place
        assert (problem.place.document.title, problem.place.line) == ("m.py", 1)
        assert "operations in float64" in search(reader).looked_for
        assert problem.text in {row["text"] for row in json_report(reader)["findings"]}  # type: ignore[attr-defined]


def test_a_pane_writes_the_graph_with_its_lines_linked(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        (form,) = set(forms_of("post_grad")) - {"code", "table"}
        document = graph_form(document_of(reader, "graph", hand.graphs["post_forward"].id), form)
        assert document.title.endswith(" · as DOT")
        lines = text_of(reader, document).splitlines()
        for position, node in enumerate(reader.nodes(hand.graphs["post_forward"])):
            place = place_of_row(reader, document, position)
            assert lines[place.line].startswith(f"  {node.name} [label=")
            assert node_at(reader, place) == node


def test_a_view_is_a_section_of_every_report(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        counted = dict.fromkeys(("dynamo", "joint"), 0)
        for graph in reader.rows(model.Graph):
            if graph.stage in counted:
                calls = [n for n in reader.nodes(graph) if n.op.startswith("call") and n.dtype]
                counted[graph.stage] += len(calls)
        section = section_of(reader, "dtypes")
        rows = {(row.cells[0].text, row.cells[1].text): row.cells[2].text for row in section.rows}
        for stage, count in counted.items():
            assert sum(int(n) for (_, of), n in rows.items() if of == stage) == count
        report = json_report(reader)
        assert [table["name"] for table in report["plugins"]] == ["dtypes", "operators"]  # type: ignore[attr-defined]
        markdown = markdown_report(reader)
        assert "dtypes" in markdown
        assert "Operators" in markdown


def test_a_section_is_named_on_the_command_line(sample: Path, hand: Hand) -> None:
    ended = run(sample, "report", str(hand.path), "--section", "operators")
    section = json.loads(ended.stdout)
    assert section["columns"] == ["operator", "calls"]
    with pytest.raises(UsageError, match="dtypes, operators"):
        cli._dispatch(["report", str(hand.path), "--section", "operatorz"])


def test_a_gpu_is_known_by_its_name_and_by_the_name_of_the_device() -> None:
    assert "rtx4090" in known_gpus()
    gpu = find_gpu("rtx4090")
    assert (gpu.arch, gpu.multiprocessors) == ("sm_89", 128)
    assert gpu_like("NVIDIA GeForce RTX 4090", {"multi_processor_count": 128}) == gpu


async def test_the_app_has_the_view_and_the_pane(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("v", "x")
        assert driver.explorer.view == "dtypes"
        assert "Operations have results of" in driver.screen
        assert "f32" in driver.screen
        await driver.press("enter")
        assert driver.explorer.view == "source"
        await driver.press("2", "tab")
        pane = driver.panes[1]
        for _ in range(3):
            await driver.press("p", "c")
        assert "as DOT" in pane.document.title
        assert "digraph {" in driver.screen
        source, _, kernel = driver.panes
        assert set(source.body.marks), "the node's line is lit"
        assert set(kernel.body.marks)
        await driver.press("p", "c")
        assert pane.document.kind == "graph"
