"""These tests check many reports on one session: two numbers for the same fact are equal, or say
what each counts.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.whole_session import session_figures, totals
from fx_explorer.command_line.narrated_capture import amounts
from fx_explorer.instruments.modules.tree import module_tree
from fx_explorer.model import Compilation, Graph, Kernel, Node, Stage
from fx_explorer.overview.overview import overview
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import captured_operations
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.tui.panes.table_rows import arranged, at_once
from fx_explorer.tui.screens.pipeline_bar import pipeline
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import in_exhaustive_runs

SAMPLES = Path(__file__).parents[2] / "sample_models"

BREAKS = """
import torch


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.up(x))
        print(hidden.shape)
        return self.down(hidden).relu()


torch.compile(MLP())(torch.ones(8, 16)).sum().backward()
"""


@dataclass(frozen=True)
class Reports:
    """Reports are the outputs of all reports on one session."""

    reader: SessionReader
    facts: Sequence[Fact]
    bar: dict[str, tuple[str, ...]]
    json: dict

    def told(self, topic: str) -> str:
        """Return the overview's sentences on a topic, without the last sentence, which repeats
        another.
        """
        return "\n".join(
            f"{one.text} {one.detail}" for one in self.facts[:-1] if one.topic == topic
        )

    def notice(self, view: str) -> str:
        return TABLES[view](self.reader).notice

    def modules(self) -> str:
        """Return the text below the table of modules: the totals of all of them."""
        return at_once(arranged(TABLES["modules"](self.reader), None, "")).totals

    def operations(self, stage: Stage, direction: str = "") -> int:
        """Return the number of call nodes, counted one by one."""
        graphs = self.reader.rows(
            Graph, stage=stage, **({"direction": direction} if direction else {})
        )
        graphs = [one for one in graphs if not one.name]
        nodes = (node for one in graphs for node in self.reader.rows(Node, graph=one.id))
        return sum(node.op.startswith("call_") for node in nodes)

    def stages(self, pattern: str) -> int:
        """The numbers that the stages of each compilation say, added up."""
        sentences = "\n".join(stage["sentence"] for stage in self.json["stages"])
        return sum(map(number, re.findall(pattern, sentences)))


def number(text: str) -> int:
    return int(text.replace(",", ""))


def first(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, (pattern, text)
    return number(found[1])


@pytest.fixture(scope="module", params=["transformer.py", "gpt2.py", "breaks.py"])
def reports(
    request: pytest.FixtureRequest,
    captured: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Reports]:
    program = SAMPLES / request.param
    if request.param == "gpt2.py":
        program = Path(__file__).parent / "models" / request.param
    if request.param == "breaks.py":
        program = tmp_path_factory.mktemp("truth") / request.param
        program.write_text(BREAKS)
    with SessionReader(captured(program)) as reader:
        bar = {step.name: step.figures for step in pipeline(reader)}
        yield Reports(reader, overview(reader), bar, json_report(reader))


def test_graphs_and_breaks(reports: Reports) -> None:
    totals = reports.json["totals"]
    assert first(r"(\d+) graph", reports.bar["Dynamo"][0]) == totals["graphs"]
    assert first(r"(\d+) break", reports.bar["Dynamo"][1]) == totals["graph_breaks"]
    assert len(reports.json["graph_breaks"]) == totals["graph_breaks"]
    assert len(reports.reader.rows(Graph, stage="dynamo")) == totals["graphs"]
    if totals["graphs"] > 1:
        assert first(r"became (\d+) graphs", reports.told("graphs")) == totals["graphs"]


def test_operations_that_dynamo_captured(reports: Reports) -> None:
    captured = reports.operations("dynamo")
    assert first(r"([\d,]+) operations", reports.told("graphs")) == captured
    assert reports.stages(r"of source, .*? became ([\d,]+) operation") == captured
    assert f" · operations {captured:,} · " in reports.modules()
    assert captured == sum(
        sum(graph["ops"].values())
        for compilation in reports.json["compilations"]
        for graph in compilation["graphs"]
        if graph["stage"] == "dynamo"
    )


def test_operations_of_aotautograd_and_inductor(reports: Reports) -> None:
    forward, backward = reports.bar["AOTAutograd"][:2]
    assert first(r"fwd ([\d,]+)", forward) == reports.operations("forward")
    assert first(r"bwd ([\d,]+)", backward) == reports.operations("backward")
    assert reports.stages(r"became ([\d,]+) in the forward") == reports.operations("forward")
    assert reports.stages(r"and ([\d,]+) in the backward") == reports.operations("backward")
    inductor = first(r"([\d,]+) ops", reports.bar["Inductor"][0])
    assert inductor == reports.operations("post_grad")


def test_kernels_and_what_they_do(reports: Reports) -> None:
    kernels, notice = reports.told("kernels"), reports.notice("kernels")
    total = reports.json["totals"]["kernels"]
    assert number(reports.bar["Kernels"][0]) == total
    for what in ("generated kernel", "library call"):
        told = re.findall(rf"([\d,]+) {what}", kernels)
        assert sum(map(number, told)) == first(rf"([\d,]+) {what}", notice)
    assert total == sum(map(number, re.findall(r"([\d,]+) (?:generated|library)", notice)))
    work = {node for nodes in kernel_nodes(reports.reader).values() for node in nodes}
    views = {node.id for node in reports.reader.by_ids(Node, work) if node.is_view}
    code = [
        one["sentence"] for one in reports.json["stages"] if "Code generation" in one["sentence"]
    ]
    done = r"([\d,]+) (?:shares? a step|shares? a kernel|has its own \w+|have their own \w+|(?:is|are) computed in several \w+)"
    assert sum(map(number, re.findall(done, "\n".join(code)))) == len(work - views)
    generated = {one.id for one in reports.reader.rows(Kernel) if one.language != "extern"}
    by_kernel = kernel_nodes(reports.reader)
    in_generated = {node for kernel in generated for node in by_kernel.get(kernel, ())} - views
    assert sum(map(number, re.findall(r"doing ([\d,]+) operation", kernels))) == len(in_generated)


def test_guards(reports: Reports) -> None:
    checks = first(r"([\d,]+) guard", reports.bar["Dynamo"][2])
    assert first(r"as its guards hold[:,] ([\d,]+)", reports.told("recompiles")) == checks
    assert first(r"([\d,]+) checks? for", reports.notice("guards")) == checks
    assert sum(one["guards"] for one in reports.json["compilations"]) == checks


def test_what_is_saved_and_what_is_computed_again(reports: Reports) -> None:
    saves = reports.bar["AOTAutograd"][2].removeprefix("saves ")
    assert f"storages, {saves}; of these" in reports.notice("memory")
    computed = re.search(r"of these (.*?) were computed", reports.notice("memory"))
    assert computed
    assert f"saves {computed[1]} it computed" in reports.told("memory")
    again = re.search(r"(\d+) operations? \(", reports.notice("memory"))
    in_both = reports.stages(r"([\d,]+) in both, so recomputed")
    views = reports.stages(r"recomputed \(([\d,]+) of them")
    assert (number(again[1]) if again else 0) == in_both - views
    assert f" · saved {saves} · " in reports.modules()


def test_compile_time(reports: Reports) -> None:
    told = re.search(r"Compiling took (\S+ m?s)\.", reports.told("time"))
    assert told
    for view in ("time", "flame"):
        assert reports.notice(view).startswith(f"{told[1]} in all")
    total_s = reports.json["totals"]["compile_s"]
    spent = [one["total_s"] for one in reports.json["compilations"]]
    assert sum(spent) == pytest.approx(total_s, rel=0.01)


STARTS_AGAIN = """
import torch
from torch._dynamo.utils import counters

