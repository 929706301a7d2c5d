"""These tests check front ends in a captured session: they are shown beside Dynamo's graphs in
documents, panes, report and messages, and never counted as Dynamo's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of, documents
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.cli import main
from fx_explorer.instruments.front_ends.scope_differences import compare_with_dynamo, differences
from fx_explorer.overview.outline import outline
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from tests.tui.conftest import OpenApp, apps_for_tests, open_app

__all__ = ["apps_for_tests", "open_app"]

Captured = Callable[..., Path]
OpenedReader = Callable[[Path], SessionReader]

TITLES = ["torch.fx.symbolic_trace", "torch.export.export", "make_fx"]


@pytest.fixture(scope="module")
def mlp(captured: Captured) -> Path:
    return captured("mlp", frontend="all")


@pytest.fixture(scope="module")
def breaks(captured: Captured) -> Path:
    return captured("graph_breaks", frontend="all", backend="eager")


@pytest.fixture(scope="module")
def convnet(captured: Captured) -> Path:
    return captured(
        "convnet", "--frontend", "symbolic_trace", "--frontend", "export,make_fx", backend="eager"
    )


def sentences(session: Path) -> dict[str, list[str]]:
    with SessionReader(session) as reader:
        return {
            row.name: differences(compare_with_dynamo(reader, row))
            for row in reader.rows(model.FrontEnd)
            if row.graph
        }


def test_the_graphs_are_documents_and_in_the_outline(mlp: Path, reader: OpenedReader) -> None:
    session = reader(mlp)
    assert [one.title for one in documents(session)][-3:] == TITLES
    entries = outline(session)
    at = next(i for i, entry in enumerate(entries) if entry.title == "Other front ends")
    assert [entry.title for entry in entries[at + 1 :]] == TITLES


def without_seconds(value: object) -> object:
    """Return JSON without its fields ``seconds``."""
    if isinstance(value, list):
        return [without_seconds(each) for each in value]
    if isinstance(value, dict):
        return {name: without_seconds(each) for name, each in value.items() if name != "seconds"}
    return value


def test_everything_else_of_the_session_is_as_without_them(
    mlp: Path, captured: Captured, reader: OpenedReader
) -> None:
    """The second source is a capture without front ends: its figures, compilations and totals."""
    with_, without = (json_report(reader(one)) for one in (mlp, captured("mlp")))
    for report in (with_, without):
        report["totals"]["compile_s"] = 0  # type: ignore[index]
        report["compilations"][0].update(seconds={}, total_s=0)  # type: ignore[index]
        report["passes"] = without_seconds(report["passes"])
    assert {name for name in with_ if with_[name] != without[name]} == {"front_ends"}


def test_what_is_said_of_the_mlp_is_what_its_graphs_have(mlp: Path) -> None:
    """Counted by hand: two linear layers and a gelu."""
    said = {name: " ".join(told) for name, told in sentences(mlp).items()}
    assert (
        "One graph of 5 nodes, including 3 calls; Dynamo has 3 calls in 1 graph."
        in said["symbolic_trace"]
    )
    assert (
        "2 modules of torch stay one node each (call_module): fc1 (Linear) and fc2 (Linear)."
        in said["symbolic_trace"]
    )
    assert "4 parameters are inputs of the graph, by name" in said["export"]
    assert "One graph of 9 nodes" in said["export"]
    assert (
        "mlp.py:14: linear and gelu of Dynamo's graph became t, addmm and gelu." in said["make_fx"]
    )
    assert (
        "4 parameters or other tensors are attributes that the graph reads (get_attr), not inputs."
        in said["make_fx"]
    )
    assert all("This graph has no guards" in told for told in said.values())
    assert (
        "the module() of an exported program checks sizes before it runs the graph"
        in said["export"]
    )
    assert "runs with any input" not in said["export"]


def test_mode_and_mutation_of_batch_norm_are_said(convnet: Path) -> None:
    said = {name: " ".join(told) for name, told in sentences(convnet).items()}
    assert "BatchNorm2d follows train() and eval()" in said["symbolic_trace"]
    assert "batch_norm stays as in training mode" in said["export"]
    assert "in-place operators (add_)" in said["make_fx"]
    assert "15 parameters and 12 buffers are inputs" in said["export"]
    assert "12 tensors became constants" in said["make_fx"]


def test_a_line_lights_what_every_front_end_made_of_it(mlp: Path, reader: OpenedReader) -> None:
    session = reader(mlp)
    shown = {one.title: one for one in documents(session)}
    place = Place(shown["mlp.py"], 13)
    lit = linked_places(session, place, [shown[title] for title in TITLES])
    names = {
        one.title: [
            session.nodes(session.get(model.Graph, one.id))[row].name for row in sorted(rows)
        ]
        for one, rows in lit.items()
    }
    assert names["torch.fx.symbolic_trace"] == ["fc1", "gelu"]
    assert names["torch.export.export"] == ["linear", "gelu"]
    assert names["make_fx"] == ["_param_constant0", "t", "_param_constant1", "addmm", "gelu"]


def test_a_node_of_a_front_end_lights_its_line_in_dynamos_graph_and_kernels(
    mlp: Path, reader: OpenedReader
) -> None:
    session = reader(mlp)
    shown = {one.title: one for one in documents(session)}
    graph = shown["torch.export.export"]
    row = [node.name for node in session.nodes(session.get(model.Graph, graph.id))].index("gelu")
    wanted = [shown["mlp.py"], shown["Dynamo graph"], shown["cpp_fused_gelu_0"], shown["make_fx"]]
    lit = linked_places(session, Place(graph, row), wanted)
    assert lit[shown["mlp.py"]] == {13}
    nodes = session.nodes(session.get(model.Graph, shown["Dynamo graph"].id))
    assert {nodes[one].name for one in lit[wanted[1]]} >= {"linear", "hidden"}
    assert lit[shown["cpp_fused_gelu_0"]]
    assert lit[shown["make_fx"]]


def test_refusals_are_in_outline_and_report(breaks: Path, reader: OpenedReader) -> None:
    session = reader(breaks)
    refused = [entry for entry in outline(session) if entry.title in TITLES]
    assert [entry.detail for entry in refused] == ["refused at graph_breaks.py:24"] * 3
    for told in json_report(session)["front_ends"]:  # type: ignore[attr-defined]
        assert told["state"] == "refused"
        assert (Path(told["file"]).name, told["line"]) == ("graph_breaks.py", 24)
        assert told["explanation"]
        assert told["advice"]


def test_the_report_has_counts_by_operator_and_by_line(
    mlp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(mlp), "--format", "json"]) == 0
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["front_ends"]
    by_name = {one["name"]: one for one in told}
    assert by_name["export"]["ops"] == {"aten.linear.default": 2, "aten.gelu.default": 1}
    assert by_name["export"]["opcodes"] == {"placeholder": 5, "call_function": 3, "output": 1}
    assert [
        (one["line"], one["dynamo"], one["front_end"]) for one in by_name["make_fx"]["lines"]
    ] == [
        (14, ["linear", "gelu"], ["t", "addmm", "gelu"]),
        (15, ["linear"], ["t", "addmm"]),
    ]


def test_a_front_ends_graph_is_code_too(mlp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(mlp), "torch.export.export"]) == 0
    printed = capsys.readouterr().out
    compile(printed, "graph.py", "exec")
    assert "torch.ops.aten.gelu.default(linear)" in printed


def test_a_script_is_told_to_name_its_function(captured: Captured, reader: OpenedReader) -> None:
    rows = reader(captured("script", frontend="export")).rows(model.FrontEnd)
    assert [row.state for row in rows] == ["refused"]
    assert "A script is not one function" in rows[0].error


def test_an_unknown_front_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["capture", "m.py", "--frontend", "jit"])
    assert ended.value.code == 2
    assert (
        "'jit' is not a front end; there are symbolic_trace, export, make_fx"
        in capsys.readouterr().err
    )


async def test_the_preset_puts_them_side_by_side(mlp: Path, open_app: OpenApp) -> None:
    async with open_app(mlp, (220, 50)) as driver:
        await driver.press("p", "e")
        assert [pane.document.title for pane in driver.panes] == ["mlp.py", "Dynamo graph", *TITLES]
        await driver.press("tab", "g", "j", "j", "j", "j", "j", "j")
        assert all(pane.body.marks for pane in driver.panes[2:])
        await driver.press("1")
        assert "torch.export.export: One graph of 9 nodes" in driver.facts


async def test_a_pane_says_why_its_front_end_refused(breaks: Path, open_app: OpenApp) -> None:
    async with open_app(breaks, (220, 50)) as driver:
        await driver.press("p", "e")
        assert "graph_breaks.py:24" in driver.screen


def test_a_nested_graph_of_export_is_below_it(
    captured: Captured, tmp_path: Path, reader: OpenedReader
) -> None:
    file = tmp_path / "branches.py"
    file.write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y.cos(), (x,))\n"
        "example_inputs = (torch.ones(3),)\n"
    )
    session = reader(captured(file, frontend="export", backend="eager"))
    assert [one.title for one in documents(session)][-3:] == [
        "torch.export.export",
        "torch.export.export · true_graph_0",
        "torch.export.export · false_graph_0",
    ]
    assert (
        document_of(session, "code", session.rows(model.FrontEnd)[0].graph).title
        == "torch.export.export · as Python"
    )