def normalise(x, history):
    y = x / x.norm()
    history.append(float(y.sum()))
    print("sum", history[-1])
    return torch.relu(y) @ y.T

step = torch.compile(normalise, backend="aot_eager")
history = []
for rows in (4, 6, 8):
    step(torch.randn(rows, 16), history)
print("graphs:", counters["stats"]["unique_graphs"])
"""
"""A number that AOTAutograd turns into a constant: Dynamo starts the frame again, and has made a
graph by then.
"""


CONSTANT_WHILE_TRACED = """
import torch
from torch._dynamo.utils import counters
from torch._dynamo.backends.registry import lookup_backend

aot_eager = lookup_backend("aot_eager")
operations = []

def counting(module, inputs):
    compiled = aot_eager(module, inputs)  # raises where Dynamo has to start again
    operations.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
    return compiled

class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 4)

    def forward(self, x, slope):
        return torch.nn.functional.leaky_relu(self.up(x).sin(), slope).cos()

step = torch.compile(Gate(), backend=counting)
for slope in (0.1, 0.2, 0.3):
    step(torch.randn(4, 4), slope)
print("counted:", counters["stats"]["unique_graphs"], sum(operations))
"""
"""A number that AOTAutograd cannot leave open: the graph that it was given had operations."""


def test_operations_of_an_attempt_that_started_again_are_counted_nowhere(
    captured: Captured, reader: OpenedReader, tmp_path: Path, bare_python: str
) -> None:
    program = tmp_path / "constant.py"
    program.write_text(CONSTANT_WHILE_TRACED)
    command = [bare_python, str(program)]
    bare = subprocess.run(command, capture_output=True, text=True, check=True)
    graphs, operations = map(int, bare.stdout.rpartition("counted: ")[2].split())
    opened = reader(captured(program))
    attempts = {row.id for row in opened.rows(Compilation, status="restarted")}
    of_attempts = [row for row in opened.rows(Graph, stage="dynamo") if row.compilation in attempts]
    assert sum(row.call_count for row in of_attempts) > 0
    assert totals(opened).graphs == graphs
    assert captured_operations(opened) == session_figures(opened).operations == operations
    tree = module_tree(opened)
    assert sum(row.own.operations for row in tree.rows) == operations
    assert sum(row.own.compile_s for row in tree.rows) == pytest.approx(totals(opened).compile_s)
    text = " ".join(fact.text for fact in overview(opened))
    assert f"became {graphs} graphs with {operations} operations" in text

    report = json_report(opened)
    named = {row.name: row.status == "restarted" for row in opened.rows(Compilation)}
    for part in ("stages", "symbols"):
        marked = {entry["compilation"]: entry["restarted"] for entry in report[part]}
        assert True in marked.values(), f"{part}: it is shown, and marked"
        assert marked == {name: named[name] for name in marked}
    made = [entry for entry in report["stages"] if entry["stage"] == "dynamo"]
    assert sum(entry["after"] for entry in made if not entry["restarted"]) == operations
    counted = [entry for entry in report["symbols"] if not entry["restarted"]]
    free = [entry for entry in counted if entry["became"] is None]
    notice = TABLES["sizes"](opened).notice
    assert number(notice.partition(" ")[0]) == len(free)
    assert f"; {len(counted) - len(free)} could have" in notice


@in_exhaustive_runs
def test_a_graph_of_an_attempt_that_started_again_is_counted_nowhere(
    captured: Captured, reader: OpenedReader, tmp_path: Path, bare_python: str
) -> None:
    program = tmp_path / "starts_again.py"
    program.write_text(STARTS_AGAIN)
    command = [bare_python, str(program)]
    bare = subprocess.run(command, capture_output=True, text=True, check=True)
    graphs = int(bare.stdout.rpartition("graphs: ")[2])
    session = captured(program)
    opened = reader(session)
    assert opened.has(Compilation, status="restarted")
    assert opened.count(Graph, stage="dynamo", parent=0) > graphs
    assert totals(opened).graphs == graphs
    assert amounts(session, 1.0).startswith(f"in 1.00 s: {graphs} graphs, ")
    assert any(f"became {graphs} graphs" in fact.text for fact in overview(opened))
